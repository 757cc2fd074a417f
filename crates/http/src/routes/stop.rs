//! The emergency stop.

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use countersign_domain::quoting;
use countersign_domain::{
    AgentId, Host, MAX_STOP_REASON_CHARS, Principal, Run, RunId, Scope, Stop, UnixMillis, is_stop_reason,
};
use countersign_engine::stop::{Stopped, WhatRuns};
use countersign_ledger::{Pressed, ResumeOutcome, StopStanding};
use countersign_policy::command::redaction;
use countersign_wire::{actor::ActorBody, words::RunStatusName};

use crate::{
    caller::{Admin, AgentCaller, ApproveOrAdmin, Caller, Read},
    extract::{JsonBody, QueryOf, not_null},
    problem::Problem,
    reply::JsonReply,
    schema::StopReason,
    state::AppState,
};

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(standing, stop))
        .routes(routes!(resume))
}

/// Who stopped everything, when and why.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Stop)]
pub(crate) struct StopBody {
    by: ActorBody,
    at_ms: UnixMillis,
    reason: String,
}

/// Whether everything is stopped.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StopState)]
struct StandingBody {
    stopped: bool,
    /// Absent while nothing is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<InForce>,
}

/// A stop that is in force.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ActiveStop)]
struct InForce {
    by: ActorBody,
    at_ms: UnixMillis,
    reason: String,
    /// Whether the record has it, so that it is in force after a restart. If not, it is written again until it has.
    durable: bool,
    /// Who had what ran killed; absent where it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    killed_by: Option<ActorBody>,
    /// Who proposed to let everything go on; an admin of another owner has to accept that with the same call.
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_proposed_by: Option<ActorBody>,
}

/// A stop.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = StopRequest)]
struct StopRequestBody {
    /// Why, for those who are refused and for the record.
    #[schema(value_type = StopReason)]
    reason: String,
    /// Whether what runs is killed.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = bool, required = false)]
    kill: Option<bool>,
}

/// Letting everything go on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ResumeRequest)]
struct ResumeRequestBody {
    /// Why, for the record.
    #[schema(value_type = StopReason)]
    reason: String,
}

/// What a stop did.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StopAnswer)]
struct StopAnswerBody {
    stopped: bool,
    /// Whether everything was stopped before: `stop` is the first one.
    already: bool,
    /// Whether the record has the stop. If not, it is written again until it has.
    durable: bool,
    stop: InForce,
    /// What still runs.
    running: Vec<StillRunning>,
    /// What was killed and has ended.
    killed: Vec<StillRunning>,
}

/// A run that a stop found under way.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StoppedRun)]
struct StillRunning {
    run_id: RunId,
    #[schema(value_type = RunStatusName)]
    status: &'static str,
    agent_id: AgentId,
    host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at_ms: Option<UnixMillis>,
    /// The command as one line for people, with what looks like a secret masked; absent without `read` and `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    display_text: Option<String>,
}

/// What became of a resume.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ResumeAnswer)]
struct ResumeAnswerBody {
    /// Whether everything is still stopped.
    stopped: bool,
    /// Whether this call let everything go on.
    resumed: bool,
    /// Who proposed it, where that takes two owners.
    #[serde(skip_serializing_if = "Option::is_none")]
    proposed_by: Option<ActorBody>,
}

/// Whether everything is stopped, by whom and why.
#[utoipa::path(
    get, path = "/v1/stop", tag = "stop", operation_id = "get_stop",
    responses((status = OK, body = StandingBody)),
    security(("token" = ["read"])),
)]
async fn standing(
    _caller: AgentCaller<Read>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> JsonReply<StandingBody> {
    let standing = state.engine().stopped();
    JsonReply(StandingBody {
        stopped: standing.is_some(),
        stop: standing.map(|standing| InForce::of(&standing)),
    })
}

/// Stops everything: once this is answered nothing starts over any edge, nothing is written to what runs, and every question
/// has ended as denied. It is in force even if the record cannot be written; `durable` says whether it is. Cancelling,
/// killing, denying and reading go on.
#[utoipa::path(
    post, path = "/v1/stop", tag = "stop", operation_id = "stop",
    request_body = StopRequestBody,
    responses((status = OK, body = StopAnswerBody)),
    security(("token" = ["approve"]), ("token" = ["admin"])),
)]
async fn stop(
    caller: Caller<ApproveOrAdmin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    JsonBody(StopRequestBody { reason, kill }): JsonBody<StopRequestBody>,
) -> Result<JsonReply<StopAnswerBody>, Problem> {
    let reason = checked(reason)?;
    let what_runs = if kill == Some(true) {
        WhatRuns::IsKilled
    } else {
        WhatRuns::GoesOn
    };
    let stopped = state.engine().stop(&caller.actor, reason, what_runs).await;
    Ok(JsonReply(StopAnswerBody::new(stopped, &caller)))
}

