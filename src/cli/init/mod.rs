//! `countersign init`: the first run. How careful to be, which starter sets, then all files together or none.
//!
//! It must never overwrite a file that says something else: then it writes nothing at all, and a file that changes
//! meanwhile stays as it is. It completes an approvals document that has no policy yet. Entry point: [`run`]. Read on:
//! `plan.rs` computes the files from texts alone, `commit.rs` puts them in place.

mod command;
mod commit;
mod plan;
mod preset;

pub(crate) use command::{InitArgs, run};
pub(super) use preset::InitPreset;
