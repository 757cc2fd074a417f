//! Asking a person, taking the answer, and what follows from it.

use std::{sync::Arc, time::Duration};

use countersign_config::settings::Settings;
use countersign_domain::{
    Approval, ApprovalCard, ApprovalDecision, ApprovalId, ApprovalState, ApprovalStatus, CommandInput,
    EntryId, Principal, Reason, RunId, Security,
};
use countersign_hosts::peer_fs::Blind;
use countersign_ledger::{
    AskOutcome, Asking, ChosenPattern, Decide, DecideOutcome, Expire, ExpireOutcome, Fallback, NewApproval,
    NewRun, NoRoute, NoRouteOutcome, NotAllowed, Undecided,
    launch::{ApprovedLaunch, ApprovedOutcome, LaunchTerms},
};
use countersign_policy::{
    approval_rules::Demand,
    gate::{self, AfterTimeout, AskSpec, Coverage, FallbackVerdict, GateInput, Unanswered},
};
use countersign_sys::{descriptors::SPARE_DESCRIPTORS, hooks};

use crate::{
    Engine,
    delivery_terms::Answers,
    evaluator::policy_now::PolicyNow,
    exec::{Admitted, Attempt, Draft, admitted},
    hint::hint,
    reply::{Answer, DecideError, Decided, Denial, ExecError, StorageTrouble},
    slots::SlotLimits,
    supervise::Launch,
};

/// How often a launch is tried again because the policy changed in between.
const ATTEMPTS: usize = 8;
/// Pause before an approved launch is tried again that failed for a reason which may pass.
const LAUNCH_AGAIN: Duration = Duration::from_secs(1);
/// Why a run is denied about which a person would be asked.
const NOBODY_THERE: &str = "a person would have to be asked, and nobody can be reached";
const HOW_TO_BE_THERE: [&str; 1] = ["approver"];

impl Engine {
    /// Asks a person; when nobody can be reached the fallback counts at once
    /// (`docs/spec/exec-tool.md#3-whether-it-runs`).
    pub(super) async fn ask(self: &Arc<Self>, draft: Draft, spec: AskSpec) -> Result<Attempt, ExecError> {
        let run_id = self.ids.run_id(self.clock.now());
        let run = self.run_of(&draft, run_id.clone());
        let Draft {
            call,
            judged,
            settings,
            ..
        } = &draft;
        let Demand { quorum, decide_by } = self.demand_of_call(judged, settings);
        let mut approval = NewApproval {
            id: self.ids.approval_id(),
            card: ApprovalCard {
                elevated: call.asked.is_elevated(),
                quorum,
                wishes: call.named.clone(),
                ..judged.to_card(spec)
            },
            timeout: self
                .waits_for(
                    &call.requested_by,
                    decide_by.unwrap_or(settings.server.approvals.timeout),
                )
                .await?,
            revises: None,
        };
        let mut prompt = None;
        let is_reachable = match call.answers {
            // Silence must not start it: the asker counts on a person.
            Answers::Approvers if call.is_of_peer() => {
                approval.card.needs_person = true;
                true
            }
            Answers::Approvers => {
                prompt = self.reach_prompt().await;
                prompt.is_some() || self.is_approver_reachable(settings)
            }
            Answers::Promised => true,
            Answers::Fallback => false,
            Answers::Refused => return self.deny(draft, Reason::ApprovalRequired).await,
        };
        if !is_reachable {
            return self.ask_nobody(&draft, run, approval).await;
        }
        let max_pending = u64::try_from(settings.server.approvals.max_pending).unwrap_or(u64::MAX);
        hooks::reach("engine.before-ask");
        match admitted(
            self.ledger
                .admit_asking(Asking {
                    run,
                    approval,
                    key: draft.key.clone(),
                    max_pending,
                })
                .await?,
        )? {
            Admitted::New(AskOutcome::Asked(approval)) => {
                hooks::reach("engine.asked");
                self.deadlines.notify_one();
                if self.policy.now().stamp() != judged.stamp {
                    // It changed before there was a question to be judged again.
                    self.again.wake();
                }
                if let Some(prompt) = prompt {
                    self.ask_prompt(prompt, *approval);
                }
                Ok(Attempt::Follow(run_id))
            }
            Admitted::New(AskOutcome::TooManyPending) => Err(ExecError::Overloaded),
            // Ours are drawn at random and never meet another one.
            Admitted::New(AskOutcome::IdTaken) => Err(ExecError::Storage(StorageTrouble::Unavailable)),
            Admitted::Known(run_id) => Ok(Attempt::Follow(run_id)),
        }
    }

