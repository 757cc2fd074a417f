//! `allow-always` stores what was shown, and that covers the same command and nothing else.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{Members, TestServer, assert_says, eventually, only, write_file_mode};

async fn asked(server: &TestServer, body: Value) -> Value {
    let pending = server.asked(body).await;
    server
        .operator()
        .read(&format!("/v1/approvals/{}", pending.text("approvalId")))
        .await
}

/// Allows an approval for good and waits until its entries are stored.
async fn remembered(server: &TestServer, approval: &Value, count: usize) -> Vec<Value> {
    let operator = server.operator();
    operator.decided(approval.text("id"), "allow-always").await;
    server.agent().finished(approval.text("runId")).await;
    let stored = || async { operator.read("/v1/agents/main/allowlist").await["items"].clone() };
    let items = eventually("stored", stored, |items| {
        items.as_array().map(Vec::len) == Some(count)
    })
    .await;
    items.as_array().unwrap().clone()
}

#[tokio::test]
async fn what_cannot_be_stored_counts_once_and_is_told() {
    let server = TestServer::asking().start().await;
    let approval = asked(&server, json!({ "argv": ["/usr/bin/id", "-u"] })).await;
    // Larger than any process id the system gives.
    let holder = json!({ "pid": 0x7fff_fff0, "createdAt": "2026-01-01T00:00:00.000Z", "nonce": "n" });
    let lock = server.state().join("exec-approvals.json.lock");
    write_file_mode(&lock, format!("{holder}\n"), 0o600);
    let operator = server.operator();
    let (id, run_id) = (approval.text("id"), approval.text("runId"));
    operator.decided(id, "allow-always").await;
    let run = server.agent().finished(run_id).await;
    assert_eq!(run["status"], "completed");
    let audit = operator.read("/v1/audit?action=allowlist.changed").await;
    assert_has!(audit["items"][0], {
        "outcome": "failed",
        "target": { "kind": "approval", "id": id },
        "detail": { "runId": run_id, "agentId": "main", "warning": "not-remembered" },
    });
    assert_eq!(operator.read("/v1/audit/verify").await["ok"], true);
    assert_eq!(super::findings(&server, "document-lock-stale").await.len(), 1);
    std::fs::remove_file(lock).unwrap();
    assert_has!(operator.read("/v1/agents/main/allowlist").await, { "items": [] });
}

#[tokio::test]
async fn what_is_stored_is_what_was_shown_for_the_parts_that_a_person_covered() {
    let server = TestServer::asking()
        .allowlist(&json!([{ "pattern": "/usr/bin/echo" }]))
        .start()
        .await;
    let command = "echo x | timeout 5 sort -r && sh -c 'seq 1 2'";
    let explained = server.agent().explain(json!({ "command": command })).await;
    let approval = asked(&server, json!({ "command": command })).await;
    assert_eq!(explained["wouldPersist"], approval["proposedPatterns"]);
    let shown: Vec<Value> = approval
        .list("proposedPatterns")
        .iter()
        .filter(|pattern| pattern["default"] == true)
        .map(|pattern| json!([pattern["segment"], pattern["pattern"], pattern["width"]]))
        .collect();
    assert_eq!(
        shown,
        [
            json!([1, "/usr/bin/sort", "exact"]),
            json!([2, "/usr/bin/seq", "exact"])
        ]
    );
    let items = remembered(&server, &approval, 3).await;
    let stored: Vec<Value> = items
        .iter()
        .skip(1)
        .map(|item| only(item, &["pattern", "argPattern", "source", "state"]))
        .collect();
    let of = |at: usize| {
        let pattern = &approval
            .list("proposedPatterns")
            .iter()
            .filter(|pattern| pattern["default"] == true)
            .nth(at)
            .unwrap()
            .clone();
        json!({ "pattern": pattern["pattern"], "argPattern": pattern["argPattern"], "source": "allow-always",
            "state": "active" })
    };
    assert_eq!(stored, [of(0), of(1)]);
    let again = server.ran(json!({ "command": command })).await;
    assert_eq!(again["status"], "completed", "{again}");
    for other in [
        "echo x | timeout 5 sort -r && sh -c 'seq 1 3'",
        "echo x | timeout 5 sort -n && sh -c 'seq 1 2'",
        "cd / && seq 1 2",
        "seq 1 2 3",
    ] {
        asked(&server, json!({ "command": other })).await;
    }
}

