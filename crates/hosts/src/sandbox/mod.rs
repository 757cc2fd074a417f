//! The sandbox host: commands in a place of their own, by way of a backend.
//!
//! [`assignment`] says what a sandbox is and where a call starts in it, without looking at anything; [`SandboxHost`]
//! chooses the backend, makes sandboxes, runs commands in them and takes unused ones away. What a backend makes of an
//! [`Enclosure`] is its own matter. Without a usable backend the command does not start: it must never run outside
//! instead. Read on: [`SandboxHost::run`], and the backends [`builtin`] and [`docker`].

pub mod assignment;
pub mod builtin;
pub mod docker;
mod enclosure;
mod host;
mod scope;

pub use enclosure::{AgentWorkspace, Enclosure, Inside, InsideCommand, Unusable};
pub use host::{Backends, Placement, SandboxHost, SandboxOptions};
pub use scope::{Scope, scope_key};
