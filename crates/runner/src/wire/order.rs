//! The frame that starts a run, and the one that has the rest of a run killed.

use serde::{Deserialize, Serialize};

use countersign_domain::{LaunchId, RunId, TerminalSize};

use super::bytes;

use crate::cgroup::RunLimits;

/// First byte of a start frame. A supervisor of another version refuses it.
const VERSION: u8 = 12;

/// Most bytes of a start frame; larger plans travel in a memory file. Well below what a socket buffer takes.
pub const MAX_FRAME_BYTES: usize = 64 * 1024;

/// What a supervisor is told besides the descriptors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of a frame")]
pub struct Order {
    /// The run; it names the spool.
    pub run_id: RunId,
    /// The launch that permits it; it goes into the fence.
    pub launch_id: LaunchId,
    /// Goes on without a server.
    pub outlives_server: bool,
    /// Leftovers are not killed.
    pub keeps_leftovers: bool,
    /// Whether input can be written; otherwise the command reads `/dev/null`.
    pub stdin_open: bool,
    /// How many descriptors of programs come with it.
    pub executables: u8,
    /// How many descriptors of rulesets come after those.
    pub rulesets: u8,
    /// Runs in the prepared namespaces; a supervisor that has none starts nothing.
    pub confined: bool,
    /// The spool comes opened, for a supervisor that cannot make one.
    pub has_spool: bool,
    /// A memory file with the content of held scripts comes with it.
    pub has_scripts: bool,
    /// 0 is none.
    pub timeout_ms: u64,
    /// From `SIGTERM` to `SIGKILL`; 0 kills straight away.
    pub kill_grace_ms: u32,
    /// How long leftovers may go on writing.
    pub leftovers_grace_ms: u32,
    /// Most bytes of output that are kept, both streams together. What comes after is counted only.
    pub max_run_bytes: u64,
    /// The size of the pseudo-terminal that it gets instead of pipes.
    pub terminal: Option<TerminalSize>,
    /// What it may use of the machine.
    pub limits: RunLimits,
    /// Whether what is typed at its terminal, while that shows it, is kept with the output.
    pub records_input: bool,
    /// Whether it is told which programs those with limits on their starts ask for.
    pub observes: bool,
    /// What is to be executed; `None` when it comes in a memory file.
    #[serde(with = "serde_bytes")]
    pub plan: Option<Vec<u8>>,
}

impl Order {
    /// The bytes of the start frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(192 + self.plan.as_ref().map_or(0, Vec::len));
        frame.push(VERSION);
        bytes::append(frame, self)
    }

    /// `None` for anything that this version did not write.
    pub fn decode(frame: &[u8]) -> Option<Self> {
        frame.strip_prefix(&[VERSION]).and_then(bytes::read)
    }
}

/// Kill what is left of a run whose supervisor is gone. Sent instead of an [`Order`] by a server that cannot signal
/// the processes itself, with one descriptor, which is closed when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sweep {
    /// The first process of the run, which led its session.
    pub(crate) pid: i32,
    /// When it started, in clock ticks since boot.
    pub(crate) start_time: u64,
}

/// First byte of such a frame. No version of an order begins with it.
const SWEEP: u8 = 0xf0;

impl Sweep {
    pub(crate) fn encode(self) -> Vec<u8> {
        bytes::append(vec![SWEEP], &self)
    }

    /// `None` for any other frame.
    pub(crate) fn decode(frame: &[u8]) -> Option<Self> {
        frame.strip_prefix(&[SWEEP]).and_then(bytes::read)
    }
}
