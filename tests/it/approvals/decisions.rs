use serde_json::{Value, json};

use countersign_sys::hooks;

use super::{append_line, asked, id};
use crate::{
    connections::places_taken,
    support::{Members, Pause, TestServer, eventually, lines, only, without, write_file},
};

#[tokio::test]
async fn a_miss_is_asked_and_nothing_has_started() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let answer = server.agent().exec(append_line(&file)).await;
    let pending = answer.expect(202);
    let run_id = id(&pending, "runId");
    assert!(
        answer
            .header("location")
            .is_some_and(|at| at.ends_with(&format!("/v1/runs/{run_id}")))
    );
    assert_eq!(
        without(
            &pending,
            &[
                "runId",
                "approvalId",
                "approvalSlug",
                "expiresAtMs",
                "approvalUrl",
                "statusUrl"
            ]
        ),
        json!({
            "status": "approval-pending", "host": "gateway", "command": append_line(&file)["command"],
            "cwd": server.state().join("workspace"), "warnings": [],
        })
    );
    assert_eq!(id(&pending, "approvalSlug"), id(&pending, "approvalId")[..8]);
    let approvals = server.operator().pending().await;
    assert_eq!(approvals.len(), 1);
    assert_has!(approvals[0], {
        "id": pending["approvalId"], "slug": pending["approvalSlug"], "runId": pending["runId"],
        "status": "pending", "command": append_line(&file)["command"], "host": "gateway", "agentId": "main",
        "sessionKey": "agent:main:main", "security": "allowlist", "ask": "on-miss", "askFallback": "deny",
        "expiresAtMs": pending["expiresAtMs"], "decision": null,
    });
    let run = server.agent().run(&run_id).await;
    assert_has!(run, {
        "status": "approval-pending", "approvalId": pending["approvalId"], "pid": null, "startedAtMs": null,
    });
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn allowed_once_runs_once() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let pending = asked(&server, append_line(&file)).await;
    let (approval, run) = (id(&pending, "approvalId"), id(&pending, "runId"));
    let body = json!({ "decision": "allow-once", "reason": "looks fine" });
    let decided = server
        .operator()
        .posted(&format!("/v1/approvals/{approval}/decision"), body)
        .await;
    assert_eq!(decided["applied"], true);
    assert_has!(decided["approval"], {
        "id": approval, "status": "allowed", "decision": "allow-once", "reason": "looks fine",
        "terminalReason": "user",
    });
    let run = server.agent().finished(&run).await;
    assert_has!(run, {
        "status": "completed", "exitCode": 0, "background": true,
        "decision": { "verdict": "run", "by": "person" },
    });
    let approval = server.operator().approval(&approval).await;
    assert!(approval["consumedAtMs"].is_i64(), "{approval}");
    assert_eq!(approval["resolvedBy"]["kind"], "token");
    assert_eq!(lines(&file), ["ran"]);
    assert_eq!(server.operator().pending().await, Vec::<Value>::new());
    asked(&server, append_line(&file)).await;
}

