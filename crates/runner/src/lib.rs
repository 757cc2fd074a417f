//! The warm runner (`docs/decisions/0002-a-warm-runner.md`): a small process that keeps supervisors ready, so that
//! starting a command costs neither a fork of the server nor the start of a program.
//!
//! ```text
//! server ── start frame + descriptors ──▶ (one SEQPACKET pair) ──▶ a waiting supervisor ── vfork ──▶ command
//!    ▲                                          runner: forks supervisors, sweeps up after dead ones
//!    └────────── the run's own stream: started, output, exit / kill, background, input ──────────┘
//! ```
//!
//! [`Runner::start`] starts it before any thread of the server exists; [`main_if_asked`] is its entry point.
//! Everything but [`client`] runs in the runner's own single-threaded processes, without an async runtime, and
//! is the only code that starts a command. It enforces what must hold without a server: time limits, output
//! caps, the kill of a whole tree, and that a run starts at most once ([`run_file`]). [`output`] is what a command
//! wrote: bounded text and exact bytes.

#![forbid(unsafe_code)]

pub mod output;

mod limits;
pub mod wire;

mod cgroup;
pub mod run_file;
mod tree;

pub mod client;
mod command_line;
pub mod confine;
mod launcher;
mod launcher_protocol;
mod login;
mod pool;
mod post;
mod supervisor;
mod unit;
mod unit_link;
mod unit_wire;
mod worker_slots;

mod answers;
mod attach;
pub mod enclose;
mod execute;
mod input;
mod outbox;
mod patch;
mod retained;
mod terminal;
mod watch;

/// For each public asynchronous function. The future of an `async fn` is compiled again in every crate that awaits it, with
/// all that it awaits in turn; a future behind a pointer is compiled here alone.
pub(crate) use async_recursion::async_recursion as compiled_once;

pub use cgroup::{Controller, RunLimits, enforceable};
pub use client::{
    FileBrokerSource, LaunchedBy, Runner, RunnerError, RunnerHandle, RunnerOptions, SeparateUser, Sweeper,
};
pub use enclose::Obstacle;
pub use launcher_protocol::FILE_BROKER_MODE;
pub use limits::{INLINE_BYTES, INPUT_BYTES, LIVE_BYTES, TAIL_BYTES};
pub use login::{LoginAs, LoginShell};
pub use pool::main_if_asked;
pub use retained::InlineFrames;
pub use tree::KillLevel;
pub use unit::{UnitError, UnitNotice, UnitOptions, UnitSocket, serve as serve_unit};
pub use unit_link::{RunnerUnit, UnitPlace, UnitProblem};
pub use wire::NotStarted;
