//! Events: a stream, or one page of the retained log.

use std::{borrow::Cow, sync::Arc};

use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde_json::{Value, value::RawValue};

use countersign_domain::{AgentId, IdPart, Principal, RunId, Scope, SessionKey, TokenId, UnixMillis};
use countersign_engine::{Presence, hint::hint};
use countersign_ledger::{
    EventOrder, EventWindow,
    events::{EventFilter, Publication, Start},
};
use countersign_wire::{
    approval::ApprovalView,
    event::{BRIEF_MEMBERS, EventBriefBody},
    page::Page,
    sentence,
};

use crate::{
    accept::Accepted,
    admission::RequestSource,
    caller::{AgentCaller, ReadOrOwn},
    deprecation::{Deprecated, DeprecationHeaders},
    extract::{Moment, Parameters, QueryForm, QueryOf},
    list::Order,
    openapi::Event,
    problem::{Code, Problem},
    reply::JsonReply,
    route_table::{RouteTable, routes},
    short_id,
    sse::{self, Held, StillOpen},
    state::AppState,
};

const DEFAULT_PAGE: usize = 50;

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(events))
}

/// Which events are wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct EventsQuery {
    /// Comma-separated beginnings of event types.
    #[param(pattern = r"^[^,\s]+(,[^,\s]+)*$")]
    types: Option<String>,
    /// Only this agent's.
    agent_id: Option<AgentId>,
    /// Only this session's.
    session_key: Option<SessionKey>,
    /// Only this run's: its id, or a unique beginning or end of it of 8 characters or more.
    run_id: Option<RunId>,
    /// Whether output is streamed as it comes.
    output: Option<bool>,
    /// Whether a person answers where this stream is read: then questions wait instead of going to `askFallback`. `true`
    /// needs scope `approve`. Say `false` with a token that has the scope and where nobody answers; only for a stream.
    approver: Option<bool>,
    /// Number of the last event that is known; `Last-Event-ID` says the same.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// Of then or later. A stream begins with the first of them.
    since: Option<Moment>,
    /// Of before then; only with `Accept: application/json`.
    until: Option<Moment>,
    /// `oldest` first unless given, or `newest`; only with `Accept: application/json`.
    #[param(value_type = Option<String>, pattern = "^(oldest|newest)$")]
    order: Option<Order>,
    /// Events on a page; only with `Accept: application/json`.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `nextCursor` of the page before; only with `Accept: application/json`.
    cursor: Option<i64>,
    /// How much of each event: `full` unless given, or `brief`, what a list shows of it; only with `Accept: application/json`.
    view: Option<ApprovalView>,
}

impl QueryForm for EventsQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            types: parameters.text("types")?,
            agent_id: parameters.value("agentId")?,
            session_key: parameters.value("sessionKey")?,
            run_id: parameters.value("runId")?,
            output: parameters.value("output")?,
            approver: parameters.value("approver")?,
            after: parameters
                .value("after")?
                .map(|after| position("after", after))
                .transpose()?,
            since: parameters.value("since")?,
            until: parameters.value("until")?,
            order: parameters.value("order")?,
            limit: parameters.value("limit")?.map(limit).transpose()?,
            cursor: parameters
                .value("cursor")?
                .map(|cursor| position("cursor", cursor))
                .transpose()?,
            view: parameters.value("view")?,
        })
    }
}

/// An event on a page: all of it, or what a list shows of it (`view`). Only its schema: events are sent as they were written.
#[derive(Debug, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a schema")]
enum ListedEvent {
    Full(Event),
    Brief(Box<EventBriefBody>),
}

fn position(name: &str, seq: i64) -> Result<i64, Problem> {
    (seq >= 0)
        .then_some(seq)
        .ok_or_else(|| Problem::field(name, "expected the number of an event"))
}

fn limit(limit: usize) -> Result<usize, Problem> {
    let allowed = (1..=500).contains(&limit);
    allowed
        .then_some(limit)
        .ok_or_else(|| Problem::field("limit", "expected a number from 1 to 500"))
}

