//! The policy in force, every value with the layer that set it; the agents that it is for, and presets.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{AgentId, SessionKey, UnixMillis};
use countersign_policy::{
    layers::{self, Resolved, Spoken},
    preset::Preset,
};

use crate::{
    actor::ActorBody,
    entry::EntryWarningBody,
    words::{Ask, Host, HostChoice, Isolation, Layer, OnMiss, Security},
};

/// The policy in force for an agent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EffectivePolicy)]
pub struct EffectiveBody {
    pub agent_id: AgentId,
    pub session_key: SessionKey,
    pub host: ValueBody<Host, HostChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<ValueBody<String>>,
    pub security: ValueBody<Security>,
    pub ask: ValueBody<Ask>,
    pub ask_fallback: ValueBody<Security>,
    pub auto_allow_skills: ValueBody<bool>,
    pub strict_inline_eval: ValueBody<bool>,
    pub strict_delegation: ValueBody<bool>,
    pub on_miss: ValueBody<OnMiss>,
    /// Whether approvals apply on this host; false for the sandbox.
    pub approvals_apply: bool,
    /// Whom a command would run as: the level of trust, as a run shows it.
    pub isolation: Isolation,
    pub sandbox: SandboxBody,
    pub document: DocumentBody,
    /// The node that a call without a name would run on, where the host is `node`. What the values say holds for it only as
    /// far as its own document is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_node: Option<NodeBody>,
    /// An edit of `openclaw.json` that is held in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_held: Option<HeldBody>,
    /// What of `countersign.toml` waits for a second person, under `[approvals] widening = "ask"`. Once accepted it is in
    /// force after a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_held: Option<HeldBody>,
    /// Why an edit of a settings file is not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_error: Option<String>,
}

/// An effective value, and the layers that it was combined from.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PolicyValue)]
pub struct ValueBody<T, S = T> {
    pub value: T,
    /// The key that set it.
    pub source: String,
    /// Every layer that has a value, the strongest last.
    pub layers: Vec<LayerBody<S>>,
}

/// The value of one layer.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PolicyLayer)]
pub struct LayerBody<T> {
    #[schema(value_type = String)]
    pub layer: Layer,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub value: T,
}

/// The node of a call, and how much of its own policy is known.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NodeOfCall)]
pub struct NodeBody {
    /// Absent when no node is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Whether it could be called at this moment.
    pub usable: bool,
    /// Its own approvals document: `ok`, `missing`, `refused` or `unknown`. Where it is not known, only our own layers
    /// count here, and the node refuses what it does not allow.
    pub document: Cow<'static, str>,
    /// Identifies the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Where the document lies on that machine, as the node says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The rule of its own policy by which it would refuse the command of an explanation, as a node of ours says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_refuse: Option<String>,
    /// Why there is no node, it cannot be called, or its document cannot be used or is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The sandbox of the session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SandboxState)]
pub struct SandboxBody {
    /// Whether one is active for the session.
    pub active: bool,
    /// What makes it: `docker` or `builtin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Cow<'static, str>>,
    /// Why none is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Who shares it: `session`, `agent` or `shared`.
    pub scope: Cow<'static, str>,
    /// What it sees of the agent's workspace: `none`, `ro` or `rw`.
    pub workspace_access: Cow<'static, str>,
}

/// The approvals document of this host.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = DocumentState)]
pub struct DocumentBody {
    /// `ok`, `missing` or `refused`
    pub status: Cow<'static, str>,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The hash of the content that counts.
    pub hash: String,
    /// A change that allows more, and does not count until an admin accepts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldBody>,
    pub warnings: Vec<DocumentWarning>,
}

/// A change that is held, being an edit from outside or one that takes a second person: what it forbids counts, what it
/// newly allows does not.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PendingEdit)]
pub struct HeldBody {
    /// The hash of the file as it is, with which the edit is accepted.
    pub hash: String,
    /// Since when something is held.
    pub since_ms: i64,
    /// What it would newly allow, in words.
    pub allows: Vec<String>,
    /// Who proposed it through this server; anybody else who is an admin can accept it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposed_by: Vec<ActorBody>,
    /// What differs from what was accepted, setting by setting and entry by entry; at most 100. Not for a token that is
    /// bound to agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub changes: Vec<ChangeBody>,
    /// How many more differ.
    #[serde(default, skip_serializing_if = "is_none")]
    #[schema(required = false)]
    pub more_changes: u64,
}

/// A setting or entry that an edit changes, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PolicyChange)]
pub struct ChangeBody {
    /// Which one, and whose.
    pub what: String,
    /// What it was; absent where it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub before: Option<String>,
    /// What it becomes; absent where it is not there any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub after: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Something that is odd about the document.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DocumentWarning {
    pub code: Cow<'static, str>,
    pub message: String,
}

/// An agent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Agent)]
pub struct AgentBody {
    pub agent_id: AgentId,
    /// Where it is known from: `config`, `document`, `history`.
    pub sources: Vec<Cow<'static, str>>,
    /// Where `openclaw.json` has what is its own, or would have it: `agents.list[0]`, `agents.entries.build`.
    pub config_path: String,
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When it last asked for a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at_ms: Option<UnixMillis>,
    /// Its pending approvals.
    pub pending: u64,
}

/// What a preset changed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AppliedPreset)]
pub struct AppliedBody {
    pub name: Preset,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// False when everything was so already.
    pub changed: bool,
    /// Hash of the approvals document now.
    pub document_hash: String,
    /// Hash of `openclaw.json` now.
    pub config_hash: String,
    /// The agents that keep keys of their own about what the preset sets: there those count. `everyAgent` removes them.
    pub own_keys: Vec<OwnKeysBody>,
    /// What is odd about the rules that count now, by kind and number; `countersign doctor` names each.
    pub warnings: Vec<EntryWarningBody>,
}

/// An agent with keys of its own, and what they come to.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentKeys)]
pub struct OwnKeysBody {
    pub agent_id: AgentId,
    /// Its keys in `openclaw.json` and the approvals document.
    pub keys: Vec<String>,
    /// Its effective security.
    pub security: Security,
    /// Its effective ask.
    pub ask: Ask,
}

impl<T, S, V: From<T>, L: From<S>> From<Resolved<T, S>> for ValueBody<V, L> {
    fn from(
        Resolved {
            value,
            source,
            layers,
        }: Resolved<T, S>,
    ) -> Self {
        let layer_body = |Spoken { layer, source, value }: Spoken<S>| LayerBody {
            layer: layer.into(),
            // What is built in has no place that could be edited.
            source: (layer != layers::Layer::Default).then_some(source),
            value: value.into(),
        };
        Self {
            value: value.into(),
            source,
            layers: layers.into_iter().map(layer_body).collect(),
        }
    }
}
