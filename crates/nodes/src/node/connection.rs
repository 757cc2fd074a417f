//! One connection: the handshake, and then all that comes until it ends.

use std::{sync::Arc, time::Duration};

use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};
use tokio_util::sync::CancellationToken;

use countersign_protocol::bridge::{
    CHALLENGE_EVENT, Challenge, Event, Frame, FrameError, HelloOk, INVOKE_CANCEL, INVOKE_REQUEST,
    OUR_CAPABILITY, PAIR_RESOLVED, Protocol, Request, Response, SHUTDOWN_EVENT, TICK_TIMEOUT, WireError,
};
use countersign_sys::clock::{Clock, Ids};

use super::{
    answer::{Dialect, Make},
    approach::{self, Credential, Introduction},
    host::Host,
    socket::{MAX_MESSAGE, Socket},
    uplink::{Link, Terms, Uplink},
};

/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// Most frames that are looked at before the one that is waited for.
const MAX_OTHERS: usize = 64;
/// How long one frame may take to be written.
const WRITE: Duration = Duration::from_secs(30);
/// Most frames in a row that are none before the connection is given up.
const MAX_UNREADABLE: u32 = 16;
/// How often a gateway ticks that does not say so.
const DEFAULT_TICK: Duration = Duration::from_secs(30);
/// What a gateway may say about that.
const TICKS: std::ops::RangeInclusive<Duration> = Duration::from_millis(250)..=Duration::from_mins(10);
/// The longest frame of a gateway that does not say so: the first generation's.
const DEFAULT_MAX_PAYLOAD: usize = 512 * 1024;

/// Why there is no connection, or none any more.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Ended {
    /// The gateway refused the `connect`.
    #[error("{}", .0.message)]
    Refused(WireError),
    /// It never said what is to be signed, or answered nothing.
    #[error("the gateway did not finish the handshake")]
    NoHandshake,
    /// It closed the connection.
    #[error("the gateway closed the connection ({code}{}{reason})", if .reason.is_empty() { "" } else { " " })]
    Closed { code: u16, reason: String },
    /// It said that it goes.
    #[error("the gateway shuts down")]
    Shutdown,
    /// Nothing came for two ticks.
    #[error("nothing was heard of the gateway for two ticks")]
    Silent,
    /// It sent what no gateway sends.
    #[error("the gateway sent what cannot be read")]
    Garbage,
    /// It takes nothing any more.
    #[error("the gateway takes nothing any more")]
    Stuck,
    #[error("the connection broke")]
    Broken,
    /// We are to stop.
    #[error("told to stop")]
    Stopped,
}

/// A handshake that succeeded.
#[derive(Debug)]
pub(super) struct Shaken {
    pub(super) hello: HelloOk,
    /// How far the gateway's clock is ahead of ours, in milliseconds, where it says its time.
    pub(super) clock_ahead_ms: Option<i64>,
    socket: Socket,
}

/// Who shakes hands, and how.
#[derive(Debug)]
pub(super) struct Greeting<'a> {
    pub(super) introduction: &'a Introduction<'a>,
    pub(super) credential: &'a Credential,
    pub(super) protocol: Protocol,
    pub(super) clock: &'a dyn Clock,
    pub(super) ids: &'a dyn Ids,
}

/// Answers the challenge, and waits for the hello.
pub(super) async fn shake_hands(socket: Socket, greeting: &Greeting<'_>) -> Result<Shaken, Ended> {
    timeout(HANDSHAKE, shake_hands_patiently(socket, greeting))
        .await
        .unwrap_or(Err(Ended::NoHandshake))
}

