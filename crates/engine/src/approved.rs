//! The start of what a person allowed.

use std::{sync::Arc, time::Duration};

use countersign_config::{
    approvals::broker::Broker,
    settings::{Settings, SettingsStore},
};
use countersign_domain::{
    Approval, ApprovalId, ApprovalState, ApprovalStatus, Host, Reason, RunId, Security,
};
use countersign_hosts::peer_fs::{Blind, Files};
use countersign_ledger::{
    Ledger,
    launch::{ApprovedLaunch, ApprovedOutcome, Permit},
};
use countersign_sys::{clock::Clock, descriptors::SPARE_DESCRIPTORS, hooks};

use crate::{
    base::Base,
    evaluator::{Evaluator, policy_now::PolicyNow},
    launch::Launch,
    lifecycle::Lifecycle,
    remembered::Remembered,
    reply::{ExecError, StorageTrouble},
    run_recorder::RunRecorder,
    runs::Runs,
    slots::Slot,
};

/// How often a launch is tried again because the policy changed in between.
const ATTEMPTS: usize = 8;
/// Pause before an approved launch is tried again that failed for a reason which may pass.
const LAUNCH_AGAIN: Duration = Duration::from_secs(1);

/// Starts runs that a person allowed.
#[derive(Debug)]
pub(crate) struct ApprovedStarts {
    ledger: Ledger,
    evaluator: Arc<Evaluator>,
    settings: Arc<SettingsStore>,
    clock: Arc<dyn Clock>,
    files: Files,
    broker: Arc<Broker>,
    recorder: Arc<RunRecorder>,
    remembered: Arc<Remembered>,
    runs: Arc<Runs>,
    lifecycle: Arc<Lifecycle>,
}

/// A launch of what is allowed, or is about to be, with everything that it takes.
#[derive(Debug)]
pub(crate) struct Foreseen {
    pub(crate) launch: ApprovedLaunch,
    pub(crate) start: ForeseenStart,
}

/// What a start takes besides its permit.
#[derive(Debug)]
pub(crate) struct ForeseenStart {
    slot: Slot,
    callers: Callers,
    notice_after: Option<Duration>,
}

/// What became of an approval that was to be consumed.
enum Consumed {
    /// A launch used it up.
    Launched(Permit, Box<ForeseenStart>),
    /// Its run ended.
    Ended,
    /// It was taken back, or is left to the next server.
    Left,
}

/// Who wants to know of a run that was asked about.
#[derive(Debug, Clone, Copy)]
struct Callers {
    are_waiting: bool,
    /// They may come back for it.
    have_key: bool,
}

impl Callers {
    /// Whether the run goes on without them.
    const fn may_leave(self) -> bool {
        !self.are_waiting || self.have_key
    }
}

/// How long after the answer it may start: for as long as it is held back, and then until its start-by.
fn start_by(approval: &Approval, settings: &Settings) -> Duration {
    let quorum = &approval.card.quorum;
    quorum.start_delay() + quorum.start_by(settings.server.approvals.start_by)
}

