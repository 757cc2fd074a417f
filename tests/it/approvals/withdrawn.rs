//! The questions of a token end with it.

use serde_json::{Value, json};

use super::{append_line, asked, id};
use crate::support::{Api, TestServer, eventually, lines, only};

/// An asker beside the gateway.
async fn asker(server: &TestServer, more: Value) -> (String, Api) {
    let mut request = json!({ "name": "asker", "scopes": ["exec"] });
    request
        .as_object_mut()
        .expect("an object")
        .extend(more.as_object().cloned().unwrap_or_default());
    server.token_with(request).await
}

/// It was withdrawn: its run is denied, and no answer starts it.
async fn is_withdrawn(server: &TestServer, approval: &str, run: &str) {
    let run = server.operator().finished(run).await;
    assert_has!(run, { "status": "denied", "reason": "approval-cancelled" });
    for decision in ["allow-once", "deny"] {
        let late = server.operator().decide(approval, decision).await;
        let approval = &late.problem(410, "approval-cancelled")["approval"];
        assert_eq!(
            only(approval, &["status", "terminalReason"]),
            json!({ "status": "cancelled", "terminalReason": "run-aborted" })
        );
    }
}

#[tokio::test]
async fn a_question_ends_when_the_token_that_asked_is_revoked() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let mut events = operator.events("", None).await;
    let file = server.scratch().join("lines");
    let (token, asker) = asker(&server, json!({})).await;
    let others = asked(&server, json!({ "argv": ["/bin/true"] })).await;
    let mut body = append_line(&file);
    body["approvalWaitMs"] = json!(60_000);
    let waiting = tokio::spawn(async move { asker.exec(body).await });
    let pending = eventually("asked", || operator.pending(), |pending| pending.len() == 2).await;
    let own = pending
        .iter()
        .find(|approval| approval["id"] != others["approvalId"])
        .expect("the question");

    let revoked = operator.delete(&format!("/v1/tokens/{token}")).await;
    assert_eq!(revoked.status, 204);
    let answer = waiting.await.expect("the waiting caller");
    let denied = answer.problem(403, "exec-denied");
    assert_eq!(denied["reason"], "approval-cancelled", "{denied}");
    assert_eq!(denied["runId"], own["runId"]);
    is_withdrawn(&server, &id(own, "id"), &id(own, "runId")).await;
    let told = events.next_of("exec.approval.resolved").await.data;
    assert_has!(told, { "approvalId": own["id"], "status": "cancelled", "terminalReason": "run-aborted" });
    let told = events.next_of("exec.denied").await.data;
    assert_has!(told, { "runId": own["runId"], "reason": "approval-cancelled" });
    assert_eq!(lines(&file), Vec::<String>::new());

    // Another token's question stays, and is answered as ever.
    assert_has!(server.answered(&others, "allow-once").await, { "status": "completed" });
}

#[tokio::test]
async fn a_question_waits_no_longer_than_the_token_that_asked_lives() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let now = countersign_sys::clock::Clock::now(&countersign_sys::clock::SystemClock).get();
    let (_, asker) = asker(&server, json!({ "expiresAtMs": now + 5000 })).await;
    let own = asker.accepted(append_line(&file)).await;
    let others = asked(&server, json!({ "argv": ["/bin/true"] })).await;
    is_withdrawn(&server, &id(&own, "approvalId"), &id(&own, "runId")).await;
    assert_eq!(lines(&file), Vec::<String>::new());
    assert_has!(server.answered(&others, "allow-once").await, { "status": "completed" });
}

#[tokio::test]
async fn what_silence_would_start_is_not_started_for_a_token_that_has_ended() {
    let server = TestServer::asking_with("fallback_after_timeout = true")
        .document(&json!({ "version": 1, "defaults": { "askFallback": "full" }, "agents": {} }))
        .exec(&json!({ "host": "gateway", "security": "full", "ask": "always" }))
        .start()
        .await;
    let file = server.scratch().join("lines");
    let now = countersign_sys::clock::Clock::now(&countersign_sys::clock::SystemClock).get();
    let (_, asker) = asker(&server, json!({ "expiresAtMs": now + 5000 })).await;
    let own = asker.accepted(append_line(&file)).await;
    is_withdrawn(&server, &id(&own, "approvalId"), &id(&own, "runId")).await;
    assert_eq!(lines(&file), Vec::<String>::new());
}

/// A server with one place to run in, and the run that takes it.
async fn with_its_place_taken(exec: &Value) -> (TestServer, String) {
    let server = TestServer::asking()
        .exec(exec)
        .toml("[limits]\nmax_running = 1\nqueue_timeout_ms = 600000\n")
        .start()
        .await;
    let long = json!({ "argv": ["/bin/sleep", "600"], "agentId": "other", "background": true });
    let operator = server.operator();
    let long = server.agent().accepted(long).await;
    if long["status"] == "approval-pending" {
        operator.decided(&id(&long, "approvalId"), "allow-once").await;
    }
    let long = id(&long, "runId");
    eventually(
        "running",
        || operator.run(&long),
        |run| run["status"] == "running",
    )
    .await;
    (server, long)
}

/// Waits until one run waits for the place.
async fn one_waits_for_the_place(server: &TestServer) {
    let metrics = || async { server.operator().get("/metrics").await.text() };
    let waits = |text: &String| text.contains("countersign_runs_queued 1\n");
    eventually("waiting for the place", metrics, waits).await;
}

#[tokio::test]
async fn what_was_allowed_and_waits_for_a_place_does_not_start_for_a_revoked_token() {
    let exec = json!({ "host": "gateway", "security": "full", "ask": "always" });
    let (server, long) = with_its_place_taken(&exec).await;
    let operator = server.operator();
    let file = server.scratch().join("lines");
    let (token, asker) = asker(&server, json!({})).await;
    let own = asker.accepted(append_line(&file)).await;
    operator.decided(&id(&own, "approvalId"), "allow-once").await;
    one_waits_for_the_place(&server).await;

    assert_eq!(operator.delete(&format!("/v1/tokens/{token}")).await.status, 204);
    operator.cancel(&long).await;
    let run = operator.finished(&id(&own, "runId")).await;
    assert_has!(run, {
        "status": "denied",
        "reason": "approval-cancelled",
        "detail": "the token that asked was revoked",
    });
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn what_needs_no_answer_and_waits_for_a_place_does_not_start_for_a_revoked_token() {
    let exec = json!({ "host": "gateway", "security": "full", "ask": "off" });
    let (server, long) = with_its_place_taken(&exec).await;
    let operator = server.operator();
    let file = server.scratch().join("lines");
    let (token, asker) = asker(&server, json!({})).await;
    let body = append_line(&file);
    let waiting = tokio::spawn(async move { asker.exec(body).await });
    one_waits_for_the_place(&server).await;

    assert_eq!(operator.delete(&format!("/v1/tokens/{token}")).await.status, 204);
    operator.cancel(&long).await;
    let denied = waiting
        .await
        .expect("the waiting caller")
        .problem(403, "exec-denied");
    assert_eq!(denied["reason"], "approval-cancelled", "{denied}");
    let run = operator.finished(&id(&denied, "runId")).await;
    assert_has!(run, { "status": "denied", "reason": "approval-cancelled" });
    assert_eq!(lines(&file), Vec::<String>::new());
}
