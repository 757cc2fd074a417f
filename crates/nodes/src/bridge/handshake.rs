//! From the first byte of a connection to who it is.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::RwLockReadGuard;

use countersign_domain::{NodeProfile, PairedNode, PairingNeed, Secret, UnixMillis, hex};
use countersign_hosts::node::NodeGeneration;
use countersign_ledger::{
    ConnectNode, LedgerError, NodeAdmission, NodeCredential, NodeToken,
    auth::{NodeSecret, SecretDigest},
};
use countersign_protocol::bridge::{
    Challenge, ConnectParams, Credentials, DevicePublicKey, PairingReason, Protocol, Refusal, Request, Role,
    verify_proof,
};

use super::{
    operator::{self, Grant},
    server::{Bridge, Caller},
};

/// Who a peer is.
pub(super) enum Welcome<'b> {
    /// A node that a person let in.
    Node(Box<Node<'b>>),
    /// An operator with an API token.
    Operator(Protocol, Grant),
}

/// A node that was admitted, and is in nobody's way until it has entered.
pub(super) struct Node<'b> {
    pub(super) paired: PairedNode,
    pub(super) protocol: Protocol,
    pub(super) generation: NodeGeneration,
    /// The token to come back with.
    pub(super) token: Option<Secret>,
    /// Keeps those away who change who may connect.
    pub(super) changes: RwLockReadGuard<'b, ()>,
}

/// Verifies a `connect`: its form, the protocol, the role, the device's proof, the credentials, the pairing, in that
/// order.
pub(super) async fn verify<'b>(
    bridge: &'b Arc<Bridge>,
    request: &Request,
    challenge: &Challenge,
    caller: &Caller,
) -> Result<Welcome<'b>, Refusal> {
    if request.method != "connect" {
        return Err(Refusal::NotConnect);
    }
    let params = request.params.clone().unwrap_or(Value::Null);
    let params = ConnectParams::parse(params).map_err(Refusal::Params)?;
    let (min, max) = (params.min_protocol, params.max_protocol);
    let protocol = Protocol::negotiate(min, max).ok_or(Refusal::Protocol { min, max })?;
    let role = Role::parse(params.role_name()).ok_or(Refusal::Role)?;
    let key = proven(bridge, &params, challenge)?;
    let judged = match (role, key) {
        (Role::Operator, _key) => operator::authenticate(bridge, &params, protocol)
            .await
            .map(|grant| Welcome::Operator(protocol, grant)),
        (Role::Node, None) => Err(Refusal::DeviceRequired),
        (Role::Node, Some(key)) => admit(bridge, params, protocol, &key, caller)
            .await
            .map(|node| Welcome::Node(Box::new(node))),
    };
    judged.map_err(|refusal| counted(refusal, caller))
}

/// The key of a device that proved itself; `None` when no device was sent.
fn proven(
    bridge: &Bridge,
    params: &ConnectParams,
    challenge: &Challenge,
) -> Result<Option<DevicePublicKey>, Refusal> {
    let Some(device) = &params.device else {
        return Ok(None);
    };
    // A node signs the time of the challenge or that of its own clock, and the server's own may be ahead of every clock.
    let clock = &bridge.hub.clock;
    let signed_at = UnixMillis::new(device.signed_at_ms);
    let now = signed_at.max(clock.wall()).min(clock.now());
    verify_proof(device, params.proof_input(device), &challenge.nonce, now)
        .map(|(key, _version)| Some(key))
        .map_err(Refusal::Device)
}

/// Counts wrong credentials with those of the API. A caller who guessed too often is not told whether this one was
/// wrong.
fn counted(refusal: Refusal, caller: &Caller) -> Refusal {
    if refusal != Refusal::Token {
        return refusal;
    }
    match caller.throttle.count_failure(caller.address) {
        Ok(()) => refusal,
        Err(limited) => Refusal::Throttled {
            retry_after: limited.retry_after,
        },
    }
}