impl ApprovedStarts {
    pub(crate) fn new(base: &Base, remembered: Arc<Remembered>, runs: Arc<Runs>) -> Self {
        Self {
            ledger: base.ledger.clone(),
            evaluator: Arc::clone(&base.evaluator),
            settings: Arc::clone(&base.settings),
            clock: Arc::clone(&base.clock),
            files: base.gateway.files().clone(),
            broker: Arc::clone(&base.broker),
            recorder: Arc::clone(&base.recorder),
            remembered,
            runs,
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Starts a run that a person allowed, once it is no longer held back: looks at everything that the answer was bound to
    /// once more, consumes the approval, remembers what is to be remembered and starts.
    pub(crate) async fn launch(&self, id: &ApprovalId) {
        // Until the ledger says that its start-by passed. A server that stops leaves it allowed and unconsumed:
        // the next one comes back to it.
        while let Err(error) = self.try_launch_approved(id).await {
            tracing::error!(approval.id = %id, error = &error as &dyn std::error::Error, "an approved run was not started yet");
            if matches!(error, ExecError::Storage(StorageTrouble::Full)) && self.end_late(id).await {
                return;
            }
            tokio::select! {
                () = self.lifecycle.stopping() => return,
                () = tokio::time::sleep(LAUNCH_AGAIN) => {}
            }
        }
    }

    /// Ends a run that was not started in time for want of room: its end may have room where its start has none.
    async fn end_late(&self, id: &ApprovalId) -> bool {
        let Ok(Some(approval)) = self.ledger.approval(id).await else {
            return false;
        };
        let is_late = self.is_too_late(&approval);
        if is_late {
            self.recorder
                .end_run(&approval.run_id, Reason::NotStarted, None)
                .await;
        }
        is_late
    }

    async fn try_launch_approved(&self, id: &ApprovalId) -> Result<(), ExecError> {
        let Some(approval) = self.wait_while_held(id).await? else {
            return Ok(());
        };
        let started = match self.consume(&approval).await? {
            Consumed::Launched(permit, start) => Some((permit, start)),
            Consumed::Ended => None,
            Consumed::Left => return Ok(()),
        };
        // Until here it could be taken back, and then nothing may be left of it.
        self.remembered.persist_patterns(&approval).await;
        if let Some((permit, start)) = started {
            self.start(permit, *start).await;
        }
        Ok(())
    }

    /// Looks at everything that the answer was bound to once more, and consumes the approval.
    async fn consume(&self, approval: &Approval) -> Result<Consumed, ExecError> {
        let run_id = approval.run_id.clone();
        let callers = self.callers_of(&run_id).await?;
        if self.files.is_blind() {
            return Err(Blind.into());
        }
        // Policy files that went with the state directory would look like a policy that became stricter.
        self.evaluator.expect_means(SPARE_DESCRIPTORS)?;
        for _ in 0..ATTEMPTS {
            let seen = self
                .evaluator
                .policy_for(&approval.card.binding, &approval.requested_by);
            let now = match Box::pin(seen).await {
                // A node that is away may be back in time; nothing of the run has left yet.
                Err(ExecError::NodeUnavailable { detail, .. }) if self.is_too_late(approval) => {
                    self.recorder
                        .end_run(&run_id, Reason::NotStarted, Some(detail))
                        .await;
                    return Ok(Consumed::Ended);
                }
                now => now?,
            };
            now.expect_readable()?;
            if let Some(reason) = self.is_stricter_now(approval, &now) {
                self.recorder
                    .end_run(
                        &run_id,
                        reason,
                        Some("the policy became stricter after the answer".to_owned()),
                    )
                    .await;
                return Ok(Consumed::Ended);
            }
            let slot = self
                .runs
                .wait_for_slot(&approval.card.binding.agent, now.settings());
            let slot = tokio::time::timeout(start_by(approval, now.settings()), slot);
            let slot = tokio::select! {
                biased;
                () = self.lifecycle.stopping() => return Ok(Consumed::Left),
                slot = slot => slot,
            };
            let Ok(slot) = slot else {
                let detail = "no place to run was free in time".to_owned();
                self.recorder
                    .end_run(&run_id, Reason::NotStarted, Some(detail))
                    .await;
                return Ok(Consumed::Ended);
            };
            if self.lifecycle.is_draining() {
                return Ok(Consumed::Left);
            }
            let Foreseen { launch, start } = self.foreseen(approval, &now, slot, callers)?;
            match self.ledger.launch(launch).await? {
                ApprovedOutcome::Launched(permit) => {
                    return Ok(Consumed::Launched(permit, Box::new(start)));
                }
                ApprovedOutcome::Stale => {}
                ApprovedOutcome::NotAllowed(_) | ApprovedOutcome::NotFound => return Ok(Consumed::Left),
                ApprovedOutcome::BindingMismatch
                | ApprovedOutcome::StartByPassed
                | ApprovedOutcome::AlreadyConsumed
                | ApprovedOutcome::RunEnded(_)
                | ApprovedOutcome::AskerGone => {
                    self.broker.touch(&run_id);
                    return Ok(Consumed::Ended);
                }
            }
        }
        Err(ExecError::Overloaded)
    }

    /// The approval, once its run is no longer held back: until then its answer can be taken back, and nothing of it is
    /// remembered. `None` where nothing of it may start any more, and when the server begins to stop.
    async fn wait_while_held(&self, id: &ApprovalId) -> Result<Option<Approval>, StorageTrouble> {
        let Some(approval) = self.ledger.approval(id).await? else {
            return Ok(None);
        };
        let Some(starts_at) = approval.starts_at() else {
            return Ok(Some(approval));
        };
        // A clock that is set back prolongs nothing.
        let left = starts_at
            .since(self.clock.now())
            .min(approval.card.quorum.start_delay());
        let mut changes = self.broker.subscribe(&approval.run_id);
        let over = tokio::time::sleep(left);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Ok(self.ledger.approval(id).await?),
                () = self.lifecycle.stopping() => return Ok(None),
                () = changes.changed() => {
                    let approval = self.ledger.approval(id).await?;
                    if approval.and_then(|approval| approval.starts_at()).is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// What launches a run here at once if this answer allows it: then both are one transaction. `None` when anything has
    /// to be waited for, to be told or to be ended: the answer is taken first, and [`Self::launch`] follows.
    pub(crate) async fn foresee(&self, approval: &Approval) -> Option<Foreseen> {
        let binding = &approval.card.binding;
        let settles =
            approval.state.status() == ApprovalStatus::Pending && approval.card.quorum.required <= 1;
        let is_held = !approval.card.quorum.start_delay().is_zero();
        if !settles
            || is_held
            || approval.is_run_elsewhere()
            || binding.host == Host::Node
            || self.files.is_blind()
        {
            return None;
        }
        self.evaluator.expect_means(SPARE_DESCRIPTORS).ok()?;
        let callers = self.callers_of(&approval.run_id).await.ok()?;
        let seen = self.evaluator.policy_for(binding, &approval.requested_by);
        let now = Box::pin(seen).await.ok()?;
        now.expect_readable().ok()?;
        if self.is_stricter_now(approval, &now).is_some() {
            return None;
        }
        let slot = self.runs.free_slot(&binding.agent, now.settings())?;
        if self.lifecycle.is_draining() {
            return None;
        }
        self.foreseen(approval, &now, slot, callers).ok()
    }

    fn foreseen(
        &self,
        approval: &Approval,
        now: &PolicyNow,
        slot: Slot,
        callers: Callers,
    ) -> Result<Foreseen, ExecError> {
        hooks::reach("engine.before-launch-approved");
        hooks::pause("engine.before-approved");
        let binding = &approval.card.binding;
        Ok(Foreseen {
            launch: ApprovedLaunch {
                approval: approval.id.clone(),
                binding: self.evaluator.rebind(binding, approval.card.security, now)?,
                stamp: now.stamp(),
                start_by: start_by(approval, now.settings()),
                node: now.node.as_ref().and_then(|node| node.launch()),
                outlives_caller: callers.may_leave(),
            },
            start: ForeseenStart {
                slot,
                callers,
                notice_after: now.settings().policy.exec(&binding.agent).approval_running_notice,
            },
        })
    }

    async fn callers_of(&self, run_id: &RunId) -> Result<Callers, ExecError> {
        Ok(Callers {
            are_waiting: self.broker.is_awaited(run_id),
            have_key: self.ledger.is_keyed(run_id).await?,
        })
    }

    /// Starts what was launched as it was foreseen. Call it from a task of its own.
    pub(crate) async fn start(&self, permit: Permit, start: ForeseenStart) {
        hooks::reach("engine.approved-launched");
        let ForeseenStart {
            slot,
            callers,
            notice_after,
        } = start;
        let holder = self
            .runs
            .holder_after_asking(callers.are_waiting, callers.have_key);
        let launch = Launch::first(permit, slot, holder).noticed_after(notice_after);
        self.runs.start_for_waiting_callers(launch).await;
    }

    /// Whether what a person allowed must not start any more.
    fn is_too_late(&self, approval: &Approval) -> bool {
        match &approval.state {
            ApprovalState::Allowed { at, .. } => {
                self.clock.now() > *at + start_by(approval, &self.settings.current())
            }
            ApprovalState::Pending
            | ApprovalState::Denied { .. }
            | ApprovalState::Expired { .. }
            | ApprovalState::Cancelled { .. } => true,
        }
    }

    /// Whether the policy of this moment forbids what a person allowed under an earlier one.
    fn is_stricter_now(&self, approval: &Approval, now: &PolicyNow) -> Option<Reason> {
        let binding = &approval.card.binding;
        let effective = self.evaluator.effective_for(approval, now);
        if now.is_tool_denied(&binding.agent, &binding.command) {
            return Some(Reason::ToolDenied);
        }
        if effective.security.value < approval.card.security
            && effective.security.value == Security::Allowlist
            && self.evaluator.still_covering(&approval.card, now, &[]).is_none()
        {
            return Some(Reason::AllowlistMiss);
        }
        if effective.security.value == Security::Deny {
            return Some(if effective.document_refused {
                Reason::DocumentRefused
            } else {
                Reason::SecurityDeny
            });
        }
        self.evaluator
            .is_denylisted(binding, now)
            .then_some(Reason::Denylist)
    }
}
