//! Runs: what was asked, what became of it, its output.
//!
//! A handler must never show a run, or a byte of its output, before [`countersign_engine::Engine`] has found that the caller
//! may see it; the engine narrows lists likewise. Read on: `list`, `one` and `cancel` here, `output.rs` for the exact
//! bytes, [`RunBody`] for the object.

mod body;
mod follow;
mod frames;
mod output;
mod recording;
mod wait;

use axum::{Extension, extract::State};

pub(crate) use body::{ListedRun, in_list, statuses_named, with_output};
pub(crate) use frames::FramesQuery;
pub(crate) use output::{OutputQuery, of_frames as output_of_frames};
pub(crate) use recording::recording_of_frames;
pub(crate) use wait::WaitQuery;

use countersign_domain::{AgentId, Authority, Host, RunId, SessionKey, UnixMillis};
use countersign_ledger::RunFilter;
use countersign_wire::{
    page::Page,
    run::{RunBody, RunDetail},
    words::RunStatusName,
};

use crate::{
    admission::RequestSource,
    caller::{AgentCaller, ExecOrAdmin, ReadOrAskedOrOwn, ReadOrOwn},
    extract::{AtPath, EmptyBody, Moment, Parameters, QueryForm, QueryOf},
    list::{ListName, PageQuery},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    short_id,
    state::AppState,
};

const LIST: ListName<'static> = ListName::only("runs");

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(output::bytes))
        .routes(routes!(recording::recording))
        .routes(routes!(frames::frames))
        .routes(routes!(cancel))
}

/// Which runs are wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct RunsQuery {
    /// Only this agent's.
    agent_id: Option<AgentId>,
    /// Only this session's.
    session_key: Option<SessionKey>,
    /// Only on this host.
    host: Option<Host>,
    /// Only on this node.
    node_id: Option<String>,
    /// Only in this state.
    #[param(value_type = Option<RunStatusName>)]
    status: Option<String>,
    /// Created then or later.
    since: Option<Moment>,
    /// Created before then.
    until: Option<Moment>,
    /// Text that the command contains.
    q: Option<String>,
    /// On a terminal, or not.
    pty: Option<bool>,
    #[param(ignore)]
    page: PageQuery,
}

impl QueryForm for RunsQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            agent_id: parameters.value("agentId")?,
            session_key: parameters.value("sessionKey")?,
            host: parameters.value("host")?,
            node_id: parameters.text("nodeId")?,
            status: parameters.text("status")?,
            since: parameters.value("since")?,
            until: parameters.value("until")?,
            q: parameters.text("q")?,
            pty: parameters.value("pty")?,
            page: PageQuery::read(parameters)?,
        })
    }
}

/// History, newest first. An exec token sees its own runs.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs", operation_id = "list_runs",
    params(RunsQuery, PageQuery),
    responses((status = OK, body = Page<ListedRun>)),
    security(("token" = ["read"]), ("token" = ["exec"])),
)]
async fn list(
    caller: AgentCaller<ReadOrOwn>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<RunsQuery>,
) -> Result<JsonReply<Page<ListedRun>>, Problem> {
    let RunsQuery {
        agent_id,
        session_key,
        host,
        node_id,
        status,
        since,
        until,
        q,
        pty,
        page,
    } = query;
    let filter = RunFilter {
        agent: agent_id,
        session: session_key,
        host,
        node_id,
        statuses: status
            .as_deref()
            .map(statuses_named)
            .transpose()?
            .unwrap_or_default(),
        since: since.map(UnixMillis::from),
        until: until.map(UnixMillis::from),
        id_part: None,
        query: q,
        pty,
        // The engine narrows it to what the caller may see.
        owner: None,
        authority: Authority::EVERYTHING,
    };
    let view = page.view;
    let runs = state
        .engine()
        .records()
        .runs(&caller, filter, page.page(LIST)?)
        .await?;
    Ok(JsonReply(LIST.page(runs, |run| in_list(run, view))))
}

/// One run with its output as text. An exec token sees its own runs, an approve token those it is asked about.
///
/// With `waitMs` the answer comes when the run has ended, or with `until=decided` when no person is asked any more; at the end
/// of the wait it is the run as it is. A wait counts as an event stream of its token. It ends at once with 401 when the
/// token ends, and with the run as it is when the server stops.
#[utoipa::path(
    get, path = "/v1/runs/{runId}", tag = "runs", operation_id = "get_run",
    params(("runId" = RunId, Path), WaitQuery),
    responses(
        (status = OK, body = RunDetail),
        (status = SERVICE_UNAVAILABLE, description = "overloaded: too many waits and streams; storage-unavailable"),
    ),
    security(("token" = ["read"]), ("token" = ["exec"]), ("token" = ["approve"])),
)]
async fn one(
    caller: AgentCaller<ReadOrAskedOrOwn>,
    AtPath(id): AtPath<RunId>,
    Extension(origin): Extension<RequestSource>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<WaitQuery>,
) -> Result<JsonReply<RunDetail>, Problem> {
    let id = short_id::run(&state, &caller, id).await?;
    let run = wait::run(&state, (&caller, &origin), &id, query).await?;
    let records = state.engine().records();
    let output = records.output_text(&run).await?;
    let ruling = records.ruling_on(&run).await?;
    Ok(JsonReply(with_output(run, output, ruling)))
}

/// Kills a run, or cancels its pending approval. An exec token can cancel its own runs.
#[utoipa::path(
    post, path = "/v1/runs/{runId}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("runId" = RunId, Path)),
    responses((status = OK, body = RunBody), (status = CONFLICT, description = "run-ended, id-ambiguous")),
    security(("token" = ["exec"]), ("token" = ["admin"])),
)]
async fn cancel(
    caller: AgentCaller<ExecOrAdmin>,
    AtPath(id): AtPath<RunId>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    EmptyBody: EmptyBody,
) -> Result<JsonReply<RunBody>, Problem> {
    let id = short_id::run(&state, &caller, id).await?;
    let run = state.engine().cancels().cancel(&caller, &id).await?;
    Ok(JsonReply(run.into()))
}
