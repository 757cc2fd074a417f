//! The node host: this machine as a node of a gateway, ours or one of the product (`docs/spec/bridge.md`).
//!
//! It connects, proves who it is, takes calls and answers them. Whether a command runs is for the engine of this
//! machine, with a ledger, run files and an approvals document of its own; what a gateway says about approvals is an
//! answer to a question of that engine and nothing more. Its invariants: nothing runs without the engine; one
//! invocation is at most one run, across every crash and connection; a token that one gateway gave to this machine is
//! never shown to a gateway on another host. Entry point: [`NodeDaemon`].

mod address;
mod backoff;
mod identity;
mod status_file;

mod answer;
mod documents;
mod host;
mod output;
mod run;
mod uplink;

mod approach;
mod connection;
mod daemon;
mod first_contact;
mod socket;

pub mod service;

pub use address::{AddressError, GatewayAddress, Plaintext, Trust, bare_host};
pub use daemon::{NodeDaemon, NodeOptions, NodeParts, TellPeople, commands};
pub use first_contact::{Acquaintance, is_unknown, meet};
pub use host::Companion;
pub use identity::{DeviceIdentity, DeviceTokens, GatewayEntry, IdentityError, NodeFile};
pub use status_file::{NodeEvent, NodeState, NodeStatusFile, PolicyNews};