#[tokio::test]
async fn denied_never_runs_and_says_so() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let pending = asked(&server, append_line(&file)).await;
    let decided = server
        .operator()
        .decided(&id(&pending, "approvalId"), "deny")
        .await;
    assert_has!(decided["approval"], { "status": "denied", "decision": "deny" });
    let run = server.agent().run(&id(&pending, "runId")).await;
    assert_eq!(
        only(&run, &["status", "reason", "decision"]),
        json!({
            "status": "denied", "reason": "user-denied", "decision": { "verdict": "deny", "by": "person" },
        }),
        "the run's state is in place before the decision is answered"
    );
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn allowed_always_is_remembered_for_the_same_call_only() {
    let server = TestServer::asking().start().await;
    let body = json!({ "argv": ["/bin/date", "--version"] });
    let pending = asked(&server, body.clone()).await;
    let approval = server.operator().pending().await.remove(0);
    assert_has!(approval, { "allowedDecisions": ["allow-once", "allow-always", "deny"] });
    let proposed = approval.list("proposedPatterns");
    assert_eq!(proposed[0]["default"], true, "{approval}");
    server
        .operator()
        .decided(&id(&pending, "approvalId"), "allow-always")
        .await;
    server.agent().finished(&id(&pending, "runId")).await;

    let entries = || async { server.operator().read("/v1/agents/main/allowlist").await["items"].clone() };
    let entries = eventually("stored", entries, |items| {
        items.as_array().is_some_and(|items| items.len() == 1)
    })
    .await;
    assert_has!(entries[0], { "kind": "entry", "source": "allow-always", "state": "active" });
    assert!(
        id(&entries[0], "argPattern").starts_with("sha256:cwd-argv:v1:"),
        "{entries}"
    );
    let stored = server.document_on_disk();
    assert_has!(stored, { "agents/main/allowlist/0/source": "allow-always" });

    let again = server.ran(body).await;
    assert_eq!(again["status"], "completed");
    asked(&server, json!({ "argv": ["/bin/date"] })).await;
    asked(
        &server,
        json!({ "argv": ["/bin/date", "--version"], "workdir": server.scratch().path() }),
    )
    .await;
    asked(
        &server,
        json!({ "argv": ["/bin/date", "--version"], "agentId": "other" }),
    )
    .await;
}

#[tokio::test]
async fn allow_always_is_not_offered_where_every_run_is_asked() {
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "always" });
    let server = TestServer::asking().exec(&exec).start().await;
    let pending = asked(&server, json!({ "argv": ["/bin/date"] })).await;
    assert_has!(server.operator().pending().await, { "0/allowedDecisions": ["allow-once", "deny"] });
    let approval = id(&pending, "approvalId");
    server
        .operator()
        .decide(&approval, "allow-always")
        .await
        .problem(422, "decision-not-allowed");
    server.operator().decided(&approval, "allow-once").await;
}

#[tokio::test]
async fn answers_follow_what_was_found() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let file = server.scratch().join("lines");
    let pending = async || id(&asked(&server, append_line(&file)).await, "approvalId");

    let allowed = pending().await;
    operator.decided(&allowed, "allow-once").await;
    let repeated = operator.decided(&allowed, "allow-once").await;
    assert_has!(repeated, { "applied": false, "approval/status": "allowed" });
    let conflict = operator
        .decide(&allowed, "deny")
        .await
        .problem(409, "approval-already-resolved");
    assert_eq!(conflict["approval"]["decision"], "allow-once");

    let denied = pending().await;
    operator.decided(&denied, "deny").await;
    assert_eq!(operator.decided(&denied, "deny").await["applied"], false);
    operator
        .decide(&denied, "allow-once")
        .await
        .problem(409, "approval-already-resolved");

    let cancelled = asked(&server, append_line(&file)).await;
    let path = format!("/v1/runs/{}/cancel", id(&cancelled, "runId"));
    assert_has!(server.agent().posted(&path, json!({})).await, { "status": "cancelled" });
    let gone = operator.decide(&id(&cancelled, "approvalId"), "allow-once").await;
    assert_has!(gone.problem(410, "approval-cancelled"), { "approval/status": "cancelled" });
    let run = server.agent().run(&id(&cancelled, "runId")).await;
    assert_has!(run, { "status": "cancelled", "reason": "cancelled" });

    let open = pending().await;
    operator
        .decide(&open, "maybe")
        .await
        .problem(400, "invalid-request");
    operator
        .decide("00000000-0000-4000-8000-000000000000", "deny")
        .await
        .problem(404, "approval-not-found");
    operator
        .decide(&open[..7], "deny")
        .await
        .problem(404, "approval-not-found");
    server
        .agent()
        .decide(&open, "allow-once")
        .await
        .problem(403, "forbidden");
    assert_eq!(operator.pending().await.len(), 1, "none of these answered it");
    operator.decided(&open, "deny").await;
}

