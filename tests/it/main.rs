//! Black-box tests: the real `countersign` program, started on a port of its own with a state directory of
//! its own, used through its HTTP API and its command line only. One module per capability.

#![cfg(test)]
#![expect(
    clippy::string_slice,
    reason = "a test that cuts a text at the wrong place fails, as it should"
)]

#[macro_use]
mod support;
mod activation;
mod advisories;
mod api_socket;
mod apply_patch;
mod approval_rules;
mod approvals;
mod approver;
mod approver_screen;
mod architecture;
mod attacks;
mod audit;
mod auth;
mod bad_input;
mod bound;
mod bridge;
mod callers;
mod cli;
mod cli_answers;
mod cli_members;
mod cli_tables;
mod cli_terminal;
mod cli_verbs;
mod cli_words;
mod clients;
mod compiled_once;
mod confine;
mod confined;
mod connections;
mod container;
mod contract_citations;
mod coverage;
mod crash;
mod cycles;
mod disk_full;
mod docker;
mod docs;
mod docs_agents;
mod docs_commands;
mod doctor;
mod doctor_states;
mod document_concurrency;
mod entries;
mod events;
mod exec_basics;
mod exec_limits;
mod explain;
#[cfg(feature = "test-hooks")]
mod faults;
mod flood;
mod forecast;
mod forgotten;
#[cfg(feature = "test-hooks")]
mod fuzz_seeds;
mod generators;
mod guard;
mod health_check;
mod held;
mod held_texts;
mod help;
mod hooks;
mod idempotency;
mod ipc;
mod joined;
mod judged_again;
mod kernel;
mod lists;
mod machine;
mod mcp;
mod metrics;
mod mock;
mod modes;
mod mutes;
mod netns;
mod node;
mod node_exec;
mod node_link;
mod nodes;
mod nothing_can_run;
mod operations;
mod oracles;
mod overview;
mod owners;
mod packaging;
mod page;
mod panics;
mod peer_fs;
mod peers;
mod plan;
mod policy;
mod policy_api;
mod policy_history;
mod policy_test;
mod preflight;
mod process;
mod process_supervision;
mod program_not_found;
mod program_reads;
mod pty;
mod real_commands;
mod recordings;
mod retention;
#[cfg(feature = "test-hooks")]
mod run_files;
mod runner;
mod sandbox;
mod schemathesis;
mod seed;
mod separate_user;
mod sessions;
mod settings_in_force;
mod sign_in;
mod skills;
mod soak;
mod starter_sets;
mod starts;
mod state_directory;
mod stop;
mod take_back;
mod tls;
mod tool_policy;
mod tools_invoke;
mod widening;
