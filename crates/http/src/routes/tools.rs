//! `POST /tools/invoke`: the product's own tool endpoint, for callers who know no other
//! (`docs/spec/http-api.md#post-toolsinvoke`).
//!
//! The bodies, the engine and the records are those of `/v1`; only the envelope differs. Refusals get their form where
//! all refusals are written (`Problem::render_for_tool`), so that those of the admission have it too.

use axum::extract::State;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use countersign_domain::{AgentId, Principal, SessionKey};
use countersign_engine::{Engine, IdempotencyKey, OnDisconnect};

use super::{
    exec::{ExecAnswer, ExecBody, explanation_body, identity},
    patch::{PatchAnswer, PatchBody},
    process::{ProcessBody, process_answer},
};

use crate::{
    caller::{AgentCaller, Exec},
    extract::{self, QueryOf, RawJson},
    problem::{Code, Problem},
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

pub(crate) const PATH: &str = "/tools/invoke";

/// What the product's clients call the main session of an agent.
const MAIN: &str = "main";

/// The longest name of a tool that is repeated.
const MAX_TOOL_CHARS: usize = 64;

/// The longest idempotency key.
const MAX_KEY_BYTES: usize = 255;

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(invoke))
}

/// A call of a tool. Members that are not named here are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCall)]
struct ToolBody {
    /// `exec`, `process` or `apply_patch`.
    tool: Option<String>,
    /// The same; it wins over `tool`.
    name: Option<String>,
    /// Becomes the `action` of `args`, unless they have one.
    action: Option<String>,
    /// The members of the body of `POST /v1/exec`, `POST /v1/process` or `POST /v1/apply-patch`.
    #[schema(value_type = Option<Object>)]
    args: Option<Map<String, Value>>,
    /// In which session; absent or `main` for the main session of the agent.
    session_key: Option<String>,
    /// Who asks; `main` unless given or told by `sessionKey`.
    agent_id: Option<AgentId>,
    /// The same key with the same body within 24 h gives the first answer again and runs nothing.
    #[schema(min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
    /// Only says what would become of it: nothing runs, nobody is asked, and nothing is recorded.
    dry_run: Option<bool>,
}

/// What a tool answered.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolAnswer)]
struct ToolAnswer {
    /// Always true.
    ok: bool,
    result: ToolResult,
}

/// Text for a model, and the same for programs.
#[derive(Debug, Serialize, ToSchema)]
struct ToolResult {
    content: Vec<TextBlock>,
    /// Depends on the tool.
    #[schema(value_type = Object)]
    details: Value,
}

/// A piece of text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolText)]
struct TextBlock {
    #[schema(value_type = String)]
    r#type: &'static str,
    text: String,
}

