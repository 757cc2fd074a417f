//! What server and supervisors say to each other. Pure: bytes to values and back.
//!
//! A start is one frame on the shared `SEQPACKET` pair, with descriptors beside it. After that, server and
//! supervisor talk over the run's own stream: `[kind: u8][length: u32, little endian][body]`. Both ends are the
//! same program, but after an update a supervisor may be older than the server that attaches to it, so kinds are
//! only ever added, and an unknown kind is skipped.

use std::{ffi::CString, fmt, io};

use crate::{
    domain::{Exit, KillCause, LaunchId, LimitReport, OutputStream, RunId, StepJoin, TerminalSize},
    sys::{fs::FileStamp, process::JudgedFile},
    terminal::CursorKeys,
};

use super::{
    cgroup::RunLimits,
    enclose::{Enclosed, Obstacle},
    limits::MAX_MESSAGE_BYTES,
};

/// First byte of a start frame. A supervisor of another version refuses it.
pub(crate) const VERSION: u8 = 4;

/// Most bytes of a start frame; larger plans travel in a memory file. Well below what a socket buffer takes.
pub(crate) const MAX_FRAME_BYTES: usize = 64 * 1024;

/// What a supervisor is told besides the descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of a frame")]
pub(crate) struct Order {
    pub(crate) run_id: RunId,
    pub(crate) launch_id: LaunchId,
    /// Goes on without a server.
    pub(crate) outlives_server: bool,
    /// Leftovers are not killed.
    pub(crate) keeps_leftovers: bool,
    pub(crate) stdin_open: bool,
    /// How many descriptors of programs come with it.
    pub(crate) executables: u8,
    /// Runs in the prepared namespaces; a supervisor that has none starts nothing.
    pub(crate) confined: bool,
    /// The spool comes opened, for a supervisor that cannot make one.
    pub(crate) has_spool: bool,
    /// 0 is none.
    pub(crate) timeout_ms: u64,
    /// From `SIGTERM` to `SIGKILL`; 0 kills straight away.
    pub(crate) kill_grace_ms: u32,
    /// How long leftovers may go on writing.
    pub(crate) leftovers_grace_ms: u32,
    pub(crate) max_run_bytes: u64,
    /// The size of the pseudo-terminal that it gets instead of pipes.
    pub(crate) terminal: Option<TerminalSize>,
    /// What it may use of the machine.
    pub(crate) limits: RunLimits,
    /// What is to be executed; `None` when it comes in a memory file.
    pub(crate) plan: Option<Vec<u8>>,
}

/// What is started, its environment and where it runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Path of the working directory. It is opened again inside the namespaces and must be the directory that came as
    /// a descriptor.
    pub(crate) directory: CString,
    /// Each ending with NUL.
    pub(crate) environment: Vec<u8>,
    /// Files that programs open by their paths, as they must be when the run begins.
    pub(crate) files: Vec<JudgedFile>,
    /// Never empty.
    pub(crate) steps: Vec<Step>,
    /// The sandbox that its one program runs in. Then all paths are meant inside of it, and the directory that came as a
    /// descriptor is the workspace.
    pub(crate) enclosed: Option<Enclosed>,
}

/// One step of a plan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// `None` for the first.
    pub(crate) join: Option<StepJoin>,
    pub(crate) action: Action,
}

/// What a step does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Program(Program),
    /// `cd`. The device and inode of where it must lead, if that is known.
    ChangeDirectory {
        operand: Vec<u8>,
        pinned: Option<(u64, u64)>,
    },
    /// `pwd`.
    PrintDirectory {
        physical: bool,
    },
    /// `true` or `false`.
    Settle {
        succeeds: bool,
    },
    /// A patch of the working directory.
    ApplyPatch(PatchOrder),
}

