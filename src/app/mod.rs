//! The composition root: opens everything in order, joins it, and stops it in reverse.
//!
//! The order matters. The runner comes before the async runtime, since it must not inherit a thread. The ledger
//! comes before the listeners, since its lock says whether the directory is ours. Recovery comes before the first
//! request: this module must never answer one earlier. Entry points: [`Prepared::new`], then [`serve()`]. The node host
//! takes [`Prepared::for_node_host`] and shares [`EngineRoom`].

mod accounts;
mod diagnosis;
mod engine_room;
mod error;
mod file_broker;
mod housekeeping;
mod memory;
mod node;
mod prepare;
mod serve;
mod socket;
mod story;
mod witness;

pub use accounts::AccountProblem;
pub use engine_room::{EngineRoom, Opened};
pub use error::StartError;
pub use node::{NodeError, run_node};
pub use prepare::{Prepared, host_environment};
pub use serve::{Invitation, Ready, serve};
