//! Who may do what: tokens, scopes, hosts.

use reqwest::{Method, header::HOST};
use serde_json::json;

use crate::support::{Members, TestServer, eventually};

#[tokio::test]
async fn the_tokens_of_the_first_start_are_private_and_divide_the_work() {
    use std::os::unix::fs::PermissionsExt;
    let server = TestServer::full().start().await;
    for name in [
        "operator.token",
        "gateway.token",
        "bridge.token",
        "audit.key",
        "server.json",
    ] {
        let path = server.state().join("countersign").join(name);
        let mode = std::fs::metadata(&path)
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(server.gateway_token().starts_with("cst_") && server.gateway_token().len() == 47);
    server.agent().get("/v1/tokens").await.problem(403, "forbidden");
    let problem = server
        .operator()
        .exec(json!({ "argv": ["/bin/true"] }))
        .await
        .problem(403, "forbidden");
    assert_eq!(problem["requiredScope"], "exec");
    let tokens = server.operator().read("/v1/tokens").await["items"].clone();
    let mut scopes: Vec<Vec<&str>> = tokens
        .as_array()
        .unwrap()
        .iter()
        .map(|token| {
            token
                .list("scopes")
                .iter()
                .map(|scope| scope.as_str().unwrap())
                .collect()
        })
        .collect();
    for scopes in &mut scopes {
        scopes.sort_unstable();
    }
    scopes.sort();
    assert_eq!(scopes, [vec!["admin", "approve", "read"], vec!["exec"]]);
    assert!(
        !tokens.to_string().contains(&server.gateway_token()[4..]),
        "secrets are shown once"
    );
}

#[tokio::test]
async fn whoever_asks_cannot_answer() {
    let server = TestServer::full().start().await;
    for scope in ["approve", "admin", "relay"] {
        let request = json!({ "name": "both", "scopes": ["exec", scope] });
        server
            .operator()
            .post("/v1/tokens", request)
            .await
            .problem(422, "scope-conflict");
    }
    let (_, both) = server
        .token_with(json!({ "name": "watcher", "scopes": ["exec", "read"] }))
        .await;
    both.read("/v1/approvals").await;
    for body in [
        json!({}),
        json!({ "name": "x" }),
        json!({ "name": "x", "scopes": [] }),
        json!({ "name": "x", "scopes": ["root"] }),
        json!({ "name": "", "scopes": ["read"] }),
        json!({ "name": "x", "scopes": ["exec"], "agents": ["no/agent"] }),
        json!({ "name": "x", "scopes": ["read"], "colour": 1 }),
    ] {
        server
            .operator()
            .post("/v1/tokens", body)
            .await
            .problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn a_token_is_bound_to_its_agents() {
    let server = TestServer::full().start().await;
    let (_, bound) = server
        .token_with(json!({ "name": "bound", "scopes": ["exec"], "agents": ["build"] }))
        .await;
    bound
        .ran(json!({ "argv": ["/bin/true"], "agentId": "build" }))
        .await;
    bound
        .ran(json!({ "argv": ["/bin/true"], "sessionKey": "agent:build:chat" }))
        .await;
    for body in [
        json!({ "argv": ["/bin/true"] }),
        json!({ "argv": ["/bin/true"], "agentId": "main" }),
        json!({ "argv": ["/bin/true"], "sessionKey": "agent:main:chat" }),
    ] {
        bound.exec(body).await.problem(403, "forbidden");
    }
}

#[tokio::test]
async fn revoked_and_expired_tokens_are_unknown() {
    let server = TestServer::full().start().await;
    let (id, revoked) = server
        .token_with(json!({ "name": "revoked", "scopes": ["read"] }))
        .await;
    revoked.read("/v1/runs").await;
    server.operator().removed(&format!("/v1/tokens/{id}")).await;
    revoked.get("/v1/runs").await.problem(401, "unauthorized");
    let now = countersign_sys::clock::Clock::now(&countersign_sys::clock::SystemClock).get();
    let request = json!({ "name": "short", "scopes": ["read"], "expiresAtMs": now + 5000 });
    let (_, expiring) = server.token_with(request).await;
    // Counted wrong credentials stay far below the limit of one address.
    let status = || async { expiring.get("/v1/runs").await.status };
    eventually("expired", status, |status| *status == 401).await;
}

#[tokio::test]
async fn wrong_credentials_are_counted_and_missing_ones_are_not() {
    let server = TestServer::full()
        .toml("[auth]\nfailures_per_minute = 3\n")
        .start()
        .await;
    let wrong = server.anonymous().with_token(Some("cst_wrong"));
    for _ in 0..30 {
        server
            .anonymous()
            .get("/v1/runs")
            .await
            .problem(401, "unauthorized");
    }
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let answer = wrong.get("/v1/runs").await;
        if answer.status == 429 {
            assert!(answer.header("retry-after").is_some());
        }
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
}

#[tokio::test]
async fn other_forms_of_credentials_are_refused() {
    let server = TestServer::full().start().await;
    let token = server.gateway_token();
    let anonymous = server.anonymous();
    for header in [
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Basic {token}"),
        format!("Bearer {token} x"),
        format!("Bearer {}", token.to_uppercase()),
        token.clone(),
    ] {
        let request = anonymous
            .request(Method::GET, "/v1/runs")
            .header("authorization", &header);
        assert_eq!(anonymous.send(request).await.status, 401, "{header}");
    }
    let query = anonymous.get(&format!("/v1/runs?token={token}")).await;
    assert_eq!(query.status, 401);
    let lower = anonymous
        .request(Method::GET, "/v1/runs")
        .header("authorization", format!("bearer {token}"));
    assert_eq!(
        anonymous.send(lower).await.status,
        200,
        "the scheme's case does not matter"
    );
}

#[tokio::test]
async fn a_foreign_host_is_misdirected() {
    let server = TestServer::full()
        .toml("[http]\nallowed_hosts = [\"gate.example.test\"]\n")
        .start()
        .await;
    let operator = server.operator();
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "169.254.169.254",
    ] {
        for path in ["/v1/runs", "/healthz", "/openapi.json"] {
            let request = operator.request(Method::GET, path).header(HOST, host);
            operator.send(request).await.problem(421, "misdirected-request");
        }
    }
    for host in [
        "localhost",
        "localhost:1",
        "127.0.0.1:9",
        "[::1]:80",
        "gate.example.test",
        "GATE.example.test:1",
    ] {
        let request = operator.request(Method::GET, "/v1/runs").header(HOST, host);
        assert_eq!(operator.send(request).await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn checks_run_in_their_order() {
    let server = TestServer::full().start().await;
    let anonymous = server.anonymous();
    let foreign = anonymous
        .request(Method::POST, "/v1/exec")
        .header(HOST, "evil.example")
        .body("{");
    anonymous.send(foreign).await.problem(421, "misdirected-request");
    let unknown = anonymous.request(Method::POST, "/v1/exec").body("{");
    anonymous.send(unknown).await.problem(401, "unauthorized");
    let operator = server.operator();
    let scope = operator.request(Method::POST, "/v1/exec").body("{");
    operator.send(scope).await.problem(403, "forbidden");
    let agent = server.agent();
    let kind = agent.request(Method::POST, "/v1/exec").body("{");
    agent.send(kind).await.problem(415, "unsupported-media-type");
}

#[tokio::test]
async fn request_ids_are_echoed_or_made() {
    let server = TestServer::full().start().await;
    let api = server.anonymous();
    let request = api
        .request(Method::GET, "/healthz")
        .header("x-request-id", "my-own-id");
    assert_eq!(api.send(request).await.header("x-request-id"), Some("my-own-id"));
    let made = api.get("/healthz").await;
    assert!(made.header("x-request-id").is_some_and(|id| !id.is_empty()));
}

#[tokio::test]
async fn probes_are_open_and_say_what_they_must() {
    let server = TestServer::full().start().await;
    let api = server.anonymous();
    assert_eq!(api.read("/healthz").await, json!({ "status": "ok" }));
    let ready = api.read("/readyz").await;
    assert_has!(ready, { "status": "ready", "degraded": false });
    for check in ["database", "document", "config", "listener"] {
        assert_eq!(ready["checks"][check]["ok"], true, "{check} in {ready}");
    }
    let version = api.read("/v1/version").await;
    assert_has!(version, { "name": "countersign", "version": env!("CARGO_PKG_VERSION"), "api": 1 });
}
