//! Agents.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{AgentId, UnixMillis};

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
