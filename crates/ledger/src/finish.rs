//! The ends of a run: finished, denied, cancelled. Each is a compare-and-swap by the states that may precede it.

use countersign_domain::{
    Actor, Approval, ApprovalState, ApprovalStatus, Host, ProcessKind, Reason, Run, RunDecision, RunEnd,
    RunId, RunLocality, RunStatus, TerminalReason, UnixMillis,
};
use countersign_sys::spool;

use crate::events::{
    Event, EventKind, RunSummary, Subject,
    system_text::{self, RunHost},
};

use super::{
    approvals,
    config::{Durability, Tuning},
    decide,
    error::Fault,
    launch::not_started,
    queue::Job,
    runs::{self, Brief},
    sessions,
    sql::exactly_one,
    tx::{Committed, Tx},
};

/// The most output that is kept in the ledger itself, 64 KiB; more lies in the spool. Frames of one byte each, as a
/// command makes them that writes to both streams in turn, have heads that are longer than that.
pub(super) const INLINE_OUTPUT: usize = (spool::HEADER_BYTES + 1) * 64 * 1024;

/// Where the output of a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunOutput {
    /// Here, in the spool's frames. Above 64 KiB of output it is cut at the limit: hand that over as `Spooled`.
    Inline(Vec<u8>),
    /// In its spool file.
    Spooled,
}

/// The end of a run on its way into the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    pub run_id: RunId,
    pub end: RunEnd,
    /// Where its output is.
    pub output: RunOutput,
    /// Codes of warnings that belong to the run, besides those that it has.
    pub warnings: Vec<String>,
    /// The process session that holds what it left running, if that goes on.
    pub leftovers: Option<String>,
    /// What its session is told, if it is a process session or was on a node; `None` to tell nothing.
    pub notice: Option<String>,
}

/// What became of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndOutcome {
    Applied,
    /// The run is in a state that this end cannot follow; nothing was written.
    Refused(RunStatus),
    NotFound,
}

/// What became of an end, and the run as it then stood.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// What became of it.
    pub outcome: EndOutcome,
    /// The run with this end; `None` when the end was not applied.
    pub run: Option<Box<Run>>,
}

impl Job for Finish {
    type Draft = Finished;
    type Answer = Finished;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Finished, Fault> {
        let Self {
            run_id,
            end,
            output,
            warnings,
            leftovers,
            notice,
        } = self;
        let outcome = end_run(tx, run_id, end, &Actor::system())?;
        if outcome != EndOutcome::Applied {
            return Ok(Finished { outcome, run: None });
        }
        match output {
            RunOutput::Inline(frames) if frames.is_empty() => {}
            RunOutput::Inline(frames) => {
                let kept = frames.get(..INLINE_OUTPUT).unwrap_or(frames);
                tx.execute(
                    "INSERT OR REPLACE INTO outputs (run_id, frames) VALUES (?1, ?2)",
                    (run_id.as_str(), kept),
                )?;
            }
            RunOutput::Spooled => {
                tx.execute(
                    "UPDATE runs SET spooled = 1 WHERE run_id = ?1",
                    (run_id.as_str(),),
                )?;
            }
        }
        for code in warnings {
            runs::warn(tx, run_id, code)?;
        }
        if let Some(session_id) = leftovers {
            sessions::insert(tx, run_id, session_id, ProcessKind::Leftovers)?;
        }
        if let Some(text) = notice {
            let is_session = sessions::is_session(tx.connection, run_id)?;
            tell_session(tx, run_id, text, is_session)?;
        }
        // Read where its page is at hand: over another connection it costs several times as much.
        let run = runs::fetch_run(tx.connection, run_id)?.map(Box::new);
        Ok(Finished { outcome, run })
    }

    fn committed(self, draft: Finished, _proof: &Committed) -> Finished {
        draft
    }
}

/// Tells the session of a run that the run has ended, and asks for its agent's attention if nobody waits for the run.
/// Of a run that a caller waits for, the session is told only if the run is on a node: every run there is told of
/// (`docs/spec/bridge.md#13-ours`).
fn tell_session(tx: &mut Tx<'_>, id: &RunId, text: &str, is_session: bool) -> Result<(), Fault> {
    let run = runs::brief(tx.connection, id)?;
    let Some(run) = run.filter(|run| is_session || run.subject.host == Some(Host::Node)) else {
        return Ok(());
    };
    let told = EventKind::SystemEvent {
        text: text.to_owned(),
    };
    let wake = EventKind::SessionWake {
        system_event: text.to_owned(),
    };
    for kind in [Some(told), is_session.then_some(wake)].into_iter().flatten() {
        let subject = run.subject.clone();
        tx.log(Event { subject, kind }, &Actor::system())?;
    }
    Ok(())
}

