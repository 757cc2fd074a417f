//! Taking an allowance back before its run starts: one compare-and-swap against the launch (`docs/spec/http-api.md#approval-object`).

use countersign_domain::{
    Actor, Approval, ApprovalDecision, ApprovalId, ApprovalState, ApprovalStatus, DecidedBy, Persist, Reason,
    RunDecision, RunStatus, RunVerdict, TakingBack, TerminalReason,
};

use super::{
    approval_end::tell_resolved,
    approvals::{self, StoredApproval},
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    run_end, run_rows,
    sql::exactly_one,
    tx::Tx,
};

/// An allowance that an approver takes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeBack {
    /// The approval that was allowed.
    pub approval: ApprovalId,
    /// Who takes it back; the asker is refused.
    pub by: Actor,
    /// Why, in their words.
    pub reason: Option<String>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
pub enum TakeBackOutcome {
    /// It is denied, and nothing starts.
    TakenBack(Box<Approval>),
    /// It was denied before. Nothing was written.
    Repeated(Box<Approval>),
    /// A launch used it up, its run ended, or it is remembered. Nothing was written.
    TooLate(Box<Approval>),
    /// Nobody has answered yet. Nothing was written.
    NotAnswered,
    /// Its deadline passed before anybody answered.
    Expired(Box<Approval>),
    /// The request was withdrawn.
    Cancelled(Box<Approval>),
    /// The asker cannot take it back.
    OwnRequest,
    /// No approval has this id.
    NotFound,
}

impl Ledger {
    /// Takes an allowance back, unless a launch came first.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn take_back(&self, take_back: TakeBack) -> Result<TakeBackOutcome, LedgerError> {
        self.queue.submit(take_back).await
    }
}

impl Change for TakeBack {
    type Answer = TakeBackOutcome;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        // A power loss must not bring back what was allowed.
        Durability::Full
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<TakeBackOutcome, Fault> {
        let Some(StoredApproval { approval, .. }) = approvals::fetch_stored(tx.connection, &self.approval)?
        else {
            return Ok(TakeBackOutcome::NotFound);
        };
        if approval.requested_by.is_same_party(&self.by) {
            return Ok(TakeBackOutcome::OwnRequest);
        }
        let run = run_rows::brief(tx.connection, &approval.run_id)?;
        let status = run.map_or(RunStatus::Lost, |run| run.status);
        let taking = approval.standing(tx.now()).take_back(status);
        let approval = Box::new(approval);
        match taking {
            TakingBack::TakesBack => self.settle(tx, approval),
            TakingBack::TooLate => Ok(TakeBackOutcome::TooLate(approval)),
            TakingBack::NotAnswered => Ok(TakeBackOutcome::NotAnswered),
            TakingBack::Repeats => Ok(TakeBackOutcome::Repeated(approval)),
            TakingBack::Expired => Ok(TakeBackOutcome::Expired(approval)),
            TakingBack::Cancelled => Ok(TakeBackOutcome::Cancelled(approval)),
        }
    }
}

impl TakeBack {
    fn settle(&self, tx: &mut Tx<'_>, mut approval: Box<Approval>) -> Result<TakeBackOutcome, Fault> {
        let (why, at) = (TerminalReason::TakenBack, tx.now());
        approval.state = ApprovalState::Denied {
            by: self.by.clone(),
            at,
            reason: self.reason.clone(),
            why,
        };
        approval.chosen_patterns.clear();
        let changed = tx.execute(
            "UPDATE approvals SET status = ?2, decision = ?3, reason = ?4, resolved_ms = ?5, resolved_kind = ?6, \
             resolved_id = ?7, resolved_name = ?8, terminal_reason = ?9, persist = ?10, chosen_json = '[]', \
             env_sealed = NULL \
             WHERE id = ?1 AND status = 'allowed' AND consumed_ms IS NULL",
            (
                self.approval.as_str(),
                ApprovalStatus::Denied.as_str(),
                ApprovalDecision::Deny.as_str(),
                &self.reason,
                at.get(),
                self.by.kind.as_str(),
                &self.by.id,
                &self.by.name,
                why.as_str(),
                Persist::None.as_str(),
            ),
        )?;
        exactly_one(changed)?;
        tell_resolved(tx, &approval, Some(&self.by), self.reason.clone(), why)?;
        let denied = RunDecision {
            verdict: RunVerdict::Deny,
            by: DecidedBy::Person,
        };
        run_end::deny_run(
            tx,
            &approval.run_id,
            Reason::UserDenied,
            self.reason.clone(),
            Some(denied),
            &self.by,
        )?;
        Ok(TakeBackOutcome::TakenBack(approval))
    }
}
