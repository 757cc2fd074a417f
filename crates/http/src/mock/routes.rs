//! The paths of a mock: those that a gateway uses.
//!
//! Bodies, queries and headers are read by the extractors of the real routes, so the same calls are refused with the
//! same words.

use std::{io::Cursor, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{FromRef, Request, State},
    http::{HeaderMap, HeaderValue, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response, Sse, sse::Event},
    routing::{get, post},
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use countersign_domain::{ApprovalId, Host, OutputStream, RunId, Scope, TokenId, UnixMillis};
use countersign_engine::EndsWithCaller;
use countersign_runner::output::spool;
use countersign_wire::{
    approval::ApprovalView,
    frames::FramesBody,
    health::{CheckBody, Checks, ReadinessBody},
    me::MeBody,
    page::Page,
    run::RunBody,
    words::ActorKind,
};

use super::{
    answer,
    events::{PlayedEvent, Wanted},
    play::{Call, Play},
    run::{PlayedRun, asker},
};
use crate::{
    accept::Accepted,
    bearer,
    extract::{
        AtPath, BodyLimit, EmptyBody, IdempotencyHeader, Moment, Parameters, QueryForm, QueryOf, RawJson,
    },
    film,
    list::{ListName, Order, PageQuery},
    problem::{Code, Problem},
    reply::JsonReply,
    routes::{
        ExecBody, ExecQuery, FramesQuery, ListedRun, OutputQuery, WaitQuery, brief_event, error_catalogue,
        health, in_list, last_event_id, output_of_frames, recording_of_frames, statuses_named, version,
        with_output,
    },
    sse,
};

/// As `[limits] body_bytes` has it unless it is set.
const BODY_BYTES: usize = 1024 * 1024;
/// How much of an output goes into one event.
const PIECE: usize = 16 * 1024;
const MAX_PAGE: usize = 500;
const QUESTION_PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>countersign mock</title>\n\
    <h1>This is a mock</h1>\n<p>Its script answers this question, and nobody can answer it here. Nothing runs.</p>\n</html>\n";
const RUNS: ListName<'static> = ListName::only("mock-runs");

/// What the handlers share.
#[derive(Clone)]
pub(super) struct Shared {
    play: Arc<Play>,
    bodies: BodyLimit,
}

impl FromRef<Shared> for BodyLimit {
    fn from_ref(shared: &Shared) -> Self {
        shared.bodies.clone()
    }
}

impl FromRef<Shared> for Arc<Play> {
    fn from_ref(shared: &Shared) -> Self {
        Self::clone(&shared.play)
    }
}

/// The routes over these runs.
pub(super) fn router(play: Arc<Play>) -> Router {
    let shared = Shared {
        play,
        bodies: BodyLimit::new(BODY_BYTES),
    };
    let with_token = Router::new()
        .route("/v1/me", get(me))
        .route("/v1/exec", post(exec))
        .route("/v1/runs", get(runs))
        .route("/v1/runs/{runId}", get(run))
        .route("/v1/runs/{runId}/cancel", post(cancel))
        .route("/v1/runs/{runId}/output", get(output))
        .route("/v1/runs/{runId}/recording", get(recording))
        .route("/v1/runs/{runId}/recording/frames", get(frames))
        .route("/v1/events", get(events))
        .layer(middleware::from_fn(needs_token));
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/v1/version", get(version))
        .route("/v1/errors.json", get(error_catalogue))
        .route("/a/{id}", get(question))
        .merge(with_token)
        .fallback(unknown)
        .method_not_allowed_fallback(unknown_method)
        .with_state(shared)
}

/// Where a person would answer. Nothing of the question stands there, so it needs no token, as the page of a server.
async fn question(
    State(play): State<Arc<Play>>,
    AtPath(id): AtPath<ApprovalId>,
    headers: HeaderMap,
    QueryOf(()): QueryOf<()>,
) -> Result<Response, Problem> {
    let is_known = |played: &PlayedRun| played.run.approval_id.as_ref() == Some(&id);
    let played = play.newest_first().into_iter().find(is_known);
    let played = played.ok_or_else(|| Problem::new(Code::ApprovalNotFound, "there is no such approval"))?;
    if Accepted::of(&headers).names("text/html") {
        let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
        return Ok((kind, QUESTION_PAGE).into_response());
    }
    let status_url = play.links().run(&played.run.id);
    Ok(JsonReply(json!({
        "approvalId": id, "runId": played.run.id, "statusUrl": status_url,
        "detail": "this is a mock: its script answers, and nobody can answer here",
    }))
    .into_response())
}

async fn unknown() -> Problem {
    Problem::new(
        Code::NotFound,
        "the mock has /v1/exec, /v1/runs, /v1/events, /v1/me, /v1/version, /v1/errors.json, /healthz and /readyz",
    )
}

async fn unknown_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "this resource takes other methods")
}

