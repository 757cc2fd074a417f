//! The pages for people: approvals, the sign-in, and the files they are made of.
//!
//! A page itself is the same for everybody and tells nothing; it fetches what it shows with the credentials of
//! the person who looks. The redirect to the sign-in is a courtesy for people, not a check.

use axum::{
    Extension,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Request},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};

use countersign_domain::ApprovalId;

use crate::{
    admission::RequestSource,
    assets::{self, Html},
    problem::Problem,
    route_table::{RouteTable, routes},
    routes::{bridge, unknown},
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(home))
        .route("/login", get(login))
        .route("/a/{id}", get(one))
        .route("/assets/{*path}", get(asset))
}

/// The approvals page, or the way to the sign-in.
#[utoipa::path(
    get, path = "/", tag = "pages", operation_id = "get_page",
    responses(
        (status = OK, description = "The approvals page.", content_type = "text/html", body = String),
        (status = SEE_OTHER, description = "Nobody is signed in: the sign-in is at `Location`."),
    ),
    security(("session" = [])),
)]
async fn home(
    State(state): State<AppState>,
    Extension(origin): Extension<RequestSource>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    // Nodes know no other path than this one.
    if bridge::is_meant(&state, request.headers()) {
        return bridge::upgrade(&state, &origin, request);
    }
    Ok(signed_in_or(&origin, "/login"))
}

fn signed_in_or(origin: &RequestSource, sign_in: &str) -> Response {
    if origin.browser().is_some() {
        Html::Approvals.answer()
    } else {
        Redirect::to(sign_in).into_response()
    }
}

async fn login() -> Response {
    Html::Login.answer()
}

/// One approval, decided or not: the same page, which looks at its own address.
async fn one(
    Extension(origin): Extension<RequestSource>,
    headers: HeaderMap,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    // An id is letters, digits and dashes, so the way back is a path of ours and nothing else.
    match id.ok().and_then(|Path(id)| ApprovalId::parse(id).ok()) {
        Some(id) => signed_in_or(&origin, &format!("/login?next=/a/{id}")),
        None => unknown::page(&headers),
    }
}

async fn asset(path: Result<Path<String>, PathRejection>, request: HeaderMap) -> Result<Response, Problem> {
    let Path(path) = path.map_err(|_not_utf8| Problem::not_found("resource"))?;
    assets::asset(&path, &request)
}
