//! What others make of the same input: real shells and another parser of commands, an ECMAScript engine of argument
//! patterns, and exec of what explain said. Commands are generated from a fixed seed; `COUNTERSIGN_ORACLE_COMMANDS`
//! makes it more of them, `COUNTERSIGN_ORACLE_SEED` makes it others.

mod chance;
mod commands;

mod ecmascript;
mod execution;
mod explain;
mod regressions;
mod shell_grammar;
mod shells;

use crate::support::own_variable;
pub(crate) use chance::Chance;

/// How many commands a test generates; `usual` unless the environment says otherwise.
pub(crate) fn wanted(usual: usize) -> usize {
    number("COUNTERSIGN_ORACLE_COMMANDS").map_or(usual, |wanted| usize::try_from(wanted).expect("a number"))
}

pub(crate) fn chance() -> Chance {
    Chance::new(number("COUNTERSIGN_ORACLE_SEED").unwrap_or(7))
}

fn number(name: &str) -> Option<u64> {
    own_variable(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
