//! What an exec call answers (`docs/spec/http-api.md#post-v1exec-answers`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{ApprovalId, RunId, UnixMillis};

use crate::{
    ruling::RulingBody,
    words::{Host, Reason},
};

/// An exec answer as it is read: 200 and 202 are told apart by their members.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Answered {
    Started(Started),
    Finished(Finished),
}

/// A run that ended while the caller waited.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExecFinished)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "members of the answer, each with its own meaning"
)]
pub struct Finished {
    pub run_id: RunId,
    pub status: Cow<'static, str>,
    pub host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<String>,
    pub timed_out: bool,
    pub duration_ms: u64,
    /// Why, unless it completed or simply exited with another code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    pub aggregated: String,
    pub stdout: String,
    pub stderr: String,
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,
    pub output_bytes: u64,
    pub cwd: String,
    pub diverted: bool,
    /// A text that could not be taken apart ran where only listed programs can be executed, instead of being asked about
    /// (`tools.exec.onMiss`). Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub held: bool,
    /// The call wanted its input open, and it was closed: what covers the command does not include that. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub input_closed: bool,
    /// The call joined the run of another, which waited for the answer to the same question. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub joined: bool,
    pub warnings: Vec<WarningBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// Who decided that it may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<RulingBody>,
    /// What the person who answered said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_reason: Option<String>,
    /// How it ended, as one sentence for a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = true, value_type = String)]
    pub agent_message: Option<String>,
}

/// A run that goes on or waits.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ExecStarted)]
pub enum Started {
    /// It runs in the background.
    Running(Running),
    /// A person is asked; nothing has started.
    Pending(Pending),
}

impl Started {
    /// Which run it is.
    pub fn run_id(&self) -> &RunId {
        match self {
            Self::Running(running) => &running.run_id,
            Self::Pending(pending) => &pending.run_id,
        }
    }

    /// How it stands, in a word.
    pub fn status(&self) -> &str {
        match self {
            Self::Running(running) => &running.status,
            Self::Pending(pending) => &pending.status,
        }
    }
}

/// A run that goes on in the background.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExecRunning)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "members of an answer, each by itself"
)]
pub struct Running {
    pub run_id: RunId,
    pub status: Cow<'static, str>,
    pub host: Host,
    pub session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    pub started_at_ms: UnixMillis,
    pub cwd: String,
    pub tail: String,
    pub diverted: bool,
    /// A text that could not be taken apart ran where only listed programs can be executed, instead of being asked about
    /// (`tools.exec.onMiss`). Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub held: bool,
    /// The call wanted its input open, and it was closed: what covers the command does not include that. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub input_closed: bool,
    /// The call joined the run of another, which waited for the answer to the same question. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub joined: bool,
    pub warnings: Vec<WarningBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// Where the run is found: `GET` it, with `waitMs` to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = true, value_type = String)]
    pub status_url: Option<String>,
}

/// A run that waits for a person.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExecPending)]
pub struct Pending {
    pub run_id: RunId,
    pub status: Cow<'static, str>,
    pub approval_id: ApprovalId,
    pub approval_slug: String,
    /// The page where a person answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = true, value_type = String)]
    pub approval_url: Option<String>,
    /// Where the run is found: `GET` it, with `waitMs` to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = true, value_type = String)]
    pub status_url: Option<String>,
    /// How many different people have to allow it; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_required: Option<u64>,
    pub expires_at_ms: UnixMillis,
    pub host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    pub command: String,
    pub cwd: String,
    /// The call joined the run of another, which waited for the answer to the same question. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub joined: bool,
    pub warnings: Vec<WarningBody>,
}

/// Something the caller should know though the call succeeded.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ExecWarning)]
pub struct WarningBody {
    pub code: Cow<'static, str>,
    pub message: String,
}