/// A patch, and how far it may reach.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PatchOrder {
    pub(crate) text: String,
    /// It stays beneath the working directory.
    pub(crate) workspace_only: bool,
    /// Absolute paths by which the working directory is known to whoever wrote the patch.
    pub(crate) called: Vec<Vec<u8>>,
    /// Files and directories that no patch changes, as real paths.
    pub(crate) off_limits: Vec<Vec<u8>>,
    /// What lies in there and is changed nevertheless.
    pub(crate) spared: Vec<Vec<u8>>,
}

/// A program that a step starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: CString,
    /// Which of the descriptors it is started from.
    pub(crate) executable: Option<u8>,
    /// What that must still be.
    pub(crate) stamp: Option<FileStamp>,
    /// The file that the step names, which its path must still lead to: the program, or the script that it reads.
    pub(crate) file: Option<JudgedFile>,
    /// Each ending with NUL.
    pub(crate) arguments: Vec<u8>,
    /// Variables of this program alone, each ending with NUL.
    pub(crate) assignments: Vec<u8>,
}

const OUTLIVES_SERVER: u8 = 1;
const KEEPS_LEFTOVERS: u8 = 2;
const STDIN_OPEN: u8 = 4;
const PLAN_INSIDE: u8 = 16;
const CONFINED: u8 = 32;
const HAS_SPOOL: u8 = 64;