#[tokio::test]
async fn a_hundred_decisions_at_once_have_one_winner() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let pending = asked(&server, append_line(&file)).await;
    let approval = id(&pending, "approvalId");
    let decisions: Vec<_> = (0..100)
        .map(|number| {
            let (operator, approval) = (server.operator(), approval.clone());
            let decision = if number % 2 == 0 { "allow-once" } else { "deny" };
            tokio::spawn(async move { (decision, operator.decide(&approval, decision).await) })
        })
        .collect();
    let mut winners = Vec::new();
    let mut answers = Vec::new();
    for decision in decisions {
        let (decision, answer) = decision.await.unwrap();
        if answer.status == 200 && answer.json()["applied"] == true {
            winners.push(decision);
        }
        answers.push((decision, answer));
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    for (decision, answer) in answers {
        if decision == winners[0] {
            answer.expect(200);
        } else {
            answer.problem(409, "approval-already-resolved");
        }
    }
    let run = server.agent().finished(&id(&pending, "runId")).await;
    let ran = usize::from(winners[0] == "allow-once");
    assert_eq!(run["status"], if ran == 1 { "completed" } else { "denied" });
    assert_eq!(lines(&file).len(), ran);
}

#[tokio::test]
async fn a_caller_who_waits_gets_the_result() {
    let server = TestServer::asking().start().await;
    let agent = server.agent();
    let body = json!({ "command": "echo waited for; exit 2", "approvalWaitMs": 600_000, "yieldMs": 120_000 });
    let waiting = tokio::spawn(async move { agent.exec(body).await });
    let pending = eventually(
        "asked",
        || async { server.operator().pending().await },
        |all| all.len() == 1,
    )
    .await;
    server
        .operator()
        .decided(&id(&pending[0], "id"), "allow-once")
        .await;
    let answer = waiting.await.unwrap().expect(200);
    assert_has!(answer, {
        "status": "failed", "exitCode": 2, "stdout": "waited for\n", "approvalId": pending[0]["id"],
    });
}

#[tokio::test]
async fn a_caller_who_waits_hears_of_the_denial() {
    let server = TestServer::asking().start().await;
    let agent = server.agent();
    let body = json!({ "argv": ["/bin/date"], "approvalWaitMs": 600_000 });
    let waiting = tokio::spawn(async move { agent.exec(body).await });
    let pending = eventually(
        "asked",
        || async { server.operator().pending().await },
        |all| all.len() == 1,
    )
    .await;
    server.operator().decided(&id(&pending[0], "id"), "deny").await;
    assert_has!(waiting.await.unwrap().problem(403, "exec-denied"), { "reason": "user-denied" });
}

#[tokio::test]
async fn a_wait_that_ends_first_leaves_the_question_open() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let mut body = append_line(&file);
    body["approvalWaitMs"] = json!(1);
    let pending = asked(&server, body.clone()).await;
    body["approvalWaitMs"] = json!(600_000);
    body["join"] = json!(false);
    let waiting = tokio::spawn({
        let agent = server.agent();
        async move { agent.exec(body).await }
    });
    let all = eventually(
        "asked",
        || async { server.operator().pending().await },
        |all| all.len() == 2,
    )
    .await;
    let operator = server.operator();
    let with_caller = places_taken(&operator).await;
    waiting.abort();
    drop(waiting.await);
    // Until the server hears of it the caller counts as waiting, and what is allowed ends when they turn out to be gone.
    let left = || places_taken(&operator);
    eventually("gone", left, |places| *places < with_caller).await;
    for approval in all {
        operator.decided(&id(&approval, "id"), "allow-once").await;
        let run = server.agent().finished(&id(&approval, "runId")).await;
        assert_has!(run, { "status": "completed", "background": true });
    }
    assert_eq!(lines(&file), ["ran", "ran"]);
    assert!(pending["approvalId"].is_string());
}

