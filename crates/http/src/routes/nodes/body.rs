//! Nodes and pairing requests as the API shows them.

use countersign_nodes::bridge::{NodeRecord, PairingRequest};
use countersign_wire::node::{NodeBody, PairingBody};

pub(super) fn node(node: NodeRecord) -> NodeBody {
    NodeBody {
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

pub(super) fn pairing(request: PairingRequest) -> PairingBody {
    PairingBody {
        kind: request.kind.into(),
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
