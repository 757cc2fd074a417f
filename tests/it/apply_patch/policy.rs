use std::fs;

use serde_json::{Value, json};

use super::{envelope, input, read, send, send_with_key, workspace};
use crate::support::{Members, Scratch, TestServer, assert_says, eventually, write_file};

const ADD: &str = "*** Add File: new\n+x\n";

fn config(exec: &Value, more: &Value) -> Value {
    let mut exec = exec.clone();
    let mut config = json!({ "tools": {} });
    let members = more.as_object().expect("an object");
    for (name, value) in members {
        match name.strip_prefix("exec.") {
            Some(name) => exec[name] = value.clone(),
            None => config["tools"][name] = value.clone(),
        }
    }
    config["tools"]["exec"] = exec;
    config
}

fn full(more: &Value) -> Value {
    config(
        &json!({ "host": "gateway", "security": "full", "ask": "off" }),
        more,
    )
}

#[tokio::test]
async fn what_was_changed_is_told_and_recorded() {
    let server = TestServer::full().start().await;
    write_file(&workspace(&server).join("a"), "1\n");
    write_file(&workspace(&server).join("b"), "2\n");
    let body =
        input("*** Add File: d/new\n+x\n*** Update File: a\n-1\n+one\n*** Update File: b\n*** Move to: c\n");
    let applied = send(&server.agent(), body.clone()).await.expect(200);
    assert_has!(applied, {
        "host": "gateway", "summary": "1 added, 1 updated, 1 moved", "approvalId": null,
        "changed": [
            { "path": "d/new", "kind": "added" },
            { "path": "a", "kind": "updated" },
            { "path": "c", "kind": "moved", "from": "b" },
        ],
    });
    let run = server.agent().run(applied.text("runId")).await;
    assert_has!(run, {
        "status": "completed", "tool": "apply_patch", "command": body["input"], "argv": null, "exitCode": 0,
        "security": "full", "binding": "exact",
    });
    let listed = server.agent().read("/v1/runs").await;
    assert_has!(listed["items"][0], {
        "tool": "apply_patch", "command": "apply_patch: add d/new, update a, update b",
    });
    // The same again does not fit any more, and says where.
    let problem = send(&server.agent(), body).await.problem(409, "patch-failed");
    assert_eq!(problem["path"], "d/new");
    let run = server.agent().run(problem.text("runId")).await;
    assert_has!(run, { "status": "failed", "exitCode": 1 });
}

#[tokio::test]
async fn the_same_key_changes_once_and_survives_the_server() {
    let mut server = TestServer::full().start().await;
    let first = send_with_key(&server.agent(), "k", input(ADD)).await;
    let second = send_with_key(&server.agent(), "k", input(ADD)).await;
    assert_eq!(first.expect(200), second.expect(200));
    server.crash_and_restart().await;
    let third = send_with_key(&server.agent(), "k", input(ADD)).await;
    assert_eq!(third.expect(200), first.json());
    send_with_key(&server.agent(), "k", input("*** Add File: other\n+x\n"))
        .await
        .problem(422, "idempotency-mismatch");
    send_with_key(&server.agent(), "l", input(ADD))
        .await
        .problem(409, "patch-failed");
}

#[tokio::test]
async fn a_person_sees_the_patch_and_allows_it_once_or_not() {
    let server = TestServer::asking().start().await;
    let body = input(ADD);
    let pending = send_with_key(&server.agent(), "k", body.clone())
        .await
        .expect(202);
    assert_has!(pending, { "status": "approval-pending", "command": "apply_patch: add new" });
    let id = pending.text("approvalId");
    let card = server.operator().approval(id).await;
    assert_has!(card, {
        "command": body["input"], "allowedDecisions": ["allow-once", "deny"], "proposedPatterns": [],
        "binding": "exact", "segments": [],
    });
    assert_eq!(card["boundTo"]["command"], body["input"]);
    assert_eq!(card["why"]["detail"], "no allowlist covers a patch");
    let shown = card["display"].text("text");
    assert_says(shown, "*** Add File: new");
    assert_says(shown, "+x");
    server
        .operator()
        .decide(id, "allow-always")
        .await
        .problem(422, "decision-not-allowed");
    // Nobody makes another of it.
    let changed = json!({ "command": "true" });
    let path = format!("/v1/approvals/{id}/revision");
    let refused = server.operator().post(&path, changed).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(!workspace(&server).join("new").exists());
    server.operator().decided(id, "allow-once").await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "completed", "{run}");
    let applied = send_with_key(&server.agent(), "k", body).await.expect(200);
    assert_has!(applied, { "approvalId": id });
    assert_eq!(read(&server, "new"), "x\n");

    let pending = send(&server.agent(), input("*** Delete File: new\n"))
        .await
        .expect(202);
    let id = pending.text("approvalId");
    server.operator().decided(id, "deny").await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["reason"], "user-denied", "{run}");
    assert_eq!(read(&server, "new"), "x\n");
}