impl Order {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self {
            run_id,
            launch_id,
            outlives_server,
            keeps_leftovers,
            stdin_open,
            executables,
            confined,
            has_spool,
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
    pub(crate) fn decode(frame: &[u8]) -> Option<Self> {
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

impl Plan {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self {
            directory,
            environment,
            files,
            steps,
            enclosed,
        } = self;
        let mut writer = Writer(Vec::with_capacity(256 + environment.len()));
        writer.long(directory.to_bytes());
        writer.long(environment);
        writer.count(files.len());
        for file in files {
            writer.file(file);
        }
        writer.count(steps.len());
        for Step { join, action } in steps {
            writer.0.push(match join {
                None => 0,
                Some(StepJoin::Pipe) => 1,
                Some(StepJoin::And) => 2,
                Some(StepJoin::Or) => 3,
                Some(StepJoin::Sequence) => 4,
            });
            match action {
                Action::Program(program) => {
                    writer.0.push(1);
                    writer.program(program);
                }
                Action::ChangeDirectory { operand, pinned } => {
                    writer.0.push(2);
                    writer.long(operand);
                    writer.option(pinned.as_ref(), |writer, (dev, ino)| {
                        writer.0.extend(dev.to_le_bytes());
                        writer.0.extend(ino.to_le_bytes());
                    });
                }
                Action::PrintDirectory { physical } => writer.0.extend([3, u8::from(*physical)]),
                Action::Settle { succeeds } => writer.0.extend([4, u8::from(*succeeds)]),
                Action::ApplyPatch(patch) => {
                    writer.0.push(5);
                    writer.patch(patch);
                }
            }
        }
        writer.option(enclosed.as_ref(), |writer, enclosed| enclosed.encode(writer));
        writer.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let directory = reader.path()?;
        let environment = reader.long_bytes()?.to_vec();
        let files = reader.list(Reader::file)?;
        let steps = reader.list(|reader| {
            let join = match reader.byte()? {
                0 => None,
                1 => Some(StepJoin::Pipe),
                2 => Some(StepJoin::And),
                3 => Some(StepJoin::Or),
                4 => Some(StepJoin::Sequence),
                _ => return None,
            };
            let action = match reader.byte()? {
                1 => Action::Program(reader.program()?),
                2 => Action::ChangeDirectory {
                    operand: reader.path()?.into_bytes(),
                    pinned: reader.option(|reader| Some((reader.u64()?, reader.u64()?)))?,
                },
                3 => Action::PrintDirectory {
                    physical: reader.byte()? == 1,
                },
                4 => Action::Settle {
                    succeeds: reader.byte()? == 1,
                },
                5 => Action::ApplyPatch(reader.patch()?),
                _ => return None,
            };
            Some(Step { join, action })
        })?;
        let enclosed = reader.option(Enclosed::decode)?;
        // Only the first step follows nothing.
        let is_joined = steps
            .iter()
            .enumerate()
            .all(|(at, step)| (at == 0) == step.join.is_none());
        (reader.0.is_empty() && !steps.is_empty() && is_joined).then_some(Self {
            directory,
            environment,
            files,
            steps,
            enclosed,
        })
    }
}

pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn number32(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn number64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn count(&mut self, count: usize) {
        self.0
            .extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    pub(super) fn long(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }

    fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.0.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn stamp(&mut self, stamp: &FileStamp) {
        let FileStamp {
            dev,
            ino,
            size,
            mtime_ns,
            ctime_ns,
        } = stamp;
        for number in [dev, ino, size] {
            self.0.extend(number.to_le_bytes());
        }
        for number in [mtime_ns, ctime_ns] {
            self.0.extend(number.to_le_bytes());
        }
    }

    fn file(&mut self, JudgedFile { path, stamp, sha256 }: &JudgedFile) {
        self.long(path.to_bytes());
        self.stamp(stamp);
        self.option(sha256.as_ref(), |writer, sha256| writer.0.extend(sha256));
    }

    fn patch(&mut self, patch: &PatchOrder) {
        let PatchOrder {
            text,
            workspace_only,
            called,
            off_limits,
            spared,
        } = patch;
        self.long(text.as_bytes());
        self.0.push(u8::from(*workspace_only));
        for paths in [called, off_limits, spared] {
            self.count(paths.len());
            for path in paths {
                self.long(path);
            }
        }
    }

    fn program(&mut self, program: &Program) {
        let Program {
            path,
            executable,
            stamp,
            file,
            arguments,
            assignments,
        } = program;
        self.long(path.to_bytes());
        self.option(executable.as_ref(), |writer, index| writer.0.push(*index));
        self.option(stamp.as_ref(), Self::stamp);
        self.option(file.as_ref(), Self::file);
        self.long(arguments);
        self.long(assignments);
    }
}

/// What the server tells a supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToSupervisor {
    /// Kill the whole tree.
    Kill(KillCause),
    /// Go on if the server dies or lets go.
    Background,
    /// More for the command's input.
    Input(Vec<u8>),
    /// The end of the command's input.
    EndOfInput,
    /// Another size for its terminal.
    Resize(TerminalSize),
    /// The outcome and the inline output are stored: nothing of it is needed any more.
    Stored,
}

/// What a supervisor tells the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromSupervisor {
    /// The first process runs.
    Started {
        /// Its id.
        pid: i32,
        /// When it started, in clock ticks since boot.
        start_time: u64,
    },
    /// Output, in order of arrival.
    Output(OutputStream, Vec<u8>),
    /// This much output came that is not sent: it is in the spool, or was not kept.
    Skipped(u64),
    /// Room for this much more input.
    InputTaken(u32),
    /// What arrows must send to its terminal from now on.
    CursorKeys(CursorKeys),
    /// This much output is in the spool already; what follows was written after it. First word to a new server.
    Attached {
        /// Bytes of both streams in the spool.
        kept_bytes: u64,
        /// Bytes of both streams seen.
        output_bytes: u64,
    },
    /// It ended.
    Exited {
        /// How.
        exit: Exit,
        /// Whether the spool holds its output; otherwise all of it was sent.
        is_spooled: bool,
        /// Whether processes that it left go on running.
        leftovers_run: bool,
    },
    /// The last of what a run left running ended.
    LeftoversEnded,
    /// Nothing was started.
    NotStarted(NotStarted),
}

/// Why a supervisor started nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStarted {
    /// The run file was not empty: it started before, or was voided.
    FenceLost,
    /// The run file is held by another supervisor.
    Held,
    /// The server cancelled it before it began.
    Cancelled,
    /// The fence could not be written, or there was no process to be had: the error number.
    System(i32),
    /// No supervisor reported anything; the run file is empty.
    NoReport,
    /// The sandbox could not be made: what of it, and the error number.
    Sandbox(Obstacle, i32),
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::FenceLost => f.write_str("it was started or voided before"),
            Self::Held => f.write_str("another supervisor has it"),
            Self::Cancelled => f.write_str("it was cancelled before it began"),
            Self::System(errno) => write!(f, "{}", reason(errno)),
            Self::NoReport => f.write_str("nothing was heard of it"),
            Self::Sandbox(obstacle, errno) => write!(f, "{obstacle}: {}", reason(errno)),
        }
    }
}

