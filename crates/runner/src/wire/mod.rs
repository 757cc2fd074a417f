//! What server and supervisors say to each other. Pure: bytes to values and back.
//!
//! A start is one frame on the shared `SEQPACKET` pair ([`Order`]), with descriptors beside it and a [`Plan`] in it.
//! After that, server and supervisor talk over the run's own stream ([`ToSupervisor`], [`FromSupervisor`], read with
//! [`Inbox`]). Both ends are the same program, but after an update a supervisor may be older than the server that
//! attaches to it. So you must never change or remove a kind of message: kinds are only ever added at the end, and
//! an unknown kind is skipped.

mod order;
mod plan;

mod message;

pub mod bytes;

#[cfg(test)]
mod tests;

pub(crate) use message::encode_output;
pub use message::{FromSupervisor, Inbox, MessageTooLong, NotStarted, SeenStart, ToSupervisor};
pub(crate) use order::Sweep;
pub use order::{MAX_FRAME_BYTES, Order};
pub use plan::{
    Action, Condition, DirectProgram, Fill, Filling, HeldScript, Kept, PatchOrder, Plan, Program, Setting,
    Step,
};
