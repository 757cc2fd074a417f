//! Agents that are muted for a while: what they would have to be asked about is denied, and nothing else changes.

use axum::{extract::State, http::StatusCode};

use countersign_engine::mutes::MutedAgent;
use countersign_wire::{
    mute::{AgentMuteBody, MuteAgentBody},
    page::Page,
};

use super::allowlist::check_note;
use crate::{
    caller::{Admin, AgentCaller, Approve, CallerAtAgent, ReadOrApprove},
    extract::{AgentScope, AtPath, JsonBody, QueryOf},
    list::{ListName, PageQuery},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(list))
        .routes(routes!(mute, unmute))
}

/// The agents that are muted now, by name, with who muted each and until when.
#[utoipa::path(
    get, path = "/v1/mutes", tag = "approvals", operation_id = "list_mutes",
    params(PageQuery),
    responses((status = OK, body = Page<AgentMuteBody>), (status = CONFLICT, description = "document-refused")),
    security(("token" = ["read"]), ("token" = ["approve"])),
)]
async fn list(
    caller: AgentCaller<ReadOrApprove>,
    State(state): State<AppState>,
    QueryOf(page): QueryOf<PageQuery>,
) -> Result<JsonReply<Page<AgentMuteBody>>, Problem> {
    let muted = state.engine().mutes().list(&caller)?;
    Ok(JsonReply(page.cut(
        ListName::only("mutes"),
        muted,
        |muted| muted.agent.as_str(),
        body,
    )?))
}

/// Mutes an agent: until then each of its commands that would be asked about is denied (`agent-muted`), and so are its questions
/// that wait. What runs without a question goes on. One that is muted for longer stays so, and that is answered. It narrows, so
/// that it takes what an answer for the agent takes; the token that asked one of its waiting questions cannot do it.
#[utoipa::path(
    put, path = "/v1/agents/{agentId}/mute", tag = "approvals", operation_id = "mute_agent",
    params(("agentId" = AgentScope, Path)),
    request_body = MuteAgentBody,
    responses(
        (status = OK, body = AgentMuteBody),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = UNPROCESSABLE_ENTITY, description = "decision-not-allowed: another time than within the next 30 days"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["approve"])),
)]
async fn mute(
    caller: CallerAtAgent<Approve>,
    AtPath(scope): AtPath<AgentScope>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    JsonBody(MuteAgentBody { until_ms, reason }): JsonBody<MuteAgentBody>,
) -> Result<JsonReply<AgentMuteBody>, Problem> {
    let agent = scope.agent().ok_or_else(|| {
        Problem::field(
            "agentId",
            "expected one agent; POST /v1/stop ends the questions of all",
        )
    })?;
    check_note("reason", reason.as_deref())?;
    let mutes = state.engine().mutes();
    let mute = mutes
        .mute(&caller.actor, &agent, until_ms, reason.as_deref())
        .await?;
    Ok(JsonReply(body(MutedAgent {
        agent: agent.into(),
        mute,
    })))
}

/// Lets an agent ask again before its mute ends. It loosens, as removing its deny rule does.
#[utoipa::path(
    delete, path = "/v1/agents/{agentId}/mute", tag = "approvals", operation_id = "unmute_agent",
    params(("agentId" = AgentScope, Path)),
    responses(
        (status = NO_CONTENT, description = "It is muted no more; or the file has no mute, and the one in effect goes once that edit is accepted."),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn unmute(
    caller: CallerAtAgent<Admin>,
    AtPath(AgentScope(agent)): AtPath<AgentScope>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> Result<StatusCode, Problem> {
    if state.engine().mutes().unmute(&caller.actor, &agent).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found("mute"))
    }
}

pub(super) fn body(MutedAgent { agent, mute }: MutedAgent) -> AgentMuteBody {
    AgentMuteBody {
        agent_id: agent,
        id: mute.id,
        until_ms: mute.until,
        reason: mute.reason,
        end_waits: mute.is_held,
    }
}
