//! What is not simply run: asking a person, the fallback where nobody can be reached, and a denial with its record.

use std::{sync::Arc, time::Duration};

use countersign_domain::{ApprovalCard, Reason};
use countersign_ledger::{
    AskOutcome, Asking, Fallback, Ledger, NewApproval, NewRun, NoRoute, NoRouteOutcome, QuestionLimit,
};
use countersign_policy::{
    approval_rules::Demand,
    gate::{self, AskSpec, FallbackVerdict, Unanswered, Verdict},
};
use countersign_sys::hooks;

use crate::{
    again::Again,
    approvers::Approvers,
    base::{Base, NewIds},
    delivery_terms::Answers,
    draft::{Admitted, Attempt, Draft, admitted},
    evaluator::{Evaluator, place},
    expiry::Expiries,
    hint::{HOW_TO_BE_THERE, hint},
    launch::Launch,
    policy_admin::PolicyAdmin,
    prompter::Prompts,
    reply::{Denial, ExecError, StorageTrouble},
    runs::Runs,
    watch::PolicySource,
};

/// Why a run is denied about which a person would be asked.
const NOBODY_THERE: &str = "a person would have to be asked, and nobody can be reached";

/// How long a question over a limit of its asker waits for its refusal. An asker that does not heed `Retry-After` sends so much
/// less, and keeps nobody else from being answered.
pub(crate) const REFUSED_AFTER: Duration = Duration::from_millis(25);

/// Asks people about calls, and records denials.
#[derive(Debug)]
pub(crate) struct Questions {
    ledger: Ledger,
    new_ids: NewIds,
    evaluator: Arc<Evaluator>,
    policy: Arc<PolicySource>,
    policy_admin: Arc<PolicyAdmin>,
    approvers: Arc<Approvers>,
    prompts: Arc<Prompts>,
    expiries: Arc<Expiries>,
    again: Arc<Again>,
    runs: Arc<Runs>,
}

/// A question about a call, before it is known who could answer it.
pub(crate) struct Question {
    pub(crate) run: NewRun,
    pub(crate) approval: NewApproval,
}

/// Who and what a question concerns.
pub(crate) struct Asked {
    pub(crate) approvers: Arc<Approvers>,
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) expiries: Arc<Expiries>,
    pub(crate) again: Arc<Again>,
}

impl Questions {
    pub(crate) fn new(base: &Base, policy_admin: Arc<PolicyAdmin>, runs: Arc<Runs>, asked: Asked) -> Self {
        let Asked {
            approvers,
            prompts,
            expiries,
            again,
        } = asked;
        Self {
            ledger: base.ledger.clone(),
            new_ids: base.new_ids.clone(),
            evaluator: Arc::clone(&base.evaluator),
            policy: Arc::clone(&base.policy),
            policy_admin,
            approvers,
            prompts,
            expiries,
            again,
            runs,
        }
    }

    /// Asks a person; when nobody can be reached the fallback counts at once
    /// (`docs/spec/exec-tool.md#3-whether-it-runs`).
    pub(crate) async fn ask(&self, draft: Draft, spec: AskSpec) -> Result<Attempt, ExecError> {
        let mut question = self.question_of(&draft, spec).await?;
        let Draft {
            call,
            judged,
            settings,
            ..
        } = &draft;
        let mut prompt = None;
        let is_reachable = match call.answers {
            // Silence must not start it: the asker counts on a person.
            Answers::Approvers if call.is_of_peer() => {
                question.approval.card.needs_person = true;
                true
            }
            Answers::Approvers => {
                prompt = self.prompts.reach().await;
                prompt.is_some() || self.approvers.are_reachable(settings)
            }
            Answers::Promised => true,
            Answers::Fallback => false,
            Answers::Refused => return self.deny(draft, Reason::ApprovalRequired).await,
        };
        if !is_reachable {
            return self.ask_nobody(&draft, question).await;
        }
        let Question { run, approval } = question;
        let run_id = run.id.clone();
        hooks::reach("engine.before-ask");
        // From before anybody is told: who answers at once must find that the run is waited for.
        let awaited = self.runs.await_run(&run_id);
        match admitted(
            self.ledger
                .admit_asking(Asking {
                    run,
                    approval,
                    key: draft.key.clone(),
                    limits: draft.question_limits(),
                    joining: draft.joining,
                })
                .await?,
        )? {
            Admitted::New(AskOutcome::Asked(approval)) => {
                hooks::reach("engine.asked");
                #[cfg(feature = "test-hooks")]
                drop(tokio::task::spawn_blocking(|| hooks::pause("engine.asked")).await);
                self.expiries.note_deadline(approval.expires_at);
                if self.policy.now().stamp() != judged.stamp {
                    // It changed before there was a question to be judged again.
                    self.again.wake();
                }
                if let Some(prompt) = prompt {
                    self.prompts.ask(prompt, *approval);
                }
                Ok(Attempt::Asked(run_id, awaited))
            }
            Admitted::New(AskOutcome::Joined(run_id)) => Ok(Attempt::Joined(run_id)),
            Admitted::New(AskOutcome::TooMany(refusal)) => {
                drop(awaited);
                match refusal.limit {
                    QuestionLimit::Server => Err(ExecError::Overloaded),
                    QuestionLimit::Agent | QuestionLimit::Token | QuestionLimit::Rate => {
                        tokio::time::sleep(REFUSED_AFTER).await;
                        Err(ExecError::TooManyQuestions(refusal))
                    }
                }
            }
            // Ours are drawn at random and never meet another one.
            Admitted::New(AskOutcome::IdTaken) => Err(ExecError::Storage(StorageTrouble::Unavailable)),
            Admitted::Known(run_id) => Ok(Attempt::Follow(run_id)),
        }
    }

