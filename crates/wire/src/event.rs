//! What the command line reads of events. `countersign_ledger` writes them, as the record has them.

use serde::Deserialize;
use serde_json::{Map, Value};

use countersign_domain::UnixMillis;

use crate::actor::ActorBody;

/// Any event. Those that are not retained, such as output, may have no number.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EventBody {
    pub seq: Option<i64>,
    pub ts: Option<UnixMillis>,
    /// The same as `ts`.
    #[serde(rename = "atMs")]
    pub at_ms: Option<UnixMillis>,
    pub r#type: String,
    /// What it has apart from that, depending on its type.
    #[serde(flatten)]
    pub members: Map<String, Value>,
}

/// An event about a run.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunEvent {
    pub r#type: String,
    pub ts: Option<UnixMillis>,
    pub run_id: String,
}

/// The events `exec.approval.requested`, `exec.approval.voted` and `exec.approval.resolved`: each has some of these.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApprovalEvent {
    pub r#type: String,
    pub approval_id: String,
    pub agent_id: String,
    pub host: String,
    pub command: String,
    pub status: String,
    pub decision: String,
    pub by: Option<ActorBody>,
    pub resolved_by: Option<ActorBody>,
    pub votes: u64,
    pub approvals_required: u64,
}
