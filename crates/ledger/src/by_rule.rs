//! A question that waits is settled by the policy: a change made allowed or forbidden what it is about.
//!
//! As with a person's answer one compare-and-swap decides, so exactly one of them counts. As with an expiry that lets
//! something run it is one transaction with the launch: the policy that was judged under is still in force, every grant
//! has a use left, and what would start is what was shown.

use countersign_domain::{
    Actor, Approval, ApprovalDecision, ApprovalId, ApprovalState, ApprovalStatus, DecidedBy, EntryId,
    EnvOverrides, Persist, Reason, RunDecision, RunStatus, RunVerdict, TerminalReason,
};

use super::{
    approval_end,
    approvals::{self, StoredApproval},
    config::{Durability, PolicyStamp, Tuning},
    error::{Fault, LedgerError},
    grants,
    handle::Ledger,
    job::Job,
    launch::{LaunchTerms, Permit, Ready, Start},
    run_end, run_rows,
    sql::exactly_one,
    tx::{Committed, Tx},
    withdraw,
};

/// Settles a question that waits by what the policy says now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleByRule {
    /// The question to settle, if it still waits.
    pub approval: ApprovalId,
    /// What the policy says.
    pub ruling: Ruling,
    /// The rule, and who made it.
    pub by: Actor,
    /// The rule in words.
    pub words: String,
}

/// What the policy says of a command that was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one per run, moved and never kept")]
pub enum Ruling {
    /// It runs, and nobody has to be asked.
    Run(LaunchTerms),
    /// It does not run, no matter who answers.
    Deny {
        /// The policy it was judged under.
        stamp: PolicyStamp,
        /// Why the policy denies it; the run's record keeps it.
        reason: Reason,
    },
}

/// What became of it.
#[derive(Debug)]
pub enum SettleOutcome {
    /// It is allowed and used up; its run may start.
    Launched {
        /// Starts the run, with the environment values that the approval held.
        permit: Permit,
        /// The record of the approval.
        approval: Box<Approval>,
    },
    /// It is denied, and so is its run.
    Denied(Box<Approval>),
    /// The policy changed since it was judged; nothing was written, judge again.
    Stale,
    /// A grant has no use left; nothing was written, judge again without it.
    UsedUp(EntryId),
    /// Only people may settle it, or what would start is not what was shown. Nothing was written; it waits.
    ForPeople,
    /// It does not wait any more: it was answered, has expired, was withdrawn, or ends with the token that asked.
    Over,
}

impl Ledger {
    /// Settles a question that waits by what the policy says now.
    ///
    /// # Errors
    /// When the ledger cannot be written, or everything is stopped; then nothing was.
    #[crate::compiled_once]
    pub async fn settle_by_rule(&self, settle: SettleByRule) -> Result<SettleOutcome, LedgerError> {
        self.queue.submit(settle).await
    }
}

#[derive(Debug)]
pub(super) enum SettleDraft {
    Launched {
        ready: Box<Ready>,
        approval: Box<Approval>,
        env: EnvOverrides,
    },
    Other(SettleOutcome),
}

impl Job for SettleByRule {
    type Draft = SettleDraft;
    type Answer = SettleOutcome;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        // Undone by a loss of power, the question would be open again although its run may have started.
        Durability::Full
    }

    fn needs_reserve(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<SettleDraft, Fault> {
        let other = |outcome| Ok(SettleDraft::Other(outcome));
        let Some(stored) = approvals::fetch_stored(tx.connection, &self.approval)? else {
            return other(SettleOutcome::Over);
        };
        if withdraw::of_gone_asker(tx, &stored)?.is_some() {
            return other(SettleOutcome::Over);
        }
        let standing = stored.approval.standing(tx.now());
        // One whose deadline has come is settled by its fallback.
        if standing.status != ApprovalStatus::Pending || standing.is_due {
            return other(SettleOutcome::Over);
        }
        let stamp = match &self.ruling {
            Ruling::Run(terms) => &terms.stamp,
            Ruling::Deny { stamp, .. } => stamp,
        };
        if !tx.is_current(stamp) {
            return other(SettleOutcome::Stale);
        }
        match &self.ruling {
            Ruling::Run(terms) => self.launch(tx, &stored, terms),
            Ruling::Deny { reason, .. } => {
                let approval = self.deny(tx, &stored, *reason)?;
                other(SettleOutcome::Denied(Box::new(approval)))
            }
        }
    }

    fn committed(self, draft: SettleDraft, proof: &Committed) -> SettleOutcome {
        match (draft, self.ruling) {
            (SettleDraft::Launched { ready, approval, env }, Ruling::Run(terms)) => {
                let run_id = approval.run_id.clone();
                let permit = ready.into_permit(run_id, terms.into_binding(), env, proof);
                // Its scripts are those that people were shown.
                let permit = permit.answered();
                SettleOutcome::Launched { permit, approval }
            }
            (SettleDraft::Launched { approval, .. }, Ruling::Deny { .. }) => SettleOutcome::Denied(approval),
            (SettleDraft::Other(outcome), _) => outcome,
        }
    }
}

