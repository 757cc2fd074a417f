//! What server and supervisors say to each other. Pure: bytes to values and back.
//!
//! A start is one frame on the shared `SEQPACKET` pair, with descriptors beside it. After that, server and
//! supervisor talk over the run's own stream: `[kind: u8][length: u32, little endian][body]`. Both ends are the
//! same program, but after an update a supervisor may be older than the server that attaches to it, so kinds are
//! only ever added, and an unknown kind is skipped.

use crate::domain::{Exit, KillCause, LaunchId, OutputStream, RunId};

use super::limits::MAX_MESSAGE_BYTES;

/// First byte of a start frame. A supervisor of another version refuses it.
pub(crate) const VERSION: u8 = 2;

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
    pub(crate) has_executable: bool,
    /// Runs in the prepared namespaces; a supervisor that has none starts nothing.
    pub(crate) confined: bool,
    /// 0 is none.
    pub(crate) timeout_ms: u64,
    /// From `SIGTERM` to `SIGKILL`; 0 kills straight away.
    pub(crate) kill_grace_ms: u32,
    /// How long leftovers may go on writing.
    pub(crate) leftovers_grace_ms: u32,
    pub(crate) max_run_bytes: u64,
    /// What is to be executed; `None` when it comes in a memory file.
    pub(crate) plan: Option<Vec<u8>>,
}

/// The program, its arguments, its environment and where it runs.
#[derive(PartialEq, Eq)]
pub(crate) struct Plan {
    /// Path of the working directory, ending with NUL. It is opened again inside the namespaces and must be the
    /// directory that came as a descriptor.
    pub(crate) directory: Vec<u8>,
    /// Path, ending with NUL.
    pub(crate) program: Vec<u8>,
    /// Each ending with NUL.
    pub(crate) arguments: Vec<u8>,
    /// Each ending with NUL.
    pub(crate) environment: Vec<u8>,
}

const OUTLIVES_SERVER: u8 = 1;
const KEEPS_LEFTOVERS: u8 = 2;
const STDIN_OPEN: u8 = 4;
const HAS_EXECUTABLE: u8 = 8;
const PLAN_INSIDE: u8 = 16;
const CONFINED: u8 = 32;

impl Order {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self {
            run_id,
            launch_id,
            outlives_server,
            keeps_leftovers,
            stdin_open,
            has_executable,
            confined,
            timeout_ms,
            kill_grace_ms,
            leftovers_grace_ms,
            max_run_bytes,
            plan,
        } = self;
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(*outlives_server, OUTLIVES_SERVER)
            | flag(*keeps_leftovers, KEEPS_LEFTOVERS)
            | flag(*stdin_open, STDIN_OPEN)
            | flag(*has_executable, HAS_EXECUTABLE)
            | flag(*confined, CONFINED)
            | flag(plan.is_some(), PLAN_INSIDE);
        let plan = plan.as_deref().unwrap_or_default();
        let mut frame = Vec::with_capacity(192 + plan.len());
        frame.extend([VERSION, flags]);
        frame.extend(timeout_ms.to_le_bytes());
        frame.extend(kill_grace_ms.to_le_bytes());
        frame.extend(leftovers_grace_ms.to_le_bytes());
        frame.extend(max_run_bytes.to_le_bytes());
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
        let timeout_ms = reader.u64()?;
        let kill_grace_ms = reader.u32()?;
        let leftovers_grace_ms = reader.u32()?;
        let max_run_bytes = reader.u64()?;
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
            has_executable: flags & HAS_EXECUTABLE != 0,
            confined: flags & CONFINED != 0,
            timeout_ms,
            kill_grace_ms,
            leftovers_grace_ms,
            max_run_bytes,
            plan: has_plan.then(|| reader.0.to_vec()),
        })
    }
}

impl Plan {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let parts = [&self.directory, &self.program, &self.arguments, &self.environment];
        let mut bytes = Vec::with_capacity(16 + parts.iter().map(|part| part.len()).sum::<usize>());
        for part in parts {
            bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(part);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let directory = reader.long_bytes()?.to_vec();
        let program = reader.long_bytes()?.to_vec();
        let arguments = reader.long_bytes()?.to_vec();
        let environment = reader.long_bytes()?.to_vec();
        (reader.0.is_empty() && !arguments.is_empty()).then_some(Self {
            directory,
            program,
            arguments,
            environment,
        })
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
}

impl ToSupervisor {
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Self::Kill(cause) => message(into, b'K', &[cause_byte(*cause)]),
            Self::Background => message(into, b'B', &[]),
            Self::Input(bytes) => message(into, b'W', bytes),
            Self::EndOfInput => message(into, b'E', &[]),
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
                _ => return None,
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
    let exit = Exit {
        code,
        signal,
        spawn_errno,
        killed,
        leftovers_killed,
        output_bytes,
        kept_bytes,
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

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn short_text(&mut self) -> Option<&'a str> {
        let length = self.byte()?;
        std::str::from_utf8(self.bytes(length.into())?).ok()
    }

    fn long_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(plan: Option<Vec<u8>>) -> Order {
        Order {
            run_id: RunId::parse("run-1").unwrap(),
            launch_id: LaunchId::parse("launch-1").unwrap(),
            outlives_server: true,
            keeps_leftovers: false,
            stdin_open: true,
            has_executable: false,
            confined: true,
            timeout_ms: 1 << 40,
            kill_grace_ms: 2000,
            leftovers_grace_ms: 500,
            max_run_bytes: u64::MAX,
            plan,
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
    fn a_plan_is_read_back() {
        let plan = Plan {
            directory: b"/d\0".to_vec(),
            program: b"/bin/x\0".to_vec(),
            arguments: b"x\0\0".to_vec(),
            environment: vec![],
        };
        let bytes = plan.encode();
        assert!(Plan::decode(&bytes) == Some(plan));
        assert!(Plan::decode(&bytes[..bytes.len() - 1]).is_none());
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
            Plan::decode(&bytes);
            let mut inbox = Inbox::default();
            inbox.push(&bytes);
            while let Ok(Some(_)) = inbox.next_from_supervisor() {}
        }
    }
}
