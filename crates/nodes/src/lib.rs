//! Machines beside this one: the Bridge that nodes and operators connect to, the socket of another UI, and this
//! program as a node of an `OpenClaw` gateway.
//!
//! Nothing here decides a command: what arrives becomes a call of the engine. Begin with [`bridge::Bridge`] and
//! [`node`].

#![forbid(unsafe_code)]

pub mod bridge;
pub mod ipc;
pub mod node;
/// For each public asynchronous function. The future of an `async fn` is compiled again in every crate that awaits it, with
/// all that it awaits in turn; a future behind a pointer is compiled here alone.
pub(crate) use async_recursion::async_recursion as compiled_once;
