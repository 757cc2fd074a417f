//! Questions about commands that the asker starts itself: a peer of the approvals socket
//! (`docs/spec/ipc.md#4-messages`, type `request`), a client of the Bridge (`exec.approval.request`).
//!
//! Such a question is an ordinary approval with a run of its own record: it is listed, told of, answered and withdrawn
//! like any other, and is evaluated by a mode of the evaluator. What sets it apart is what it is bound to,
//! [`Bound::Elsewhere`](countersign_domain::Bound::Elsewhere): nothing that this server could start. An allowing answer ends the run in the same transaction as `lost` with [`Reason::RunElsewhere`], so that
//! neither a launch nor a recovery ever finds it, and stays there to be used up once ([`crate::Approvals::use_answer`]). Silence
//! never allows: the asker applies the fallback of its own command.

use std::sync::Arc;

use countersign_domain::{Approval, ApprovalId, Joining, Reason, Stop};
use countersign_ledger::{
    Admission, ApprovalFilter, AskOutcome, Asking, Fallback, Ledger, LedgerError, NewApproval, NoRoute,
    NoRouteOutcome, Page, TooManyQuestions,
};
use countersign_policy::gate::Verdict;

pub use crate::question_terms::{AskRequest, Route};
use crate::{
    approvers::Approvers,
    base::Base,
    draft::Draft,
    evaluator::{Evaluator, Mode, call::Call},
    expiry::Expiries,
    lifecycle::Lifecycle,
    questions::{Question, Questions, REFUSED_AFTER},
    reply::{Denial, ExecError, StorageTrouble},
    stop_switch::StopSwitch,
};

/// Why nobody is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Too many questions wait, or too many were asked.
    #[error("too many questions")]
    TooMany(TooManyQuestions),
    /// There is an approval with the chosen id.
    #[error("there is an approval with this id")]
    IdTaken,
    /// Another approval begins like the chosen id, and people name approvals by their beginnings.
    #[error("another approval begins with the same 8 characters")]
    SlugTaken,
    /// The server takes no new questions because it stops.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The emergency stop is in effect: the answer is no.
    #[error("everything is stopped")]
    Stopped(Arc<Stop>),
    /// The agent is muted: the answer is no, and that was recorded.
    #[error("the agent is muted")]
    Denied(Box<Denial>),
    /// The evaluation had no answer, and says why.
    #[error("{0}")]
    NotEvaluated(Box<ExecError>),
    /// The ledger cannot be written.
    #[error("the ledger cannot be written")]
    Storage(#[from] StorageTrouble),
}

impl From<LedgerError> for AskError {
    fn from(error: LedgerError) -> Self {
        match error.into_stop() {
            Ok(stop) => Self::Stopped(stop),
            Err(error) => Self::Storage(error.into()),
        }
    }
}

impl From<ExecError> for AskError {
    fn from(error: ExecError) -> Self {
        Self::NotEvaluated(Box::new(error))
    }
}

impl AskRequest {
    /// The digest by which [`crate::Approvals::use_answer`] finds the answer to this question. Equal requests have
    /// equal digests.
    pub fn digest(&self) -> String {
        let asker = Arc::new(self.clone());
        Call::elsewhere(&asker).bind_elsewhere(&asker).digest()
    }
}

/// Asks people about commands that their askers start.
#[derive(Debug)]
pub struct AskOnly {
    ledger: Ledger,
    evaluator: Arc<Evaluator>,
    questions: Arc<Questions>,
    approvers: Arc<Approvers>,
    expiries: Arc<Expiries>,
    switch: Arc<StopSwitch>,
    lifecycle: Arc<Lifecycle>,
}

