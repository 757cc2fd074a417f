//! The pure decision: what a command line is, which layer says what, and whether a command runs, is asked or is denied.
//!
//! It must never read a clock, a file, a socket or the environment. Facts about files come through a
//! [`command::PathLookup`] that the caller hands in. Only [`gate`](mod@gate) says whether a command runs.
//!
//! Read in the order of a call: [`command`] takes a text apart, [`host::resolve_host`] says where it would run,
//! [`combine::combine`] makes one policy of the layers, [`allowlist::analyze`] finds what covers the command,
//! [`gate::gate`] decides.

#![forbid(unsafe_code)]

pub mod command;

pub mod approval_rules;
pub mod changes;
pub mod combine;
pub mod confine;
pub mod gate;
pub mod held;
pub mod host;
pub mod layers;
pub mod node_select;
pub mod pending_change;
pub mod preset;
pub mod proposals;
pub mod starter;

pub mod allowlist;
pub mod pattern;

pub mod lint;

#[cfg(test)]
mod combine_tests;
#[cfg(test)]
mod gate_tests;
#[cfg(test)]
mod host_tests;
#[cfg(test)]
mod tests;
