//! Descriptors whose readiness the async runtime reports.
#![expect(
    unsafe_code,
    reason = "tokio leaves it to the caller that the descriptor stays open"
)]

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Hands a descriptor to the async runtime that runs this.
///
/// # Errors
/// When the runtime cannot watch it.
///
/// # Panics
/// Outside an async runtime.
pub fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, and is the same descriptor until it is dropped, which only the `AsyncFd` does.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    Ok(watched?)
}
