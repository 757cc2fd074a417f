//! The emergency stop. It is in force in memory first, in the switch that every transaction looks at, so that no disk can
//! prevent it; then it is recorded, with the end of every question that waits, so that it outlives the server.
//!
//! What lets something begin asks the switch within its transaction ([`Tx::expect_going`]). [`Ledger::press_stop`]
//! returns once every transaction that may have begun before is over: after that there is no new permit and no new
//! question. Going on is the other way round: recorded first, and in force with the commit.

use std::{path::Path, sync::Arc};

use serde_json::json;
use tokio::sync::watch;

use countersign_domain::{
    Actor, ApprovalId, ApprovalState, DecidedBy, Reason, RunDecision, RunId, RunVerdict, Stop, TerminalReason,
};

use crate::events::{Event, EventKind};

use super::{
    approval_end, approvals,
    audit::{AuditAction, Entry},
    connection::open_at_rest,
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Job,
    rows::Columns,
    run_end,
    run_order::NUMBERS,
    sql::{fetch, json as text, list},
    stop_switch::{Pressed, StopStanding, StopSwitch},
    token_rows,
    tx::{Committed, Tx},
};

impl Ledger {
    /// The stop that is in force.
    pub fn stopped(&self) -> Option<Arc<StopStanding>> {
        self.stop.current()
    }

    /// Follows [`Self::stopped`].
    pub fn watch_stop(&self) -> watch::Receiver<Option<Arc<StopStanding>>> {
        self.stop.watch()
    }

    /// Stops everything in memory, at once. Returns when no permit is made and no question is asked any more; nothing is
    /// recorded yet. With `kills`, what runs is to be killed.
    ///
    /// # Cancel safety
    /// It is in force from the first poll on.
    #[crate::compiled_once]
    pub async fn press_stop(&self, stop: Stop, kills: bool) -> (Arc<StopStanding>, Pressed) {
        loop {
            let pressed = self.stop.press(stop.clone(), kills);
            self.queue.pass().await;
            // A resume may have come meanwhile; this stop came later.
            if let Some(standing) = self.stopped() {
                return (standing, pressed);
            }
        }
    }

    /// Puts the stop that is in force on record and ends every question that waits, as `denied`. Returns the runs that
    /// this denied.
    ///
    /// # Errors
    /// When the ledger cannot be written; the stop is in force all the same, and this must be tried again.
    #[crate::compiled_once]
    pub async fn record_stop(&self) -> Result<Vec<RunId>, LedgerError> {
        let switch = Arc::clone(&self.stop);
        self.queue.submit(RecordStop { switch }).await
    }

    /// Lets everything go on. Where that takes two owners the first call proposes it.
    ///
    /// # Errors
    /// When the ledger cannot be written; then everything stays stopped.
    #[crate::compiled_once]
    pub async fn resume(&self, resume: Resume) -> Result<ResumeOutcome, LedgerError> {
        let switch = Arc::clone(&self.stop);
        self.queue.submit(Resuming { switch, resume }).await
    }
}

/// The stop of a ledger that need not be open. Nothing is changed, and no file is made. What cannot be read is no news of a
/// stop: an earlier version knows none.
pub fn stop_on_record(path: &Path) -> Option<Arc<Stop>> {
    if !path.exists() {
        return None;
    }
    let connection = open_at_rest(path).ok()?;
    let standing = StopSwitch::of_record(&connection).ok()?.current()?;
    Some(Arc::clone(&standing.stop))
}

struct RecordStop {
    switch: Arc<StopSwitch>,
}

/// What was written of a stop.
struct Recorded {
    stop: Arc<Stop>,
    denied: Vec<RunId>,
}

impl Job for RecordStop {
    type Draft = Option<Recorded>;
    type Answer = Vec<RunId>;

