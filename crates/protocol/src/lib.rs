//! The wires of the product, as values: what may be said in which order, and what it means.
//!
//! Pure: it must never read a clock, draw a random value, or open a socket or a file. The caller hands in time and
//! randomness. [`parse_json`] reads text from outside, and refuses an object that has one name twice.
//!
//! Read on in [`bridge`] (gateways and nodes), [`ipc`] (the approvals socket), [`patch`] (patches and how they apply to
//! a text) and [`terminal`] (keys for programs, and the questions that programs ask a terminal).

#![forbid(unsafe_code)]

pub mod patch;
pub mod terminal;

pub mod bridge;
mod by_name;
pub mod ipc;
mod json;

pub use by_name::ByName;
pub use json::JsonError;
pub(crate) use json::{Bounds, parse_json};
