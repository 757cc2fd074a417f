//! `POST /tools/invoke` with requests as the product's clients make them.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Members, TestServer, eventually, only};

async fn invoke(api: &Api, body: Value) -> Answer {
    api.post("/tools/invoke", body).await
}

/// The result of a call that succeeded.
#[track_caller]
fn result(answer: &Answer) -> Value {
    let body = answer.expect(200);
    assert_eq!(body["ok"], true);
    assert_eq!(members(&body), ["ok", "result"]);
    body["result"].clone()
}

/// The message of a call that did not.
#[track_caller]
fn error(answer: &Answer, status: u16, kind: &str) -> String {
    let body = answer.expect(status);
    assert_has!(body, { "ok": false, "error/type": kind });
    assert_eq!(answer.header("content-type"), Some("application/json"));
    body["error"].text("message").to_owned()
}

/// The names of an object's members, sorted.
fn members(object: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = object
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names
}

fn text(result: &Value) -> &str {
    assert_eq!(result["content"][0]["type"], "text");
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1));
    result["content"][0].text("text")
}

#[tokio::test]
async fn a_dry_run_says_what_would_happen_and_does_nothing() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let marker = server.scratch().join("ran");
    let touch = json!({ "command": format!("touch {}", marker.display()) });
    let call = |tool: &str, args: Value| json!({ "tool": tool, "args": args, "dryRun": true, "idempotencyKey": "one" });
    let dry = result(&invoke(&api, call("exec", touch.clone())).await);
    assert_has!(dry["details"], { "status": "dry-run" });
    assert_eq!(dry["details"]["explanation"]["outcome"], "run");
    assert_eq!(text(&dry), "The command would run. Nothing was done (dryRun).");
    let patch = "*** Begin Patch\n*** Add File: made\n+x\n*** End Patch\n";
    result(&invoke(&api, call("apply_patch", json!({ "input": patch }))).await);
    result(
        &invoke(
            &api,
            call("process", json!({ "action": "kill", "sessionId": "a-b-1" })),
        )
        .await,
    );
    error(
        &invoke(&api, call("exec", json!({ "comand": "x" }))).await,
        400,
        "tool_error",
    );
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"], json!([]));
    assert!(!marker.exists());
    // It used up no key: the same call without it runs.
    let call = json!({ "tool": "exec", "args": touch, "idempotencyKey": "one" });
    result(&invoke(&api, call).await);
    assert!(marker.exists());
}

#[tokio::test]
async fn a_command_runs_as_over_v1_and_is_on_record() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    // As curl examples of the product have it, with members that mean nothing here.
    let answer = invoke(
        &api,
        json!({ "tool": "exec", "action": "json", "args": { "command": "echo hello; exit 3" }, "sessionKey": "main",
            "dryRun": false, "messageProvider": "telegram" }),
    )
    .await;
    let result = result(&answer);
    let details = &result["details"];
    assert_eq!(
        only(details, &["status", "exitCode", "aggregated"]),
        json!({ "status": "failed", "exitCode": 3, "aggregated": "hello\n" })
    );
    assert_eq!(
        members(details),
        ["aggregated", "cwd", "durationMs", "exitCode", "status"]
    );
    assert!(details["durationMs"].is_u64() && details["cwd"].is_string());
    assert_eq!(text(&result), "hello\n\n\nThe command exited with code 3.");
    let runs = server.operator().read("/v1/runs").await;
    assert_has!(runs["items"][0], {
        "command": "echo hello; exit 3", "status": "failed", "agentId": "main",
        "sessionKey": "agent:main:main",
    });
    let silent = invoke(
        &api,
        json!({ "name": "exec", "tool": "browser", "args": { "argv": ["/bin/true"] } }),
    )
    .await;
    assert_eq!(text(&self::result(&silent)), "(no output)");
}

#[tokio::test]
async fn agent_and_session_are_named_beside_the_arguments() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let run = |members: Value| {
        let api = api.clone();
        async move {
            let mut body = json!({ "tool": "exec", "args": { "argv": ["/bin/true"] } });
            for (name, value) in members.as_object().expect("members") {
                body[name] = value.clone();
            }
            invoke(&api, body).await
        }
    };
    for (members, expect) in [
        (
            json!({ "agentId": "build" }),
            json!({ "agentId": "build", "sessionKey": "agent:build:main" }),
        ),
        (
            json!({ "agentId": "build", "sessionKey": "main" }),
            json!({ "agentId": "build", "sessionKey": "agent:build:main" }),
        ),
        (
            json!({ "sessionKey": "agent:ops:chat" }),
            json!({ "agentId": "ops", "sessionKey": "agent:ops:chat" }),
        ),
        (
            json!({ "sessionKey": "telegram:7" }),
            json!({ "agentId": "main", "sessionKey": "telegram:7" }),
        ),
    ] {
        result(&run(members.clone()).await);
        let runs = server.operator().read("/v1/runs?limit=1").await;
        assert_eq!(
            only(&runs["items"][0], &["agentId", "sessionKey"]),
            expect,
            "{members}"
        );
    }
    for members in [
        json!({ "agentId": "build", "sessionKey": "agent:ops:chat" }),
        json!({ "agentId": "build", "args": { "argv": ["/bin/true"], "agentId": "ops" } }),
        json!({ "agentId": "*" }),
        json!({ "sessionKey": "a\u{7}b" }),
    ] {
        let answer = run(members.clone()).await;
        assert!(error(&answer, 400, "tool_error").contains(':'), "{members}");
    }
}

