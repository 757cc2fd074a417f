//! The policy in force for an agent, every value with the layer that set it (`docs/spec/http-api.md#effective-policy`).

use std::sync::Arc;

use countersign_config::{
    approvals::{document::Warning, store::DocumentStatus},
    settings::{SandboxScope, Settings, WorkspaceAccess},
};
use countersign_domain::{
    Actor, AgentId, Ask, Backend, Host, HostChoice, Isolation, OnMiss, Security, SessionKey,
};
use countersign_policy::{
    combine::Wanted,
    host::{self, Elevation, HostLayers, HostRefusal, ResolvedHost, Sandbox},
    layers::{Layer, Resolved, Spoken},
};

use crate::{
    accepted_policy::{PendingChange, PolicyInEffect},
    evaluator::{
        Evaluator,
        place::Places,
        sandbox_availability::{SandboxAvailability, mode_leaves_out},
    },
    node::NodeView,
    session::SessionState,
    watch::PolicySource,
};

/// Every value that counts for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectivePolicy {
    /// The agent that was asked about.
    pub agent: AgentId,
    /// The session whose overrides and sandbox are part of the answer.
    pub session: SessionKey,
    /// The host it was asked about, or what resolution gives.
    pub host: ResolvedHost,
    /// The node that the agent is bound to.
    pub node: Option<Resolved<String>>,
    /// The last setting or session override counts, and the document can only lower it.
    pub security: Resolved<Security>,
    /// The last setting or session override counts, and the document can only make it stricter.
    pub ask: Resolved<Ask>,
    /// What may run when nobody answers (`askFallback` of the document); never more than `security`.
    pub ask_fallback: Resolved<Security>,
    /// Whether skills are allowed by themselves.
    pub auto_allow_skills: Resolved<bool>,
    /// Whether inline evaluation always needs a person.
    pub strict_inline_eval: Resolved<bool>,
    /// Whether delegation is judged strictly.
    pub strict_delegation: Resolved<bool>,
    /// What happens to a miss.
    pub on_miss: Resolved<OnMiss>,
    /// Whether approvals apply on this host.
    pub approvals_apply: bool,
    /// Whom a command would run as.
    pub isolation: Isolation,
    /// The sandbox of the session.
    pub sandbox: SandboxState,
    /// The approvals document of this machine.
    pub document: DocumentView,
    /// The node that a call without a name would run on, where the host is one.
    pub on_node: Option<NodeView>,
    /// An edit of `openclaw.json` that does not count yet.
    pub pending_config: Option<PendingChange>,
    /// What of `countersign.toml` waits for a second person.
    pub pending_server: Option<PendingChange>,
    /// Why an edit of a settings file is not in force.
    pub config_error: Option<String>,
}

/// The approvals document as the effective policy shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentView {
    /// What it is, with reason and pointer of a refusal.
    pub status: DocumentStatus,
    /// Identifies the content that is in effect; set even without a file.
    pub hash: String,
    /// What was odd about it.
    pub warnings: Vec<Warning>,
    /// An edit of it that does not count yet.
    pub held: Option<PendingChange>,
}

impl DocumentView {
    /// The effective policy, and the pending change.
    pub(super) fn of(in_effect: &PolicyInEffect) -> Self {
        let document = &in_effect.document;
        Self {
            status: document.status.clone(),
            hash: document.hash.clone(),
            warnings: document.warnings.clone(),
            held: in_effect.pending_document.clone(),
        }
    }
}

/// Says what policy is in force for an agent.
#[derive(Debug)]
pub struct EffectivePolicies {
    policy: Arc<PolicySource>,
    sessions: Arc<SessionState>,
    places: Arc<Places>,
    evaluator: Arc<Evaluator>,
}

impl EffectivePolicies {
    /// Joins it: the policy, what sessions put on top of it, where commands run, and what asks a node.
    pub(crate) const fn new(
        policy: Arc<PolicySource>,
        sessions: Arc<SessionState>,
        places: Arc<Places>,
        evaluator: Arc<Evaluator>,
    ) -> Self {
        Self {
            policy,
            sessions,
            places,
            evaluator,
        }
    }

