//! The commands that run things, as they travel (`docs/spec/bridge.md#9-exec-commands`). Readers ignore members that
//! they do not know: both products add some with time.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use countersign_domain::{Ask, Security};

/// Runs a command on a node; takes [`RunParams`], answers [`RunOutcome`].
pub const SYSTEM_RUN: &str = "system.run";
/// Makes a plan of a command (present generation only); takes [`RunParams`].
pub const SYSTEM_RUN_PREPARE: &str = "system.run.prepare";
/// Finds programs of a node by name.
pub const SYSTEM_WHICH: &str = "system.which";
/// Reads the approvals document of a node.
pub const APPROVALS_GET: &str = "system.execApprovals.get";
/// Replaces the approvals document of a node.
pub const APPROVALS_SET: &str = "system.execApprovals.set";

/// What became of a run, asked after a connection was lost (nodes of ours only).
pub const RUN_STATUS: &str = "countersign.run.status";

/// A run on a node started.
pub const EXEC_STARTED: &str = "exec.started";
/// A run on a node ended, by itself or by its time limit.
pub const EXEC_FINISHED: &str = "exec.finished";
/// It was refused by the node.
pub const EXEC_DENIED: &str = "exec.denied";

/// The parameters of `system.run`; those of `system.run.prepare` are the first of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunParams {
    /// The arguments, the program first.
    pub command: Vec<String>,
    /// The text that they were made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_command: Option<String>,
    /// Working directory on the node; `None` or empty leaves it to the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Overrides of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Time limit; none for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    /// Refused on a node without a screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_screen_recording: Option<bool>,
    /// Agent whose policy decides; nodes of ours take that of the session for `None`, else `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Whose session hears of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Whether it was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// How; other words than the two are nothing.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "known_or_nothing"
    )]
    pub approval_decision: Option<RunApproval>,
    /// Who says so (present generation only).
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "known_or_nothing"
    )]
    pub approval_source: Option<ApprovalSource>,
    /// The gateway's id of the run, which events repeat; nodes of ours take the call's id for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The plan that was approved (present generation only), as the node made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_run_plan: Option<Value>,
    /// Whether the end stays unannounced; nodes of ours only repeat it in events (present generation only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_notify_on_exit: Option<bool>,
    /// Between two of ours: it is refused after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after_ms: Option<i64>,
}

impl RunParams {
    /// As they are sent.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// How a run was approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunApproval {
    /// It covers this run alone.
    AllowOnce,
    /// It covers this run, and the node is to remember it.
    AllowAlways,
}

/// Who approved a run other than a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalSource {
    /// Nobody could be asked, and the fallback allows it.
    AskFallback,
    /// A program reviewed it; nodes of ours give that no weight.
    AutoReview,
}

/// What came of a run, also of one that failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOutcome {
    /// Its exit code; none after a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Whether the time limit ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// Whether it exited with 0.
    pub success: bool,
    /// The first of what it wrote.
    #[serde(default)]
    pub stdout: Option<String>,
    /// The same for errors.
    #[serde(default)]
    pub stderr: Option<String>,
    /// Why it did not start.
    #[serde(default)]
    pub error: Option<String>,
    /// The signal that ended it, such as `SIGKILL` (nodes of ours only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

impl RunOutcome {
    /// As it is sent.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// A plan, as far as both sides go by it. What else a node puts in must come back too, so senders keep the value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPlan {
    /// The arguments, the program's real path first.
    pub argv: Vec<String>,
    /// Working directory; nodes of ours compare it with that of the run, `None` included.
    pub cwd: Option<String>,
    /// The arguments as one text, in the form of `format_argv`; nodes compare it with that of the run.
    pub command_text: String,
    /// The `agentId` that prepared it; a run with another one is refused.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// The `sessionKey` that prepared it; a run with another one is refused.
    #[serde(default)]
    pub session_key: Option<String>,
    /// The script that it runs, and what it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutable_file_operand: Option<MutableFileOperand>,
    /// The policy at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_snapshot: Option<Value>,
}

impl RunPlan {
    /// Security and ask of the node when it made the plan; `None` where the snapshot of its policy does not say both.
    pub fn policy(&self) -> Option<(Security, Ask)> {
        let snapshot = self.policy_snapshot.as_ref()?;
        let word = |name: &str| snapshot.get(name).and_then(Value::as_str);
        Some((word("security")?.parse().ok()?, word("ask")?.parse().ok()?))
    }
}

/// A script that a plan runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MutableFileOperand {
    /// Which of the plan's `argv` names it, from 0.
    pub argv_index: u32,
    /// Where it lies on the node.
    pub path: String,
    /// Its SHA-256, lower-case hexadecimal.
    pub sha256: String,
}

/// The payload of `exec.started`, `exec.finished` and `exec.denied`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecNews {
    /// Whose session hears of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// The `runId` of the call, or the node's own id where the call had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Always `node` from the products and from nodes of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The command as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Exit code; `None` after a signal. The present generation sends 124 after its time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Whether the time limit ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<bool>,
    /// Whether it exited with 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// The last of what it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// As the call had it (present generation only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_notify_on_exit: Option<bool>,
}

/// A value of a closed vocabulary; words outside of it count as nothing, as in both products.
fn known_or_nothing<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: for<'a> Deserialize<'a>,
{
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).ok())
}
