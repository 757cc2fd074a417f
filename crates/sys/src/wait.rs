//! The one place where a thread waits for a fixed time.

use std::time::Duration;

/// The longest that [`pause`] waits, even if the caller asks for more.
const LONGEST: Duration = Duration::from_secs(1);

/// Blocks the calling thread, at most one second.
///
/// Only for conditions that the system does not announce to synchronous code, such as a lock file of another
/// program going away. The caller counts its pauses and gives up. Never call it from an async task.
#[expect(
    clippy::disallowed_methods,
    reason = "no condition variable spans two programs; the callers' number of pauses is bounded"
)]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration.min(LONGEST));
}
