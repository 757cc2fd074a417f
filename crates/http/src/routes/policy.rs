//! The policy in force, every value with the layer that set it.

use std::io;

use axum::extract::State;

use countersign_config::approvals::{document::Warning, store::DocumentStatus};
use countersign_domain::{AgentId, Host, SessionKey};
use countersign_engine::{
    accepted_policy::PendingChange,
    effective::{DocumentView, EffectivePolicy, SandboxState},
    node::NodeView,
};
use countersign_policy::changes::{Change, Changes};
use countersign_wire::{
    actor::ActorBody,
    forecast::SavedForecastBody,
    policy::{ChangeBody, DocumentBody, DocumentWarning, EffectiveBody, HeldBody, NodeBody, SandboxBody},
};

use crate::{
    caller::{self, AgentCaller, Caller, Read},
    extract::{Parameters, QueryForm, QueryOf},
    problem::{Code, Problem},
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(effective))
        .routes(routes!(forecast))
}

/// The last forecast that `countersign policy forecast --save` left in the state directory.
///
/// It says how often a person would have been asked about commands of transcripts on the server's machine, and which entries
/// would save most questions. It has no command.
#[utoipa::path(
    get, path = "/v1/policy/forecast", tag = "policy", operation_id = "get_forecast",
    responses((status = OK, body = SavedForecastBody)),
    security(("token" = ["read"])),
)]
async fn forecast(
    _caller: Caller<Read>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> JsonReply<SavedForecastBody> {
    let saved = state.policy_admin().saved_forecast().await;
    let read = saved.and_then(|saved| Ok(serde_json::from_slice(&saved)?));
    if let Err(error) = &read
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(
            error = error as &dyn std::error::Error,
            "the saved forecast cannot be read"
        );
    }
    JsonReply(SavedForecastBody { forecast: read.ok() })
}

/// Whose policy is wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct PolicyQuery {
    /// `main` unless given or told by `sessionKey`.
    #[param(value_type = Option<AgentId>)]
    agent_id: AgentId,
    /// `agent:<agentId>:main` unless given.
    #[param(value_type = Option<SessionKey>)]
    session_key: SessionKey,
    /// The host that a call resolves to, unless given.
    host: Option<Host>,
}

impl QueryForm for PolicyQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        let agent: Option<AgentId> = parameters.value("agentId")?;
        let session: Option<SessionKey> = parameters.value("sessionKey")?;
        let told = session.as_ref().and_then(SessionKey::agent);
        if let (Some(agent), Some(told)) = (&agent, &told)
            && agent != told
        {
            let detail = format!("sessionKey belongs to agent {told}, but agentId is {agent}");
            return Err(Problem::new(Code::ConfigConflict, detail));
        }
        let agent_id = agent.or(told).unwrap_or_else(AgentId::main);
        Ok(Self {
            session_key: session.unwrap_or_else(|| SessionKey::main_of(&agent_id)),
            agent_id,
            host: parameters.value("host")?,
        })
    }
}

/// Every value that counts, with the layer that set it.
#[utoipa::path(
    get, path = "/v1/policy/effective", tag = "policy", operation_id = "get_effective_policy",
    params(PolicyQuery),
    responses((status = OK, body = EffectiveBody)),
    security(("token" = ["read"])),
)]
async fn effective(
    caller: AgentCaller<Read>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<PolicyQuery>,
) -> Result<JsonReply<EffectiveBody>, Problem> {
    let PolicyQuery {
        agent_id,
        session_key,
        host,
    } = query;
    caller::expect_authority(&caller, &agent_id)?;
    let effective = state
        .engine()
        .effective_policies()
        .of(&caller.actor, &agent_id, host, &session_key)
        .await;
    let mut body = effective_body(effective);
    // The values and entries of other agents are nobody's business who is bound to some.
    if !caller.may_touch_what_is_of_no_agent() {
        let held = [
            &mut body.document.held,
            &mut body.config_held,
            &mut body.server_held,
        ];
        for held in held.into_iter().flatten() {
            held.changes.clear();
            held.more_changes = 0;
        }
    }
    Ok(JsonReply(body))
}

pub(super) fn node(view: NodeView) -> NodeBody {
    let NodeView {
        node_id,
        display_name,
        usable,
        document,
        hash,
        path,
        would_refuse,
        detail,
    } = view;
    let (document, refusal) = match document {
        None => ("unknown", None),
        Some(DocumentStatus::Missing) => ("missing", None),
        Some(DocumentStatus::Ok) => ("ok", None),
        Some(DocumentStatus::Refused(refusal)) => ("refused", Some(refusal.to_string())),
    };
    NodeBody {
        node_id,
        display_name,
        usable,
        document: document.into(),
        hash,
        path,
        would_refuse,
        detail: detail.or(refusal),
    }
}

fn sandbox(state: SandboxState) -> SandboxBody {
    let SandboxState {
        backend,
        detail,
        scope,
        workspace_access,
    } = state;
    SandboxBody {
        active: backend.is_some(),
        backend: backend.map(|backend| backend.as_str().into()),
        detail,
        scope: scope.as_str().into(),
        workspace_access: workspace_access.as_str().into(),
    }
}

fn held(edit: PendingChange) -> HeldBody {
    let PendingChange {
        hash,
        since,
        allows,
        proposed_by,
        changes: Changes { listed, omitted },
    } = edit;
    let change = |Change { what, before, after }: Change| ChangeBody { what, before, after };
    HeldBody {
        hash,
        since_ms: since.get(),
        allows,
        proposed_by: proposed_by.into_iter().map(ActorBody::from).collect(),
        changes: listed.into_iter().map(change).collect(),
        more_changes: omitted,
    }
}

fn effective_body(policy: EffectivePolicy) -> EffectiveBody {
    EffectiveBody {
        agent_id: policy.agent,
        session_key: policy.session,
        host: policy.host.into(),
        node: policy.node.map(Into::into),
        security: policy.security.into(),
        ask: policy.ask.into(),
        ask_fallback: policy.ask_fallback.into(),
        auto_allow_skills: policy.auto_allow_skills.into(),
        strict_inline_eval: policy.strict_inline_eval.into(),
        strict_delegation: policy.strict_delegation.into(),
        on_miss: policy.on_miss.into(),
        approvals_apply: policy.approvals_apply,
        isolation: policy.isolation.into(),
        sandbox: sandbox(policy.sandbox),
        document: document(policy.document),
        on_node: policy.on_node.map(node),
        config_held: policy.pending_config.map(held),
        server_held: policy.pending_server.map(held),
        config_error: policy.config_error,
    }
}

pub(super) fn document(
    DocumentView {
        status,
        hash,
        warnings,
        held: pending,
    }: DocumentView,
) -> DocumentBody {
    let (status, refusal) = match status {
        DocumentStatus::Missing => ("missing", None),
        DocumentStatus::Ok => ("ok", None),
        DocumentStatus::Refused(refusal) => ("refused", Some(refusal)),
    };
    let warning = |warning: Warning| DocumentWarning {
        code: warning.code().into(),
        message: warning.to_string(),
    };
    DocumentBody {
        status: status.into(),
        reason: refusal.as_ref().map(|refusal| refusal.reason.to_string()),
        pointer: refusal.map(|refusal| refusal.pointer),
        hash,
        held: pending.map(held),
        warnings: warnings.into_iter().map(warning).collect(),
    }
}