/// Lets everything go on. Where nobody widens the policy alone (`[approvals] widening`) the first call proposes it, and the
/// same call by an admin of another owner accepts it: 202 until then. Questions that the stop ended stay denied.
#[utoipa::path(
    post, path = "/v1/resume", tag = "stop", operation_id = "resume",
    request_body = ResumeRequestBody,
    responses(
        (status = OK, body = ResumeAnswerBody),
        (status = ACCEPTED, body = ResumeAnswerBody, description = "it waits for an admin of another owner"),
    ),
    security(("token" = ["admin"])),
)]
async fn resume(
    caller: Caller<Admin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    JsonBody(ResumeRequestBody { reason }): JsonBody<ResumeRequestBody>,
) -> Result<Response, Problem> {
    let reason = checked(reason)?;
    let (status, stopped, resumed, proposed_by) = match state.engine().resume(&caller.actor, reason).await? {
        ResumeOutcome::Resumed { proposed_by, stop: _ } => (StatusCode::OK, false, true, proposed_by),
        ResumeOutcome::Waits { proposed_by } => (StatusCode::ACCEPTED, true, false, Some(proposed_by)),
        ResumeOutcome::NotStopped => (StatusCode::OK, false, false, None),
    };
    let body = ResumeAnswerBody {
        stopped,
        resumed,
        proposed_by: proposed_by.map(ActorBody::from),
    };
    Ok((status, JsonReply(body)).into_response())
}

fn checked(reason: String) -> Result<String, Problem> {
    if is_stop_reason(&reason) {
        return Ok(reason);
    }
    Err(Problem::field(
        "reason",
        format!("expected 1 to {MAX_STOP_REASON_CHARS} characters, not all white space"),
    ))
}

impl From<&Stop> for StopBody {
    fn from(Stop { by, at, reason }: &Stop) -> Self {
        Self {
            by: by.clone().into(),
            at_ms: *at,
            reason: reason.clone(),
        }
    }
}

impl InForce {
    fn of(standing: &StopStanding) -> Self {
        let StopStanding {
            stop,
            killed_by,
            is_durable,
            resume_proposed_by,
        } = standing;
        let StopBody { by, at_ms, reason } = StopBody::from(&**stop);
        Self {
            by,
            at_ms,
            reason,
            durable: *is_durable,
            killed_by: killed_by.clone().map(ActorBody::from),
            resume_proposed_by: resume_proposed_by.clone().map(ActorBody::from),
        }
    }
}

impl StopAnswerBody {
    fn new(stopped: Stopped, caller: &Principal) -> Self {
        let Stopped {
            standing,
            pressed,
            running,
            killed,
        } = stopped;
        let shows_text = caller.has(Scope::Read) || caller.has(Scope::Admin);
        let all = |runs: Vec<Run>| {
            runs.into_iter()
                .map(|run| StillRunning::of(run, shows_text))
                .collect()
        };
        Self {
            stopped: true,
            already: pressed == Pressed::Before,
            durable: standing.is_durable,
            stop: InForce::of(&standing),
            running: all(running),
            killed: all(killed),
        }
    }
}

impl StillRunning {
    fn of(run: Run, shows_text: bool) -> Self {
        let display_text = shows_text.then(|| redaction::masked(&quoting::line(&run.command)));
        Self {
            run_id: run.id,
            status: run.status.api_name(),
            agent_id: run.agent,
            host: run.host,
            session_id: run.session_id,
            started_at_ms: run.started_at,
            display_text,
        }
    }
}
