//! Other web pages, rates and traces: what answers say to whom.

use reqwest::{
    Method,
    header::{HeaderMap, ORIGIN},
};
use serde_json::json;

use super::browser::Browser;
use crate::support::{Answer, Api, TestServer, eventually, soon};

const BOARD: &str = "https://board.example";

fn sharing_headers(headers: &HeaderMap) -> Vec<String> {
    headers
        .keys()
        .map(ToString::to_string)
        .filter(|name| name.starts_with("access-control-"))
        .collect()
}

async fn preflight(api: &Api, origin: &str) -> Answer {
    let request = api
        .request(Method::OPTIONS, "/v1/exec")
        .header(ORIGIN, origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization, content-type");
    api.send(request).await
}

async fn get_as_page(api: &Api, origin: &str) -> Answer {
    let request = api.request(Method::GET, "/v1/runs").header(ORIGIN, origin);
    api.send(request).await
}

#[tokio::test]
async fn without_the_setting_no_answer_speaks_of_other_pages() {
    let server = TestServer::full().start().await;
    for answer in [
        preflight(&server.anonymous(), BOARD).await,
        preflight(&server.operator(), BOARD).await,
        get_as_page(&server.operator(), BOARD).await,
        get_as_page(&server.anonymous(), server.operator().base()).await,
    ] {
        assert!(
            sharing_headers(&answer.headers).is_empty(),
            "{:?}",
            answer.headers
        );
        assert!(!answer.headers.contains_key("vary"), "{:?}", answer.headers);
        assert_ne!(answer.status, 204);
    }
}

#[tokio::test]
async fn a_listed_page_may_call_with_a_token_of_its_own_from_one_moment_to_the_next() {
    let server = TestServer::full().start().await;
    let listed = format!("[exec]\nlogin_path = false\n[http]\ncors_origins = [\"{BOARD}\"]\n");
    server.edit_toml(&listed);
    let allowed = eventually("allowed", || preflight_of(&server), |answer| answer.status == 204).await;
    assert_eq!(allowed.header("access-control-allow-origin"), Some(BOARD));
    let list = |name: &str| allowed.header(name).unwrap_or_default().to_ascii_lowercase();
    for header in [
        "authorization",
        "content-type",
        "idempotency-key",
        "if-match",
        "last-event-id",
        "x-csrf-token",
        "traceparent",
        "x-request-id",
    ] {
        assert!(list("access-control-allow-headers").contains(header), "{header}");
    }
    for method in ["get", "post", "put", "patch", "delete"] {
        assert!(list("access-control-allow-methods").contains(method), "{method}");
    }
    assert!(allowed.header("access-control-max-age").is_some());

    let answer = get_as_page(&server.operator(), BOARD).await;
    answer.expect(200);
    assert_eq!(answer.header("access-control-allow-origin"), Some(BOARD));
    let exposed = answer
        .header("access-control-expose-headers")
        .unwrap()
        .to_ascii_lowercase();
    for header in ["etag", "location", "ratelimit", "retry-after", "x-request-id"] {
        assert!(exposed.contains(header), "{header}");
    }
    assert_eq!(answer.header("vary"), Some("Origin"));
    // A refusal can be read as well.
    let refused = get_as_page(&server.anonymous(), BOARD).await;
    refused.problem(401, "unauthorized");
    assert_eq!(refused.header("access-control-allow-origin"), Some(BOARD));

    for foreign in [
        "https://board.example.evil.example",
        "http://board.example",
        "null",
        "*",
    ] {
        for answer in [
            preflight(&server.anonymous(), foreign).await,
            get_as_page(&server.operator(), foreign).await,
        ] {
            assert!(sharing_headers(&answer.headers).is_empty(), "{foreign}");
            assert_eq!(answer.header("vary"), Some("Origin"));
        }
    }
    for answer in [&allowed, &answer] {
        assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    }

    server.edit_toml("[exec]\nlogin_path = false\n");
    eventually("closed", || preflight_of(&server), |answer| answer.status != 204).await;
}

async fn preflight_of(server: &TestServer) -> Answer {
    preflight(&server.anonymous(), BOARD).await
}

#[tokio::test]
async fn a_listed_page_signs_nobody_in() {
    let server = TestServer::full()
        .toml(&format!("[http]\ncors_origins = [\"{BOARD}\"]\n"))
        .start()
        .await;
    let api = server.anonymous();
    let request = api
        .request(Method::POST, "/auth/login")
        .header(ORIGIN, BOARD)
        .json(&json!({ "token": server.operator_token() }));
    api.send(request).await.problem(403, "forbidden");
}

#[tokio::test]
async fn answers_say_how_the_caller_stands() {
    let server = TestServer::full()
        .toml("[limits]\nrequests_per_second = 2\nrequest_burst = 4\nanonymous_per_second = 1\nanonymous_burst = 3\n")
        .start()
        .await;
    let first = server.agent().get("/v1/runs").await;
    assert_eq!(first.header("ratelimit"), Some("\"token\";r=3;t=1"));
    assert_eq!(first.header("ratelimit-policy"), Some("\"token\";q=4;w=2"));
    let anonymous = server.anonymous().get("/v1/version").await;
    assert_eq!(anonymous.header("ratelimit"), Some("\"address\";r=2;t=1"));
    let probe = server.anonymous().get("/healthz").await;
    assert_eq!(probe.header("ratelimit"), None, "nothing limits it");

    let limited = eventually(
        "limited",
        || async { server.agent().get("/v1/runs").await },
        |answer| answer.status == 429,
    )
    .await;
    limited.problem(429, "rate-limited");
    assert_eq!(limited.header("retry-after"), Some("1"));
    assert_eq!(limited.header("ratelimit"), Some("\"token\";r=0;t=1"));
    assert_eq!(limited.header("ratelimit-policy"), Some("\"token\";q=4;w=2"));
}

#[tokio::test]
async fn limits_follow_the_settings_and_zero_is_none() {
    let server = TestServer::full()
        .toml("[limits]\nanonymous_burst = 1\nanonymous_per_second = 1\n")
        .start()
        .await;
    let api = server.anonymous();
    let version = || async { api.get("/v1/version").await };
    eventually("limited", version, |answer| answer.status == 429).await;
    let edited = "[exec]\nlogin_path = false\n[limits]\nanonymous_per_second = 0\nrequest_burst = 7\n";
    server.edit_toml(edited);
    let is_unlimited = |answer: &Answer| answer.status == 200 && answer.header("ratelimit").is_none();
    eventually("open", version, is_unlimited).await;
    for _ in 0..20 {
        let answer = version().await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    let policy = server.agent().get("/v1/runs").await;
    assert_eq!(policy.header("ratelimit-policy"), Some("\"token\";q=7;w=1"));
}

#[tokio::test]
async fn a_trace_goes_on_in_the_answer_and_in_the_log() {
    let server = TestServer::full()
        .toml("[telemetry]\nlog_filter = \"countersign=debug\"\n")
        .start()
        .await;
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let api = server.agent();
    let with = |value: String| api.request(Method::GET, "/v1/runs").header("traceparent", value);
    let answer = api.send(with(format!("00-{trace}-{parent}-01"))).await;
    let ours = answer.header("traceparent").unwrap().to_owned();
    let parts: Vec<&str> = ours.split('-').collect();
    assert_eq!((parts[0], parts[1], parts[3]), ("00", trace, "01"));
    assert!(parts[2].len() == 16 && parts[2] != parent, "{ours}");
    let is_told = |log: &String| {
        log.lines()
            .any(|line| line.contains("answered") && line.contains(trace) && line.contains(parts[2]))
    };
    soon("logged", || server.log(), is_told).await;

    for malformed in ["", "00-xyz-1-01", &format!("ff-{trace}-{parent}-01")] {
        let answer = api.send(with(malformed.to_owned())).await;
        answer.expect(200);
        assert_eq!(answer.header("traceparent"), None, "{malformed:?}");
    }
    assert_eq!(api.get("/v1/runs").await.header("traceparent"), None);
}

#[tokio::test]
async fn a_request_id_comes_back_when_it_is_harmless() {
    let server = TestServer::full().start().await;
    let browser = Browser::by_link(&server).await;
    let with = |id: &str| {
        browser
            .request(Method::GET, "/v1/runs")
            .header("x-request-id", id)
    };
    let echoed = browser.api.send(with("req-7.a:b/c")).await;
    assert_eq!(echoed.header("x-request-id"), Some("req-7.a:b/c"));
    for odd in ["a b", "<script>", "x\"y", &"x".repeat(129)] {
        let made = browser.api.send(with(odd)).await;
        assert_eq!(made.header("x-request-id").map(str::len), Some(36), "{odd}");
    }
}
