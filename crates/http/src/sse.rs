//! Server-sent events: a subscription as a response body.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response, Sse, sse::Event},
};
use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use countersign_domain::UnixMillis;
use countersign_ledger::events::{EventType, Publication, StreamItem, Subscription};
use countersign_sys::clock::Clock;

use crate::{
    admission::{Credentials, RequestSource},
    links::Links,
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

struct Stream {
    subscription: Subscription,
    links: Links,
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
    (subscription, links): (Subscription, Links),
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    still_open: StillOpen,
    held: Vec<Held>,
) -> Response {
    let state = Stream {
        subscription,
        links,
        clock,
        heartbeat: heartbeat(),
        stop,
        ended: false,
        still_open,
        _held: held,
    };
    let events = stream::unfold(state, async |mut state| {
        let event = state.next().await?;
        // Asked last: a token may be revoked while its stream waits.
        (state.still_open)().then_some((event, state))
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

/// Answers with events as they come.
pub(crate) fn streaming(events: impl futures_util::Stream<Item = Event> + Send + 'static) -> Response {
    // The first comment makes the headers leave at once and tells the client that the stream is on.
    let opening = stream::once(async { Event::default().comment("countersign") });
    let events = Sse::new(opening.chain(events).map(Ok::<_, Infallible>));
    let mut response = events.into_response();
    let headers = response.headers_mut();
    // Like every answer, it is not even stored.
    headers.remove(header::CACHE_CONTROL);
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// What keeps a quiet stream open.
pub(crate) fn comment() -> Event {
    Event::default().comment("")
}

impl Stream {
    async fn next(&mut self) -> Option<Event> {
        while !self.ended {
            tokio::select! {
                biased;
                item = self.subscription.next() => match item {
                    Ok(Some(StreamItem::Event(event))) => {
                        self.ended = event.event_type == EventType::ServerShutdown;
                        return Some(logged(&event, &self.links));
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
                _ = self.heartbeat.tick() => return Some(comment()),
            }
        }
        None
    }
}

fn logged(event: &Publication, links: &Links) -> Event {
    let written = Event::default();
    let written = match event.seq {
        Some(seq) => written.id(seq.to_string()),
        None => written,
    };
    written
        .event(event.event_type.as_str())
        .data(links.on_event(event))
}

/// It is in no log, so it has no number.
fn gap(oldest: i64, now: UnixMillis) -> Event {
    let data =
        serde_json::json!({"ts": now.get(), "atMs": now.get(), "type": "events.gap", "oldestSeq": oldest});
    Event::default().event("events.gap").data(data.to_string())
}
