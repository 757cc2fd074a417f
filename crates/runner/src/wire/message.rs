//! What server and supervisor say to each other while a run goes on: `[length: u32, little endian][message]`. A message
//! begins with its kind, the place of its variant here.

use std::{fmt, io};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use countersign_domain::{Exit, KillCause, OutputStream, TerminalSize};
use countersign_protocol::terminal::CursorKeys;

use super::bytes;

use crate::{enclose::Obstacle, limits::MAX_MESSAGE_BYTES};

/// What the server tells a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// Kill the whole tree.
    Kill(KillCause),
    /// Go on if the server dies or lets go.
    Background,
    /// More for the command's input.
    Input(#[serde(with = "serde_bytes")] Vec<u8>),
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromSupervisor {
    /// Output, in order of arrival.
    Output(OutputStream, #[serde(with = "serde_bytes")] Vec<u8>),
    /// The first process runs.
    Started {
        /// Its process id, as the server's machine numbers it.
        pid: i32,
        /// When it started, in clock ticks since boot.
        start_time: u64,
    },
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
    /// What programs with limits on their starts asked for until the run ended, before [`Self::Exited`].
    Observed {
        /// Each program once for each ruleset.
        starts: Vec<SeenStart>,
        /// Whether there were more.
        more: bool,
    },
}

/// A program that one of the run was seen to start, or to try to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenStart {
    /// The ruleset of the program that asked for it.
    pub ruleset: u8,
    /// Device number of its file.
    pub dev: u64,
    /// Inode number on that device.
    pub ino: u64,
    /// Its real path, cut where it is too long to be told.
    pub path: String,
}

/// Why a supervisor started nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
        message(into, self);
    }
}

impl FromSupervisor {
    /// Appends the message to what is to be sent.
    pub fn encode(&self, into: &mut Vec<u8>) {
        message(into, self);
    }
}

/// Encodes [`FromSupervisor::Output`] without a copy of its own.
pub(crate) fn encode_output(into: &mut Vec<u8>, stream: OutputStream, bytes: &[u8]) {
    /// The kind of it.
    const OUTPUT: u32 = 0;
    /// Longest kind, stream and length of the bytes.
    const HEAD_BYTES: usize = 8;
    for piece in bytes.chunks(MAX_MESSAGE_BYTES - HEAD_BYTES) {
        message(into, &(OUTPUT, stream, serde_bytes::Bytes::new(piece)));
    }
}

pub(super) fn message(into: &mut Vec<u8>, value: &impl Serialize) {
    let start = into.len();
    into.extend([0; LENGTH_BYTES]);
    *into = bytes::append(std::mem::take(into), value);
    if let Some((length, body)) = into.get_mut(start..).and_then(<[u8]>::split_first_chunk_mut) {
        *length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
    }
}

const LENGTH_BYTES: usize = size_of::<u32>();

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
        self.next_message()
    }

    /// The next whole message of a supervisor, if one is there.
    ///
    /// # Errors
    /// [`MessageTooLong`]; nothing is read from this stream any more.
    pub fn next_from_supervisor(&mut self) -> Result<Option<FromSupervisor>, MessageTooLong> {
        self.next_message()
    }

    /// The next message of a known kind; `None` until more arrives.
    fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, MessageTooLong> {
        while let Some((length, rest)) = self.bytes.get(self.taken..).and_then(<[u8]>::split_first_chunk) {
            let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_too_large| MessageTooLong)?;
            if length > MAX_MESSAGE_BYTES {
                return Err(MessageTooLong);
            }
            let Some(body) = rest.get(..length) else { break };
            let read = bytes::read(body);
            self.taken += LENGTH_BYTES + length;
            if read.is_some() {
                return Ok(read);
            }
        }
        Ok(None)
    }
}
