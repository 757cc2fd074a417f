//! `countersign demo`: the main job on a throw-away state directory, each step explained.
//!
//! It must never touch another state directory or another server: its server starts without the variables that name
//! one. The server and the directory go when the demo ends, fails or is interrupted. Entry point: [`run`]. Read on:
//! `server.rs` starts and removes the server, `steps.rs` has the steps.

mod command;
mod server;
mod steps;

pub(crate) use command::{DemoArgs, run};
