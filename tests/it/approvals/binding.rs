//! What was approved is what runs, or nothing runs.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{asked, id};
use crate::support::{TestServer, lines, write_file, write_file_mode};

async fn allow_then_expect_mismatch(server: &TestServer, pending: &Value, marks: &Path) {
    let run = server.answered(pending, "allow-once").await;
    assert_has!(run, { "status": "denied", "reason": "binding-mismatch" });
    assert_eq!(lines(marks), Vec::<String>::new(), "nothing ran");
}

#[tokio::test]
async fn the_hash_of_the_environment_is_shown_also_without_any() {
    const OF_NOTHING: &str = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
    let server = TestServer::asking().start().await;
    let hash_of = async |env: Value| {
        let pending = asked(&server, json!({ "argv": ["/bin/date"], "env": env })).await;
        let path = format!("/v1/approvals/{}", id(&pending, "approvalId"));
        let approval = server.operator().read(&path).await;
        id(&approval["boundTo"], "envHash")
    };
    assert_eq!(hash_of(Value::Null).await, OF_NOTHING);
    assert_eq!(hash_of(json!({})).await, OF_NOTHING);
    let some = hash_of(json!({ "TZ": "UTC" })).await;
    assert!(some.len() == 64 && some != OF_NOTHING, "{some}");
}

#[tokio::test]
async fn a_replaced_program_does_not_run() {
    let server = TestServer::asking().start().await;
    let marks = server.scratch().join("marks");
    let tool = server.scratch().join("tool");
    let script = |word: &str| format!("#!/bin/sh\necho {word} >> {}\n", marks.display());
    write_file_mode(&tool, script("first"), 0o755);
    let pending = asked(&server, json!({ "argv": [tool] })).await;
    let other = server.scratch().join("other");
    write_file_mode(&other, script("second"), 0o755);
    fs::rename(&other, &tool).unwrap();
    allow_then_expect_mismatch(&server, &pending, &marks).await;
}

#[tokio::test]
async fn a_program_edited_in_place_does_not_run() {
    let server = TestServer::asking().start().await;
    let marks = server.scratch().join("marks");
    let tool = server.scratch().join("tool");
    write_file_mode(
        &tool,
        format!("#!/bin/sh\necho first >> {}\n", marks.display()),
        0o755,
    );
    let pending = asked(&server, json!({ "argv": [tool] })).await;
    write_file_mode(
        &tool,
        format!("#!/bin/sh\necho wrong >> {}\n", marks.display()),
        0o755,
    );
    allow_then_expect_mismatch(&server, &pending, &marks).await;
}

#[tokio::test]
async fn an_edited_script_operand_does_not_run() {
    let server = TestServer::asking().start().await;
    let marks = server.scratch().join("marks");
    let script = server.scratch().join("script.sh");
    write_file(&script, format!("echo first >> {}\n", marks.display()));
    let pending = asked(&server, json!({ "argv": ["/bin/sh", script] })).await;
    write_file(&script, format!("echo wrong >> {}\n", marks.display()));
    allow_then_expect_mismatch(&server, &pending, &marks).await;
}

#[tokio::test]
async fn another_directory_of_the_same_name_is_not_the_same() {
    let server = TestServer::asking().start().await;
    let marks = server.scratch().join("marks");
    let directory = server.scratch().dir("work");
    let command = format!("echo ran >> {}", marks.display());
    let pending = asked(&server, json!({ "command": command, "workdir": directory })).await;
    fs::rename(&directory, server.scratch().join("moved")).unwrap();
    server.scratch().dir("work");
    allow_then_expect_mismatch(&server, &pending, &marks).await;
}

#[tokio::test]
async fn unchanged_it_runs_with_the_environment_that_was_asked_for() {
    let server = TestServer::asking().start().await;
    let marks = server.scratch().join("marks");
    let tool = server.scratch().join("tool");
    write_file_mode(
        &tool,
        format!("#!/bin/sh\necho \"$GREETING $1\" >> {}\n", marks.display()),
        0o755,
    );
    let body = json!({ "argv": [tool, "a b"], "env": { "GREETING": "hallo" } });
    let pending = asked(&server, body).await;
    assert_has!(server.answered(&pending, "allow-once").await, { "status": "completed" });
    assert_eq!(lines(&marks), ["hallo a b"]);
}

