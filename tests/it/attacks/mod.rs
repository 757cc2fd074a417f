//! Attacks: what an agent might try through the API, and what a command might try once it runs.

mod agents;
#[path = "self/mod.rs"]
mod itself;
mod pasted;
mod shown;
mod typed;