/// An approver may be faster than the task that tells the caller's connection of the question. The caller, who counts as
/// waiting, may leave before that, too.
#[tokio::test]
async fn who_answers_at_once_finds_that_the_caller_waits() {
    let pause = Pause::at(hooks::ASK_PAUSES);
    let server = pause.of(TestServer::asking()).start().await;
    for leaves_first in [false, true] {
        pause.begin();
        let body = json!({ "command": "sleep 600", "approvalWaitMs": 600_000, "yieldMs": 120_000 });
        let waiting = tokio::spawn({
            let agent = server.agent();
            async move { agent.exec(body).await }
        });
        pause.reached().await;
        let approval = server.operator().waiting().await[0].clone();
        server.operator().decided(approval.text("id"), "allow-once").await;
        let read = || async { server.agent().run(approval.text("runId")).await };
        let run = eventually("running", read, |run| run["status"] == "running").await;
        assert_eq!(run["background"], false, "its caller waits");
        if leaves_first {
            waiting.abort();
        }
        pause.end();
        waiting.abort();
        let run = server.agent().finished(approval.text("runId")).await;
        assert_has!(run, { "status": "cancelled", "reason": "cancelled" });
    }
}

/// The caller has given up, and the run starts before the call is answered: nobody waits for it any more.
#[tokio::test]
async fn a_run_that_starts_as_its_caller_gives_up_goes_on_alone() {
    let pause = Pause::at(hooks::LEFT_PAUSES);
    let server = pause.of(TestServer::asking()).start().await;
    let gate = server.scratch().join("gate");
    pause.begin();
    let waiting = tokio::spawn({
        let agent = server.agent();
        let command = format!("while [ ! -e {} ]; do sleep 0.1; done", gate.display());
        let body = json!({ "command": command, "approvalWaitMs": 1, "yieldMs": 120_000 });
        async move { agent.exec(body).await }
    });
    pause.reached().await;
    let approval = server.operator().waiting().await[0].clone();
    server.operator().decided(approval.text("id"), "allow-once").await;
    let read = || async { server.agent().run(approval.text("runId")).await };
    eventually("running", read, |run| run["status"] == "running").await;
    pause.end();
    let answer = waiting.await.expect("an answer");
    assert_eq!(answer.expect(202)["status"], "approval-pending");
    eventually("alone", read, |run| {
        run["background"] == true && run["sessionId"].is_string()
    })
    .await;
    write_file(&gate, "");
    let run = server.agent().finished(approval.text("runId")).await;
    assert_eq!(run["status"], "completed");
}

#[tokio::test]
async fn approvals_are_found_by_state_and_by_prefix() {
    let server = TestServer::asking().start().await;
    let first = id(
        &asked(&server, json!({ "argv": ["/bin/date", "1"] })).await,
        "approvalId",
    );
    let second = id(
        &asked(&server, json!({ "argv": ["/bin/date", "2"], "agentId": "b" })).await,
        "approvalId",
    );
    server.operator().decided(&first, "deny").await;
    let found = async |query: &str| -> Vec<String> {
        let list = server.operator().read(&format!("/v1/approvals{query}")).await;
        list.list("items")
            .iter()
            .map(|approval| id(approval, "id"))
            .collect()
    };
    assert_eq!(found("").await, [second.as_str()]);
    assert_eq!(found("?status=denied").await, [first.as_str()]);
    assert_eq!(found("?status=all").await.len(), 2);
    assert_eq!(found("?agentId=b").await, [second.as_str()]);
    assert_eq!(
        found(&format!("?status=all&idPrefix={}", &first[..8])).await,
        [first]
    );
    // A text of the command, of whatever an approver may see; no part of it is a pattern.
    assert_eq!(found("?status=all&q=date%202").await, [second.as_str()]);
    assert_eq!(found("?status=all&q=%25").await, Vec::<String>::new());
    let (_, bound) = server
        .token_with(json!({ "name": "bound", "scopes": ["approve"], "agents": ["a"] }))
        .await;
    let seen = bound.read("/v1/approvals?status=all&q=date%202").await;
    assert_eq!(seen.list("items").len(), 0, "{seen}");
    server
        .operator()
        .get("/v1/approvals?idPrefix=1234567")
        .await
        .problem(400, "invalid-request");
    server
        .operator()
        .get("/v1/approvals?status=open")
        .await
        .problem(400, "invalid-request");
}
