//! Agents, and the policy that the approvals document has for each.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_config::approvals::document::PolicyFields;
use countersign_domain::{Ask, Security};
use countersign_engine::KnownAgent;
use countersign_wire::{page::Page, policy::AgentBody};

use super::document::tagged;

use crate::{
    caller::{Admin, AgentCaller, CallerAtAgent, Read},
    extract::{AgentScope, AtPath, IfMatch, JsonBody, QueryOf},
    list::{ListName, PageQuery},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(list))
        .routes(routes!(policy, set_policy))
}

/// What the approvals document says for an agent; what it leaves out is inherited.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = AgentPolicy)]
struct PolicyBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    security: Option<Security>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ask: Option<Ask>,
    /// The verdict when nobody answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    ask_fallback: Option<Security>,
    /// Whether the programs of skills are allowed by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_allow_skills: Option<bool>,
}

/// Agents known from configuration, approvals document and history, by name.
#[utoipa::path(
    get, path = "/v1/agents", tag = "policy", operation_id = "list_agents",
    params(PageQuery),
    responses((status = OK, body = Page<AgentBody>)),
    security(("token" = ["read"])),
)]
async fn list(
    caller: AgentCaller<Read>,
    State(state): State<AppState>,
    QueryOf(page): QueryOf<PageQuery>,
) -> Result<JsonReply<Page<AgentBody>>, Problem> {
    let agents = state.engine().records().known_agents(&caller).await?;
    Ok(JsonReply(page.cut(
        ListName::only("agents"),
        agents,
        |agent| agent.agent.as_str(),
        known,
    )?))
}

/// What the approvals document says for an agent, as written; `*` for all agents.
#[utoipa::path(
    get, path = "/v1/agents/{agentId}/policy", tag = "policy", operation_id = "get_agent_policy",
    params(("agentId" = AgentScope, Path)),
    responses(
        (status = OK, body = PolicyBody, headers(("ETag" = String, description = "The document's hash, quoted."))),
        (status = CONFLICT, description = "document-refused"),
    ),
    security(("token" = ["read"])),
)]
async fn policy(
    _caller: CallerAtAgent<Read>,
    AtPath(AgentScope(agent)): AtPath<AgentScope>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> Result<Response, Problem> {
    let found = state.policy_admin().agent_policy(&agent)?;
    Ok(tagged(PolicyBody::from(found.value), &found.hash))
}

/// Replaces what the approvals document says for an agent. What is left out is inherited from then on.
#[utoipa::path(
    put, path = "/v1/agents/{agentId}/policy", tag = "policy", operation_id = "set_agent_policy",
    params(
        ("agentId" = AgentScope, Path),
        ("If-Match" = Option<IfMatch>, Header, description = "The `ETag` of the policy that is replaced."),
    ),
    request_body = PolicyBody,
    responses(
        (status = OK, body = PolicyBody, headers(("ETag" = String, description = "The document's new hash, quoted."))),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = PRECONDITION_FAILED, description = "base-hash-mismatch"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn set_policy(
    caller: CallerAtAgent<Admin>,
    AtPath(AgentScope(agent)): AtPath<AgentScope>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    if_match: IfMatch,
    JsonBody(body): JsonBody<PolicyBody>,
) -> Result<Response, Problem> {
    let set = state
        .engine()
        .policy_admin()
        .set_agent_policy(&caller.actor, &agent, if_match.optional(), body.into())
        .await?;
    Ok(tagged(PolicyBody::from(set.value), &set.hash))
}

impl From<PolicyFields> for PolicyBody {
    fn from(fields: PolicyFields) -> Self {
        let PolicyFields {
            security,
            ask,
            ask_fallback,
            auto_allow_skills,
        } = fields;
        Self {
            security,
            ask,
            ask_fallback,
            auto_allow_skills,
        }
    }
}

impl From<PolicyBody> for PolicyFields {
    fn from(body: PolicyBody) -> Self {
        let PolicyBody {
            security,
            ask,
            ask_fallback,
            auto_allow_skills,
        } = body;
        Self {
            security,
            ask,
            ask_fallback,
            auto_allow_skills,
        }
    }
}

fn known(known: KnownAgent) -> AgentBody {
    let sources = [
        ("config", known.in_config),
        ("document", known.in_document),
        ("history", known.in_history),
    ];
    let sources = sources.into_iter();
    AgentBody {
        agent_id: known.agent,
        sources: sources
            .filter_map(|(source, is_known)| is_known.then_some(source.into()))
            .collect(),
        config_path: known.config_path,
        node: known.node,
        last_seen_at_ms: known.last_seen_at,
        pending: known.pending,
    }
}