#[tokio::test]
async fn what_goes_on_is_followed_with_the_process_tool() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let started = result(
        &invoke(
            &api,
            json!({ "tool": "exec", "args": { "command": "echo begun; cat", "background": true } }),
        )
        .await,
    );
    let details = &started["details"];
    assert_eq!(
        members(details),
        ["cwd", "pid", "sessionId", "startedAt", "status", "tail"]
    );
    assert_eq!(details["status"], "running");
    let session = details.text("sessionId").to_owned();
    assert!(text(&started).contains(&session));
    let process = |action: &'static str, members: Value| {
        let (api, session) = (api.clone(), session.clone());
        async move {
            let mut args = json!({ "sessionId": session });
            for (name, value) in members.as_object().expect("members") {
                args[name] = value.clone();
            }
            result(&invoke(&api, json!({ "tool": "process", "action": action, "args": args })).await)
        }
    };
    let logged = eventually(
        "begun",
        || process("log", json!({})),
        |logged| text(logged).contains("begun"),
    )
    .await;
    assert_eq!(logged["details"]["totalLines"], 1);
    process("write", json!({ "data": "more\n", "eof": true })).await;
    let last = eventually(
        "ended",
        || process("poll", json!({})),
        |polled| polled["details"]["session"]["status"] != "running",
    )
    .await;
    assert_eq!(last["details"]["session"]["exitCode"], 0);
    let listed = result(&invoke(&api, json!({ "tool": "process", "args": { "action": "list" } })).await);
    assert_eq!(listed["details"]["items"][0]["sessionId"], session.as_str());
    let unknown = json!({ "tool": "process", "action": "poll", "args": { "sessionId": "no-such-1" } });
    error(&invoke(&api, unknown).await, 400, "tool_error");
}

#[tokio::test]
async fn a_question_is_a_success_that_says_so() {
    let server = TestServer::asking().start().await;
    let api = server.agent();
    let body = json!({ "tool": "exec", "args": { "command": "touch x" }, "idempotencyKey": "k-1" });
    let pending = result(&invoke(&api, body.clone()).await);
    let details = &pending["details"];
    assert_eq!(
        members(details),
        [
            "approvalId",
            "approvalSlug",
            "command",
            "cwd",
            "expiresAtMs",
            "host",
            "status"
        ]
    );
    assert_eq!(
        only(details, &["status", "command", "host"]),
        json!({ "status": "approval-pending", "command": "touch x", "host": "gateway" })
    );
    // The same key asks nobody again.
    let again = result(&invoke(&api, body).await);
    assert_eq!(again["details"]["approvalId"], details["approvalId"]);
    assert_eq!(server.operator().pending().await.len(), 1);
    let other = json!({ "tool": "exec", "args": { "command": "touch y" }, "idempotencyKey": "k-1" });
    error(&invoke(&api, other).await, 400, "tool_error");
    let id = details.text("approvalId");
    server.operator().decided(id, "deny").await;
    let body = json!({ "tool": "exec", "args": { "command": "touch x" }, "idempotencyKey": "k-1" });
    assert!(error(&invoke(&api, body).await, 403, "tool_error").contains("user-denied"));
}

