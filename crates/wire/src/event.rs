//! What the command line reads of events, and what a list shows of one. `countersign_ledger` writes them, as the record has them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use countersign_domain::{AgentId, ApprovalId, RunId, SessionKey, UnixMillis};

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

/// The members of an event that [`EventBriefBody`] has as they are.
pub const BRIEF_MEMBERS: [&str; 13] = [
    "seq",
    "ts",
    "atMs",
    "type",
    "runId",
    "approvalId",
    "agentId",
    "sessionKey",
    "host",
    "nodeId",
    "status",
    "decision",
    "exitCode",
];

/// What a list shows of an event. All of it: the same list without `view`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EventBrief)]
pub struct EventBriefBody {
    /// Its number in the log.
    pub seq: i64,
    pub at_ms: UnixMillis,
    /// The same as `atMs`.
    #[schema(deprecated)]
    pub ts: UnixMillis,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<SessionKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// How the run or the question ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The command on one line with secrets masked: at most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Whether something of the command is left out of `line`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Why, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