    /// What a person would be asked about a draft, and how long they would have.
    pub(crate) async fn question_of(&self, draft: &Draft, spec: AskSpec) -> Result<Question, StorageTrouble> {
        let Draft {
            call,
            judged,
            settings,
            ..
        } = draft;
        let Demand { quorum, decide_by } = self.approvers.demand_of_call(judged, settings);
        let longest = decide_by.unwrap_or(settings.server.approvals.timeout);
        let wanted = call.asker.as_ref().and_then(|asker| asker.timeout);
        let wanted = wanted.map_or(longest, |wanted| wanted.min(longest));
        Ok(Question {
            run: self.runs.run_of(draft, self.new_ids.run()),
            approval: NewApproval {
                id: self.new_ids.approval(),
                card: ApprovalCard {
                    elevated: call.asked.is_elevated(),
                    quorum,
                    wishes: call.named.clone(),
                    outside_workspace: place::is_outside_workspace(call, settings).await,
                    note: call.note.clone(),
                    ..judged.to_card(spec)
                },
                timeout: self.approvers.waits_for(&call.requested_by, wanted).await?,
                revises: None,
            },
        })
    }

    async fn ask_nobody(&self, draft: &Draft, question: Question) -> Result<Attempt, ExecError> {
        let Question { run, approval } = question;
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
                    let security = judged.input.security;
                    if self.evaluator.rebind(&judged.binding, security, &now)? != judged.binding {
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
                let launch = Launch::first(permit, slot, self.runs.holder_of(draft));
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

    /// Has the rule behind a refusal of a delivered call kept with its invocation: its answer is told again.
    pub(crate) fn note_rule(&self, draft: &mut Draft) {
        let reason = match draft.judged.verdict {
            Verdict::Deny(reason) => reason,
            Verdict::Ask(_) => Reason::ApprovalRequired,
            Verdict::Run => return,
        };
        if let Some(key) = &mut draft.key {
            key.note = serde_json::to_string(&self.policy_admin.own_rule(&draft.judged, reason)).ok();
        }
    }

    pub(crate) async fn deny(&self, draft: Draft, reason: Reason) -> Result<Attempt, ExecError> {
        let run_id = self.new_ids.run();
        let (detail, hint) = draft.judged.explain_denial(&draft.call.agent, reason);
        let denial = countersign_ledger::Denial {
            run: self.runs.run_of(&draft, run_id.clone()),
            // An answer with 400 is not kept: the script may be another one next time.
            key: draft.key.filter(|_| reason != Reason::Preflight),
            reason,
            detail: detail.clone(),
            hint: hint.clone(),
        };
        match admitted(self.ledger.admit_denied(denial).await?)? {
            Admitted::New(()) => Err(ExecError::Denied(Box::new(Denial {
                run_id,
                reason,
                detail,
                hint,
                rule: Some(Box::new(self.policy_admin.own_rule(&draft.judged, reason))),
            }))),
            Admitted::Known(run_id) => Ok(Attempt::Follow(run_id)),
        }
    }
}
