//! `POST /mcp`: the Model Context Protocol over streamable HTTP.
//!
//! Nothing is kept per client: a session is an id that the client carries ([`session`]). Each request passes the same
//! admission as every other, with a bearer token of scope `exec`. What a client answers to a request of ours is taken
//! and thrown away. The endpoint must never serve a page of another origin, and a tool must never do what the route of
//! the API would refuse. Read on: [`Mount`] holds the server, [`EngineBackend`] does what tools ask, [`countersign_mcp`] has
//! the tools.

mod engine_backend;
mod in_flight;
mod mount;
mod session;

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRef as _, State},
    http::{HeaderMap, HeaderValue, Request, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use http_body_util::Full;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use engine_backend::{Asker, MessageTurn, scope_of};
pub(crate) use mount::Mount;
use mount::{EngineBackend, Served};
use session::Session;

use countersign_mcp::{HttpEndpoint, Server};
use countersign_wire::problem::ProblemBody;

use crate::{
    caller::{AgentCaller, Exec},
    extract::{self, BodyLimit, JsonBytes, QueryOf},
    problem::{Code, Problem},
    route_table::{RouteTable, routes},
    state::AppState,
    tool_schema,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(mcp))
}

/// A refusal of the protocol library is one sentence.
const LONGEST_REFUSAL: usize = 4096;

impl Mount {
    /// The server whose calls are done by the engine. The first request makes it: the schemas of the tools come from the
    /// complete contract, and to write that was a third of what a server did before it was ready.
    fn served(&self) -> &Served {
        self.served.get_or_init(|| {
            let backend = EngineBackend {
                engine: Arc::clone(&self.engine),
                links: self.links.clone(),
                body_limit: self.body_limit.clone(),
            };
            let (clock, ids) = (Arc::clone(self.engine.clock()), Arc::clone(self.engine.ids()));
            let server = Server::new(Arc::new(backend), tool_schema::tool_arguments(), clock, ids);
            Served {
                // The admission has checked the host already.
                endpoint: HttpEndpoint::new(&server, self.body_limit.bytes()),
                server,
            }
        })
    }
}

/// A JSON-RPC message of the Model Context Protocol.
#[derive(ToSchema)]
#[schema(as = McpMessage)]
#[expect(
    dead_code,
    reason = "only describes what the protocol library reads and writes"
)]
struct MessageSchema {
    /// `2.0`
    jsonrpc: String,
    /// Text or a number; of a request and its answer.
    #[schema(value_type = Option<Value>)]
    id: Option<Value>,
    /// Of a request or a notification.
    method: Option<String>,
    #[schema(value_type = Option<Object>)]
    params: Option<Value>,
    /// Of an answer.
    #[schema(value_type = Option<Object>)]
    result: Option<Value>,
    /// Of an answer in the place of `result`.
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
}

