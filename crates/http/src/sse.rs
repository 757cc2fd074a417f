//! Server-sent events: a subscription as a response body.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response, Sse, sse::Event},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use countersign_domain::UnixMillis;
use countersign_ledger::events::{EventType, StreamItem, Subscription};
use countersign_sys::clock::Clock;

use crate::{
    admission::{Credentials, RequestSource},
    event_frames::Frames,
    state::AppState,
};

/// A comment this often keeps proxies from closing a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Pause before the log is asked again when it could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// What every stream begins with. The first comment makes the headers leave at once and tells the client that the stream is on.
const OPENING: &str = "countersign";

/// What keeps a quiet stream open, as it is sent.
const QUIET: Bytes = Bytes::from_static(b": \n\n");

/// What is held as long as the stream lasts.
pub(crate) type Held = Box<dyn Send + Sync>;

/// Whether the caller may still listen.
pub(crate) type StillOpen = Box<dyn Fn() -> bool + Send + Sync>;

struct Stream {
    subscription: Subscription,
    frames: Arc<Frames>,
    clock: Arc<dyn Clock>,
    heartbeat: tokio::time::Interval,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
    still_open: StillOpen,
    /// Frees the place, and tells the engine that an approver has left, when the client does.
    _held: Vec<Held>,
}

/// Answers with the events of a subscription until the client leaves, `still_open` says no, or `stop` is
/// cancelled; what is ready then (the `server.shutdown` event) still goes out.
pub(crate) fn response(
    (subscription, frames): (Subscription, Arc<Frames>),
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    still_open: StillOpen,
    held: Vec<Held>,
) -> Response {
    let state = Stream {
        subscription,
        frames,
        clock,
        heartbeat: heartbeat(),
        stopped: Box::pin(stop.cancelled_owned()),
        ended: false,
        still_open,
        _held: held,
    };
    let opening = stream::once(async { Bytes::from(format!(": {OPENING}\n\n")) });
    let frames = stream::unfold(state, async |mut state| {
        let frame = state.next().await?;
        // Asked last: a token may be revoked while its stream waits.
        (state.still_open)().then_some((frame, state))
    });
    let mut response = Body::from_stream(opening.chain(frames).map(Ok::<_, Infallible>)).into_response();
    let event_stream = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, event_stream);
    unbuffered(response)
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

/// Answers with events as they come.
pub(crate) fn streaming(events: impl futures_util::Stream<Item = Event> + Send + 'static) -> Response {
    let opening = stream::once(async { Event::default().comment(OPENING) });
    let events = Sse::new(opening.chain(events).map(Ok::<_, Infallible>));
    let mut response = events.into_response();
    // Like every answer, it is not even stored.
    response.headers_mut().remove(header::CACHE_CONTROL);
    unbuffered(response)
}

/// Asks a proxy to pass on what comes at once.
fn unbuffered(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// What keeps a quiet stream open.
pub(crate) fn comment() -> Event {
    Event::default().comment("")
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            tokio::select! {
                biased;
                item = self.subscription.next() => match item {
                    Ok(Some(StreamItem::Event(event))) => {
                        self.ended = event.event_type == EventType::ServerShutdown;
                        return Some(self.frames.of(&event));
                    }
                    Ok(Some(StreamItem::Gap { oldest })) => return Some(gap(oldest, self.clock.now())),
                    Ok(None) => return None,
                    Err(error) => {
                        tracing::warn!(%error, "an event stream waits for the log");
                        tokio::select! {
                            () = tokio::time::sleep(RETRY) => {}
                            () = &mut self.stopped => return None,
                        }
                    }
                },
                () = &mut self.stopped => return None,
                _ = self.heartbeat.tick() => return Some(QUIET),
            }
        }
        None
    }
}

/// It is in no log, so it has no number.
fn gap(oldest: i64, now: UnixMillis) -> Bytes {
    let data =
        serde_json::json!({"ts": now.get(), "atMs": now.get(), "type": "events.gap", "oldestSeq": oldest});
    format!("event: events.gap\ndata: {data}\n\n").into()
}
