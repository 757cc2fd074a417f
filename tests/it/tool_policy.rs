//! Tool policy on every edge (`docs/spec/exec-tool.md#12-tool-policy`).

use serde_json::{Value, json};

use crate::support::{Answer, Api, TestServer};

fn config(tools: &Value) -> Value {
    let mut config = json!({ "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } } });
    for (name, value) in tools.as_object().expect("members") {
        config["tools"][name] = value.clone();
    }
    config
}

async fn mcp(api: &Api, tool: &str, arguments: Value) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments } });
    let request = api
        .request(reqwest::Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25")
        .json(&call);
    api.send(request).await.expect(200)["result"].clone()
}

#[tokio::test]
async fn exec_denied_is_denied_on_every_edge() {
    let server = TestServer::full()
        .config(&config(&json!({ "deny": ["Bash"] })))
        .start()
        .await;
    let api = server.agent();
    let run = json!({ "argv": ["/bin/true"] });
    let tried = |body: Value| api.exec(body);
    assert_has!(tried(run.clone()).await.problem(403, "exec-denied"), { "reason": "tool-denied" });
    for members in [
        json!({ "background": true }),
        json!({ "security": "full" }),
        json!({ "sessionKey": "agent:build:x" }),
    ] {
        let mut body = run.clone();
        for (name, value) in members.as_object().expect("members") {
            body[name] = value.clone();
        }
        assert_has!(tried(body).await.problem(403, "exec-denied"), { "reason": "tool-denied" });
    }
    let explained = api.explain(run.clone()).await;
    assert_has!(explained, { "outcome": "deny", "reason": "tool-denied" });
    let refused = mcp(&api, "exec", run.clone()).await;
    assert_eq!(refused["structuredContent"]["reason"], "tool-denied", "{refused}");
    let invoked = api
        .post("/tools/invoke", json!({ "tool": "exec", "args": run }))
        .await;
    assert_eq!(invoked.status, 404);
    let cli = server.cli(&["exec", "--", "/bin/true"]).await;
    assert_eq!(cli.code, Some(77), "{cli:?}");
}

#[tokio::test]
async fn without_process_everything_runs_synchronously() {
    let server = TestServer::full()
        .config(&config(&json!({ "deny": ["process"] })))
        .start()
        .await;
    let api = server.agent();
    for members in [json!({ "background": true }), json!({ "yieldMs": 10 })] {
        let mut body = json!({ "command": "read line < fifo; echo $line" });
        for (name, value) in members.as_object().expect("members") {
            body[name] = value.clone();
        }
        let make = json!({ "command": "rm -f fifo; mkfifo fifo" });
        api.ran(make).await;
        // Answered once it has ended, however long that takes: it waits for this.
        let waiting = tokio::spawn({
            let api = api.clone();
            async move { api.exec(body).await }
        });
        api.ran(json!({ "command": "echo done > fifo" })).await;
        let answer: Answer = waiting.await.expect("an answer");
        assert_eq!(answer.expect(200)["aggregated"], "done\n", "{members}");
    }
    for action in ["list", "poll"] {
        let body = json!({ "action": action, "sessionId": "x-y-1" });
        let body = if action == "list" {
            json!({ "action": action })
        } else {
            body
        };
        api.post("/v1/process", body).await.problem(403, "tool-denied");
    }
    let refused = mcp(&api, "process", json!({ "action": "list" })).await;
    assert_eq!(refused["structuredContent"]["code"], "tool-denied", "{refused}");
}

#[tokio::test]
async fn patches_follow_their_own_names_and_their_models() {
    let patch =
        json!({ "input": "*** Begin Patch\n*** Add File: x\n+x\n*** Delete File: x\n*** End Patch\n" });
    for (tools, code) in [
        (json!({ "deny": ["apply-patch"] }), Some("tool-denied")),
        (json!({ "deny": ["*"] }), Some("tool-denied")),
        (json!({ "allow": ["exec", "process"] }), Some("tool-denied")),
        (json!({ "allow": ["write"] }), None),
        (json!({ "allow": ["group:fs"] }), None),
    ] {
        let server = TestServer::full().config(&config(&tools)).start().await;
        let answer = server.agent().post("/v1/apply-patch", patch.clone()).await;
        match code {
            Some(code) => drop(answer.problem(403, code)),
            // The patch itself is refused: a file twice.
            None => assert!(matches!(answer.status, 200 | 409), "{tools}: {}", answer.text()),
        }
    }
    let mut models = config(&json!({}));
    models["tools"]["exec"]["applyPatch"] = json!({ "allowModels": ["gpt-5.5"] });
    let server = TestServer::full().config(&models).start().await;
    let api = server.agent();
    let patched = |model: Value| {
        let mut body = json!({ "input": "*** Begin Patch\n*** Add File: y\n+x\n*** End Patch\n" });
        if !model.is_null() {
            body["model"] = model;
        }
        api.post("/v1/apply-patch", body)
    };
    for model in [Value::Null, json!("other"), json!("gpt-5"), json!("gpt-5.5x")] {
        patched(model.clone()).await.problem(403, "patch-not-allowed");
    }
    patched(json!("gpt-5.5")).await.expect(200);
}

#[tokio::test]
async fn texts_that_belong_into_a_chat_or_a_terminal_are_no_commands() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    for body in [
        json!({ "command": "/approve 12345678 allow-once" }),
        json!({ "command": "  /approve" }),
        json!({ "argv": ["/approve", "12345678", "allow-once"] }),
        json!({ "command": "openclaw channels login --verbose" }),
        json!({ "command": "openclaw\tchannels\n login" }),
        json!({ "argv": ["openclaw", "channels", "login"] }),
    ] {
        api.exec(body.clone()).await.problem(400, "invalid-request");
        let refused = mcp(&api, "exec", body.clone()).await;
        assert_eq!(refused["structuredContent"]["code"], "invalid-request", "{body}");
    }
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"], json!([]));
}
