//! Out of the sandbox: by a call, by a session, and every gate that stands before it.

use serde_json::{Value, json};

use super::{MAIN, ann_says, effective, eve, overrides_of, put, relay, say};
use crate::support::{Api, Members, ServerBuilder, TestServer};

/// A server where commands belong into a sandbox that is not there, so that whatever runs has left it.
fn sandboxed(elevated: &Value, exec: &Value) -> ServerBuilder {
    let config = json!({
        "tools": { "exec": exec, "elevated": elevated },
        "commands": { "allowFrom": { "telegram": ["id:42", "id:13"] } },
    });
    TestServer::full()
        .config(&config)
        .toml("[sandbox]\nbackend = \"off\"\n[approvals]\nalways_reachable = true\n")
}

/// Ann and the token of the gateway may be elevated.
fn allowed() -> Value {
    json!({ "allowFrom": { "telegram": ["id:42"], "api": ["gateway"] } })
}

fn full() -> Value {
    json!({ "host": "sandbox", "security": "full", "ask": "off" })
}

fn denied() -> Value {
    json!({ "host": "sandbox", "security": "deny", "ask": "on-miss" })
}

async fn run(api: &Api, members: Value) -> crate::support::Answer {
    let mut body = json!({ "argv": ["/bin/true"] });
    for (name, value) in members.as_object().expect("members") {
        body[name] = value.clone();
    }
    api.exec(body).await
}

async fn gateway_name(server: &TestServer) -> String {
    let tokens = server.operator().read("/v1/tokens").await;
    let tokens = tokens["items"].as_array().cloned().expect("tokens");
    let token = tokens.iter().find(|token| token["scopes"] == json!(["exec"]));
    token.expect("the gateway's token").text("name").to_owned()
}

#[tokio::test]
async fn a_call_leaves_the_sandbox_if_its_token_is_named() {
    let server = sandboxed(&allowed(), &full()).start().await;
    assert_eq!(gateway_name(&server).await, "gateway");
    let api = server.agent();
    run(&api, json!({})).await.problem(503, "sandbox-unavailable");
    let ran = run(&api, json!({ "elevated": true })).await.expect(200);
    assert_eq!(ran["host"], "gateway");
    let explained = api
        .explain(json!({ "argv": ["/bin/true"], "elevated": true }))
        .await;
    assert_has!(explained, { "host/value": "gateway", "outcome": "run" });
    let (_, other) = server
        .token_with(json!({ "name": "other", "scopes": ["exec"] }))
        .await;
    let problem = run(&other, json!({ "elevated": true }))
        .await
        .problem(403, "elevated-unavailable");
    assert_eq!(problem["gates"], json!(["tools.elevated.allowFrom.api"]));
}

#[tokio::test]
async fn every_closed_gate_is_named_by_the_key_that_opens_it() {
    let config = json!({
        "tools": { "exec": full(), "elevated": { "enabled": false } },
        "agents": { "list": [{ "id": "build", "elevatedDefault": "off",
            "tools": { "elevated": { "enabled": false, "allowFrom": { "api": ["nobody"] } } } }] },
    });
    let server = TestServer::full().config(&config).start().await;
    let problem = run(&server.agent(), json!({ "elevated": true, "agentId": "build" }))
        .await
        .problem(403, "elevated-unavailable");
    assert_eq!(
        problem["gates"],
        json!([
            "tools.elevated.enabled",
            "agents.list[0].tools.elevated.enabled",
            "tools.elevated.allowFrom.api",
            "agents.list[0].tools.elevated.allowFrom.api",
            "agents.defaults.elevatedDefault",
        ])
    );
    let explained = server
        .agent()
        .post(
            "/v1/exec/explain",
            json!({ "argv": ["/bin/true"], "elevated": true, "agentId": "build" }),
        )
        .await;
    assert_eq!(
        explained.problem(403, "elevated-unavailable")["gates"],
        problem["gates"]
    );
}

#[tokio::test]
async fn on_and_ask_leave_security_as_it_is_and_full_does_not() {
    for (level, status) in [("on", 403), ("ask", 403), ("full", 200)] {
        let mut elevated = json!({ "exec": denied(), "elevated": allowed() });
        elevated = json!({ "tools": elevated, "agents": { "defaults": { "elevatedDefault": level } } });
        let server = TestServer::full()
            .config(&elevated)
            .toml("[sandbox]\nbackend = \"off\"\n")
            .start()
            .await;
        let answer = run(&server.agent(), json!({ "elevated": true })).await;
        assert_eq!(answer.status, status, "{level}: {}", answer.text());
    }
}

