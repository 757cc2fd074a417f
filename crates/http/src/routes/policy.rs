//! The policy in force, every value with the layer that set it.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use countersign_config::{
    approvals::{document::Warning, store::DocumentStatus},
    settings::{SandboxScope, WorkspaceAccess},
};
use countersign_domain::{AgentId, Ask, Backend, Host, HostChoice, Isolation, OnMiss, Security, SessionKey};
use countersign_engine::{
    accepted_policy::PendingChange,
    effective::{DocumentView, EffectivePolicy, SandboxState},
    node::NodeView,
};
use countersign_policy::layers::{Layer, Resolved, Spoken};
use countersign_wire::actor::ActorBody;

use crate::{
    caller::{self, AgentCaller, Read},
    extract::{Parameters, QueryForm, QueryOf},
    problem::{Code, Problem},
    reply::JsonReply,
    state::AppState,
};

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(effective))
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
        .effective_policy(&caller.actor, &agent_id, host, &session_key)
        .await;
    Ok(JsonReply(effective.into()))
}

/// The policy in force for an agent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EffectivePolicy)]
struct EffectiveBody {
    agent_id: AgentId,
    session_key: SessionKey,
    host: ValueBody<Host, HostChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<ValueBody<String>>,
    security: ValueBody<Security>,
    ask: ValueBody<Ask>,
    ask_fallback: ValueBody<Security>,
    auto_allow_skills: ValueBody<bool>,
    strict_inline_eval: ValueBody<bool>,
    strict_delegation: ValueBody<bool>,
    on_miss: ValueBody<OnMiss>,
    /// Whether approvals apply on this host; false for the sandbox.
    approvals_apply: bool,
    /// Whom a command would run as: the level of trust, as a run shows it.
    isolation: Isolation,
    sandbox: SandboxBody,
    document: DocumentBody,
    /// The node that a call without a name would run on, where the host is `node`. What the values say holds for it only as
    /// far as its own document is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_node: Option<NodeBody>,
    /// An edit of `openclaw.json` that is held in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    config_held: Option<HeldBody>,
    /// Why an edit of a settings file is not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    config_error: Option<String>,
}

/// An effective value, and the layers that it was combined from.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyValue)]
pub(super) struct ValueBody<T, S = T> {
    value: T,
    /// The key that set it.
    source: String,
    /// Every layer that has a value, the strongest last.
    layers: Vec<LayerBody<S>>,
}

/// The value of one layer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyLayer)]
pub(super) struct LayerBody<T> {
    #[schema(value_type = String)]
    layer: Layer,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    value: T,
}

/// The node of a call, and how much of its own policy is known.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NodeOfCall)]
pub(super) struct NodeBody {
    /// Absent when no node is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// Whether it could be called at this moment.
    usable: bool,
    /// Its own approvals document: `ok`, `missing`, `refused` or `unknown`. Where it is not known, only our own layers
    /// count here, and the node refuses what it does not allow.
    #[schema(value_type = String)]
    document: &'static str,
    /// Identifies the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// Where the document lies on that machine, as the node says.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The rule of its own policy by which it would refuse the command of an explanation, as a node of ours says.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_refuse: Option<String>,
    /// Why there is no node, it cannot be called, or its document cannot be used or is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl From<NodeView> for NodeBody {
    fn from(view: NodeView) -> Self {
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
        Self {
            node_id,
            display_name,
            usable,
            document,
            hash,
            path,
            would_refuse,
            detail: detail.or(refusal),
        }
    }
}

/// The sandbox of the session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SandboxState)]
struct SandboxBody {
    /// Whether one is active for the session.
    active: bool,
    /// What makes it: `docker` or `builtin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    backend: Option<&'static str>,
    /// Why none is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Who shares it: `session`, `agent` or `shared`.
    #[schema(value_type = String)]
    scope: SandboxScope,
    /// What it sees of the agent's workspace: `none`, `ro` or `rw`.
    #[schema(value_type = String)]
    workspace_access: WorkspaceAccess,
}

