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