async fn shake_hands_patiently(mut socket: Socket, greeting: &Greeting<'_>) -> Result<Shaken, Ended> {
    let Greeting {
        introduction,
        credential,
        protocol,
        clock,
        ids,
    } = greeting;
    let challenge = wait_for(&mut socket, |frame| match frame {
        Frame::Event(Event {
            event,
            payload: Some(payload),
            ..
        }) if event == CHALLENGE_EVENT => Some(Challenge::parse(&payload)),
        Frame::Event(_) | Frame::Request(_) | Frame::Response(_) => None,
    })
    .await?
    .ok_or(Ended::Garbage)?;
    let now = clock.now().get();
    let params = approach::connect_params(introduction, credential, *protocol, &challenge, now);
    let id = ids.random().to_string();
    let connect: Frame = Request::new(id.clone(), "connect", params.to_value()).into();
    socket
        .send(Message::text(connect.to_text()))
        .await
        .map_err(|_broken| Ended::Broken)?;
    let response = wait_for(&mut socket, |frame| match frame {
        Frame::Response(response) if response.id == id => Some(response),
        Frame::Event(_) | Frame::Request(_) | Frame::Response(_) => None,
    })
    .await?;
    let Response {
        id: _,
        ok,
        payload,
        error,
    } = response;
    if !ok {
        let without_reason = || WireError::unavailable("the gateway refused without a reason");
        return Err(Ended::Refused(error.unwrap_or_else(without_reason)));
    }
    let hello = payload.as_ref().and_then(HelloOk::parse).ok_or(Ended::Garbage)?;
    Ok(Shaken {
        hello,
        clock_ahead_ms: challenge.ts.map(|ts| ts.saturating_sub(now)),
        socket,
    })
}

/// The first frame that is wanted.
async fn wait_for<T>(socket: &mut Socket, wanted: impl Fn(Frame) -> Option<T>) -> Result<T, Ended> {
    for _ in 0..MAX_OTHERS {
        match socket.next().await {
            None | Some(Err(_)) => return Err(Ended::Broken),
            Some(Ok(Message::Text(text))) => {
                if let Some(found) = Frame::parse(&text, MAX_MESSAGE).ok().and_then(&wanted) {
                    return Ok(found);
                }
            }
            Some(Ok(Message::Close(close))) => return Err(closed(close.as_ref())),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_) | Message::Frame(_))) => return Err(Ended::Garbage),
        }
    }
    Err(Ended::Garbage)
}

/// Serves the gateway until the connection ends.
pub(super) async fn serve(
    shaken: Shaken,
    host: &Arc<Host>,
    uplink: &Uplink,
    ids: Arc<dyn Ids>,
    stop: &CancellationToken,
) -> Ended {
    let Shaken {
        hello,
        clock_ahead_ms,
        socket,
    } = shaken;
    let terms = Terms {
        dialect: if hello.protocol <= Protocol::Three.number() {
            Dialect::First
        } else {
            Dialect::Present
        },
        make: if hello.capabilities.iter().any(|word| word == OUR_CAPABILITY) {
            Make::Ours
        } else {
            Make::Other
        },
        max_payload: usize::try_from(hello.max_payload)
            .ok()
            .filter(|most| *most > 0)
            .unwrap_or(DEFAULT_MAX_PAYLOAD),
        clock_ahead_ms: clock_ahead_ms.unwrap_or(0),
    };
    let tick = u64::try_from(hello.tick_interval_ms)
        .ok()
        .filter(|tick| *tick > 0)
        .map_or(DEFAULT_TICK, Duration::from_millis)
        .clamp(*TICKS.start(), *TICKS.end());
    let (link, outgoing) = Link::new(ids, terms);
    let (sink, stream) = socket.split();
    let mut reader = Reader {
        stream,
        link: Arc::clone(&link),
        host,
        unreadable: 0,
    };
    // A task of its own: a gateway that takes nothing must not keep us from hearing it.
    let finished = CancellationToken::new();
    let mut writer = tokio::spawn(write(sink, outgoing, finished.clone()));
    uplink.up(link);
    let ended = tokio::select! {
        ended = reader.read(tick * 2) => ended,
        _broken = &mut writer => Ended::Stuck,
        () = stop.cancelled() => Ended::Stopped,
    };
    uplink.down();
    // Once it is told to end it may have ended already.
    let is_broken = writer.is_finished();
    finished.cancel();
    if !is_broken {
        let (code, reason) = ended.close();
        // The writer says goodbye, unless it is stuck.
        if let Ok(Ok(Some(mut sink))) = timeout(WRITE, writer).await {
            let close = CloseFrame {
                code: CloseCode::from(code),
                reason: reason.into(),
            };
            let goodbye = async {
                // A gateway that closed first does not hear it.
                if sink.send(Message::Close(Some(close))).await.is_ok() {
                    // A socket that is dropped with something unread resets the connection, and the goodbye is lost.
                    while let Some(Ok(_unheard)) = reader.stream.next().await {}
                }
            };
            drop(timeout(Duration::from_secs(2), goodbye).await);
        }
    }
    ended
}

