//! The gateway host: this machine, by way of the warm runner.
//!
//! [`Host::run`](super::Host::run) checks once more that directory and programs are the ones that were judged, opens
//! them, makes the run's file and sends everything to a supervisor as descriptors. It must never start a program or
//! enter a directory that is no longer the judged one, nor start outside a sandbox what belongs into one
//! ([`Mismatch`]). Read on: [`GatewayHost`] is the host, [`Supervised`] is a run that has a supervisor, and
//! [`GatewayHost::recover`] finds out what became of a run of an earlier server.

mod enclosed;
mod error;
mod held;
mod launch;
mod launch_spec;
mod line;
mod plan;
mod recover;
mod rulesets;
mod run_files;
mod setup;
mod spent_files;
mod supervised;
mod turns;

pub use error::{Mismatch, StartError, Unkept};
pub use launch::{GatewayHost, StoredSpool};
pub use launch_spec::LaunchSpec;
pub use recover::{RecoverError, Recovered};
pub use supervised::{EndedRun, InputClosed, KeptOutput, RunControl, RunEvents, Supervised, SupervisorEvent};
