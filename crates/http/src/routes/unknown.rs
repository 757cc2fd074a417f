//! Paths and methods that do not exist. Under `/v1/` only a caller with a token learns so.

use axum::http::Uri;

use crate::{
    caller::{AgentCaller, Anybody},
    problem::{Code, Problem},
};

/// No route has this path.
pub(crate) async fn path(caller: Result<AgentCaller<Anybody>, Problem>, uri: Uri) -> Problem {
    refuse(caller, &uri, || Problem::not_found("resource"))
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