impl ToSupervisor {
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Self::Kill(cause) => message(into, b'K', &[cause_byte(*cause)]),
            Self::Background => message(into, b'B', &[]),
            Self::Input(bytes) => message(into, b'W', bytes),
            Self::EndOfInput => message(into, b'E', &[]),
            Self::Resize(size) => message(into, b'Z', &size_bytes(*size)),
            Self::Stored => message(into, b'A', &[]),
        }
    }

    /// `None` for a kind this version does not know.
    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        Some(match kind {
            b'K' => Self::Kill(cause_of(reader.byte()?)?),
            b'B' => Self::Background,
            b'W' => Self::Input(body.to_vec()),
            b'E' => Self::EndOfInput,
            b'Z' => Self::Resize(reader.terminal_size()?),
            b'A' => Self::Stored,
            _ => return None,
        })
    }
}

impl FromSupervisor {
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Self::Started { pid, start_time } => {
                message(
                    into,
                    b'S',
                    &[pid.to_le_bytes().as_slice(), &start_time.to_le_bytes()].concat(),
                );
            }
            Self::Output(stream, bytes) => encode_output(into, *stream, bytes),
            Self::Skipped(bytes) => message(into, b'G', &bytes.to_le_bytes()),
            Self::InputTaken(bytes) => message(into, b'I', &bytes.to_le_bytes()),
            Self::CursorKeys(mode) => message(
                into,
                b'C',
                &[match mode {
                    CursorKeys::Normal => 0,
                    CursorKeys::Application => 1,
                }],
            ),
            Self::Attached {
                kept_bytes,
                output_bytes,
            } => {
                message(
                    into,
                    b'R',
                    &[kept_bytes.to_le_bytes(), output_bytes.to_le_bytes()].concat(),
                );
            }
            Self::Exited {
                exit,
                is_spooled,
                leftovers_run,
            } => {
                message(into, b'X', &encode_exit(exit, *is_spooled, *leftovers_run));
            }
            Self::LeftoversEnded => message(into, b'L', &[]),
            Self::NotStarted(why) => {
                let (why, errno) = match why {
                    NotStarted::FenceLost => (1, 0),
                    NotStarted::Held => (2, 0),
                    NotStarted::Cancelled => (3, 0),
                    NotStarted::System(errno) => (4, *errno),
                    NotStarted::NoReport => (5, 0),
                    NotStarted::Sandbox(obstacle, errno) => (obstacle.code(), *errno),
                };
                message(into, b'N', &[&[why], errno.to_le_bytes().as_slice()].concat());
            }
        }
    }

    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        Some(match kind {
            b'S' => Self::Started {
                pid: reader.i32()?,
                start_time: reader.u64()?,
            },
            b'O' => Self::Output(stream_of(reader.byte()?)?, reader.0.to_vec()),
            b'G' => Self::Skipped(reader.u64()?),
            b'I' => Self::InputTaken(reader.u32()?),
            b'C' => Self::CursorKeys(match reader.byte()? {
                0 => CursorKeys::Normal,
                1 => CursorKeys::Application,
                _ => return None,
            }),
            b'R' => Self::Attached {
                kept_bytes: reader.u64()?,
                output_bytes: reader.u64()?,
            },
            b'X' => decode_exit(&mut reader)?,
            b'L' => Self::LeftoversEnded,
            b'N' => Self::NotStarted(match (reader.byte()?, reader.i32()?) {
                (1, _) => NotStarted::FenceLost,
                (2, _) => NotStarted::Held,
                (3, _) => NotStarted::Cancelled,
                (4, errno) => NotStarted::System(errno),
                (5, _) => NotStarted::NoReport,
                (code, errno) => NotStarted::Sandbox(Obstacle::of_code(code)?, errno),
            }),
            _ => return None,
        })
    }
}