    /// The policy in force for an agent. `host` is the place that is asked about; without it, what resolution
    /// gives. A node is asked in the name of `asker`.
    #[crate::compiled_once]
    pub async fn of(
        &self,
        asker: &Actor,
        agent: &AgentId,
        host: Option<Host>,
        session: &SessionKey,
    ) -> EffectivePolicy {
        let in_effect = self.policy.refresh();
        let now = self.policy.now();
        let availability = self.places.sandbox_availability(agent, now.settings()).await;
        let sandbox = SandboxState::of(&availability, agent, session, now.settings());
        let policy = &now.settings().policy;
        let asked = self.sessions.asked_by_session(agent, session, &now);
        let mut resolved = resolved_host(
            &policy.host(agent),
            asked.host(policy, agent),
            availability.of_session(agent, session, now.settings()),
        );
        if let Some(host) = host {
            resolved.put_on_top(Spoken::new(Layer::Call, "call", host));
        }
        let host = resolved;
        let (now, on_node) = if host.value == Host::Node {
            let (now, node) = Box::pin(self.evaluator.inspect_node(asker, agent, asked.node(), now)).await;
            (now, Some(node))
        } else {
            (now, None)
        };
        let policy = &now.settings().policy;
        let effective = now.effective(agent, asked.wishes(Wanted::default()));
        let exec = policy.exec(agent);
        let mut node = policy.node(agent);
        node.extend(
            asked
                .node()
                .map(|node| Spoken::new(Layer::Session, "session", node.to_owned())),
        );
        EffectivePolicy {
            agent: agent.clone(),
            session: session.clone(),
            approvals_apply: host.value != Host::Sandbox,
            isolation: match host.value {
                Host::Sandbox => Isolation::Sandbox,
                Host::Node => Isolation::Node,
                Host::Gateway => self.places.isolation_of(agent, now.settings()),
            },
            sandbox,
            host,
            node: node.last().map(|said| Resolved {
                value: said.value.clone(),
                source: said.source.clone(),
                layers: node.clone(),
            }),
            security: effective.security,
            ask: effective.ask,
            ask_fallback: effective.ask_fallback,
            auto_allow_skills: effective.auto_allow_skills,
            strict_inline_eval: exec.strict_inline_eval.clone(),
            strict_delegation: exec.strict_delegation.clone(),
            on_miss: exec.on_miss.clone(),
            document: DocumentView::of(&in_effect),
            on_node,
            pending_config: in_effect.pending_config.clone(),
            pending_server: in_effect.pending_server.clone(),
            config_error: self.policy.config_error(&in_effect),
        }
    }
}

/// The sandbox that a session has, or why it has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxState {
    /// What makes it; `None` where none is active.
    pub backend: Option<Backend>,
    /// Why none is active.
    pub detail: Option<String>,
    /// Who shares it; also said where none is active.
    pub scope: SandboxScope,
    /// What it sees of the agent's workspace.
    pub workspace_access: WorkspaceAccess,
}

impl SandboxState {
    fn of(
        availability: &SandboxAvailability,
        agent: &AgentId,
        session: &SessionKey,
        settings: &Settings,
    ) -> Self {
        let sandbox = settings.policy.sandbox(agent);
        let (backend, detail) = match (mode_leaves_out(agent, session, settings), availability) {
            (Some(why), _) => (None, Some(why)),
            (None, SandboxAvailability::Usable(backend)) => (Some(*backend), None),
            (None, SandboxAvailability::Unusable(unusable)) => (None, Some(unusable.to_string())),
            (None, SandboxAvailability::Unseen) => (None, None),
        };
        Self {
            backend,
            detail,
            scope: sandbox.scope,
            workspace_access: sandbox.workspace_access,
        }
    }
}

/// Where a call without a host of its own would go, also when that is a sandbox that is not there.
fn resolved_host(
    configured: &[Spoken<HostChoice>],
    session: Option<HostChoice>,
    sandbox: Sandbox,
) -> ResolvedHost {
    let resolve = |sandbox| {
        let layers = HostLayers {
            configured,
            session,
            call: None,
            sandbox,
            elevation: Elevation::None,
        };
        host::resolve_host(layers)
    };
    resolve(sandbox)
        .or_else(|_unavailable: HostRefusal| resolve(Sandbox::Active))
        .unwrap_or_else(|refusal| {
            // Without a call only a missing sandbox is refused, and the second attempt has one.
            tracing::error!(
                error = &refusal as &dyn std::error::Error,
                "a host cannot be resolved"
            );
            Resolved {
                value: Host::Sandbox,
                source: "default".to_owned(),
                layers: Vec::new(),
            }
        })
}