impl AskOnly {
    pub(crate) fn new(
        base: &Base,
        questions: Arc<Questions>,
        approvers: Arc<Approvers>,
        expiries: Arc<Expiries>,
    ) -> Self {
        Self {
            ledger: base.ledger.clone(),
            evaluator: Arc::clone(&base.evaluator),
            questions,
            approvers,
            expiries,
            switch: Arc::clone(&base.switch),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Asks a person about a command that the asker starts, and returns the approval: pending, or expired as `no-route`
    /// where [`Route::Needs`] finds nobody. A pending one stays so until it is answered, withdrawn ([`crate::Approvals::withdraw_question`]) or its deadline has come; [`crate::Approvals::answer_to`] waits for that.
    ///
    /// # Errors
    /// [`AskError`] when nobody is asked; then nothing but a denial was recorded.
    #[crate::compiled_once]
    pub async fn ask(&self, request: AskRequest) -> Result<Approval, AskError> {
        if self.lifecycle.is_draining() {
            return Err(AskError::ShuttingDown);
        }
        self.switch.expect_going().map_err(AskError::Stopped)?;
        if let Some(id) = &request.id {
            self.expect_free(id).await?;
        }
        let request = Arc::new(request);
        let mode = Mode::ask_only(&request);
        let evaluation = self
            .evaluator
            .evaluate(&request.asked_by, request.to_call(), &mode);
        let draft = Draft::of(Box::pin(evaluation).await?, None)?;
        let spec = match draft.judged.verdict {
            Verdict::Ask(spec) => spec,
            Verdict::Deny(reason @ Reason::AgentMuted) => {
                return Err(match self.questions.deny(draft, reason).await {
                    Err(ExecError::Denied(denial)) => AskError::Denied(denial),
                    Err(error) => error.into(),
                    // Only a call with an idempotency key can be known.
                    Ok(_) => StorageTrouble::Unavailable.into(),
                });
            }
            // The mode knows no other verdict.
            Verdict::Run | Verdict::Deny(_) => return Err(ExecError::Overloaded.into()),
        };
        let Question { run, approval } = self.questions.question_of(&draft, spec).await?;
        let approval = NewApproval {
            id: request.id.clone().unwrap_or(approval.id),
            ..approval
        };
        let is_routed = match request.route {
            Route::Waits => true,
            Route::Needs { besides } => self.approvers.are_reachable_besides(&draft.settings, besides),
        };
        if !is_routed {
            let unrouted = NoRoute {
                run,
                approval,
                key: None,
                fallback: Fallback::deny(Reason::NoApprover),
                hint: None,
            };
            return match self.ledger.admit_no_route(unrouted).await? {
                Admission::New(NoRouteOutcome::Denied(approval)) => Ok(*approval),
                Admission::New(NoRouteOutcome::IdTaken) => Err(AskError::IdTaken),
                // A denial is never launched, and only a call with an idempotency key can be known.
                Admission::New(
                    NoRouteOutcome::Launched { .. } | NoRouteOutcome::Stale | NoRouteOutcome::UsedUp(_),
                )
                | Admission::Known(_)
                | Admission::Mismatch => Err(StorageTrouble::Unavailable.into()),
            };
        }
        let asking = Asking {
            run,
            approval,
            key: None,
            limits: draft.question_limits(),
            joining: Joining::Never,
        };
        match self.ledger.admit_asking(asking).await? {
            Admission::New(AskOutcome::Asked(approval)) => {
                self.expiries.note_deadline(approval.expires_at);
                Ok(*approval)
            }
            Admission::New(AskOutcome::TooMany(refusal)) => {
                tokio::time::sleep(REFUSED_AFTER).await;
                Err(AskError::TooMany(refusal))
            }
            // Another question took it in between.
            Admission::New(AskOutcome::IdTaken) => Err(AskError::IdTaken),
            // Only a call with an idempotency key can be known, and this one joins no other.
            Admission::New(AskOutcome::Joined(_)) | Admission::Known(_) | Admission::Mismatch => {
                Err(StorageTrouble::Unavailable.into())
            }
        }
    }

    /// Refuses a chosen id that stands for an approval, whole or by the beginning that people answer by: they were shown
    /// another command under that name. One that has ended counts, too, for its answer may come late.
    async fn expect_free(&self, id: &ApprovalId) -> Result<(), AskError> {
        let taken = self.ledger.approval(id).await.map_err(StorageTrouble::from)?;
        if taken.is_some() {
            return Err(AskError::IdTaken);
        }
        let alike = ApprovalFilter {
            id_prefix: Some(id.slug().to_owned()),
            ..ApprovalFilter::default()
        };
        let alike = self
            .ledger
            .approvals(alike, Page::first(1))
            .await
            .map_err(StorageTrouble::from)?;
        match alike.items.first() {
            None => Ok(()),
            // It came in between.
            Some(other) if other.id == *id => Err(AskError::IdTaken),
            Some(_other) => Err(AskError::SlugTaken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::{
        Actor, ActorKind, AgentId, ApprovalDecision, Ask, Authority, Command, EnvOverrides, Host, Principal,
        SessionKey,
    };

    fn request(decisions: Option<Vec<ApprovalDecision>>) -> AskRequest {
        let agent = AgentId::main();
        AskRequest {
            asked_by: Principal {
                actor: Actor {
                    kind: ActorKind::Ipc,
                    id: "uid-1".to_owned(),
                    name: "x".to_owned(),
                    owner: None,
                },
                scopes: [].into(),
                authority: Authority::EVERYTHING,
            },
            id: None,
            session: SessionKey::main_of(&agent),
            agent,
            command: Command::shell("ls".to_owned()).unwrap(),
            cwd: None,
            host: Host::Gateway,
            node_id: None,
            resolved_path: None,
            security: None,
            ask: None,
            env: EnvOverrides::default(),
            decisions,
            timeout: None,
            detail: String::new(),
            route: Route::Waits,
        }
    }

    #[test]
    fn a_person_can_say_no_whatever_the_asker_understands() {
        use ApprovalDecision::{AllowAlways, AllowOnce, Deny};
        assert_eq!(
            request(None).allowed_decisions(Ask::OnMiss),
            [AllowOnce, AllowAlways, Deny]
        );
        assert_eq!(request(None).allowed_decisions(Ask::Always), [AllowOnce, Deny]);
        assert_eq!(request(Some(vec![])).allowed_decisions(Ask::OnMiss), [Deny]);
        assert_eq!(
            request(Some(vec![AllowAlways])).allowed_decisions(Ask::Always),
            [AllowAlways, Deny]
        );
    }

    #[test]
    fn the_digest_changes_with_everything_that_was_shown_and_with_who_asks() {
        let first = request(None);
        let changes: [fn(&mut AskRequest); 7] = [
            |r| r.command = Command::shell("ls -l".to_owned()).unwrap(),
            |r| r.cwd = Some("/tmp".to_owned()),
            |r| r.host = Host::Node,
            |r| r.agent = AgentId::parse("other").unwrap(),
            |r| r.session = SessionKey::parse("s").unwrap(),
            // And with the asker, for the answer is the asker's.
            |r| r.asked_by.actor.kind = ActorKind::Token,
            |r| r.asked_by.actor.id = "uid-2".to_owned(),
        ];
        for change in changes {
            let mut other = first.clone();
            change(&mut other);
            assert_ne!(other.digest(), first.digest());
        }
        assert_eq!(first.clone().digest(), first.digest());
    }
}
