//! Attaches the terminal of this process to a run on a terminal of its own: keys and sizes go there, the screen comes here.
//!
//! This terminal is raw meanwhile, and must be put back as it was however this ends. The routes are those of
//! `docs/process.md`; `cli/exec.rs` decides when a run gets a terminal.

use std::{
    fs::OpenOptions,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::future::{Fuse, FusedFuture as _, FutureExt as _};
use rustix::{
    fs::OFlags,
    termios::{OptionalActions, Termios},
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use countersign_domain::MAX_INPUT_BYTES;
use countersign_sys::readiness;
use countersign_wire::process::StreamedOutput;

use super::{
    client::{Client, Query, SERVER_RETURN},
    context::Context,
    failure::Failure,
    sse::EventStream,
};

/// Most bytes that one reading of the terminal takes.
const PIECE: usize = 4096;
/// Pause before a server that went away is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Connects the terminal of this process to a run that has a session, until that has ended.
///
/// # Errors
/// When there is no terminal, or the server does not come back.
pub(super) async fn connect(
    context: &Context,
    client: &Client,
    session: &str,
    agent: &str,
) -> Result<Served, Failure> {
    let attached = AttachedSession {
        context,
        client,
        session,
        agent,
    };
    let terminal = RawTerminal::open()?;
    let served = attached.serve(&terminal).await;
    // Before anything is said here again.
    drop(terminal);
    served
}

/// How serving a terminal came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// The session has ended.
    Ended,
    /// The terminal is gone, or this process is to end.
    Terminated,
}

/// A session, and who looks after it.
#[derive(Debug)]
struct AttachedSession<'a> {
    context: &'a Context,
    client: &'a Client,
    session: &'a str,
    agent: &'a str,
}

