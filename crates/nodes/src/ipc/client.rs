//! The side that asks a UI that another process hosts (`docs/spec/ipc.md#8-beyond-the-product`).
//!
//! Before a byte is sent, the socket, its directory and the listener's account are looked at; then version 2 is tried,
//! and the plain form once for a peer that does not know it. A peer that answers without knowing the token is an
//! impostor, and nothing more is said to it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use countersign_domain::{ApprovalDecision, Secret, hex};
use countersign_protocol::ipc::{
    self, Challenge, Expected, HandshakeError, Hello, LineReader, MAX_LINE_BYTES, MAX_REPLY_BYTES,
    OutgoingQuestion, Read,
};
use countersign_sys::{
    clock::{Clock, Ids},
    peer as sys_peer,
};

use super::{
    peer::{self, Incoming},
    socket_file::{self, SocketFileError},
};

/// How long a peer may take for its challenge. One of ours answers at once.
const CHALLENGE_TIME: Duration = Duration::from_secs(5);
const BLOCK: usize = 16 * 1024;

/// Where the UI is, and what both sides know.
#[derive(Debug, Clone)]
pub(crate) struct ClientOptions {
    /// Absolute path of the socket that the other process hosts.
    pub(crate) path: PathBuf,
    /// The token of the document.
    pub(crate) token: Secret,
    /// The plain form is never used.
    pub(crate) require_v2: bool,
}

/// Why nobody is there to be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    /// The socket is none that may be used.
    #[error(transparent)]
    Place(#[from] SocketFileError),
    /// The socket file is there, but the connection failed: usually its host is gone.
    #[error("nobody answers at the approvals socket")]
    Connect(#[source] io::Error),
    /// The listener runs as another user id than this process; nothing was sent to it.
    #[error("another account listens at the approvals socket")]
    ForeignListener,
    /// The listener does not know the token.
    #[error("the program that answers at the approvals socket does not know its token")]
    Impostor,
    /// It knows the plain form only, and that is not used here.
    #[error("the program that answers at the approvals socket does not know version 2")]
    PlainOnly,
    /// It did not answer the opening in time, and the plain form is not used here.
    #[error("the program that listens at the approvals socket does not answer")]
    Silent,
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskOutcome {
    /// The first valid reply: an allow under our id, or any deny.
    Decided(ApprovalDecision),
    /// The peer went away, or sent nothing that counts.
    NoAnswer,
}

/// A way to a UI.
#[derive(Debug)]
pub(crate) struct Client {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// Device and inode of a socket whose host knows the plain form only.
    plain_only: Mutex<Option<(u64, u64)>>,
}

/// A UI that is there, for one line.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    reader: LineReader,
    form: Form,
    token: Secret,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// How it is spoken with.
#[derive(Debug)]
enum Form {
    Plain,
    /// Version 2, after its challenge.
    Proven(Challenge),
    /// Not at all: this came for the opening, and more may follow.
    Refused(Vec<u8>),
}

impl Client {
    /// A client that knows no peer yet.
    pub(crate) const fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            clock,
            ids,
            plain_only: Mutex::new(None),
        }
    }

    /// Finds out whether a UI is there that knows the token, or at least may.
    ///
    /// # Errors
    /// [`Unreachable`] says why none is; the token was not sent to anybody then.
    pub(crate) async fn connect(&self, options: &ClientOptions) -> Result<Connection, Unreachable> {
        let socket = socket_file::inspect(&options.path)?;
        if !options.require_v2 && self.is_plain_only(socket) {
            return self.plain(options).await;
        }
        let mut stream = connect(&options.path).await?;
        let mut reader = LineReader::default();
        let hello = Hello::new(self.ids.random().to_string(), self.nonce());
        let answer = match peer::write(
            &mut stream,
            format!("{}\n", hello.line(self.clock.wall())).as_bytes(),
        )
        .await
        {
            Ok(()) => peer::read_line(&mut stream, &mut reader, CHALLENGE_TIME).await,
            Err(_closed) => Incoming::Closed,
        };
        match answer {
            Incoming::Line(line) => match Challenge::parse(&line, hello, options.token.expose()) {
                Ok(challenge) => Ok(self.connection(stream, reader, Form::Proven(challenge), options)),
                Err(HandshakeError::Impostor) => Err(Unreachable::Impostor),
                // One that is too busy, or has no token, says so, and that is an answer.
                Err(HandshakeError::NotKnown) => {
                    Ok(self.connection(stream, reader, Form::Refused(line), options))
                }
            },
            Incoming::Closed if options.require_v2 => Err(Unreachable::PlainOnly),
            // So does a host of the product, which knows the plain form only.
            Incoming::Closed => {
                *self.plain_only.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
                self.plain(options).await
            }
            // One that is slow may know version 2 the next time. An old app reads only when the stream ends.
            Incoming::Silence | Incoming::Unfinished | Incoming::TooLong if options.require_v2 => {
                Err(Unreachable::Silent)
            }
            Incoming::Silence | Incoming::Unfinished | Incoming::TooLong => self.plain(options).await,
        }
    }

    async fn plain(&self, options: &ClientOptions) -> Result<Connection, Unreachable> {
        let stream = connect(&options.path).await?;
        Ok(self.connection(stream, LineReader::default(), Form::Plain, options))
    }

    fn is_plain_only(&self, socket: (u64, u64)) -> bool {
        *self.plain_only.lock().unwrap_or_else(PoisonError::into_inner) == Some(socket)
    }

    fn connection(
        &self,
        stream: UnixStream,
        reader: LineReader,
        form: Form,
        options: &ClientOptions,
    ) -> Connection {
        Connection {
            stream,
            reader,
            form,
            token: options.token.clone(),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
        }
    }

    fn nonce(&self) -> String {
        nonce(&*self.ids)
    }
}

