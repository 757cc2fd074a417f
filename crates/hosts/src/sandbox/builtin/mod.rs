//! The sandbox without an engine: namespaces, Landlock and a filter of system calls, made by a supervisor.
//!
//! `layout` says what is inside, from settings, without looking at anything; `sources` looks at the few places of the
//! machine that go in and refuses what must not; `countersign_runner::enclose` puts it up. A sandbox must never show the
//! server's own files or the socket of a container engine, and it never has a network. Read on: [`probe()`] tries the
//! whole of it; `layout.rs` and `sources.rs` say what a command sees.

mod layout;
mod probe;
mod remarks;
mod sources;

pub(crate) use layout::{CONFIGURATION, Layout, environment, program};
pub use probe::probe;
pub use remarks::remarks;
pub(crate) use sources::{Sources, check_network};
