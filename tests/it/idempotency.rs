//! `Idempotency-Key`: the same request twice is one run.

use serde_json::json;

use crate::support::{Members, TestServer, lines, only, soon, write_file};

#[tokio::test]
async fn the_same_key_answers_the_same_and_runs_once() {
    let mut server = TestServer::full().start().await;
    let file = server.scratch().join("lines");
    let body = json!({ "command": format!("echo ran >> {}; echo answer; exit 4", file.display()) });
    let first = server.agent().exec_with_key("key-1", body.clone()).await;
    assert_eq!(first.expect(200)["exitCode"], 4);
    let second = server.agent().exec_with_key("key-1", body.clone()).await;
    assert_eq!(second.expect(200), first.json());
    server.crash_and_restart().await;
    let third = server.agent().exec_with_key("key-1", body).await;
    assert_eq!(third.expect(200), first.json(), "the answer survives the server");
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn another_body_is_refused_and_another_key_is_another_run() {
    let server = TestServer::full().start().await;
    let file = server.scratch().join("lines");
    let body = |word: &str| json!({ "command": format!("echo {word} >> {}", file.display()) });
    server.agent().exec_with_key("key", body("one")).await.expect(200);
    server
        .agent()
        .exec_with_key("key", body("two"))
        .await
        .problem(422, "idempotency-mismatch");
    server
        .agent()
        .exec_with_key("another", body("one"))
        .await
        .expect(200);
    let (_, other) = server
        .token_with(json!({ "name": "other", "scopes": ["exec"] }))
        .await;
    other.exec_with_key("key", body("two")).await.expect(200);
    assert_eq!(lines(&file), ["one", "one", "two"]);
}

#[tokio::test]
async fn a_request_joins_the_run_that_is_under_way() {
    let server = TestServer::full().start().await;
    let file = server.scratch().join("lines");
    let gate = server.scratch().join("gate");
    let command = format!(
        "echo ran >> {}; while [ ! -e {} ]; do sleep 0.02; done; echo through",
        file.display(),
        gate.display()
    );
    let body = json!({ "command": command, "yieldMs": 120_000 });
    let ask = || {
        let (agent, body) = (server.agent(), body.clone());
        tokio::spawn(async move { agent.exec_with_key("joined", body).await })
    };
    let first = ask();
    soon("started", || lines(&file), |seen| seen.len() == 1).await;
    let others: Vec<_> = (0..5).map(|_| ask()).collect();
    write_file(&gate, "");
    let answer = first.await.unwrap().expect(200);
    assert_eq!(answer["stdout"], "through\n");
    for other in others {
        assert_eq!(other.await.unwrap().expect(200), answer);
    }
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn a_keyed_run_outlives_its_client() {
    let server = TestServer::full().start().await;
    let file = server.scratch().join("lines");
    let gate = server.scratch().join("gate");
    let command = format!(
        "echo ran >> {}; while [ ! -e {} ]; do sleep 0.02; done",
        file.display(),
        gate.display()
    );
    let body = json!({ "command": command, "yieldMs": 120_000 });
    let waiting = tokio::spawn({
        let (agent, body) = (server.agent(), body.clone());
        async move { agent.exec_with_key("kept", body).await }
    });
    soon("started", || lines(&file), |seen| seen.len() == 1).await;
    waiting.abort();
    drop(waiting.await);
    write_file(&gate, "");
    let answer = server.agent().exec_with_key("kept", body).await.expect(200);
    assert_has!(answer, { "status": "completed", "exitCode": 0 });
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn a_waiting_question_is_joined_and_never_asked_twice() {
    let server = TestServer::asking().start().await;
    let body = json!({ "argv": ["/bin/echo", "asked"] });
    let first = server
        .agent()
        .exec_with_key("asked", body.clone())
        .await
        .expect(202);
    let second = server
        .agent()
        .exec_with_key("asked", body.clone())
        .await
        .expect(202);
    assert_eq!(
        only(&first, &["runId", "approvalId", "status"]),
        only(&second, &["runId", "approvalId", "status"])
    );
    assert_eq!(server.operator().pending().await.len(), 1);
    server.operator().decided(first.text("approvalId"), "deny").await;
    let third = server
        .agent()
        .exec_with_key("asked", body)
        .await
        .problem(403, "exec-denied");
    assert_has!(third, { "reason": "user-denied", "runId": first["runId"] });
}

#[tokio::test]
async fn a_refusal_is_told_again_as_it_was_told_first() {
    // Nobody to ask, nobody to be asked, and nothing at all.
    for (security, ask) in [("allowlist", "on-miss"), ("allowlist", "off"), ("deny", "off")] {
        let exec = json!({ "host": "gateway", "security": security, "ask": ask });
        let mut server = TestServer::full().exec(&exec).start().await;
        let body = json!({ "argv": ["/bin/date", "--version"] });
        let refused = async |server: &TestServer| {
            let answer = server.agent().exec_with_key("refused", body.clone()).await;
            answer.problem(403, "exec-denied")
        };
        let first = refused(&server).await;
        assert!(first["hint"].is_string(), "{first}");
        assert_eq!(refused(&server).await, first, "{security} {ask}");
        server.stop().await;
        server.start().await;
        assert_eq!(refused(&server).await, first, "{security} {ask}, after a restart");
        let run = server.agent().run(first.text("runId")).await;
        assert_eq!(run["detail"], first["detail"]);
    }
}

#[tokio::test]
async fn refusals_before_a_decision_are_not_kept() {
    let server = TestServer::full().start().await;
    let missing = server.scratch().join("later");
    let body = json!({ "argv": ["/bin/pwd"], "workdir": missing });
    server
        .agent()
        .exec_with_key("later", body.clone())
        .await
        .problem(400, "workdir-unavailable");
    std::fs::create_dir(&missing).unwrap();
    server.agent().exec_with_key("later", body).await.expect(200);
}

#[tokio::test]
async fn keys_of_another_form_are_refused() {
    let server = TestServer::full().start().await;
    let body = json!({ "argv": ["/bin/true"] });
    for key in ["", " ", "ä", &"x".repeat(256)] {
        let answer = server.agent().exec_with_key(key, body.clone()).await;
        assert_eq!(answer.status, 400, "{key:?}: {}", answer.text());
    }
    server
        .agent()
        .exec_with_key(&"x".repeat(255), body)
        .await
        .expect(200);
    assert_eq!(server.agent().read("/v1/runs").await.list("items").len(), 1);
}
