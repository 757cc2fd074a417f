//! Other web pages that may call the API: those of `[http] cors_origins`, with a token of their own. Without
//! that setting no answer says anything about other origins.
//!
//! Cookies are never part of it: no answer allows credentials, so the browser keeps ours to our own pages.
//!
//! Not `tower_http::cors`: it answers every `OPTIONS` itself, and tells pages that are not listed what it allows.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header},
    response::Response,
};

use crate::web_origin::Site;

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const REQUEST_HEADERS: &str = "Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Range, \
    X-CSRF-Token, traceparent, X-Request-Id, Mcp-Session-Id, MCP-Protocol-Version";
const ANSWER_HEADERS: &str = "ETag, Location, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, \
    traceparent, Content-Range, Mcp-Session-Id";
/// Seconds that a browser may remember the answer to a preflight.
const MAX_AGE: &str = "600";

/// Whether a request only asks what another page may send.
pub(crate) fn is_preflight(request: &Request<Body>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request
            .headers()
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight of a listed page.
pub(crate) fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// What an answer tells the browser about other pages. Only for servers that list any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// The listed origin that asked, as it wrote itself.
    allowed: Option<HeaderValue>,
}

impl Sharing {
    /// What is told to a request with these headers that comes from `site`.
    pub(crate) fn with(site: Site, headers: &HeaderMap) -> Self {
        let allowed = match site {
            Site::Listed => headers.get(header::ORIGIN).cloned(),
            Site::Unnamed | Site::Ours | Site::Foreign => None,
        };
        Self { allowed }
    }

    /// Writes it on an answer.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = self.allowed {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static(ANSWER_HEADERS),
            );
        }
    }
}