#[tokio::test]
async fn an_answer_holds_for_this_patch_in_this_place_alone() {
    let server = TestServer::asking().start().await;
    let agent = server.agent();
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" });
    let changes: [(&str, Value, &str); 3] = [
        (
            "a wider reach",
            json!({ "exec.applyPatch": { "workspaceOnly": false } }),
            "binding-mismatch",
        ),
        ("no tool", json!({ "deny": ["apply_patch"] }), "tool-denied"),
        // Last: it is found out when it is about to start, and after a start an edit has to be accepted first.
        ("another place", json!({}), "binding-mismatch"),
    ];
    for (name, more, reason) in changes {
        server.edit_config(&config(&exec, &json!({})).to_string());
        let pending = send(&agent, input(ADD)).await.expect(202);
        if more == json!({}) {
            let place = workspace(&server);
            fs::rename(&place, server.state().join("moved")).unwrap();
            fs::create_dir(&place).unwrap();
        }
        server.edit_config(&config(&exec, &more).to_string());
        let run = server.answered_beside_an_edit(&pending, "allow-once").await;
        assert_has!(run, { "status": "denied", "reason": reason }, "{name}");
        assert!(!workspace(&server).join("new").exists(), "{name}");
    }
}

#[tokio::test]
async fn security_and_ask_decide_as_for_commands() {
    let of = |security: &str, ask: &str| {
        config(
            &json!({ "host": "gateway", "security": security, "ask": ask }),
            &json!({}),
        )
    };
    for (security, ask, status, reason) in [
        ("deny", "on-miss", 403, Some("security-deny")),
        ("allowlist", "off", 403, Some("allowlist-miss")),
        ("allowlist", "on-miss", 202, None),
        ("full", "always", 202, None),
        ("full", "off", 200, None),
    ] {
        // One each: a change of the policy would judge the questions of the rows before again.
        let server = TestServer::asking().config(&of(security, ask)).start().await;
        let answer = send(&server.agent(), input(ADD)).await;
        assert_eq!(answer.status, status, "{security} {ask}: {}", answer.text());
        if let Some(reason) = reason {
            let problem = answer.problem(403, "exec-denied");
            assert_eq!(problem["reason"], reason);
            assert!(problem["hint"].is_string(), "{problem}");
        }
        assert_eq!(
            workspace(&server).join("new").exists(),
            status == 200,
            "{security} {ask}"
        );
    }
}

#[tokio::test]
async fn tool_policy_and_the_model_are_looked_at_before_anything() {
    let rows = [
        (json!({ "deny": ["apply_patch"] }), None, Some("tool-denied")),
        (json!({ "deny": ["group:fs"] }), None, Some("tool-denied")),
        (json!({ "allow": ["exec"] }), None, Some("tool-denied")),
        (
            json!({ "exec": { "applyPatch": { "enabled": false } } }),
            None,
            Some("tool-denied"),
        ),
        (
            json!({ "exec": { "applyPatch": { "allowModels": ["m"] } } }),
            None,
            Some("patch-not-allowed"),
        ),
        (
            json!({ "exec": { "applyPatch": { "allowModels": ["m"] } } }),
            Some("n"),
            Some("patch-not-allowed"),
        ),
        (
            json!({ "exec": { "applyPatch": { "allowModels": ["m"] } } }),
            Some("p/M"),
            None,
        ),
        (json!({ "allow": ["write"] }), None, None),
        (json!({ "deny": ["exec"] }), None, None),
    ];
    let place = Scratch::new();
    let agents: Vec<Value> = rows
        .iter()
        .enumerate()
        .map(|(number, (tools, _, _))| {
            let id = format!("agent-{number}");
            json!({ "id": id, "workspace": place.dir(&id), "tools": tools })
        })
        .collect();
    let mut config = full(&json!({}));
    config["agents"] = json!({ "list": agents });
    let server = TestServer::full().config(&config).start().await;
    for (number, (tools, model, code)) in rows.iter().enumerate() {
        let id = format!("agent-{number}");
        let mut body = input(ADD);
        body["agentId"] = json!(id);
        if let Some(model) = model {
            body["model"] = json!(model);
        }
        let answer = send(&server.agent(), body).await;
        match code {
            Some(code) => {
                let problem = answer.problem(403, code);
                assert!(problem["hint"].is_string(), "{problem}");
            }
            None => drop(answer.expect(200)),
        }
        assert_eq!(place.join(&id).join("new").exists(), code.is_none(), "{tools}");
    }
    let refused = server
        .agent()
        .exec(json!({ "argv": ["true"], "agentId": "agent-8" }))
        .await;
    assert_eq!(refused.problem(403, "exec-denied")["reason"], "tool-denied");
}