#[tokio::test]
async fn where_nothing_can_be_remembered_the_answer_is_refused_with_the_reason() {
    let server = TestServer::asking().start().await;
    for command in [
        "echo $HOME",
        "/usr/bin/sudo true x",
        "sh script.sh",
        "FOO=1 date",
        "python3 x.py",
        "./no-such-program",
    ] {
        let approval = asked(&server, json!({ "command": command })).await;
        assert_eq!(
            only(&approval, &["allowedDecisions", "proposedPatterns"]),
            json!({ "allowedDecisions": ["allow-once", "deny"], "proposedPatterns": [] }),
            "{command}"
        );
        let id = approval.text("id");
        let refused = server.operator().decide(id, "allow-always").await;
        let problem = refused.problem(422, "decision-not-allowed");
        let detail = problem.text("detail");
        assert_says(detail, "no entry could match exactly this command");
        server.operator().decided(id, "deny").await;
    }
    assert!(!server.document_path().exists(), "nothing was stored");
}

#[tokio::test]
async fn an_exact_text_is_offered_only_when_enabled_and_stored_with_its_whole_digest() {
    let server = TestServer::asking()
        .toml("[policy]\nexact_text_grants = true\n")
        .start()
        .await;
    let command = "echo $HOME";
    let approval = asked(&server, json!({ "command": command })).await;
    assert_eq!(approval["proposedPatterns"][0]["width"], "exact");
    remembered(&server, &approval, 1).await;
    let entry = server.document_on_disk()["agents"]["main"]["allowlist"][0].clone();
    assert!(entry.text("pattern").starts_with("=command:"), "{entry}");
    let digest = entry.text("commandSha256");
    assert_eq!(digest.len(), 64, "{entry}");
    assert!(entry.text("pattern").ends_with(&digest[..16]));
    let again = server.ran(json!({ "command": command })).await;
    assert_eq!(again["status"], "completed");
    asked(&server, json!({ "command": "echo $HOME x" })).await;
    // A marker of the same first digits and another digest is another command.
    let other = digest.replace(|digit: char| digit.is_ascii_digit(), "0");
    let text = server.document_on_disk().to_string().replace(digest, &other);
    server.edit_document(&text);
    asked(&server, json!({ "command": command })).await;
}

#[tokio::test]
async fn another_name_of_a_remembered_file_and_another_file_behind_its_link_are_asked_about() {
    let server = TestServer::asking().start().await;
    let directory = server.scratch().dir("bin");
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    for name in ["systemctl", "v1", "v2"] {
        write_file_mode(&directory.join(name), "#!/bin/sh\nexit 0\n", 0o755);
    }
    symlink(path("systemctl"), path("poweroff")).unwrap();
    symlink(path("v1"), path("tool")).unwrap();
    let approval = asked(&server, json!({ "argv": [path("systemctl")] })).await;
    remembered(&server, &approval, 1).await;
    server.ran(json!({ "argv": [path("systemctl")] })).await;
    let other = asked(&server, json!({ "argv": [path("poweroff")] })).await;
    assert_eq!(other["proposedPatterns"], json!([]));

    let approval = asked(&server, json!({ "argv": [path("tool")] })).await;
    assert_eq!(approval["proposedPatterns"][0]["pattern"], path("v1"));
    remembered(&server, &approval, 2).await;
    server.ran(json!({ "argv": [path("tool")] })).await;
    std::fs::remove_file(path("tool")).unwrap();
    symlink(path("v2"), path("tool")).unwrap();
    asked(&server, json!({ "argv": [path("tool")] })).await;
}
