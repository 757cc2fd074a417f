//! An approver changes the command: a new question takes the place of the old one.

use std::path::Path;

use serde_json::{Value, json};

use super::{append_line, asked, id};
use crate::support::{Answer, Members, TestServer, eventually, lines, only, soon, within};

async fn revise(server: &TestServer, approval: &str, body: Value) -> Answer {
    let path = format!("/v1/approvals/{approval}/revision");
    server.operator().post(&path, body).await
}

async fn approval(server: &TestServer, id: &str) -> Value {
    server.operator().approval(id).await
}

fn append(text: &str, file: &Path) -> Value {
    json!({ "command": format!("echo {text} >> {}", file.display()) })
}

#[tokio::test]
async fn a_changed_command_waits_in_the_place_of_the_old_one_and_runs_when_allowed() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let mut call = append_line(&file);
    call["env"] = json!({ "MARK": "kept" });
    call["agentId"] = json!("build");
    call["sessionKey"] = json!("chat:7");
    call["workdir"] = json!(server.scratch().path());
    let pending = asked(&server, call).await;
    let (old, old_run) = (id(&pending, "approvalId"), id(&pending, "runId"));
    let changed = json!({ "command": format!("echo $MARK >> {}", file.display()) });
    let answer = revise(&server, &old, changed.clone()).await;
    let new = answer.expect(201);
    let new_id = id(&new, "id");
    assert!(
        answer
            .header("location")
            .is_some_and(|at| at.ends_with(&format!("/v1/approvals/{new_id}"))),
        "{answer:?}"
    );
    let before = approval(&server, &old).await;
    assert_has!(before, {
        "status": "denied", "decision": "deny", "terminalReason": "user", "revisedBy": new_id,
        "revises": null,
    });
    assert_has!(new, {
        "status": "pending", "revises": old, "revisedBy": null, "command": changed["command"],
        "needsPerson": null,
    });
    let same = [
        "agentId",
        "sessionKey",
        "cwd",
        "host",
        "requestedBy",
        "security",
        "ask",
    ];
    assert_eq!(only(&new, &same), only(&before, &same));
    assert_eq!(new["boundTo"]["envHash"], before["boundTo"]["envHash"]);
    assert!(new["boundTo"]["envHash"].is_string(), "{new}");
    let denied = server.agent().run(&old_run).await;
    assert_has!(denied, {
        "status": "denied", "reason": "user-denied", "decision": { "verdict": "deny", "by": "person" },
    });
    let detail = id(&denied, "detail");
    let new_run = id(&new, "runId");
    assert!(detail.contains(&new_id) && detail.contains(&new_run), "{detail}");
    let waiting = server.agent().run(&new_run).await;
    assert_has!(waiting, {
        "status": "approval-pending", "command": changed["command"], "envNames": ["MARK"],
    });
    assert_eq!(lines(&file), Vec::<String>::new());
    server.operator().decided(&new_id, "allow-once").await;
    assert_eq!(server.agent().finished(&new_run).await["status"], "completed");
    assert_eq!(lines(&file), ["kept"]);
    server
        .operator()
        .decide(&old, "allow-once")
        .await
        .problem(409, "approval-already-resolved");
}

#[tokio::test]
async fn the_record_names_the_approver_as_the_one_who_changed_it() {
    let server = TestServer::asking().start().await;
    let pending = asked(&server, append_line(&server.scratch().join("lines"))).await;
    let new = revise(&server, &id(&pending, "approvalId"), json!({ "argv": ["date"] }))
        .await
        .expect(201);
    let audit = server.operator().read("/v1/audit?limit=500").await;
    let of_new_run: Vec<&Value> = audit
        .list("items")
        .iter()
        .filter(|record| record.to_string().contains(&id(&new, "runId")))
        .collect();
    assert!(of_new_run.len() >= 3, "denied, requested, asked: {of_new_run:#?}");
    let operator = approval(&server, &id(&pending, "approvalId")).await["resolvedBy"]["id"].clone();
    for record in of_new_run {
        assert_eq!(record["actor"]["id"], operator, "{record}");
    }
    assert_eq!(server.operator().read("/v1/audit/verify").await["ok"], true);
}

/// What the allowlist covers, and what a fallback would let through, still waits for the answer.
#[tokio::test]
async fn a_changed_command_never_runs_without_an_answer() {
    let document = json!({ "version": 1, "defaults": { "askFallback": "full" }, "agents": {
        "main": { "allowlist": [{ "pattern": "/usr/bin/touch" }] },
    } });
    let server = TestServer::asking_with("timeout_ms = 4000")
        .document(&document)
        .start()
        .await;
    let mark = server.scratch().join("mark");
    let pending = asked(&server, json!({ "argv": ["/bin/date"] })).await;
    let body = json!({ "argv": ["/usr/bin/touch", mark] });
    let new = revise(&server, &id(&pending, "approvalId"), body)
        .await
        .expect(201);
    assert_has!(new, {
        "status": "pending", "allowedDecisions": ["allow-once", "deny"], "proposedPatterns": [],
    });
    assert_eq!(new["why"]["rule"], "revised");
    let run = server.agent().finished(&id(&new, "runId")).await;
    assert_eq!(run["status"], "denied", "{run}");
    assert!(!mark.exists());
}