impl AttachedSession<'_> {
    async fn serve(&self, terminal: &RawTerminal) -> Result<Served, Failure> {
        let mut resized = signal(SignalKind::window_change())?;
        let (mut ended, mut hung_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let mut stream = self.open(None).await?;
        let mut shown: Option<String> = None;
        let mut typing = Typing::default();
        self.resize(terminal).await?;
        // One after the other, so that what is typed arrives in its order, and each to its end, so that it arrives once.
        let sending = Fuse::terminated();
        tokio::pin!(sending);
        loop {
            if sending.is_terminated() && !typing.is_empty() {
                sending.set(self.send(typing.take()).fuse());
            }
            tokio::select! {
                event = stream.next() => match event? {
                    None => stream = self.reopen(shown.as_deref()).await?,
                    Some(event) if event.event == "end" => return Ok(Served::Ended),
                    Some(event) => {
                        shown = Some(event.id);
                        self.show(&event.data)?;
                    }
                },
                typed = terminal.read(), if typing.has_room() => match typed? {
                    Some(bytes) => typing.0.extend(bytes),
                    None => return Ok(Served::Terminated),
                },
                sent = &mut sending => sent?,
                _size = resized.recv() => self.resize(terminal).await?,
                _signal = ended.recv() => return Ok(Served::Terminated),
                _signal = hung_up.recv() => return Ok(Served::Terminated),
            }
        }
    }

    fn show(&self, data: &str) -> Result<(), Failure> {
        let StreamedOutput { base64, .. } = countersign_wire::parse(data.as_bytes())
            .map_err(|error| Failure::new("unexpected-answer", error.to_string()))?;
        let bytes = BASE64_STANDARD
            .decode(base64.unwrap_or_default())
            .map_err(|error| Failure::new("unexpected-answer", error.to_string()))?;
        self.context.console.raw_out(&bytes)
    }

    async fn call(&self, action: &str, members: Value) -> Result<(), Failure> {
        let mut body = json!({ "action": action, "sessionId": self.session, "agentId": self.agent });
        if let (Some(body), Value::Object(members)) = (body.as_object_mut(), members) {
            body.extend(members);
        }
        match self
            .client
            .post_patiently::<IgnoredAny>(&["v1", "process"], &body)
            .await
        {
            // It ended meanwhile, or the server is gone; the stream says so.
            Err(failure) if failure.code == "session-ended" || failure.is_no_connection() => Ok(()),
            other => other.map(drop),
        }
    }

    async fn send(&self, typed: Vec<u8>) -> Result<(), Failure> {
        match String::from_utf8(typed) {
            Ok(text) => self.call("write", json!({ "data": text })).await,
            // What is no text can be sent byte by byte.
            Err(bytes) => {
                let hex: Vec<String> = bytes
                    .as_bytes()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                self.call("send-keys", json!({ "hex": hex })).await
            }
        }
    }

    async fn resize(&self, terminal: &RawTerminal) -> Result<(), Failure> {
        match terminal.size() {
            Some((rows, cols)) => self.call("resize", json!({ "rows": rows, "cols": cols })).await,
            None => Ok(()),
        }
    }

    async fn open(&self, after: Option<&str>) -> Result<EventStream, Failure> {
        let query: Query = vec![
            ("agentId", self.agent.to_owned()),
            ("encoding", "base64".to_owned()),
        ];
        self.client
            .stream(&["v1", "process", self.session, "stream"], &query, after)
            .await
    }

    /// Opens the stream again where it broke off, once the server is back.
    async fn reopen(&self, after: Option<&str>) -> Result<EventStream, Failure> {
        let mut waited = Duration::ZERO;
        loop {
            match self.open(after).await {
                Err(failure) if failure.is_no_connection() && waited < SERVER_RETURN => {
                    waited += PAUSE;
                    sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }
}

/// What was typed and is not on its way yet.
#[derive(Debug, Default)]
struct Typing(Vec<u8>);

impl Typing {
    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Not more than one call takes: a person who types more waits.
    const fn has_room(&self) -> bool {
        self.0.len() < MAX_INPUT_BYTES / 2
    }

    /// Takes what is sent now. A character whose end was not typed yet waits for it, if there is anything before it.
    fn take(&mut self) -> Vec<u8> {
        let whole = match std::str::from_utf8(&self.0) {
            Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
            Ok(_) | Err(_) => self.0.len(),
        };
        let rest = self.0.split_off(whole);
        std::mem::replace(&mut self.0, rest)
    }
}

/// The controlling terminal, without any meaning of its own for what is typed, until it is dropped.
#[derive(Debug)]
struct RawTerminal {
    tty: AsyncFd<OwnedFd>,
    before: Termios,
}

impl RawTerminal {
    fn open() -> io::Result<Self> {
        // Opened anew: not to block is a state of the opening, and the standard streams share theirs with the shell.
        let nonblocking = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = i32::try_from(nonblocking.bits()).map_err(|_too_large| io::ErrorKind::InvalidInput)?;
        let tty = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open("/dev/tty")?;
        let before = rustix::termios::tcgetattr(&tty)?;
        let terminal = Self {
            tty: readiness::watch(OwnedFd::from(tty), Interest::READABLE)?,
            before: before.clone(),
        };
        let mut raw = before;
        raw.make_raw();
        // What was typed already is for the command.
        rustix::termios::tcsetattr(terminal.tty.get_ref(), OptionalActions::Now, &raw)?;
        Ok(terminal)
    }

    /// What was typed next; `None` when the terminal is gone.
    ///
    /// # Cancel safety
    /// Cancel safe: what was read is given at once.
    async fn read(&self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let mut ready = self.tty.readable().await?;
            let mut piece = [0; PIECE];
            let read = ready.try_io(|tty| Ok(rustix::io::read(tty.get_ref().as_fd(), &mut piece)?));
            match read {
                Ok(Ok(0)) => return Ok(None),
                Ok(Ok(read)) => return Ok(Some(piece.get(..read).unwrap_or_default().to_vec())),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // A terminal whose other end was closed.
                Ok(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                    return Ok(None);
                }
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }

    /// Rows and columns; `None` where the terminal does not know.
    fn size(&self) -> Option<(u16, u16)> {
        let size = rustix::termios::tcgetwinsize(self.tty.get_ref()).ok()?;
        (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // What was typed and not read was meant for the command, and must not reach a shell.
        let _gone = rustix::termios::tcsetattr(self.tty.get_ref(), OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_sent_whole_and_what_is_none_is_not_kept_back() {
        let mut typing = Typing(b"a\xc3".to_vec());
        assert_eq!(typing.take(), b"a");
        typing.0.push(0xbc);
        assert_eq!(typing.take(), "\u{fc}".as_bytes());
        assert!(typing.is_empty());
        // Nothing follows that would end it: it goes as it is.
        assert_eq!(Typing(b"\xc3".to_vec()).take(), b"\xc3");
        assert_eq!(Typing(b"\xff\x1b".to_vec()).take(), b"\xff\x1b");
    }

    #[test]
    fn whoever_types_faster_than_it_is_taken_waits() {
        assert!(Typing(vec![b'x'; 10]).has_room());
        assert!(!Typing(vec![b'x'; MAX_INPUT_BYTES]).has_room());
    }
}