impl Ended {
    const fn close(&self) -> (u16, &'static str) {
        match self {
            Self::Silent => (TICK_TIMEOUT, "tick timeout"),
            Self::Garbage => (1002, "unreadable frames"),
            Self::Refused(_)
            | Self::NoHandshake
            | Self::Closed { .. }
            | Self::Shutdown
            | Self::Stuck
            | Self::Broken
            | Self::Stopped => (1000, ""),
        }
    }
}

type Sink = SplitSink<Socket, Message>;

/// Writes until it is told to end, and gives the sink back; `None` when it broke.
async fn write(
    mut sink: Sink,
    mut frames: mpsc::Receiver<Frame>,
    finished: CancellationToken,
) -> Option<Sink> {
    loop {
        let frame = tokio::select! {
            biased;
            () = finished.cancelled() => return Some(sink),
            frame = frames.recv() => frame,
        };
        let Some(frame) = frame else { return Some(sink) };
        match timeout(WRITE, sink.send(Message::text(frame.to_text()))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return None,
        }
    }
}

struct Reader<'a> {
    stream: SplitStream<Socket>,
    link: Arc<Link>,
    host: &'a Arc<Host>,
    unreadable: u32,
}

impl Reader<'_> {
    /// Reads until the connection ends, or nothing came for so long.
    async fn read(&mut self, timeout: Duration) -> Ended {
        let mut shuts_down = false;
        loop {
            let heard_at = Instant::now();
            let message = match tokio::time::timeout_at(heard_at + timeout, self.stream.next()).await {
                Err(_elapsed) => return Ended::Silent,
                Ok(None | Some(Err(_))) if shuts_down => return Ended::Shutdown,
                Ok(None | Some(Err(_))) => return Ended::Broken,
                Ok(Some(Ok(message))) => message,
            };
            match message {
                Message::Text(text) => match Frame::parse(&text, MAX_MESSAGE) {
                    Ok(frame) => {
                        self.unreadable = 0;
                        shuts_down |= self.take(frame);
                    }
                    // A frame of a form that is new to us is no reason to leave; what is no JSON is.
                    Err(error @ FrameError::Shape(_)) => {
                        tracing::debug!(%error, "a frame of an unknown form is dropped");
                    }
                    Err(error @ FrameError::Json(_)) => {
                        tracing::debug!(%error, "a frame that cannot be read is dropped");
                        self.unreadable += 1;
                        if self.unreadable >= MAX_UNREADABLE {
                            return Ended::Garbage;
                        }
                    }
                },
                Message::Close(_) if shuts_down => return Ended::Shutdown,
                Message::Close(close) => return closed(close.as_ref()),
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Binary(_) | Message::Frame(_) => return Ended::Garbage,
            }
        }
    }

    /// Does what a frame asks for; true when the gateway says that it goes.
    fn take(&self, frame: Frame) -> bool {
        match frame {
            Frame::Response(response) => self.link.answered(response),
            Frame::Event(event) => {
                let payload = event.payload.unwrap_or(Value::Null);
                match event.event.as_str() {
                    INVOKE_REQUEST => self.host.take(payload, &self.link),
                    INVOKE_CANCEL => self.host.cancel(payload),
                    SHUTDOWN_EVENT => return true,
                    PAIR_RESOLVED => tracing::info!("the gateway decided about the commands of this node"),
                    // Ticks count by having come; everything else is for others.
                    _ => {}
                }
            }
            // A gateway asks a node by events only; a peer that asks otherwise is no gateway that we know.
            Frame::Request(_) => tracing::debug!("a request of the gateway is dropped"),
        }
        false
    }
}

fn closed(close: Option<&CloseFrame>) -> Ended {
    Ended::Closed {
        code: close.map_or(1005, |close| close.code.into()),
        reason: close.map_or_else(String::new, |close| harmless(close.reason.as_str())),
    }
}

/// Text of the gateway that people read.
pub(super) fn harmless(text: &str) -> String {
    countersign_protocol::bridge::visible(text)
        .chars()
        .take(500)
        .collect()
}
