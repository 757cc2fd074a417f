//! The frame that starts a run, and the one that has the rest of a run killed.

use countersign_domain::{LaunchId, RunId, TerminalSize};

use super::bytes::{Reader, size_bytes};

use crate::cgroup::RunLimits;

/// First byte of a start frame. A supervisor of another version refuses it.
const VERSION: u8 = 6;

/// Most bytes of a start frame; larger plans travel in a memory file. Well below what a socket buffer takes.
pub const MAX_FRAME_BYTES: usize = 64 * 1024;

/// What a supervisor is told besides the descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// What is to be executed; `None` when it comes in a memory file.
    pub plan: Option<Vec<u8>>,
}

const OUTLIVES_SERVER: u8 = 1;
const KEEPS_LEFTOVERS: u8 = 2;
const STDIN_OPEN: u8 = 4;
const PLAN_INSIDE: u8 = 16;
const CONFINED: u8 = 32;
const HAS_SPOOL: u8 = 64;
const HAS_SCRIPTS: u8 = 128;

impl Order {
    /// The bytes of the start frame.
    pub fn encode(&self) -> Vec<u8> {
        let Self {
            run_id,
            launch_id,
            outlives_server,
            keeps_leftovers,
            stdin_open,
            executables,
            confined,
            has_spool,
            has_scripts,
            timeout_ms,
            kill_grace_ms,
            leftovers_grace_ms,
            max_run_bytes,
            terminal,
            limits,
            plan,
        } = self;
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(*outlives_server, OUTLIVES_SERVER)
            | flag(*keeps_leftovers, KEEPS_LEFTOVERS)
            | flag(*stdin_open, STDIN_OPEN)
            | flag(*confined, CONFINED)
            | flag(*has_spool, HAS_SPOOL)
            | flag(*has_scripts, HAS_SCRIPTS)
            | flag(plan.is_some(), PLAN_INSIDE);
        let plan = plan.as_deref().unwrap_or_default();
        let mut frame = Vec::with_capacity(192 + plan.len());
        frame.extend([VERSION, flags, *executables]);
        frame.extend(timeout_ms.to_le_bytes());
        frame.extend(kill_grace_ms.to_le_bytes());
        frame.extend(leftovers_grace_ms.to_le_bytes());
        frame.extend(max_run_bytes.to_le_bytes());
        // No size is zero.
        frame.extend(terminal.map_or([0; 4], size_bytes));
        frame.extend(encode_limits(*limits));
        for id in [run_id.as_str(), launch_id.as_str()] {
            frame.push(u8::try_from(id.len()).unwrap_or(u8::MAX));
            frame.extend(id.as_bytes());
        }
        frame.extend(plan);
        frame
    }

    /// `None` for anything that this version did not write.
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let mut reader = Reader(frame);
        if reader.byte()? != VERSION {
            return None;
        }
        let flags = reader.byte()?;
        let executables = reader.byte()?;
        let timeout_ms = reader.u64()?;
        let kill_grace_ms = reader.u32()?;
        let leftovers_grace_ms = reader.u32()?;
        let max_run_bytes = reader.u64()?;
        let terminal = match reader.array::<4>()? {
            [0, 0, 0, 0] => None,
            size => Some(Reader(&size).terminal_size()?),
        };
        let limits = decode_limits(&mut reader)?;
        let run_id = RunId::parse(reader.short_text()?).ok()?;
        let launch_id = LaunchId::parse(reader.short_text()?).ok()?;
        let has_plan = flags & PLAN_INSIDE != 0;
        if has_plan == reader.0.is_empty() {
            return None;
        }
        Some(Self {
            run_id,
            launch_id,
            outlives_server: flags & OUTLIVES_SERVER != 0,
            keeps_leftovers: flags & KEEPS_LEFTOVERS != 0,
            stdin_open: flags & STDIN_OPEN != 0,
            executables,
            confined: flags & CONFINED != 0,
            has_spool: flags & HAS_SPOOL != 0,
            has_scripts: flags & HAS_SCRIPTS != 0,
            timeout_ms,
            kill_grace_ms,
            leftovers_grace_ms,
            max_run_bytes,
            terminal,
            limits,
            plan: has_plan.then(|| reader.0.to_vec()),
        })
    }
}

fn encode_limits(limits: RunLimits) -> [u8; 24] {
    let RunLimits {
        memory_bytes,
        cpu_percent,
        processes,
    } = limits;
    let mut bytes = [0; 24];
    for (place, number) in bytes
        .chunks_exact_mut(8)
        .zip([memory_bytes, cpu_percent, processes])
    {
        place.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn decode_limits(reader: &mut Reader<'_>) -> Option<RunLimits> {
    Some(RunLimits {
        memory_bytes: reader.u64()?,
        cpu_percent: reader.u64()?,
        processes: reader.u64()?,
    })
}

/// Kill what is left of a run whose supervisor is gone. Sent instead of an [`Order`] by a server that cannot signal
/// the processes itself, with one descriptor, which is closed when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        let Self { pid, start_time } = self;
        [&[SWEEP], pid.to_le_bytes().as_slice(), &start_time.to_le_bytes()].concat()
    }

    /// `None` for any other frame.
    pub(crate) fn decode(frame: &[u8]) -> Option<Self> {
        let mut reader = Reader(frame);
        if reader.byte()? != SWEEP {
            return None;
        }
        let (pid, start_time) = (reader.i32()?, reader.u64()?);
        reader.0.is_empty().then_some(Self { pid, start_time })
    }
}
