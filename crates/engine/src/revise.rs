//! An approver changes the command of a pending approval (`docs/spec/http-api.md#resources`).
//!
//! The changed command is analysed and judged anew, for the same asker in the same place. It waits for an answer no
//! matter what the allowlist covers, and nothing but an answer lets it run.

use std::sync::Arc;

use countersign_domain::{Approval, ApprovalId, ApprovalStatus, Command, EnvOverrides, Principal};
use countersign_ledger::{NewApproval, Revise, ReviseOutcome};
use countersign_policy::{
    approval_rules::Demand,
    combine::Wanted,
    gate::{AskSpec, AskWhy, Verdict},
};

use crate::{
    Engine,
    approve::Expiry,
    evaluator::{Purpose, call::Call, place},
    reply::{DecideError, ExecError, ReviseError, StorageTrouble},
};

impl Engine {
    /// Puts a changed command in the place of a pending one and returns the new approval.
    ///
    /// # Errors
    /// [`ReviseError`] says why the old approval stays as it is.
    pub async fn revise(
        self: &Arc<Self>,
        caller: &Principal,
        id: &ApprovalId,
        command: Command,
    ) -> Result<Approval, ReviseError> {
        // In a task of its own, as a decision: what is in the ledger is followed up even if the caller left.
        let (engine, caller, id) = (Arc::clone(self), caller.clone(), id.clone());
        let task = self
            .lifecycle
            .spawn_launch(async move { engine.revise_and_follow_up(&caller, &id, command).await });
        task.await.unwrap_or(Err(StorageTrouble::Unavailable.into()))
    }

    async fn revise_and_follow_up(
        self: &Arc<Self>,
        caller: &Principal,
        id: &ApprovalId,
        command: Command,
    ) -> Result<Approval, ReviseError> {
        let mut old = self.pending(caller, id).await?;
        if old.is_due(self.clock.now()) {
            self.expire(&old, Expiry::Live).await;
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
                self.deadlines.notify_one();
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

    /// Judges the changed command as a call of the old one's asker. `env` is absent when the old approval holds its
    /// overrides no more, since it ended.
    async fn changed(
        &self,
        caller: &Principal,
        old: &Approval,
        command: Command,
        env: Option<EnvOverrides>,
    ) -> Result<Revise, ReviseError> {
        place::refuse_chat_commands(&command)?;
        let binding = &old.card.binding;
        if matches!(binding.command, Command::Patch(_)) {
            return Err(ExecError::InvalidRequest {
                path: "command",
                message: "a patch cannot be changed; deny it and say what should be different".to_owned(),
            }
            .into());
        }
        if old.is_run_elsewhere() {
            return Err(ExecError::InvalidRequest {
                path: "command",
                message:
                    "the asker runs this command, as it stands; deny it and say what should be different"
                        .to_owned(),
            }
            .into());
        }
        let now = Box::pin(self.evaluator.policy_for(binding, &old.requested_by)).await?;
        let place = self
            .evaluator
            .call_of_binding(binding, &now)
            .map_err(ExecError::from)?;
        let asked = self.session.asked_again(
            &binding.agent,
            &binding.session,
            (old.card.elevated, &old.requested_by),
            &now,
        );
        let call = Call {
            requested_by: old.requested_by.clone(),
            command,
            env: env.unwrap_or_default(),
            asked,
            // All that the first call tightened stays tight.
            wanted: Wanted {
                security: Some(old.card.security),
                ask: Some(old.card.ask),
            },
            // Its node makes another plan of another command.
            node: place.node.as_ref().map(|node| node.for_another_command().into()),
            // It is asked about no matter what the policy says.
            pins_scripts: true,
            ..place
        };
        let evaluated = self.evaluator.evaluate_on_node(call, now, &[], Purpose::Call);
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
        let Demand { quorum, decide_by } = self.demand_of_call(&judged, now.settings());
        card.quorum = quorum;
        Ok(Revise {
            revises: old.id.clone(),
            run: call.to_new_run(
                self.ids.run_id(self.clock.now()),
                &judged,
                self.places.isolation_of_call(&call, now.settings()),
            ),
            approval: NewApproval {
                id: self.ids.approval_id(),
                card,
                timeout: self
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
