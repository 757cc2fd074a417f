//! Nodes, and what wants to be one.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::UnixMillis;

use crate::words::PairingKind;

/// A paired node.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
pub struct NodeBody {
    /// Its device id: 64 lower-case hexadecimal digits.
    pub node_id: String,
    /// Its name for people. The node chose it, unless an admin renamed the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// As it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// As it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where it connected from last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub remote_ip: Option<IpAddr>,
    /// What it may be sent: declared by it, approved by a person, and allowed by the settings. Sorted.
    pub commands: Vec<String>,
    /// Kinds of things that it can do. Sorted.
    pub caps: Vec<String>,
    pub paired: bool,
    pub connected: bool,
    /// Since when, while it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_at_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at_ms: Option<UnixMillis>,
    /// What it speaks: 3 or 4; absent while it never connected to this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<i64>,
}

/// A machine that wants to become a node, or a node that wants to offer commands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pairing)]
pub struct PairingBody {
    pub request_id: String,
    /// Its device id.
    pub node_id: String,
    /// The name that it chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub remote_ip: Option<IpAddr>,
    /// What it says that it serves.
    pub commands: Vec<String>,
    /// `device`: it wants to connect. `commands`: it is connected and wants to be sent these commands.
    #[schema(value_type = String)]
    pub kind: PairingKind,
    /// Whether this device was paired before, and asks anew.
    pub is_repair: bool,
    pub requested_at_ms: UnixMillis,
}

/// What becomes of a pairing request.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = PairingDecisionName)]
pub enum PairingDecision {
    /// The device may connect; the commands may be sent.
    Approve,
    /// They may not.
    Reject,
}

/// A decision.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PairingDecision)]
pub struct DecisionBody {
    pub decision: PairingDecision,
}

/// What was decided.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PairingResult)]
pub struct DecidedBody {
    pub decision: PairingDecision,
    pub pairing: PairingBody,
}
