//! The Docker backend of the sandbox on a real engine, which each test starts for itself: an image of busybox, containers
//! without a network.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names the reports it wants, and any other fails it"
)]

pub(crate) mod fixture;

mod commands;
mod containers;
mod engine_lost;
mod ordinary;
mod over_http;
mod profiles;
#[cfg(feature = "test-hooks")]
mod recovery;
mod supervision;