/// Tells a session something.
pub(super) fn tell(tx: &mut Tx<'_>, subject: Subject, text: String) -> Result<(), Fault> {
    let kind = EventKind::SystemEvent { text };
    tx.log(Event { subject, kind }, &Actor::system())
}

/// Where the run of an event is.
pub(super) fn run_host_of(subject: &Subject) -> RunHost<'_> {
    RunHost {
        host: subject.host.unwrap_or(Host::Gateway),
        node_id: subject.node_id.as_deref(),
    }
}

/// Ends a run and tells of it.
pub(super) fn end_run(tx: &mut Tx<'_>, id: &RunId, end: &RunEnd, by: &Actor) -> Result<EndOutcome, Fault> {
    let RunEnd {
        status,
        reason,
        detail,
        exit_code,
        exit_signal,
        timed_out,
        truncated,
        output_bytes,
        tail,
        ended_at,
    } = end;
    let Some(run) = runs::brief(tx.connection, id)? else {
        return Ok(EndOutcome::NotFound);
    };
    let reach = match run.subject.host {
        Some(Host::Node) => RunLocality::Node,
        Some(Host::Gateway | Host::Sandbox) | None => RunLocality::Here,
    };
    if !run.status.may_end(*status, reach) {
        return Ok(EndOutcome::Refused(run.status));
    }
    let ended = tx.execute(
        "UPDATE runs SET status = ?2, reason = ?3, detail = ?4, exit_code = ?5, exit_signal = ?6, \
         timed_out = ?7, truncated = ?8, output_bytes = ?9, tail = ?10, ended_ms = ?11 \
         WHERE run_id = ?1 AND status = ?12",
        rusqlite::params![
            id.as_str(),
            status.as_str(),
            reason.map(Reason::as_str),
            detail,
            exit_code,
            exit_signal,
            timed_out,
            truncated,
            i64::try_from(*output_bytes).unwrap_or(i64::MAX),
            tail,
            ended_at.get(),
            run.status.as_str(),
        ],
    )?;
    exactly_one(ended)?;
    forget_env(tx, &run)?;
    let duration = |start: UnixMillis| ended_at.get().saturating_sub(start.get()).max(0);
    let summary = RunSummary {
        status: *status,
        exit_code: *exit_code,
        exit_signal: exit_signal.clone(),
        timed_out: *timed_out,
        duration_ms: run.started_at.map_or(0, duration),
        truncated: *truncated,
        output_bytes: *output_bytes,
        tail: tail.clone(),
        reason: *reason,
    };
    let kind = EventKind::ExecFinished(summary);
    tx.log(
        Event {
            subject: run.subject,
            kind,
        },
        by,
    )?;
    Ok(EndOutcome::Applied)
}

/// A run that ends before its launch needs the values of its environment no more.
fn forget_env(tx: &Tx<'_>, run: &Brief) -> Result<(), Fault> {
    let waited = matches!(run.status, RunStatus::Requested | RunStatus::Asking);
    if let (true, Some(approval)) = (waited, &run.subject.approval_id) {
        tx.execute(
            "UPDATE approvals SET env_sealed = NULL WHERE id = ?1",
            (approval.as_str(),),
        )?;
    }
    Ok(())
}

