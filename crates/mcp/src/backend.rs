//! The backend of the MCP server: the calls that it needs of the rest of the program.
//!
//! [`Backend`] and [`Calls`] are implemented by the engine behind `POST /mcp` (`http/routes/mcp/engine_backend.rs`) and by the
//! HTTP API behind `countersign mcp` (`cli/mcp.rs`). A backend does what the API's own routes do and must never decide a question: no tool
//! answers one. The server that calls it is [`super::server`].

use std::{fmt::Debug, sync::Arc};

use futures_util::future::BoxFuture;
use rmcp::model::{ErrorData, Extensions, JsonObject};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::AskingTool;

/// Knows the callers of the [`Server`](super::Server).
pub trait Backend: Debug + Send + Sync + 'static {
    /// Who sent a request, from what its transport noted on it.
    ///
    /// # Errors
    /// When the transport noted nobody.
    fn origin(&self, request: &Extensions) -> Result<CallContext, ErrorData>;
}

/// The calls of one caller who proved who they are.
pub trait Calls: Debug + Send + Sync {
    /// Does what `POST /v1/exec` does, or `POST /v1/apply-patch`.
    ///
    /// # Cancel safety
    /// Dropping the future ends a run that was started for it in the foreground.
    fn exec(&self, call: ExecCall) -> BoxFuture<'_, Outcome>;

    /// Does what `POST /v1/exec/explain` does.
    fn explain(&self, arguments: JsonObject) -> BoxFuture<'_, Outcome>;

    /// Does what `POST /v1/process` does.
    fn process(&self, arguments: JsonObject) -> BoxFuture<'_, Outcome>;

    /// The status of a run of the caller's.
    fn status<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Option<String>>;

    /// Ends a run of the caller's.
    fn stop<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, ()>;
}

/// Where a request came from.
#[derive(Debug)]
pub struct CallContext {
    /// What its sender may do.
    pub calls: Arc<dyn Calls>,
    /// Stands for the caller and their conversation: what is remembered for one is not given to another.
    pub scope: String,
    /// The session in which request ids are unique; `None` where the transport has none.
    pub session: Option<String>,
    /// Whether the client said in an earlier request that it can show a link to its user.
    pub shows_links: bool,
    /// Ends when the client takes the request back by means that the protocol library does not see.
    pub cancelled: CancellationToken,
}

/// Member of an answer about a run of another call.
const JOINED: &str = "joined";

/// One call on its way to the backend.
#[derive(Debug, Clone)]
pub struct ExecCall {
    /// Which of the two routes the call is for.
    pub tool: AskingTool,
    /// The arguments as they were sent.
    pub arguments: JsonObject,
    /// Under which the call happens once.
    pub key: String,
    /// Whether the client named the key.
    pub is_named: bool,
    /// SHA-256 of everything about the arguments that says what is run.
    pub digest: [u8; 32],
    /// Whether the call may wait for a person's answer.
    pub wait_policy: WaitPolicy,
}

/// How long a call waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Not at all: `approvalWaitMs` is checked and set aside.
    None,
    /// As long as `approvalWaitMs` says.
    AsAsked,
}

/// The answer to a call, in the JSON of the HTTP API.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// An answer with a 2xx status.
    Answered(Value),
    /// A refusal or fault: its problem document.
    Refused(Value),
}

impl Outcome {
    /// Whether the call joined the run of another.
    pub(super) fn is_joined(&self) -> bool {
        match self {
            Self::Answered(answer) => answer.get(JOINED) == Some(&Value::Bool(true)),
            Self::Refused(_) => false,
        }
    }

    /// The same, told again about a call that did.
    pub(super) fn joined(mut self) -> Self {
        if let Self::Answered(Value::Object(members)) = &mut self {
            members.insert(JOINED.to_owned(), Value::Bool(true));
        }
        self
    }

    /// Whether it is the end of a run that was cancelled.
    pub(super) fn was_cancelled(&self) -> bool {
        match self {
            Self::Answered(answer) => answer.get("status").is_some_and(|status| status == "cancelled"),
            Self::Refused(_) => false,
        }
    }

    /// The answer, when it says that a person is asked.
    pub(super) fn pending(&self) -> Option<&Value> {
        match self {
            Self::Answered(answer) if answer.get("status")? == "approval-pending" => Some(answer),
            Self::Answered(_) | Self::Refused(_) => None,
        }
    }
}
