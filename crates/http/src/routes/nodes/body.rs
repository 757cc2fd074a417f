//! Nodes and pairing requests as the API shows them.

use std::net::IpAddr;

use serde::Serialize;
use utoipa::ToSchema;

use countersign_domain::UnixMillis;
use countersign_nodes::bridge::{NodeRecord, PairingKind, PairingRequest};

/// A paired node.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
pub(super) struct NodeBody {
    /// Its device id: 64 lower-case hexadecimal digits.
    node_id: String,
    /// Its name for people. The node chose it, unless an admin renamed the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// As it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<String>,
    /// As it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Where it connected from last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    remote_ip: Option<IpAddr>,
    /// What it may be sent: declared by it, approved by a person, and allowed by the settings. Sorted.
    commands: Vec<String>,
    /// Kinds of things that it can do. Sorted.
    caps: Vec<String>,
    paired: bool,
    connected: bool,
    /// Since when, while it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    connected_at_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen_at_ms: Option<UnixMillis>,
    /// What it speaks: 3 or 4; absent while it never connected to this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<i64>,
}

/// A machine that wants to become a node, or a node that wants to offer commands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pairing)]
pub(super) struct PairingBody {
    request_id: String,
    /// Its device id.
    node_id: String,
    /// The name that it chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    remote_ip: Option<IpAddr>,
    /// What it says that it serves.
    commands: Vec<String>,
    /// `device`: it wants to connect. `commands`: it is connected and wants to be sent these commands.
    #[schema(value_type = String)]
    kind: &'static str,
    /// Whether this device was paired before, and asks anew.
    is_repair: bool,
    requested_at_ms: UnixMillis,
}

impl From<NodeRecord> for NodeBody {
    fn from(node: NodeRecord) -> Self {
        Self {
            connected: node.connected_at.is_some(),
            node_id: node.node_id,
            display_name: node.display_name,
            platform: node.platform,
            version: node.version,
            remote_ip: node.remote_ip,
            commands: node.commands,
            caps: node.caps,
            paired: true,
            connected_at_ms: node.connected_at,
            last_seen_at_ms: node.last_seen_at,
            protocol: node.protocol,
        }
    }
}

impl From<PairingRequest> for PairingBody {
    fn from(request: PairingRequest) -> Self {
        Self {
            kind: match request.kind {
                PairingKind::Device => "device",
                PairingKind::Commands => "commands",
            },
            request_id: request.request_id,
            node_id: request.node_id,
            display_name: request.display_name,
            platform: request.platform,
            remote_ip: request.remote_ip,
            commands: request.commands,
            is_repair: request.is_repair,
            requested_at_ms: request.requested_at,
        }
    }
}
