//! Taking a person's answer, and what follows from it. What was allowed is started by [`crate::approved`].

use std::sync::Arc;

use countersign_config::{approvals::broker::Broker, settings::SettingsStore};
use countersign_domain::{
    Actor, Approval, ApprovalDecision, ApprovalId, ApprovalState, ApprovalStatus, Principal, Reason,
};
use countersign_ledger::{
    AnswerTo, CancelOutcome, ChosenPattern, Decide, DecideAndLaunch, DecideOutcome, Ledger, NotAllowed,
    TakeBack, TakeBackOutcome, UseAnswer,
    launch::{ApprovedOutcome, Permit},
};
use countersign_sys::hooks;

use crate::{
    EngineStats,
    approved::{ApprovedStarts, Foreseen, ForeseenStart},
    base::Base,
    expiry::{Expiries, Expiry},
    lifecycle::Lifecycle,
    mutes::asked_here,
    records::Records,
    remembered::Remembered,
    reply::{Answer, DecideError, Decided, Refusal, StorageTrouble, TakeBackError},
    stop_switch::StopSwitch,
};

/// Takes answers, and says what became of a question.
#[derive(Debug)]
pub struct Approvals {
    ledger: Ledger,
    records: Arc<Records>,
    settings: Arc<SettingsStore>,
    broker: Arc<Broker>,
    stats: EngineStats,
    approved: Arc<ApprovedStarts>,
    expiries: Arc<Expiries>,
    remembered: Arc<Remembered>,
    switch: Arc<StopSwitch>,
    lifecycle: Arc<Lifecycle>,
}