impl SettleByRule {
    fn launch(
        &self,
        tx: &mut Tx<'_>,
        stored: &StoredApproval,
        terms: &LaunchTerms,
    ) -> Result<SettleDraft, Fault> {
        let other = |outcome| Ok(SettleDraft::Other(outcome));
        let pending = &stored.approval;
        if pending.is_run_elsewhere() || pending.card.is_for_people() {
            return other(SettleOutcome::ForPeople);
        }
        if let Some(entry) = grants::used_up(tx, &terms.grants)? {
            return other(SettleOutcome::UsedUp(entry));
        }
        let digest = terms.binding.digest();
        let env = stored
            .env(&tx.context.keys)
            .filter(|_| digest == stored.binding_digest);
        let run = run_rows::brief(tx.connection, &pending.run_id)?
            .filter(|run| run.status.advance(RunStatus::Launching).is_ok());
        let (Some(env), Some(run)) = (env, run) else {
            return other(SettleOutcome::ForPeople);
        };
        let at = tx.now();
        let start = Start {
            asker: &pending.requested_by,
            not_after: at + terms.start_by,
            binding_digest: run.outlives_caller.then_some(digest),
            isolation: run.isolation,
            node: terms.node.clone(),
        };
        // It would have been withdrawn above.
        let Ok(ready) = Ready::draw(tx, start)? else {
            return other(SettleOutcome::Over);
        };
        let approval = Approval {
            state: ApprovalState::Allowed {
                decision: ApprovalDecision::AllowOnce,
                by: self.by.clone(),
                at,
                reason: Some(self.words.clone()),
                why: TerminalReason::Rule,
                consumed_at: Some(at),
                persist: Persist::None,
            },
            ..pending.clone()
        };
        let changed = tx.execute(
            "UPDATE approvals SET status = 'allowed', decision = ?2, reason = ?3, resolved_ms = ?4, \
             resolved_kind = ?5, resolved_id = ?6, resolved_name = ?7, terminal_reason = ?8, consumed_ms = ?4, \
             env_sealed = NULL \
             WHERE id = ?1 AND status = 'pending' AND expires_ms > ?4 AND binding_digest = ?9",
            (
                self.approval.as_str(),
                ApprovalDecision::AllowOnce.as_str(),
                &self.words,
                at.get(),
                self.by.kind.as_str(),
                &self.by.id,
                &self.by.name,
                TerminalReason::Rule.as_str(),
                &stored.binding_digest,
            ),
        )?;
        exactly_one(changed)?;
        tx.note_end_of_question(&approval);
        approval_end::tell_resolved(
            tx,
            &approval,
            Some(&self.by),
            Some(self.words.clone()),
            TerminalReason::Rule,
        )?;
        let decision = RunDecision {
            verdict: RunVerdict::Run,
            by: DecidedBy::Policy,
        };
        ready.write(tx, &approval.run_id, decision, terms.input)?;
        grants::count(tx, &terms.grants, &approval.run_id)?;
        Ok(SettleDraft::Launched {
            ready: Box::new(ready),
            approval: Box::new(approval),
            env,
        })
    }

    fn deny(&self, tx: &mut Tx<'_>, stored: &StoredApproval, reason: Reason) -> Result<Approval, Fault> {
        let state = ApprovalState::Denied {
            by: self.by.clone(),
            at: tx.now(),
            reason: Some(self.words.clone()),
            why: TerminalReason::Rule,
        };
        let approval = approval_end::end_undecided(tx, stored, state, Some(&self.by), TerminalReason::Rule)?;
        // Where only the answer was wanted there is a run all the same: the record of the question.
        let decision = RunDecision {
            verdict: RunVerdict::Deny,
            by: DecidedBy::Policy,
        };
        run_end::deny_run(
            tx,
            &approval.run_id,
            reason,
            Some(self.words.clone()),
            Some(decision),
            &self.by,
        )?;
        Ok(approval)
    }
}
