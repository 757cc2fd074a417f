//! Commands on other machines, by way of the Bridge.
//!
//! This layer knows nodes as values and calls them through [`NodeLink`]; the Bridge server implements it, and tells of
//! what nodes say on their own through [`NodeSink`]. What is sent ([`calls`]) and what an answer means ([`answers`]) is
//! pure. This layer must never open a connection or a file itself. It bounds all that a node says, and must never
//! believe a node about anything but its own machine. Read on: [`NodeLink`] for the calls, [`NodePlan`] for what a node
//! makes of a command before it runs it.

pub mod answers;
pub mod calls;
mod link;
mod lookup;
mod none;
mod plan;

pub use link::{
    ConnectionId, Heard, InvokeFailure, InvokeRequest, InvokeResult, NodeError, NodeGeneration, NodeInfo,
    NodeLink, NodeSink, Oversize,
};
pub use lookup::{NodeLookup, UNKNOWN_DIRECTORY};
pub use none::NoNodes;
pub use plan::{Coverage, NodePlan, UnusablePlan};
