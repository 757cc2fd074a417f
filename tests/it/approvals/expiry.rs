use serde_json::{Value, json};

use super::{append_line, asked, id};
use crate::support::{Members, OnTheWay, ServerBuilder, Terminal, TestServer, eventually, lines, only, way};

/// Everybody is asked about everything, for a second; then `askFallback` counts.
fn short_question(fallback: &str, more: &str) -> ServerBuilder {
    question(fallback, &format!("timeout_ms = 1000\n{more}"))
}

/// The same with these members of `[approvals]`.
fn question(fallback: &str, approvals: &str) -> ServerBuilder {
    TestServer::asking_with(approvals)
        .document(
            &json!({ "version": 1, "defaults": { "askFallback": fallback }, "agents": {
            "main": { "allowlist": [{ "pattern": "/usr/bin/touch" }] },
        } }),
        )
        .exec(&json!({ "host": "gateway", "security": "full", "ask": "always" }))
}

#[tokio::test]
async fn an_expired_question_denies_and_cannot_be_decided() {
    let server = TestServer::asking_with("timeout_ms = 1000").start().await;
    let file = server.scratch().join("lines");
    let pending = asked(&server, append_line(&file)).await;
    let run = server.agent().finished(&id(&pending, "runId")).await;
    assert_has!(run, { "status": "denied", "reason": "approval-timeout" });
    let late = server
        .operator()
        .decide(&id(&pending, "approvalId"), "allow-once")
        .await;
    let approval = &late.problem(410, "approval-expired")["approval"];
    assert_eq!(
        only(approval, &["status", "decision", "terminalReason"]),
        json!({ "status": "expired", "decision": "deny", "terminalReason": "timeout" })
    );
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn a_waiting_caller_hears_of_the_expiry() {
    let server = TestServer::asking_with("timeout_ms = 1000").start().await;
    // The server looks at deadlines every 30 seconds unasked. A caller who waits for less hears of this one.
    let body = json!({ "argv": ["/bin/date"], "approvalWaitMs": 20_000 });
    assert_eq!(server.denied(body).await["reason"], "approval-timeout");
}

#[tokio::test]
async fn the_fallback_decides_when_nobody_answers() {
    for (fallback, ran, missed) in [
        ("deny", Err("approval-timeout"), Err("approval-timeout")),
        ("allowlist", Ok(()), Err("allowlist-miss")),
        ("full", Ok(()), Ok(())),
    ] {
        let server = short_question(fallback, "").start().await;
        let mark = server.scratch().join("mark");
        let covered = asked(&server, json!({ "argv": ["/usr/bin/touch", mark] })).await;
        let miss = asked(&server, json!({ "argv": ["/bin/date"] })).await;
        for (pending, expect) in [(covered, ran), (miss, missed)] {
            let run = server.agent().finished(&id(&pending, "runId")).await;
            let expect: Value = match expect {
                Ok(()) => json!({
                    "status": "completed", "reason": null, "decision": { "verdict": "ask", "by": "fallback" },
                }),
                Err(reason) => json!({
                    "status": "denied", "reason": reason, "decision": { "verdict": "deny", "by": "fallback" },
                }),
            };
            let seen = only(&run, &["status", "reason", "decision"]);
            assert_eq!(
                (&seen["status"], &seen["reason"], &seen["decision"]["by"]),
                (&expect["status"], &expect["reason"], &expect["decision"]["by"]),
                "fallback {fallback}: {run}"
            );
            let path = format!("/v1/approvals/{}", id(&pending, "approvalId"));
            assert_eq!(server.operator().read(&path).await["status"], "expired");
        }
        assert_eq!(mark.exists(), ran.is_ok(), "fallback {fallback}");
    }
}

/// A server whose one place is taken by the run named first, while the fallback of the second waits for it.
async fn with_a_fallback_that_waits() -> (TestServer, String, String) {
    let server = TestServer::asking_with("timeout_ms = 1000")
        .document(
            &json!({ "version": 1, "defaults": { "askFallback": "full" }, "agents": {
            "quiet": { "askFallback": "deny" },
        } }),
        )
        .exec(&json!({ "host": "gateway", "security": "full", "ask": "always" }))
        .toml("[limits]\nmax_running = 1\nqueue_timeout_ms = 600000\n")
        .start()
        .await;
    let agent = server.agent();
    let long = asked(&server, json!({ "argv": ["/bin/sleep", "600"] })).await;
    let long = id(&long, "runId");
    eventually("running", || agent.run(&long), |run| run["status"] == "running").await;
    let waits = id(&asked(&server, json!({ "argv": ["/bin/date"] })).await, "runId");
    let operator = server.operator();
    let metrics = || async { operator.get("/metrics").await.text() };
    let waits_for_place = |text: &String| text.contains("countersign_runs_queued 1\n");
    eventually("waiting for a place", metrics, waits_for_place).await;
    (server, long, waits)
}

#[tokio::test]
async fn a_server_that_stops_leaves_a_fallback_that_waits_for_a_place_to_the_next() {
    let (mut server, long, waits) = with_a_fallback_that_waits().await;
    server.stop().await;
    server.start().await;
    let run = server.agent().finished(&waits).await;
    assert_has!(run, { "status": "denied", "reason": "approval-timeout" });
    server.operator().cancel(&long).await;
    server.agent().finished(&long).await;
}

#[tokio::test]
async fn a_fallback_that_waits_for_a_place_holds_up_no_other_deadline() {
    let (server, long, waits) = with_a_fallback_that_waits().await;
    let (agent, operator) = (server.agent(), server.operator());
    let other = asked(&server, json!({ "argv": ["/bin/date"], "agentId": "quiet" })).await;
    let denied = agent.finished(&id(&other, "runId")).await;
    assert_has!(denied, { "status": "denied", "reason": "approval-timeout" });
    assert_eq!(agent.run(&waits).await["status"], "approval-pending");
    operator.cancel(&long).await;
    assert_eq!(agent.finished(&waits).await["status"], "completed");
}

#[tokio::test]
async fn the_fallback_goes_by_the_allowlist_of_its_own_moment() {
    // The entry has to be gone before nobody answered in time.
    let server = question("allowlist", "timeout_ms = 5000").start().await;
    let mark = server.scratch().join("mark");
    let list = "/v1/agents/main/allowlist";
    let entries = server.operator().read(list).await;
    let entry = id(&entries["items"][0], "id");
    let pending = asked(&server, json!({ "argv": ["/usr/bin/touch", mark] })).await;
    let removed = server.operator().delete(&format!("{list}/{entry}")).await;
    assert_eq!(removed.status, 204);
    let run = server.agent().finished(&id(&pending, "runId")).await;
    assert_has!(run, { "status": "denied", "reason": "allowlist-miss" });
    assert!(!mark.exists());
}

#[tokio::test]
async fn the_fallback_uses_up_the_grant_that_it_goes_by() {
    let exec = json!({ "host": "gateway", "security": "full", "ask": "always" });
    let server = TestServer::asking_with("timeout_ms = 1000")
        .document(
            &json!({ "version": 1, "defaults": { "askFallback": "allowlist" }, "agents": {
            "main": { "grants": [{ "id": "g-1", "pattern": "/usr/bin/touch", "maxUses": 1 }] },
        } }),
        )
        .exec(&exec)
        .start()
        .await;
    let mut ends = Vec::new();
    for name in ["one", "two"] {
        let mark = server.scratch().join(name);
        let pending = asked(&server, json!({ "argv": ["/usr/bin/touch", mark] })).await;
        let run = server.agent().finished(&id(&pending, "runId")).await;
        ends.push((run["status"].clone(), mark.exists()));
    }
    assert_eq!(ends, [(json!("completed"), true), (json!("denied"), false)]);
}

#[tokio::test]
async fn the_fallback_after_a_timeout_can_be_switched_off() {
    let server = short_question("full", "fallback_after_timeout = false")
        .start()
        .await;
    let pending = asked(&server, json!({ "argv": ["/bin/date"] })).await;
    assert_has!(server.agent().finished(&id(&pending, "runId")).await, { "reason": "approval-timeout" });
}

#[tokio::test]
async fn without_anybody_to_ask_the_fallback_counts_at_once() {
    let builder = |fallback: &str| {
        TestServer::allowlist_only()
            .exec(&json!({ "host": "gateway", "security": "full", "ask": "always" }))
            .document(&json!({ "version": 1, "defaults": { "askFallback": fallback }, "agents": {} }))
    };
    let server = builder("deny").start().await;
    let problem = server.denied(json!({ "argv": ["/bin/date"] })).await;
    assert_eq!(problem["reason"], "no-approver");
    let run = server.agent().run(&id(&problem, "runId")).await;
    assert_has!(run, { "status": "denied", "reason": "no-approver" });
    let server = builder("full").start().await;
    let answer = server.ran(json!({ "argv": ["/bin/echo", "ran"] })).await;
    assert_eq!(answer["stdout"], "ran\n");
}

#[tokio::test]
async fn a_connected_approver_is_asked() {
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" });
    let server = TestServer::allowlist_only().exec(&exec).start().await;
    let body = json!({ "argv": ["/bin/date"] });
    server.denied(body.clone()).await;
    let mut stream = server.operator().events("", None).await;
    let pending = asked(&server, body.clone()).await;
    let event = stream.next_of("exec.approval.requested").await;
    assert_eq!(event.data["approvalId"], pending["approvalId"]);
    drop(stream);
    let denied = || async { server.agent().exec(body.clone()).await.status };
    eventually("gone again", denied, |status| *status == 403).await;
    let approval = format!("/v1/approvals/{}", id(&pending, "approvalId"));
    let still = server.operator().read(&approval).await;
    assert_has!(still, { "status": "pending" }, "a question stays when its approvers leave");
}

#[tokio::test]
async fn who_only_reads_along_is_no_approver() {
    let server = TestServer::asking_approvers_that_are_there().start().await;
    let status = async || server.agent().exec(json!({ "argv": ["/bin/date"] })).await.status;
    let reader = server.token_of("rita", &["read"]).await;
    let refused = reader.get_bytes("/v1/events?approver=true", None).await;
    let problem = refused.problem(403, "forbidden");
    problem.says("hint", "--scope read,approve");
    let page = server.operator().get("/v1/events?approver=true").await;
    page.problem(400, "invalid-request");
    let reads = server.operator().events("?approver=false", None).await;
    let _reader = reader.events("", None).await;
    assert_eq!(status().await, 403);
    let answers = server.operator().events("?approver=true", None).await;
    assert_eq!(status().await, 202);
    drop(answers);
    eventually("gone again", status, |status| *status == 403).await;
    drop(reads);
    // For one release.
    let _silent = server.operator().events("", None).await;
    assert_eq!(status().await, 202);
}

#[tokio::test]
async fn a_terminal_that_missed_events_says_so_and_looks_again() {
    let server = TestServer::asking().start().await;
    let pending = asked(&server, json!({ "argv": ["/bin/date"] })).await;
    let gap = |path: &str| match path {
        "/v1/events" => OnTheWay::Streams(
            "id: 7\nevent: events.gap\ndata: {\"ts\":1,\"type\":\"events.gap\",\"oldestSeq\":7}\n\n\
             event: server.shutdown\ndata: {\"ts\":1,\"type\":\"server.shutdown\"}\n\n",
        ),
        _ => OnTheWay::Passes,
    };
    let way = way(&server, gap).await;
    let token = server.operator_token();
    let watched = server
        .cli(&["approvals", "watch", "--url", &way, "--token", &token])
        .await;
    watched.complains("events were missed; looking again at what waits");
    let lines: Vec<&str> = watched.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "what waits, at first and again: {watched:?}");
    assert!(
        lines
            .iter()
            .all(|line| line.contains(&id(&pending, "approvalId")[..8])),
        "{watched:?}"
    );
}

#[tokio::test]
async fn a_terminal_that_only_watches_counts_by_its_token() {
    let server = TestServer::asking_approvers_that_are_there().start().await;
    let status = async || server.agent().exec(json!({ "argv": ["/bin/date"] })).await.status;
    let rita = server.token_of("rita", &["read"]).await;
    let watch = |token: Option<&str>| {
        let watch = server.invocation(&["approvals", "watch"]);
        Terminal::start(match token {
            Some(token) => watch.env("COUNTERSIGN_TOKEN", token),
            None => watch,
        })
    };
    let reads = watch(rita.token());
    reads.sees("this token cannot answer").await;
    reads.sees("watching for approvals").await;
    assert_eq!(status().await, 403);
    let answers = watch(None);
    answers.sees("watching for approvals").await;
    assert_eq!(status().await, 202);
    for mut terminal in [reads, answers] {
        terminal.press("\u{3}");
        terminal.ended().await;
    }
}
