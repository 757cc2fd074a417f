//! Nodes and pairing requests as people see them.

use std::{collections::BTreeMap, net::IpAddr};

use countersign_domain::{NodeProfile, PairedNode, PairingKind, UnixMillis};

/// A node that a person let in, as operators and the API see it; connected or not, perhaps revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The device id: SHA-256 of the public key, 64 lower-case hexadecimal digits.
    pub node_id: String,
    /// Its public key, base64url.
    pub public_key: String,
    /// Its name for people: the one given here, else the one that was approved.
    pub display_name: Option<String>,
    /// `linux` and so on, as the node says; `None` when it says nothing.
    pub platform: Option<String>,
    pub(crate) device_family: Option<String>,
    /// Version of its program, as the node says; `None` when it says nothing.
    pub version: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_mode: String,
    /// Where it connected from last.
    pub remote_ip: Option<IpAddr>,
    /// What kinds of things it can do, as approved; sorted.
    pub caps: Vec<String>,
    /// What it may be sent: declared, approved and allowed by the settings; sorted.
    pub commands: Vec<String>,
    pub(crate) path_env: Option<String>,
    /// Permissions of its platform.
    pub permissions: BTreeMap<String, bool>,
    /// What it speaks; `None` while it never connected.
    pub protocol: Option<i64>,
    /// When it was let in first.
    pub created_at: UnixMillis,
    /// When it was let in last.
    pub approved_at: UnixMillis,
    /// Since when it is connected, while it is.
    pub connected_at: Option<UnixMillis>,
    /// When it connected or disconnected last.
    pub last_seen_at: Option<UnixMillis>,
    /// When its token was taken away, if it was.
    pub revoked_at: Option<UnixMillis>,
    /// Whether it declares more than was approved.
    pub(crate) awaits_commands: bool,
}

/// What waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingRequest {
    /// A random UUID; a decision names the request by it.
    pub request_id: String,
    /// What is asked for.
    pub kind: PairingKind,
    /// The device id: SHA-256 of the public key, 64 lower-case hexadecimal digits.
    pub node_id: String,
    /// Its public key, base64url.
    pub public_key: String,
    /// The name that it chose.
    pub display_name: Option<String>,
    /// `linux` and so on, as the device says; `None` when it says nothing.
    pub platform: Option<String>,
    pub(crate) device_family: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_mode: String,
    /// Where it connects from.
    pub remote_ip: Option<IpAddr>,
    /// What kinds of things it can do; sorted.
    pub caps: Vec<String>,
    /// The commands that it declares; sorted.
    pub commands: Vec<String>,
    /// Whether it was let in before.
    pub is_repair: bool,
    /// When this was asked first; a device's request can be decided for 5 minutes from then.
    pub requested_at: UnixMillis,
}

impl NodeRecord {
    pub(super) fn of(node: PairedNode, commands: Vec<String>, connected_at: Option<UnixMillis>) -> Self {
        let caps = node
            .approved
            .caps
            .intersection(&node.profile.caps)
            .cloned()
            .collect();
        let awaits_commands = node.pairing_status(&node.profile) == countersign_domain::PairingStatus::Wider;
        let display_name = node.display_name().map(str::to_owned);
        let device_family = node.family().map(str::to_owned);
        let PairedNode {
            node_id,
            public_key,
            label: _in_the_display_name,
            profile,
            approved: _in_caps_and_commands,
            request_id: _of_no_interest,
            protocol,
            created_at,
            approved_at,
            revoked_at,
            last_seen_at,
        } = node;
        Self {
            node_id,
            public_key,
            display_name,
            platform: given(profile.platform),
            device_family,
            version: given(profile.version),
            client_id: profile.client_id,
            client_mode: profile.client_mode,
            remote_ip: profile.remote_ip,
            caps,
            commands,
            path_env: profile.path_env,
            permissions: profile.permissions,
            protocol,
            created_at,
            approved_at,
            connected_at,
            last_seen_at,
            revoked_at,
            awaits_commands,
        }
    }
}

impl From<countersign_domain::PairingRequest> for PairingRequest {
    fn from(request: countersign_domain::PairingRequest) -> Self {
        let countersign_domain::PairingRequest {
            request_id,
            kind,
            node_id,
            public_key,
            profile,
            is_repair,
            requested_at,
        } = request;
        let NodeProfile {
            display_name,
            platform,
            device_family,
            client_id,
            client_mode,
            version,
            path_env: _not_shown,
            permissions: _not_asked_for,
            caps,
            commands,
            remote_ip,
        } = profile;
        Self {
            request_id,
            kind,
            node_id,
            public_key,
            display_name,
            platform: given(platform),
            device_family,
            version: given(version),
            client_id,
            client_mode,
            remote_ip,
            caps: caps.into_iter().collect(),
            commands: commands.into_iter().collect(),
            is_repair,
            requested_at,
        }
    }
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
