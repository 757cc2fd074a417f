//! `device.pair.*`, `node.pair.*` and `device.token.*`: who is let in, and what for.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use countersign_protocol::bridge::{Protocol, WireError};

use super::{
    nodes, refusal,
    scope::OperatorScope,
    session::{Answer, OperatorSession},
};

use crate::bridge::{NodeRecord, PairingDecision, PairingKind, PairingRequest};

/// The parameters of a decision.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestParams {
    request_id: String,
}

/// The parameters of a method about one device.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceParams {
    device_id: String,
}

/// The parameters of a method about a device's token.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenParams {
    device_id: String,
    role: String,
}

/// The parameters of `device.pair.rename`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RenameParams {
    device_id: String,
    label: String,
}

/// Devices that ask, and those that are paired. Tokens are summarised and never shown.
pub(super) async fn list_devices(session: &Arc<OperatorSession>) -> Answer {
    list(session, PairingKind::Device, device_request, |protocol, node| {
        Some(listed_device(protocol, node))
    })
    .await
}

/// Lets a device connect.
pub(super) async fn approve_device(session: &Arc<OperatorSession>, params: RequestParams) -> Answer {
    let (request, node) = approve(session, &params, PairingKind::Device).await?;
    Ok(json!({
        "requestId": request.request_id,
        "device": node.as_ref().map_or_else(|| device_request(&request), device),
    }))
}

/// Turns a device down.
pub(super) async fn reject_device(session: &Arc<OperatorSession>, params: RequestParams) -> Answer {
    let request = decide(session, &params, PairingKind::Device, PairingDecision::Reject).await?;
    Ok(json!({ "requestId": request.request_id, "deviceId": request.node_id }))
}

/// Unpairs a device and disconnects it.
pub(super) async fn remove(session: &Arc<OperatorSession>, params: DeviceParams) -> Answer {
    let by = &session.principal().actor;
    let removed = session
        .bridge
        .remove(by, &params.device_id)
        .await
        .map_err(refusal::storage)?;
    if removed {
        Ok(json!({ "deviceId": params.device_id }))
    } else {
        Err(unknown_device())
    }
}

/// Gives a device another name.
pub(super) async fn rename(session: &Arc<OperatorSession>, params: RenameParams) -> Answer {
    let RenameParams { device_id, label } = params;
    let name = nodes::checked_name(&label)?;
    let by = &session.principal().actor;
    let renamed = session
        .bridge
        .rename(by, &device_id, name)
        .await
        .map_err(refusal::storage)?;
    renamed.map_or_else(
        || Err(unknown_device()),
        |node| Ok(json!({ "deviceId": node.node_id, "label": node.display_name })),
    )
}

/// Gives a device a new token, which is shown this once.
pub(super) async fn rotate_token(session: &Arc<OperatorSession>, params: TokenParams) -> Answer {
    let device_id = of_node(params)?;
    let by = &session.principal().actor;
    let none: [Value; 0] = [];
    let rotated = session
        .bridge
        .rotate_token(by, &device_id)
        .await
        .map_err(refusal::storage)?;
    let token = rotated.ok_or_else(unknown_device)?;
    Ok(json!({
        "deviceId": device_id,
        "role": "node",
        "token": token.expose(),
        "scopes": none,
        "rotatedAtMs": session.now(),
    }))
}

/// Takes a device's token away and disconnects it.
pub(super) async fn revoke_token(session: &Arc<OperatorSession>, params: TokenParams) -> Answer {
    let device_id = of_node(params)?;
    let by = &session.principal().actor;
    let revoked = session
        .bridge
        .revoke_token(by, &device_id)
        .await
        .map_err(refusal::storage)?;
    if revoked {
        Ok(json!({ "deviceId": device_id, "role": "node", "revokedAtMs": session.now() }))
    } else {
        Err(unknown_device())
    }
}

/// Commands that nodes want to offer, and those that they may.
pub(super) async fn list_nodes(session: &Arc<OperatorSession>) -> Answer {
    list(
        session,
        PairingKind::Commands,
        surface_request,
        |_protocol, node| (!node.commands.is_empty()).then(|| surface(node)),
    )
    .await
}

