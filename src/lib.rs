//! countersign: the control plane between AI agents and the machines they run commands on.
//!
//! An agent's gateway asks for a command; countersign decides where it runs and whether it runs, asks a
//! person when it must, runs it exactly once and keeps the record. `ARCHITECTURE.md` is the map.

pub mod clock;
pub mod domain;
pub mod sys;

pub mod command;
pub mod events;
pub mod output;
pub mod patch;
pub mod policy;
pub mod protocol;
pub mod runner;
pub mod terminal;

pub mod ledger;
pub mod settings;

pub mod approvals;
pub mod auth;
pub mod session;
pub mod tls;

pub mod hosts;

pub mod engine;

pub mod bridge;
pub mod doctor;
pub mod http;
pub mod ipc;
pub mod mcp;

pub mod app;
pub mod lifecycle;
pub mod node;
pub mod telemetry;

pub mod cli;

#[cfg(feature = "test-hooks")]
pub mod fuzzing;
