//! Where commands run.
//!
//! A host takes what the engine decided to start and starts exactly that, or nothing. [`Host::run`] uses up a
//! [`Permit`], so a command cannot be started without the transaction that makes one. A host must never decide whether
//! a command may run: it does not call the engine, and of the ledger it knows the permit alone. Read on: [`gateway`]
//! for this machine, [`sandbox`] for a place of its own, [`node`] for other machines.

#![forbid(unsafe_code)]

pub mod confined;
pub mod found_programs;
pub mod gateway;
pub mod held;
mod host;
mod loader;
pub mod login_path;
pub mod node;
mod patching;
pub mod path_lookup;
pub mod peer_fs;
pub mod run_path;
pub mod sandbox;
pub mod shebang_cache;
pub mod shell;
pub mod workdir;

/// For each public asynchronous function. The future of an `async fn` is compiled again in every crate that awaits it, with
/// all that it awaits in turn; a future behind a pointer is compiled here alone.
pub(crate) use async_recursion::async_recursion as compiled_once;

pub use host::{Attempt, Host, RunTerms};

#[cfg(doc)]
use countersign_ledger::launch::Permit;
