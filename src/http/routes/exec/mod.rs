//! `POST /v1/exec`: run a command.

mod answer;
mod explain;
mod request;

use axum::extract::State;
use sha2::{Digest as _, Sha256};
use utoipa_axum::{router::OpenApiRouter, routes};

use answer::Finished;

pub(in crate::http::routes) use answer::{ExecAnswer, Started, WarningBody};
pub(in crate::http::routes) use explain::ExplanationBody;
pub(in crate::http::routes) use request::{
    ExecBody, approval_wait, bounded_argv, command, host, identity, workdir,
};

use crate::{
    engine::{IdempotencyKey, Leaving},
    http::{
        caller::{AgentCaller, Exec},
        extract::{IdempotencyHeader, QueryOf, RawJson},
        problem::Problem,
        state::AppState,
    },
};

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(exec))
        .routes(routes!(explain::explain))
}

/// Runs a command: decides, asks a person when it must, runs it once.
///
/// 200 when it ended while the caller waited, 202 when it runs on or waits for a person. A caller that goes
/// away ends its foreground run, unless an `Idempotency-Key` lets it join again.
#[utoipa::path(
    post, path = "/v1/exec", tag = "exec",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
        description = "The same key with the same body within 24 h gives the first answer again and runs nothing.")),
    request_body = ExecBody,
    responses(
        (status = OK, body = Finished),
        (status = ACCEPTED, body = Started, headers(("Location" = String, description = "The run."))),
        (status = BAD_REQUEST, description = "invalid-request, blank-command, blocked-env, config-conflict, workdir-unavailable, preflight-failed"),
        (status = FORBIDDEN, description = "forbidden, exec-denied, host-not-allowed, elevated-unavailable"),
        (status = NOT_FOUND, description = "node-not-found"),
        (status = CONFLICT, description = "node-ambiguous"),
        (status = UNPROCESSABLE_ENTITY, description = "idempotency-mismatch"),
        (status = SERVICE_UNAVAILABLE, description = "sandbox-unavailable, node-unavailable, overloaded, shutting-down, storage-unavailable"),
    ),
    security(("token" = ["exec"])),
)]
async fn exec(
    caller: AgentCaller<Exec>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    IdempotencyHeader(key): IdempotencyHeader,
    RawJson { value: body, bytes }: RawJson<ExecBody>,
) -> Result<ExecAnswer, Problem> {
    let request = body.into_request()?;
    let key = key.map(|key| IdempotencyKey {
        key,
        body_sha256: Sha256::digest(&bytes).into(),
        leaving: Leaving::Leaves,
    });
    // Awaited here and nowhere else: a client that leaves drops this future, and with it its run.
    let reply = state.engine().exec(&caller, request, key).await?;
    Ok(ExecAnswer::new(reply, |run_id| {
        state.link(&format!("/v1/runs/{run_id}"))
    }))
}