    async fn ask_nobody(
        self: &Arc<Self>,
        draft: &Draft,
        run: NewRun,
        approval: NewApproval,
    ) -> Result<Attempt, ExecError> {
        let Draft {
            call,
            judged,
            settings,
            ..
        } = draft;
        let run_id = run.id.clone();
        let verdict = gate::fallback(&judged.input, Unanswered::NoRoute);
        let (slot, fallback) = match verdict {
            FallbackVerdict::Run => {
                let slot = self.runs.take_slot(&call.agent, settings).await?;
                if slot.was_waited_for() {
                    let now =
                        Box::pin(self.evaluator.policy_for(&judged.binding, &call.requested_by)).await?;
                    if self.evaluator.rebind(&judged.binding, &now)? != judged.binding {
                        return Ok(Attempt::Stale);
                    }
                }
                (Some(slot), Fallback::Run(judged.terms(settings)))
            }
            FallbackVerdict::Deny(reason) => {
                let detail = Some(NOBODY_THERE.to_owned());
                (None, Fallback::Deny { reason, detail })
            }
        };
        let outcome = match admitted(
            self.ledger
                .admit_no_route(NoRoute {
                    run,
                    approval,
                    key: draft.key.clone(),
                    fallback,
                    hint: Some(hint(&HOW_TO_BE_THERE)),
                })
                .await?,
        )? {
            Admitted::New(outcome) => outcome,
            Admitted::Known(run_id) => return Ok(Attempt::Follow(run_id)),
        };
        match (outcome, slot) {
            (NoRouteOutcome::Launched { permit, .. }, Some(slot)) => {
                let launch = Launch::first(permit, slot, self.holder_of(draft));
                let live = self.runs.start(launch).await;
                Ok(live.map_or(Attempt::Follow(run_id), Attempt::Started))
            }
            (NoRouteOutcome::Stale, _) => Ok(Attempt::Stale),
            (NoRouteOutcome::UsedUp(entry), _) => Ok(Attempt::UsedUp(entry)),
            (NoRouteOutcome::IdTaken, _) => Err(ExecError::Storage(StorageTrouble::Unavailable)),
            (NoRouteOutcome::Denied(_) | NoRouteOutcome::Launched { .. }, _) => {
                let reason = match verdict {
                    FallbackVerdict::Deny(reason) => reason,
                    FallbackVerdict::Run => Reason::NoApprover,
                };
                Err(ExecError::Denied(Box::new(Denial {
                    run_id,
                    reason,
                    detail: Some(NOBODY_THERE.to_owned()),
                    hint: Some(hint(&HOW_TO_BE_THERE)),
                    rule: None,
                })))
            }
        }
    }

    pub(super) fn is_approver_reachable(&self, settings: &Settings) -> bool {
        settings.server.approvals.always_reachable || self.broker.has_approver()
    }

    /// Takes a person's answer (`docs/spec/http-api.md#approval-object`: the table of answers).
    ///
    /// # Errors
    /// [`DecideError`] when this answer is not the one that counts.
    pub async fn decide(
        self: &Arc<Self>,
        caller: &Principal,
        id: &ApprovalId,
        answer: Answer,
    ) -> Result<Decided, DecideError> {
        // The agent of an approval never changes, so what is seen here is what is decided.
        if self.records.approval(caller, id).await?.is_none() {
            return Err(DecideError::NotFound);
        }
        let Answer {
            decision,
            reason,
            patterns,
        } = answer;
        let decide = Decide {
            approval: id.clone(),
            decision,
            by: caller.actor.clone(),
            reason,
            patterns: patterns.map(|patterns| {
                let chosen = |(pattern, arg_pattern)| ChosenPattern { pattern, arg_pattern };
                patterns.into_iter().map(chosen).collect()
            }),
        };
        // In a task of its own: an answer that is in the ledger is followed up even if the answerer left.
        let engine = Arc::clone(self);
        let task = self
            .lifecycle
            .spawn_launch(async move { engine.decide_and_follow_up(decide).await });
        task.await
            .unwrap_or(Err(DecideError::Storage(StorageTrouble::Unavailable)))
    }

