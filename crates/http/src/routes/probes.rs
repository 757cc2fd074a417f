//! What anybody may ask: alive, ready, which version, which contract.

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use countersign_config::settings::IpcRole;
use countersign_engine::{Check, Readiness};
use countersign_wire::{
    error_kind::{ErrorCatalogue, ErrorKind},
    health::{CheckBody, Checks, ReadinessBody},
};

use crate::route_table::{RouteTable, routes};
use crate::{extract::QueryOf, openapi, problem::Code, reply::JsonReply, state::AppState};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(version))
        .routes(routes!(contract))
        .routes(routes!(errors))
}

/// The process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(value_type = String)]
    status: &'static str,
}

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "probes", operation_id = "get_health", responses((status = OK, body = Health)))]
pub(crate) async fn healthz(_query: QueryOf<()>) -> JsonReply<Health> {
    JsonReply(Health { status: "ok" })
}

/// Whether the server can do its work: 503 when the ledger cannot be used, the machine lacks what a command
/// needs, or the server drains.
#[utoipa::path(
    get, path = "/readyz", tag = "probes", operation_id = "get_readiness",
    responses((status = OK, body = ReadinessBody), (status = SERVICE_UNAVAILABLE, description = "It cannot.", body = ReadinessBody)),
)]
async fn readyz(State(state): State<AppState>, _query: QueryOf<()>) -> Response {
    let Readiness {
        database,
        machine,
        record,
        document,
        config,
        runner,
        sandbox,
        ipc,
        clock,
        draining,
        restart_needed,
        stopped,
    } = state.engine().health().readiness();
    let ready = database.ok && machine.ok && !draining;
    let settings = state.engine().settings().current();
    let enabled = settings.server.bridge.enabled;
    let has_ipc = settings.server.ipc.role != IpcRole::Off;
    let bridge = enabled.then(|| CheckBody {
        ok: state.bridge().has_secret(),
        detail: (!state.bridge().has_secret())
            .then(|| "there is no shared secret, so that no new node can ask to be let in".to_owned()),
    });
    let body = ReadinessBody {
        status: if ready { "ready" } else { "not-ready" }.into(),
        stopped,
        restart_needed,
        degraded: !(document.ok
            && !stopped
            && record.ok
            && config.ok
            && runner.ok
            && bridge.as_ref().is_none_or(|bridge| bridge.ok)
            && ipc.ok
            && clock.ok
            && sandbox.as_ref().is_none_or(|sandbox| sandbox.ok)),
        checks: Checks {
            database: looked_at(database),
            machine: (!machine.ok).then(|| looked_at(machine)),
            record: (!record.ok).then(|| looked_at(record)),
            document: looked_at(document),
            config: looked_at(config),
            bridge,
            // The client that reads this came through a listener; a draining one takes no other client in.
            listener: CheckBody {
                ok: !draining,
                detail: draining.then(|| "draining".to_owned()),
            },
            runner: (!runner.ok).then(|| looked_at(runner)),
            sandbox: sandbox.filter(|check| !check.ok).map(looked_at),
            ipc: has_ipc.then(|| looked_at(ipc)),
            clock: (!clock.ok).then(|| looked_at(clock)),
        },
    };
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, JsonReply(body)).into_response()
}

fn looked_at(Check { ok, detail }: Check) -> CheckBody {
    CheckBody { ok, detail }
}

/// What this server is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Version)]
pub(crate) struct VersionBody {
    #[schema(value_type = String)]
    name: &'static str,
    #[schema(value_type = String)]
    version: &'static str,
    #[schema(value_type = String)]
    commit: &'static str,
    /// Version of this contract.
    api: u32,
}

/// What this server is.
#[utoipa::path(get, path = "/v1/version", tag = "probes", operation_id = "get_version", responses((status = OK, body = VersionBody)))]
pub(crate) async fn version(_query: QueryOf<()>) -> JsonReply<VersionBody> {
    JsonReply(VersionBody {
        name: "countersign",
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("COUNTERSIGN_COMMIT").unwrap_or("unknown"),
        api: 1,
    })
}

/// This contract, generated from the code.
#[utoipa::path(get, path = "/openapi.json", tag = "probes", operation_id = "get_contract", responses((status = OK, description = "The document.", body = Object)))]
async fn contract(_query: QueryOf<()>) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], openapi::document()).into_response()
}

/// Every error that the server answers with: its status, and what a client can read from it.
#[utoipa::path(get, path = "/v1/errors.json", tag = "probes", operation_id = "list_errors", responses((status = OK, body = ErrorCatalogue)))]
pub(crate) async fn errors(_query: QueryOf<()>) -> JsonReply<ErrorCatalogue> {
    let kind = |code: &Code| ErrorKind {
        code: code.as_str().into(),
        status: code.status().as_u16(),
        title: code.title().into(),
        retryable: code.retryable(),
        members: code.members().iter().map(|member| (*member).into()).collect(),
    };
    JsonReply(ErrorCatalogue {
        items: Code::ALL.iter().map(kind).collect(),
    })
}
