//! The runtime of a command that talks to a server.

use super::failure::Failure;

/// Runs what waits, on this thread alone.
pub(super) fn with_runtime<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("runtime", format!("the runtime cannot be made: {error}")))?
        .block_on(command)
}
