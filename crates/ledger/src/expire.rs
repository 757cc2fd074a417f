//! The deadline of an approval: expiry and what happens instead are one transaction.

use countersign_domain::{
    Actor, Approval, ApprovalId, ApprovalStanding, ApprovalState, DecidedBy, EntryId, EnvOverrides, Expiring,
    Reason, RunDecision, RunStatus, RunVerdict, TerminalReason,
};

use super::{
    approval_end, approvals,
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    grants,
    handle::Ledger,
    job::Job,
    launch::{LaunchTerms, Permit, Ready, Start},
    run_end, run_rows,
    tx::{Committed, Tx},
    withdraw,
};

/// What happens to a run that a person should have been asked about and was not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one per run, moved and never kept")]
pub enum Fallback {
    /// It is denied.
    Deny {
        /// Why; the run's record and `exec.denied` name it.
        reason: Reason,
        /// The reason in words; `None` where it says enough.
        detail: Option<String>,
    },
    /// It may start, if these terms are still current at the commit.
    Run(LaunchTerms),
}

/// Why a pending approval ends without a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// Its deadline has come.
    Timeout,
    /// Nobody could be reached who answers; its deadline does not matter.
    NoRoute,
}

impl Undecided {
    const fn reason(self) -> TerminalReason {
        match self {
            Self::Timeout => TerminalReason::Timeout,
            Self::NoRoute => TerminalReason::NoRoute,
        }
    }
}

/// Expires a pending approval whose deadline has come, or that nobody is there to answer. After a restart the fallback must be a denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expire {
    /// The approval to end, if it is still pending.
    pub approval: ApprovalId,
    /// What happens to its run.
    pub fallback: Fallback,
    /// Why it ends undecided; `NoRoute` does not wait for the deadline.
    pub why: Undecided,
}

/// What became of it.
#[derive(Debug)]
pub enum ExpireOutcome {
    /// It expired and its run was denied.
    Denied(Box<Approval>),
    /// It expired and its run may start.
    Launched {
        /// Starts the run, with the environment values that the approval held.
        permit: Permit,
        /// The record of the approval.
        approval: Box<Approval>,
    },
    /// The policy changed since the fallback was judged; nothing was written, judge again.
    Stale,
    /// A grant has no use left; nothing was written, judge again without it.
    UsedUp(EntryId),
    /// Its deadline has not come; nothing was written.
    NotDue(Box<Approval>),
    /// It had ended before, or ends with the token that asked.
    Ended(Box<Approval>),
    /// No approval has this id.
    NotFound,
}

impl Ledger {
    /// Ends an approval whose deadline has come, with its fallback.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn expire(&self, expire: Expire) -> Result<ExpireOutcome, LedgerError> {
        self.queue.submit(expire).await
    }
}

#[derive(Debug)]
pub(super) enum ExpireDraft {
    Launched {
        ready: Box<Ready>,
        approval: Box<Approval>,
        env: EnvOverrides,
    },
    Other(ExpireOutcome),
}

impl Job for Expire {
    type Draft = ExpireDraft;
    type Answer = ExpireOutcome;

    fn durability(&self, tuning: &Tuning) -> Durability {
        match &self.fallback {
            // Undone by a loss of power, the question would be open again although its run may have started.
            Fallback::Run(_) => Durability::Full,
            Fallback::Deny { .. } => self.fallback.durability(tuning),
        }
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<ExpireDraft, Fault> {
        let other = |outcome| Ok(ExpireDraft::Other(outcome));
        let Some(stored) = approvals::fetch_stored(tx.connection, &self.approval)? else {
            return other(ExpireOutcome::NotFound);
        };
        if let Some(approval) = withdraw::of_gone_asker(tx, &stored)? {
            return other(ExpireOutcome::Ended(approval));
        }
        let now = tx.now();
        // Whom nobody can reach waits for no deadline.
        let standing = stored.approval.standing(now);
        let standing = ApprovalStanding {
            is_due: standing.is_due || self.why != Undecided::Timeout,
            ..standing
        };
        match standing.expire() {
            Expiring::Expires => {}
            Expiring::NotDue => return other(ExpireOutcome::NotDue(Box::new(stored.approval))),
            Expiring::Ended => return other(ExpireOutcome::Ended(Box::new(stored.approval))),
        }
        let run_id = stored.approval.run_id.clone();
        let expired = ApprovalState::Expired {
            at: now,
            why: self.why.reason(),
        };
        let deny = |tx: &mut Tx<'_>, reason: Reason, detail: Option<String>| {
            let approval =
                approval_end::end_undecided(tx, &stored, expired.clone(), None, self.why.reason())?;
            let decision = RunDecision {
                verdict: RunVerdict::Deny,
                by: DecidedBy::Fallback,
            };
            run_end::deny_run(tx, &run_id, reason, detail, Some(decision), &Actor::system())?;
            other(ExpireOutcome::Denied(Box::new(approval)))
        };
        if let Some(standing) = tx.context.stop.current() {
            return deny(tx, Reason::Stopped, Some(standing.stop.words()));
        }
        let terms = match &self.fallback {
            Fallback::Deny { reason, detail } => return deny(tx, *reason, detail.clone()),
            Fallback::Run(terms) => terms,
        };
        if !tx.is_current(&terms.stamp) {
            return other(ExpireOutcome::Stale);
        }
        if let Some(entry) = grants::used_up(tx, &terms.grants)? {
            return other(ExpireOutcome::UsedUp(entry));
        }
        let digest = terms.binding.digest();
        let env = stored
            .env(&tx.context.keys)
            .filter(|_| digest == stored.binding_digest);
        let run = run_rows::brief(tx.connection, &run_id)?
            .filter(|run| run.status.advance(RunStatus::Launching).is_ok());
        let (Some(env), Some(run)) = (env, run) else {
            return deny(tx, Reason::BindingMismatch, None);
        };
        let start = Start {
            asker: &stored.approval.requested_by,
            not_after: now + terms.start_by,
            binding_digest: run.outlives_caller.then_some(digest),
            isolation: run.isolation,
            node: terms.node.clone(),
        };
        let ready = match Ready::draw(tx, start)? {
            Ok(ready) => ready,
            Err(gone) => return deny(tx, Reason::ApprovalCancelled, Some(gone.to_string())),
        };
        let approval = approval_end::end_undecided(tx, &stored, expired, None, self.why.reason())?;
        ready.write(
            tx,
            &run_id,
            RunDecision {
                verdict: RunVerdict::Run,
                by: DecidedBy::Fallback,
            },
            terms.input,
        )?;
        grants::count(tx, &terms.grants, &run_id)?;
        Ok(ExpireDraft::Launched {
            ready: Box::new(ready),
            approval: Box::new(approval),
            env,
        })
    }

    fn committed(self, draft: ExpireDraft, proof: &Committed) -> ExpireOutcome {
        match (draft, self.fallback) {
            (ExpireDraft::Launched { ready, approval, env }, Fallback::Run(terms)) => {
                let run_id = approval.run_id.clone();
                let permit = ready.into_permit(run_id, terms.into_binding(), env, proof);
                ExpireOutcome::Launched { permit, approval }
            }
            (ExpireDraft::Launched { approval, .. }, Fallback::Deny { .. }) => {
                ExpireOutcome::Denied(approval)
            }
            (ExpireDraft::Other(outcome), _) => outcome,
        }
    }
}
