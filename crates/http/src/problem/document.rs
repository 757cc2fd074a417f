//! The problem document (RFC 9457) and its way into an answer.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use countersign_domain::{Reason, RunId};
use countersign_engine::hint::hint;
use countersign_ledger::auth::{Limited, RateStatus};
use countersign_wire::problem::{FieldError, ProblemBody};

use super::Code;

use crate::rate_headers;

/// Longest text in a problem that may repeat what the caller sent.
const MAX_ECHO_CHARS: usize = 300;

/// A refusal on its way out. The HTTP service adds `instance` and writes it, so that every refusal,
/// wherever it was made, leaves in the same form.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Problem(Box<Inner>);

#[derive(Debug, Clone, PartialEq)]
struct Inner {
    code: Code,
    /// What the code and the request say is added on the way out.
    body: ProblemBody,
    headers: HeaderMap,
}

impl Problem {
    /// A refusal with an explanation for people.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            body: ProblemBody {
                detail: shorten(detail.into()),
                ..ProblemBody::default()
            },
            headers: HeaderMap::new(),
        }))
    }

    /// A refusal because of one member of the request.
    pub fn field(path: impl Into<String>, message: impl Into<String>) -> Self {
        let (path, message) = (shorten(path.into()), shorten(message.into()));
        let detail = if path.is_empty() {
            message.clone()
        } else {
            format!("{path}: {message}")
        };
        Self::new(Code::InvalidRequest, detail).with_field(path, message)
    }

    /// A fault of ours; says nothing about it. The cause belongs into the log.
    pub fn internal() -> Self {
        Self::new(
            Code::Internal,
            "the request id names this fault in the server's log",
        )
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no such {what}"))
    }

    /// There is no such run, or not for this caller.
    pub(crate) fn unknown_run() -> Self {
        Self::not_found("run").with_hint(Some(hint(&["runs", "list"])))
    }

    /// Too many requests, with the headers that say when to come back.
    pub fn limited(limited: Limited) -> Self {
        let seconds = whole_seconds(limited.retry_after);
        let mut problem = Self::new(Code::RateLimited, format!("try again in {seconds} s"))
            .with_header(header::RETRY_AFTER, HeaderValue::from(seconds));
        let rate_status = RateStatus {
            policy: limited.policy,
            remaining: 0,
            reset: seconds,
        };
        rate_headers::write(rate_status, &mut problem.0.headers);
        problem
    }

    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    /// The refusal of an id that no paired node has.
    pub fn unknown_node() -> Self {
        Self::new(Code::NodeNotFound, "there is no paired node with this id")
            .with_hint(Some(hint(&["nodes", "list"])))
    }

    /// The same of a member that lies within another one.
    pub(crate) fn within(self, outer: &str) -> Self {
        self.with(|body| {
            body.detail = format!("{outer}.{}", body.detail);
            for field in &mut body.fields {
                field.path = format!("{outer}.{}", field.path);
            }
        })
    }

    /// Names the run that records the refusal.
    pub fn with_run(mut self, run_id: RunId) -> Self {
        self.0.body.run_id = Some(run_id);
        self
    }

    /// Names one wrong member of the request.
    pub(crate) fn with_field(mut self, path: impl Into<String>, message: impl Into<String>) -> Self {
        self.0.body.fields.push(FieldError {
            path: path.into(),
            message: message.into(),
        });
        self
    }

    /// Adds members of its own to the document.
    pub fn with(mut self, add: impl FnOnce(&mut ProblemBody)) -> Self {
        add(&mut self.0.body);
        self
    }

    /// The same with another detail.
    pub(crate) fn because(self, detail: &str) -> Self {
        self.with(|body| detail.clone_into(&mut body.detail))
    }

    /// Adds the exact command or key that would change the answer.
    pub(crate) fn with_hint(self, hint: Option<String>) -> Self {
        self.with(|body| body.hint = hint)
    }

    /// Adds a header to the answer.
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.insert(name, value);
        self
    }

    /// The same with the methods that its path takes, which a refusal of the method says in words too.
    pub(crate) fn allowing(self, methods: Option<HeaderValue>) -> Self {
        let Some(methods) = methods else {
            return self;
        };
        let words = methods.to_str().unwrap_or_default().replace(',', ", ");
        let problem = self.with_header(header::ALLOW, methods);
        if problem.code() == Code::MethodNotAllowed {
            problem.with(|body| body.detail = format!("this resource takes {words}"))
        } else {
            problem
        }
    }

    pub(super) fn with_text_header(self, name: HeaderName, value: &str) -> Self {
        match HeaderValue::from_str(value) {
            Ok(value) => self.with_header(name, value),
            Err(_not_ascii) => self,
        }
    }

    /// The document, for the request at `path`.
    pub fn to_json(&self, path: &str, request_id: &str) -> Value {
        json!(ProblemBody {
            request_id: (self.0.code == Code::Internal).then(|| request_id.to_owned()),
            ..self.clone().into_body(path)
        })
    }

    /// The document as a part of an answer about several things: what the request at `path` alone would have got.
    pub(crate) fn into_body(self, path: &str) -> ProblemBody {
        let Inner { code, body, .. } = *self.0;
        ProblemBody {
            r#type: format!("/docs#{code}"),
            title: code.title().into(),
            status: code.status().as_u16(),
            instance: shorten(path.to_owned()),
            code: code.as_str().into(),
            retryable: code.retryable(),
            ..body
        }
    }

    /// Takes a refusal out of a response that a handler or extractor made of it.
    pub(crate) fn take(response: &mut Response) -> Option<Self> {
        response.extensions_mut().remove::<Self>()
    }

    pub(crate) fn render(self, path: &str, request_id: &str) -> Response {
        let body = self.to_json(path, request_id).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.0.code.status();
        *response.headers_mut() = self.0.headers;
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        response
    }
}