    fn is_long(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<Recorded>, Fault> {
        match self.switch.current() {
            Some(standing) => record(tx, &standing).map(Some),
            None => Ok(None),
        }
    }

    fn committed(self, draft: Option<Recorded>, _proof: &Committed) -> Vec<RunId> {
        draft.map_or_else(Vec::new, |Recorded { stop, denied }| {
            self.switch.amend(&stop, |standing| standing.is_durable = true);
            denied
        })
    }
}

/// Puts a stop on record, unless it is there, and ends what waits.
fn record(tx: &mut Tx<'_>, standing: &StopStanding) -> Result<Recorded, Fault> {
    let StopStanding { stop, killed_by, .. } = standing;
    let is_there = fetch(tx.connection, "SELECT id FROM stop", (), |row| {
        Ok(row.get::<_, i64>(0)?)
    })?
    .is_some();
    if is_there {
        record_kill(tx, killed_by.as_ref())?;
    } else {
        tx.execute(
            "INSERT INTO stop (id, by_json, at_ms, reason, killed_json) VALUES (1, ?1, ?2, ?3, ?4)",
            (
                text(&stop.by),
                stop.at.get(),
                &stop.reason,
                killed_by.as_ref().map(text),
            ),
        )?;
        let kind = EventKind::ExecStopped {
            by: stop.by.clone(),
            at: stop.at,
            reason: stop.reason.clone(),
            kills: killed_by.is_some(),
        };
        tx.log(Event::general(kind), &stop.by)?;
    }
    let mut denied = deny_pending(tx, stop)?;
    denied.append(&mut deny_allowed(tx, stop)?);
    Ok(Recorded {
        stop: Arc::clone(stop),
        denied,
    })
}

/// Puts on record who had what runs killed after everything was stopped already.
fn record_kill(tx: &mut Tx<'_>, by: Option<&Actor>) -> Result<(), Fault> {
    let Some(by) = by else { return Ok(()) };
    let changed = tx.execute(
        "UPDATE stop SET killed_json = ?1 WHERE killed_json IS NULL",
        (text(by),),
    )?;
    if changed == 0 {
        return Ok(());
    }
    tx.audit(&Entry::done(
        AuditAction::StopKills,
        "server",
        "countersign",
        by,
        json!({}),
    ))
}

/// Ends the questions that wait.
fn deny_pending(tx: &mut Tx<'_>, stop: &Stop) -> Result<Vec<RunId>, Fault> {
    let pending: Vec<ApprovalId> = list(
        tx.connection,
        "SELECT id FROM approvals WHERE status = 'pending' ORDER BY seq",
        (),
        |row| Columns::of("approvals", row).word(),
    )?;
    let mut denied = Vec::with_capacity(pending.len());
    for id in pending {
        let Some(stored) = approvals::fetch_stored(tx.connection, &id)? else {
            continue;
        };
        let state = ApprovalState::Denied {
            by: stop.by.clone(),
            at: tx.now(),
            reason: Some(stop.reason.clone()),
            why: TerminalReason::Stopped,
        };
        let approval =
            approval_end::end_undecided(tx, &stored, state, Some(&stop.by), TerminalReason::Stopped)?;
        deny(tx, &approval.run_id, stop)?;
        denied.push(approval.run_id);
    }
    Ok(denied)
}

/// Ends what was allowed and has no permission yet. It must not start when everything goes on.
fn deny_allowed(tx: &mut Tx<'_>, stop: &Stop) -> Result<Vec<RunId>, Fault> {
    let sql = format!("SELECT run_id FROM runs WHERE seq IN {NUMBERS} AND status = 'requested' ORDER BY seq");
    let allowed: Vec<RunId> = list(tx.connection, &sql, (), |row| Columns::of("runs", row).word())?;
    for run in &allowed {
        deny(tx, run, stop)?;
    }
    Ok(allowed)
}

fn deny(tx: &mut Tx<'_>, run: &RunId, stop: &Stop) -> Result<(), Fault> {
    let decision = RunDecision {
        verdict: RunVerdict::Deny,
        by: DecidedBy::Person,
    };
    run_end::deny_run(
        tx,
        run,
        Reason::Stopped,
        Some(stop.words()),
        Some(decision),
        &stop.by,
    )?;
    Ok(())
}

/// Letting everything go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The admin who resumes, or proposes it where it takes two owners.
    pub by: Actor,
    /// Why, in their words.
    pub reason: String,
    /// How many owners that takes.
    pub takes: Takes,
}