fn nonce(ids: &dyn Ids) -> String {
    let mut bytes = [0; 16];
    ids.secret_bytes(&mut bytes);
    hex(&bytes)
}

/// Connects to a listener of our own account.
async fn connect(path: &Path) -> Result<UnixStream, Unreachable> {
    let stream = UnixStream::connect(path).await.map_err(Unreachable::Connect)?;
    if sys_peer::is_of(&stream, rustix::process::geteuid().as_raw()) {
        Ok(stream)
    } else {
        Err(Unreachable::ForeignListener)
    }
}

impl Connection {
    /// Asks, and waits for as long as the person takes.
    ///
    /// # Cancel safety
    /// Dropping it withdraws the question: the peer sees the connection end.
    pub(crate) async fn ask(mut self, question: &OutgoingQuestion) -> AskOutcome {
        let id = self.ids.random().to_string();
        let token = self.token.expose();
        let line = match &self.form {
            Form::Proven(challenge) => {
                Some(challenge.request_line(&id, self.clock.wall(), &question.to_json(), token))
            }
            Form::Plain => Some(ipc::plain_request_line(&id, question, token)),
            Form::Refused(_) => None,
        };
        let expected = self.expected(id);
        if let Some(line) = line {
            // Who cannot be asked about all of it is not asked.
            if line.len() > MAX_LINE_BYTES || self.send(&line).await.is_err() {
                return AskOutcome::NoAnswer;
            }
        }
        self.first(|line| expected.decision(line))
            .await
            .map_or(AskOutcome::NoAnswer, AskOutcome::Decided)
    }

    fn expected(&self, id: String) -> Expected {
        match &self.form {
            Form::Proven(challenge) => challenge.expected(id, self.token.expose().to_owned()),
            Form::Plain | Form::Refused(_) => Expected::plain(id),
        }
    }

    /// One line, and then nothing more: some hosts begin to read only when the stream ends.
    async fn send(&mut self, line: &str) -> io::Result<()> {
        peer::write(&mut self.stream, format!("{line}\n").as_bytes()).await?;
        self.stream.shutdown().await
    }

    /// The first line that counts, of as many as fit.
    async fn first<T>(&mut self, counts: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        if let Form::Refused(line) = &self.form
            && let Some(answer) = counts(line)
        {
            return Some(answer);
        }
        // They may have come together with what was read first.
        while let Read::Line(line) = self.reader.next_line() {
            if let Some(answer) = counts(&line) {
                return Some(answer);
            }
        }
        let mut block = vec![0; BLOCK];
        let mut total = 0;
        loop {
            let count = self.stream.read(&mut block).await.ok()?;
            if count == 0 {
                return counts(&self.reader.finish());
            }
            total += count;
            if total > MAX_REPLY_BYTES {
                return None;
            }
            let lines = self.reader.lines(block.get(..count).unwrap_or_default());
            if let Some(answer) = lines.iter().find_map(|line| counts(line)) {
                return Some(answer);
            }
        }
    }
}