    async fn decide_and_follow_up(self: &Arc<Self>, decide: Decide) -> Result<Decided, DecideError> {
        hooks::reach("engine.before-decide");
        let decision = decide.decision;
        if decision != ApprovalDecision::Deny {
            // The transaction looks again; here it is known without any disk.
            self.switch.expect_going().map_err(DecideError::Stopped)?;
        }
        let mut outcome = self.ledger.decide(decide.clone()).await?;
        if let DecideOutcome::Due(approval) = outcome {
            self.expire(&approval, Expiry::Live).await;
            outcome = self.ledger.decide(decide).await?;
        }
        match outcome {
            DecideOutcome::Decided { applied, approval } => {
                hooks::reach("engine.decided");
                if applied {
                    self.note_answer(&approval);
                    self.broker.touch(&approval.run_id);
                    if approval.state.status() == ApprovalStatus::Allowed && !approval.is_run_elsewhere() {
                        let (engine, id) = (Arc::clone(self), approval.id.clone());
                        self.lifecycle
                            .spawn_launch(async move { engine.launch_approved(&id).await });
                    }
                }
                Ok(Decided {
                    applied,
                    approval: *approval,
                })
            }
            DecideOutcome::Conflict(approval) => Err(DecideError::AlreadyResolved(approval)),
            DecideOutcome::Expired(approval) | DecideOutcome::Due(approval) => {
                Err(DecideError::Expired(approval))
            }
            DecideOutcome::Cancelled(approval) => {
                // It may have ended a moment ago, with the token that asked.
                self.broker.touch(&approval.run_id);
                Err(DecideError::Cancelled(approval))
            }
            DecideOutcome::NotAllowedDecision(why) => Err(DecideError::NotAllowed {
                detail: not_allowed(why, decision).to_owned(),
            }),
            DecideOutcome::OwnRequest => Err(DecideError::OwnRequest),
            DecideOutcome::NotEntitled(approval) => Err(DecideError::NotEntitled {
                detail: approval.card.quorum.who_may_allow(),
            }),
            DecideOutcome::NotFound => Err(DecideError::NotFound),
        }
    }

    /// Starts a run that a person allowed: remembers what is to be remembered, looks at everything that the
    /// answer was bound to once more, consumes the approval and starts.
    pub(super) async fn launch_approved(self: &Arc<Self>, id: &ApprovalId) {
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

    async fn try_launch_approved(self: &Arc<Self>, id: &ApprovalId) -> Result<(), ExecError> {
        let Some(approval) = self.ledger.approval(id).await? else {
            return Ok(());
        };
        self.persist_patterns(&approval).await;
        let run_id = approval.run_id.clone();
        let is_awaited = self.broker.is_awaited(&run_id);
        let is_keyed = self.is_keyed(&run_id).await?;
        if !is_awaited || is_keyed {
            self.ledger.outlives_caller(run_id.clone()).await?;
        }
        if self.gateway.files().is_blind() {
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
                Err(ExecError::NodeUnavailable { detail, .. }) if self.is_too_late(&approval) => {
                    self.recorder
                        .end_run(&run_id, Reason::NotStarted, Some(detail))
                        .await;
                    return Ok(());
                }
                now => now?,
            };
            now.expect_readable()?;
            if let Some(reason) = self.is_stricter_now(&approval, &now) {
                self.recorder
                    .end_run(
                        &run_id,
                        reason,
                        Some("the policy became stricter after the answer".to_owned()),
                    )
                    .await;
                return Ok(());
            }
            let limits = SlotLimits::from(&now.settings().server.limits);
            let slot = self.slots.wait(&approval.card.binding.agent, limits);
            let start_by = approval
                .card
                .quorum
                .start_by(now.settings().server.approvals.start_by);
            let slot = tokio::time::timeout(start_by, slot);
            let slot = tokio::select! {
                biased;
                () = self.lifecycle.stopping() => return Ok(()),
                slot = slot => slot,
            };
            let Ok(slot) = slot else {
                let detail = "no place to run was free in time".to_owned();
                self.recorder
                    .end_run(&run_id, Reason::NotStarted, Some(detail))
                    .await;
                return Ok(());
            };
            if self.lifecycle.is_draining() {
                return Ok(());
            }
            hooks::reach("engine.before-launch-approved");
            hooks::pause("engine.before-approved");
            let launch = ApprovedLaunch {
                approval: id.clone(),
                binding: self.evaluator.rebind(&approval.card.binding, &now)?,
                stamp: now.stamp(),
                start_by,
                node: now.node.as_ref().and_then(|node| node.launch()),
            };
            match self.ledger.launch(launch).await? {
                ApprovedOutcome::Launched(permit) => {
                    hooks::reach("engine.approved-launched");
                    let agent = &approval.card.binding.agent;
                    let notice_after = now.settings().policy.exec(agent).approval_running_notice;
                    let holder = self.runs.holder_after_asking(is_awaited, is_keyed);
                    let launch = Launch::first(permit, slot, holder).noticed_after(notice_after);
                    self.runs.start_for_waiting_callers(launch).await;
                    return Ok(());
                }
                ApprovedOutcome::Stale => {}
                ApprovedOutcome::BindingMismatch
                | ApprovedOutcome::StartByPassed
                | ApprovedOutcome::AlreadyConsumed
                | ApprovedOutcome::NotAllowed(_)
                | ApprovedOutcome::RunEnded(_)
                | ApprovedOutcome::NotFound => {
                    self.broker.touch(&run_id);
                    return Ok(());
                }
            }
        }
        Err(ExecError::Overloaded)
    }

