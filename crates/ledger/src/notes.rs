//! Notes that ride with the next batch and never force a commit of their own: runs that started, and uses of tokens.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use countersign_domain::{Actor, Host, ProcessKind, RunId, RunStatus, TokenId, UnixMillis};

use crate::events::{Event, EventKind, system_text};

use super::{error::Fault, run_rows, session_notice, session_rows, sql::exactly_one, tx::Tx};

/// Started runs that may wait to be noted. Beyond it the note is dropped: `finish` works from `launching` too.
const MOST_NOTES: usize = 16_384;

/// A run has started. Rides with the next batch and never forces a commit of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The run; nothing happens unless it is `launching`.
    pub run_id: RunId,
    /// First process.
    pub pid: Option<i32>,
    /// The process session, for a run that starts in the background.
    pub session_id: Option<String>,
    /// When its host reported the start.
    pub at: UnixMillis,
}

/// Tokens used since the last time that was written.
pub(super) type TokenUses = BTreeMap<TokenId, UnixMillis>;

/// What is to be written with the next batch.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<NotesState>);

#[derive(Debug, Default)]
struct NotesState {
    /// Whether the writer will look here soon by itself.
    lingering: bool,
    started: Vec<Started>,
    token_uses: TokenUses,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wake {
    Nobody,
    Writer,
}

impl Notes {
    /// Adds a started run, and says whether the writer has to be told.
    pub(super) fn push_started(&self, started: Started) -> Wake {
        let mut notes = self.lock();
        if notes.started.len() >= MOST_NOTES {
            return Wake::Nobody;
        }
        notes.started.push(started);
        if mem::replace(&mut notes.lingering, true) {
            Wake::Nobody
        } else {
            Wake::Writer
        }
    }

    /// Says that the writer will look for notes soon, so that nobody wakes it for one.
    pub(super) fn linger(&self) {
        self.lock().lingering = true;
    }

    /// Takes the started runs and stops lingering.
    pub(super) fn take_started(&self) -> Vec<Started> {
        let mut notes = self.lock();
        notes.lingering = false;
        mem::take(&mut notes.started)
    }

    /// Puts notes back that could not be written.
    pub(super) fn put_back(&self, mut started: Vec<Started>) {
        let mut notes = self.lock();
        started.append(&mut notes.started);
        started.truncate(MOST_NOTES);
        notes.started = started;
    }

    /// Adds a use of a token.
    pub(super) fn push_token_use(&self, token: TokenId, at: UnixMillis) {
        self.lock().token_uses.insert(token, at);
    }

    /// Takes the uses of tokens.
    pub(super) fn take_token_uses(&self) -> TokenUses {
        mem::take(&mut self.lock().token_uses)
    }

    fn lock(&self) -> MutexGuard<'_, NotesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves a launching run to `running`; a run that is past that stays as it is.
pub(super) fn apply_started(tx: &mut Tx<'_>, note: &Started) -> Result<(), Fault> {
    let Started {
        run_id,
        pid,
        session_id,
        at,
    } = note;
    let run = run_rows::brief(tx.connection, run_id)?.filter(|run| run.status == RunStatus::Launching);
    let Some(run) = run else { return Ok(()) };
    let started = tx.execute(
        "UPDATE runs SET status = 'running', pid = ?2, session_id = coalesce(?3, session_id), started_ms = ?4 \
         WHERE run_id = ?1 AND status = 'launching'",
        (run_id.as_str(), pid, session_id, at.get()),
    )?;
    exactly_one(started)?;
    if let Some(session_id) = session_id {
        session_rows::insert(tx, run_id, session_id, ProcessKind::Run)?;
    }
    let kind = EventKind::ExecStarted {
        pid: *pid,
        started_at: *at,
        session_id: session_id.clone(),
        diverted: run.diverted,
    };
    // Nobody waits for an answer about it. Of a run on a node the engine tells, no matter who waits.
    let is_told =
        run.subject.host != Some(Host::Node) && run.subject.approval_id.is_some() && session_id.is_some();
    let told = is_told.then(|| run.subject.clone());
    tx.log(
        Event {
            subject: run.subject,
            kind,
        },
        &Actor::system(),
    )?;
    let Some(subject) = told else { return Ok(()) };
    let text = system_text::exec_started(session_notice::run_host_of(&subject), run_id);
    session_notice::tell(tx, subject, text)
}

/// Writes down when tokens were last used.
pub(super) fn write_token_uses(tx: &Tx<'_>, uses: &TokenUses) -> Result<(), Fault> {
    for (token, at) in uses {
        tx.execute(
            "UPDATE tokens SET last_used_ms = max(coalesce(last_used_ms, 0), ?2) WHERE id = ?1",
            (token.as_str(), at.get()),
        )?;
    }
    Ok(())
}