/// Any token opens a mock: there is nothing behind it.
async fn needs_token(request: Request, next: Next) -> Response {
    match bearer::presented(request.headers()) {
        Some(token) if !token.is_empty() => next.run(request).await,
        Some(_) | None => Problem::new(Code::Unauthorized, "a bearer token is needed; the mock takes any")
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
            .into_response(),
    }
}

async fn ready(_query: QueryOf<()>) -> JsonReply<ReadinessBody> {
    let fine = || CheckBody {
        ok: true,
        detail: None,
    };
    JsonReply(ReadinessBody {
        status: "ready".into(),
        degraded: false,
        stopped: false,
        restart_needed: false,
        checks: Checks {
            database: fine(),
            machine: None,
            record: None,
            document: fine(),
            config: fine(),
            listener: fine(),
            bridge: None,
            runner: None,
            sandbox: None,
            ipc: None,
            clock: None,
        },
    })
}

async fn me(_query: QueryOf<()>) -> JsonReply<MeBody> {
    let actor = asker();
    JsonReply(MeBody {
        kind: ActorKind::Known(actor.kind),
        token_id: TokenId::parse(actor.id).expect("a constant id"),
        name: actor.name,
        owner: None,
        scopes: [Scope::Exec.into()].into(),
        agents: None,
        expires_at_ms: None,
    })
}

async fn exec(
    State(play): State<Arc<Play>>,
    QueryOf(query): QueryOf<ExecQuery>,
    IdempotencyHeader(key): IdempotencyHeader,
    RawJson { value: body, bytes }: RawJson<ExecBody>,
) -> Result<Response, Problem> {
    let lease = query.into_lease()?;
    let request = body.into_request()?;
    if lease.is_some() && key.is_none() {
        return Err(Problem::field("held", "needs an Idempotency-Key"));
    }
    let held_run = lease.as_ref().filter(|lease| lease.held == EndsWithCaller::Run);
    let call = Call {
        question_wait: lease
            .as_ref()
            .map_or(Duration::ZERO, |lease| lease.wait)
            .max(request.approval_wait),
        run_wait: held_run.map(|lease| lease.wait).filter(|wait| !wait.is_zero()),
        request,
        key: key.map(|key| (key, Sha256::digest(&bytes).into())),
    };
    answer::to_call(play.call(call).await?, play.links())
}

/// Which runs are wanted.
struct RunsQuery {
    status: Option<String>,
    agent: Option<countersign_domain::AgentId>,
    session: Option<countersign_domain::SessionKey>,
    host: Option<Host>,
    since: Option<Moment>,
    until: Option<Moment>,
    text: Option<String>,
    page: PageQuery,
}

impl QueryForm for RunsQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            status: parameters.text("status")?,
            agent: parameters.value("agentId")?,
            session: parameters.value("sessionKey")?,
            host: parameters.value("host")?,
            since: parameters.value("since")?,
            until: parameters.value("until")?,
            text: parameters.text("q")?,
            page: PageQuery::read(parameters)?,
        })
    }
}

