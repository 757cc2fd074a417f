//! Bad input gets a clear problem and changes nothing.

use reqwest::{Method, header::CONTENT_TYPE};
use serde_json::{Value, json};

use crate::support::{Answer, Members, TestServer, write_file};

/// Nothing was recorded, so nothing was decided or started.
async fn assert_no_runs(server: &TestServer) {
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"], json!([]), "a refused request left a run");
}

#[tokio::test]
async fn malformed_bodies_are_refused() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let bodies: [&[u8]; 11] = [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\"echo\"",
        b"{\"command\": \"true\"} trailing",
        b"{\"command\": \"true\",}",
        b"{'command': 'true'}",
        b"{\"command\": \"\xff\xfe\"}",
        b"{\"command\": \"\\ud800\"}",
        b"\xef\xbb\xbf{\"command\": \"true\"}",
    ];
    for body in bodies {
        let request = agent
            .request(Method::POST, "/v1/exec")
            .header(CONTENT_TYPE, "application/json");
        let answer = agent.send(request.body(body.to_vec())).await;
        let shown = String::from_utf8_lossy(body).into_owned();
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (400, &json!("invalid-request")),
            "{shown}: {}",
            answer.text()
        );
    }
    assert_no_runs(&server).await;
}

#[tokio::test]
async fn a_list_of_values_is_no_object_with_members() {
    let server = TestServer::asking().start().await;
    let (agent, operator) = (server.agent(), server.operator());
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let id = pending.text("approvalId");
    let decision = format!("/v1/approvals/{id}/decision");
    let command = "/v1/sessions/agent:main:main/commands";
    for (api, path, body, member) in [
        (
            &agent,
            "/v1/exec",
            json!([null, ["/bin/true"], null, null, null, null]),
            "",
        ),
        (&agent, "/v1/process", json!(["list"]), ""),
        (&operator, &decision, json!(["allow-once", null, null]), ""),
        (
            &operator,
            &decision,
            json!({ "decision": "allow-always", "patterns": [["/bin/date", null]] }),
            "patterns[0]",
        ),
        (
            &operator,
            command,
            json!({ "text": "/exec", "sender": ["test", "1", null, null, null, null] }),
            "sender",
        ),
        (&operator, "/v1/login-links", json!([]), ""),
        (&operator, "/v1/policy/preset", json!(["yolo", null]), ""),
    ] {
        let problem = api.post(path, body.clone()).await.problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], member, "{path} {body}: {problem}");
    }
    let entry = operator
        .post("/v1/agents/main/allowlist", json!({ "pattern": "/bin/echo" }))
        .await;
    let entry = entry.expect(201).text("id").to_owned();
    let path = format!("/v1/agents/main/allowlist/{entry}");
    operator
        .patch(&path, json!([]))
        .await
        .problem(400, "invalid-request");
    assert_eq!(server.operator().pending().await.len(), 1, "nobody has answered");
    let runs = operator.read("/v1/runs").await;
    assert_eq!(
        runs["items"].as_array().map(Vec::len),
        Some(1),
        "nothing else ran"
    );
}