/// Encodes [`FromSupervisor::Output`] without a copy of its own.
pub(crate) fn encode_output(into: &mut Vec<u8>, stream: OutputStream, bytes: &[u8]) {
    for piece in bytes.chunks(MAX_MESSAGE_BYTES - 1) {
        into.push(b'O');
        into.extend(u32::try_from(piece.len() + 1).unwrap_or(u32::MAX).to_le_bytes());
        into.push(match stream {
            OutputStream::Stdout => 1,
            OutputStream::Stderr => 2,
        });
        into.extend(piece);
    }
}

fn encode_exit(exit: &Exit, is_spooled: bool, leftovers_run: bool) -> Vec<u8> {
    let Exit {
        code,
        signal,
        spawn_errno,
        killed,
        leftovers_killed,
        output_bytes,
        kept_bytes,
        limits,
    } = exit;
    let mut body = Vec::with_capacity(40);
    for number in [code, signal, spawn_errno] {
        body.push(u8::from(number.is_some()));
        body.extend(number.unwrap_or(0).to_le_bytes());
    }
    body.push(killed.map_or(0, cause_byte));
    body.extend([
        u8::from(*leftovers_killed),
        u8::from(is_spooled),
        u8::from(leftovers_run),
    ]);
    body.extend(output_bytes.to_le_bytes());
    body.extend(kept_bytes.to_le_bytes());
    body.push(limits.to_bits());
    body
}

fn decode_exit(reader: &mut Reader<'_>) -> Option<FromSupervisor> {
    let mut number = || -> Option<Option<i32>> {
        let is_there = reader.byte()? == 1;
        let number = reader.i32()?;
        Some(is_there.then_some(number))
    };
    let (code, signal, spawn_errno) = (number()?, number()?, number()?);
    let killed = match reader.byte()? {
        0 => None,
        byte => Some(cause_of(byte)?),
    };
    let leftovers_killed = reader.byte()? == 1;
    let is_spooled = reader.byte()? == 1;
    let leftovers_run = reader.byte()? == 1;
    let (output_bytes, kept_bytes) = (reader.u64()?, reader.u64()?);
    // A supervisor of an earlier version says nothing of it.
    let limits = LimitReport::of_bits(reader.byte().unwrap_or(0));
    let exit = Exit {
        code,
        signal,
        spawn_errno,
        killed,
        leftovers_killed,
        output_bytes,
        kept_bytes,
        limits,
    };
    Some(FromSupervisor::Exited {
        exit,
        is_spooled,
        leftovers_run,
    })
}

const fn cause_byte(cause: KillCause) -> u8 {
    match cause {
        KillCause::Timeout => 1,
        KillCause::Cancelled => 2,
        KillCause::Shutdown => 3,
    }
}

const fn cause_of(byte: u8) -> Option<KillCause> {
    match byte {
        1 => Some(KillCause::Timeout),
        2 => Some(KillCause::Cancelled),
        3 => Some(KillCause::Shutdown),
        _ => None,
    }
}

const fn stream_of(byte: u8) -> Option<OutputStream> {
    match byte {
        1 => Some(OutputStream::Stdout),
        2 => Some(OutputStream::Stderr),
        _ => None,
    }
}

fn size_bytes(size: TerminalSize) -> [u8; 4] {
    let ([a, b], [c, d]) = (size.rows().to_le_bytes(), size.cols().to_le_bytes());
    [a, b, c, d]
}