#[tokio::test]
async fn the_approvals_of_the_host_apply_to_elevated_calls_too() {
    let config = json!({
        "tools": { "exec": denied(), "elevated": allowed() },
        "agents": { "defaults": { "elevatedDefault": "full" } },
    });
    let server = TestServer::full()
        .config(&config)
        .document(&json!({ "version": 1, "defaults": { "security": "allowlist", "ask": "on-miss" } }))
        .toml("[sandbox]\nbackend = \"off\"\n[approvals]\nalways_reachable = true\n")
        .start()
        .await;
    let api = server.agent();
    let asked = run(&api, json!({ "elevated": true })).await.expect(202);
    assert_eq!(asked["status"], "approval-pending");
    server
        .operator()
        .decided(asked.text("approvalId"), "allow-once")
        .await;
    let ran = api.finished(asked.text("runId")).await;
    assert_eq!(ran["status"], "completed", "{ran}");
    // Whoever may not be elevated any more when the answer comes does not run.
    let asked = run(&api, json!({ "elevated": true })).await.expect(202);
    let without = json!({ "tools": { "exec": denied() },
        "agents": { "defaults": { "elevatedDefault": "full" } } });
    server.edit_config(&without.to_string());
    let ended = server.answered_beside_an_edit(&asked, "allow-once").await;
    assert_has!(ended, { "status": "denied", "reason": "security-deny" });
}

#[tokio::test]
async fn a_session_is_elevated_by_those_who_may_and_set_back_exactly() {
    let server = sandboxed(&allowed(), &denied()).start().await;
    let bot = relay(&server).await;
    let api = server.agent();
    ann_says(&bot, MAIN, "/exec ask=always").await;
    let before = effective(&server, MAIN).await;
    let refused = say(&bot, MAIN, "/elevated full", eve()).await.expect(200);
    assert_eq!(
        refused,
        json!({ "handled": true, "cleanedText": "", "reply":
            "Elevated is not available here. Nothing was changed.\n\
             - tools.elevated.allowFrom.telegram does not name 13" })
    );
    run(&api, json!({})).await.problem(503, "sandbox-unavailable");
    assert_eq!(ann_says(&bot, MAIN, "/elev on").await["handled"], true);
    // Outside, with security full, and asked about as the session says.
    let asked = run(&api, json!({})).await.expect(202);
    assert_has!(asked, { "status": "approval-pending", "host": "gateway" });
    ann_says(&bot, MAIN, "/elevated full").await;
    let ran = run(&api, json!({})).await.expect(200);
    assert_eq!(ran["host"], "gateway");
    let shown = ann_says(&bot, MAIN, "/elevated").await;
    assert!(
        shown
            .text("reply")
            .starts_with("Elevated is full in this session."),
        "{shown}"
    );
    ann_says(&bot, MAIN, "/elevated off").await;
    let after = effective(&server, MAIN).await;
    for value in ["host", "security", "ask"] {
        assert_eq!(after[value], before[value], "{value}");
    }
    assert_eq!(overrides_of(&server, MAIN).await["ask"], "always");
    // And refused for a call, although its token may.
    let problem = run(&api, json!({ "elevated": true }))
        .await
        .problem(403, "elevated-unavailable");
    assert_eq!(problem["gates"], json!(["session.elevated"]));
    // Other sessions have nothing of it.
    run(&api, json!({ "sessionKey": "agent:main:other" }))
        .await
        .problem(503, "sandbox-unavailable");
}

#[tokio::test]
async fn a_level_lasts_as_long_as_whoever_chose_it_may() {
    let server = sandboxed(&json!({ "allowFrom": { "telegram": ["id:42"] } }), &denied())
        .start()
        .await;
    let bot = relay(&server).await;
    let api = server.agent();
    ann_says(&bot, MAIN, "/elevated full").await;
    run(&api, json!({})).await.expect(200);
    // Her level lets calls through whose token is nobody.
    run(&api, json!({ "elevated": true })).await.expect(200);
    let without = json!({ "tools": { "exec": denied() } });
    server.edit_config(&without.to_string());
    run(&api, json!({})).await.problem(503, "sandbox-unavailable");
    let problem = run(&api, json!({ "elevated": true }))
        .await
        .problem(403, "elevated-unavailable");
    assert_eq!(problem["gates"], json!(["tools.elevated.allowFrom.api"]));
}

#[tokio::test]
async fn an_admin_elevates_a_session_only_through_the_same_gates() {
    let server = sandboxed(&allowed(), &full()).start().await;
    let problem = put(&server, MAIN, json!({ "elevated": "full" }))
        .await
        .problem(403, "elevated-unavailable");
    assert_eq!(problem["gates"], json!(["tools.elevated.allowFrom.api"]));
    put(&server, MAIN, json!({ "elevated": "off" })).await.expect(200);
    let (_, api) = server
        .token_with(json!({ "name": "gateway", "scopes": ["admin"] }))
        .await;
    let path = format!("/v1/sessions/{MAIN}/overrides");
    let request = api
        .request(reqwest::Method::PUT, &path)
        .json(&json!({ "elevated": "on" }));
    let set = api.send(request).await.expect(200);
    assert_eq!(set["elevated"], "on");
    run(&server.agent(), json!({})).await.expect(200);
}

#[tokio::test]
async fn a_miss_that_would_be_run_in_the_sandbox_stays_out_of_it_when_elevated() {
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "onMiss": "sandbox" });
    let server = sandboxed(&allowed(), &exec).start().await;
    let asked = run(&server.agent(), json!({ "elevated": true }))
        .await
        .expect(202);
    assert_eq!(asked["warnings"], json!([]), "{asked}");
    let plain = run(&server.agent(), json!({})).await.expect(202);
    assert_ne!(plain["warnings"], json!([]), "{plain}");
}