impl From<SandboxState> for SandboxBody {
    fn from(state: SandboxState) -> Self {
        let SandboxState {
            backend,
            detail,
            scope,
            workspace_access,
        } = state;
        Self {
            active: backend.is_some(),
            backend: backend.map(Backend::as_str),
            detail,
            scope,
            workspace_access,
        }
    }
}

/// The approvals document of this host.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DocumentState)]
pub(super) struct DocumentBody {
    /// `ok`, `missing` or `refused`
    #[schema(value_type = String)]
    status: &'static str,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Where in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// The hash of the content that counts.
    hash: String,
    /// A change that allows more, and does not count until an admin accepts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<HeldBody>,
    warnings: Vec<DocumentWarning>,
}

/// A change that is held, being an edit from outside or one that takes a second person: what it forbids counts, what it
/// newly allows does not.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PendingEdit)]
struct HeldBody {
    /// The hash of the file as it is, with which the edit is accepted.
    hash: String,
    /// Since when something is held.
    since_ms: i64,
    /// What it would newly allow, in words.
    allows: Vec<String>,
    /// Who proposed it through this server; anybody else who is an admin can accept it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    proposed_by: Vec<ActorBody>,
}

impl From<PendingChange> for HeldBody {
    fn from(edit: PendingChange) -> Self {
        let PendingChange {
            hash,
            since,
            allows,
            proposed_by,
        } = edit;
        Self {
            hash,
            since_ms: since.get(),
            allows,
            proposed_by: proposed_by.into_iter().map(ActorBody::from).collect(),
        }
    }
}

/// Something that is odd about the document.
#[derive(Debug, Serialize, ToSchema)]
struct DocumentWarning {
    #[schema(value_type = String)]
    code: &'static str,
    message: String,
}

impl From<EffectivePolicy> for EffectiveBody {
    fn from(policy: EffectivePolicy) -> Self {
        Self {
            agent_id: policy.agent,
            session_key: policy.session,
            host: policy.host.into(),
            node: policy.node.map(ValueBody::from),
            security: policy.security.into(),
            ask: policy.ask.into(),
            ask_fallback: policy.ask_fallback.into(),
            auto_allow_skills: policy.auto_allow_skills.into(),
            strict_inline_eval: policy.strict_inline_eval.into(),
            strict_delegation: policy.strict_delegation.into(),
            on_miss: policy.on_miss.into(),
            approvals_apply: policy.approvals_apply,
            isolation: policy.isolation,
            sandbox: policy.sandbox.into(),
            document: policy.document.into(),
            on_node: policy.on_node.map(NodeBody::from),
            config_held: policy.pending_config.map(HeldBody::from),
            config_error: policy.config_error,
        }
    }
}

impl<T, S> From<Resolved<T, S>> for ValueBody<T, S> {
    fn from(
        Resolved {
            value,
            source,
            layers,
        }: Resolved<T, S>,
    ) -> Self {
        let layer_body = |Spoken { layer, source, value }| LayerBody {
            layer,
            // What is built in has no place that could be edited.
            source: (layer != Layer::Default).then_some(source),
            value,
        };
        Self {
            value,
            source,
            layers: layers.into_iter().map(layer_body).collect(),
        }
    }
}

impl From<DocumentView> for DocumentBody {
    fn from(
        DocumentView {
            status,
            hash,
            warnings,
            held,
        }: DocumentView,
    ) -> Self {
        let (status, refusal) = match status {
            DocumentStatus::Missing => ("missing", None),
            DocumentStatus::Ok => ("ok", None),
            DocumentStatus::Refused(refusal) => ("refused", Some(refusal)),
        };
        let warning = |warning: Warning| DocumentWarning {
            code: warning.code(),
            message: warning.to_string(),
        };
        Self {
            status,
            reason: refusal.as_ref().map(|refusal| refusal.reason.to_string()),
            pointer: refusal.map(|refusal| refusal.pointer),
            hash,
            held: held.map(HeldBody::from),
            warnings: warnings.into_iter().map(warning).collect(),
        }
    }
}
