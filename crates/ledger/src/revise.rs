//! An approver's changed command: the old approval ends and a new one waits, in one transaction.

use countersign_domain::{
    Actor, Approval, ApprovalDecision, ApprovalId, ApprovalState, ApprovalStatus, DecidedBy, EnvOverrides,
    Reason, RunDecision, RunVerdict, TerminalReason, UnixMillis,
};

use crate::events::Event;

use super::{
    approval_end, approvals,
    ask::{self, NewApproval},
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::{Change, Job},
    new_run::{Entrance, NewRun},
    run_end,
    sql::exactly_one,
    tx::{Committed, Tx},
    withdraw,
};

/// A revision on its way into the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Revise {
    /// The approval that it takes the place of.
    pub revises: ApprovalId,
    /// The run of the changed command, for the asker of the old one.
    pub run: NewRun,
    /// The approval of the changed command.
    pub approval: NewApproval,
    /// The approver who changed the command; the asker is refused.
    pub by: Actor,
}

/// What became of it; the old approval as it is in all but the first.
#[derive(Debug, Clone, PartialEq)]
pub enum ReviseOutcome {
    /// The new approval waits, and the old one is denied.
    Revised {
        /// The new approval, pending.
        approval: Box<Approval>,
        /// The approval that it takes the place of, denied by this approver.
        old: Box<Approval>,
    },
    /// A person decided it before.
    Resolved(Box<Approval>),
    /// Its deadline passed before.
    Expired(Box<Approval>),
    /// Its deadline passed and nobody has settled that yet. Nothing was written.
    Due(Box<Approval>),
    /// The request was withdrawn before.
    Cancelled(Box<Approval>),
    /// The asker cannot answer.
    OwnRequest,
    /// No approval has the id that `revises` names.
    NotFound,
}

impl Ledger {
    /// Ends an approval and asks about a changed command in its place, both or neither.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn revise(&self, revise: Revise) -> Result<ReviseOutcome, LedgerError> {
        self.queue.submit(revise).await
    }

    /// The values of the environment overrides that a pending approval holds; `None` when there is no such approval,
    /// or it holds them no more.
    ///
    /// # Errors
    /// When the ledger cannot be used.
    #[crate::compiled_once]
    pub async fn waiting_env(&self, approval: &ApprovalId) -> Result<Option<EnvOverrides>, LedgerError> {
        self.queue.submit(WaitingEnv(approval.clone())).await
    }
}

pub(super) enum ReviseDraft {
    Revised { at: UnixMillis, old: Box<Approval> },
    Refused(ReviseOutcome),
}

impl Job for Revise {
    type Draft = ReviseDraft;
    type Answer = ReviseOutcome;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Full
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<ReviseDraft, Fault> {
        tx.expect_going()?;
        let refused = |outcome| Ok(ReviseDraft::Refused(outcome));
        let Some(stored) = approvals::fetch_stored(tx.connection, &self.revises)? else {
            return refused(ReviseOutcome::NotFound);
        };
        if let Some(old) = withdraw::of_gone_asker(tx, &stored)? {
            return refused(ReviseOutcome::Cancelled(old));
        }
        let old = Box::new(stored.approval);
        if old.requested_by.is_same_party(&self.by) {
            return refused(ReviseOutcome::OwnRequest);
        }
        match old.state.status() {
            ApprovalStatus::Pending if old.is_due(tx.now()) => refused(ReviseOutcome::Due(old)),
            ApprovalStatus::Pending => {
                let at = tx.now();
                let old = self.deny_old(tx, old)?;
                self.ask_anew(tx)?;
                Ok(ReviseDraft::Revised { at, old })
            }
            ApprovalStatus::Allowed | ApprovalStatus::Denied => refused(ReviseOutcome::Resolved(old)),
            ApprovalStatus::Expired => refused(ReviseOutcome::Expired(old)),
            ApprovalStatus::Cancelled => refused(ReviseOutcome::Cancelled(old)),
        }
    }

    fn committed(self, draft: ReviseDraft, _proof: &Committed) -> ReviseOutcome {
        match draft {
            ReviseDraft::Revised { at, old } => ReviseOutcome::Revised {
                approval: Box::new(ask::record(self.run, self.approval, ApprovalState::Pending, at)),
                old,
            },
            ReviseDraft::Refused(outcome) => outcome,
        }
    }
}

impl Revise {
    fn deny_old(&self, tx: &mut Tx<'_>, mut old: Box<Approval>) -> Result<Box<Approval>, Fault> {
        let Actor {
            kind,
            id,
            name,
            owner: _,
        } = &self.by;
        let at = tx.now();
        let changed = tx.execute(
            "UPDATE approvals SET status = 'denied', decision = ?2, resolved_ms = ?3, resolved_kind = ?4, \
             resolved_id = ?5, resolved_name = ?6, terminal_reason = 'user', revised_by = ?7, env_sealed = NULL \
             WHERE id = ?1 AND status = 'pending' AND expires_ms > ?3",
            (
                self.revises.as_str(),
                ApprovalDecision::Deny.as_str(),
                at.get(),
                kind.as_str(),
                id,
                name,
                self.approval.id.as_str(),
            ),
        )?;
        exactly_one(changed)?;
        tx.note_end_of_question(&old);
        old.state = ApprovalState::Denied {
            by: self.by.clone(),
            at,
            reason: None,
            why: TerminalReason::User,
        };
        old.revised_by = Some(self.approval.id.clone());
        approval_end::tell_resolved(tx, &old, Some(&self.by), None, TerminalReason::User)?;
        let detail = format!(
            "an approver changed the command: run {} waits for an answer as approval {}",
            self.run.id, self.approval.id
        );
        let decision = RunDecision {
            verdict: RunVerdict::Deny,
            by: DecidedBy::Person,
        };
        run_end::deny_run(
            tx,
            &old.run_id,
            Reason::UserDenied,
            Some(detail),
            Some(decision),
            &self.by,
        )?;
        Ok(old)
    }

    fn ask_anew(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let Self { run, approval, .. } = self;
        // In the asker's name, but recorded as the deed of the approver who changed the command.
        run.insert_by(tx, &Entrance::asked(&approval.id, false), &self.by)?;
        ask::insert_pending(tx, run, approval)?;
        let kind = ask::requested(run, approval, tx.now());
        let subject = ask::subject(run, &approval.id);
        tx.log(Event { subject, kind }, &self.by)
    }
}

/// Reads the values of the environment overrides that a pending approval holds.
struct WaitingEnv(ApprovalId);

impl Change for WaitingEnv {
    type Answer = Option<EnvOverrides>;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<EnvOverrides>, Fault> {
        let stored = approvals::fetch_stored(tx.connection, &self.0)?;
        Ok(stored.and_then(|stored| stored.env(&tx.context.keys)))
    }
}