/// Speaks the Model Context Protocol (streamable HTTP): tools `exec`, `process`, `apply_patch` and `exec_explain`, with
/// the arguments and answers of `POST /v1/exec`, `POST /v1/process`, `POST /v1/apply-patch` and `POST /v1/exec/explain`.
///
/// The answer is JSON, or an event stream when progress or a request to the client comes before it. A client that goes
/// away ends its foreground run. Nothing that is sent here decides an approval. There is no stream to open with GET
/// and no session to end with DELETE.
#[utoipa::path(
    post, path = "/mcp", tag = "exec",
    request_body = MessageSchema,
    responses(
        (status = OK, description = "What the method answers, at once or as the last event of a stream.", content(
            (MessageSchema = "application/json"),
            (String = "text/event-stream"),
        )),
        (status = ACCEPTED, description = "A notification or an answer was taken."),
        (status = BAD_REQUEST, description = "invalid-request, or a JSON-RPC error", content(
            (ProblemBody = "application/problem+json"),
            (MessageSchema = "application/json"),
        )),
        (status = FORBIDDEN, description = "forbidden, also for a foreign Origin"),
        (status = NOT_FOUND, description = "not-found: no such session; or a JSON-RPC error: no such method", content(
            (ProblemBody = "application/problem+json"),
            (MessageSchema = "application/json"),
        )),
        (status = NOT_ACCEPTABLE, description = "Both application/json and text/event-stream must be accepted."),
    ),
    security(("token" = ["exec"])),
)]
async fn mcp(
    caller: AgentCaller<Exec>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    mut parts: Parts,
    JsonBytes(bytes): JsonBytes,
) -> Result<Response, Problem> {
    refuse_foreign_origin(&parts.headers)?;
    let session = Session::presented(&parts.headers)?;
    let limit = BodyLimit::from_ref(&state);
    let turn = MessageTurn::new(limit.turn_for(&caller.actor, bytes.len()).await?);
    #[cfg(feature = "test-hooks")]
    if turn.is_held() {
        drop(tokio::task::spawn_blocking(|| countersign_sys::hooks::pause("mcp.reading")).await);
    }
    let value: Value = extract::parse(&bytes)?;
    let message = Message::of(&value)?;
    let mount = state.mcp();
    let mut opened = None;
    let mut cancelled = CancellationToken::new();
    let mut permit = None;
    match message {
        Message::Answer => return Ok(StatusCode::ACCEPTED.into_response()),
        Message::Cancels(request_id) => {
            if let Some(session) = &session {
                mount.in_flight.cancel(&caller.actor.id, session, request_id);
                let scope = scope_of(&caller, Some(session));
                mount.served().server.taken_back(&scope, &request_id.to_string());
            }
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        Message::Initialize(params) => {
            opened = Some(Session::open(params, state.engine().ids().random()));
        }
        Message::Request(request_id) => {
            if let Some(session) = &session {
                let held = mount.in_flight.enter(&caller.actor.id, session, request_id);
                cancelled = held.cancelled();
                permit = Some(Arc::new(held));
            }
        }
        Message::Other => {}
    }
    parts
        .extensions
        .insert(Asker::new(&caller, session, cancelled, permit, turn));
    let response = mount
        .served()
        .endpoint
        .handle(Request::from_parts(parts, Full::new(bytes)))
        .await;
    let mut response = readable(response.map(Body::new)).await?;
    if let Some(opened) = opened.filter(|_| response.status().is_success()) {
        opened.note_on(response.headers_mut());
    }
    Ok(response)
}

/// What a message is, as far as it matters here.
#[derive(Debug, PartialEq)]
enum Message<'a> {
    Initialize(&'a Value),
    /// Takes a request back.
    Cancels(&'a Value),
    /// Any other request, with its id.
    Request(&'a Value),
    /// An answer to a request of ours.
    Answer,
    Other,
}

impl<'a> Message<'a> {
    fn of(value: &'a Value) -> Result<Self, Problem> {
        const NOTHING: &Value = &Value::Null;
        let Some(message) = value.as_object() else {
            return Err(Problem::field("", "expected one JSON-RPC message"));
        };
        let params = message.get("params").unwrap_or(NOTHING);
        let method = message.get("method").and_then(Value::as_str);
        Ok(match (method, message.get("id")) {
            (Some("initialize"), Some(_)) => Self::Initialize(params),
            (Some("notifications/cancelled"), _) => Self::Cancels(params.get("requestId").unwrap_or(NOTHING)),
            (Some(_), Some(id)) => Self::Request(id),
            (None, Some(_)) if message.contains_key("result") || message.contains_key("error") => {
                Self::Answer
            }
            (Some(_) | None, _) => Self::Other,
        })
    }
}

/// A browser names the page behind a request. A page of another origin has no business here, no matter which token it
/// holds.
fn refuse_foreign_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let own = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_own = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"))
        .is_some_and(|(_scheme, authority)| own.is_some_and(|own| authority.eq_ignore_ascii_case(own)));
    if is_own {
        return Ok(());
    }
    Err(Problem::new(
        Code::Forbidden,
        "requests from pages of other origins are refused",
    ))
}

/// The protocol library refuses in plain text where it refuses by HTTP; everything of ours is a problem document.
async fn readable(response: Response) -> Result<Response, Problem> {
    let status = response.status();
    let is_json =
        response.headers().get(header::CONTENT_TYPE) == Some(&HeaderValue::from_static("application/json"));
    if status.is_success() || is_json {
        return Ok(response);
    }
    let text = axum::body::to_bytes(response.into_body(), LONGEST_REFUSAL)
        .await
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    Err(match status {
        StatusCode::NOT_ACCEPTABLE => Problem::new(
            Code::NotAcceptable,
            "accept both application/json and text/event-stream",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Code::BodyTooLarge, text),
        // Not a JSON-RPC message: the content type was right.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Problem::field("", "expected one JSON-RPC message"),
        status if status.is_client_error() => Problem::new(Code::InvalidRequest, text),
        _ => {
            tracing::error!(%status, "the MCP transport failed");
            Problem::internal()
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let (null, one, params) = (Value::Null, json!(1), json!({"requestId": 7}));
        for (message, expected) in [
            (
                json!({"id": 1, "method": "initialize"}),
                Message::Initialize(&null),
            ),
            (json!({"id": 1, "method": "tools/call"}), Message::Request(&one)),
            (
                json!({"method": "notifications/cancelled", "params": params}),
                Message::Cancels(&json!(7)),
            ),
            (json!({"method": "notifications/initialized"}), Message::Other),
            (json!({"id": 1, "result": {"action": "accept"}}), Message::Answer),
            (json!({"id": 1, "error": {}}), Message::Answer),
            (json!({"id": 1}), Message::Other),
        ] {
            assert_eq!(Message::of(&message).unwrap(), expected, "{message}");
        }
        for no_message in [json!([]), json!(1), json!(null)] {
            assert!(Message::of(&no_message).is_err(), "{no_message}");
        }
    }

    #[test]
    fn only_our_own_pages_may_ask() {
        let allowed = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:18790"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            refuse_foreign_origin(&headers).is_ok()
        };
        assert!(allowed(None));
        assert!(allowed(Some("http://127.0.0.1:18790")));
        for foreign in [
            "null",
            "",
            "http://127.0.0.1",
            "http://127.0.0.1:1",
            "https://evil.example",
            "127.0.0.1:18790",
            "http://127.0.0.1:18790.evil.example",
        ] {
            assert!(!allowed(Some(foreign)), "{foreign}");
        }
    }
}
