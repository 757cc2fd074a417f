//! Presets: both files changed at once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::AgentId;
use countersign_policy::preset::Preset;

use crate::{
    entry::EntryWarningBody,
    words::{Ask, Security},
};

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