    /// Whether what a person allowed must not start any more.
    fn is_too_late(&self, approval: &Approval) -> bool {
        let start_by = self.settings.current().server.approvals.start_by;
        let start_by = approval.card.quorum.start_by(start_by);
        match &approval.state {
            ApprovalState::Allowed { at, .. } => self.clock.now() > *at + start_by,
            ApprovalState::Pending
            | ApprovalState::Denied { .. }
            | ApprovalState::Expired { .. }
            | ApprovalState::Cancelled { .. } => true,
        }
    }

    async fn is_keyed(&self, run_id: &RunId) -> Result<bool, ExecError> {
        Ok(self.ledger.is_keyed(run_id).await?)
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

    /// Ends an approval whose deadline has come, with what its fallback says.
    pub(super) async fn expire(self: &Arc<Self>, approval: &Approval, expiry: Expiry) {
        if approval.is_run_elsewhere() {
            return self.expire_question(approval).await;
        }
        let card = &approval.card;
        let mut spent: Vec<EntryId> = Vec::new();
        let mut stale = 0;
        while stale < ATTEMPTS {
            // What a server that stops leaves is found by the next one, which lets nothing start.
            if self.lifecycle.is_draining() {
                return;
            }
            let seen = Box::pin(self.evaluator.policy_for(&card.binding, &approval.requested_by)).await;
            let is_seen = seen.is_ok();
            let now = seen.unwrap_or_else(|_away| self.policy.now());
            let effective = self.evaluator.effective_for(approval, &now);
            // Everything that became stricter since the question counts. Entries and grants that have gone do not.
            let covering = self.evaluator.still_covering(card, &now, &spent);
            let security = card.security.min(effective.security.value);
            let input = GateInput {
                security,
                ask: card.ask.max(effective.ask.value),
                ask_fallback: card.ask_fallback.min(effective.ask_fallback.value),
                coverage: Coverage {
                    satisfied: covering.is_some(),
                    analysis_ok: covering.is_some(),
                    durable: false,
                },
                denylisted: self.evaluator.is_denylisted(&card.binding, &now),
                needs_person: card.needs_person || covering.as_ref().is_some_and(|cover| cover.needs_person),
                document_refused: effective.document_refused,
                tool_denied: now.is_tool_denied(&card.binding.agent, &card.binding.command),
            };
            let after = if now.settings().server.approvals.fallback_after_timeout {
                AfterTimeout::Fallback
            } else {
                AfterTimeout::Deny
            };
            let unanswered = match expiry {
                Expiry::Live => Unanswered::Timeout(after),
                Expiry::NobodyThere => Unanswered::NoRoute,
                Expiry::FoundAfterRestart => Unanswered::FoundExpired,
            };
            let (slot, fallback) = match gate::fallback(&input, unanswered) {
                // Nobody allowed it, and its node is away.
                FallbackVerdict::Run if !is_seen => (None, Fallback::deny(Reason::ApprovalTimeout)),
                FallbackVerdict::Deny(reason) => (None, Fallback::deny(reason)),
                FallbackVerdict::Run => {
                    match self.runs.take_slot(&card.binding.agent, now.settings()).await {
                        Ok(slot) => match self.evaluator.rebind(&card.binding, &now) {
                            Ok(binding) => {
                                let input = match (&covering, security.min(input.ask_fallback)) {
                                    (_, Security::Full) => binding.input,
                                    (Some(cover), Security::Allowlist | Security::Deny) => {
                                        cover.input.unwrap_or(binding.input)
                                    }
                                    (None, Security::Allowlist | Security::Deny) => CommandInput::Withheld,
                                };
                                let terms = LaunchTerms {
                                    binding,
                                    input,
                                    stamp: now.stamp(),
                                    grants: covering.map_or_else(Vec::new, |cover| cover.grants),
                                    start_by: now.settings().server.approvals.start_by,
                                    node: now.node.as_ref().and_then(|node| node.launch()),
                                };
                                (Some(slot), Fallback::Run(terms))
                            }
                            // Nobody allowed it, and what would run cannot be seen.
                            Err(Blind) => (None, Fallback::deny(expiry.reason())),
                        },
                        Err(_full) => (None, Fallback::deny(Reason::RateLimited)),
                    }
                }
            };
            match self
                .ledger
                .expire(Expire {
                    approval: approval.id.clone(),
                    fallback,
                    why: expiry.why(),
                })
                .await
            {
                Ok(ExpireOutcome::Launched { permit, approval }) => {
                    if let Some(slot) = slot {
                        // A caller who waits for it under a key may leave and join again. Not knowing is no reason to
                        // kill.
                        let is_awaited = self.broker.is_awaited(&approval.run_id);
                        let is_keyed = self.is_keyed(&approval.run_id).await.unwrap_or(true);
                        let holder = self.runs.holder_after_asking(is_awaited, is_keyed);
                        let launch = Launch::first(permit, slot, holder);
                        self.runs.start_for_waiting_callers(launch).await;
                    }
                    return;
                }
                Ok(ExpireOutcome::Stale) => stale += 1,
                // There are only so many grants, and each is left out from now on.
                Ok(ExpireOutcome::UsedUp(entry)) => spent.push(entry),
                Ok(
                    ExpireOutcome::Denied(_)
                    | ExpireOutcome::NotDue(_)
                    | ExpireOutcome::Ended(_)
                    | ExpireOutcome::NotFound,
                ) => break,
                Err(error) => {
                    tracing::error!(approval.id = %approval.id, error = &error as &dyn std::error::Error, "an approval cannot be expired yet");
                    break;
                }
            }
        }
        self.broker.touch(&approval.run_id);
    }

    /// Ends a question about a command that its asker starts. The asker finds out what its own fallback says.
    async fn expire_question(&self, approval: &Approval) {
        let expire = Expire {
            approval: approval.id.clone(),
            fallback: Fallback::deny(Reason::ApprovalTimeout),
            why: Undecided::Timeout,
        };
        if let Err(error) = self.ledger.expire(expire).await {
            tracing::error!(approval.id = %approval.id, error = &error as &dyn std::error::Error, "a question cannot be expired yet");
        }
        self.broker.touch(&approval.run_id);
    }
}

/// Why an answer is not open, in words.
const fn not_allowed(why: NotAllowed, decision: ApprovalDecision) -> &'static str {
    match (why, decision) {
        (NotAllowed::Decision, ApprovalDecision::AllowAlways) => {
            "allow-always is not open here: nothing of this command can be remembered safely, or every command is \
             asked about; allow-once lets it run this time"
        }
        (NotAllowed::Decision, ApprovalDecision::AllowOnce | ApprovalDecision::Deny) => {
            "this decision is not among allowedDecisions"
        }
        (NotAllowed::Patterns, _) => {
            "patterns: one or more of proposedPatterns, each with its argPattern, and only with allow-always"
        }
    }
}

/// When it was noticed that a deadline had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    /// By the server that asked, or one that was there at the time.
    Live,
    /// By a server that started after it: then nothing is ever let through.
    FoundAfterRestart,
    /// It has not come, but the only one who could have answered went away without an answer.
    NobodyThere,
}

impl Expiry {
    const fn why(self) -> Undecided {
        match self {
            Self::Live | Self::FoundAfterRestart => Undecided::Timeout,
            Self::NobodyThere => Undecided::NoRoute,
        }
    }

    const fn reason(self) -> Reason {
        match self {
            Self::Live | Self::FoundAfterRestart => Reason::ApprovalTimeout,
            Self::NobodyThere => Reason::NoApprover,
        }
    }
}