#[tokio::test]
async fn wrong_members_are_refused_by_name() {
    let server = TestServer::full().start().await;
    for (body, member) in [
        (json!({ "command": 5 }), "command"),
        (json!({ "command": ["true"] }), "command"),
        (json!({ "argv": "true" }), "argv"),
        (json!({ "argv": ["true", 5] }), "argv"),
        (json!({ "command": "true", "secuirty": "deny" }), "secuirty"),
        (json!({ "command": "true", "Command": "true" }), "Command"),
        (json!({ "command": "true", "timeout": "10" }), "timeout"),
        (json!({ "command": "true", "timeout": -1 }), "timeout"),
        (json!({ "command": "true", "yieldMs": "soon" }), "yieldMs"),
        (json!({ "command": "true", "background": "yes" }), "background"),
        (json!({ "command": "true", "background": 1 }), "background"),
        (json!({ "command": "true", "env": ["A=b"] }), "env"),
        (json!({ "command": "true", "env": { "A": 1 } }), "env"),
        (json!({ "command": "true", "workdir": 1 }), "workdir"),
        (
            json!({ "command": "true", "workdir": "relative/path" }),
            "workdir",
        ),
        (json!({ "command": "true", "workdir": "../up" }), "workdir"),
        (json!({ "command": "true", "workdir": "~other/x" }), "workdir"),
        (json!({ "command": "true", "security": "none" }), "security"),
        (json!({ "command": "true", "security": "Full" }), "security"),
        (json!({ "command": "true", "ask": "never" }), "ask"),
        (json!({ "command": "true", "host": "build-server-7" }), "host"),
        (json!({ "command": "true", "host": "Gateway" }), "host"),
        (json!({ "command": "true", "host": "" }), "host"),
        (json!({ "command": "true", "agentId": "a/../b" }), "agentId"),
        (json!({ "command": "true", "agentId": "*" }), "agentId"),
        (json!({ "command": "true", "agentId": "" }), "agentId"),
        (json!({ "command": "true", "agentId": "x".repeat(65) }), "agentId"),
        (json!({ "command": "true", "sessionKey": "" }), "sessionKey"),
        (json!({ "command": "true", "sessionKey": "a\nb" }), "sessionKey"),
        (
            json!({ "command": "true", "sessionKey": "x".repeat(257) }),
            "sessionKey",
        ),
        (
            json!({ "command": "true", "approvalWaitMs": 600_001 }),
            "approvalWaitMs",
        ),
        (
            json!({ "command": "true", "approvalWaitMs": -1 }),
            "approvalWaitMs",
        ),
    ] {
        let problem = server.agent().exec(body.clone()).await;
        let problem = problem.problem(400, "invalid-request");
        assert!(
            problem.to_string().contains(member),
            "{member} is named for {body}: {problem}"
        );
    }
    assert_no_runs(&server).await;
}

#[tokio::test]
async fn exactly_one_of_command_and_argv_is_needed() {
    let server = TestServer::full().start().await;
    for (body, code) in [
        (json!({}), "invalid-request"),
        (json!({ "command": "true", "argv": ["true"] }), "invalid-request"),
        (json!({ "command": "" }), "blank-command"),
        (json!({ "command": " \t\n" }), "blank-command"),
        (json!({ "argv": [] }), "blank-command"),
        (json!({ "argv": ["", "x"] }), "blank-command"),
        (json!({ "argv": ["  "] }), "blank-command"),
        (json!({ "command": "echo a\u{0}b" }), "invalid-request"),
        (json!({ "argv": ["echo", "a\u{0}b"] }), "invalid-request"),
        (
            json!({ "command": "true", "env": { "A": "b\u{0}c" } }),
            "invalid-request",
        ),
        (json!({ "command": "x".repeat(131_072) }), "invalid-request"),
        (
            json!({ "argv": ["echo", "x".repeat(131_072)] }),
            "invalid-request",
        ),
        (json!({ "command": "openclaw channels login" }), "invalid-request"),
        (
            json!({ "command": "/approve 12345678 allow-once" }),
            "invalid-request",
        ),
        (
            json!({ "command": "true", "agentId": "a", "sessionKey": "agent:b:main" }),
            "config-conflict",
        ),
        (
            json!({ "command": "true", "node": "somewhere" }),
            "config-conflict",
        ),
    ] {
        let shown: String = body.to_string().chars().take(80).collect();
        let answer = server.agent().exec(body).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (400, &json!(code)),
            "{shown}: {}",
            answer.text()
        );
    }
    assert_no_runs(&server).await;
}

#[tokio::test]
async fn blocked_environment_names_are_listed_without_values() {
    let server = TestServer::full().start().await;
    let env = json!({
        "LD_PRELOAD": "/tmp/evil.so", "path": "/tmp", "Node_Options": "x", "FINE": "ok", "COUNTERSIGN_X": "y",
        "GIT_SSH_COMMAND": "secret-value",
    });
    let problem = server
        .agent()
        .exec(json!({ "command": "true", "env": env }))
        .await
        .problem(400, "blocked-env");
    assert_eq!(
        problem["names"],
        json!([
            "COUNTERSIGN_X",
            "GIT_SSH_COMMAND",
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "PATH"
        ])
    );
    assert!(!problem.to_string().contains("secret-value"));
    for name in ["", "A B", "A=B", "1A", "Ä", "A-B"] {
        let env: Value = [(name.to_owned(), json!("x"))].into_iter().collect();
        let answer = server
            .agent()
            .exec(json!({ "command": "true", "env": env }))
            .await;
        assert_eq!(answer.status, 400, "{name:?}: {}", answer.text());
    }
    let pager = json!({ "command": "echo \"[$PAGER]\"", "env": { "PAGER": "cat" } });
    assert_eq!(server.ran(pager).await["stdout"], "[]\n");
}

