//! Nodes: which there are, which want to be, and the approvals document of each.
//!
//! A node's document must never be kept here: each request fetches it from the node or sets it on the node. Without an
//! `admin` token nobody may see pairing requests, decide one, or rename or remove a node. Read on: `decide` lets a
//! device in, `document.rs` has the document, `body.rs` the objects; [`countersign_nodes::bridge`] does the work.

mod body;
mod document;

use axum::{extract::State, http::StatusCode};
use serde::Deserialize;
use utoipa::ToSchema;

use countersign_nodes::bridge;
use countersign_wire::{
    node::{DecidedBody, DecisionBody, NodeBody, PairingBody, PairingDecision},
    page::Page,
};

use crate::{
    caller::{Admin, Caller, Read},
    extract::{AtPath, JsonBody, NodeName, PairingName, QueryOf},
    list::{ListName, PageQuery},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    schema::NodeLabel,
    short_id,
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(list))
        .routes(routes!(one, rename, remove))
        .routes(routes!(pairings))
        .routes(routes!(decide))
        .merge(document::router())
}

/// A node's new name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NodeChange)]
struct RenameBody {
    /// Its name for people.
    #[schema(value_type = NodeLabel)]
    display_name: String,
}

/// Paired nodes, by name.
#[utoipa::path(
    get, path = "/v1/nodes", tag = "nodes", operation_id = "list_nodes",
    params(PageQuery),
    responses((status = OK, body = Page<NodeBody>)),
    security(("token" = ["read"])),
)]
async fn list(
    _caller: Caller<Read>,
    State(state): State<AppState>,
    QueryOf(page): QueryOf<PageQuery>,
) -> Result<JsonReply<Page<NodeBody>>, Problem> {
    let mut nodes = state.bridge().nodes().await?;
    nodes.sort_by(|a, b| a.node_id.cmp(&b.node_id));
    Ok(JsonReply(page.cut(
        ListName::only("nodes"),
        nodes,
        |node| node.node_id.as_str(),
        body::node,
    )?))
}

/// One node, by its id or a beginning of it.
#[utoipa::path(
    get, path = "/v1/nodes/{nodeId}", tag = "nodes", operation_id = "get_node",
    params(("nodeId" = NodeName, Path)),
    responses((status = OK, body = NodeBody), (status = NOT_FOUND, description = "node-not-found"), (status = CONFLICT, description = "node-ambiguous")),
    security(("token" = ["read"])),
)]
async fn one(
    _caller: Caller<Read>,
    AtPath(node): AtPath<NodeName>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
) -> Result<JsonReply<NodeBody>, Problem> {
    let node = short_id::node(&state, node).await?;
    let found = state.bridge().node(&node).await?;
    Ok(JsonReply(body::node(found.ok_or_else(Problem::unknown_node)?)))
}

/// Gives a node another name.
#[utoipa::path(
    patch, path = "/v1/nodes/{nodeId}", tag = "nodes", operation_id = "rename_node",
    params(("nodeId" = NodeName, Path)),
    request_body = RenameBody,
    responses((status = OK, body = NodeBody), (status = NOT_FOUND, description = "node-not-found"), (status = CONFLICT, description = "node-ambiguous")),
    security(("token" = ["admin"])),
)]
async fn rename(
    caller: Caller<Admin>,
    AtPath(node): AtPath<NodeName>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(RenameBody { display_name }): JsonBody<RenameBody>,
) -> Result<JsonReply<NodeBody>, Problem> {
    let name =
        bridge::node_name(&display_name).map_err(|why| Problem::field("displayName", why.to_string()))?;
    let node = short_id::node(&state, node).await?;
    let renamed = state.bridge().rename(&caller.actor, &node, name).await?;
    Ok(JsonReply(body::node(renamed.ok_or_else(Problem::unknown_node)?)))
}

/// Unpairs a node. It is disconnected at once, and must be let in again.
#[utoipa::path(
    delete, path = "/v1/nodes/{nodeId}", tag = "nodes", operation_id = "remove_node",
    params(("nodeId" = NodeName, Path)),
    responses((status = NO_CONTENT, description = "The node is no longer paired."), (status = NOT_FOUND, description = "node-not-found"), (status = CONFLICT, description = "node-ambiguous")),
    security(("token" = ["admin"])),
)]
async fn remove(
    caller: Caller<Admin>,
    AtPath(node): AtPath<NodeName>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
) -> Result<StatusCode, Problem> {
    let node = short_id::node(&state, node).await?;
    if state.bridge().remove(&caller.actor, &node).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::unknown_node())
    }
}

/// What waits for a decision: devices that want to connect, and commands that nodes want to offer. Oldest first.
#[utoipa::path(
    get, path = "/v1/nodes/pairings", tag = "nodes", operation_id = "list_pairings",
    params(PageQuery),
    responses((status = OK, body = Page<PairingBody>)),
    security(("token" = ["admin"])),
)]
async fn pairings(
    _caller: Caller<Admin>,
    State(state): State<AppState>,
    QueryOf(page): QueryOf<PageQuery>,
) -> Result<JsonReply<Page<PairingBody>>, Problem> {
    let waiting = state.bridge().pairings().await?;
    Ok(JsonReply(page.cut(
        ListName::only("pairings"),
        waiting,
        |request| request.request_id.as_str(),
        body::pairing,
    )?))
}

/// Decides a pairing request.
#[utoipa::path(
    post, path = "/v1/nodes/pairings/{requestId}/decision", tag = "nodes", operation_id = "decide_pairing",
    params(("requestId" = PairingName, Path)),
    request_body = DecisionBody,
    responses(
        (status = OK, body = DecidedBody),
        (status = NOT_FOUND, description = "not-found: decided before, expired, or never there"),
        (status = CONFLICT, description = "id-ambiguous"),
    ),
    security(("token" = ["admin"])),
)]
async fn decide(
    caller: Caller<Admin>,
    AtPath(PairingName(request)): AtPath<PairingName>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(DecisionBody { decision }): JsonBody<DecisionBody>,
) -> Result<JsonReply<DecidedBody>, Problem> {
    let wanted = match decision {
        PairingDecision::Approve => bridge::PairingDecision::Approve,
        PairingDecision::Reject => bridge::PairingDecision::Reject,
    };
    let request = short_id::pairing(&state, request).await?;
    let decided = state
        .bridge()
        .decide_pairing(&caller.actor, &request, wanted)
        .await?;
    let pairing = decided.ok_or_else(|| Problem::not_found("pairing request"))?;
    Ok(JsonReply(DecidedBody {
        decision,
        pairing: body::pairing(pairing),
    }))
}
