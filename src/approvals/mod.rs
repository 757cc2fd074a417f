//! The approvals document of this host: what it says, and the file it lives in.
//!
//! The document is what people and other programs edit; it is host policy. Nothing here decides whether a
//! command runs: `policy` does, from the values this module hands out.

pub mod binding;
pub mod broker;
pub mod document;
mod file;
mod lock;
pub mod snapshot;
pub mod store;

#[cfg(test)]
mod store_tests;
