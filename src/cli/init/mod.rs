//! `countersign init`: the first run. One question, then all files together or none, never over existing ones.

mod command;
mod commit;
mod plan;
mod preset;

pub(crate) use command::{InitArgs, run};