#[tokio::test]
async fn a_directory_is_one_of_the_workspace_unless_patches_may_leave_it() {
    let mut config = full(&json!({}));
    let free = json!({ "exec": { "applyPatch": { "workspaceOnly": false } } });
    config["agents"] = json!({ "list": [{ "id": "free", "tools": free }] });
    let server = TestServer::full().config(&config).start().await;
    let agent = server.agent();
    let elsewhere = server.scratch().dir("elsewhere");
    fs::create_dir(workspace(&server).join("sub")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, workspace(&server).join("way")).unwrap();
    let within = |directory: &str| {
        let mut body = input(ADD);
        body["workdir"] = json!(workspace(&server).join(directory));
        body
    };
    send(&agent, within("sub")).await.expect(200);
    assert_eq!(read(&server, "sub/new"), "x\n");
    let mut outside = input(ADD);
    outside["workdir"] = json!(elsewhere);
    for body in [&outside, &within("way")] {
        let problem = send(&agent, body.clone())
            .await
            .problem(400, "workdir-unavailable");
        assert!(problem.text("detail").contains("workspaceOnly"), "{problem}");
    }
    // A path that spells out the workspace is one inside of it.
    let absolute = workspace(&server).canonicalize().unwrap().join("absolute");
    send(
        &agent,
        input(&format!("*** Add File: {}\n+x\n", absolute.display())),
    )
    .await
    .expect(200);
    assert_eq!(read(&server, "absolute"), "x\n");

    let free = |mut body: Value| {
        body["agentId"] = json!("free");
        body
    };
    send(&agent, free(outside)).await.expect(200);
    assert_eq!(fs::read_to_string(elsewhere.join("new")).unwrap(), "x\n");
    let absolute = elsewhere.join("absolute");
    send(
        &agent,
        free(input(&format!("*** Add File: {}\n+x\n", absolute.display()))),
    )
    .await
    .expect(200);
    assert_eq!(fs::read_to_string(absolute).unwrap(), "x\n");
    // The server's own files are out of reach all the same.
    for name in [
        "countersign/gateway.token",
        "exec-approvals.json",
        "countersign/new",
        "new",
    ] {
        let path = server.state().canonicalize().unwrap().join(name);
        let existed = fs::read(&path).ok();
        let operation = if existed.is_some() {
            format!("*** Delete File: {}\n", path.display())
        } else {
            format!("*** Add File: {}\n+x\n", path.display())
        };
        send(&agent, free(input(&operation)))
            .await
            .problem(409, "patch-failed");
        assert_eq!(fs::read(&path).ok(), existed, "{name}");
    }
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_member_by_member() {
    let server = TestServer::full().start().await;
    for (body, path) in [
        (json!({}), None),
        (json!({ "input": " " }), Some("input")),
        (json!({ "input": "x".repeat(1_048_577) }), Some("input")),
        (
            json!({ "input": envelope(ADD), "workdir": "relative" }),
            Some("workdir"),
        ),
        (
            json!({ "input": envelope(ADD), "host": "example.com" }),
            Some("host"),
        ),
        (json!({ "input": envelope(ADD), "model": "a\nb" }), Some("model")),
        (
            json!({ "input": envelope(ADD), "approvalWaitMs": 600_001 }),
            Some("approvalWaitMs"),
        ),
        (json!({ "input": envelope(ADD), "typo": 1 }), None),
        (json!({ "input": 7 }), None),
    ] {
        let problem = send(&server.agent(), body).await.problem(400, "invalid-request");
        if let Some(path) = path {
            assert_eq!(problem["fields"][0]["path"], path, "{problem}");
        }
    }
    assert!(!workspace(&server).join("new").exists());
}

#[tokio::test]
async fn a_token_of_another_agent_changes_nothing() {
    let server = TestServer::full().start().await;
    let request = json!({ "name": "bound", "scopes": ["exec"], "agents": ["a"] });
    let (_, bound) = server.token_with(request).await;
    send(&bound, input(ADD)).await.problem(403, "forbidden");
    assert!(!workspace(&server).join("new").exists());
}

#[tokio::test]
async fn events_name_the_files_and_not_the_text() {
    let server = TestServer::asking().start().await;
    let mut events = server.operator().events("", None).await;
    let pending = send(&server.agent(), input("*** Add File: new\n+a long secret\n"))
        .await
        .expect(202);
    let event = events.next_of("exec.approval.requested").await;
    let text = event.data.to_string();
    assert!(
        text.contains("apply_patch: add new") && !text.contains("secret"),
        "{text}"
    );
    let id = pending.text("approvalId");
    server.operator().decided(id, "deny").await;
    let operator = server.operator();
    eventually("nobody is asked", || operator.pending(), Vec::is_empty).await;
}
