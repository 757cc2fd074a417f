//! What people configure, read and checked: settings, approvals documents, session overrides and TLS files.
//!
//! Each is parsed at the edge into types that cannot be wrong, and written back without losing what it does not
//! understand. Nothing here decides a command or starts one. Begin with [`settings::SettingsStore`] and
//! [`approvals::store::DocumentStore`].

#![forbid(unsafe_code)]

pub mod approvals;
pub mod session;
pub mod settings;
pub mod tls;

/// For each public asynchronous function. The future of an `async fn` is compiled again in every crate that awaits it, with
/// all that it awaits in turn; a future behind a pointer is compiled here alone.
pub(crate) use async_recursion::async_recursion as compiled_once;