async fn runs(
    State(play): State<Arc<Play>>,
    QueryOf(query): QueryOf<RunsQuery>,
) -> Result<JsonReply<Page<ListedRun>>, Problem> {
    let RunsQuery {
        status,
        agent,
        session,
        host,
        since,
        until,
        text,
        page,
    } = query;
    let statuses = status.as_deref().map(statuses_named).transpose()?;
    let mut runs = play.newest_first();
    runs.retain(|PlayedRun { run, .. }| {
        statuses
            .as_ref()
            .is_none_or(|statuses| statuses.contains(&run.status))
            && agent.as_ref().is_none_or(|agent| *agent == run.agent)
            && session.as_ref().is_none_or(|session| *session == run.session)
            && host.is_none_or(|host| host == run.host)
            && is_within(run.created_at, since, until)
            && text
                .as_ref()
                .is_none_or(|text| run.command.to_short_text().contains(text.as_str()))
    });
    let view = page.view;
    page.cut(
        RUNS,
        runs,
        |played| played.run.id.as_str(),
        |played| in_list(played.run, view),
    )
    .map(JsonReply)
}

/// Whether that was then: at `since` or later, and before `until`.
fn is_within(at: UnixMillis, since: Option<Moment>, until: Option<Moment>) -> bool {
    since.is_none_or(|since| at >= since.into()) && until.is_none_or(|until| at < until.into())
}

async fn run(
    State(play): State<Arc<Play>>,
    AtPath(id): AtPath<RunId>,
    QueryOf(query): QueryOf<WaitQuery>,
) -> Result<Response, Problem> {
    let index = play.index_of(&id)?;
    if !play.played(index).run.status.is_final() && play.cut(index).await {
        return Ok(answer::hang_up());
    }
    let played = play
        .until(index, query.wait(), |played| {
            query.is_reached_by(played.run.status)
        })
        .await;
    let output = play.output_of(&played);
    Ok(JsonReply(with_output(played.run, output, played.ruling)).into_response())
}

async fn cancel(
    State(play): State<Arc<Play>>,
    AtPath(id): AtPath<RunId>,
    QueryOf(()): QueryOf<()>,
    EmptyBody: EmptyBody,
) -> Result<JsonReply<RunBody>, Problem> {
    let cancelled = play.cancel(play.index_of(&id)?)?;
    Ok(JsonReply(cancelled.run.into()))
}

async fn output(
    State(play): State<Arc<Play>>,
    AtPath(id): AtPath<RunId>,
    QueryOf(query): QueryOf<OutputQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let index = play.index_of(&id)?;
    if query.is_followed() {
        let after = last_event_id(&headers)?;
        return Ok(follow(play, index, (after, query.stream()), &headers));
    }
    let played = play.played(index);
    let frames = play.frames_of(&played);
    output_of_frames(&played.run.id, query.stream(), &headers, frames)
}

async fn recording(
    State(play): State<Arc<Play>>,
    AtPath(id): AtPath<RunId>,
    QueryOf(()): QueryOf<()>,
) -> Result<Response, Problem> {
    let played = play.played(play.index_of(&id)?);
    let frames = play.frames_of(&played);
    recording_of_frames(played.run, frames)
}

async fn frames(
    State(play): State<Arc<Play>>,
    AtPath(id): AtPath<RunId>,
    QueryOf(query): QueryOf<FramesQuery>,
) -> Result<JsonReply<FramesBody>, Problem> {
    let played = play.played(play.index_of(&id)?);
    let drawn = film::draw(
        Cursor::new(play.frames_of(&played)),
        Duration::ZERO,
        query.after_ms,
        CancellationToken::new(),
    );
    drawn.map(JsonReply).map_err(|error| {
        tracing::error!(%error, "the output of the mock cannot be read");
        Problem::internal()
    })
}

/// A stream that breaks, as the script says.
#[derive(Debug, thiserror::Error)]
#[error("the script breaks this stream")]
struct Broken;

