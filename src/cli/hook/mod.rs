//! `countersign hook`: the shell commands of other agents go through the same policy and people.
//!
//! An agent asks its hook before it runs a command. The hook lets nothing run as it is: an allowed command is *replaced*
//! by `countersign exec` with the same command, so that what was judged is what runs, once, by countersign, with a
//! record. Where a person is asked, the run is submitted and waits for them; the replacement joins it by its key.
//! Agents let a command through when their hook fails in any other way than the one they document, so every failure
//! ends in that way. A failure must never let the command through; for a server that is gone, `--if-unavailable` may say
//! otherwise. Entry point: [`run`]. Read on: `evaluate.rs` asks the server, `format.rs` has the wires of the agents.

mod client_rules;
mod command;
mod evaluate;
mod format;
mod question;
mod replacement;
mod rules;

pub(crate) use command::{HookArgs, run};
