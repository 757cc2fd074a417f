//! `countersign hook`: the shell commands of other agents go through the same policy and people.
//!
//! An agent asks its hook before it runs a command. The hook lets nothing run as it is: what is allowed is *replaced*
//! by `countersign exec` with the same command, so that what was judged is what runs, once, by countersign, with a
//! record. Where a person is asked, the run is submitted and waits for them; the replacement joins it by its key.
//!
//! Invariant: anything that goes wrong here stops the command. Agents let a command through when their hook fails in
//! any other way than the one they document, so every failure ends in that way.

mod client_rules;
mod command;
mod evaluate;
mod format;
mod replacement;
mod rules;

pub(crate) use command::{HookArgs, run};
