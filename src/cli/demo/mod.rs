//! `countersign demo`: the main job on a throw-away state directory, each step explained.

mod command;
mod server;
mod steps;

pub(crate) use command::{DemoArgs, run};
