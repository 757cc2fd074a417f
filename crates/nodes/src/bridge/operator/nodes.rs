//! `node.list`, `node.describe`, `node.rename`, and how this server is.

use std::{cmp::Reverse, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use countersign_protocol::bridge::{Protocol, WireError};

use super::{
    refusal,
    session::{Answer, OperatorSession},
};

use crate::bridge::NodeRecord;

/// The parameters of a method about one node.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeParams {
    node_id: String,
}

/// The parameters of `node.rename`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RenameParams {
    node_id: String,
    display_name: String,
}

pub(super) async fn list(session: &Arc<OperatorSession>) -> Answer {
    let mut nodes = session.bridge.nodes().await.map_err(refusal::storage)?;
    // Connected first, then by name, then by id.
    nodes.sort_by_cached_key(|node| {
        let name = node.display_name.as_deref().unwrap_or_default().to_lowercase();
        (Reverse(node.connected_at.is_some()), name, node.node_id.clone())
    });
    let shown: Vec<Value> = nodes.iter().map(|node| shape(session.protocol, node)).collect();
    Ok(json!({ "ts": session.now(), "nodes": shown }))
}

pub(super) async fn describe(session: &Arc<OperatorSession>, params: NodeParams) -> Answer {
    let node = find(session, &params.node_id).await?;
    let mut shown = shape(session.protocol, &node);
    if let Value::Object(members) = &mut shown {
        members.insert("ts".to_owned(), json!(session.now()));
    }
    Ok(shown)
}

/// Gives a node another name.
pub(super) async fn rename(session: &Arc<OperatorSession>, params: RenameParams) -> Answer {
    let RenameParams {
        node_id,
        display_name,
    } = params;
    let name = checked_name(&display_name)?;
    let by = &session.principal().actor;
    let renamed = session
        .bridge
        .rename(by, &node_id, name)
        .await
        .map_err(refusal::storage)?;
    match renamed {
        Some(node) => Ok(json!({ "nodeId": node.node_id, "displayName": node.display_name })),
        None => Err(refusal::unknown_node()),
    }
}

/// A name that people can read.
pub(super) fn checked_name(name: &str) -> Result<String, WireError> {
    crate::bridge::node_name(name).map_err(|why| WireError::invalid(format!("displayName: {why}")))
}

async fn find(session: &OperatorSession, node_id: &str) -> Result<NodeRecord, WireError> {
    let node = session.bridge.node(node_id).await.map_err(refusal::storage)?;
    node.ok_or_else(refusal::unknown_node)
}

/// How this server is. Open to everybody who got in, so it names nobody.
pub(super) async fn health(session: &Arc<OperatorSession>) -> Value {
    let readiness = session.bridge.engine().health().readiness();
    let none: [Value; 0] = [];
    json!({
        "ok": readiness.database.ok && !readiness.draining,
        "ts": session.now(),
        "durationMs": 0,
        "channels": {},
        "channelOrder": none,
        "channelLabels": {},
        "heartbeatSeconds": 0,
        "defaultAgentId": "main",
        "agents": none,
        "sessions": { "path": "", "count": 0, "recent": none },
    })
}

/// What goes on here, in numbers.
pub(super) async fn status(session: &Arc<OperatorSession>) -> Answer {
    let nodes = session.bridge.nodes().await.map_err(refusal::storage)?;
    let pairings = session.bridge.pairings().await.map_err(refusal::storage)?;
    let connected = nodes.iter().filter(|node| node.connected_at.is_some()).count();
    let none: [Value; 0] = [];
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "nodes": { "paired": nodes.len(), "connected": connected, "pending": pairings.len() },
        "channelSummary": none,
        "queuedSystemEvents": none,
        "sessions": { "path": "", "count": 0, "recent": none },
    }))
}

fn shape(protocol: Protocol, node: &NodeRecord) -> Value {
    let mut shown = Map::new();
    let mut put = |member: &str, value: Value| {
        if !value.is_null() {
            shown.insert(member.to_owned(), value);
        }
    };
    put("nodeId", json!(node.node_id));
    put("displayName", json!(node.display_name));
    put("platform", json!(node.platform));
    put("version", json!(node.version));
    put("deviceFamily", json!(node.device_family));
    put("remoteIp", json!(node.remote_ip));
    put("caps", json!(node.caps));
    put("commands", json!(node.commands));
    put("pathEnv", json!(node.path_env));
    put("connectedAtMs", json!(node.connected_at));
    put("paired", json!(true));
    put("connected", json!(node.connected_at.is_some()));
    if protocol == Protocol::Four {
        let none: [Value; 0] = [];
        put("clientId", json!(node.client_id));
        put("clientMode", json!(node.client_mode));
        let state = if node.awaits_commands {
            "pending"
        } else {
            "approved"
        };
        put("approvalState", json!(state));
        put("lastConnectedAtMs", json!(node.connected_at));
        put("lastSeenAtMs", json!(node.last_seen_at));
        put("approvedAtMs", json!(node.approved_at));
        put("sessionHost", json!(false));
        put("nodePluginTools", json!(none));
    }
    Value::Object(shown)
}
