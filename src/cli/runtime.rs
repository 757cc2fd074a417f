//! The runtime of a command that talks to a server.

use std::time::Duration;

use tokio::time::timeout;

use super::failure::Failure;

/// Runs what waits, on this thread alone.
pub(super) fn with_runtime<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(command)
}

/// The same for no longer than `limit`, whatever of it still goes on then, such as looking up a name; `None` for what took longer.
pub(super) fn with_runtime_for<T>(
    limit: Duration,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<T>, Failure> {
    let runtime = runtime()?;
    // A timer is of the runtime that it is made in.
    let done = runtime.block_on(async { timeout(limit, command).await });
    runtime.shutdown_background();
    done.ok().transpose()
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("runtime", format!("the runtime cannot be made: {error}")))
}
