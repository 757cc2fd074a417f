//! Black-box tests: the real `countersign` program, started on a port of its own with a state directory of
//! its own, used through its HTTP API and its command line only. One module per capability.

#![expect(
    clippy::string_slice,
    reason = "a test that cuts a text at the wrong place fails, as it should"
)]

#[cfg(test)]
#[macro_use]
mod support;

#[cfg(test)]
mod activation;
#[cfg(test)]
mod advisories;
#[cfg(test)]
mod api_socket;
#[cfg(test)]
mod apply_patch;
#[cfg(test)]
mod approval_rules;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod approver;
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod auth;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod bound;
#[cfg(test)]
mod bridge;
#[cfg(test)]
mod callers;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod cli_terminal;
#[cfg(test)]
mod confined;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod container;
#[cfg(test)]
mod contract_citations;
#[cfg(test)]
mod coverage;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod cycles;
#[cfg(test)]
mod disk_full;
#[cfg(test)]
mod docker;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod docs_agents;
#[cfg(test)]
mod docs_commands;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod doctor_states;
#[cfg(test)]
mod document_concurrency;
#[cfg(test)]
mod entries;
#[cfg(test)]
mod events;
#[cfg(test)]
mod exec_basics;
#[cfg(test)]
mod exec_limits;
#[cfg(test)]
mod explain;
#[cfg(test)]
#[cfg(feature = "test-hooks")]
mod fuzz_seeds;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod health_check;
#[cfg(test)]
mod held;
#[cfg(test)]
mod help;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod ipc;
#[cfg(test)]
mod judged_again;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod modes;
#[cfg(test)]
mod netns;
#[cfg(test)]
mod node;
#[cfg(test)]
mod node_exec;
#[cfg(test)]
mod node_link;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod nothing_can_run;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod oracles;
#[cfg(test)]
mod owners;
#[cfg(test)]
mod packaging;
#[cfg(test)]
mod page;
#[cfg(test)]
mod peer_fs;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod policy_api;
#[cfg(test)]
mod policy_history;
#[cfg(test)]
mod policy_test;
#[cfg(test)]
mod preflight;
#[cfg(test)]
mod process;
#[cfg(test)]
mod process_supervision;
#[cfg(test)]
mod program_not_found;
#[cfg(test)]
mod program_reads;
#[cfg(test)]
mod pty;
#[cfg(test)]
mod real_commands;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod runner;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod schemathesis;
#[cfg(test)]
mod seed;
#[cfg(test)]
mod separate_user;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod settings_in_force;
#[cfg(test)]
mod sign_in;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod state_directory;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod tool_policy;
#[cfg(test)]
mod tools_invoke;
#[cfg(test)]
mod widening;
