//! What still works and has a successor (`docs/spec/http-api.md#deprecation`): answers to requests that use it say so.

use std::convert::Infallible;

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponseParts, ResponseParts},
};

/// When something became old (RFC 9745).
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");

/// What is old of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deprecated {
    /// `timeout` or `timeoutSeconds` of a call; `timeoutMs` is the successor.
    TimeoutInSeconds,
    /// `timeout` of a poll of the process tool; `timeoutMs` is the successor.
    TimeoutOfPoll,
    /// A stream that does not say whether a person answers where it is read.
    UndeclaredApprover,
}

impl Deprecated {
    /// Since when, as RFC 9745 writes it: Unix seconds.
    const fn since(self) -> &'static str {
        match self {
            // 2026-11-28
            Self::TimeoutInSeconds => "@1795824000",
            // 2026-11-29
            Self::TimeoutOfPoll => "@1795910400",
            // 2026-11-24
            Self::UndeclaredApprover => "@1795478400",
        }
    }
}

/// The headers of an answer to a request that used something old; nothing for none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeprecationHeaders(pub(crate) Option<Deprecated>);

impl IntoResponseParts for DeprecationHeaders {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        if let Some(deprecated) = self.0 {
            let headers = parts.headers_mut();
            headers.insert(DEPRECATION, HeaderValue::from_static(deprecated.since()));
            let link =
                HeaderValue::from_static("</docs#deprecated>; rel=\"deprecation\"; type=\"text/html\"");
            headers.append(header::LINK, link);
        }
        Ok(parts)
    }
}