impl Approvals {
    pub(crate) fn new(
        base: &Base,
        stats: EngineStats,
        approved: Arc<ApprovedStarts>,
        expiries: Arc<Expiries>,
        remembered: Arc<Remembered>,
    ) -> Self {
        Self {
            ledger: base.ledger.clone(),
            records: Arc::clone(&base.records),
            settings: Arc::clone(&base.settings),
            broker: Arc::clone(&base.broker),
            stats,
            approved,
            expiries,
            remembered,
            switch: Arc::clone(&base.switch),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Takes a person's answer (`docs/spec/http-api.md#approval-object`: the table of answers).
    ///
    /// # Errors
    /// [`DecideError`] when this answer is not the one that counts.
    #[crate::compiled_once]
    pub async fn decide<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        id: &ApprovalId,
        answer: Answer,
    ) -> Result<Decided, DecideError> {
        // The agent of an approval never changes, so what is seen here is what is decided.
        let Some(asked) = self.records.approval(caller, id).await? else {
            return Err(DecideError::NotFound);
        };
        let Answer {
            decision,
            reason,
            patterns,
            grant,
            refusal,
            shown_digest,
        } = answer;
        if let Some(Refusal::Until(until) | Refusal::Agent(until)) = refusal
            && !self.remembered.may_mute_until(until)
        {
            return Err(DecideError::NotAllowed {
                detail: "mute.untilMs: expected a time within the next 30 days".to_owned(),
                reason: None,
            });
        }
        // Muting denies all that the agent has asked.
        let mutes = matches!(refusal, Some(Refusal::Agent(_)));
        if mutes && asked_here(&self.ledger, &caller.actor, &asked.card.binding.agent).await? {
            return Err(DecideError::OwnRequest);
        }
        let decide = Decide {
            approval: id.clone(),
            decision,
            by: caller.actor.clone(),
            reason,
            patterns: patterns.map(|patterns| {
                let chosen = |(pattern, arg_pattern)| ChosenPattern { pattern, arg_pattern };
                patterns.into_iter().map(chosen).collect()
            }),
            grant,
            shown_digest,
        };
        // In a task of its own: an answer that is in the ledger is followed up even if the answerer left.
        let approvals = Arc::clone(self);
        let task = self.lifecycle.spawn_launch(async move {
            let (by, why) = (decide.by.clone(), decide.reason.clone());
            let decided = approvals.decide_and_follow_up(decide, &asked).await?;
            Ok(approvals.with_rule(decided, refusal, &by, why.as_deref()).await)
        });
        task.await
            .unwrap_or(Err(DecideError::Storage(StorageTrouble::Unavailable)))
    }

    /// Leaves the deny rule that a deny is to leave. The deny was recorded before: without it the rule would settle the
    /// question first. It narrows, so that it is written for a repeated deny too.
    async fn with_rule(
        &self,
        decided: Decided,
        refusal: Option<Refusal>,
        by: &Actor,
        why: Option<&str>,
    ) -> Decided {
        let is_denied = matches!(decided.approval.state, ApprovalState::Denied { .. });
        let rule = match refusal.filter(|_| is_denied) {
            Some(refusal) => Some(self.remembered.refuse(&decided.approval, refusal, by, why).await),
            None => None,
        };
        Decided { rule, ..decided }
    }

    async fn decide_and_follow_up(
        self: &Arc<Self>,
        decide: Decide,
        asked: &Approval,
    ) -> Result<Decided, DecideError> {
        hooks::reach("engine.before-decide");
        if decide.decision != ApprovalDecision::Deny {
            // The transaction looks again; here it is known without any disk.
            self.switch.expect_going().map_err(DecideError::Stopped)?;
        }
        let decision = decide.decision;
        let (outcome, launched) = self.record_answer(decide, asked).await?;
        match outcome {
            DecideOutcome::Decided { applied, approval } => {
                hooks::reach("engine.decided");
                if applied {
                    self.stats.note_answer(&approval);
                    self.broker.touch(&approval.run_id);
                    let approved = Arc::clone(&self.approved);
                    if let Some((permit, start)) = launched {
                        self.lifecycle
                            .spawn_launch(async move { approved.start(permit, start).await });
                    } else if approval.state.status() == ApprovalStatus::Allowed
                        && !approval.is_run_elsewhere()
                    {
                        let id = approval.id.clone();
                        self.lifecycle
                            .spawn_launch(async move { approved.launch(&id).await });
                    }
                }
                Ok(Decided {
                    applied,
                    approval: *approval,
                    rule: None,
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
            DecideOutcome::NotAllowedDecision(NotAllowed::Grant(why)) if why.is_wider() => {
                Err(DecideError::TooWide {
                    detail: why.to_string(),
                })
            }
            DecideOutcome::NotAllowedDecision(why) => Err(DecideError::NotAllowed {
                detail: not_allowed(why, decision),
                reason: (why == NotAllowed::Binding).then_some(Reason::BindingMismatch),
            }),
            DecideOutcome::OwnRequest => Err(DecideError::OwnRequest),
            DecideOutcome::NotEntitled(approval) => Err(DecideError::NotEntitled {
                detail: approval.card.quorum.who_may_allow(),
            }),
            DecideOutcome::NotFound => Err(DecideError::NotFound),
        }
    }

    /// Puts an answer into the ledger, and the launch with it where it can start at once.
    async fn record_answer(
        &self,
        decide: Decide,
        asked: &Approval,
    ) -> Result<(DecideOutcome, Option<(Permit, ForeseenStart)>), DecideError> {
        let foreseen = match decide.decision {
            ApprovalDecision::AllowOnce => self.approved.foresee(asked).await,
            // What is remembered is written before the launch.
            ApprovalDecision::AllowAlways | ApprovalDecision::Deny => None,
        };
        if let Some(Foreseen { launch, start }) = foreseen {
            let answer = DecideAndLaunch {
                decide: decide.clone(),
                launch,
            };
            match self.ledger.decide_and_launch(answer).await {
                Ok((outcome, Some(ApprovedOutcome::Launched(permit)))) => {
                    return Ok((outcome, Some((permit, start))));
                }
                // Its deadline passed meanwhile: the fallback comes first.
                Ok((DecideOutcome::Due(_), _)) => {}
                Ok((outcome, _)) => return Ok((outcome, None)),
                // There is room for less.
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "an answer is taken without its launch"
                    );
                }
            }
        }
        let mut outcome = self.ledger.decide(decide.clone()).await?;
        if let DecideOutcome::Due(approval) = outcome {
            self.expiries.expire(&approval, Expiry::Live).await;
            outcome = self.ledger.decide(decide).await?;
        }
        Ok((outcome, None))
    }

    /// Takes back what was allowed, unless its run has started (`docs/spec/http-api.md#approval-object`).
    ///
    /// # Errors
    /// [`TakeBackError`] when it was not allowed, or can no longer be taken back.
    #[crate::compiled_once]
    pub async fn take_back(
        &self,
        caller: &Principal,
        id: &ApprovalId,
        reason: Option<String>,
    ) -> Result<Decided, TakeBackError> {
        // The agent of an approval never changes, so what is seen here is what is taken back.
        let seen = self.records.approval(caller, id).await;
        if seen.map_err(DecideError::from)?.is_none() {
            return Err(DecideError::NotFound.into());
        }
        let take_back = TakeBack {
            approval: id.clone(),
            by: caller.actor.clone(),
            reason,
        };
        let outcome = self.ledger.take_back(take_back).await;
        let outcome = outcome.map_err(|error| DecideError::Storage(error.into()))?;
        match outcome {
            TakeBackOutcome::TakenBack(approval) => {
                self.broker.touch(&approval.run_id);
                Ok(Decided {
                    applied: true,
                    approval: *approval,
                    rule: None,
                })
            }
            TakeBackOutcome::Repeated(approval) => Ok(Decided {
                applied: false,
                approval: *approval,
                rule: None,
            }),
            TakeBackOutcome::TooLate(approval) => Err(TakeBackError::TooLate(approval)),
            TakeBackOutcome::NotAnswered => Err(TakeBackError::NotAnswered),
            TakeBackOutcome::Expired(approval) => Err(DecideError::Expired(approval).into()),
            TakeBackOutcome::Cancelled(approval) => Err(DecideError::Cancelled(approval).into()),
            TakeBackOutcome::OwnRequest => Err(DecideError::OwnRequest.into()),
            TakeBackOutcome::NotFound => Err(DecideError::NotFound.into()),
        }
    }

    /// Waits until an approval is no longer pending and returns it, or as it stands when the server begins to stop.
    /// `None` when there is no such approval.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped; call it again.
    #[crate::compiled_once]
    pub async fn answer_to(&self, id: &ApprovalId) -> Result<Option<Approval>, StorageTrouble> {
        let Some(approval) = self.ledger.approval(id).await? else {
            return Ok(None);
        };
        let mut changes = self.broker.subscribe(&approval.run_id);
        loop {
            let approval = self.ledger.approval(id).await?;
            let is_pending = approval
                .as_ref()
                .is_some_and(|approval| approval.state.status() == ApprovalStatus::Pending);
            if !is_pending || self.lifecycle.is_stopping() {
                return Ok(approval);
            }
            tokio::select! {
                () = changes.changed() => {}
                () = self.lifecycle.stopping() => {}
            }
        }
    }

    /// Withdraws a pending question whose asker no longer wants the answer. `false` when it was not pending.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn withdraw_question(&self, id: &ApprovalId, by: Actor) -> Result<bool, StorageTrouble> {
        let Some(approval) = self.ledger.approval(id).await? else {
            return Ok(false);
        };
        let outcome = self
            .ledger
            .cancel(approval.run_id.clone(), Reason::Cancelled, by)
            .await?;
        self.broker.touch(&approval.run_id);
        Ok(matches!(outcome, CancelOutcome::Cancelled(Some(_))))
    }

    /// Uses up an allowing answer to a question of a question of [`crate::ask_only::AskOnly::ask`], once, if it is not older than
    /// `[approvals] start_by_ms`, or than its rule says. `None` when there is none to use.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn use_answer(&self, to: AnswerTo) -> Result<Option<Approval>, StorageTrouble> {
        let settings = self.settings.current();
        let approvals = &settings.server.approvals;
        let of_rules = approvals.rules.iter().filter_map(|rule| rule.start_by).max();
        let answer = UseAnswer {
            to,
            start_by: approvals.start_by,
            longest: of_rules.unwrap_or(approvals.start_by),
        };
        Ok(self.ledger.use_answer(answer).await?)
    }
}

/// Why an answer is not open, in words.
fn not_allowed(why: NotAllowed, decision: ApprovalDecision) -> String {
    let words = match (why, decision) {
        (NotAllowed::Grant(why), _) => return why.to_string(),
        (NotAllowed::Decision, ApprovalDecision::AllowAlways) => {
            "allow-always is not open here: no entry could match exactly this command, or policy asks about every command; \
             allow-once lets it run this time"
        }
        (NotAllowed::Decision, ApprovalDecision::AllowOnce | ApprovalDecision::Deny) => {
            "this decision is not among allowedDecisions"
        }
        (NotAllowed::Patterns, _) => {
            "patterns: one or more of proposedPatterns, each with its argPattern, only with allow-always and without grant"
        }
        (NotAllowed::Binding, _) => {
            "bindingDigest is not that of this question, so something else was shown; read the question again"
        }
    };
    words.to_owned()
}