#[tokio::test]
async fn the_environment_is_shown_before_an_answer() {
    let server = TestServer::asking().start().await;
    let env =
        json!({ "COMPILER_LABEL": "/x", "LANG": "C", "NOTE": "a b\u{202e}", "SERVICE_TOKEN": "k3y-k3y-k3y" });
    let pending = asked(&server, json!({ "command": "gcc -c hello.c", "env": env })).await;
    let path = format!("/v1/approvals/{}", id(&pending, "approvalId"));
    let names = json!(["COMPILER_LABEL", "LANG", "NOTE", "SERVICE_TOKEN"]);
    let values = json!({
        "COMPILER_LABEL": "/x", "NOTE": "a b\\u{202E}", "SERVICE_TOKEN": "⟨secret of 11 characters⟩",
    });
    let shown = server.operator().read(&path).await;
    assert_has!(shown, { "envNames": names, "envValues": values });
    let listed = server.operator().read("/v1/approvals").await;
    assert_eq!(listed["items"][0]["envValues"], values);
    let terminal = server
        .cli(&["approvals", "show", &id(&pending, "approvalId")])
        .await;
    assert!(terminal.stdout.contains("COMPILER_LABEL=/x"), "{terminal:?}");
    // Those who only read see the names.
    let (_id, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read"] }))
        .await;
    for path in [&path, "/v1/approvals"] {
        let seen = reader.get(path).await;
        let (text, body) = (seen.text().clone(), seen.expect(200));
        assert!(
            text.contains("COMPILER_LABEL") && !text.contains("envValues"),
            "{body}"
        );
    }
    // The record keeps what was named, and no value.
    server.answered(&pending, "deny").await;
    let kept = server.operator().read(&path).await;
    assert_has!(kept, { "envNames": names, "envValues": null });
}

#[tokio::test]
async fn an_environment_that_cannot_be_named_whole_cannot_be_allowed() {
    let server = TestServer::asking().start().await;
    let env: serde_json::Map<String, Value> =
        (0..130).map(|index| (format!("V{index}"), json!("x"))).collect();
    let pending = asked(&server, json!({ "argv": ["/bin/date"], "env": env })).await;
    let path = format!("/v1/approvals/{}", id(&pending, "approvalId"));
    let approval = server.operator().read(&path).await;
    assert_eq!(approval["envOmitted"], 2);
    assert_eq!(approval["allowedDecisions"], json!(["deny"]));
    server
        .operator()
        .decide(&id(&pending, "approvalId"), "allow-once")
        .await
        .problem(422, "decision-not-allowed");
}

#[tokio::test]
async fn a_policy_that_became_stricter_denies_what_was_approved() {
    let server = TestServer::asking().start().await;
    let marks = server.scratch().join("marks");
    let pending = asked(
        &server,
        json!({ "command": format!("echo ran >> {}", marks.display()) }),
    )
    .await;
    server.edit_config(r#"{ tools: { exec: { host: "gateway", security: "deny" } } }"#);
    let run = server.answered_beside_an_edit(&pending, "allow-once").await;
    assert_eq!(run["status"], "denied", "{run}");
    assert_eq!(lines(&marks), Vec::<String>::new(), "nothing ran");
}

#[tokio::test]
async fn a_program_that_was_not_there_does_not_run_once_it_is() {
    let server = TestServer::asking().start().await;
    let marks = server.scratch().join("marks");
    let tool = server.scratch().join("late");
    let pending = asked(&server, json!({ "argv": [tool] })).await;
    write_file_mode(
        &tool,
        format!("#!/bin/sh\necho wrong >> {}\n", marks.display()),
        0o755,
    );
    allow_then_expect_mismatch(&server, &pending, &marks).await;
}

#[tokio::test]
async fn a_program_that_now_comes_first_in_the_path_does_not_run() {
    let scratch = crate::support::Scratch::new();
    let (first, second) = (scratch.dir("first"), scratch.dir("second"));
    let marks = scratch.join("marks");
    let script = |word: &str| format!("#!/bin/sh\necho {word} >> {}\n", marks.display());
    write_file_mode(&second.join("bound-tool"), script("right"), 0o755);
    let exec =
        json!({ "host": "gateway", "security": "full", "ask": "always", "pathPrepend": [first, second] });
    let server = TestServer::asking().exec(&exec).start().await;
    let pending = asked(&server, json!({ "command": "bound-tool" })).await;
    write_file_mode(&first.join("bound-tool"), script("wrong"), 0o755);
    allow_then_expect_mismatch(&server, &pending, &marks).await;
}

#[tokio::test]
async fn every_script_of_a_command_is_bound() {
    let server = TestServer::asking().start().await;
    let marks = server.scratch().join("marks");
    let script = |word: &str| format!("echo {word} >> {}\n", marks.display());
    let directory = server.scratch().dir("work");
    fs::create_dir(directory.join("sub")).unwrap();
    let last = directory.join("sub/last.sh");
    for command in [
        "/bin/sh first.sh && /bin/sh sub/last.sh",
        "cd sub && /bin/sh last.sh",
        "/bin/sh -c '/bin/sh sub/last.sh'",
        // A file that is called like the value of an option must not be taken for the script.
        "/bin/sh -o errexit sub/last.sh",
    ] {
        write_file(&directory.join("first.sh"), "true\n");
        write_file(&directory.join("errexit"), "decoy\n");
        write_file(&last, script("right"));
        let pending = asked(&server, json!({ "command": command, "workdir": directory })).await;
        write_file(&last, script("wrong"));
        allow_then_expect_mismatch(&server, &pending, &marks).await;
    }
}

#[tokio::test]
async fn a_script_that_nobody_writes_to_does_not_stop_the_server() {
    let server = TestServer::asking().start().await;
    let pipe = server.scratch().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    for _ in 0..8 {
        asked(&server, json!({ "argv": ["/bin/sh", pipe] })).await;
    }
}

#[tokio::test]
async fn what_was_approved_under_full_does_not_run_where_the_allowlist_counts_by_now() {
    let exec = json!({ "host": "gateway", "security": "full", "ask": "always" });
    let server = TestServer::asking().exec(&exec).start().await;
    let marks = server.scratch().join("marks");
    let command = format!("echo ran >> {}", marks.display());
    let pending = asked(&server, json!({ "command": command })).await;
    server.edit_config(r#"{ tools: { exec: { host: "gateway", security: "allowlist", ask: "off" } } }"#);
    let run = server.answered_beside_an_edit(&pending, "allow-once").await;
    assert_has!(run, { "status": "denied", "reason": "allowlist-miss" });
    assert_eq!(lines(&marks), Vec::<String>::new(), "nothing ran");
}
