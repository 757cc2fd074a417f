//! What server and supervisor say to each other while a run goes on: `[kind: u8][length: u32, little endian][body]`.

use std::{fmt, io};

use countersign_domain::{Exit, KillCause, LimitReport, OutputStream, TerminalSize};
use countersign_protocol::terminal::CursorKeys;

use super::bytes::{Reader, size_bytes};

use crate::{enclose::Obstacle, limits::MAX_MESSAGE_BYTES};

/// What the server tells a supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToSupervisor {
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
    /// Whether its terminal shows what is typed is to be told.
    AskEcho,
    /// The outcome and the inline output are stored: nothing of it is needed any more.
    Stored,
}

/// What a supervisor tells the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromSupervisor {
    /// The first process runs.
    Started {
        /// Its process id, as the server's machine numbers it.
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
    /// Whether its terminal shows what is typed, at the moment when that was asked; a run without one shows nothing.
    Echo(bool),
    /// This much output is in the spool already; what follows was written after it. First word to a new server.
    Attached {
        /// Bytes of both streams in the spool.
        kept_bytes: u64,
        /// Bytes of both streams seen.
        output_bytes: u64,
    },
    /// The run ended. Unless `leftovers_run`, nothing follows.
    Exited {
        /// What the run file says of the end.
        exit: Exit,
        /// Whether the spool holds its output; otherwise all of it was sent.
        is_spooled: bool,
        /// Whether processes that it left go on running.
        leftovers_run: bool,
    },
    /// The last of what a run left running ended.
    LeftoversEnded,
    /// Nothing was started, and nothing follows.
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
    /// Appends the message to what is to be sent.
    pub fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Self::Kill(cause) => message(into, b'K', &[cause_byte(*cause)]),
            Self::Background => message(into, b'B', &[]),
            Self::Input(bytes) => message(into, b'W', bytes),
            Self::EndOfInput => message(into, b'E', &[]),
            Self::Resize(size) => message(into, b'Z', &size_bytes(*size)),
            Self::AskEcho => message(into, b'Q', &[]),
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
            b'Q' => Self::AskEcho,
            b'A' => Self::Stored,
            _ => return None,
        })
    }
}

impl FromSupervisor {
    /// Appends the message to what is to be sent.
    pub fn encode(&self, into: &mut Vec<u8>) {
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
            Self::Echo(shows) => message(into, b'Q', &[u8::from(*shows)]),
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
            b'Q' => Self::Echo(match reader.byte()? {
                0 => false,
                1 => true,
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
        KillCause::Stopped => 4,
    }
}

const fn cause_of(byte: u8) -> Option<KillCause> {
    match byte {
        1 => Some(KillCause::Timeout),
        2 => Some(KillCause::Cancelled),
        3 => Some(KillCause::Shutdown),
        4 => Some(KillCause::Stopped),
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

pub(super) fn message(into: &mut Vec<u8>, kind: u8, body: &[u8]) {
    into.push(kind);
    into.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend(body);
}

/// Bytes that arrived and are not a whole message yet.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
}

/// The other end does not speak this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message is longer than any can be")]
pub struct MessageTooLong;

impl Inbox {
    /// Appends what was read; a message may come in pieces.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken > MAX_MESSAGE_BYTES {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message to a supervisor, if one is there.
    ///
    /// # Errors
    /// [`MessageTooLong`]; nothing is read from this stream any more.
    pub fn next_to_supervisor(&mut self) -> Result<Option<ToSupervisor>, MessageTooLong> {
        self.next_message(ToSupervisor::decode)
    }

    /// The next whole message of a supervisor, if one is there.
    ///
    /// # Errors
    /// [`MessageTooLong`]; nothing is read from this stream any more.
    pub fn next_from_supervisor(&mut self) -> Result<Option<FromSupervisor>, MessageTooLong> {
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
