//! The warm runner with real processes: the program's own hidden mode, real commands, real kills.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names the reports it wants, and any other fails it"
)]

pub(crate) mod harness;
mod terminal_session;

mod cost;
mod crash;
mod foreign_files;
mod launching;
mod lifetime;
mod output;
mod resources;
mod terminal;
