//! `POST /v1/exec`: run a command.
//!
//! The handler must never decide or start anything itself: [`countersign_engine::Engine`] does both. It must never move the
//! call to a task of its own: a caller that leaves drops the handler's future, and its foreground run ends with it,
//! unless an `Idempotency-Key` lets the caller join again. Read on: `request.rs` for the body, [`ExecAnswer`] for the
//! answers, `explain.rs` for what a call would come to.

mod answer;
mod explain;
mod request;

use std::time::Duration;

use axum::extract::State;
use sha2::{Digest as _, Sha256};

pub(crate) use answer::{CallAnswer, ExecAnswer, finished};
pub(in crate::routes) use answer::{refused, warning};
pub(in crate::routes) use explain::explanation_body;
pub(crate) use request::ExecBody;
pub(in crate::routes) use request::{approval_wait, bounded_argv, command, host, identity, workdir};

use countersign_engine::{CallerLease, EndsWithCaller, IdempotencyKey, OnDisconnect};
use countersign_wire::exec::{Finished, Started};

use crate::{
    caller::{AgentCaller, Exec},
    deprecation::DeprecationHeaders,
    extract::{IdempotencyHeader, Parameters, QueryForm, QueryOf, RawJson},
    problem::Problem,
    route_table::{RouteTable, routes},
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(exec))
        .routes(routes!(explain::explain))
        .routes(routes!(explain::explain_several))
}

const LONGEST_HOLD: u64 = 600_000;

/// What ends with its caller.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct ExecQuery {
    /// What ends with its caller: `question` (what waits for a person) or `run` (also what runs). It ends when the
    /// connection breaks, or when no call under the same `Idempotency-Key`, which it needs, follows within 3 s of an
    /// answer about something that goes on. What was asked for in the background stays.
    #[param(pattern = "^(question|run)$")]
    held: Option<String>,
    /// With `held`: how long to wait in milliseconds for a person and, with `run`, for the end.
    #[param(maximum = 600_000)]
    hold_ms: Option<u64>,
}

impl QueryForm for ExecQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            held: parameters.text("held")?,
            hold_ms: parameters.value("holdMs")?,
        })
    }
}

impl ExecQuery {
    /// What ends with the caller, if anything does.
    pub(crate) fn into_lease(self) -> Result<Option<CallerLease>, Problem> {
        let held = match self.held.as_deref() {
            None => return Ok(None),
            Some("question") => EndsWithCaller::Question,
            Some("run") => EndsWithCaller::Run,
            Some(_) => return Err(Problem::field("held", "expected question or run")),
        };
        let wait = self.hold_ms.unwrap_or(0);
        if wait > LONGEST_HOLD {
            return Err(Problem::field(
                "holdMs",
                "expected a whole number of milliseconds, 0 to 600000",
            ));
        }
        let wait = Duration::from_millis(wait);
        Ok(Some(CallerLease { held, wait }))
    }
}

/// Runs a command: decides, asks a person when it must, runs it once.
///
/// 200 when it ended while the caller waited, 202 when it runs on or waits for a person. A caller that goes
/// away ends its foreground run, unless an `Idempotency-Key` lets it join again; `held` ends it all the same.
#[utoipa::path(
    post, path = "/v1/exec", tag = "exec",
    params(ExecQuery, ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$",
        description = "The same key with the same body within 24 h gives the first answer again and runs nothing.")),
    request_body = ExecBody,
    responses(
        (status = OK, body = Finished),
        (status = ACCEPTED, body = Started, headers(
            ("Location" = String, description = "The run."),
            ("Link" = String, description = "`rel=\"status\"`: the run; `rel=\"approval\"`: where a person answers, if one is asked."),
            ("Retry-After" = u64, description = "Seconds until it is worth asking again."),
        )),
        (status = BAD_REQUEST, description = "invalid-request, blank-command, blocked-env, config-conflict, workdir-unavailable, preflight-failed"),
        (status = FORBIDDEN, description = "forbidden, exec-denied, host-not-allowed, elevated-unavailable"),
        (status = NOT_FOUND, description = "node-not-found"),
        (status = CONFLICT, description = "node-ambiguous"),
        (status = UNPROCESSABLE_ENTITY, description = "idempotency-mismatch"),
        (status = TOO_MANY_REQUESTS, description = "rate-limited, too-many-questions"),
        (status = SERVICE_UNAVAILABLE, description = "sandbox-unavailable, node-unavailable, overloaded, shutting-down, storage-unavailable"),
    ),
    security(("token" = ["exec"])),
)]
async fn exec(
    caller: AgentCaller<Exec>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<ExecQuery>,
    IdempotencyHeader(key): IdempotencyHeader,
    RawJson { value: body, bytes }: RawJson<ExecBody>,
) -> Result<(DeprecationHeaders, ExecAnswer), Problem> {
    let lease = query.into_lease()?;
    let deprecated = DeprecationHeaders(body.deprecated());
    let request = body.into_request()?;
    let key = key.map(|key| IdempotencyKey {
        key,
        body_sha256: Sha256::digest(&bytes).into(),
        on_disconnect: OnDisconnect::Detach,
        is_named: true,
    });
    // Awaited here and nowhere else: a client that leaves drops this future, and with it its run.
    let engine = state.engine();
    let reply = match (lease, key) {
        (None, key) => engine.calls().exec(&caller, request, key).await,
        (Some(lease), Some(key)) => engine.calls().exec_held(&caller, request, key, lease).await,
        (Some(_), None) => return Err(Problem::field("held", "needs an Idempotency-Key")),
    };
    let answer = ExecAnswer::of_call(engine, state.links(), reply).await?;
    Ok((deprecated, answer))
}
