//! Waiting inside the runner, which has no async runtime.

use std::{io, time::Duration};

use rustix::{
    event::{PollFd, Timespec},
    time::ClockId,
};

/// Time since some fixed point; it never jumps.
pub fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// Waits until one of the descriptors is ready or the time has passed (`None`: for ever). An interrupting
/// signal ends the wait early.
///
/// # Errors
/// What the kernel answers.
pub fn poll(descriptors: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    match rustix::event::poll(descriptors, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
