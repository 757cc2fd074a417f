//! TLS: the one crypto provider, and the server's certificate as it lies on disk and as connections get it.
//!
//! Owns the files of `[tls]`: it alone reads them, and it never serves with less than they ask for. Knows no
//! connections; `countersign_http` takes a configuration for each from [`LiveTls`]. A client of a gateway takes from
//! [`client_config`] what it trusts.

mod client;
mod files;
mod live;
mod problem;
mod provider;

pub use client::{Fingerprint, InvalidFingerprint, client_config};
pub use files::TlsFiles;
pub use live::LiveTls;
pub use problem::TlsProblem;
pub use provider::install_provider;
