//! The process session object and the answers of the process tool (`docs/spec/http-api.md#process-session-object`).

use serde::Serialize;
use utoipa::ToSchema;

use countersign_domain::{AgentId, Host, ProcessStatus, RunId, SessionKey, TerminalSize, UnixMillis};
use countersign_engine::process::{LogPage, ProcessReply, Session};

use crate::routes::exec::WarningBody;

/// A process session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProcessSession)]
#[expect(clippy::struct_excessive_bools, reason = "the members of the contract")]
pub(in crate::routes) struct SessionBody {
    session_id: String,
    run_id: RunId,
    agent_id: AgentId,
    session_key: SessionKey,
    host: Host,
    status: ProcessStatus,
    /// The program and its first argument that is no flag.
    name: String,
    command: String,
    cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    pty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cols: Option<u16>,
    started_at_ms: UnixMillis,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at_ms: Option<UnixMillis>,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_signal: Option<String>,
    timed_out: bool,
    truncated: bool,
    output_bytes: u64,
    /// The last 2,000 characters of the output.
    tail: String,
    stdin_open: bool,
    /// Its standard input is open, and for 15 seconds it neither wrote nor was written to.
    waiting_for_input: bool,
}

/// What the process tool answers; which form depends on the action.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(in crate::routes) enum ProcessAnswer {
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
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::routes) struct ProcessList {
    items: Vec<SessionBody>,
}

/// The output since the last poll of this token.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::routes) struct ProcessPoll {
    session: SessionBody,
    stdout: String,
    stderr: String,
}

/// Lines of the output.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::routes) struct ProcessLog {
    session: SessionBody,
    text: String,
    /// Number of the first line, counted from 0.
    offset: usize,
    /// How many lines there are in `text`.
    lines: usize,
    total_lines: usize,
    total_chars: usize,
    /// How to get the other lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// The session, and what was otherwise than expected.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::routes) struct ProcessInput {
    session: SessionBody,
    warnings: Vec<WarningBody>,
}

/// The session as it stands, or stood when it was forgotten.
#[derive(Debug, Serialize, ToSchema)]
// Or every other answer with a session would be one of these, too.
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct ProcessEnd {
    session: SessionBody,
}

impl From<Session> for SessionBody {
    fn from(session: Session) -> Self {
        Self {
            session_id: session.id,
            run_id: session.run_id,
            agent_id: session.agent,
            session_key: session.session,
            host: session.host,
            status: session.status,
            name: session.name,
            command: session.command,
            cwd: session.cwd,
            pid: session.pid,
            pty: session.pty,
            rows: session.terminal.map(TerminalSize::rows),
            cols: session.terminal.map(TerminalSize::cols),
            started_at_ms: session.started_at,
            ended_at_ms: session.ended_at,
            duration_ms: u64::try_from(session.duration.as_millis()).unwrap_or(u64::MAX),
            exit_code: session.exit_code,
            exit_signal: session.exit_signal,
            timed_out: session.timed_out,
            truncated: session.truncated,
            output_bytes: session.output_bytes,
            tail: session.tail,
            stdin_open: session.stdin_open,
            waiting_for_input: session.waiting_for_input,
        }
    }
}

impl From<ProcessReply> for ProcessAnswer {
    fn from(reply: ProcessReply) -> Self {
        match reply {
            ProcessReply::List(sessions) => Self::List(ProcessList {
                items: sessions.into_iter().map(SessionBody::from).collect(),
            }),
            ProcessReply::Polled {
                session,
                stdout,
                stderr,
            } => Self::Poll(ProcessPoll {
                session: (*session).into(),
                stdout,
                stderr,
            }),
            ProcessReply::Logged { session, page } => {
                let LogPage {
                    text,
                    offset,
                    lines,
                    total_lines,
                    total_chars,
                    hint,
                } = page;
                Self::Log(ProcessLog {
                    session: (*session).into(),
                    text,
                    offset,
                    lines,
                    total_lines,
                    total_chars,
                    hint,
                })
            }
            ProcessReply::Taken { session, warnings } => Self::Input(ProcessInput {
                session: (*session).into(),
                warnings: warnings.into_iter().map(WarningBody::from).collect(),
            }),
            ProcessReply::Session(session) => Self::Session(ProcessEnd {
                session: (*session).into(),
            }),
        }
    }
}