impl Problem {
    /// The finished answer in the form that the product's tool endpoint has: a type and a message for its clients, and
    /// what the document has besides for everybody else.
    pub(crate) fn render_for_tool(self, request_id: &str) -> Response {
        let mut error = Map::new();
        let inner = &*self.0;
        let reason = inner.body.reason.as_deref();
        let is_denied_tool = inner.code == Code::ToolDenied || reason == Some(Reason::ToolDenied.as_str());
        let status = match inner.code.status() {
            _ if is_denied_tool => StatusCode::NOT_FOUND,
            // The tool is there, what its arguments name is not.
            StatusCode::NOT_FOUND if inner.body.tool.is_none() => StatusCode::BAD_REQUEST,
            StatusCode::CONFLICT | StatusCode::GONE | StatusCode::UNPROCESSABLE_ENTITY => {
                StatusCode::BAD_REQUEST
            }
            status if status.is_server_error() => StatusCode::INTERNAL_SERVER_ERROR,
            status => status,
        };
        let kind = match status {
            StatusCode::NOT_FOUND => "not_found",
            StatusCode::UNAUTHORIZED => "unauthorized",
            _ => "tool_error",
        };
        let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
        let hint = inner.body.hint.as_ref();
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        error.insert("type".to_owned(), kind.into());
        error.insert(
            "message".to_owned(),
            format!("{}{reason}: {}{hint}", inner.code.title(), inner.body.detail).into(),
        );
        if let Value::Object(document) = self.to_json("", request_id) {
            let ours = ["type", "title", "status", "detail", "instance"];
            error.extend(
                document
                    .into_iter()
                    .filter(|(name, _)| !ours.contains(&name.as_str())),
            );
        }
        let body = json!({ "ok": false, "error": error }).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        *response.headers_mut() = self.0.headers;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

impl IntoResponse for Problem {
    /// An answer that still carries the refusal; `render` writes it.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.0.code.status();
        response.extensions_mut().insert(self);
        response
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_nanos() > 0))
        .max(1)
}

/// Keeps the beginning of a text that may repeat what the caller sent, so that an answer stays small.
fn shorten(text: String) -> String {
    match text.char_indices().nth(MAX_ECHO_CHARS) {
        Some((end, _)) => text
            .get(..end)
            .map_or_else(String::new, |start| format!("{start}…")),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_the_members_of_the_contract() {
        let problem = Problem::new(Code::ExecDenied, "nobody could be reached")
            .with_run(RunId::parse("r-1").unwrap())
            .with(|body| body.reason = Some("no-approver".into()))
            .with_hint(Some("countersign approver".to_owned()));
        insta::assert_snapshot!(problem.to_json("/v1/exec", "q-1"), @r#"{"type":"/docs#exec-denied","title":"The command was denied","status":403,"detail":"nobody could be reached","instance":"/v1/exec","code":"exec-denied","retryable":false,"runId":"r-1","reason":"no-approver","hint":"countersign approver"}"#);
        insta::assert_snapshot!(Problem::internal().to_json("/x", "q-1"), @r#"{"type":"/docs#internal","title":"Something went wrong in the server","status":500,"detail":"the request id names this fault in the server's log","instance":"/x","code":"internal","retryable":false,"requestId":"q-1"}"#);
        insta::assert_snapshot!(Problem::field("host", "expected a word").to_json("/x", "q-1"), @r#"{"type":"/docs#invalid-request","title":"The request is not valid","status":400,"detail":"host: expected a word","instance":"/x","code":"invalid-request","retryable":false,"fields":[{"path":"host","message":"expected a word"}]}"#);
    }

    #[test]
    fn what_the_caller_sent_is_repeated_only_in_part() {
        let problem = Problem::field("é".repeat(1000), "unknown member");
        assert!(problem.to_json(&"/x".repeat(9999), "q").to_string().len() < 4000);
    }

    #[test]
    fn a_limit_says_when_to_come_back() {
        let limited = Limited {
            retry_after: Duration::from_millis(5100),
            policy: countersign_ledger::auth::Policy {
                name: "token",
                quota: 20,
                window: 4,
            },
        };
        let response = Problem::limited(limited).render("/x", "q");
        assert_eq!(response.headers()["retry-after"], "6");
        assert_eq!(response.headers()["ratelimit"], "\"token\";r=0;t=6");
        assert_eq!(response.headers()["ratelimit-policy"], "\"token\";q=20;w=4");
    }
}
