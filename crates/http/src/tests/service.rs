//! The order of checks, credentials, limits and what all answers share.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody as _},
    http::{HeaderMap, Request, header},
    routing::get,
};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio_stream::wrappers::ReceiverStream;
use tracing::{Dispatch, subscriber::NoSubscriber};

use countersign_domain::{Actor, Scope};
use countersign_ledger::Page;
use countersign_sys::clock::Clock as _;

use super::{TestService, request};

use crate::Peer;

const BOARD: &str = "https://board.example";

#[tokio::test]
async fn checks_run_in_the_order_of_the_contract() {
    let server = TestService::new();
    let exec = server.token(&[Scope::Exec]).await;
    let approve = server.token(&[Scope::Approve]).await;
    let post = |host: &str, token: Option<&str>, path: &str, kind: &str, body: &str| {
        let mut request = request("POST", path, token)
            .header(header::CONTENT_TYPE, kind)
            .body(Body::from(body.to_owned()));
        request
            .as_mut()
            .unwrap()
            .headers_mut()
            .insert(header::HOST, host.parse().unwrap());
        server.send(request.unwrap())
    };
    let (json, text, big) = ("application/json", "text/plain", "[".repeat(100));
    // Everything is wrong at first; each row puts one thing right.
    assert_eq!(
        post("evil.example", None, "/v1/sum", text, &big).await.code(),
        (421, "misdirected-request")
    );
    assert_eq!(
        post("localhost", None, "/v1/sum", text, &big).await.code(),
        (401, "unauthorized")
    );
    assert_eq!(
        post("localhost", Some(&approve), "/v1/sum", text, &big)
            .await
            .code(),
        (403, "forbidden")
    );
    assert_eq!(
        post("localhost", Some(&exec), "/v1/nothing", text, &big)
            .await
            .code(),
        (404, "not-found")
    );
    assert_eq!(
        post("localhost", Some(&exec), "/v1/sum", text, &big).await.code(),
        (415, "unsupported-media-type")
    );
    assert_eq!(
        post("localhost", Some(&exec), "/v1/sum", json, &big).await.code(),
        (413, "body-too-large")
    );
    assert_eq!(
        post("localhost", Some(&exec), "/v1/sum", json, "{}").await.code(),
        (400, "invalid-request")
    );
    let sum = post(
        "gate.example:443",
        Some(&exec),
        "/v1/sum",
        json,
        r#"{"numbers":[1,2]}"#,
    )
    .await;
    assert_eq!((sum.status, sum.body), (200, Value::from(3)));
}

#[tokio::test]
async fn a_scope_opens_only_what_names_it() {
    let server = TestService::new();
    let read = server.token(&[Scope::Read, Scope::Admin]).await;
    let refused = server.get("/v1/approve", Some(&read)).await;
    assert_eq!(refused.code(), (403, "forbidden"));
    assert_eq!(refused.body["requiredScope"], "approve");
    assert_eq!(server.get("/v1/admin", Some(&read)).await.status, 200);
}

#[tokio::test]
async fn a_token_opens_until_it_expires_or_is_revoked() {
    let server = TestService::new();
    let ends = server.clock.now() + std::time::Duration::from_secs(10);
    let short = server.token_until(&[Scope::Admin], Some(ends)).await;
    let long = server.token(&[Scope::Admin]).await;
    for token in [&short, &long] {
        assert_eq!(server.get("/v1/admin", Some(token)).await.status, 200);
    }
    server.clock.set(ends);
    assert_eq!(
        server.get("/v1/admin", Some(&short)).await.code(),
        (401, "unauthorized")
    );
    assert_eq!(server.get("/v1/admin", Some(&long)).await.status, 200);

    let page = server.tokens.list(Page::first(10)).await.unwrap();
    let id = page
        .items
        .into_iter()
        .find(|token| token.expires_at.is_none())
        .unwrap()
        .id;
    server
        .tokens
        .revoke(&Actor::system(), &id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        server.get("/v1/admin", Some(&long)).await.code(),
        (401, "unauthorized")
    );
}

#[tokio::test]
async fn only_wrong_credentials_are_counted_and_valid_ones_still_pass() {
    let server = TestService::new();
    let admin = server.token(&[Scope::Admin]).await;
    for _ in 0..4 {
        let refused = server.get("/v1/admin", None).await;
        assert_eq!(refused.code(), (401, "unauthorized"));
        assert_eq!(
            refused.headers[header::WWW_AUTHENTICATE],
            "Bearer realm=\"countersign\""
        );
    }
    let wrong = format!("cst_{}", "A".repeat(43));
    for _ in 0..3 {
        assert_eq!(
            server.get("/v1/admin", Some(&wrong)).await.code(),
            (401, "unauthorized")
        );
    }
    let limited = server.get("/v1/admin", Some(&wrong)).await;
    assert_eq!(limited.code(), (429, "rate-limited"));
    assert!(limited.headers.contains_key(header::RETRY_AFTER) && limited.headers.contains_key("ratelimit"));
    assert_eq!(server.get("/v1/admin", Some(&admin)).await.status, 200);
}