/// Lets a node be sent the commands that it offers.
pub(super) async fn approve_node(session: &Arc<OperatorSession>, params: RequestParams) -> Answer {
    let (request, node) = approve(session, &params, PairingKind::Commands).await?;
    Ok(json!({
        "requestId": request.request_id,
        "node": node.as_ref().map_or_else(|| surface_request(&request), surface),
    }))
}

/// Turns a node's commands down.
pub(super) async fn reject_node(session: &Arc<OperatorSession>, params: RequestParams) -> Answer {
    let request = decide(session, &params, PairingKind::Commands, PairingDecision::Reject).await?;
    Ok(json!({ "requestId": request.request_id, "nodeId": request.node_id }))
}

/// Requests of a kind and the nodes that go with them, as they are shown. A node that is shown as nothing is left out.
async fn list(
    session: &OperatorSession,
    kind: PairingKind,
    request: fn(&PairingRequest) -> Value,
    node: fn(Protocol, &NodeRecord) -> Option<Value>,
) -> Answer {
    let pending: Vec<Value> = requests(session, kind).await?.iter().map(request).collect();
    let nodes = session.bridge.nodes().await.map_err(refusal::storage)?;
    let paired: Vec<Value> = nodes
        .iter()
        .filter_map(|record| node(session.protocol, record))
        .collect();
    Ok(json!({ "pending": pending, "paired": paired }))
}

/// Approves a request of this kind; besides it the node as it is then.
async fn approve(
    session: &OperatorSession,
    params: &RequestParams,
    kind: PairingKind,
) -> Result<(PairingRequest, Option<NodeRecord>), WireError> {
    let request = decide(session, params, kind, PairingDecision::Approve).await?;
    let node = session
        .bridge
        .node(&request.node_id)
        .await
        .map_err(refusal::storage)?;
    Ok((request, node))
}

async fn requests(session: &OperatorSession, kind: PairingKind) -> Result<Vec<PairingRequest>, WireError> {
    let mut pairings = session.bridge.pairings().await.map_err(refusal::storage)?;
    pairings.retain(|request| request.kind == kind);
    Ok(pairings)
}

/// Decides a request of this kind; one of the other kind is as unknown as one that is not there.
async fn decide(
    session: &OperatorSession,
    params: &RequestParams,
    kind: PairingKind,
    decision: PairingDecision,
) -> Result<PairingRequest, WireError> {
    let pending = requests(session, kind).await?;
    if !pending
        .iter()
        .any(|request| request.request_id == params.request_id)
    {
        return Err(refusal::unknown_request());
    }
    let by = &session.principal().actor;
    let decided = session
        .bridge
        .decide_pairing(by, &params.request_id, decision)
        .await
        .map_err(refusal::storage)?;
    decided.ok_or_else(refusal::unknown_request)
}

/// Only the node role has device tokens here: an operator comes with an API token.
fn of_node(params: TokenParams) -> Result<String, WireError> {
    let TokenParams { device_id, role } = params;
    if role == "node" {
        Ok(device_id)
    } else {
        Err(unknown_device())
    }
}

fn unknown_device() -> WireError {
    WireError::invalid("unknown deviceId/role")
}

/// A device that asks, as `device.pair.requested` and `device.pair.list` show it.
pub(super) fn device_request(request: &PairingRequest) -> Value {
    let mut shown = Map::new();
    let none: [Value; 0] = [];
    put(&mut shown, "requestId", json!(request.request_id));
    put(&mut shown, "deviceId", json!(request.node_id));
    put(&mut shown, "publicKey", json!(request.public_key));
    put(&mut shown, "displayName", json!(request.display_name));
    put(&mut shown, "platform", json!(request.platform));
    put(&mut shown, "deviceFamily", json!(request.device_family));
    put(&mut shown, "clientId", json!(request.client_id));
    put(&mut shown, "clientMode", json!(request.client_mode));
    put(&mut shown, "role", json!("node"));
    put(&mut shown, "roles", json!(["node"]));
    put(&mut shown, "scopes", json!(none));
    put(&mut shown, "remoteIp", json!(request.remote_ip));
    // Nothing is ever approved without a person.
    put(&mut shown, "silent", json!(false));
    put(&mut shown, "isRepair", json!(request.is_repair));
    put(&mut shown, "ts", json!(request.requested_at));
    Value::Object(shown)
}

