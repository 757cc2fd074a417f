//! The approvals document of this host: what it says, and the file it lives in.
//!
//! The document is what people and other programs edit; it is host policy. This module must never decide whether a
//! command runs: `policy` does, from the values this module hands out. Nor does it overwrite a document that it refused,
//! except by [`store::DocumentStore::force_replace`]. Entry points: [`store::DocumentStore`] for the file,
//! [`document::Document`] for its content, [`binding`] for what an answer is bound to, and [`broker::Broker`], which
//! wakes callers that wait for an answer.

pub mod binding;
pub mod broker;
pub mod document;
mod file;
mod lock;
pub mod snapshot;
pub mod store;

#[cfg(test)]
mod store_tests;
