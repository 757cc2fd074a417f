//! The process session object and the answers of the process tool (`docs/spec/http-api.md#process-session-object`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{AgentId, OutputStream, RunId, SessionKey, UnixMillis};

use crate::{
    exec::WarningBody,
    words::{Host, ProcessStatus, Word},
};

/// A process session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProcessSession)]
#[expect(clippy::struct_excessive_bools, reason = "the members of the contract")]
pub struct SessionBody {
    pub session_id: String,
    pub run_id: RunId,
    pub agent_id: AgentId,
    pub session_key: SessionKey,
    pub host: Host,
    pub status: ProcessStatus,
    /// The program and its first argument that is no flag.
    pub name: String,
    pub command: String,
    pub cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    pub pty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    pub started_at_ms: UnixMillis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<UnixMillis>,
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<String>,
    pub timed_out: bool,
    pub truncated: bool,
    pub output_bytes: u64,
    /// The last 2,000 characters of the output.
    pub tail: String,
    pub stdin_open: bool,
    /// Its standard input is open, and for 15 seconds it neither wrote nor was written to.
    pub waiting_for_input: bool,
}

/// What the process tool answers; `kind` says which form it has.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ProcessAnswer {
    /// `list`
    List(ProcessList),
    /// `poll`
    Poll(ProcessPoll),
    /// `log`
    Log(ProcessLog),
    /// `write`, `send-keys`, `submit`, `paste`, `resize`
    Input(ProcessInput),
    /// `kill`, `clear`, `remove`
    Session(ProcessEnd),
}

/// The sessions of the agent, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ProcessList {
    pub items: Vec<SessionBody>,
}

/// The output since the last poll of this token.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ProcessPoll {
    pub session: SessionBody,
    pub stdout: String,
    pub stderr: String,
}

/// Lines of the output.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessLog {
    pub session: SessionBody,
    pub text: String,
    /// Number of the first line, counted from 0.
    pub offset: usize,
    /// How many lines there are in `text`.
    pub lines: usize,
    pub total_lines: usize,
    pub total_chars: usize,
    /// How to get the other lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The session, and what was otherwise than expected.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ProcessInput {
    pub session: SessionBody,
    pub warnings: Vec<WarningBody>,
}

/// The session as it stands, or stood when it was forgotten.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProcessEnd {
    pub session: SessionBody,
}

/// A piece of output as a stream of a session has it: as text, or its exact bytes in base64.
#[derive(Debug, Serialize, Deserialize)]
pub struct StreamedOutput {
    pub offset: u64,
    pub stream: Word<OutputStream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}