fn message(into: &mut Vec<u8>, kind: u8, body: &[u8]) {
    into.push(kind);
    into.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend(body);
}

/// Bytes that arrived and are not a whole message yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
}

/// The other end does not speak this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message is longer than any can be")]
pub(crate) struct MessageTooLong;

impl Inbox {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken > MAX_MESSAGE_BYTES {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn next_to_supervisor(&mut self) -> Result<Option<ToSupervisor>, MessageTooLong> {
        self.next_message(ToSupervisor::decode)
    }

    pub(crate) fn next_from_supervisor(&mut self) -> Result<Option<FromSupervisor>, MessageTooLong> {
        self.next_message(FromSupervisor::decode)
    }

    /// The next message of a known kind; `None` until more arrives.
    fn next_message<T>(&mut self, decode: fn(u8, &[u8]) -> Option<T>) -> Result<Option<T>, MessageTooLong> {
        loop {
            let mut reader = Reader(self.bytes.get(self.taken..).unwrap_or_default());
            let (Some(kind), Some(length)) = (reader.byte(), reader.u32()) else {
                return Ok(None);
            };
            let length = usize::try_from(length).map_err(|_too_large| MessageTooLong)?;
            if length > MAX_MESSAGE_BYTES {
                return Err(MessageTooLong);
            }
            let Some(body) = reader.bytes(length) else {
                return Ok(None);
            };
            let decoded = decode(kind, body);
            self.taken += 5 + length;
            if decoded.is_some() {
                return Ok(decoded);
            }
        }
    }
}

pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn terminal_size(&mut self) -> Option<TerminalSize> {
        let (rows, cols) = (self.u16()?, self.u16()?);
        TerminalSize::new(rows, cols)
    }

