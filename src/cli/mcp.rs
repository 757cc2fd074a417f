//! `countersign mcp`: the Model Context Protocol on standard input and output.
//!
//! The same server as behind `POST /mcp`; its calls are messages to that resource, so that the token, the policy and
//! the people are those of the server, and a call that is taken back ends there too. Standard output carries the
//! protocol and nothing else.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use rmcp::model::{ErrorData, Extensions, JsonObject, ProtocolVersion};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use countersign_mcp::{
    AskingTool, Backend, CallContext, Calls, ExecCall, KEY_META, Outcome, Server, StdioError, ToolArguments,
    WaitPolicy,
};
use countersign_sys::clock::{Ids as _, SystemIds};
use countersign_wire::run::RunBody;

use super::{
    client::{Client, Resending},
    context::Context,
    discover::Role,
    exec,
    exit::ExitStatus,
    failure::Failure,
    value,
};

const PAUSE: Duration = Duration::from_millis(500);

/// Serve the Model Context Protocol on standard input and output
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign mcp < /dev/null
  countersign mcp --workdir . < /dev/null
  countersign --url http://127.0.0.1:18790 mcp     # with COUNTERSIGN_TOKEN set

Started by an agent, which speaks the protocol on standard input and output; tools exec,
process, apply_patch and exec_explain. Uses gateway.token, as exec does. A command that needs a
person answers with a link. Commands run in the directory that this was started in, if the host has
it, or in that of --workdir.")]
pub(crate) struct McpArgs {
    /// Where commands run that name no directory (default: the present one, where the host has it)
    #[arg(long, alias = "cwd", value_name = "DIR")]
    workdir: Option<PathBuf>,
}

/// Serves until standard input ends.
pub(crate) async fn run(context: &Context, args: McpArgs) -> Result<ExitStatus, Failure> {
    let default_workdir = DefaultWorkdir::of(args.workdir.as_ref())?;
    let arguments = ToolArguments {
        workdir: default_workdir
            .as_ref()
            .map(|default_workdir| value::visible(&default_workdir.workdir)),
        ..countersign_http::tool_arguments()
    };
    let relay = Relay {
        context: context.clone(),
        default_workdir,
    };
    let backend = RelayBackend {
        relay: Arc::new(relay),
        session: SystemIds.random().to_string(),
    };
    let clock = Arc::clone(&context.clock);
    let server = Server::new(Arc::new(backend), arguments, clock, Arc::new(SystemIds));
    match server.serve_stdio().await {
        Ok(()) => Ok(ExitStatus::SUCCESS),
        Err(StdioError::Begin(error)) => Err(Failure::new("mcp", value::visible(&error))),
        Err(StdioError::Serve(error)) => Err(Failure::new("mcp", error).exit(ExitStatus::SOFTWARE)),
    }
}

/// Knows one caller: the client at the other end of standard input and output.
#[derive(Debug)]
struct RelayBackend {
    relay: Arc<Relay>,
    /// Stands for this process: within it, request ids are unique.
    session: String,
}

/// Does calls by the HTTP API.
struct Relay {
    context: Context,
    /// Where calls happen that do not say.
    default_workdir: Option<DefaultWorkdir>,
}

/// A directory for calls that name none.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DefaultWorkdir {
    workdir: String,
    /// Whether the agent's workspace does where the host has no such directory.
    is_default: bool,
}

impl DefaultWorkdir {
    /// The directory that a flag names, else the present one; `None` where that has no name that can be sent.
    fn of(flag: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        if let Some(path) = flag {
            return Ok(Some(Self {
                workdir: exec::workdir(path)?,
                is_default: false,
            }));
        }
        let present = std::env::current_dir().ok();
        Ok(present
            .and_then(|path| path.to_str().map(str::to_owned))
            .map(|workdir| Self {
                workdir,
                is_default: true,
            }))
    }

    /// The arguments with it, where they name neither a directory nor a host with files of its own.
    fn apply(&self, arguments: &JsonObject) -> Option<JsonObject> {
        let is_told = |name: &str| arguments.get(name).is_some_and(|value| !value.is_null());
        let is_elsewhere = arguments
            .get("host")
            .is_some_and(|host| host == "node" || host == "sandbox");
        if is_elsewhere || is_told("workdir") || is_told("node") {
            return None;
        }
        let mut arguments = arguments.clone();
        arguments.insert("workdir".to_owned(), json!(self.workdir));
        Some(arguments)
    }
}

impl Relay {
    /// Found anew for each call: the server may have been started, or started again, since the last.
    fn client(&self) -> Result<Client, Failure> {
        self.context.client(Role::Gateway)
    }

    /// A call that happens in the directory of this process, if it says nothing else.
    async fn call_in_place(&self, tool: &str, arguments: JsonObject, key: Option<&str>) -> Outcome {
        let Some((default_workdir, placed)) = self
            .default_workdir
            .as_ref()
            .and_then(|default_workdir| Some((default_workdir, default_workdir.apply(&arguments)?)))
        else {
            return self.call(tool, arguments, key).await;
        };
        let outcome = self.call(tool, placed, key).await;
        // Refused before anything began, so that nothing happens twice.
        if default_workdir.is_default && is_about_workdir(&outcome) {
            return self.call(tool, arguments, key).await;
        }
        outcome
    }

