//! What an exec call answers (`docs/spec/http-api.md#post-v1exec-answers`).

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use countersign_domain::{ApprovalId, CommandInput, Host, Reason, RunId, UnixMillis};
use countersign_engine::reply::{EndedRun, ExecReply, PendingRun, RunningRun, Warning};

use crate::{
    problem::Problem,
    reply::{JsonReply, Located},
    routes::runs::duration_ms,
};

/// An exec answer on its way out.
#[derive(Debug)]
pub(in crate::routes) enum ExecAnswer {
    /// 200
    Finished(Box<Finished>),
    /// 202
    Started {
        location: String,
        /// What is known of it.
        body: Box<Started>,
    },
}

impl ExecAnswer {
    /// Turns the engine's reply into the wire form; `link` gives the place of a run.
    pub(in crate::routes) fn new(reply: ExecReply, link: impl FnOnce(&RunId) -> String) -> Self {
        match reply {
            ExecReply::Ended(ended) => Self::Finished(Box::new(ended.into())),
            ExecReply::Running(running) => Self::Started {
                location: link(&running.run.id),
                body: Box::new(Started::Running(running.into())),
            },
            ExecReply::Pending(pending) => Self::Started {
                location: link(&pending.run.id),
                body: Box::new(Started::Pending((*pending).into())),
            },
        }
    }
}

impl ExecAnswer {
    /// The body alone, for entry points that are not HTTP.
    pub(in crate::routes) fn to_json(&self) -> Result<Value, Problem> {
        let body = match self {
            Self::Finished(body) => serde_json::to_value(body),
            Self::Started { location: _, body } => serde_json::to_value(body),
        };
        body.map_err(|error| {
            tracing::error!(%error, "an answer could not be written as JSON");
            Problem::internal()
        })
    }
}

impl IntoResponse for ExecAnswer {
    fn into_response(self) -> Response {
        match self {
            Self::Finished(body) => JsonReply(body).into_response(),
            Self::Started { location, body } => Located {
                status: StatusCode::ACCEPTED,
                location,
                body,
            }
            .into_response(),
        }
    }
}

/// A run that ended while the caller waited.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExecFinished)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "members of the answer, each with its own meaning"
)]
pub(in crate::routes) struct Finished {
    run_id: RunId,
    #[schema(value_type = String)]
    status: &'static str,
    host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_signal: Option<String>,
    timed_out: bool,
    duration_ms: u64,
    /// Why, unless it completed or simply exited with another code.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// The reason in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    aggregated: String,
    stdout: String,
    stderr: String,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tail: Option<String>,
    output_bytes: u64,
    cwd: String,
    diverted: bool,
    /// The call wanted its input open, and it was closed: what covers the command does not include that. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    input_closed: bool,
    warnings: Vec<WarningBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<ApprovalId>,
}

/// A run that goes on or waits.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ExecStarted)]
pub(in crate::routes) enum Started {
    /// It runs in the background.
    Running(Running),
    /// A person is asked; nothing has started.
    Pending(Pending),
}

/// A run that goes on in the background.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExecRunning)]
pub(in crate::routes) struct Running {
    run_id: RunId,
    #[schema(value_type = String)]
    status: &'static str,
    host: Host,
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    started_at_ms: UnixMillis,
    cwd: String,
    tail: String,
    diverted: bool,
    /// The call wanted its input open, and it was closed: what covers the command does not include that. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    input_closed: bool,
    warnings: Vec<WarningBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<ApprovalId>,
}

/// A run that waits for a person.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExecPending)]
pub(in crate::routes) struct Pending {
    run_id: RunId,
    #[schema(value_type = String)]
    status: &'static str,
    approval_id: ApprovalId,
    approval_slug: String,
    /// How many different people have to allow it; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    approvals_required: Option<u64>,
    expires_at_ms: UnixMillis,
    host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    command: String,
    cwd: String,
    warnings: Vec<WarningBody>,
}

/// Something the caller should know though the call succeeded.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExecWarning)]
pub(in crate::routes) struct WarningBody {
    #[schema(value_type = String)]
    code: &'static str,
    message: String,
}

impl From<EndedRun> for Finished {
    fn from(
        EndedRun {
            run,
            output,
            warnings,
        }: EndedRun,
    ) -> Self {
        let cut = output.truncated || run.truncated;
        Self {
            duration_ms: duration_ms(&run).unwrap_or(0),
            run_id: run.id,
            status: run.status.api_name(),
            host: run.host,
            node_id: run.node_id,
            exit_code: run.exit_code,
            exit_signal: run.exit_signal,
            timed_out: run.timed_out,
            reason: run.reason,
            detail: run.detail,
            aggregated: output.aggregated,
            stdout: output.stdout,
            stderr: output.stderr,
            truncated: cut,
            tail: cut.then_some(output.tail),
            output_bytes: run.output_bytes,
            cwd: run.cwd,
            diverted: run.diverted,
            input_closed: run.input == CommandInput::Withheld,
            warnings: warnings.into_iter().map(WarningBody::from).collect(),
            approval_id: run.approval_id,
        }
    }
}

impl From<RunningRun> for Running {
    fn from(RunningRun { run, tail, warnings }: RunningRun) -> Self {
        Self {
            // A background run has a session from the moment it has moved there.
            session_id: run.session_id.unwrap_or_default(),
            run_id: run.id,
            status: "running",
            host: run.host,
            pid: run.pid,
            started_at_ms: run.started_at.unwrap_or(run.created_at),
            cwd: run.cwd,
            tail,
            diverted: run.diverted,
            input_closed: run.input == CommandInput::Withheld,
            warnings: warnings.into_iter().map(WarningBody::from).collect(),
            approval_id: run.approval_id,
        }
    }
}

impl From<PendingRun> for Pending {
    fn from(
        PendingRun {
            run,
            approval,
            warnings,
        }: PendingRun,
    ) -> Self {
        Self {
            approval_slug: approval.id.slug().to_owned(),
            approval_id: approval.id,
            approvals_required: Some(approval.card.quorum.required).filter(|required| *required > 1),
            expires_at_ms: approval.expires_at,
            run_id: run.id,
            status: "approval-pending",
            host: run.host,
            node_id: run.node_id,
            command: run.command.to_short_text(),
            cwd: run.cwd,
            warnings: warnings.into_iter().map(WarningBody::from).collect(),
        }
    }
}

impl From<Warning> for WarningBody {
    fn from(Warning { code, message }: Warning) -> Self {
        Self { code, message }
    }
}
