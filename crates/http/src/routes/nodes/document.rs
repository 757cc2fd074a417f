//! The approvals document of a node: fetched from it and set on it, never kept here.

use axum::{extract::State, response::Response};
use serde_json::{Value, json};

use countersign_domain::{Precondition, Principal};
use countersign_engine::document::{expect_known, parse_sent};
use countersign_hosts::node::{InvokeFailure, InvokeRequest, InvokeResult, NodeError};

use crate::{
    caller::{Admin, Caller},
    extract::{AtPath, DocumentBytes, IfMatch, NodeName, QueryOf},
    problem::{Code, Problem},
    route_table::{RouteTable, routes},
    routes::document::{DocumentWire, tagged},
    short_id,
    state::AppState,
};

const GET: &str = "system.execApprovals.get";
const SET: &str = "system.execApprovals.set";

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(document, replace))
}

/// A document as a node gave it.
struct Fetched {
    file: Value,
    hash: String,
}

/// The document as the node has it at this moment.
#[utoipa::path(
    get, path = "/v1/nodes/{nodeId}/policy/document", tag = "nodes", operation_id = "get_node_policy_document",
    params(("nodeId" = NodeName, Path)),
    responses(
        (status = OK, body = DocumentWire, headers(("ETag" = String, description = "The document's hash, quoted."))),
        (status = NOT_FOUND, description = "node-not-found"),
        (status = CONFLICT, description = "node-ambiguous"),
        (status = SERVICE_UNAVAILABLE, description = "node-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn document(
    caller: Caller<Admin>,
    AtPath(node): AtPath<NodeName>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
) -> Result<Response, Problem> {
    let node = short_id::node(&state, node).await?;
    let Fetched { file, hash } = fetch(&state, &caller, &node).await?;
    Ok(tagged(DocumentWire(file), &hash))
}

/// Replaces the document on the node, if it is still the one that was seen.
#[utoipa::path(
    put, path = "/v1/nodes/{nodeId}/policy/document", tag = "nodes", operation_id = "replace_node_policy_document",
    params(
        ("nodeId" = NodeName, Path),
        ("If-Match" = Option<IfMatch>, Header, description = "The `ETag` of the document that is replaced. Required: \
            without it the answer is 428."),
    ),
    request_body = DocumentWire,
    responses(
        (status = OK, body = DocumentWire, headers(("ETag" = String, description = "The new document's hash, quoted."))),
        (status = NOT_FOUND, description = "node-not-found"),
        (status = CONFLICT, description = "node-ambiguous"),
        (status = PRECONDITION_FAILED, description = "base-hash-mismatch"),
        (status = PRECONDITION_REQUIRED, description = "base-hash-required"),
        (status = UNPROCESSABLE_ENTITY, description = "unknown-field, invalid-document; the second also when the node refused it"),
        (status = SERVICE_UNAVAILABLE, description = "node-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn replace(
    caller: Caller<Admin>,
    AtPath(node): AtPath<NodeName>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    if_match: IfMatch,
    DocumentBytes(sent): DocumentBytes,
) -> Result<Response, Problem> {
    let node = short_id::node(&state, node).await?;
    let document = parse_sent(&sent)?;
    let file: Value = serde_json::from_slice(&sent).map_err(|error| invalid(format!("no JSON: {error}")))?;
    let present = fetch(&state, &caller, &node).await?;
    let expected = if_match.required(|| present.hash.clone())?;
    if !expected.allows(&present.hash) {
        return Err(changed(present.hash));
    }
    // A document that we would refuse has nothing that could be sent back to it.
    let known = parse_sent(present.file.to_string().as_bytes()).unwrap_or_default();
    expect_known(&document, &known)?;
    // The node compares once more, so that a change that another writer makes in between is not lost.
    let base = match expected {
        Precondition::Any | Precondition::OneOf(_) => present.hash,
    };
    let params = json!({ "file": file, "baseHash": base });
    match call(&state, &caller, &node, SET, params).await? {
        Ok(answer) => {
            state.engine().node_policy_changed(&caller.actor);
            let Fetched { file, hash } = read(answer)?;
            Ok(tagged(DocumentWire(file), &hash))
        }
        Err(error) if error.message.contains("changed; reload") => {
            Err(changed(fetch(&state, &caller, &node).await?.hash))
        }
        Err(error) => Err(invalid(format!(
            "the node refused the document: {}",
            shown(&error)
        ))),
    }
}

/// A document that is wrong as a whole.
fn invalid(detail: String) -> Problem {
    Problem::new(Code::InvalidDocument, detail).with(|body| body.pointer = Some(String::new()))
}

async fn fetch(state: &AppState, caller: &Principal, node: &str) -> Result<Fetched, Problem> {
    match call(state, caller, node, GET, json!({})).await? {
        Ok(answer) => read(answer),
        Err(error) => Err(unavailable(format!(
            "the node does not show its document: {}",
            shown(&error)
        ))),
    }
}

/// What a node answers a call with; a problem when it does not answer.
async fn call(
    state: &AppState,
    caller: &Principal,
    node: &str,
    command: &str,
    params: Value,
) -> Result<Result<Value, NodeError>, Problem> {
    let bridge = state.bridge();
    if bridge.node(node).await?.is_none() {
        return Err(Problem::unknown_node());
    }
    let timeout = state.engine().settings().current().server.bridge.invoke_timeout;
    let request = InvokeRequest {
        node_id: node.to_owned(),
        connection: None,
        id: state.engine().ids().random().to_string(),
        command: command.to_owned(),
        params,
        timeout: Some(timeout),
        token: caller.actor.token(),
    };
    match bridge.link().invoke(request).await {
        Ok(InvokeResult { outcome }) => Ok(outcome),
        Err(failure) => Err(unavailable(
            match failure {
                InvokeFailure::TooLarge(size) => return Err(unavailable(size.to_string())),
                InvokeFailure::NotConnected => "the node is not connected",
                InvokeFailure::NotAllowed { .. } => {
                    "the node does not offer its document, or a person has not approved that it does"
                }
                InvokeFailure::Full => "too many calls wait for the node",
                InvokeFailure::Disconnected => {
                    "the node disconnected before it answered; look what it has now"
                }
                InvokeFailure::TimedOut => "the node did not answer in time; look what it has now",
            }
            .to_owned(),
        )),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other case, a later one too, is treated alike"
)]
fn read(answer: Value) -> Result<Fetched, Problem> {
    let Value::Object(mut answer) = answer else {
        return Err(odd());
    };
    let file = answer.remove("file").filter(Value::is_object).ok_or_else(odd)?;
    let hash = answer.remove("hash").and_then(|hash| match hash {
        Value::String(hash)
            if hash
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b':') =>
        {
            Some(hash)
        }
        _ => None,
    });
    Ok(Fetched {
        file: without_token(file),
        hash: hash.ok_or_else(odd)?,
    })
}

/// Nodes leave the token of their socket out; one that does not must not make us repeat it.
fn without_token(mut file: Value) -> Value {
    if let Some(Value::Object(socket)) = file.get_mut("socket") {
        socket.remove("token");
    }
    file
}

fn odd() -> Problem {
    unavailable("the node answered with something that is no document".to_owned())
}

fn unavailable(detail: String) -> Problem {
    Problem::new(Code::NodeUnavailable, detail)
}

fn changed(current: String) -> Problem {
    Problem::new(
        Code::BaseHashMismatch,
        "the node's document changed since it was read",
    )
    .with(|body| body.current_hash = Some(current))
}

/// The beginning of what a node says, without what could hide in it.
fn shown(error: &NodeError) -> String {
    const MOST: usize = 200;
    error
        .message
        .chars()
        .take(MOST)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect()
}