    fn short_text(&mut self) -> Option<&'a str> {
        let length = self.byte()?;
        std::str::from_utf8(self.bytes(length.into())?).ok()
    }

    pub(super) fn long_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).ok()?)
    }

    fn i128(&mut self) -> Option<i128> {
        self.array().map(i128::from_le_bytes)
    }

    pub(super) fn path(&mut self) -> Option<CString> {
        CString::new(self.long_bytes()?).ok()
    }

    /// `None` for what is no option at all.
    #[expect(
        clippy::option_option,
        reason = "everything that is read here may be unreadable"
    )]
    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => Some(Some(read(self)?)),
            _ => None,
        }
    }

    pub(super) fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // Not trusted for its memory: it grows with what is really there.
        (0..self.u32()?).map(|_| read(self)).collect()
    }

    fn patch(&mut self) -> Option<PatchOrder> {
        let text = str::from_utf8(self.long_bytes()?).ok()?.to_owned();
        // What is not said to be unbounded is bounded.
        let workspace_only = self.byte()? != 0;
        let [called, off_limits, spared] = [self.paths()?, self.paths()?, self.paths()?];
        Some(PatchOrder {
            text,
            workspace_only,
            called,
            off_limits,
            spared,
        })
    }

    fn paths(&mut self) -> Option<Vec<Vec<u8>>> {
        self.list(|reader| reader.long_bytes().map(<[u8]>::to_vec))
    }

    fn stamp(&mut self) -> Option<FileStamp> {
        Some(FileStamp {
            dev: self.u64()?,
            ino: self.u64()?,
            size: self.u64()?,
            mtime_ns: self.i128()?,
            ctime_ns: self.i128()?,
        })
    }

    fn file(&mut self) -> Option<JudgedFile> {
        Some(JudgedFile {
            path: self.path()?,
            stamp: self.stamp()?,
            sha256: self.option(Self::array)?,
        })
    }

    fn program(&mut self) -> Option<Program> {
        let program = Program {
            path: self.path()?,
            executable: self.option(Self::byte)?,
            stamp: self.option(Self::stamp)?,
            file: self.option(Self::file)?,
            arguments: self.long_bytes()?.to_vec(),
            assignments: self.long_bytes()?.to_vec(),
        };
        (!program.arguments.is_empty()).then_some(program)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::runner::enclose::{Piece, ProcessLimit, Source};

    fn order(plan: Option<Vec<u8>>) -> Order {
        Order {
            run_id: RunId::parse("run-1").unwrap(),
            launch_id: LaunchId::parse("launch-1").unwrap(),
            outlives_server: true,
            keeps_leftovers: false,
            stdin_open: true,
            executables: 7,
            confined: true,
            has_spool: true,
            timeout_ms: 1 << 40,
            kill_grace_ms: 2000,
            leftovers_grace_ms: 500,
            max_run_bytes: u64::MAX,
            terminal: plan.as_ref().map(|_| TerminalSize::DEFAULT),
            limits: RunLimits {
                memory_bytes: 1 << 30,
                cpu_percent: 150,
                processes: 7,
            },
            plan,
        }
    }

    fn enclosed() -> Enclosed {
        let text = |text: &str| CString::new(text).unwrap();
        let bind = |source, writable| Piece::Bind {
            source,
            inside: text("/workspace"),
            writable,
        };
        Enclosed {
            host_name: text("sandbox"),
            nobody: (65_534, 7),
            pieces: vec![
                Piece::Mirror(text("/usr")),
                bind(Source::Workspace, true),
                bind(Source::Path(text("/srv")), false),
                Piece::Memory {
                    inside: text("/tmp"),
                    bytes: u64::MAX,
                    files: 1,
                    mode: 0o1777,
                    executable: true,
                },
                Piece::File {
                    inside: text("/etc/passwd"),
                    content: b"a\0b".to_vec(),
                },
            ],
            writable_root: true,
            limits: vec![ProcessLimit {
                resource: 4,
                soft: 1,
                hard: u64::MAX,
            }],
        }
    }

    fn every_answer() -> Vec<FromSupervisor> {
        let exit = Exit {
            code: Some(-1),
            killed: Some(KillCause::Shutdown),
            output_bytes: 7,
            ..Exit::default()
        };
        let mut answers = vec![
            FromSupervisor::Started {
                pid: 7,
                start_time: u64::MAX,
            },
            FromSupervisor::Output(OutputStream::Stderr, b"text".to_vec()),
            FromSupervisor::Skipped(9),
            FromSupervisor::InputTaken(3),
            FromSupervisor::CursorKeys(CursorKeys::Application),
            FromSupervisor::CursorKeys(CursorKeys::Normal),
            FromSupervisor::Attached {
                kept_bytes: 1,
                output_bytes: 2,
            },
            FromSupervisor::Exited {
                exit,
                is_spooled: true,
                leftovers_run: true,
            },
            FromSupervisor::LeftoversEnded,
        ];
        answers.extend(
            [
                NotStarted::FenceLost,
                NotStarted::Held,
                NotStarted::Cancelled,
                NotStarted::System(28),
                NotStarted::NoReport,
                NotStarted::Sandbox(Obstacle::Workspace, 1),
            ]
            .map(FromSupervisor::NotStarted),
        );
        answers
    }

    fn every_command() -> Vec<ToSupervisor> {
        vec![
            ToSupervisor::Kill(KillCause::Cancelled),
            ToSupervisor::Background,
            ToSupervisor::Input(b"in".to_vec()),
            ToSupervisor::EndOfInput,
            ToSupervisor::Resize(TerminalSize::new(1, 1000).unwrap()),
            ToSupervisor::Stored,
        ]
    }

    #[test]
    fn an_order_is_read_back_whole_or_not_at_all() {
        for plan in [None, Some(b"plan".to_vec())] {
            let order = order(plan.clone());
            let frame = order.encode();
            assert_eq!(Order::decode(&frame), Some(order));
            if plan.is_none() {
                for cut in 0..frame.len() {
                    assert_eq!(Order::decode(&frame[..cut]), None, "cut at {cut}");
                }
            }
        }
        let mut foreign = order(None).encode();
        foreign[0] += 1;
        assert_eq!(Order::decode(&foreign), None);
    }

    #[test]
    fn a_sweep_is_no_order_and_an_order_no_sweep() {
        let sweep = Sweep {
            pid: 4711,
            start_time: u64::MAX,
        };
        let frame = sweep.encode();
        assert_eq!(Sweep::decode(&frame), Some(sweep));
        assert_eq!(Order::decode(&frame), None);
        assert_eq!(Sweep::decode(&frame[..frame.len() - 1]), None);
        assert_eq!(Sweep::decode(&order(None).encode()), None);
    }

    #[test]
    fn a_plan_is_read_back() {
        let stamp = FileStamp {
            dev: 1,
            ino: u64::MAX,
            size: 3,
            mtime_ns: -4,
            ctime_ns: i128::MAX,
        };
        let file = |sha256| JudgedFile {
            path: c"/bin/x".to_owned(),
            stamp,
            sha256,
        };
        let program = |executable| {
            Action::Program(Program {
                path: c"/bin/x".to_owned(),
                executable,
                stamp: executable.map(|_| stamp),
                file: executable.map(|_| file(None)),
                arguments: b"x\0\0".to_vec(),
                assignments: b"A=1\0".to_vec(),
            })
        };
        let joined = |join, action| Step {
            join: Some(join),
            action,
        };
        let change = |pinned| Action::ChangeDirectory {
            operand: b"./d".to_vec(),
            pinned,
        };
        let plan = Plan {
            directory: c"/d".to_owned(),
            environment: vec![],
            files: vec![file(None), file(Some([7; 32]))],
            steps: vec![
                Step {
                    join: None,
                    action: program(Some(9)),
                },
                joined(StepJoin::Pipe, program(None)),
                joined(StepJoin::And, change(Some((5, 6)))),
                joined(StepJoin::Or, change(None)),
                joined(StepJoin::Sequence, Action::PrintDirectory { physical: true }),
                joined(StepJoin::Sequence, Action::Settle { succeeds: false }),
                joined(
                    StepJoin::Sequence,
                    Action::ApplyPatch(PatchOrder {
                        text: "*** Begin Patch".to_owned(),
                        workspace_only: true,
                        called: vec![b"/workspace".to_vec()],
                        off_limits: vec![b"/a".to_vec(), b"/b".to_vec()],
                        spared: vec![],
                    }),
                ),
            ],
            enclosed: Some(enclosed()),
        };
        let bytes = plan.encode();
        assert_eq!(Plan::decode(&bytes), Some(plan));
        for cut in 0..bytes.len() {
            assert_eq!(Plan::decode(&bytes[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn messages_arrive_whole_however_the_stream_is_cut() {
        let mut answers = Vec::new();
        for answer in every_answer() {
            answer.encode(&mut answers);
        }
        // A kind that a later version may add.
        message(&mut answers, b'?', b"news");
        let mut commands = Vec::new();
        for command in every_command() {
            command.encode(&mut commands);
        }
        for size in [1, 2, 7, 4096] {
            let mut inbox = Inbox::default();
            let mut read = Vec::new();
            for piece in answers.chunks(size) {
                inbox.push(piece);
                while let Some(answer) = inbox.next_from_supervisor().unwrap() {
                    read.push(answer);
                }
            }
            assert_eq!(read, every_answer());
            let mut inbox = Inbox::default();
            let mut read = Vec::new();
            for piece in commands.chunks(size) {
                inbox.push(piece);
                while let Some(command) = inbox.next_to_supervisor().unwrap() {
                    read.push(command);
                }
            }
            assert_eq!(read, every_command());
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            Order::decode(&bytes);
            Sweep::decode(&bytes);
            Plan::decode(&bytes);
            let mut inbox = Inbox::default();
            inbox.push(&bytes);
            while let Ok(Some(_)) = inbox.next_from_supervisor() {}
        }
    }
}
