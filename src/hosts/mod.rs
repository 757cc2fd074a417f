//! Where commands run.
//!
//! A host takes what the engine decided to start and starts exactly that, or nothing. [`Host::run`] uses up a
//! [`Permit`], so a command cannot be started without the transaction that makes one.

pub mod confined;
pub mod gateway;
mod host;
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

pub use host::{Attempt, Host, RunTerms};

#[cfg(doc)]
use crate::ledger::launch::Permit;
