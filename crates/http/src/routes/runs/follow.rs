//! The output of a run as it comes: as text for a terminal, as server-sent events for a program.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, header},
    response::{Response, sse::Event},
};
use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use countersign_domain::{OutputStream, Principal, RunId};
use countersign_engine::process::{OutputForm, OutputText, RunFollowed, RunFollower};
use countersign_sys::clock::Clock;
use countersign_wire::run::RunBody;

use crate::{
    accept::Accepted,
    admission::RequestSource,
    problem::Problem,
    routes::process::stream::{RETRY, output_event},
    sse,
    state::{AppState, StreamPlace},
};

/// Answers with the output of a run that the caller may see.
pub(super) async fn output(
    state: &AppState,
    (caller, origin): (&Principal, RequestSource),
    id: &RunId,
    (after, only): (u64, Option<OutputStream>),
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let processes = state.engine().processes();
    let follower = processes.follow_run(caller, id, after).await?;
    let following = Following {
        follower: follower.ok_or_else(Problem::unknown_run)?,
        only,
        stop: state.stopping(),
        origin,
        clock: Arc::clone(state.engine().clock()),
        _place: state.take_stream_place(caller)?,
    };
    Ok(if Accepted::of(headers).names("text/event-stream") {
        sse::streaming(events(following))
    } else {
        text(following)
    })
}

/// A caller who follows.
struct Following {
    follower: RunFollower,
    only: Option<OutputStream>,
    stop: CancellationToken,
    origin: RequestSource,
    clock: Arc<dyn Clock>,
    /// Freed when the client leaves.
    _place: StreamPlace,
}

impl Following {
    /// What comes next; `None` after the end, when the token ends, and when the server stops.
    ///
    /// # Cancel safety
    /// Cancelled, it has lost nothing.
    async fn next(&mut self) -> Option<RunFollowed> {
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                () = self.origin.ended(&*self.clock) => return None,
                followed = self.follower.next() => match followed {
                    Ok(Some(RunFollowed::Output(mut pieces))) => {
                        pieces.retain(|piece| self.only.is_none_or(|only| piece.stream == only));
                        if !pieces.is_empty() {
                            return Some(RunFollowed::Output(pieces));
                        }
                    }
                    Ok(other) => return other,
                    Err(error) => {
                        tracing::warn!(%error, "a stream of output waits");
                        tokio::select! {
                            () = tokio::time::sleep(RETRY) => {}
                            () = self.stop.cancelled() => return None,
                        }
                    }
                },
            }
        }
    }
}

fn text(following: Following) -> Response {
    let pieces = stream::unfold(following, async |mut following| match following.next().await? {
        RunFollowed::Output(pieces) => {
            let text: String = pieces.into_iter().map(|OutputText { text, .. }| text).collect();
            Some((Ok::<_, Infallible>(Bytes::from(text)), following))
        }
        RunFollowed::Ended(_) => None,
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        // Output of a command is never shown by a browser as if we had written it.
        (header::CONTENT_DISPOSITION, "attachment"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// What is to be sent, and what it comes from.
struct Events {
    following: Following,
    ready: VecDeque<Event>,
    heartbeat: tokio::time::Interval,
}

fn events(following: Following) -> impl futures_util::Stream<Item = Event> + Send {
    let events = Events {
        following,
        ready: VecDeque::new(),
        heartbeat: sse::heartbeat(),
    };
    stream::unfold(events, async |mut events| Some((events.next().await?, events))).boxed()
}

impl Events {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            tokio::select! {
                biased;
                followed = self.following.next() => match followed? {
                    RunFollowed::Output(pieces) => {
                        let events = pieces.iter().map(|piece| output_event(piece, OutputForm::Text));
                        self.ready.extend(events);
                    }
                    RunFollowed::Ended(run) => self.ready.extend(end_event(&RunBody::from(*run))),
                },
                _ = self.heartbeat.tick() => return Some(sse::comment()),
            }
        }
    }
}

fn end_event(run: &RunBody) -> Option<Event> {
    Event::default()
        .event("end")
        .json_data(run)
        .inspect_err(|error| tracing::error!(%error, "a run could not be written as JSON"))
        .ok()
}
