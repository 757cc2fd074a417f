//! Figures for machines that watch.

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::{
    caller::{Caller, Read},
    extract::QueryOf,
    metrics::Format,
    problem::Problem,
    route_table::{RouteTable, routes},
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(metrics))
}

/// The routes of the listener that serves nothing else, and asks for no token.
pub(crate) fn metrics_alone() -> Router<AppState> {
    Router::new()
        .route("/metrics", get(unasked))
        .fallback(async || Problem::not_found("resource"))
}

/// What the server does and how it fares, as text for Prometheus; `OpenMetrics` when that is accepted.
#[utoipa::path(
    get, path = "/metrics", tag = "probes", operation_id = "get_metrics",
    responses((status = OK, description = "Metrics.", content(
        (String = "text/plain"),
        (String = "application/openmetrics-text"),
    ))),
    security(("token" = ["read"])),
)]
async fn metrics(
    _caller: Caller<Read>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    render(&state, &headers).await
}

async fn unasked(
    State(state): State<AppState>,
    _query: QueryOf<()>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    render(&state, &headers).await
}

async fn render(state: &AppState, headers: &HeaderMap) -> Result<Response, Problem> {
    let format = Format::wanted(headers);
    let text = state.render_metrics(format).await.map_err(|error| {
        tracing::error!(%error, "the metrics cannot be written");
        Problem::internal()
    })?;
    Ok(([(header::CONTENT_TYPE, format.media_type())], text).into_response())
}
