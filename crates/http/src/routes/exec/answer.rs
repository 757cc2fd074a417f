//! What an exec call answers (`docs/spec/http-api.md#post-v1exec-answers`).

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::Value;

use countersign_domain::{CommandInput, Pinning, Ruling};
use countersign_engine::{
    Engine,
    reply::{EndedRun, ExecError, ExecReply, PendingRun, RunningRun, Warning},
};
use countersign_wire::{
    exec::{Finished, Pending, Running, Started, WarningBody},
    ruling::{self, RulingBody},
    run::duration_ms,
};

use crate::{
    links::Links,
    problem::Problem,
    reply::{JsonReply, Located},
};

/// The answer to a call on its way out.
#[derive(Debug)]
pub(crate) enum CallAnswer<T> {
    /// 200
    Done(Box<T>),
    /// 202
    Started {
        location: String,
        /// Where a person answers, if one is asked.
        approval: Option<String>,
        /// Where the run is found.
        status: String,
        /// What is known of it.
        body: Box<Started>,
    },
}

pub(crate) type ExecAnswer = CallAnswer<Finished>;

/// When it is worth asking again about a run that goes on or waits, in seconds.
const RETRY_AFTER: u64 = 1;

impl ExecAnswer {
    /// Turns the engine's reply to a call into the wire form, with who decided about it.
    pub(in crate::routes) async fn of_call(
        engine: &Engine,
        links: &Links,
        reply: Result<ExecReply, ExecError>,
    ) -> Result<Self, Problem> {
        Ok(match reply {
            Ok(ExecReply::Ended(ended)) => {
                let ruling = engine.records().ruling_on(&ended.run).await?;
                Self::Done(Box::new(finished(ended, ruling)))
            }
            Ok(ExecReply::Running(running)) => Self::running(running, links),
            Ok(ExecReply::Pending(pending)) => Self::pending(*pending, links),
            Err(error) => return Err(refused(engine, error).await),
        })
    }
}

/// A refused call, with who decided about it where that is on record.
pub(in crate::routes) async fn refused(engine: &Engine, error: ExecError) -> Problem {
    let ExecError::Denied(denial) = error else {
        return error.into();
    };
    let run_id = denial.run_id.clone();
    let problem = Problem::from(ExecError::Denied(denial));
    match engine.records().judged(&run_id).await {
        Ok(Some((run, ruling))) => problem.with(|body| {
            body.agent_message = Some(ruling::agent_message(&run, &ruling));
            body.user_reason.clone_from(&ruling.reason);
            body.decided_by = RulingBody::of(ruling);
        }),
        Ok(None) => problem,
        Err(trouble) => {
            tracing::warn!(run.id = %run_id, %trouble, "who denied a run could not be read");
            problem
        }
    }
}

impl<T: Serialize> CallAnswer<T> {
    pub(crate) fn running(running: RunningRun, links: &Links) -> Self {
        let status = links.run(&running.run.id);
        Self::Started {
            location: links.place_of_run(&running.run.id),
            approval: None,
            body: Box::new(Started::Running(self::running(running, status.clone()))),
            status,
        }
    }

    pub(in crate::routes) fn pending(pending: PendingRun, links: &Links) -> Self {
        let status = links.run(&pending.run.id);
        let approval = links.approval(&pending.approval.id);
        let location = links.place_of_run(&pending.run.id);
        let body = self::pending(pending, approval.clone(), status.clone());
        Self::Started {
            location,
            approval: Some(approval),
            status,
            body: Box::new(Started::Pending(body)),
        }
    }

    /// The body alone, for entry points that are not HTTP.
    pub(in crate::routes) fn to_json(&self) -> Result<Value, Problem> {
        let body = match self {
            Self::Done(body) => serde_json::to_value(body),
            Self::Started { body, .. } => serde_json::to_value(body),
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
            Self::Started {
                location,
                approval,
                status,
                body,
            } => {
                let mut response = Located {
                    status: StatusCode::ACCEPTED,
                    location,
                    body,
                }
                .into_response();
                let headers = response.headers_mut();
                let targets = approval
                    .map(|url| (url, "approval"))
                    .into_iter()
                    .chain([(status, "status")]);
                for (url, relation) in targets {
                    // What is no header value has a host name that no URL has.
                    if let Ok(link) = HeaderValue::try_from(format!("<{url}>; rel=\"{relation}\"")) {
                        headers.append(header::LINK, link);
                    }
                }
                headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER));
                response
            }
        }
    }
}

/// The answer about a run that ended.
pub(crate) fn finished(
    EndedRun {
        run,
        output,
        warnings,
        joined,
    }: EndedRun,
    ruling: Ruling,
) -> Finished {
    let cut = output.truncated || run.truncated;
    Finished {
        agent_message: Some(ruling::agent_message(&run, &ruling)),
        user_reason: ruling.reason.clone(),
        decided_by: RulingBody::of(ruling),
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
    status_url: String,
) -> Running {
    Running {
        status_url: Some(status_url),
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
    approval_url: String,
    status_url: String,
) -> Pending {
    Pending {
        approval_url: Some(approval_url),
        status_url: Some(status_url),
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
