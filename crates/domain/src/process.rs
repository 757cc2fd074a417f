//! Process sessions: what goes on without anybody waiting for it.

use super::vocabulary;

/// Most bytes of input that one call hands to a process session.
pub const MAX_INPUT_BYTES: usize = 256 * 1024;

vocabulary! {
    /// What a process session holds.
    pub enum ProcessKind("run or leftovers") {
        /// A run that went to the background.
        Run = "run",
        /// What the command of a run left running when it ended (`tools.exec.leftovers` = `keep`).
        Leftovers = "leftovers",
    }
}

vocabulary! {
    /// How a process session stands (`docs/spec/http-api.md#process-session-object`).
    pub enum ProcessStatus("running, completed, failed, cancelled or lost") {
        /// It goes on.
        Running = "running",
        /// It ended with exit code 0.
        Completed = "completed",
        /// It ended otherwise.
        Failed = "failed",
        /// A caller or the server cancelled it.
        Cancelled = "cancelled",
        /// Nobody knows how it ended.
        Lost = "lost",
    }
}
