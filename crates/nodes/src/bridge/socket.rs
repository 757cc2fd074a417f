//! One WebSocket: texts in, texts out.
//!
//! Before a peer has proved anything it may send little: the reader of frames sets aside room for as much as a frame
//! says that it is long. So there are two readers, one after the other, and what the first has taken too much of is
//! found again on the tape of what it read.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Buf as _;
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::{CapacityError, ProtocolError},
        protocol::{
            CloseFrame, Role, WebSocketConfig,
            frame::{FrameHeader, coding::OpCode},
        },
    },
};

use countersign_protocol::bridge::{Close, MAX_FRAME_BEFORE_HELLO, POLICY, TOO_BIG};

/// Most bytes that are read before `connect` was: its frame, and some pings.
const MAX_TAPE: usize = MAX_FRAME_BEFORE_HELLO + 4096;
/// Room for reading; many nodes are connected and say little.
const READ_BUFFER: usize = 8192;
/// Close code: a message is no text.
const UNSUPPORTED: u16 = 1003;
/// Close code: a text is not UTF-8.
const NOT_UTF8: u16 = 1007;
/// Close code: the peer does not keep to the protocol of web sockets.
const BROKEN: u16 = 1002;

/// What a peer sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    Text(String),
    /// A ping or pong: it lives.
    Sign,
    /// It has closed, or is gone.
    Gone,
    /// Something that ends the connection.
    Refused(Close),
}

/// A connection whose peer has proved nothing yet.
#[derive(Debug)]
pub(super) struct Unproven<S> {
    stream: WebSocketStream<Taped<S>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Unproven<S> {
    pub(super) async fn begin(stream: S) -> Self {
        let taped = Taped {
            inner: stream,
            tape: Vec::new(),
        };
        let config = config(MAX_FRAME_BEFORE_HELLO);
        Self {
            stream: WebSocketStream::from_raw_socket(taped, Role::Server, Some(config)).await,
        }
    }

    pub(super) async fn receive(&mut self) -> Received {
        received(self.stream.next().await)
    }

    /// Sends a text; `false` when nobody is there.
    pub(super) async fn send(&mut self, text: String) -> bool {
        self.stream.send(Message::text(text)).await.is_ok()
    }

    /// Closes, and reads until the peer has closed, too.
    pub(super) async fn close(mut self, close: Close) {
        let frame = close_frame(close);
        if self.stream.close(Some(frame)).await.is_ok() {
            while let Some(Ok(_ignored)) = self.stream.next().await {}
        }
    }

    /// The same connection with more room, once the first text has been taken.
    pub(super) async fn proven(self, longest: usize) -> (Sender<S>, Receiver<S>) {
        let Taped { inner, tape } = self.stream.into_inner();
        let rest = after_first_message(&tape).to_vec();
        let config = config(longest);
        let stream = WebSocketStream::from_partially_read(inner, rest, Role::Server, Some(config)).await;
        let (sink, stream) = stream.split();
        (Sender(sink), Receiver(stream))
    }
}

#[derive(Debug)]
pub(super) struct Sender<S>(SplitSink<WebSocketStream<S>, Message>);

impl<S: AsyncRead + AsyncWrite + Unpin> Sender<S> {
    /// Sends a text; `false` when nobody is there.
    pub(super) async fn text(&mut self, text: String) -> bool {
        self.0.send(Message::text(text)).await.is_ok()
    }

    /// Asks whether the peer lives; `false` when nobody is there.
    pub(super) async fn ping(&mut self) -> bool {
        self.0.send(Message::Ping(Vec::new().into())).await.is_ok()
    }

    pub(super) async fn close(&mut self, close: Close) -> bool {
        self.0
            .send(Message::Close(Some(close_frame(close))))
            .await
            .is_ok()
    }
}

#[derive(Debug)]
pub(super) struct Receiver<S>(SplitStream<WebSocketStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> Receiver<S> {
    /// The next thing that the peer sends.
    ///
    /// # Cancel safety
    /// Nothing is lost: a message that has not come whole stays in the stream.
    pub(super) async fn receive(&mut self) -> Received {
        received(self.0.next().await)
    }
}

fn received(next: Option<Result<Message, Error>>) -> Received {
    match next {
        None | Some(Ok(Message::Close(_))) => Received::Gone,
        Some(Ok(Message::Text(text))) => Received::Text(text.as_str().to_owned()),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Received::Sign,
        Some(Ok(Message::Binary(_))) => Received::Refused(Close::new(UNSUPPORTED, "text frames only")),
        Some(Err(error)) => match error {
            Error::Capacity(CapacityError::MessageTooLong { .. } | CapacityError::TooManyHeaders) => {
                Received::Refused(Close::new(TOO_BIG, "frame too long"))
            }
            Error::Utf8(_) => Received::Refused(Close::new(NOT_UTF8, "not UTF-8")),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)
            | Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Io(_)
            | Error::Tls(_) => Received::Gone,
            Error::Protocol(_) | Error::WriteBufferFull(_) | Error::AttackAttempt => {
                Received::Refused(Close::new(BROKEN, "not the WebSocket protocol"))
            }
            Error::Url(_) | Error::Http(_) | Error::HttpFormat(_) => {
                Received::Refused(Close::new(POLICY, "not the WebSocket protocol"))
            }
        },
    }
}

fn close_frame(close: Close) -> CloseFrame {
    CloseFrame {
        code: close.code.into(),
        reason: close.reason.into(),
    }
}

/// No compression is ever agreed on: what is read is as long as what was sent.
fn config(longest: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(longest))
        .max_frame_size(Some(longest))
}

/// What was read after the first message of a tape. The caller has taken that message, so the tape holds it whole.
fn after_first_message(tape: &[u8]) -> &[u8] {
    let mut rest = tape;
    loop {
        let mut cursor = io::Cursor::new(rest);
        let Ok(Some((header, length))) = FrameHeader::parse(&mut cursor) else {
            return &[];
        };
        let end = usize::try_from(cursor.position().saturating_add(length)).unwrap_or(usize::MAX);
        rest.advance(end.min(rest.len()));
        if header.is_final && matches!(header.opcode, OpCode::Data(_)) {
            return rest;
        }
    }
}

/// A stream that remembers what was read of it, and takes no more than a little.
#[derive(Debug)]
struct Taped<S> {
    inner: S,
    tape: Vec<u8>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Taped<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let room = MAX_TAPE.saturating_sub(this.tape.len()).min(buffer.remaining());
        if room == 0 {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        ready!(Pin::new(&mut this.inner).poll_read(context, &mut part))?;
        let read = part.filled();
        this.tape.extend_from_slice(read);
        let read = read.len();
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Taped<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}