/// What happens, as it happens; or one page of what happened.
///
/// Streams server-sent events. `Last-Event-ID` (or `after`) resumes without loss or repetition; when that is
/// too old the first event is `events.gap`. With `Accept: application/json` one page of the retained log is
/// answered instead. An exec token sees the events of its own runs.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "get_events",
    params(EventsQuery, ("Last-Event-ID" = Option<i64>, Header, minimum = 0, description = "Number of the last event that is known; wins over `after`.")),
    responses(
        (status = OK, description = "A stream, or a page.", content(
            (String = "text/event-stream"),
            (Page<ListedEvent> = "application/json"),
        )),
        (status = NOT_FOUND, description = "not-found: no run has this part of an id"),
        (status = CONFLICT, description = "id-ambiguous"),
        (status = NOT_ACCEPTABLE, description = "not-acceptable"),
        (status = SERVICE_UNAVAILABLE, description = "overloaded: too many streams"),
    ),
    security(("token" = ["read"]), ("token" = ["exec"])),
)]
async fn events(
    caller: AgentCaller<ReadOrOwn>,
    Extension(origin): Extension<RequestSource>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = match query.run_id.clone() {
        Some(id) => Some(named_run(&state, &caller, id).await?),
        None => None,
    };
    let filter = query.filter(&caller, run)?;
    let known = last_event_id(&headers)?.or(query.after);
    match wanted(&headers)? {
        Wanted::Page if query.approver.is_some() => {
            Err(Problem::field("approver", "only with Accept: text/event-stream"))
        }
        Wanted::Page => page(&state, filter, &query, known).await,
        Wanted::Stream => {
            let start = start(&state, &query, known).await?;
            let still_open = sse::still_open(&state, origin);
            let presence = presence(&caller, query.approver)?;
            let deprecated = (presence == Presence::Presumed).then_some(Deprecated::UndeclaredApprover);
            let answer = stream(&state, (filter, start), still_open, (&caller, presence)).await?;
            Ok((DeprecationHeaders(deprecated), answer).into_response())
        }
    }
}

async fn page(
    state: &AppState,
    filter: EventFilter,
    query: &EventsQuery,
    known: Option<i64>,
) -> Result<Response, Problem> {
    let order = match query.order {
        Some(Order::Newest) => EventOrder::NewestFirst,
        Some(Order::Oldest) | None => EventOrder::OldestFirst,
    };
    let known = known.unwrap_or(0);
    let (after, before) = match order {
        EventOrder::OldestFirst => (query.cursor.unwrap_or(known), None),
        EventOrder::NewestFirst => (known, query.cursor),
    };
    let window = EventWindow {
        after,
        before,
        since: query.since.map(UnixMillis::from),
        until: query.until.map(UnixMillis::from),
        order,
    };
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    let (events, next) = state.engine().ledger().events(window, filter, limit).await?;
    let view = query.view.unwrap_or_default();
    let raw = |event: &Arc<Publication>| match view {
        ApprovalView::Full => raw(&state.links().on_event(event), event.seq),
        ApprovalView::Brief => raw(&brief(&event.data), event.seq),
    };
    let items = events.iter().map(raw).collect::<Result<Vec<_>, _>>()?;
    let next_cursor = next.map(|seq| seq.to_string());
    Ok(JsonReply(Page { items, next_cursor }).into_response())
}

/// What a list shows of an event. What is no object stays as it is, for [`raw`] to refuse.
fn brief(data: &str) -> Cow<'_, str> {
    match serde_json::from_str(data) {
        Ok(event @ Value::Object(_)) => Cow::Owned(brief_event(event).to_string()),
        Ok(_) | Err(_) => Cow::Borrowed(data),
    }
}

/// The same of an event that is at hand.
pub(crate) fn brief_event(event: Value) -> Value {
    let Value::Object(mut members) = event else {
        return event;
    };
    let command = members.shift_remove("command");
    let reason = members.shift_remove("reason");
    members.retain(|name, _| BRIEF_MEMBERS.contains(&name.as_str()));
    if let Some(Value::String(command)) = command {
        let (line, truncated) = sentence::command_line(&command);
        members.insert("line".to_owned(), line.into());
        members.insert("truncated".to_owned(), truncated.into());
    }
    if let Some(Value::String(reason)) = reason {
        members.insert("reason".to_owned(), sentence::one_line(&reason).into());
    }
    Value::Object(members)
}

/// The text itself: it was written as JSON once.
fn raw(data: &str, seq: Option<i64>) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(data.to_owned()).map_err(|error| {
        tracing::error!(%error, seq, "a stored event is no JSON");
        Problem::internal()
    })
}

async fn start(state: &AppState, query: &EventsQuery, known: Option<i64>) -> Result<Start, Problem> {
    for (name, given) in [
        ("until", query.until.is_some()),
        ("order", query.order.is_some()),
        ("limit", query.limit.is_some()),
        ("cursor", query.cursor.is_some()),
        ("view", query.view.is_some()),
    ] {
        if given {
            return Err(Problem::field(name, "only with Accept: application/json"));
        }
    }
    // What is known says more exactly where to go on, and what of it is gone is told.
    let since = match query.since {
        Some(since) if known.is_none() => Some(state.engine().ledger().events_until(since.into()).await?),
        Some(_) | None => None,
    };
    Ok(match known.or(since) {
        Some(seq) => Start::After(seq),
        None => Start::Now,
    })
}

