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
