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

/// The paths of the contract, `{name}` for what is an id.
static PATHS: LazyLock<Vec<String>> = LazyLock::new(|| super::router().paths().collect());
/// Longer paths resemble none of these.
const LONGEST_PATH: usize = 200;

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
    refuse(caller, &uri, || match resembling(uri.path()).filter(|_| is_api) {
        Some(path) => Problem::not_found(&format!("resource; did you mean {path}?")),
        None => Problem::not_found("resource"),
    })
    .into_response()
}

/// The path of the contract that an unknown one is probably a slip for.
fn resembling(path: &str) -> Option<String> {
    if path.len() > LONGEST_PATH {
        return None;
    }
    let part_by_part = PATHS.iter().find_map(|known| filled_in(known, path));
    part_by_part.or_else(|| {
        let fixed = PATHS
            .iter()
            .map(String::as_str)
            .filter(|known| !known.contains('{'));
        intended(path, fixed).map(str::to_owned)
    })
}

/// A path with ids, where every other part of `path` is the same or a slip for it.
fn filled_in(known: &str, path: &str) -> Option<String> {
    if known.split('/').count() != path.split('/').count() {
        return None;
    }
    let parts = known.split('/').zip(path.split('/'));
    let meant: Option<Vec<&str>> = parts
        .map(|(known, given)| match known.starts_with('{') {
            true => Some(given).filter(|id| !id.is_empty()),
            false if known == given => Some(given),
            false => intended(given, [known]),
        })
        .collect();
    Some(meant?.join("/"))
}

/// The path is a route's, the method is not.
pub(crate) async fn method(caller: Result<AgentCaller<Anybody>, Problem>, uri: Uri) -> Problem {
    refuse(caller, &uri, || {
        Problem::new(Code::MethodNotAllowed, "this resource takes other methods")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_in_a_path_is_recognised() {
        for (path, meant) in [
            ("/v1/approval", Some("/v1/approvals")),
            ("/v1/policy/documents", Some("/v1/policy/document")),
            ("/v1/runs/019a-x/outputs", Some("/v1/runs/019a-x/output")),
            (
                "/v1/approval/f476bff0/decision",
                Some("/v1/approvals/f476bff0/decision"),
            ),
            ("/v1/runs//outputs", None),
            ("/v1/entirely/elsewhere/it/seems", None),
        ] {
            assert_eq!(resembling(path).as_deref(), meant, "{path}");
        }
        assert_eq!(resembling(&format!("/v1/run{}", "s".repeat(500))), None);
    }
}
