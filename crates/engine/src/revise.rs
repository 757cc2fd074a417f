//! An approver changes the command of a pending approval (`docs/spec/http-api.md#resources`).
//!
//! The changed command is analysed and judged anew, for the same asker in the same place. It waits for an answer no
//! matter what the allowlist covers, and nothing but an answer lets it run.

use std::sync::Arc;

use countersign_config::approvals::broker::Broker;
use countersign_domain::{Approval, ApprovalId, ApprovalStatus, Command, EnvOverrides, Principal};
use countersign_ledger::{Ledger, NewApproval, Revise, ReviseOutcome};
use countersign_policy::{
    approval_rules::Demand,
    gate::{AskSpec, AskWhy, Verdict},
};

use crate::{
    approvers::Approvers,
    base::{Base, NewIds},
    evaluator::place::{self, Places},
    expiry::{Expiries, Expiry},
    lifecycle::Lifecycle,
    records::Records,
    reevaluation::Reevaluation,
    reply::{DecideError, ExecError, ReviseError, StorageTrouble},
    stop_switch::StopSwitch,
};

/// Puts changed commands in the place of questions.
#[derive(Debug)]
pub struct Revisions {
    ledger: Ledger,
    records: Arc<Records>,
    new_ids: NewIds,
    places: Arc<Places>,
    reevaluation: Arc<Reevaluation>,
    approvers: Arc<Approvers>,
    expiries: Arc<Expiries>,
    broker: Arc<Broker>,
    switch: Arc<StopSwitch>,
    lifecycle: Arc<Lifecycle>,
}

impl Revisions {
    pub(crate) fn new(
        base: &Base,
        reevaluation: Arc<Reevaluation>,
        approvers: Arc<Approvers>,
        expiries: Arc<Expiries>,
    ) -> Self {
        Self {
            ledger: base.ledger.clone(),
            records: Arc::clone(&base.records),
            new_ids: base.new_ids.clone(),
            places: Arc::clone(&base.places),
            reevaluation,
            approvers,
            expiries,
            broker: Arc::clone(&base.broker),
            switch: Arc::clone(&base.switch),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Puts a changed command in the place of a pending one and returns the new approval.
    ///
    /// # Errors
    /// [`ReviseError`] says why the old approval stays as it is.
    #[crate::compiled_once]
    pub async fn revise<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        id: &ApprovalId,
        command: Command,
    ) -> Result<Approval, ReviseError> {
        // In a task of its own, as a decision: what is in the ledger is followed up even if the caller left.
        let (revisions, caller, id) = (Arc::clone(self), caller.clone(), id.clone());
        let task = self
            .lifecycle
            .spawn_launch(async move { revisions.revise_and_follow_up(&caller, &id, command).await });
        task.await.unwrap_or(Err(StorageTrouble::Unavailable.into()))
    }

    async fn revise_and_follow_up(
        &self,
        caller: &Principal,
        id: &ApprovalId,
        command: Command,
    ) -> Result<Approval, ReviseError> {
        let mut old = self.pending(caller, id).await?;
        if old.is_due(self.new_ids.now()) {
            self.expiries.expire(&old, Expiry::Live).await;
            old = self.pending(caller, id).await?;
        }
        if self.lifecycle.is_draining() {
            return Err(ExecError::ShuttingDown.into());
        }
        self.switch.expect_going().map_err(ExecError::Stopped)?;
        let env = self.ledger.waiting_env(id).await.map_err(StorageTrouble::from)?;
        let revise = Box::pin(self.changed(caller, &old, command, env)).await?;
        match self.ledger.revise(revise).await.map_err(ExecError::from)? {
            ReviseOutcome::Revised { approval, old } => {
                self.broker.touch(&old.run_id);
                self.expiries.note_deadline(approval.expires_at);
                Ok(*approval)
            }
            ReviseOutcome::Resolved(old) => Err(DecideError::AlreadyResolved(old).into()),
            ReviseOutcome::Expired(old) | ReviseOutcome::Due(old) => Err(DecideError::Expired(old).into()),
            ReviseOutcome::Cancelled(old) => {
                self.broker.touch(&old.run_id);
                Err(DecideError::Cancelled(old).into())
            }
            ReviseOutcome::OwnRequest => Err(DecideError::OwnRequest.into()),
            ReviseOutcome::NotFound => Err(DecideError::NotFound.into()),
        }
    }

    /// The approval, if it waits. In the end the ledger says what became of it later.
    async fn pending(&self, caller: &Principal, id: &ApprovalId) -> Result<Approval, ReviseError> {
        let found = self.records.approval(caller, id).await?;
        let approval = found.ok_or(DecideError::NotFound)?;
        match approval.state.status() {
            ApprovalStatus::Pending => Ok(approval),
            ApprovalStatus::Allowed | ApprovalStatus::Denied => {
                Err(DecideError::AlreadyResolved(Box::new(approval)).into())
            }
            ApprovalStatus::Expired => Err(DecideError::Expired(Box::new(approval)).into()),
            ApprovalStatus::Cancelled => Err(DecideError::Cancelled(Box::new(approval)).into()),
        }
    }

    /// The question about the changed command.
    async fn changed(
        &self,
        caller: &Principal,
        old: &Approval,
        command: Command,
        env: Option<EnvOverrides>,
    ) -> Result<Revise, ReviseError> {
        let evaluated = self.reevaluation.revised(old, command, env);
        let (now, call, judged) = Box::pin(evaluated).await?;
        let spec = match judged.verdict {
            Verdict::Deny(reason) => {
                let (detail, hint) = judged.explain_denial(&call.agent, reason);
                return Err(ReviseError::Denied { reason, detail, hint });
            }
            Verdict::Ask(spec) => spec,
            Verdict::Run => AskSpec {
                why: AskWhy::Revised,
                allow_always_offered: false,
            },
        };
        let mut card = judged.to_card(spec);
        // The asker never wanted this command: silence must not start it.
        card.needs_person = true;
        card.elevated = old.card.elevated;
        card.outside_workspace = place::is_outside_workspace(&call, now.settings()).await;
        let Demand { quorum, decide_by } = self.approvers.demand_of_call(&judged, now.settings());
        card.quorum = quorum;
        Ok(Revise {
            revises: old.id.clone(),
            run: call.to_new_run(
                self.new_ids.run(),
                &judged,
                self.places.isolation_of_call(&call, now.settings()),
            ),
            approval: NewApproval {
                id: self.new_ids.approval(),
                card,
                timeout: self
                    .approvers
                    .waits_for(
                        &old.requested_by,
                        decide_by.unwrap_or(now.settings().server.approvals.timeout),
                    )
                    .await
                    .map_err(ExecError::from)?,
                revises: Some(old.id.clone()),
            },
            by: caller.actor.clone(),
        })
    }
}