#[tokio::test]
async fn a_working_directory_that_is_none_is_refused() {
    let server = TestServer::full().start().await;
    let file = server.scratch().join("file");
    write_file(&file, "");
    for workdir in [
        json!("/no/such/directory"),
        json!(file),
        json!(server.scratch().join("missing/deep")),
    ] {
        let body = json!({ "argv": ["/usr/bin/touch", "ran"], "workdir": workdir });
        server
            .agent()
            .exec(body)
            .await
            .problem(400, "workdir-unavailable");
    }
    assert_no_runs(&server).await;
}

#[tokio::test]
async fn oversized_and_foreign_bodies_are_refused() {
    let server = TestServer::full()
        .toml("[limits]\nbody_bytes = 10000\n")
        .start()
        .await;
    let agent = server.agent();
    let body = json!({ "argv": ["true", "x".repeat(20_000)] });
    let sent = body.to_string().len();
    let refused = agent.exec(body).await.problem(413, "body-too-large");
    assert_has!(refused, { "limitBytes": 10_000, "sentBytes": sent });
    let detail = format!("the body has {sent} bytes, and at most 10000 are taken ([limits] body_bytes)");
    assert_eq!(refused["detail"], detail);
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
    ] {
        let request = agent.request(Method::POST, "/v1/exec").header(CONTENT_TYPE, kind);
        agent
            .send(request.body("{\"command\":\"true\"}"))
            .await
            .problem(415, "unsupported-media-type");
    }
    let plain = agent
        .request(Method::POST, "/v1/exec")
        .body("{\"command\":\"true\"}");
    agent.send(plain).await.problem(415, "unsupported-media-type");
    let charset = agent
        .request(Method::POST, "/v1/exec")
        .header(CONTENT_TYPE, "application/json; charset=utf-8");
    assert_eq!(
        agent.send(charset.body("{\"command\":\"true\"}")).await.status,
        200
    );
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_not_found() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    for path in [
        "/v1/runs/..%2f..%2fetc%2fpasswd",
        "/v1/runs/%2e%2e",
        "/v1/runs/A",
        "/v1/runs/a%00b",
        "/v1/runs/no-such-run",
        "/v1/runs/no-such-run/output",
        "/v1/approvals/..%2fx",
        "/v1/nothing",
        "/v1/runs//",
        "/nothing",
    ] {
        let answer = operator.get(path).await;
        assert!(
            [400, 404].contains(&answer.status),
            "{path}: {} {}",
            answer.status,
            answer.text()
        );
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{path}"
        );
        assert!(
            !answer.text().contains(server.state().to_str().unwrap()),
            "{path} names no path of the server"
        );
    }
    let answer = operator.get("/v1/agents/a%2f..%2fb/allowlist").await;
    answer.problem(400, "invalid-request");
}

#[tokio::test]
async fn unknown_queries_and_methods_are_refused() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    for path in [
        "/v1/runs?statuss=failed",
        "/v1/runs?limit=0",
        "/v1/runs?limit=501",
        "/v1/runs?limit=ten",
        "/v1/runs?status=gone",
        "/v1/runs?cursor=%21nonsense",
        "/v1/approvals?limit=-1",
        "/v1/policy/effective?agent=main",
        "/v1/policy/effective?host=somewhere",
        "/v1/audit?afterSeq=x",
    ] {
        let problem = operator.get(path).await.problem(400, "invalid-request");
        assert!(problem["detail"].is_string(), "{path}");
    }
    for (method, path) in [
        (Method::PUT, "/v1/exec"),
        (Method::GET, "/v1/exec"),
        (Method::POST, "/v1/runs"),
        (Method::DELETE, "/v1/audit"),
    ] {
        let answer = operator.send(operator.request(method.clone(), path)).await;
        answer.problem(405, "method-not-allowed");
        assert!(answer.header("allow").is_some(), "{method} {path}");
    }
}

