//! Questions outlive the server that asked them.

use serde_json::json;

use super::{append_line, asked, id};
use crate::support::{TestServer, lines, soon};

#[tokio::test]
async fn a_question_survives_a_crash_and_then_runs_once() {
    let mut server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let mut body = append_line(&file);
    body["env"] = json!({ "SOMETHING": "kept" });
    body["command"] = json!(format!("echo $SOMETHING >> {}", file.display()));
    let pending = asked(&server, body).await;
    let approval = id(&pending, "approvalId");
    let before = server.operator().approval(&approval).await;
    server.crash_and_restart().await;
    let after = server.operator().approval(&approval).await;
    assert_eq!(after, before, "the question is the same, deadline included");
    assert_has!(server.agent().run(&id(&pending, "runId")).await, { "status": "approval-pending" });
    let run = server.answered(&pending, "allow-once").await;
    assert_eq!(run["status"], "completed");
    server.crash_and_restart().await;
    assert_has!(server.operator().decided(&approval, "allow-once").await, { "applied": false });
    server.stop().await;
    assert_eq!(lines(&file), ["kept"]);
}

#[tokio::test]
async fn a_question_survives_a_clean_stop() {
    let mut server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let pending = asked(&server, append_line(&file)).await;
    assert_eq!(server.stop().await, Some(0));
    server.start().await;
    assert_has!(server.answered(&pending, "allow-once").await, { "status": "completed" });
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn a_question_that_came_due_while_nobody_served_falls_back_to_deny_only() {
    // The server has to be gone by then.
    let mut server = TestServer::asking_with("timeout_ms = 3000")
        .exec(&json!({ "host": "gateway", "security": "full", "ask": "always" }))
        .document(&json!({ "version": 1, "defaults": { "askFallback": "full" }, "agents": {} }))
        .start()
        .await;
    let file = server.scratch().join("lines");
    let pending = asked(&server, append_line(&file)).await;
    server.kill();
    let due = pending["expiresAtMs"].as_i64().unwrap();
    soon("past the deadline", now_ms, |now| *now > due).await;
    server.start().await;
    let run = server.agent().finished(&id(&pending, "runId")).await;
    assert_has!(run, { "status": "denied", "reason": "approval-timeout" });
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_that_was_answered_is_asked_again() {
    let mut server = TestServer::asking().start().await;
    let denied = id(
        &asked(&server, json!({ "argv": ["/bin/date", "1"] })).await,
        "approvalId",
    );
    let open = id(
        &asked(&server, json!({ "argv": ["/bin/date", "2"] })).await,
        "approvalId",
    );
    server.operator().decided(&denied, "deny").await;
    server.crash_and_restart().await;
    let pending = server.operator().pending().await;
    assert_eq!(
        pending
            .iter()
            .map(|approval| id(approval, "id"))
            .collect::<Vec<_>>(),
        [open]
    );
}

fn now_ms() -> i64 {
    countersign_sys::clock::Clock::now(&countersign_sys::clock::SystemClock).get()
}
