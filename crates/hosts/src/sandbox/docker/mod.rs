//! The sandbox by a Docker engine: a container per scope, and a client process per run.
//!
//! ```text
//! server ── start frame ──▶ supervisor ── starts ──▶ client (this program, hidden mode) ── API ──▶ engine
//!                                                     copies input and output, exits with the code    │
//!                                                                              supervision.sh in the container
//! ```
//!
//! A run is held by a supervisor like any other, and so it is spooled, limited in time, attached to again and started
//! at most once like any other: what the supervisor starts is the client. The API can start a process in a container but
//! not end it, so `supervision.sh` comes first in the container: it marks what belongs to the run, ends what the command
//! leaves, and is started once more to end everything when the client is told to. Where even that cannot be started,
//! the container is stopped: nothing of a run survives its kill.
//!
//! [`DockerBackend`] is what the server uses, [`main_if_asked`] is the client's entry point, and [`ClientEnd`] says what a
//! client's exit means. Nothing here ever adopts, changes or removes a container without the label of this owner.

mod backend;
mod container;
mod end;
mod instructions;
mod mounts;
mod process;
mod seccomp;
mod supervision;
mod sweep;

pub use backend::{Client, DockerBackend, DockerOptions};
pub use container::PruneLimits;
pub use end::ClientEnd;
pub(crate) use instructions::Terms;
pub use process::main_if_asked;
