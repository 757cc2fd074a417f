//! A session's output as server-sent events, from any byte on, and then its end; or the screen of its terminal.

use std::{collections::VecDeque, str::FromStr, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{Response, sse::Event},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::stream;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use countersign_domain::{AgentId, Principal};
use countersign_engine::{
    OutputBytes,
    process::{Followed, OutputForm, OutputText, SessionFollower, TerminalWatch, Watched},
};
use countersign_wire::{
    frames::FrameBody,
    process::{SessionBody, StreamedOutput},
};

use crate::{
    accept::Accepted,
    admission::RequestSource,
    caller::{AgentCaller, ReadOrOwn},
    extract::{AtPath, Parameters, ProcessSessionName, QueryForm, QueryOf},
    film::{LiveScreen, Looked},
    problem::{Code, Problem},
    sse::{self, Held, StillOpen},
    state::AppState,
};

/// Pause before the output is looked at again when it could not be read.
pub(in crate::routes) const RETRY: Duration = Duration::from_secs(1);

/// Between two pictures of a screen, at least.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// What the event `lost` says.
const LOST: &str = "{\"message\":\"what was written cannot be drawn\"}";
/// A picture with more text makes the pause longer, so that about a mebibyte a second is sent.
const PAUSE_PER_KIB: Duration = Duration::from_millis(1);

/// The output of a process session as it comes.
///
/// Events `output` with `offset`, `stream` and `text`, and when the session has ended `end` with the session. The `id:`
/// of an `output` is the number of bytes up to its end: sent back as `Last-Event-ID` the stream goes on there, and
/// nothing is lost or repeated. With `encoding=base64` an `output` has `base64` instead of `text`: the exact bytes.
///
/// With `encoding=screen` the events are `screen`: a `Frame` with all that the terminal shows, then those with the rows that change.
#[utoipa::path(
    get, path = "/v1/process/{sessionId}/stream", tag = "process", operation_id = "stream_process_session",
    params(
        ("sessionId" = ProcessSessionName, Path), StreamQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "After how many bytes of the output to begin."),
    ),
    responses(
        (status = OK, description = "A stream.", content((String = "text/event-stream"))),
        (status = FORBIDDEN, description = "forbidden, tool-denied"),
        (status = NOT_ACCEPTABLE, description = "not-acceptable"),
        (status = SERVICE_UNAVAILABLE, description = "overloaded: too many streams"),
    ),
    security(("token" = ["exec"]), ("token" = ["read"])),
)]
pub(super) async fn output(
    caller: AgentCaller<ReadOrOwn>,
    AtPath(id): AtPath<ProcessSessionName>,
    Extension(origin): Extension<RequestSource>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !Accepted::of(&headers).takes("text/event-stream") {
        return Err(Problem::new(
            Code::NotAcceptable,
            "this is answered as text/event-stream",
        ));
    }
    let after = last_event_id(&headers)?;
    let StreamQuery { agent_id, encoding } = query;
    let form = match encoding {
        None => OutputForm::Text,
        Some(Encoding::Base64) => OutputForm::Bytes,
        Some(Encoding::Screen) => {
            let processes = state.engine().processes();
            let watch = processes.watch_terminal(&caller, agent_id, id.as_str()).await?;
            return screen(&state, watch, &caller, origin);
        }
    };
    let follower = state
        .engine()
        .processes()
        .follow(&caller, agent_id, id.as_str(), after, form)
        .await?;
    let place: Held = Box::new(state.take_stream_place(&caller)?);
    let state = Stream {
        follower,
        form,
        ready: VecDeque::new(),
        heartbeat: sse::heartbeat(),
        stop: state.stopping(),
        still_open: sse::still_open(&state, origin),
        _place: place,
    };
    let events = stream::unfold(state, async |mut state| {
        let event = state.next().await?;
        // Asked last: a token may be revoked while its stream waits.
        (state.still_open)().then_some((event, state))
    });
    Ok(sse::streaming(events))
}

/// The screen of a terminal as it comes.
fn screen(
    state: &AppState,
    watch: TerminalWatch,
    caller: &Principal,
    origin: RequestSource,
) -> Result<Response, Problem> {
    let place: Held = Box::new(state.take_stream_place(caller)?);
    let stream = ScreenStream {
        watch,
        screen: LiveScreen::new(),
        not_drawn: None,
        ready: VecDeque::new(),
        not_before: Instant::now(),
        is_over: false,
        heartbeat: sse::heartbeat(),
        stop: state.stopping(),
        still_open: sse::still_open(state, origin),
        state: state.clone(),
        _place: place,
    };
    let events = stream::unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        (stream.still_open)().then_some((event, stream))
    });
    Ok(sse::streaming(events))
}

/// Which output is wanted, and how.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(super) struct StreamQuery {
    /// Only if it is this agent's; for a token with only `exec`, `main` unless given.
    agent_id: Option<AgentId>,
    /// `base64` for the exact bytes, `screen` for what the terminal shows.
    #[param(inline)]
    encoding: Option<Encoding>,
}

impl QueryForm for StreamQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            agent_id: parameters.value("agentId")?,
            encoding: parameters.value("encoding")?,
        })
    }
}

/// How output is sent that is no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, utoipa::ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum Encoding {
    /// With padding (RFC 4648, section 4).
    Base64,
    /// Rows of cells, for a session with a terminal.
    Screen,
}

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "base64" => Ok(Self::Base64),
            "screen" => Ok(Self::Screen),
            _ => Err(UnknownEncoding),
        }
    }
}

