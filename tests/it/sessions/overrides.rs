//! Overrides as a resource: set, shown, cleared, and what they do to runs.

use serde_json::json;

use super::{MAIN, closed, effective, open, overrides_of, put};
use crate::support::{Members, TestServer, without};

#[tokio::test]
async fn they_are_set_shown_told_and_cleared() {
    let server = open().start().await;
    let operator = server.operator();
    let mut events = operator.events("?types=session.changed", None).await;
    assert_eq!(
        overrides_of(&server, MAIN).await,
        json!({ "sessionKey": MAIN, "elevated": "off" })
    );
    let body = json!({ "host": "gateway", "security": "allowlist", "ask": "always", "node": "mac-1" });
    let set = put(&server, MAIN, body).await.expect(200);
    assert_eq!(
        without(&set, &["setBy", "setAtMs"]),
        json!({ "sessionKey": MAIN, "host": "gateway", "security": "allowlist", "ask": "always", "node": "mac-1",
            "elevated": "off" })
    );
    assert_eq!(set["setBy"]["kind"], "token");
    assert_eq!(overrides_of(&server, MAIN).await, set);
    let event = events.next().await;
    assert_eq!(event.data["overrides"], set);
    assert_has!(event.data, { "type": "session.changed", "agentId": "main", "sessionKey": MAIN });
    // What is left out is not overridden any more; the same again is no change.
    let less = put(&server, MAIN, json!({ "ask": "always" })).await.expect(200);
    assert_eq!(
        without(&less, &["setBy", "setAtMs"]),
        json!({ "sessionKey": MAIN, "ask": "always", "elevated": "off" })
    );
    put(&server, MAIN, json!({ "ask": "always" })).await.expect(200);
    let path = format!("/v1/sessions/{MAIN}/overrides");
    assert_eq!(operator.delete(&path).await.status, 204);
    assert_eq!(events.next().await.data["overrides"], less);
    assert_has!(events.next().await.data, { "overrides": { "sessionKey": MAIN, "elevated": "off" } });
    assert_eq!(operator.delete(&path).await.status, 204);
    let audit = operator.read("/v1/audit?action=session.changed").await;
    let records = audit.list("items");
    assert_eq!(records.len(), 3);
    assert_eq!(records[0]["target"], json!({ "kind": "session", "id": MAIN }));
}

#[tokio::test]
async fn what_cannot_be_meant_changes_nothing() {
    let server = open().start().await;
    for (body, path) in [
        (json!({ "host": "build-01" }), "host"),
        (json!({ "security": "Full" }), "security"),
        (json!({ "ask": null }), "ask"),
        (json!({ "node": " " }), "node"),
        (json!({ "node": "a\u{202e}b" }), "node"),
        (json!({ "level": "on" }), "level"),
        (json!({ "elevated": "up" }), "elevated"),
    ] {
        let problem = put(&server, MAIN, body.clone())
            .await
            .problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], path, "{body}");
    }
    put(&server, "a%07b", json!({}))
        .await
        .problem(400, "invalid-request");
    put(&server, "agent:build:main?agentId=main", json!({}))
        .await
        .problem(400, "config-conflict");
    assert_eq!(
        overrides_of(&server, MAIN).await,
        json!({ "sessionKey": MAIN, "elevated": "off" })
    );
}

#[tokio::test]
async fn a_session_loosens_and_tightens_what_is_configured_for_its_own_runs() {
    let server = closed().start().await;
    let agent = server.agent();
    let run = |session: &str| agent.exec(json!({ "argv": ["/bin/true"], "sessionKey": session }));
    run(MAIN).await.problem(403, "exec-denied");
    put(&server, MAIN, json!({ "security": "full", "ask": "off" }))
        .await
        .expect(200);
    run(MAIN).await.expect(200);
    run("agent:main:other").await.problem(403, "exec-denied");
    run("agent:build:main").await.problem(403, "exec-denied");
    let shown = effective(&server, MAIN).await;
    assert_has!(shown["security"], { "value": "full", "source": "session" });
    let layers = shown["security"].list("layers");
    assert_eq!(layers.last().expect("a layer")["layer"], "session");
    let explained = agent.explain(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(explained["outcome"], "run");
    assert_eq!(explained["security"]["source"], "session");
    // The call tightens further, and never loosens.
    let tightened = json!({ "argv": ["/bin/true"], "security": "deny" });
    agent.denied(tightened).await;
    put(&server, MAIN, json!({ "security": "deny" }))
        .await
        .expect(200);
    let denied = agent
        .denied(json!({ "argv": ["/bin/true"], "security": "full" }))
        .await;
    denied.says("hint", "session");
}

#[tokio::test]
async fn a_question_that_a_session_allowed_to_be_asked_can_be_answered_as_long_as_it_does() {
    let server = closed().start().await;
    let agent = server.agent();
    let operator = server.operator();
    put(&server, MAIN, json!({ "security": "allowlist" }))
        .await
        .expect(200);
    let ask = || agent.exec(json!({ "argv": ["/bin/true"], "join": false }));
    let first = ask().await.expect(202);
    let second = ask().await.expect(202);
    operator.decided(first.text("approvalId"), "allow-once").await;
    let run = agent.finished(first.text("runId")).await;
    assert_eq!(run["status"], "completed", "{run}");
    put(&server, MAIN, json!({})).await.expect(200);
    operator.decided(second.text("approvalId"), "allow-once").await;
    let run = agent.finished(second.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "security-deny" });
}

#[tokio::test]
async fn a_sessions_host_is_the_configured_one_for_its_calls() {
    let server = TestServer::full()
        .toml("[sandbox]\nbackend = \"off\"\n")
        .start()
        .await;
    let agent = server.agent();
    put(&server, MAIN, json!({ "host": "sandbox" })).await.expect(200);
    let run = |body| agent.exec(body);
    let problem = run(json!({ "argv": ["/bin/true"] }))
        .await
        .problem(503, "sandbox-unavailable");
    problem.says("detail", "session");
    let refused = run(json!({ "argv": ["/bin/true"], "host": "gateway" }))
        .await
        .problem(403, "host-not-allowed");
    refused.says("hint", "session");
    put(&server, MAIN, json!({ "host": "auto" })).await.expect(200);
    run(json!({ "argv": ["/bin/true"], "host": "gateway" }))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_restart_forgets_them() {
    let mut server = closed().start().await;
    put(&server, MAIN, json!({ "security": "full", "ask": "off" }))
        .await
        .expect(200);
    server.crash_and_restart().await;
    assert_eq!(
        overrides_of(&server, MAIN).await,
        json!({ "sessionKey": MAIN, "elevated": "off" })
    );
    let body = json!({ "argv": ["/bin/true"] });
    server.denied(body).await;
}

#[tokio::test]
async fn a_key_of_another_form_belongs_to_each_agent_on_its_own() {
    let server = closed().start().await;
    put(
        &server,
        "chat:7?agentId=build",
        json!({ "security": "full", "ask": "off" }),
    )
    .await
    .expect(200);
    let agent = server.agent();
    let run = |agent_id: &str| {
        agent.exec(json!({ "argv": ["/bin/true"], "sessionKey": "chat:7", "agentId": agent_id }))
    };
    run("build").await.expect(200);
    run("main").await.problem(403, "exec-denied");
}
