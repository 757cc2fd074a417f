//! Acting for somebody else's browser: each way that is known, and what stops it.

use reqwest::{
    Method, RequestBuilder,
    header::{COOKIE, HOST, ORIGIN},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::browser::{Browser, code};
use crate::support::{Answer, Api, Members, TestServer, eventually, within};

async fn send(browser: &Browser, request: RequestBuilder) -> Answer {
    browser.api.send(request).await
}

/// Sends bytes and reads the whole answer.
async fn exchange(server: &TestServer, head: &str) -> String {
    let address = server.anonymous().base().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(head.as_bytes()).await.expect("sending");
    let mut answer = Vec::new();
    // A server that closes early has answered all the same.
    drop(within("the answer", stream.read_to_end(&mut answer)).await);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn another_port_of_the_host_sees_the_cookie_and_can_do_nothing_with_it() {
    let server = TestServer::asking().start().await;
    let browser = Browser::by_link(&server).await;
    let pending = server.accepted(json!({ "argv": ["/bin/echo", "x"] })).await;
    let decision = format!("/v1/approvals/{}/decision", pending.text("approvalId"));
    for (method, path) in [
        (Method::GET, "/v1/approvals"),
        (Method::GET, "/v1/events"),
        (Method::GET, "/v1/tokens"),
        (Method::POST, "/v1/login-links"),
        (Method::POST, "/v1/tokens"),
        (Method::POST, decision.as_str()),
        (Method::POST, "/auth/logout"),
    ] {
        let bare = browser
            .cookie_only(method.clone(), path)
            .json(&json!({ "decision": "allow-once" }));
        send(&browser, bare).await.problem(403, "forbidden");
    }
    send(&browser, browser.cookie_only(Method::GET, "/auth/session"))
        .await
        .problem(401, "unauthorized");
    assert_eq!(server.operator().pending().await.len(), 1);
    browser.session().await.expect(200);
}

#[tokio::test]
async fn the_second_secret_is_that_of_the_very_session() {
    let server = TestServer::full().start().await;
    let (one, other) = (Browser::by_link(&server).await, Browser::by_link(&server).await);
    let mut changed = one.csrf.clone();
    let last = if changed.pop() == Some('A') { 'E' } else { 'A' };
    changed.push(last);
    for second in [
        &other.csrf,
        &changed,
        &one.cookie,
        &server.operator_token(),
        &String::new(),
    ] {
        let request = one
            .cookie_only(Method::GET, "/v1/runs")
            .header("X-CSRF-Token", second);
        send(&one, request).await.problem(403, "forbidden");
    }
    let twice = one
        .cookie_only(Method::GET, "/v1/runs")
        .header("X-CSRF-Token", &one.csrf)
        .header("X-CSRF-Token", &one.csrf);
    send(&one, twice).await.problem(403, "forbidden");
}

#[tokio::test]
async fn whoever_has_no_token_cannot_make_the_server_hold_large_bodies() {
    let server = TestServer::full().start().await;
    let anonymous = server.anonymous();
    let large = "x".repeat(64 * 1024);
    for (path, body) in [
        ("/auth/login", json!({ "token": large })),
        ("/auth/logout", json!({ large.as_str(): 1 })),
    ] {
        // It may hang up on somebody who is still writing.
        let ask = || Api::try_send(anonymous.request(Method::POST, path).json(&body));
        let mut answer = ask().await;
        for _ in 0..20 {
            if answer.is_err() {
                answer = ask().await;
            }
        }
        answer.expect("an answer").problem(413, "body-too-large");
    }
}

#[tokio::test]
async fn one_secret_is_never_taken_for_another() {
    let server = TestServer::full().start().await;
    let browser = Browser::by_link(&server).await;
    let fresh = code(&server).await;
    let api = &browser.api;
    let header_only = api
        .request(Method::GET, "/v1/runs")
        .header("X-CSRF-Token", &browser.csrf);
    api.send(header_only).await.problem(401, "unauthorized");
    for secret in [&browser.cookie, &browser.csrf, &fresh] {
        api.with_token(Some(secret))
            .get("/v1/runs")
            .await
            .problem(401, "unauthorized");
    }
    for cookie in [&browser.csrf, &fresh, &server.operator_token(), &"x".repeat(4000)] {
        let request = api
            .request(Method::GET, "/v1/runs")
            .header(COOKIE, format!("countersign_session={cookie}"))
            .header("X-CSRF-Token", &browser.csrf);
        api.send(request).await.problem(401, "unauthorized");
    }
    for body in [
        json!({ "code": browser.cookie }),
        json!({ "code": server.operator_token() }),
        json!({ "token": browser.cookie }),
        json!({ "token": fresh }),
    ] {
        api.post("/auth/login", body).await.problem(401, "unauthorized");
    }
    api.posted("/auth/login", json!({ "code": fresh })).await;
}

#[tokio::test]
async fn beside_a_token_the_cookie_does_not_count() {
    let server = TestServer::full().start().await;
    let browser = Browser::by_link(&server).await;
    let with = |token: String| browser.request(Method::GET, "/v1/tokens").bearer_auth(token);
    send(&browser, with(server.gateway_token()))
        .await
        .problem(403, "forbidden");
    let nobody = format!("cst_{}", "A".repeat(43));
    send(&browser, with(nobody)).await.problem(401, "unauthorized");
    send(&browser, with(server.operator_token())).await.expect(200);
    // Nor is a token's request refused for a cookie that tags along.
    let plain = browser
        .cookie_only(Method::GET, "/v1/tokens")
        .header(ORIGIN, "https://evil.example")
        .bearer_auth(server.operator_token());
    send(&browser, plain).await.expect(200);
}

#[tokio::test]
async fn a_cookie_that_somebody_added_takes_the_place_of_none() {
    let server = TestServer::full().start().await;
    let (victim, attacker) = (Browser::by_link(&server).await, Browser::by_link(&server).await);
    let (ours, theirs) = (&victim.cookie, &attacker.cookie);
    for cookies in [
        format!("countersign_session={theirs}; countersign_session={ours}"),
        format!("countersign_session={ours}; countersign_session={theirs}"),
        format!("countersign_session={ours}; a=b; countersign_session="),
        format!("countersign_session={ours}; countersign_session={ours}"),
    ] {
        let request = victim
            .api
            .request(Method::GET, "/v1/runs")
            .header(COOKIE, &cookies)
            .header("X-CSRF-Token", &victim.csrf);
        send(&victim, request).await.problem(401, "unauthorized");
    }
    let crowd = "c=v; ".repeat(1000);
    let request = victim
        .api
        .request(Method::GET, "/auth/session")
        .header(COOKIE, format!("{crowd}countersign_session={ours}"))
        .header("X-CSRF-Token", &victim.csrf);
    send(&victim, request).await.expect(200);
}

#[tokio::test]
async fn a_session_that_somebody_chose_is_not_the_one_that_a_login_opens() {
    let server = TestServer::full().start().await;
    let attacker = Browser::by_token(&server, &server.gateway_token()).await;
    let fixed = attacker
        .cookie_only(Method::POST, "/auth/login")
        .header(ORIGIN, attacker.api.base())
        .json(&json!({ "code": code(&server).await }));
    let victim = Browser::of(attacker.api.clone(), &send(&attacker, fixed).await);
    assert_ne!(victim.cookie, attacker.cookie);
    assert_eq!(victim.session().await.expect(200)["name"], "operator");
    attacker.session().await.problem(401, "unauthorized");
}

#[tokio::test]
async fn cookies_without_end_are_refused_and_the_server_goes_on() {
    let server = TestServer::full().start().await;
    let head = format!(
        "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nCookie: countersign_session={}\r\n\r\n",
        "a".repeat(200_000)
    );
    let answer = exchange(&server, &head).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    server.operator().read("/v1/runs").await;
}

#[tokio::test]
async fn a_foreign_page_cannot_use_the_cookie() {
    let server = TestServer::full().start().await;
    let browser = Browser::by_link(&server).await;
    let base = browser.api.base();
    let port = base.rsplit_once(':').unwrap().1.to_owned();
    for origin in [
        "https://evil.example",
        "null",
        "http://localhost:1",
        "http://127.0.0.1",
        &format!("https://evil.example:{port}"),
        &format!("http://127.0.0.1.evil.example:{port}"),
        &format!("{base}.evil.example"),
        &format!("http://localhost:{port}"),
    ] {
        for (method, path) in [
            (Method::GET, "/v1/runs"),
            (Method::GET, "/v1/events"),
            (Method::POST, "/auth/logout"),
        ] {
            let request = browser
                .cookie_only(method.clone(), path)
                .header("X-CSRF-Token", &browser.csrf)
                .header(ORIGIN, origin);
            let answer = send(&browser, request).await;
            answer.problem(403, "forbidden");
            assert!(answer.header("access-control-allow-origin").is_none());
        }
    }
    browser.session().await.expect(200);
}

#[tokio::test]
async fn a_foreign_page_cannot_sign_anybody_in() {
    let server = TestServer::full().start().await;
    let code = code(&server).await;
    let api = server.anonymous();
    for origin in ["https://evil.example", "null", "http://localhost:1"] {
        let request = api
            .request(Method::POST, "/auth/login")
            .header(ORIGIN, origin)
            .json(&json!({ "code": code }));
        let answer = api.send(request).await;
        answer.problem(403, "forbidden");
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    let ours = api
        .request(Method::POST, "/auth/login")
        .header(ORIGIN, api.base())
        .json(&json!({ "code": code }));
    api.send(ours).await.expect(200);
}

#[tokio::test]
async fn a_name_that_was_pointed_at_us_opens_nothing() {
    let server = TestServer::full().start().await;
    let browser = Browser::by_link(&server).await;
    let code = code(&server).await;
    for host in ["evil.example", "evil.example:80", "localhost.evil.example"] {
        let origin = format!("http://{host}");
        let request = browser
            .cookie_only(Method::GET, "/auth/session")
            .header("X-CSRF-Token", &browser.csrf)
            .header(HOST, host)
            .header(ORIGIN, &origin);
        send(&browser, request).await.problem(421, "misdirected-request");
        let login = browser
            .api
            .request(Method::POST, "/auth/login")
            .header(HOST, host)
            .header(ORIGIN, &origin)
            .json(&json!({ "code": code }));
        send(&browser, login).await.problem(421, "misdirected-request");
    }
}

#[tokio::test]
async fn a_foreign_page_opens_no_web_socket() {
    // Whoever may open one and says nothing is hung up on.
    let server = TestServer::full()
        .toml("[bridge]\nhandshake_timeout_ms = 200\n")
        .start()
        .await;
    let host = server.anonymous().base().trim_start_matches("http://").to_owned();
    let upgrade = |origin: &str, path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\n{origin}Connection: Upgrade, close\r\nUpgrade: WebSocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
    };
    for path in ["/", "/bridge", "/v1/events"] {
        for origin in ["https://evil.example", "null", "http://localhost:1"] {
            let answer = exchange(&server, &upgrade(&format!("Origin: {origin}\r\n"), path)).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{path} {origin}: {answer}");
        }
        for origin in [String::new(), format!("Origin: http://{host}\r\n")] {
            let answer = exchange(&server, &upgrade(&origin, path)).await;
            assert!(!answer.starts_with("HTTP/1.1 403"), "{path} {origin}: {answer}");
        }
    }
}

#[tokio::test]
async fn who_asked_cannot_answer_by_browser() {
    let server = TestServer::asking().start().await;
    let browser = Browser::by_token(&server, &server.gateway_token()).await;
    let call = browser
        .request(Method::POST, "/v1/exec")
        .json(&json!({ "argv": ["/bin/echo", "x"] }));
    let pending = send(&browser, call).await.expect(202);
    let path = format!("/v1/approvals/{}/decision", pending.text("approvalId"));
    let answer = browser.post(&path, json!({ "decision": "allow-once" })).await;
    assert_eq!(answer.problem(403, "forbidden")["requiredScope"], "approve");
    browser
        .post("/v1/login-links", json!({}))
        .await
        .problem(403, "forbidden");
    assert_eq!(server.operator().pending().await.len(), 1);
}

#[tokio::test]
async fn a_token_with_many_browsers_signs_out_its_own_oldest_and_nobody_elses() {
    let server = TestServer::full()
        .toml("[limits]\nanonymous_per_second = 0\n")
        .start()
        .await;
    let person = Browser::by_link(&server).await;
    let first = Browser::by_token(&server, &server.gateway_token()).await;
    let second = Browser::by_token(&server, &server.gateway_token()).await;
    first.session().await.expect(200);
    for _ in 2..=100 {
        Browser::by_token(&server, &server.gateway_token()).await;
    }
    first.session().await.problem(401, "unauthorized");
    second.session().await.expect(200);
    person.session().await.expect(200);
}

#[tokio::test]
async fn the_browsers_of_a_token_share_its_rate() {
    let server = TestServer::full()
        .toml("[limits]\nrequests_per_second = 1\nrequest_burst = 20\n")
        .start()
        .await;
    let token = server.gateway_token();
    let (one, other) = (
        Browser::by_token(&server, &token).await,
        Browser::by_token(&server, &token).await,
    );
    one.session().await.expect(200);
    other.session().await.expect(200);
    server.agent().read("/v1/runs").await;
    eventually("limited", || one.session(), |answer| answer.status == 429)
        .await
        .problem(429, "rate-limited");
    // With a rate of its own it could ask as often as that at once.
    let mut statuses = Vec::new();
    for _ in 0..20 {
        statuses.push(other.session().await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}
