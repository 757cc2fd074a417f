//! What others make of the same input: real shells, and exec of what explain said. The commands are those that the tests
//! of the policy generate for another parser.

#[path = "../../../crates/policy/tests/wide/oracles/chance.rs"]
mod chance;
#[path = "../../../crates/policy/tests/wide/oracles/commands.rs"]
mod commands;
#[path = "../../../crates/policy/tests/wide/oracles/wanted.rs"]
mod wanted;

mod execution;
mod explain;
mod shells;

pub(crate) use chance::Chance;
pub(crate) use wanted::{chance, wanted};