#[tokio::test]
async fn decisions_and_entries_are_checked_before_anything_changes() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let pending = server.accepted(json!({ "argv": ["/bin/date"] })).await;
    let path = format!("/v1/approvals/{}/decision", pending.text("approvalId"));
    for body in [
        json!({}),
        json!({ "decision": null }),
        json!({ "decision": "ALLOW-ONCE" }),
        json!({ "decision": "allow-once", "reason": 5 }),
        json!({ "decision": "allow-once", "force": true }),
    ] {
        operator.post(&path, body).await.problem(400, "invalid-request");
    }
    let patterns = json!({ "decision": "allow-always", "patterns": [{ "pattern": "/**" }] });
    operator
        .post(&path, patterns)
        .await
        .problem(422, "decision-not-allowed");
    let empty = json!({ "decision": "allow-always", "patterns": [] });
    operator
        .post(&path, empty)
        .await
        .problem(422, "decision-not-allowed");
    assert_eq!(operator.pending().await.len(), 1);

    for (entry, status, code) in [
        (json!({}), 400, "invalid-request"),
        (json!({ "pattern": "" }), 422, "invalid-pattern"),
        (json!({ "pattern": "/bin/../x" }), 422, "invalid-pattern"),
        (
            json!({ "pattern": "/bin/date", "argPattern": "(" }),
            422,
            "invalid-pattern",
        ),
        (
            json!({ "pattern": "/bin/date", "maxUses": 0 }),
            400,
            "invalid-request",
        ),
        (
            json!({ "pattern": "/bin/date", "sha256": "abc" }),
            400,
            "invalid-request",
        ),
        (
            json!({ "pattern": "/bin/date", "colour": "red" }),
            400,
            "invalid-request",
        ),
    ] {
        let answer = operator.post("/v1/agents/main/allowlist", entry.clone()).await;
        let wanted = (status, &json!(code));
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            wanted,
            "{entry}: {}",
            answer.text()
        );
    }
    assert!(!server.document_path().exists(), "nothing was written");
}

#[tokio::test]
async fn a_hundred_bad_requests_leave_a_server_that_answers() {
    let server = TestServer::full().start().await;
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let agent = server.agent();
            tokio::spawn(async move {
                let request = agent
                    .request(Method::POST, "/v1/exec")
                    .header(CONTENT_TYPE, "application/json");
                agent.send(request.body("{".repeat(number * 100))).await.status
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 400);
    }
    assert_has!(server.ran(json!({ "argv": ["/bin/echo", "fine"] })).await, { "stdout": "fine\n" });
}

#[tokio::test]
async fn no_operation_ignores_a_query_that_it_does_not_know() {
    let server = TestServer::asking().start().await;
    let pending = server.accepted(json!({ "argv": ["/bin/date"] })).await;
    let (run, approval) = (pending.text("runId"), pending.text("approvalId"));
    let (agent, operator) = (server.agent(), server.operator());
    let date = json!({ "argv": ["/bin/date"] });
    let refused = |answer: Answer| {
        let problem = answer.problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], "dryRun", "{problem}");
    };
    refused(agent.post("/v1/exec?dryRun=true", date.clone()).await);
    refused(agent.post("/v1/exec/explain?dryRun=true", date.clone()).await);
    refused(agent.get(&format!("/v1/runs/{run}?dryRun=true")).await);
    refused(agent.get(&format!("/v1/runs/{run}/output?dryRun=true")).await);
    refused(
        agent
            .post(&format!("/v1/runs/{run}/cancel?dryRun=true"), json!({}))
            .await,
    );
    let approval = format!("/v1/approvals/{approval}");
    refused(operator.get(&format!("{approval}?dryRun=true")).await);
    let deny = json!({ "decision": "deny" });
    refused(
        operator
            .post(&format!("{approval}/decision?dryRun=true"), deny)
            .await,
    );
    refused(
        operator
            .post(&format!("{approval}/revision?dryRun=true"), date)
            .await,
    );
    let runs = operator.read("/v1/runs").await;
    assert_eq!(
        runs["items"].as_array().map(Vec::len),
        Some(1),
        "nothing was run besides: {runs}"
    );
    assert_eq!(operator.read(&approval).await["status"], "pending");
}

/// Nothing at all would mean no limit: whoever writes it meant something, and that must not widen what is given.
#[tokio::test]
async fn a_limit_that_is_null_is_refused_and_not_taken_for_none() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let list = "/v1/agents/main/allowlist";
    for member in ["argPattern", "expiresAtMs", "maxUses", "sha256"] {
        let problem = operator
            .post(list, json!({ "pattern": "/usr/bin/git", member: null }))
            .await
            .problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], member, "{problem}");
    }
    assert_eq!(operator.read(list).await["items"], json!([]));
    for member in ["agents", "groups", "expiresAtMs"] {
        let problem = operator
            .post(
                "/v1/tokens",
                json!({ "name": "bot", "scopes": ["exec"], member: null }),
            )
            .await
            .problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], member, "{problem}");
    }
}