/// Calls a tool as the product's clients do. A command that fails is a successful call whose details say so.
#[utoipa::path(
    post, path = "/tools/invoke", tag = "exec", operation_id = "invoke_tool",
    request_body = ToolBody,
    responses(
        (status = OK, body = ToolAnswer),
        (status = FORBIDDEN, description = "The scope is missing, or the call was denied; the message has the reason."),
        (status = NOT_FOUND, description = "There is no such tool, or tool policy denies it."),
    ),
    security(("token" = ["exec"])),
)]
async fn invoke(
    caller: AgentCaller<Exec>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    RawJson { value: body, bytes }: RawJson<ToolBody>,
) -> Result<JsonReply<ToolAnswer>, Problem> {
    let call = body.into_call(Sha256::digest(&bytes).into())?;
    let (text, details) = call.run(&state, &caller).await?;
    Ok(JsonReply(ToolAnswer {
        ok: true,
        result: ToolResult {
            content: vec![TextBlock { r#type: "text", text }],
            details,
        },
    }))
}

#[derive(Debug, Clone, Copy)]
enum Tool {
    Exec,
    Process,
    ApplyPatch,
}

/// A call whose arguments are those of the tool's own operation.
#[derive(Debug)]
struct ToolCall {
    tool: Tool,
    args: Map<String, Value>,
    key: Option<IdempotencyKey>,
    is_dry: bool,
}

impl ToolBody {
    fn into_call(self, body_sha256: [u8; 32]) -> Result<ToolCall, Problem> {
        let Self {
            tool,
            name,
            action,
            args,
            session_key,
            agent_id,
            idempotency_key,
            dry_run,
        } = self;
        let name = name.or(tool).filter(|name| !name.trim().is_empty());
        let name = name.ok_or_else(|| Problem::field("tool", "this member is needed"))?;
        let tool = match name.trim() {
            "exec" => Tool::Exec,
            "process" => Tool::Process,
            "apply_patch" => Tool::ApplyPatch,
            other => {
                let shown: String = other.chars().take(MAX_TOOL_CHARS).collect();
                return Err(Problem::not_found("tool").with(|body| body.tool = Some(shown)));
            }
        };
        let mut args = args.unwrap_or_default();
        if let Some(action) = action {
            args.entry("action").or_insert(action.into());
        }
        if !matches!(tool, Tool::Process) {
            // Only the process tool has actions.
            args.remove("action");
        }
        let session_key = session_key.filter(|key| !key.trim().is_empty() && key != MAIN);
        let session = session_key
            .map(|key| {
                SessionKey::parse(key).map_err(|invalid| Problem::field("sessionKey", invalid.to_string()))
            })
            .transpose()?;
        let is_named = agent_id.is_some() || session.is_some();
        let (agent, session) = identity(agent_id, session)?;
        if is_named {
            put(&mut args, "agentId", agent.as_str())?;
            if !matches!(tool, Tool::Process) {
                put(&mut args, "sessionKey", session.as_str())?;
            }
        }
        let key = idempotency_key.map(key).transpose()?.map(|key| IdempotencyKey {
            key,
            body_sha256,
            on_disconnect: OnDisconnect::Detach,
            is_named: true,
        });
        Ok(ToolCall {
            tool,
            args,
            key,
            is_dry: dry_run.unwrap_or_default(),
        })
    }
}

/// Says to the tool what is said beside its arguments. Both must agree.
fn put(args: &mut Map<String, Value>, member: &'static str, value: &str) -> Result<(), Problem> {
    let there = args.entry(member).or_insert_with(|| value.into());
    if there.as_str() == Some(value) {
        return Ok(());
    }
    Err(Problem::field(
        format!("args.{member}"),
        format!("says something else than {member} beside args"),
    ))
}

fn key(text: String) -> Result<String, Problem> {
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_printable && !text.trim().is_empty() && text.len() <= MAX_KEY_BYTES {
        return Ok(text);
    }
    Err(Problem::field(
        "idempotencyKey",
        "expected 1 to 255 printable ASCII characters",
    ))
}

impl ToolCall {
    async fn run(self, state: &AppState, caller: &Principal) -> Result<(String, Value), Problem> {
        let engine = state.engine();
        let Self {
            tool,
            args,
            key,
            is_dry,
        } = self;
        if is_dry {
            return dry_run(tool, args, engine, caller).await;
        }
        match tool {
            Tool::Exec => {
                let request = parsed::<ExecBody>(args)?.into_request()?;
                let reply = engine.calls().exec(caller, request, key).await;
                let answer = ExecAnswer::of_call(engine, state.links(), reply).await?;
                Ok(exec_result(&answer.to_json()?))
            }
            Tool::ApplyPatch => {
                let request = parsed::<PatchBody>(args)?.into_request()?;
                let reply = engine.patches().apply(caller, request, key).await;
                let answer = PatchAnswer::of_patch(engine, state.links(), reply).await?;
                Ok(patch_result(answer.to_json()?))
            }
            Tool::Process => {
                let call = parsed::<ProcessBody>(args)?.into_call()?;
                let reply = engine.processes().call(caller, call).await?;
                Ok(process_result(to_json(&process_answer(reply))?))
            }
        }
    }
}

/// What would become of a call. Its arguments must be those of a call.
async fn dry_run(
    tool: Tool,
    args: Map<String, Value>,
    engine: &Engine,
    caller: &Principal,
) -> Result<(String, Value), Problem> {
    let mut details = Map::from_iter([("status".to_owned(), json!("dry-run"))]);
    let text = match tool {
        Tool::Exec => {
            let request = parsed::<ExecBody>(args)?.into_request()?;
            let explanation = explanation_body(engine.explainer().explain(caller, request).await?);
            let text = match (explanation.outcome.as_ref(), explanation.reason.as_deref()) {
                ("run", _) => "The command would run.".to_owned(),
                ("ask", _) => "A person would have to allow it.".to_owned(),
                (_denied, reason) => format!("It would be denied ({}).", reason.unwrap_or("denied")),
            };
            details.insert("explanation".to_owned(), to_json(&explanation)?);
            text
        }
        Tool::ApplyPatch => {
            parsed::<PatchBody>(args)?.into_request()?;
            "The patch can be read.".to_owned()
        }
        Tool::Process => {
            parsed::<ProcessBody>(args)?.into_call()?;
            "The call can be read.".to_owned()
        }
    };
    Ok((
        format!("{text} Nothing was done (dryRun)."),
        Value::Object(details),
    ))
}

fn to_json(answer: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(answer).map_err(|error| {
        tracing::error!(%error, "a tool's answer could not be written as JSON");
        Problem::internal()
    })
}

/// Reads arguments exactly as the body of the tool's operation is read.
fn parsed<T: DeserializeOwned>(args: Map<String, Value>) -> Result<T, Problem> {
    let bytes = serde_json::to_vec(&Value::Object(args))
        .map_err(|_unwritable| Problem::new(Code::InvalidRequest, "args cannot be read"))?;
    extract::parse(&bytes)
}

fn exec_result(answer: &Value) -> (String, Value) {
    match text(answer, "status") {
        "running" => running_result(answer),
        "approval-pending" => pending_result(answer),
        _ => {
            let aggregated = text(answer, "aggregated");
            let details = json!({
                "status": answer.get("status"),
                "exitCode": answer.get("exitCode"),
                "durationMs": answer.get("durationMs"),
                "aggregated": aggregated,
                "cwd": answer.get("cwd"),
            });
            let output = if aggregated.trim().is_empty() {
                "(no output)"
            } else {
                aggregated
            };
            let ending = how_it_failed(answer).map_or_else(String::new, |how| format!("\n\n{how}"));
            (format!("{output}{ending}"), details)
        }
    }
}

/// How a command ended that did not succeed.
fn how_it_failed(answer: &Value) -> Option<String> {
    if text(answer, "status") == "completed" {
        return None;
    }
    if answer.get("timedOut").and_then(Value::as_bool) == Some(true) {
        return Some("The command was ended by its time limit.".to_owned());
    }
    if let Some(code) = answer.get("exitCode").and_then(Value::as_i64) {
        return Some(format!("The command exited with code {code}."));
    }
    let signal = answer.get("exitSignal").and_then(Value::as_str);
    Some(match (signal, text(answer, "reason")) {
        (Some(signal), _) => format!("The command was ended by {signal}."),
        (None, reason) => format!("The command did not end well ({reason})."),
    })
}

fn running_result(answer: &Value) -> (String, Value) {
    let session = text(answer, "sessionId");
    let pid = answer.get("pid").and_then(Value::as_i64);
    let process = pid.map_or_else(String::new, |pid| format!(", pid {pid}"));
    let line = format!("The command goes on (session {session}{process}). Follow it with the process tool.");
    let details = json!({
        "status": "running",
        "sessionId": session,
        "pid": pid,
        "startedAt": answer.get("startedAtMs"),
        "cwd": answer.get("cwd"),
        "tail": answer.get("tail"),
    });
    (line, details)
}

fn pending_result(answer: &Value) -> (String, Value) {
    let slug = text(answer, "approvalSlug");
    let line = format!("A person has to allow this (approval {slug}). Nothing has run yet.");
    let mut details = json!({ "status": "approval-pending" });
    if let Value::Object(details) = &mut details {
        for member in [
            "approvalId",
            "approvalSlug",
            "expiresAtMs",
            "host",
            "command",
            "cwd",
            "nodeId",
        ] {
            details.extend(answer.get(member).map(|value| (member.to_owned(), value.clone())));
        }
    }
    (line, details)
}

fn patch_result(answer: Value) -> (String, Value) {
    match text(&answer, "status") {
        "approval-pending" => pending_result(&answer),
        "running" => running_result(&answer),
        _ => (text(&answer, "summary").to_owned(), answer),
    }
}

fn process_result(answer: Value) -> (String, Value) {
    let output: String = ["stdout", "stderr", "text"]
        .into_iter()
        .map(|member| text(&answer, member))
        .collect();
    let line = if output.is_empty() {
        answer.to_string()
    } else {
        output
    };
    (line, answer)
}

fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object.get(member).and_then(Value::as_str).unwrap_or_default()
}