/// The output of a run once it has ended: a mock's commands write nothing before.
fn follow(
    play: Arc<Play>,
    index: usize,
    (after, only): (u64, Option<OutputStream>),
    headers: &HeaderMap,
) -> Response {
    let as_events = Accepted::of(headers).names("text/event-stream");
    let pieces = async move {
        if !play.played(index).run.status.is_final() && play.cut(index).await {
            return Err(Broken);
        }
        let forever = Duration::from_hours(24);
        let played = play
            .until(index, forever, |played| played.run.status.is_final())
            .await;
        let frames = play.frames_of(&played);
        Ok((played, pieces_of(&frames, after, only)))
    };
    if !as_events {
        let text = stream::once(async {
            let (_, pieces) = pieces.await?;
            let text: String = pieces.into_iter().map(|piece| piece.text).collect();
            Ok::<_, Broken>(Bytes::from(text))
        });
        let mut response = Response::new(Body::from_stream(text));
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        return response;
    }
    let events = stream::once(pieces).flat_map(|pieces| {
        let events: Vec<Result<Event, Broken>> = match pieces {
            Err(broken) => vec![Err(broken)],
            Ok((played, pieces)) => {
                let output = pieces.into_iter().map(|piece| Ok(piece.to_event()));
                let end = Event::default()
                    .event("end")
                    .data(json!(RunBody::from(played.run)).to_string());
                output.chain([Ok(end)]).collect()
            }
        };
        stream::iter(events)
    });
    streaming(events)
}

/// A part of an output, and where it ends.
struct Piece {
    offset: u64,
    end: u64,
    stream: OutputStream,
    text: String,
}

impl Piece {
    fn to_event(&self) -> Event {
        let data = json!({"offset": self.offset, "stream": self.stream, "text": self.text, "mock": true});
        Event::default()
            .event("output")
            .id(self.end.to_string())
            .data(data.to_string())
    }
}

fn pieces_of(frames: &Bytes, after: u64, only: Option<OutputStream>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut offset = 0_u64;
    let replayed = spool::replay(Cursor::new(frames), |stream, bytes| {
        for part in bytes.chunks(PIECE) {
            let end = offset + u64::try_from(part.len()).unwrap_or(u64::MAX);
            let skipped = usize::try_from(after.saturating_sub(offset)).unwrap_or(usize::MAX);
            if let Some(left) = part.get(skipped..).filter(|left| !left.is_empty())
                && only.is_none_or(|only| only == stream)
            {
                pieces.push(Piece {
                    offset: offset.max(after),
                    end,
                    stream,
                    text: String::from_utf8_lossy(left).into_owned(),
                });
            }
            offset = end;
        }
    });
    if let Err(error) = replayed {
        tracing::error!(%error, "the output of the mock cannot be read");
    }
    pieces
}

/// Which events are wanted.
struct EventsQuery {
    wanted: Wanted,
    after: Option<u64>,
    since: Option<Moment>,
    until: Option<Moment>,
    order: Option<Order>,
    cursor: Option<u64>,
    limit: Option<usize>,
    view: Option<ApprovalView>,
}

impl QueryForm for EventsQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        let types = parameters.text("types")?.unwrap_or_default();
        // A mock's commands write nothing as they go, and nobody answers its questions.
        let _: Option<bool> = parameters.value("output")?;
        let _: Option<bool> = parameters.value("approver")?;
        Ok(Self {
            wanted: Wanted {
                types: types
                    .split(',')
                    .filter(|prefix| !prefix.is_empty())
                    .map(str::to_owned)
                    .collect(),
                agent: parameters.value("agentId")?,
                session: parameters.value("sessionKey")?,
                run: parameters.value("runId")?,
            },
            after: parameters.value("after")?,
            since: parameters.value("since")?,
            until: parameters.value("until")?,
            order: parameters.value("order")?,
            cursor: parameters.value("cursor")?,
            limit: parameters.value("limit")?,
            view: parameters.value("view")?,
        })
    }
}

