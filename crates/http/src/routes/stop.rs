//! The emergency stop.

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::ToSchema;

use countersign_domain::quoting;
use countersign_domain::{MAX_STOP_REASON_CHARS, Principal, Run, Scope, is_stop_reason};
use countersign_engine::stop::{Stopped, WhatRuns};
use countersign_ledger::{Pressed, ResumeOutcome, StopStanding};
use countersign_policy::command::redaction;
use countersign_wire::{
    actor::ActorBody,
    stop::{InForce, ResumeAnswerBody, StandingBody, StillRunning, StopAnswerBody, StopBody},
};

use crate::{
    caller::{Admin, AgentCaller, ApproveOrAdmin, Caller, Read},
    extract::{JsonBody, QueryOf, not_null},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    schema::StopReason,
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(standing, stop))
        .routes(routes!(resume))
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
    let standing = state.engine().stop_switch().stopped();
    JsonReply(StandingBody {
        stopped: standing.is_some(),
        stop: standing.map(|standing| in_force(&standing)),
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
    let stopped = state
        .engine()
        .stops()
        .stop(&caller.actor, reason, what_runs)
        .await;
    Ok(JsonReply(stop_answer(stopped, &caller)))
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
    let (status, stopped, resumed, proposed_by) =
        match state.engine().stops().resume(&caller.actor, reason).await? {
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

fn in_force(standing: &StopStanding) -> InForce {
    let StopStanding {
        stop,
        killed_by,
        is_durable,
        resume_proposed_by,
    } = standing;
    let StopBody { by, at_ms, reason } = StopBody::from(&**stop);
    InForce {
        by,
        at_ms,
        reason,
        durable: *is_durable,
        killed_by: killed_by.clone().map(ActorBody::from),
        resume_proposed_by: resume_proposed_by.clone().map(ActorBody::from),
    }
}

fn stop_answer(stopped: Stopped, caller: &Principal) -> StopAnswerBody {
    let Stopped {
        standing,
        pressed,
        running,
        killed,
    } = stopped;
    let shows_text = caller.has(Scope::Read) || caller.has(Scope::Admin);
    let all = |runs: Vec<Run>| {
        runs.into_iter()
            .map(|run| still_running(run, shows_text))
            .collect()
    };
    StopAnswerBody {
        stopped: true,
        already: pressed == Pressed::Before,
        durable: standing.is_durable,
        stop: in_force(&standing),
        running: all(running),
        killed: all(killed),
    }
}

fn still_running(run: Run, shows_text: bool) -> StillRunning {
    let display_text = shows_text.then(|| redaction::masked(&quoting::line(&run.command)));
    StillRunning {
        run_id: run.id,
        status: run.status.api_name().into(),
        agent_id: run.agent,
        host: run.host.into(),
        session_id: run.session_id,
        started_at_ms: run.started_at,
        display_text,
    }
}
