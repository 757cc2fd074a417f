//! The HTTP API: listeners, the service that every request passes, extractors, and one file per resource.
//!
//! Turns requests into calls of [`countersign_engine::Engine`] and its answers into the wire forms of
//! `docs/spec/http-api.md`. It must never decide about a command, and it knows no SQL. Every refusal leaves as a
//! problem document made by [`problem`].
//!
//! Begin with [`bind`] and [`HttpService`]; `routes` has the operations.

#![forbid(unsafe_code)]

pub mod mock;

mod accept;
mod admission;
mod assets;
mod bearer;
mod caller;
mod compression;
mod cookie;
mod cors;
mod deprecation;
mod event_frames;
mod extract;
mod film;
mod handshake;
mod host_header;
mod links;
mod list;
mod listed;
mod listen;
mod metrics;
mod openapi;
mod packed;
mod page_headers;
mod peer;
pub mod problem;
mod rate_headers;
mod reply;
mod request_id;
mod route_table;
mod routes;
mod schema;
mod service;
mod several;
mod short_id;
mod sse;
mod state;
mod tool_schema;
mod trace;
mod web_origin;

#[cfg(test)]
mod tests;

/// For each public asynchronous function. The future of an `async fn` is compiled again in every crate that awaits it, with
/// all that it awaits in turn; a future behind a pointer is compiled here alone.
pub(crate) use async_recursion::async_recursion as compiled_once;

pub use listen::{Bound, ListenError, ListenOptions, Purpose, bind};
pub use openapi::document;
pub use peer::{Endpoint, Peer, Transport};
pub use routes::verification_body;
pub use service::{HttpService, Routes};
pub use state::{AppState, Doctor};
pub use tool_schema::tool_arguments;