async fn events(
    State(play): State<Arc<Play>>,
    QueryOf(query): QueryOf<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let known = if headers.contains_key("last-event-id") {
        Some(last_event_id(&headers)?)
    } else {
        query.after
    };
    let accepted = Accepted::of(&headers);
    if !accepted.names("text/event-stream") && accepted.names("application/json") {
        return Ok(JsonReply(page_of_events(&play, query, known)).into_response());
    }
    // A stream begins with the first event since then.
    let since = query.since.map(|since| {
        let all = play.events_after(0, &Wanted::default(), usize::MAX);
        let before = all.iter().rfind(|event| event.at < since.into());
        before.map_or(0, |event| event.seq)
    });
    let seq = known.or(since).unwrap_or_else(|| play.newest_event());
    let wanted = query.wanted;
    Ok(streaming(stream_of(Listening {
        changes: play.changes(),
        heartbeat: sse::heartbeat(),
        play,
        wanted,
        seq,
        is_cut: false,
        ready: Vec::new(),
    })))
}

fn page_of_events(play: &Play, query: EventsQuery, known: Option<u64>) -> Page<Value> {
    let EventsQuery {
        wanted,
        after: _,
        since,
        until,
        order,
        cursor,
        limit,
        view,
    } = query;
    let is_newest = order == Some(Order::Newest);
    let after = known.unwrap_or(0);
    // A mock keeps few events, so the page is cut out of all of them.
    let mut found = match cursor.filter(|_| !is_newest) {
        Some(cursor) => play.events_after(cursor, &wanted, usize::MAX),
        None => play.events_after(after, &wanted, usize::MAX),
    };
    found.retain(|event| is_within(event.at, since, until));
    if is_newest {
        found.retain(|event| cursor.is_none_or(|before| event.seq < before));
        found.reverse();
    }
    let limit = limit.unwrap_or(50).clamp(1, MAX_PAGE);
    let is_more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found
        .last()
        .filter(|_| is_more)
        .map(|event| event.seq.to_string());
    let shown = |event: PlayedEvent| match view.unwrap_or_default() {
        ApprovalView::Full => event.data,
        ApprovalView::Brief => {
            let mut brief = brief_event(event.data);
            if let Some(members) = brief.as_object_mut() {
                members.insert("mock".to_owned(), Value::Bool(true));
            }
            brief
        }
    };
    Page {
        items: found.into_iter().map(shown).collect(),
        next_cursor,
    }
}

/// A client that follows events.
struct Listening {
    play: Arc<Play>,
    wanted: Wanted,
    seq: u64,
    changes: tokio::sync::watch::Receiver<u64>,
    heartbeat: tokio::time::Interval,
    /// What comes next, the next one last.
    ready: Vec<PlayedEvent>,
    /// The stream breaks instead of going on.
    is_cut: bool,
}

fn stream_of(
    listening: Listening,
) -> impl futures_util::Stream<Item = Result<Event, Broken>> + Send + 'static {
    stream::unfold(Some(listening), async |listening| {
        let mut listening = listening?;
        if listening.is_cut {
            return Some((Err(Broken), None));
        }
        let event = listening.next().await;
        Some((Ok(event), Some(listening)))
    })
}

impl Listening {
    async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.ready.pop() {
                self.seq = event.seq;
                let is_last = matches!(event.kind, "exec.finished" | "exec.denied");
                let index = self.play.index_of(&event.run);
                self.is_cut = !is_last && index.is_ok_and(|index| self.play.takes_cut(index));
                return Event::default()
                    .id(event.seq.to_string())
                    .event(event.kind)
                    .data(event.data.to_string());
            }
            self.ready = self.play.events_after(self.seq, &self.wanted, MAX_PAGE);
            self.ready.reverse();
            if self.ready.is_empty() {
                tokio::select! {
                    biased;
                    // It cannot be closed: this stream keeps the play, which has the sender.
                    _ = self.changes.changed() => {}
                    _ = self.heartbeat.tick() => return sse::comment(),
                }
            }
        }
    }
}

fn streaming(events: impl futures_util::Stream<Item = Result<Event, Broken>> + Send + 'static) -> Response {
    let opening = stream::once(async { Ok(Event::default().comment("countersign mock")) });
    Sse::new(opening.chain(events)).into_response()
}
