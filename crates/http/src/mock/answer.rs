//! What a mock answers to a call, in the types of a server's answers.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response as HttpResponse, header},
    response::{IntoResponse as _, Response},
};
use http_body_util::BodyExt as _;
use serde_json::Value;

use countersign_domain::{Reason, Ruling, Run, RunStatus};
use countersign_wire::{
    exec::{Pending, Started},
    ruling::{self, RulingBody},
};

use super::{play::Played, run::PlayedRun};
use crate::{
    links::Links,
    problem::{Code, Problem},
    routes::{CallAnswer, ExecAnswer, finished},
};

/// What every answer of a mock has.
const MARK: HeaderName = HeaderName::from_static("countersign-mock");

/// In the extensions of a response: the connection breaks instead.
#[derive(Debug, Clone, Copy)]
pub(super) struct HangUp;

/// A response that is none.
pub(super) fn hang_up() -> Response {
    let mut response = HttpResponse::new(Body::empty());
    response.extensions_mut().insert(HangUp);
    response
}

/// The answer to a call.
pub(super) fn to_call(played: Played, links: &Links) -> Result<Response, Problem> {
    Ok(match played {
        Played::HangUp => hang_up(),
        Played::Ended(ended, ruling) if ended.run.status == RunStatus::Denied => {
            return Err(denied(&ended.run, &ruling));
        }
        Played::Ended(ended, ruling) => ExecAnswer::Done(Box::new(finished(*ended, ruling))).into_response(),
        Played::Running(running) => ExecAnswer::running(*running, links).into_response(),
        Played::Pending { played, joined } => pending(*played, joined, links)?.into_response(),
    })
}

fn denied(run: &Run, ruling: &Ruling) -> Problem {
    let detail = run.detail.clone().unwrap_or_else(|| match run.reason {
        Some(Reason::ApprovalTimeout) => "nobody answered in time".to_owned(),
        Some(_) | None => "the command was denied".to_owned(),
    });
    Problem::new(Code::ExecDenied, detail)
        .with_run(run.id.clone())
        .with(|body| {
            body.reason = run.reason.map(|reason| reason.as_str().into());
            body.agent_message = Some(ruling::agent_message(run, ruling));
            body.user_reason.clone_from(&ruling.reason);
            body.decided_by = RulingBody::of(ruling.clone());
        })
}

fn pending(played: PlayedRun, joined: bool, links: &Links) -> Result<ExecAnswer, Problem> {
    let PlayedRun { run, question, .. } = played;
    let question = question.ok_or_else(|| {
        tracing::error!("a run of the mock waits without a question");
        Problem::internal()
    })?;
    let approval = links.approval(&question.id);
    let status = links.run(&run.id);
    Ok(CallAnswer::Started {
        location: links.place_of_run(&run.id),
        approval: Some(approval.clone()),
        status: status.clone(),
        body: Box::new(Started::Pending(Pending {
            approval_url: Some(approval),
            status_url: Some(status),
            approval_slug: question.id.slug().to_owned(),
            approval_id: question.id,
            approvals_required: None,
            expires_at_ms: question.expires_at,
            status: run.status.api_name().into(),
            run_id: run.id,
            host: run.host.into(),
            node_id: None,
            command: run.command.to_short_text(),
            cwd: run.cwd,
            joined,
            warnings: Vec::new(),
        })),
    })
}

/// Says of an answer that nothing of it happened: `mock` in an object, and a header always.
pub(super) async fn marked(response: Response) -> Response {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| matches!(kind, "application/json" | "application/problem+json"));
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(MARK, HeaderValue::from_static("true"));
    if !is_json {
        return Response::from_parts(parts, body);
    }
    // Our own answers, which are at hand.
    let bytes = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let marked = match serde_json::from_slice(&bytes) {
        Ok(Value::Object(mut members)) => {
            members.insert("mock".to_owned(), Value::Bool(true));
            Value::Object(members).to_string().into()
        }
        Ok(_) | Err(_) => bytes,
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(marked))
}