/// Denies a run that has not started and tells of it; does nothing when it is past that.
pub(super) fn deny_run(
    tx: &mut Tx<'_>,
    id: &RunId,
    reason: Reason,
    detail: Option<String>,
    decision: Option<RunDecision>,
    by: &Actor,
) -> Result<EndOutcome, Fault> {
    let Some(run) = runs::brief(tx.connection, id)? else {
        return Ok(EndOutcome::NotFound);
    };
    if run.status.advance(RunStatus::Denied).is_err() {
        return Ok(EndOutcome::Refused(run.status));
    }
    let now = tx.now().get();
    let denied = tx.execute(
        "UPDATE runs SET status = 'denied', reason = ?2, detail = ?3, ended_ms = ?4, \
         verdict = coalesce(?5, verdict), verdict_by = coalesce(?6, verdict_by) \
         WHERE run_id = ?1 AND status = ?7",
        (
            id.as_str(),
            reason.as_str(),
            &detail,
            now,
            decision.map(|decision| decision.verdict.as_str()),
            decision.map(|decision| decision.by.as_str()),
            run.status.as_str(),
        ),
    )?;
    exactly_one(denied)?;
    forget_env(tx, &run)?;
    // A caller who was answered that the run waits or runs hears only in this way that it does not.
    // When a node refuses a run that it has, the engine tells.
    let is_of_node = run.subject.host == Some(Host::Node)
        && matches!(run.status, RunStatus::Launching | RunStatus::Running);
    let is_told =
        !is_of_node && (run.subject.approval_id.is_some() || sessions::is_session(tx.connection, id)?);
    tell_denied(tx, run.subject.clone(), reason, detail, by)?;
    if is_told {
        let text = system_text::exec_denied(run_host_of(&run.subject), id, reason);
        tell(tx, run.subject, text)?;
    }
    Ok(EndOutcome::Applied)
}

/// Tells that a run was denied.
pub(super) fn tell_denied(
    tx: &mut Tx<'_>,
    subject: Subject,
    reason: Reason,
    detail: Option<String>,
    by: &Actor,
) -> Result<(), Fault> {
    tx.log(
        Event {
            subject,
            kind: EventKind::ExecDenied { reason, detail },
        },
        by,
    )
}

/// Denies a run that was admitted and then must not start after all.
pub(super) struct Deny {
    pub(super) run_id: RunId,
    pub(super) reason: Reason,
    pub(super) detail: Option<String>,
}

impl Job for Deny {
    type Draft = EndOutcome;
    type Answer = EndOutcome;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<EndOutcome, Fault> {
        deny_run(
            tx,
            &self.run_id,
            self.reason,
            self.detail.clone(),
            None,
            &Actor::system(),
        )
    }

    fn committed(self, draft: EndOutcome, _proof: &Committed) -> EndOutcome {
        draft
    }
}

/// Cancels a run that has not started, and its approval if one is pending.
pub(super) struct Cancel {
    pub(super) run_id: RunId,
    pub(super) reason: Reason,
    pub(super) by: Actor,
}

/// What became of a cancellation.
#[derive(Debug, Clone, PartialEq)]
pub enum CancelOutcome {
    /// The run is `cancelled`, and so is the approval that was pending for it.
    Cancelled(Option<Box<Approval>>),
    /// The run has permission to start or runs: it must be killed. Nothing was written.
    Started(RunStatus),
    /// The run had ended; nothing was written.
    Ended(RunStatus),
    NotFound,
}

impl Job for Cancel {
    type Draft = CancelOutcome;
    type Answer = CancelOutcome;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        // A power loss must not bring back an approval that its asker withdrew.
        Durability::Full
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<CancelOutcome, Fault> {
        let Some(run) = runs::brief(tx.connection, &self.run_id)? else {
            return Ok(CancelOutcome::NotFound);
        };
        match run.status {
            RunStatus::Launching | RunStatus::Running => return Ok(CancelOutcome::Started(run.status)),
            RunStatus::Requested | RunStatus::Asking => {}
            RunStatus::Completed
            | RunStatus::Failed
            | RunStatus::Denied
            | RunStatus::Cancelled
            | RunStatus::Lost => return Ok(CancelOutcome::Ended(run.status)),
        }
        let stored = match &run.subject.approval_id {
            Some(id) => approvals::fetch_stored(tx.connection, id)?,
            None => None,
        };
        let now = tx.now();
        let mut cancelled = None;
        if let Some(stored) =
            stored.filter(|stored| stored.approval.state.status() == ApprovalStatus::Pending)
        {
            let state = ApprovalState::Cancelled {
                by: self.by.clone(),
                at: now,
            };
            let why = TerminalReason::RunAborted;
            cancelled = Some(Box::new(decide::end_undecided(
                tx,
                &stored,
                state,
                Some(&self.by),
                why,
            )?));
        }
        let end = cancelled_end(self.reason, now);
        end_run(tx, &self.run_id, &end, &self.by)?;
        Ok(CancelOutcome::Cancelled(cancelled))
    }

    fn committed(self, draft: CancelOutcome, _proof: &Committed) -> CancelOutcome {
        draft
    }
}

fn cancelled_end(reason: Reason, now: UnixMillis) -> RunEnd {
    RunEnd {
        status: RunStatus::Cancelled,
        reason: Some(reason),
        ..not_started(now)
    }
}
