//! Another UI that people answer at, besides page, stream and Bridge: where another program hosts the approvals socket,
//! its UI is asked along with them, and the first answer counts (`docs/spec/exec-tool.md#3-whether-it-runs`).
//!
//! The engine owns the seam and knows nothing of sockets; the code that joins the server hands in a [`Prompter`].

use std::{
    fmt::Debug,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use countersign_config::settings::SettingsStore;

use countersign_domain::{
    Actor, ActorKind, Approval, ApprovalDecision, ApprovalStatus, Authority, Principal, Scope,
};

use countersign_ledger::Ledger;

use crate::{
    approvals::Approvals,
    approvers::Approvers,
    base::Base,
    expiry::{Expiries, Expiry},
    lifecycle::Lifecycle,
    reply::Answer,
};

/// A future that the caller waits for.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A way to another UI.
pub trait Prompter: Debug + Send + Sync {
    /// Looks whether it answers, and holds it for one question if it does. Who is there without proving it is not.
    fn reach(&self) -> Boxed<Option<Box<dyn Prompt>>>;
}

/// A UI that is there, held for one question. Dropping it, or the future of its answer, withdraws the question.
pub trait Prompt: Send {
    /// Asks. `None` when it went away without an answer that counts.
    fn ask(self: Box<Self>, approval: &Approval) -> Boxed<Option<ApprovalDecision>>;
}

/// Who answers there, as the record names them.
fn answerer() -> Principal {
    Principal {
        actor: Actor {
            kind: ActorKind::Ipc,
            id: "socket-ui".to_owned(),
            name: "UI at the approvals socket".to_owned(),
            owner: None,
        },
        scopes: [Scope::Approve].into(),
        authority: Authority::EVERYTHING,
    }
}

/// Asks the other UI, where there is one.
#[derive(Debug)]
pub struct Prompts {
    prompter: OnceLock<Arc<dyn Prompter>>,
    ledger: Ledger,
    settings: Arc<SettingsStore>,
    approvers: Arc<Approvers>,
    approvals: Arc<Approvals>,
    expiries: Arc<Expiries>,
    lifecycle: Arc<Lifecycle>,
}

impl Prompts {
    pub(crate) fn new(
        base: &Base,
        approvers: Arc<Approvers>,
        approvals: Arc<Approvals>,
        expiries: Arc<Expiries>,
    ) -> Self {
        Self {
            prompter: OnceLock::new(),
            ledger: base.ledger.clone(),
            settings: Arc::clone(&base.settings),
            approvers,
            approvals,
            expiries,
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Asks another UI besides everybody else. Once, before anything is asked.
    pub fn set_prompter(&self, prompter: Arc<dyn Prompter>) {
        if self.prompter.set(prompter).is_err() {
            tracing::error!("there is a way to another UI already");
        }
    }

    /// Another UI that is there for a question, if there is one.
    pub(crate) async fn reach(&self) -> Option<Box<dyn Prompt>> {
        self.prompter.get()?.reach().await
    }

    /// Asks the other UI and takes its answer, unless another answer comes first.
    pub(crate) fn ask(self: &Arc<Self>, prompt: Box<dyn Prompt>, approval: Approval) {
        let prompts = Arc::clone(self);
        self.lifecycle.spawn(async move {
            let answered = tokio::select! {
                answered = prompt.ask(&approval) => answered,
                // What the ledger says of it does not matter here. The end of its connection tells the UI.
                _elsewhere = prompts.approvals.answer_to(&approval.id) => return,
            };
            match answered {
                Some(decision) => prompts.take_answer(&approval, decision).await,
                None => prompts.miss_answer(&approval).await,
            }
        });
    }

    async fn take_answer(&self, approval: &Approval, said: ApprovalDecision) {
        let allowed = &approval.card.allowed_decisions;
        let decision = match said {
            // A UI that does not know which answers are open said yes to this run at least.
            ApprovalDecision::AllowAlways if !allowed.contains(&said) => ApprovalDecision::AllowOnce,
            ApprovalDecision::AllowOnce | ApprovalDecision::AllowAlways | ApprovalDecision::Deny => said,
        };
        let answer = Answer {
            decision,
            reason: None,
            patterns: None,
            grant: None,
            refusal: None,
            shown_digest: None,
        };
        if let Err(error) = self.approvals.decide(&answerer(), &approval.id, answer).await {
            tracing::info!(approval.id = %approval.id, error = %error, "an answer over the approvals socket did not count");
        }
    }

    /// The UI went away without an answer. Any other approver who is there may still give one; if none is, nobody could
    /// be reached. Where one approver has answered and others are missing, one was reached: the others have until the
    /// deadline of the approval.
    async fn miss_answer(&self, approval: &Approval) {
        if self.approvers.are_reachable(&self.settings.current()) {
            return;
        }
        let pending = match self.ledger.approval(&approval.id).await {
            Ok(Some(pending))
                if pending.state.status() == ApprovalStatus::Pending && pending.votes.is_empty() =>
            {
                pending
            }
            Ok(_) => return,
            Err(error) => {
                tracing::error!(approval.id = %approval.id, error = &error as &dyn std::error::Error, "an approval cannot be read");
                return;
            }
        };
        self.lifecycle
            .track_launch(self.expiries.expire(&pending, Expiry::NobodyThere))
            .await;
    }
}
