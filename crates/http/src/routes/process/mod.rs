//! Process sessions: what goes on in the background, its output, its input, its end.
//!
//! A handler must never give out a session on its own: [`countersign_engine::Engine`] looks whose it is, and whether the
//! agent may use the tool. A stream must never send a frame after its token was revoked. Read on: `act` does what the
//! process tool can do, `request.rs` and `answer.rs` are its forms, `stream.rs` sends the output as it comes.

mod answer;
mod request;
pub(crate) mod stream;

use axum::extract::State;

pub(in crate::routes) use answer::process_answer;
use answer::session_body;
pub(in crate::routes) use request::ProcessBody;

use countersign_domain::{AgentId, ProcessStatus};
use countersign_wire::{
    page::Page,
    process::{ProcessAnswer, SessionBody},
};

use crate::{
    caller::{AgentCaller, Exec, ReadOrOwn},
    deprecation::DeprecationHeaders,
    extract::{AtPath, JsonBody, Parameters, ProcessSessionName, QueryForm, QueryOf},
    list::{ListName, PageQuery},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

const LIST: ListName<'static> = ListName::only("process");

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(act, list))
        .routes(routes!(one))
        .routes(routes!(stream::output))
}

/// Does something with the process sessions of an agent: `list`, `poll`, `log`, `write`, `send-keys`, `submit`, `paste`,
/// `resize`, `kill`, `clear` or `remove`.
///
/// `poll` gives the output since the last poll of this token and can wait for some. `write` with `eof` closes the
/// standard input. `kill` ends the command with everything that it started, `clear` forgets a session that has ended,
/// `remove` does what of both is needed.
#[utoipa::path(
    post, path = "/v1/process", tag = "process", operation_id = "process",
    request_body = ProcessBody,
    responses(
        (status = OK, body = ProcessAnswer),
        (status = BAD_REQUEST, description = "invalid-request; also input for a session without an open standard input"),
        (status = FORBIDDEN, description = "forbidden, tool-denied"),
        (status = NOT_FOUND, description = "not-found: the agent has no such session"),
        (status = CONFLICT, description = "session-ended, input-closed"),
        (status = SERVICE_UNAVAILABLE, description = "overloaded: the command does not read its input, and nothing was written; storage-unavailable"),
    ),
    security(("token" = ["exec"])),
)]
async fn act(
    caller: AgentCaller<Exec>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(body): JsonBody<ProcessBody>,
) -> Result<(DeprecationHeaders, JsonReply<ProcessAnswer>), Problem> {
    let deprecated = DeprecationHeaders(body.deprecated());
    let reply = state
        .engine()
        .processes()
        .call(&caller, body.into_call()?)
        .await?;
    Ok((deprecated, JsonReply(process_answer(reply))))
}

/// Which sessions are wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct SessionsQuery {
    /// Only this agent's; for a token with only `exec`, `main` unless given.
    agent_id: Option<AgentId>,
    /// Only those that stand like this.
    status: Option<ProcessStatus>,
    #[param(ignore)]
    page: PageQuery,
}

impl QueryForm for SessionsQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            agent_id: parameters.value("agentId")?,
            status: parameters.value("status")?,
            page: PageQuery::read(parameters)?,
        })
    }
}

/// Process sessions, newest first. A token with only `exec` sees those of one agent.
#[utoipa::path(
    get, path = "/v1/process", tag = "process", operation_id = "list_process_sessions",
    params(SessionsQuery, PageQuery),
    responses(
        (status = OK, body = Page<SessionBody>),
        (status = FORBIDDEN, description = "forbidden, tool-denied"),
    ),
    security(("token" = ["exec"]), ("token" = ["read"])),
)]
async fn list(
    caller: AgentCaller<ReadOrOwn>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<SessionsQuery>,
) -> Result<JsonReply<Page<SessionBody>>, Problem> {
    let SessionsQuery {
        agent_id,
        status,
        page,
    } = query;
    let page = page.page(LIST)?;
    let sessions = state
        .engine()
        .processes()
        .sessions(&caller, agent_id, status, page)
        .await?;
    Ok(JsonReply(LIST.page(sessions, session_body)))
}

/// Whose session is wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct OwnerQuery {
    /// Only if it is this agent's; for a token with only `exec`, `main` unless given.
    agent_id: Option<AgentId>,
}

impl QueryForm for OwnerQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            agent_id: parameters.value("agentId")?,
        })
    }
}

/// One process session.
#[utoipa::path(
    get, path = "/v1/process/{sessionId}", tag = "process", operation_id = "get_process_session",
    params(("sessionId" = ProcessSessionName, Path), OwnerQuery),
    responses(
        (status = OK, body = SessionBody),
        (status = FORBIDDEN, description = "forbidden, tool-denied"),
    ),
    security(("token" = ["exec"]), ("token" = ["read"])),
)]
async fn one(
    caller: AgentCaller<ReadOrOwn>,
    AtPath(id): AtPath<ProcessSessionName>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<OwnerQuery>,
) -> Result<JsonReply<SessionBody>, Problem> {
    let session = state
        .engine()
        .processes()
        .session(&caller, query.agent_id, id.as_str())
        .await?;
    Ok(JsonReply(session_body(session)))
}
