//! countersign: the control plane between AI agents and the machines they run commands on.
//!
//! An agent's gateway asks for a command; countersign decides where it runs and whether it runs, asks a
//! person when it must, runs it exactly once and keeps the record. `ARCHITECTURE.md` is the map. This crate is the
//! command line and what joins a server; the crates below `crates/` are the rest.

#![forbid(unsafe_code)]

pub mod app;
pub mod doctor;
pub mod lifecycle;
pub mod telemetry;

pub mod cli;

#[cfg(feature = "test-hooks")]
pub mod fuzzing;
