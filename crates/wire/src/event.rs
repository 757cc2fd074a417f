//! What the command line reads of events. `countersign_ledger` writes them, as the record has them.

use serde::Deserialize;

use crate::actor::ActorBody;

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