fn device(node: &NodeRecord) -> Value {
    let mut shown = Map::new();
    let none: [Value; 0] = [];
    put(&mut shown, "deviceId", json!(node.node_id));
    put(&mut shown, "publicKey", json!(node.public_key));
    put(&mut shown, "displayName", json!(node.display_name));
    put(&mut shown, "platform", json!(node.platform));
    put(&mut shown, "deviceFamily", json!(node.device_family));
    put(&mut shown, "clientId", json!(node.client_id));
    put(&mut shown, "clientMode", json!(node.client_mode));
    put(&mut shown, "role", json!("node"));
    put(&mut shown, "roles", json!(["node"]));
    put(&mut shown, "scopes", json!(none));
    put(&mut shown, "remoteIp", json!(node.remote_ip));
    put(&mut shown, "approvedVia", json!("owner"));
    put(&mut shown, "createdAtMs", json!(node.created_at));
    put(&mut shown, "approvedAtMs", json!(node.approved_at));
    put(
        &mut shown,
        "tokens",
        json!([{ "role": "node", "scopes": none, "createdAtMs": node.approved_at }]),
    );
    Value::Object(shown)
}

/// A paired device in a list: the present generation also shows whether it is there, and when it was.
fn listed_device(protocol: Protocol, node: &NodeRecord) -> Value {
    let mut shown = device(node);
    if let (Protocol::Four, Value::Object(members)) = (protocol, &mut shown) {
        put(members, "lastSeenAtMs", json!(node.last_seen_at));
        put(members, "connected", json!(node.connected_at.is_some()));
    }
    shown
}

/// A node's commands that wait, as `node.pair.requested` and `node.pair.list` show them.
pub(super) fn surface_request(request: &PairingRequest) -> Value {
    let mut shown = Map::new();
    put(&mut shown, "requestId", json!(request.request_id));
    put(&mut shown, "nodeId", json!(request.node_id));
    put(&mut shown, "clientId", json!(request.client_id));
    put(&mut shown, "clientMode", json!(request.client_mode));
    put(&mut shown, "displayName", json!(request.display_name));
    put(&mut shown, "platform", json!(request.platform));
    put(&mut shown, "version", json!(request.version));
    put(&mut shown, "deviceFamily", json!(request.device_family));
    put(&mut shown, "remoteIp", json!(request.remote_ip));
    put(&mut shown, "caps", json!(request.caps));
    put(&mut shown, "commands", json!(request.commands));
    put(
        &mut shown,
        "requiredApproveScopes",
        json!([OperatorScope::Pairing.as_str(), OperatorScope::Admin.as_str()]),
    );
    put(&mut shown, "silent", json!(false));
    put(&mut shown, "ts", json!(request.requested_at));
    Value::Object(shown)
}

fn surface(node: &NodeRecord) -> Value {
    let mut shown = Map::new();
    put(&mut shown, "nodeId", json!(node.node_id));
    put(&mut shown, "displayName", json!(node.display_name));
    put(&mut shown, "platform", json!(node.platform));
    put(&mut shown, "version", json!(node.version));
    put(&mut shown, "deviceFamily", json!(node.device_family));
    put(&mut shown, "caps", json!(node.caps));
    put(&mut shown, "commands", json!(node.commands));
    put(&mut shown, "remoteIp", json!(node.remote_ip));
    put(&mut shown, "createdAtMs", json!(node.created_at));
    put(&mut shown, "approvedAtMs", json!(node.approved_at));
    put(&mut shown, "lastConnectedAtMs", json!(node.connected_at));
    Value::Object(shown)
}

fn put(members: &mut Map<String, Value>, member: &str, value: Value) {
    if !value.is_null() {
        members.insert(member.to_owned(), value);
    }
}
