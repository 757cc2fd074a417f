//! The UI that another process hosts, as one more place where people answer.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use countersign_domain::{Approval, ApprovalDecision};
use countersign_engine::{
    Engine,
    prompter::{Boxed, Prompt, Prompter},
};
use countersign_policy::command::{display, question::PlainQuestion};
use countersign_protocol::ipc::OutgoingQuestion;

use super::{
    client::{AskOutcome, Client, ClientOptions, Connection, Unreachable},
    socket_file::{self, SocketFileError},
};

/// A way to the UI that the document in force names.
#[derive(Debug)]
pub struct OtherUi {
    engine: Weak<Engine>,
    client: Arc<Client>,
    document: PathBuf,
    home: Option<PathBuf>,
}

impl OtherUi {
    /// A way to it.
    pub fn new(engine: &Arc<Engine>, document: PathBuf, home: Option<PathBuf>) -> Self {
        let client = Client::new(Arc::clone(engine.clock()), Arc::clone(engine.ids()));
        Self {
            engine: Arc::downgrade(engine),
            client: Arc::new(client),
            document,
            home,
        }
    }

    /// Where it is now; `None` without a token, or while the document is refused.
    fn options(&self) -> Option<ClientOptions> {
        let engine = self.engine.upgrade()?;
        let named = engine.socket().named()?;
        Some(ClientOptions {
            path: socket_file::socket_path(named.path.as_deref(), &self.document, self.home.as_deref()),
            token: named.token?,
            require_v2: engine.settings().current().server.ipc.require_v2,
        })
    }
}

impl Prompter for OtherUi {
    fn reach(&self) -> Boxed<Option<Box<dyn Prompt>>> {
        let (options, client) = (self.options(), Arc::clone(&self.client));
        Box::pin(async move {
            match client.connect(&options?).await {
                Ok(connection) => Some(Box::new(Held(connection)) as Box<dyn Prompt>),
                Err(Unreachable::Place(SocketFileError::Missing) | Unreachable::Connect(_)) => None,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "nobody is asked over the approvals socket"
                    );
                    None
                }
            }
        })
    }
}

/// A UI that waits for its question.
struct Held(Connection);

impl Prompt for Held {
    fn ask(self: Box<Self>, approval: &Approval) -> Boxed<Option<ApprovalDecision>> {
        let card = &approval.card;
        // Its window may show a text as it comes, so nothing in it hides or moves the rest.
        let PlainQuestion {
            text,
            is_cut,
            decisions,
        } = PlainQuestion::of(card);
        let question = OutgoingQuestion {
            command: text,
            cwd: Some(display::visible(&card.binding.cwd)),
            host: Some(card.binding.host),
            security: Some(card.security),
            ask: Some(card.ask),
            agent_id: Some(card.binding.agent.to_string()),
            resolved_path: card.resolved_path.as_deref().map(display::visible),
            session_key: Some(display::visible(card.binding.session.as_str())),
            allowed_decisions: Some(decisions),
        };
        let id = approval.id.clone();
        Box::pin(async move {
            match self.0.ask(&question).await {
                // A UI need not know which answers are open, and nobody read there what it says yes to (V3).
                AskOutcome::Decided(ApprovalDecision::AllowOnce | ApprovalDecision::AllowAlways)
                    if is_cut =>
                {
                    tracing::warn!(
                        approval.id = %id,
                        "a yes over the approvals socket does not count: not all of the question was shown there"
                    );
                    None
                }
                AskOutcome::Decided(decision) => Some(decision),
                AskOutcome::NoAnswer => None,
            }
        })
    }
}
