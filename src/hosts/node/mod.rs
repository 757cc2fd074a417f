//! Commands on other machines, by way of the Bridge.
//!
//! This layer knows nodes as values and calls them through [`NodeLink`]; the Bridge server implements it, and tells
//! of what nodes say on their own through [`NodeSink`].

mod link;

pub use link::{
    ConnectionId, InvokeFailure, InvokeRequest, InvokeResult, NodeError, NodeGeneration, NodeInfo, NodeLink,
    NodeSink,
};
