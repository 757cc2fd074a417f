//! Commands on other machines, by way of the Bridge.
//!
//! This layer knows nodes as values and calls them through [`NodeLink`]; the Bridge server implements it, and tells of
//! what nodes say on their own through [`NodeSink`]. What is sent ([`calls`]) and what an answer means ([`answers`]) is
//! pure; all that a node says is bounded and believed about its own machine alone.

pub mod answers;
pub mod calls;
mod link;
mod lookup;
mod none;
mod plan;

pub use link::{
    ConnectionId, InvokeFailure, InvokeRequest, InvokeResult, NodeError, NodeGeneration, NodeInfo, NodeLink,
    NodeSink,
};
pub use lookup::{NodeLookup, UNKNOWN_DIRECTORY};
pub use none::NoNodes;
pub use plan::{Coverage, NodePlan, UnusablePlan};
