//! Agents that are muted for a while.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{EntryId, UnixMillis};

/// An agent that is muted: what it would have to be asked about is denied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentMute)]
pub struct AgentMuteBody {
    /// `*` where an edit of the approvals document mutes every agent.
    pub agent_id: String,
    /// The deny rule of the agent that does it.
    pub id: EntryId,
    /// It ends at this instant.
    pub until_ms: UnixMillis,
    /// Who muted it and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub reason: Option<String>,
    /// Its end waits to be accepted: the approvals document has it no more, and until an admin accepts that edit it stays in
    /// effect. Absent where nothing waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub end_waits: bool,
}

/// Mutes an agent.
#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = MuteAgent)]
pub struct MuteAgentBody {
    /// It ends at this instant, at most 30 days from now.
    pub until_ms: UnixMillis,
    /// Why, in their words; the agent sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false, max_length = 1000)]
    pub reason: Option<String>,
}