/// There is no such encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected base64 or screen")]
pub(super) struct UnknownEncoding;

struct Stream {
    follower: SessionFollower,
    form: OutputForm,
    ready: VecDeque<Event>,
    heartbeat: tokio::time::Interval,
    stop: CancellationToken,
    still_open: StillOpen,
    /// Freed when the client leaves.
    _place: Held,
}

impl Stream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                followed = self.follower.next() => match followed {
                    Ok(Some(Followed::Output(pieces))) => {
                        let form = self.form;
                        self.ready.extend(pieces.iter().map(|piece| output_event(piece, form)));
                    }
                    Ok(Some(Followed::Ended(session))) => {
                        self.ready.extend(end_event(&super::session_body(*session)));
                    }
                    Ok(None) => return None,
                    Err(error) => {
                        tracing::warn!(%error, "a stream of output waits");
                        tokio::select! {
                            () = tokio::time::sleep(RETRY) => {}
                            () = self.stop.cancelled() => return None,
                        }
                    }
                },
                _ = self.heartbeat.tick() => return Some(sse::comment()),
            }
        }
    }
}

struct ScreenStream {
    watch: TerminalWatch,
    screen: LiveScreen,
    /// A recording that was drawn in part.
    not_drawn: Option<OutputBytes>,
    ready: VecDeque<Event>,
    /// When the next picture is taken, at the earliest.
    not_before: Instant,
    is_over: bool,
    heartbeat: tokio::time::Interval,
    stop: CancellationToken,
    still_open: StillOpen,
    state: AppState,
    /// Freed when the client leaves.
    _place: Held,
}

impl ScreenStream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let not_before = self.not_before;
            let (is_behind, watch) = (self.not_drawn.is_some(), &mut self.watch);
            let coming = async {
                tokio::time::sleep_until(not_before).await;
                if is_behind { None } else { Some(watch.next().await) }
            };
            let watched = tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                watched = coming => watched,
                _ = self.heartbeat.tick() => return Some(sse::comment()),
            };
            match watched {
                None => {
                    if let Some(recording) = self.not_drawn.take() {
                        self.look(recording).await;
                    }
                }
                Some(Ok(Some(Watched::More(recording)))) => self.look(recording).await,
                Some(Ok(Some(Watched::Ended(session)))) => {
                    self.ready.extend(end_event(&super::session_body(*session)));
                    self.is_over = true;
                }
                Some(Ok(None)) => return None,
                Some(Err(error)) => {
                    tracing::warn!(%error, "the screen of a session waits");
                    self.not_before = Instant::now() + RETRY;
                }
            }
        }
    }

    /// Draws what came. It takes a processor for a while, so one is drawn at a time.
    async fn look(&mut self, recording: OutputBytes) {
        let turn = self.state.drawing_turn().await;
        let gone = CancellationToken::new();
        let _until_drawn = gone.clone().drop_guard();
        let mut screen = std::mem::replace(&mut self.screen, LiveScreen::new());
        let drawn = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let looked = screen.look(recording.clone(), &gone);
            looked.map(|looked| (screen, looked, recording))
        });
        let Ok(Ok((
            screen,
            Looked {
                frame,
                text,
                is_behind,
            },
            recording,
        ))) = drawn.await
        else {
            // Whatever the reason is, there is nothing to go on with.
            self.ready.push_back(Event::default().event("lost").data(LOST));
            self.is_over = true;
            return;
        };
        self.screen = screen;
        self.not_drawn = is_behind.then_some(recording);
        if let Some(frame) = frame {
            self.ready.extend(screen_event(&frame));
            let kib = u32::try_from(text / 1024).unwrap_or(u32::MAX);
            self.not_before = Instant::now() + LEAST_PAUSE + PAUSE_PER_KIB * kib;
        }
    }
}

fn screen_event(frame: &FrameBody) -> Option<Event> {
    Event::default()
        .event("screen")
        .json_data(frame)
        .inspect_err(|error| tracing::error!(%error, "a screen could not be written as JSON"))
        .ok()
}

/// A piece of output as an event, whose id is where the next piece begins.
pub(in crate::routes) fn output_event(piece: &OutputText, form: OutputForm) -> Event {
    let OutputText {
        offset,
        end,
        stream,
        text,
        bytes,
    } = piece;
    let (text, base64) = match form {
        OutputForm::Text => (Some(text.clone()), None),
        OutputForm::Bytes => (None, Some(BASE64_STANDARD.encode(bytes))),
    };
    let data = json!(StreamedOutput {
        offset: *offset,
        stream: (*stream).into(),
        text,
        base64,
    });
    Event::default()
        .id(end.to_string())
        .event("output")
        .data(data.to_string())
}

fn end_event(session: &SessionBody) -> Option<Event> {
    Event::default()
        .event("end")
        .json_data(session)
        .inspect_err(|error| tracing::error!(%error, "a session could not be written as JSON"))
        .ok()
}

/// After how many bytes to begin.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<u64, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(0);
    };
    // The contract has no larger numbers.
    let offset = value.to_str().ok().and_then(|text| text.parse::<i64>().ok());
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.ok_or_else(|| Problem::field("Last-Event-ID", "expected the id of an event of this stream"))
}