async fn admit<'b>(
    bridge: &'b Bridge,
    params: ConnectParams,
    protocol: Protocol,
    key: &DevicePublicKey,
    caller: &Caller,
) -> Result<Node<'b>, Refusal> {
    let node_id = String::from(key.device_id());
    let credential = credential(bridge, &params.auth, &node_id).await?;
    let generation = match protocol {
        _ if params.is_ours() => NodeGeneration::Ours,
        Protocol::Three => NodeGeneration::First,
        Protocol::Four => NodeGeneration::Present,
    };
    let presented = match &credential {
        NodeCredential::Shared => None,
        NodeCredential::Token(_) => params
            .auth
            .device_token
            .clone()
            .or_else(|| params.auth.token.clone()),
    };
    let fresh = NodeSecret::generate(&*bridge.ids);
    let changes = bridge.hub.changes.read().await;
    let connect = ConnectNode {
        node_id,
        public_key: key.to_text(),
        profile: profile(params, caller),
        protocol: protocol.number(),
        credential,
        fresh_sha256: hex(fresh.digest().as_bytes()),
        request_id: bridge.ids.random().to_string(),
    };
    let admission = bridge
        .hub
        .ledger
        .connect_node(connect)
        .await
        .map_err(|error| unavailable(&error))?;
    match admission {
        NodeAdmission::Admitted { node, is_fresh, .. } => Ok(Node {
            paired: node,
            protocol,
            generation,
            token: if is_fresh {
                Some(fresh.into_secret())
            } else {
                presented
            },
            changes,
        }),
        NodeAdmission::WrongToken => Err(Refusal::Token),
        NodeAdmission::Full => Err(Refusal::Full {
            what: "devices wait for an approval",
        }),
        NodeAdmission::MustAsk { request, need } => Err(Refusal::Pairing {
            reason: match need {
                PairingNeed::NotPaired => PairingReason::NotPaired,
                PairingNeed::MetadataChanged => PairingReason::MetadataUpgrade,
            },
            request_id: request.request_id,
            device_id: request.node_id,
            role: Role::Node,
        }),
    }
}

/// What of the credentials counts: the shared secret in either field, else a token of this device in either field.
async fn credential(bridge: &Bridge, auth: &Credentials, node_id: &str) -> Result<NodeCredential, Refusal> {
    if auth.is_empty() {
        return Err(Refusal::TokenMissing);
    }
    if let Some(secret) = &bridge.secret
        && auth.shared().any(|presented| secret.is(presented))
    {
        return Ok(NodeCredential::Shared);
    }
    let stored = bridge
        .hub
        .ledger
        .node_token(node_id)
        .await
        .map_err(|error| unavailable(&error))?;
    let NodeToken { current, previous } = stored.ok_or(Refusal::Token)?;
    let stored: Vec<SecretDigest> = [current, previous]
        .into_iter()
        .flatten()
        .filter_map(|digest| SecretDigest::from_hex(&digest))
        .collect();
    auth.device()
        .filter_map(SecretDigest::of_presented_node)
        .find(|presented| stored.contains(presented))
        .map(|presented| NodeCredential::Token(hex(presented.as_bytes())))
        .ok_or(Refusal::Token)
}

fn profile(params: ConnectParams, caller: &Caller) -> NodeProfile {
    let ConnectParams {
        client,
        caps,
        commands,
        permissions,
        path_env,
        ..
    } = params;
    NodeProfile {
        display_name: client.display_name,
        platform: client.platform,
        device_family: client.device_family,
        client_id: client.id,
        client_mode: client.mode,
        version: client.version,
        path_env,
        permissions,
        caps: caps.into_iter().collect(),
        commands: commands.into_iter().collect(),
        remote_ip: Some(caller.address),
    }
}

fn unavailable(error: &LedgerError) -> Refusal {
    tracing::error!(%error, "a node cannot be judged");
    Refusal::Unavailable {
        why: "storage does not answer",
    }
}