    async fn call(&self, tool: &str, arguments: JsonObject, key: Option<&str>) -> Outcome {
        let message = message(tool, &arguments, key);
        let mut resending = Resending::default();
        loop {
            let sent = match self.client() {
                Ok(client) => client.call_tool(&message, tool).await,
                Err(failure) => Err(failure),
            };
            match sent {
                Ok(answer) => return outcome(answer),
                // Only what was taken under a key is asked about again.
                Err(failure) if key.is_some() && resending.may_join(&failure) => sleep(PAUSE).await,
                Err(failure) => return refused(&failure),
            }
        }
    }
}

impl Backend for RelayBackend {
    fn origin(&self, _request: &Extensions) -> Result<CallContext, ErrorData> {
        Ok(CallContext {
            calls: Arc::<Relay>::clone(&self.relay),
            scope: String::new(),
            session: Some(self.session.clone()),
            shows_links: false,
            cancelled: CancellationToken::new(),
        })
    }
}

impl Calls for Relay {
    fn exec(&self, call: ExecCall) -> BoxFuture<'_, Outcome> {
        let mut arguments = call.arguments;
        if call.wait_policy == WaitPolicy::None {
            // A wrong one is left for the server to refuse.
            if arguments.get("approvalWaitMs").is_some_and(Value::is_u64) {
                arguments.insert("approvalWaitMs".to_owned(), json!(0));
            }
        }
        Box::pin(async move {
            match call.tool {
                AskingTool::Exec => self.call_in_place("exec", arguments, Some(&call.key)).await,
                // A patch belongs into the agent's workspace.
                AskingTool::ApplyPatch => self.call("apply_patch", arguments, Some(&call.key)).await,
            }
        })
    }

    fn explain(&self, arguments: JsonObject) -> BoxFuture<'_, Outcome> {
        Box::pin(self.call_in_place("exec_explain", arguments, None))
    }

    fn process(&self, arguments: JsonObject) -> BoxFuture<'_, Outcome> {
        Box::pin(self.call("process", arguments, None))
    }

    fn status<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let client = self.client().ok()?;
            let run: RunBody = client.get(&["v1", "runs", run_id], &Vec::new()).await.ok()?;
            Some(run.status.into_owned())
        })
    }

    fn stop<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Ok(client) = self.client() else { return };
            // The server has heard that the connection ended besides; that the run has ended too is no failure.
            drop(
                client
                    .post::<IgnoredAny>(&["v1", "runs", run_id, "cancel"], &json!({}))
                    .await,
            );
        })
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}

fn message(tool: &str, arguments: &JsonObject, key: Option<&str>) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": ProtocolVersion::V_2026_07_28,
        "io.modelcontextprotocol/clientInfo": {"name": "countersign mcp", "version": env!("CARGO_PKG_VERSION")},
        // Links are shown by this end, which knows its client.
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let (Some(key), Some(meta)) = (key, meta.as_object_mut()) {
        meta.insert(KEY_META.to_owned(), json!(key));
    }
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": meta},
    })
}

fn is_about_workdir(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(problem) => problem
            .get("code")
            .is_some_and(|code| code == "workdir-unavailable"),
        Outcome::Answered(_) => false,
    }
}

/// What a JSON-RPC answer says.
fn outcome(mut answer: Value) -> Outcome {
    let is_error = answer.pointer("/result/isError").and_then(Value::as_bool);
    match answer.pointer_mut("/result/structuredContent").map(Value::take) {
        Some(problem) if is_error == Some(true) => Outcome::Refused(problem),
        Some(structured) => Outcome::Answered(structured),
        None => {
            let message = answer.pointer("/error/message").and_then(Value::as_str);
            let detail = message.unwrap_or("the server did not answer as expected");
            Outcome::Refused(json!({"code": "unexpected-answer", "detail": detail}))
        }
    }
}

fn refused(failure: &Failure) -> Outcome {
    let mut problem = json!({"code": failure.code, "detail": failure.message});
    if let (Some(hint), Some(members)) = (&failure.hint, problem.as_object_mut()) {
        members.insert("hint".to_owned(), json!(hint));
    }
    Outcome::Refused(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_outcomes() {
        let result =
            |is_error: bool| json!({"result": {"isError": is_error, "structuredContent": {"code": "x"}}});
        assert_eq!(outcome(result(true)), Outcome::Refused(json!({"code": "x"})));
        assert_eq!(outcome(result(false)), Outcome::Answered(json!({"code": "x"})));
        assert_eq!(
            outcome(json!({"error": {"message": "no"}})),
            Outcome::Refused(json!({"code": "unexpected-answer", "detail": "no"}))
        );
    }

    #[test]
    fn a_call_that_says_where_is_left_as_it_is() {
        let default_workdir = DefaultWorkdir {
            workdir: "/project".to_owned(),
            is_default: true,
        };
        let apply = |arguments: Value| default_workdir.apply(arguments.as_object().unwrap());
        let placed = apply(json!({"argv": ["id"]})).unwrap();
        assert_eq!(placed.get("workdir"), Some(&json!("/project")));
        for told in [
            json!({"workdir": "/x"}),
            json!({"host": "node"}),
            json!({"host": "sandbox"}),
            json!({"node": "n1"}),
        ] {
            assert_eq!(apply(told), None);
        }
    }

    #[test]
    fn a_message_stands_for_itself() {
        let message = message("exec", &JsonObject::new(), Some("k"));
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta[KEY_META], "k");
    }
}