#[tokio::test]
async fn what_policy_denies_is_refused_and_the_old_question_stays() {
    let document = json!({ "version": 1, "agents": { "main": {
        "denylist": [{ "pattern": "rm", "reason": "never" }],
    } } });
    let server = TestServer::asking().document(&document).start().await;
    let file = server.scratch().join("lines");
    let pending = asked(&server, append_line(&file)).await;
    let old = id(&pending, "approvalId");
    // Text that is not understood meets the deny rules through the words that it has.
    let denied = revise(&server, &old, json!({ "command": "true && rm -rf /tmp/nothing" })).await;
    assert_eq!(denied.problem(403, "exec-denied")["reason"], "denylist");
    for (body, code) in [
        (json!({}), "invalid-request"),
        (json!({ "command": "a", "argv": ["a"] }), "invalid-request"),
        (json!({ "command": " " }), "blank-command"),
        (json!({ "command": "a\0" }), "invalid-request"),
        (json!({ "command": "/approve x allow-once" }), "invalid-request"),
        (json!({ "command": "a", "agentId": "other" }), "invalid-request"),
    ] {
        revise(&server, &old, body).await.problem(400, code);
    }
    assert_eq!(approval(&server, &old).await["status"], "pending");
    assert_eq!(server.operator().pending().await.len(), 1);
    server.operator().decided(&old, "allow-once").await;
    soon("run", || lines(&file), |lines| lines == &["ran"]).await;
}

#[tokio::test]
async fn a_waiting_caller_hears_what_took_the_place_of_its_command() {
    let server = TestServer::asking().start().await;
    for key in [None, Some("k1")] {
        let (agent, operator) = (server.agent(), server.operator());
        let body = json!({ "argv": ["/bin/date"], "approvalWaitMs": 600_000 });
        let call = tokio::spawn(async move {
            match key {
                None => agent.exec(body).await,
                Some(key) => agent.exec_with_key(key, body).await,
            }
        });
        let pending = eventually("asked", || operator.pending(), |found| found.len() == 1).await;
        let new = revise(
            &server,
            &id(&pending[0], "id"),
            json!({ "argv": ["/bin/date", "-u"] }),
        )
        .await
        .expect(201);
        let answer = within("the answer", call).await.unwrap();
        let problem = answer.problem(403, "exec-denied");
        assert_eq!(problem["reason"], "user-denied");
        assert!(id(&problem, "detail").contains(&id(&new, "id")), "{problem}");
        server.operator().decided(&id(&new, "id"), "deny").await;
    }
}

#[tokio::test]
async fn only_a_pending_question_can_be_changed_and_only_by_an_approver() {
    let server = TestServer::asking().start().await;
    let date = json!({ "argv": ["date"] });
    revise(&server, "00000000-0000-4000-8000-000000000000", date.clone())
        .await
        .problem(404, "approval-not-found");
    let file = server.scratch().join("lines");
    let decided = asked(&server, append_line(&file)).await;
    server
        .operator()
        .decided(&id(&decided, "approvalId"), "deny")
        .await;
    revise(&server, &id(&decided, "approvalId"), date.clone())
        .await
        .problem(409, "approval-already-resolved");
    let withdrawn = asked(&server, append_line(&file)).await;
    server.agent().cancel(&id(&withdrawn, "runId")).await;
    revise(&server, &id(&withdrawn, "approvalId"), date.clone())
        .await
        .problem(410, "approval-cancelled");
    let open = asked(&server, append_line(&file)).await;
    let path = format!("/v1/approvals/{}/revision", id(&open, "approvalId"));
    server
        .agent()
        .post(&path, date.clone())
        .await
        .problem(403, "forbidden");
    let (_, admin) = server
        .token_with(json!({ "name": "a", "scopes": ["admin", "read"] }))
        .await;
    admin.post(&path, date.clone()).await.problem(403, "forbidden");
    server
        .anonymous()
        .post(&path, date)
        .await
        .problem(401, "unauthorized");
}

/// Of a decision, a withdrawal and two changes at once, one counts.
#[tokio::test]
async fn one_of_those_who_race_wins() {
    let server = TestServer::asking().start().await;
    for _ in 0..15 {
        let file = server.scratch().join("race");
        let pending = asked(&server, append("old", &file)).await;
        let (old, run) = (id(&pending, "approvalId"), id(&pending, "runId"));
        let (operator, agent) = (server.operator(), server.agent());
        let cancel = format!("/v1/runs/{run}/cancel");
        let (allowed, cancelled, first, second) = tokio::join!(
            operator.decide(&old, "allow-once"),
            agent.post(&cancel, json!({})),
            revise(&server, &old, json!({ "argv": ["/bin/date", "1"] })),
            revise(&server, &old, json!({ "argv": ["/bin/date", "2"] })),
        );
        let record = approval(&server, &old).await;
        let revisions = [&first, &second]
            .into_iter()
            .filter(|answer| answer.status == 201)
            .count();
        match record["status"].as_str() {
            Some("allowed") => assert_eq!((allowed.status, revisions), (200, 0), "{record}"),
            Some("cancelled") => assert_eq!((cancelled.status, revisions), (200, 0), "{record}"),
            Some("denied") => {
                assert_eq!((allowed.status, revisions), (409, 1), "{record}");
                let new = server.operator().pending().await;
                assert_eq!(new.len(), 1);
                assert_eq!(new[0]["id"], record["revisedBy"]);
                server.operator().decided(&id(&new[0], "id"), "deny").await;
            }
            other => panic!("{other:?}"),
        }
        server.agent().finished(&run).await;
    }
}

#[tokio::test]
async fn a_changed_command_survives_a_crash() {
    let mut server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let pending = asked(&server, append_line(&file)).await;
    let new = revise(&server, &id(&pending, "approvalId"), append("new", &file))
        .await
        .expect(201);
    server.crash_and_restart().await;
    let found = server.operator().pending().await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["revises"], pending["approvalId"]);
    server.operator().decided(&id(&new, "id"), "allow-once").await;
    server.agent().finished(&id(&new, "runId")).await;
    assert_eq!(lines(&file), ["new"]);
}
