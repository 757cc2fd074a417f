//! What an exec call answers (`docs/spec/http-api.md#post-v1exec-answers`).

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::Value;

use countersign_domain::{CommandInput, Pinning, RunId};
use countersign_engine::reply::{EndedRun, ExecReply, PendingRun, RunningRun, Warning};
use countersign_wire::{
    exec::{Finished, Pending, Running, Started, WarningBody},
    run::duration_ms,
};

use crate::{
    problem::Problem,
    reply::{JsonReply, Located},
};

/// The answer to a call on its way out.
#[derive(Debug)]
pub(in crate::routes) enum CallAnswer<T> {
    /// 200
    Done(Box<T>),
    /// 202
    Started {
        location: String,
        /// What is known of it.
        body: Box<Started>,
    },
}

pub(in crate::routes) type ExecAnswer = CallAnswer<Finished>;

impl ExecAnswer {
    /// Turns the engine's reply into the wire form; `link` gives the place of a run.
    pub(in crate::routes) fn new(reply: ExecReply, link: impl FnOnce(&RunId) -> String) -> Self {
        match reply {
            ExecReply::Ended(ended) => Self::Done(Box::new(finished(ended))),
            ExecReply::Running(running) => Self::running(running, link),
            ExecReply::Pending(pending) => Self::pending(*pending, link),
        }
    }
}

impl<T: Serialize> CallAnswer<T> {
    pub(in crate::routes) fn running(running: RunningRun, link: impl FnOnce(&RunId) -> String) -> Self {
        Self::Started {
            location: link(&running.run.id),
            body: Box::new(Started::Running(self::running(running))),
        }
    }

    pub(in crate::routes) fn pending(pending: PendingRun, link: impl FnOnce(&RunId) -> String) -> Self {
        Self::Started {
            location: link(&pending.run.id),
            body: Box::new(Started::Pending(self::pending(pending))),
        }
    }

    /// The body alone, for entry points that are not HTTP.
    pub(in crate::routes) fn to_json(&self) -> Result<Value, Problem> {
        let body = match self {
            Self::Done(body) => serde_json::to_value(body),
            Self::Started { location: _, body } => serde_json::to_value(body),
        };
        body.map_err(|error| {
            tracing::error!(%error, "an answer could not be written as JSON");
            Problem::internal()
        })
    }
}

impl<T: Serialize> IntoResponse for CallAnswer<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Done(body) => JsonReply(body).into_response(),
            Self::Started { location, body } => Located {
                status: StatusCode::ACCEPTED,
                location,
                body,
            }
            .into_response(),
        }
    }
}

fn finished(
    EndedRun {
        run,
        output,
        warnings,
        joined,
    }: EndedRun,
) -> Finished {
    let cut = output.truncated || run.truncated;
    Finished {
        duration_ms: duration_ms(&run).unwrap_or(0),
        run_id: run.id,
        status: run.status.api_name().into(),
        host: run.host.into(),
        node_id: run.node_id,
        exit_code: run.exit_code,
        exit_signal: run.exit_signal,
        timed_out: run.timed_out,
        reason: run.reason.map(Into::into),
        detail: run.detail,
        aggregated: output.aggregated,
        stdout: output.stdout,
        stderr: output.stderr,
        truncated: cut,
        tail: cut.then_some(output.tail),
        output_bytes: run.output_bytes,
        cwd: run.cwd,
        diverted: run.diverted,
        held: run.binding == Some(Pinning::Held),
        input_closed: run.input == CommandInput::Withheld,
        joined,
        warnings: warnings.into_iter().map(warning).collect(),
        approval_id: run.approval_id,
    }
}

fn running(
    RunningRun {
        run,
        tail,
        warnings,
        joined,
    }: RunningRun,
) -> Running {
    Running {
        // A background run has a session from the moment it has moved there.
        session_id: run.session_id.unwrap_or_default(),
        run_id: run.id,
        status: "running".into(),
        host: run.host.into(),
        pid: run.pid,
        started_at_ms: run.started_at.unwrap_or(run.created_at),
        cwd: run.cwd,
        tail,
        diverted: run.diverted,
        held: run.binding == Some(Pinning::Held),
        input_closed: run.input == CommandInput::Withheld,
        joined,
        warnings: warnings.into_iter().map(warning).collect(),
        approval_id: run.approval_id,
    }
}

fn pending(
    PendingRun {
        run,
        approval,
        warnings,
        joined,
    }: PendingRun,
) -> Pending {
    Pending {
        approval_slug: approval.id.slug().to_owned(),
        approval_id: approval.id,
        approvals_required: Some(approval.card.quorum.required).filter(|required| *required > 1),
        expires_at_ms: approval.expires_at,
        run_id: run.id,
        status: "approval-pending".into(),
        host: run.host.into(),
        node_id: run.node_id,
        command: run.command.to_short_text(),
        cwd: run.cwd,
        joined,
        warnings: warnings.into_iter().map(warning).collect(),
    }
}

pub(in crate::routes) fn warning(Warning { code, message }: Warning) -> WarningBody {
    WarningBody {
        code: code.into(),
        message,
    }
}