/// How many owners it takes to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// One admin is enough.
    One,
    /// An admin of another owner than the one who proposed it.
    Two,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResumeOutcome {
    /// Everything goes on; questions that the stop ended stay denied.
    Resumed {
        /// The stop that ended.
        stop: Arc<Stop>,
        /// Who proposed it, where it took two.
        proposed_by: Option<Actor>,
    },
    /// It waits for an admin of another owner than this one; everything stays stopped.
    Waits {
        /// The admin who proposed it; another owner must make the same call.
        proposed_by: Actor,
    },
    /// Nothing was stopped; nothing was written.
    NotStopped,
}

struct Resuming {
    switch: Arc<StopSwitch>,
    resume: Resume,
}

impl Job for Resuming {
    type Draft = ResumeOutcome;
    type Answer = ResumeOutcome;

    fn is_long(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<ResumeOutcome, Fault> {
        let Resume { by, reason, takes } = &self.resume;
        let Some(standing) = self.switch.current() else {
            return Ok(ResumeOutcome::NotStopped);
        };
        // A stop that no disk took yet ends on record, too.
        record(tx, &standing)?;
        let by = owned(tx, by)?;
        let proposed_by = match takes {
            Takes::One => None,
            Takes::Two => match proposal(tx)? {
                Some(proposer) if !proposer.is_same_person(&by) => Some(proposer),
                Some(proposed_by) => return Ok(ResumeOutcome::Waits { proposed_by }),
                None => {
                    propose(tx, &by, reason)?;
                    return Ok(ResumeOutcome::Waits { proposed_by: by });
                }
            },
        };
        tx.execute("DELETE FROM stop", ())?;
        let kind = EventKind::ExecResumed {
            by: by.clone(),
            reason: reason.clone(),
            proposed_by: proposed_by.clone(),
            stopped_at: standing.stop.at,
        };
        tx.log(Event::general(kind), &by)?;
        Ok(ResumeOutcome::Resumed {
            stop: Arc::clone(&standing.stop),
            proposed_by,
        })
    }

    fn committed(self, draft: ResumeOutcome, _proof: &Committed) -> ResumeOutcome {
        match &draft {
            ResumeOutcome::Resumed { .. } => self.switch.release(),
            ResumeOutcome::Waits { proposed_by } => {
                if let Some(standing) = self.switch.current() {
                    self.switch.amend(&standing.stop, |standing| {
                        standing.is_durable = true;
                        standing.resume_proposed_by = Some(proposed_by.clone());
                    });
                }
            }
            ResumeOutcome::NotStopped => {}
        }
        draft
    }
}

/// Who proposed to go on. What a token said that was revoked since does not count.
fn proposal(tx: &Tx<'_>) -> Result<Option<Actor>, Fault> {
    let proposer: Option<Actor> = fetch(tx.connection, "SELECT id, resume_json FROM stop", (), |row| {
        let mut columns = Columns::of("stop", row);
        let _id: i64 = columns.take()?;
        columns.maybe_json()
    })?
    .flatten();
    let Some(proposer) = proposer else { return Ok(None) };
    let token = match proposer.token() {
        Some(id) => token_rows::fetch_token(tx.connection, &id)?,
        None => None,
    };
    let is_revoked = token.is_some_and(|token| token.revoked_at.is_some());
    Ok((!is_revoked).then_some(proposer))
}

fn propose(tx: &mut Tx<'_>, by: &Actor, reason: &str) -> Result<(), Fault> {
    tx.execute("UPDATE stop SET resume_json = ?1", (text(by),))?;
    let detail = json!({ "reason": reason });
    tx.audit(&Entry::done(
        AuditAction::ResumeProposed,
        "server",
        "countersign",
        by,
        detail,
    ))
}

/// The same with the owner of its token.
fn owned(tx: &Tx<'_>, by: &Actor) -> Result<Actor, Fault> {
    let token = match by.token() {
        Some(id) => token_rows::fetch_token(tx.connection, &id)?,
        None => None,
    };
    Ok(by.owned(token.as_ref()))
}
