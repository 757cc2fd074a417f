//! The Bridge server: nodes and operators that are connected, and who may be what (`docs/spec/bridge.md#13-ours`).
//!
//! [`NodeHub`] knows the nodes: those that a person let in, those that are connected, the calls that wait for them. It
//! is what the engine calls, and exists before it. [`Bridge`] is everything that needs the engine besides: connections,
//! the handshake, the interface for people. Its invariants: nothing becomes a node without a person; the shared secret
//! opens the node role alone; every request gets exactly one answer; what is from outside is bounded. Entry point:
//! [`Bridge::serve`], with a stream that is a WebSocket already.

mod connection;
mod handshake;
mod hub;
mod node_session;
mod operator;
mod outbox;
mod people;
mod record;
mod registry;
mod server;
mod socket;
mod stats;
mod token_quota;

pub use countersign_domain::{InvalidNodeName, PairingDecision, PairingKind, node_name};
pub use hub::NodeHub;
pub use outbox::Outbox;
pub use record::{NodeRecord, PairingRequest};
pub use server::{Bridge, BridgeParts, Caller};
pub use stats::BridgeStats;
