//! Server-sent events: a subscription as a response body.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use countersign_domain::UnixMillis;
use countersign_ledger::events::{EventType, Publication, StreamItem, Subscription};
use countersign_sys::clock::Clock;

use crate::{
    admission::{Credentials, RequestSource},
    state::AppState,
};

/// A comment this often keeps proxies from closing a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Pause before the log is asked again when it could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// What is held as long as the stream lasts.
pub(crate) type Held = Box<dyn Send + Sync>;

/// Whether the caller may still listen.
pub(crate) type StillOpen = Box<dyn Fn() -> bool + Send + Sync>;

/// Frames of a stream.
pub(crate) trait FrameStream: futures_util::Stream<Item = Bytes> + Send + 'static {}

impl<S: futures_util::Stream<Item = Bytes> + Send + 'static> FrameStream for S {}

/// What keeps a quiet stream open.
pub(crate) const COMMENT: Bytes = Bytes::from_static(b": \n\n");

struct Stream {
    subscription: Subscription,
    clock: Arc<dyn Clock>,
    heartbeat: tokio::time::Interval,
    stop: CancellationToken,
    ended: bool,
    still_open: StillOpen,
    /// Frees the place, and tells the engine that an approver has left, when the client does.
    _held: Vec<Held>,
}

/// Answers with the events of a subscription until the client leaves, `still_open` says no, or `stop` is
/// cancelled; what is ready then (the `server.shutdown` event) still goes out.
pub(crate) fn response(
    subscription: Subscription,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    still_open: StillOpen,
    held: Vec<Held>,
) -> Response {
    let state = Stream {
        subscription,
        clock,
        heartbeat: heartbeat(),
        stop,
        ended: false,
        still_open,
        _held: held,
    };
    let events = stream::unfold(state, async |mut state| {
        let frame = state.next().await?;
        // Asked last: a token may be revoked while its stream waits.
        if !(state.still_open)() {
            return None;
        }
        Some((frame, state))
    });
    streaming(events)
}

/// Ticks whenever a quiet stream needs a comment.
pub(crate) fn heartbeat() -> tokio::time::Interval {
    let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// A stream ends with the token that opened it.
pub(crate) fn still_open(state: &AppState, origin: RequestSource) -> StillOpen {
    let clock = Arc::clone(state.engine().clock());
    Box::new(move || match &origin.credentials {
        Credentials::Valid(key) => key.is_live(clock.now()),
        Credentials::Absent
        | Credentials::Wrong
        | Credentials::Ended
        | Credentials::CookieAlone(_)
        | Credentials::ForeignPage => false,
    })
}

/// Answers with frames as they come.
pub(crate) fn streaming(frames: impl FrameStream) -> Response {
    // The first comment makes the headers leave at once and tells the client that the stream is on.
    let opening = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b": countersign\n\n")) });
    let frames = futures_util::StreamExt::map(frames, Ok::<_, Infallible>);
    let body = Body::from_stream(futures_util::StreamExt::chain(opening, frames));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            tokio::select! {
                biased;
                item = self.subscription.next() => match item {
                    Ok(Some(StreamItem::Event(event))) => {
                        self.ended = event.event_type == EventType::ServerShutdown;
                        return Some(frame(&event));
                    }
                    Ok(Some(StreamItem::Gap { oldest })) => return Some(gap(oldest, self.clock.now())),
                    Ok(None) => return None,
                    Err(error) => {
                        tracing::warn!(%error, "an event stream waits for the log");
                        tokio::select! {
                            () = tokio::time::sleep(RETRY) => {}
                            () = self.stop.cancelled() => return None,
                        }
                    }
                },
                () = self.stop.cancelled() => return None,
                _ = self.heartbeat.tick() => return Some(COMMENT),
            }
        }
        None
    }
}

fn frame(event: &Arc<Publication>) -> Bytes {
    // `data` is one line of JSON, so it needs no splitting.
    let kind = event.event_type.as_str();
    let text = match event.seq {
        Some(seq) => format!("id: {seq}\nevent: {kind}\ndata: {}\n\n", event.data),
        None => format!("event: {kind}\ndata: {}\n\n", event.data),
    };
    text.into()
}

/// It is in no log, so it has no number.
fn gap(oldest: i64, now: UnixMillis) -> Bytes {
    let data = serde_json::json!({"ts": now.get(), "type": "events.gap", "oldestSeq": oldest});
    format!("event: events.gap\ndata: {data}\n\n").into()
}
