//! `countersign doctor`: what is wrong or risky, the settings that differ from their defaults, and with `--all` every setting
//! with its origin. `countersign security audit`: of that what is risky.
//!
//! It must never loosen anything: what it repairs loses nothing, and what an agent runs repairs no policy. Entry points: [`run`]
//! and [`security`]. Read on: `examine.rs` looks, `repair.rs` fixes, `show.rs` prints.

mod command;
mod examine;
mod repair;
mod show;

pub(crate) use command::{DoctorArgs, SecurityCommand, found, ready, run, security};
