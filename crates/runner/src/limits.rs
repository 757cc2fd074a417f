//! The numbers that bound what a run costs.

use std::time::Duration;

/// Most bytes of one message on a run's stream.
pub(crate) const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// Output up to this size is handed to the server and never becomes a file (`docs/decisions/0009-exactly-once.md`).
pub const INLINE_BYTES: usize = 64 * 1024;

/// Output up to this size is sent as it comes, without holes: enough for the 200,000 characters that answers
/// carry (`docs/spec/exec-tool.md#4-what-the-caller-gets`) at four bytes each.
pub const LIVE_BYTES: usize = 800 * 1024;

/// After that, this much of the newest output is sent now and then: enough for a tail of 20,000 characters.
pub const TAIL_BYTES: usize = 80 * 1024;

pub(super) const TAIL_INTERVAL: Duration = Duration::from_millis(200);

/// What a command does in its first moment is told in one message, which for a short command is the only one.
pub(super) const FIRST_WORD_DELAY: Duration = Duration::from_millis(2);

/// Input that a command has not taken yet, per run.
pub const INPUT_BYTES: usize = 256 * 1024;

/// How long a supervisor waits for the server to take or store what it reported. Then the spool keeps it.
pub(super) const STORED_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle supervisor waits before it looks whether it is still needed.
pub(super) const IDLE_INTERVAL: Duration = Duration::from_secs(15);

/// Supervisors that are kept idle however quiet it is.
pub(super) const MIN_IDLE: usize = 2;

/// More idle ones than this leave when they were not needed for [`IDLE_INTERVAL`].
pub(super) const MAX_QUIET_IDLE: usize = 4;

/// Supervisors beyond the greatest number of runs: idle ones, and those that still wait for leftovers.
pub(super) const SPARE_SUPERVISORS: usize = 64;
