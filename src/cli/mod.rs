//! The command line: one thin file per subcommand (`docs/spec/cli.md#commands`).
//!
//! It owns the terminal: this is the only folder that prints. Commands that talk to a server are clients of the
//! HTTP API like any other and never reach into a running engine. Entry point: [`main`].

mod activation;
mod arguments;
mod entry;
mod runtime;

mod demo;
mod init;
mod mock;
mod node;
mod runner;
mod serve;

mod agents;
mod allowlist;
mod apply_patch;
mod approvals;
mod approver;
mod audit;
mod browsers;
mod config;
mod denylist;
mod events;
mod exec;
mod explain;
mod hook;
mod login_link;
mod mcp;
mod nodes;
mod policy;
mod policy_change;
mod policy_pending;
mod policy_replay;
mod policy_suggest;
mod policy_test;
mod process;
mod replay;
mod runs;
mod session;
mod status;
mod stop;
mod token;

mod candidates;
mod check_gateway;
mod completions;
mod corrected;
mod doctor;
mod help;
mod in_force;
mod man;
mod members;
mod openapi;
mod version;
mod width;

mod answers;
mod attach;
mod caller_lease;
mod client;
mod context;
mod discover;
mod follow;
mod forecast;
mod ids;
mod labels;
mod layout;
mod moment;
mod pager;
mod sse;
mod state;
mod story;

mod console;
mod duration;
mod exit;
mod failure;
mod qr;
mod question;
mod selection;
mod short_id;
mod table;
mod terminal_text;
mod tone;
mod value;

pub use entry::main;

/// Whether these words, without the program's name, are a call that this command line takes; else what is wrong with them.
///
/// # Errors
/// What a person who types them reads.
#[cfg(feature = "test-hooks")]
pub fn expect_usage(words: &[String]) -> Result<(), String> {
    let called = std::iter::once("countersign").chain(words.iter().map(String::as_str));
    let read = <arguments::Arguments as clap::Parser>::try_parse_from(called);
    read.map(drop).map_err(|error| error.to_string())
}

/// The members of JSON that the command with these words can print, as `runs list` or `exec --explain`.
#[cfg(feature = "test-hooks")]
#[must_use]
pub fn members_of(command: &str) -> Vec<String> {
    members::known(command)
}