/// Whether a person answers where a stream is read.
fn presence(caller: &Principal, said: Option<bool>) -> Result<Presence, Problem> {
    match (said, caller.has(Scope::Approve)) {
        (Some(true), true) => Ok(Presence::Declared),
        (Some(true), false) => Err(Problem::new(
            Code::Forbidden,
            "approver=true needs a token with scope approve; leave it out to read events",
        )
        .with_hint(Some(hint(&[
            "token",
            "create",
            "NAME",
            "--scope",
            "read,approve",
        ])))),
        (None, true) => Ok(Presence::Presumed),
        (Some(false), _) | (None, false) => Ok(Presence::Absent),
    }
}

async fn stream(
    state: &AppState,
    (filter, start): (EventFilter, Start),
    still_open: StillOpen,
    (caller, presence): (&Principal, Presence),
) -> Result<Response, Problem> {
    let mut held: Vec<Held> = vec![Box::new(state.take_stream_place(caller)?)];
    if presence != Presence::Absent {
        held.push(Box::new(state.engine().approvers().connected()));
    }
    if caller.has(Scope::Approve) {
        state.engine().approvers().note_presence(caller, presence).await;
    }
    let subscription = state.engine().ledger().subscribe(filter, start);
    let clock = Arc::clone(state.engine().clock());
    Ok(sse::response(
        (subscription, Arc::clone(state.frames())),
        clock,
        state.stopping(),
        still_open,
        held,
    ))
}

impl EventsQuery {
    fn filter(&self, caller: &Principal, run: Option<RunId>) -> Result<EventFilter, Problem> {
        let mut filter = EventFilter::default();
        filter.agent.clone_from(&self.agent_id);
        filter.session.clone_from(&self.session_key);
        filter.run_id = run;
        filter.owner = owner(caller)?;
        filter.authority.clone_from(&caller.authority);
        filter.output = self.output.unwrap_or_default();
        match &self.types {
            None => Ok(filter),
            Some(types) => filter
                .with_types(types)
                .map_err(|invalid| Problem::field("types", invalid.to_string())),
        }
    }
}

/// The run that the query names, as a path names it. An id in full stands for itself: events may be there longer than the run, and
/// a stream before it.
async fn named_run(state: &AppState, caller: &Principal, id: RunId) -> Result<RunId, Problem> {
    if IdPart::of(id.as_str()).is_none() {
        return Ok(id);
    }
    let run = short_id::run(state, caller, id).await?;
    match state.engine().records().run(caller, &run).await? {
        Some(_) => Ok(run),
        None => Err(Problem::unknown_run()),
    }
}

/// Whose events alone a caller may see; `None` with scope read, which sees all.
fn owner(caller: &Principal) -> Result<Option<TokenId>, Problem> {
    if caller.has(Scope::Read) {
        return Ok(None);
    }
    caller.actor.token().map(Some).ok_or_else(|| {
        tracing::error!("a caller with exec uses no token's rights");
        Problem::internal()
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Stream,
    Page,
}

/// A stream, unless the request names JSON and no stream.
fn wanted(headers: &HeaderMap) -> Result<Wanted, Problem> {
    let accepted = Accepted::of(headers);
    let names = |range| accepted.names(range);
    if accepted.is_silent() || names("text/event-stream") {
        Ok(Wanted::Stream)
    } else if names("application/json") {
        Ok(Wanted::Page)
    } else if accepted.takes("text/event-stream") {
        Ok(Wanted::Stream)
    } else if accepted.takes("application/json") {
        Ok(Wanted::Page)
    } else {
        Err(Problem::new(
            Code::NotAcceptable,
            "there is text/event-stream and application/json",
        ))
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let seq = value
        .to_str()
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|seq| *seq >= 0);
    seq.map(Some)
        .ok_or_else(|| Problem::field("Last-Event-ID", "expected the number of an event"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(values: &[&str]) -> Option<Wanted> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(axum::http::header::ACCEPT, value.parse().unwrap());
        }
        wanted(&headers).ok()
    }

    #[test]
    fn a_stream_unless_json_is_named() {
        for stream in [
            &[][..],
            &["*/*"],
            &["text/event-stream"],
            &["application/json, text/event-stream"],
            &["text/*"],
        ] {
            assert_eq!(accepted(stream), Some(Wanted::Stream), "{stream:?}");
        }
        for page in [
            &["application/json"][..],
            &["Application/JSON;q=0.9, */*"],
            &["text/html", "application/json"],
            &["text/event-stream;q=0, */*"],
            &["application/*"],
        ] {
            assert_eq!(accepted(page), Some(Wanted::Page), "{page:?}");
        }
        assert_eq!(accepted(&["text/html"]), None);
        assert_eq!(accepted(&["*/*;q=0"]), None);
    }
}