#[tokio::test]
async fn refusals_have_the_products_shape() {
    let server = TestServer::allowlist_only().start().await;
    let api = server.agent();
    let denied = invoke(&api, json!({ "tool": "exec", "args": { "command": "touch x" } })).await;
    assert!(error(&denied, 403, "tool_error").contains("allowlist-miss"));
    for (body, part) in [
        (json!({}), "tool"),
        (json!({ "tool": " " }), "tool"),
        (json!({ "tool": 7 }), "tool"),
        (json!({ "tool": "exec", "args": [] }), "args"),
        (json!({ "tool": "exec", "args": {} }), "command"),
        (json!({ "tool": "exec", "args": { "command": " " } }), "blank"),
        (
            json!({ "tool": "exec", "args": { "command": "ls", "secuirty": "full" } }),
            "secuirty",
        ),
        (
            json!({ "tool": "exec", "args": { "command": "ls", "host": "build-01" } }),
            "host",
        ),
        (
            json!({ "tool": "exec", "args": { "command": "openclaw channels login" } }),
            "interactive",
        ),
        (
            json!({ "tool": "exec", "args": { "command": "/approve x deny" } }),
            "approvals resolve",
        ),
        (json!({ "tool": "process", "args": {} }), "action"),
        (
            json!({ "tool": "exec", "args": { "command": "ls" }, "idempotencyKey": "" }),
            "idempotencyKey",
        ),
    ] {
        let answer = invoke(&api, body.clone()).await;
        let message = error(&answer, 400, "tool_error");
        assert!(message.contains(part), "{body}: {message}");
    }
    for tool in ["browser", "gateway", "Exec", "sessions_spawn", &"x".repeat(9_999)] {
        let answer = invoke(&api, json!({ "tool": tool, "args": {} })).await;
        assert!(error(&answer, 404, "not_found").len() < 200);
    }
    error(
        &invoke(&server.anonymous(), json!({ "tool": "exec" })).await,
        401,
        "unauthorized",
    );
    let unscoped = invoke(&server.operator(), json!({ "tool": "exec" })).await;
    error(&unscoped, 403, "tool_error");
    let get = api.get("/tools/invoke").await;
    error(&get, 405, "tool_error");
    assert_eq!(get.header("allow"), Some("POST"));
    let text = api
        .request(reqwest::Method::POST, "/tools/invoke")
        .header("content-type", "application/json")
        .body("{");
    error(&api.send(text).await, 400, "tool_error");
    let large = json!({ "tool": "exec", "args": { "command": "x".repeat(2 * 1024 * 1024) } });
    error(&invoke(&api, large).await, 413, "tool_error");
}

#[tokio::test]
async fn a_tool_that_policy_denies_is_not_there() {
    let config = json!({
        "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } },
        "agents": { "list": [
            { "id": "a", "tools": { "deny": ["exec"] } },
            { "id": "b", "tools": { "deny": ["process"] } },
            { "id": "c", "tools": { "allow": ["exec"] } },
        ] },
    });
    let server = TestServer::full().config(&config).start().await;
    let api = server.agent();
    let call = |tool: &'static str, agent: &'static str, args: Value| {
        let api = api.clone();
        async move { invoke(&api, json!({ "tool": tool, "agentId": agent, "args": args })).await }
    };
    let run = json!({ "argv": ["/bin/true"] });
    let patch = json!({ "input": "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch\n" });
    error(&call("exec", "a", run.clone()).await, 404, "not_found");
    error(
        &call("process", "b", json!({ "action": "list" })).await,
        404,
        "not_found",
    );
    error(&call("apply_patch", "c", patch.clone()).await, 404, "not_found");
    result(&call("exec", "c", run).await);
    let applied = result(&call("apply_patch", "a", patch).await);
    assert_eq!(applied["details"]["changed"][0]["path"], "x");
    assert!(!text(&applied).is_empty());
    // The refusal of a command is on record all the same.
    let runs = server.operator().read("/v1/runs?agentId=a&status=denied").await;
    assert_eq!(runs["items"][0]["reason"], "tool-denied");
}

/// Sends a request as a client of the product made it, with a token of this server.
async fn replay(api: &Api, request: &Value) -> Answer {
    let method = request.text("method").parse().expect("a method");
    let mut sent = api.request(method, request.text("path"));
    for (name, value) in request["headers"].as_object().expect("headers") {
        if name != "authorization" {
            sent = sent.header(name, value.as_str().expect("a value"));
        }
    }
    api.send(sent.body(request.text("body").to_owned())).await
}

#[tokio::test]
async fn what_a_client_of_the_product_sent_is_understood() {
    let recorded = include_str!("../data/tools-invoke/lobster.json");
    let recorded: Value = serde_json::from_str(recorded).expect("recorded requests");
    let requests = recorded.list("requests");
    let [run, background, list, patch, another] = requests.as_slice() else {
        panic!("{} requests", requests.len());
    };
    let server = TestServer::full().start().await;
    let api = server.agent();
    let ran = result(&replay(&api, run).await);
    assert_has!(ran["details"], { "status": "failed", "exitCode": 3, "aggregated": "hello\n" });
    let begun = result(&replay(&api, background).await);
    assert_eq!(begun["details"]["status"], "running", "{begun}");
    let runs = server.operator().read("/v1/runs?limit=1").await;
    assert_eq!(runs["items"][0]["sessionKey"], "agent:main:work");
    let sleeping = runs["items"][0].text("runId").to_owned();
    let listed = result(&replay(&api, list).await);
    assert!(text(&listed).contains("sleep 60"), "{listed}");
    result(&replay(&api, patch).await);
    let written = std::fs::read_to_string(server.state().join("workspace/new.txt")).expect("the new file");
    assert_eq!(written, "hi\n");
    assert!(error(&replay(&api, another).await, 404, "not_found").contains("no such tool"));
    api.cancel(&sleeping).await;
    assert_eq!(api.finished(&sleeping).await["status"], "cancelled");
}
