//! The jobs that end a run: finished, denied, cancelled.

use countersign_domain::{
    Actor, Approval, ApprovalState, ApprovalStatus, Observed, ProcessKind, Reason, Run, RunEnd, RunId,
    RunStatus, TerminalReason, UnixMillis,
};
use countersign_sys::spool;

use super::{
    approval_end, approvals,
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    run_end::{EndOutcome, deny_run, end_run, not_started},
    run_rows,
    session_notice::tell_session,
    session_rows,
    sql::json,
    tx::Tx,
};

/// The most output that is kept in the ledger itself, 64 KiB; more lies in the spool. Frames of one byte each, as a
/// command makes them that writes to both streams in turn, have heads that are longer than that.
pub(super) const INLINE_OUTPUT: usize = spool::FRAMED_BYTE * 64 * 1024;

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
    /// The run to end; refused where the end cannot follow its state.
    pub run_id: RunId,
    /// The final state, exit and output size to record.
    pub end: RunEnd,
    /// Where its output is.
    pub output: RunOutput,
    /// Codes of warnings that belong to the run, besides those that it has.
    pub warnings: Vec<String>,
    /// The process session that holds what it left running, if that goes on.
    pub leftovers: Option<String>,
    /// What was seen of the programs that it started.
    pub observed: Option<Observed>,
    /// What its session is told, if it is a process session or was on a node; `None` to tell nothing.
    pub notice: Option<String>,
}

/// What became of an end, and the run as it then stood.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// What became of it.
    pub outcome: EndOutcome,
    /// The run with this end; `None` when the end was not applied.
    pub run: Option<Box<Run>>,
}

impl Ledger {
    /// Ends a run, and says how it then stood.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was, and it must be tried again.
    #[crate::compiled_once]
    pub async fn finish(&self, finish: Finish) -> Result<Finished, LedgerError> {
        self.queue.submit(finish).await
    }

    /// Denies a run that was admitted and then must not start after all.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn deny(
        &self,
        run_id: RunId,
        reason: Reason,
        detail: Option<String>,
    ) -> Result<EndOutcome, LedgerError> {
        self.queue
            .submit(Deny {
                run_id,
                reason,
                detail,
            })
            .await
    }

    /// Cancels a run that has not started, and its pending approval. `reason`: `cancelled` or `shutdown`.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn cancel(
        &self,
        run_id: RunId,
        reason: Reason,
        by: Actor,
    ) -> Result<CancelOutcome, LedgerError> {
        self.queue
            .submit(Cancel {
                run_id,
                reason,
                by,
                if_left: false,
            })
            .await
    }

    /// Withdraws a question that calls had joined, after the last of its callers went away, unless another call joined it
    /// since.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn withdraw_left(&self, run_id: RunId, by: Actor) -> Result<CancelOutcome, LedgerError> {
        self.queue
            .submit(Cancel {
                run_id,
                reason: Reason::Cancelled,
                by,
                if_left: true,
            })
            .await
    }
}

impl Change for Finish {
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
            observed,
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
            run_rows::warn(tx, run_id, code)?;
        }
        if let Some(observed) = observed {
            tx.execute(
                "UPDATE runs SET observed = ?2 WHERE run_id = ?1",
                (run_id.as_str(), json(observed)),
            )?;
        }
        if let Some(session_id) = leftovers {
            session_rows::insert(tx, run_id, session_id, ProcessKind::Leftovers)?;
        }
        if let Some(text) = notice {
            let is_session = session_rows::is_session(tx.connection, run_id)?;
            tell_session(tx, run_id, text, is_session)?;
        }
        // Read where its page is at hand: over another connection it costs several times as much.
        let run = run_rows::fetch_run(tx.connection, run_id)?.map(Box::new);
        Ok(Finished { outcome, run })
    }
}

/// Denies a run that was admitted and then must not start after all.
struct Deny {
    run_id: RunId,
    reason: Reason,
    detail: Option<String>,
}

impl Change for Deny {
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
}

/// Cancels a run that has not started, and its approval if one is pending.
struct Cancel {
    run_id: RunId,
    reason: Reason,
    by: Actor,
    /// Only a question that nobody waits for.
    if_left: bool,
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
    /// No run has this id.
    NotFound,
}

impl Change for Cancel {
    type Answer = CancelOutcome;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        // A power loss must not bring back an approval that its asker withdrew.
        Durability::Full
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<CancelOutcome, Fault> {
        let Some(run) = run_rows::brief(tx.connection, &self.run_id)? else {
            return Ok(CancelOutcome::NotFound);
        };
        if self.if_left && tx.context.waiting.is_shared(&self.run_id) {
            // Another call joined it in between.
            return Ok(CancelOutcome::Ended(run.status));
        }
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
            cancelled = Some(Box::new(approval_end::end_undecided(
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
}

fn cancelled_end(reason: Reason, now: UnixMillis) -> RunEnd {
    RunEnd {
        status: RunStatus::Cancelled,
        reason: Some(reason),
        ..not_started(now)
    }
}
