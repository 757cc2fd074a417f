//! What happens to a run between its launch and its end.

use countersign_domain::{Actor, Host, ProcessKind, RunId, RunStatus, UnixMillis};

use crate::events::{Event, EventKind, system_text};

use super::{
    config::{Durability, Tuning},
    error::Fault,
    job::Job,
    notice, run_rows, session_rows,
    sql::exactly_one,
    tx::{Committed, Tx},
};

/// A run has started. Rides with the next batch and never forces a commit of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub run_id: RunId,
    /// First process.
    pub pid: Option<i32>,
    /// The process session, for a run that starts in the background.
    pub session_id: Option<String>,
    pub at: UnixMillis,
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
    let text = system_text::exec_started(notice::run_host_of(&subject), run_id);
    notice::tell(tx, subject, text)
}

/// A run outlives its caller from now on: as a session, once it has started.
pub(super) struct Background {
    pub(super) run_id: RunId,
    pub(super) session_id: Option<String>,
}

impl Job for Background {
    type Draft = bool;
    type Answer = bool;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let changed = tx.execute(
            "UPDATE runs SET background = 1, session_id = coalesce(?2, session_id) \
             WHERE run_id = ?1 AND status IN ('requested', 'asking', 'launching', 'running')",
            (self.run_id.as_str(), &self.session_id),
        )?;
        if let (1, Some(session_id)) = (changed, &self.session_id) {
            session_rows::insert(tx, &self.run_id, session_id, ProcessKind::Run)?;
        }
        Ok(changed == 1)
    }

    fn committed(self, draft: bool, _proof: &Committed) -> bool {
        draft
    }
}
