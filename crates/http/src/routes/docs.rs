//! The readable reference page.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{reference, state::AppState};

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(docs))
}

/// This contract for people, with the error catalogue and the events.
#[utoipa::path(
    get, path = "/docs", tag = "probes", operation_id = "get_docs",
    responses((status = OK, description = "A page.", content_type = "text/html", body = String)),
)]
async fn docs() -> Response {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    ([(header::CONTENT_TYPE, html)], reference::page()).into_response()
}
