//! Paths and methods that do not exist. Under `/v1/` only a caller with a token learns so.

use std::sync::LazyLock;

use axum::{
    http::{HeaderMap, Uri},
    response::{IntoResponse as _, Response},
};

use countersign_domain::intended;

use crate::{
    accept::Accepted,
    assets::Html,
    caller::{AgentCaller, Anybody},
    problem::{Code, Problem},
};

/// The paths of things that have no name of their own in it.
static FIXED_PATHS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let table = super::router();
    table.paths().filter(|path| !path.contains('{')).collect()
});

/// No route has this path.
pub(crate) async fn path(
    caller: Result<AgentCaller<Anybody>, Problem>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let is_api = uri.path().starts_with("/v1/");
    if !is_api && is_browser(&headers) {
        return Html::Unknown.answer();
    }
    refuse(caller, &uri, || {
        let paths = FIXED_PATHS.iter().map(String::as_str);
        match intended(uri.path(), paths).filter(|_| is_api) {
            Some(path) => Problem::not_found(&format!("resource; did you mean {path}?")),
            None => Problem::not_found("resource"),
        }
    })
    .into_response()
}

/// The path is a route's, the method is not.
pub(crate) async fn method(caller: Result<AgentCaller<Anybody>, Problem>, uri: Uri) -> Problem {
    refuse(caller, &uri, || {
        Problem::new(
            Code::MethodNotAllowed,
            "the Allow header names the methods of this resource",
        )
    })
}

/// What cannot be an approval of a link, for a person who followed it.
pub(super) fn page(headers: &HeaderMap) -> Response {
    if is_browser(headers) {
        Html::Unknown.answer()
    } else {
        Problem::not_found("resource").into_response()
    }
}

/// Programs do not ask for HTML by name.
fn is_browser(headers: &HeaderMap) -> bool {
    Accepted::of(headers).names("text/html")
}

fn refuse(
    caller: Result<AgentCaller<Anybody>, Problem>,
    uri: &Uri,
    known: impl FnOnce() -> Problem,
) -> Problem {
    match caller {
        Err(problem) if uri.path().starts_with("/v1/") => problem,
        Ok(_) | Err(_) => known(),
    }
}
