//! The product's wires, as values: what may be said in which order, and what it means. Pure; time and randomness come
//! from outside.

pub mod bridge;
mod by_name;
pub mod ipc;
mod json;

pub(crate) use by_name::ByName;
pub use json::{Bounds, JsonError, parse_json};