#[tokio::test]
async fn anonymous_requests_have_a_rate_but_probes_do_not() {
    let server = TestService::new();
    for _ in 0..10 {
        assert_eq!(server.get("/open", None).await.status, 200);
    }
    assert_eq!(server.get("/open", None).await.code(), (429, "rate-limited"));
    for _ in 0..30 {
        assert_eq!(server.get("/healthz", None).await.code(), (404, "not-found"));
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_told_to_those_with_a_token() {
    let server = TestService::new();
    let admin = server.token(&[Scope::Admin]).await;
    assert_eq!(
        server.get("/v1/nothing", None).await.code(),
        (401, "unauthorized")
    );
    assert_eq!(server.get("/nothing", None).await.code(), (404, "not-found"));
    assert_eq!(
        server.get("/v1/nothing", Some(&admin)).await.code(),
        (404, "not-found")
    );
    assert_eq!(server.get("/v1/sum", None).await.code(), (401, "unauthorized"));
    let refused = server.get("/v1/sum", Some(&admin)).await;
    assert_eq!(refused.code(), (405, "method-not-allowed"));
    assert_eq!(refused.headers[header::ALLOW], "POST");
    assert_eq!(refused.body["detail"], "this resource takes POST");
}

#[tokio::test]
async fn every_answer_has_an_id_and_the_headers_of_an_api() {
    let server = TestService::new();
    let exec = server.token(&[Scope::Exec]).await;
    let with_id = request("GET", "/open", None)
        .header("x-request-id", "req-7")
        .body(Body::empty())
        .unwrap();
    let answer = server.send(with_id).await;
    assert_eq!(answer.headers["x-request-id"], "req-7");
    assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
    assert_eq!(answer.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");

    let odd = request("GET", "/open", None)
        .header("x-request-id", "a b\"c")
        .body(Body::empty())
        .unwrap();
    assert_eq!(server.send(odd).await.headers["x-request-id"].len(), 36);

    let broken = server.get("/v1/panic", Some(&exec)).await;
    assert_eq!(broken.code(), (500, "internal"));
    assert_eq!(
        broken.body["requestId"],
        broken.headers["x-request-id"].to_str().unwrap()
    );
    assert_eq!(broken.headers[header::CONTENT_TYPE], "application/problem+json");
    assert_eq!(broken.body["instance"], "/v1/panic");
}

#[tokio::test]
async fn every_page_leaves_with_the_headers_of_a_page() {
    let server = TestService::new();
    let page = server.get("/page", None).await;
    let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.headers[header::REFERRER_POLICY], "no-referrer");
    let other = server.get("/open", None).await;
    assert!(!other.headers.contains_key(header::CONTENT_SECURITY_POLICY));
}

#[tokio::test]
async fn only_inside_tls_a_browser_is_told_to_stay_there() {
    let server = TestService::new();
    let address = ([127, 0, 0, 1], 40_000).into();
    for (peer, transport) in [
        (Peer::Tcp(address), "Plain"),
        (Peer::Tls(address), "Tls"),
        (Peer::Unix, "Plain"),
    ] {
        let request = request("GET", "/transport", None).body(Body::empty()).unwrap();
        let response = server.service.answer(peer, request).await;
        assert_eq!(
            response.headers().contains_key(header::STRICT_TRANSPORT_SECURITY),
            peer.is_tls()
        );
        let text = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap();
        assert_eq!(text.to_bytes(), transport);
    }
}

#[tokio::test]
async fn a_preflight_of_a_listed_page_is_answered_before_any_route() {
    let server = TestService::listing(BOARD);
    let answer = server.send(preflight(BOARD)).await;
    insta::assert_snapshot!(answer.whole(), @r#"
    204
    access-control-allow-headers: Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Range, X-CSRF-Token, traceparent, X-Request-Id, Mcp-Session-Id, MCP-Protocol-Version
    access-control-allow-methods: GET, HEAD, POST, PUT, PATCH, DELETE
    access-control-allow-origin: https://board.example
    access-control-expose-headers: ETag, Location, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, traceparent, Content-Range, Mcp-Session-Id
    access-control-max-age: 600
    cache-control: no-store
    ratelimit-policy: "address";q=10;w=10
    ratelimit: "address";r=9;t=1
    vary: Origin
    x-content-type-options: nosniff
    x-request-id: req-7

    null
    "#);
}

#[tokio::test]
async fn a_preflight_of_any_other_page_goes_to_the_route_and_allows_nothing() {
    let foreign = TestService::listing("https://other.example");
    insta::assert_snapshot!(foreign.send(preflight(BOARD)).await.whole(), @r#"
    401
    allow: POST
    cache-control: no-store
    content-type: application/problem+json
    ratelimit-policy: "address";q=10;w=10
    ratelimit: "address";r=9;t=1
    vary: Origin
    www-authenticate: Bearer realm="countersign"
    x-content-type-options: nosniff
    x-request-id: req-7

    {"type":"/docs#unauthorized","title":"Valid credentials are needed","status":401,"detail":"a bearer token is needed","instance":"/v1/sum","code":"unauthorized","retryable":false}
    "#);
    let closed = TestService::new();
    insta::assert_snapshot!(closed.send(preflight(BOARD)).await.whole(), @r#"
    401
    allow: POST
    cache-control: no-store
    content-type: application/problem+json
    ratelimit-policy: "address";q=10;w=10
    ratelimit: "address";r=9;t=1
    www-authenticate: Bearer realm="countersign"
    x-content-type-options: nosniff
    x-request-id: req-7

    {"type":"/docs#unauthorized","title":"Valid credentials are needed","status":401,"detail":"a bearer token is needed","instance":"/v1/sum","code":"unauthorized","retryable":false}
    "#);
}

#[tokio::test]
async fn a_listed_page_that_asks_for_the_options_of_a_resource_reaches_its_route() {
    let server = TestService::listing(BOARD);
    let exec = server.token(&[Scope::Exec]).await;
    let options = request("OPTIONS", "/v1/sum", Some(&exec)).header(header::ORIGIN, BOARD);
    let answer = server.send(options.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.code(), (405, "method-not-allowed"));
    assert_eq!(answer.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], BOARD);
}

fn preflight(origin: &str) -> Request<Body> {
    request("OPTIONS", "/v1/sum", None)
        .header(header::ORIGIN, origin)
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
        .header("x-request-id", "req-7")
        .body(Body::empty())
        .unwrap()
}

#[tokio::test]
async fn a_panic_of_a_handler_is_a_fault_that_the_log_has_under_its_request_id() {
    let server = TestService::new();
    let exec = server.token(&[Scope::Exec]).await;
    // With one subscriber, tracing asks only the thread that logs a message first whether anybody wants it. With two, it
    // asks both of them, whichever thread comes first.
    let second = Dispatch::new(NoSubscriber::new());
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone());
    let listening = tracing::subscriber::set_default(lines.finish());
    let request = request("GET", "/v1/panic", Some(&exec))
        .header("x-request-id", "req-7")
        .body(Body::empty())
        .unwrap();
    let answer = server.send(request).await;
    drop((listening, second));
    insta::assert_snapshot!(answer.whole(), @r#"
    500
    cache-control: no-store
    content-type: application/problem+json
    ratelimit-policy: "token";q=20;w=20
    ratelimit: "token";r=19;t=1
    x-content-type-options: nosniff
    x-request-id: req-7

    {"type":"/docs#internal","title":"Something went wrong in the server","status":500,"detail":"the request id names this fault in the server's log","instance":"/v1/panic","code":"internal","retryable":false,"requestId":"req-7"}
    "#);
    let log = log.text();
    assert!(
        log.lines()
            .any(|line| line.contains("a handler panicked") && line.contains("req-7")),
        "{log}"
    );
}

/// Lines of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_handler_that_prints_its_headers_prints_no_secret() {
    let server = TestService::with(|_ledger| {
        Router::new().route(
            "/headers",
            get(|headers: HeaderMap| async move { axum::Json(format!("{headers:?}")) }),
        )
    });
    let request = request("GET", "/headers", Some("secret-token"))
        .header(header::COOKIE, "countersign_session=secret-cookie")
        .header(header::COOKIE, "other=secret-of-another")
        .header("x-csrf-token", "secret-second")
        .header(header::ACCEPT, "text/plain")
        .body(Body::empty())
        .unwrap();
    let printed = server.send(request).await.body.to_string();
    assert!(
        printed.contains("text/plain") && !printed.contains("secret"),
        "{printed}"
    );
}

#[tokio::test]
async fn a_stream_leaves_frame_by_frame() {
    let (frames, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, Infallible>>(1);
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let server = TestService::with(|_ledger| {
        let stream = move || {
            let receiver = receiver.lock().unwrap().take().unwrap();
            async move { Body::from_stream(ReceiverStream::new(receiver)) }
        };
        Router::new().route("/stream", get(stream))
    });
    let request = request("GET", "/stream", None).body(Body::empty()).unwrap();
    let mut body = server.service.answer(Peer::Unix, request).await.into_body();
    for text in ["one", "two"] {
        frames.send(Ok(text.into())).await.unwrap();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), text);
    }
    drop(body);
    assert!(
        frames.is_closed(),
        "a client that leaves must end what makes its stream"
    );
}

#[tokio::test]
async fn an_answer_keeps_its_known_length() {
    let server = TestService::new();
    for (method, size) in [("GET", 6), ("HEAD", 0)] {
        let request = request(method, "/open", None).body(Body::empty()).unwrap();
        let answer = server.service.answer(Peer::Unix, request).await;
        assert_eq!(answer.headers()[header::CONTENT_LENGTH], "6", "{method}");
        let hint = answer.body().size_hint();
        assert_eq!(hint.exact(), Some(size), "{method}");
    }
}
