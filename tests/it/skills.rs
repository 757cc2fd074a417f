//! Programs of skills, which run by themselves where an agent's document says so (rule K1).

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};

use crate::support::{Scratch, ServerBuilder, TestServer, write_file_mode};

/// A program in a directory of its own that only says its name.
fn program(at: &Path) {
    fs::create_dir_all(at.parent().expect("a directory")).expect("a directory");
    write_file_mode(at, "#!/bin/sh\necho skilled\n", 0o755);
}

/// A server whose PATH begins with a directory, with this skill table.
#[expect(clippy::needless_pass_by_value, reason = "reads better so")]
fn server(directory: &Path, table: &str, skills: Value) -> ServerBuilder {
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "off",
        "pathPrepend": [directory.to_string_lossy()] });
    TestServer::full()
        .exec(&exec)
        .agents(&json!({ "main": skills }))
        .toml(table)
}

fn table(name: &str, path: &Path) -> String {
    format!(
        "[[policy.skill_bins]]\nname = \"{name}\"\npath = \"{}\"\n",
        path.display()
    )
}

async fn tried(server: &TestServer, command: &str) -> u16 {
    server.agent().exec(json!({ "command": command })).await.status
}

#[tokio::test]
async fn a_skill_runs_by_its_bare_name_where_that_is_switched_on() {
    let scratch = Scratch::new();
    let place = fs::canonicalize(scratch.path()).expect("its path");
    let bin = place.join("bin");
    let skill = bin.join("summarise");
    program(&skill);
    program(&bin.join("other"));
    let on = server(
        &bin,
        &table("summarise", &skill),
        json!({ "autoAllowSkills": true }),
    )
    .start()
    .await;
    assert_eq!(tried(&on, "summarise x").await, 200);
    assert_eq!(tried(&on, "summarise x | wc").await, 200);
    for not_it in [
        skill.to_str().expect("a path"),
        "other",
        "summarise; other",
        "sh -c other",
    ] {
        assert_eq!(tried(&on, not_it).await, 403, "{not_it}");
    }
    let explained = on.agent().explain(json!({ "command": "summarise x" })).await;
    assert_eq!(explained["analysis"]["segments"][0]["match"]["kind"], "skill");
    // Another agent has not switched it on.
    let of_build = json!({ "command": "summarise x", "agentId": "build" });
    on.agent().denied(of_build).await;
    let off = server(&bin, &table("summarise", &skill), json!({})).start().await;
    assert_eq!(tried(&off, "summarise x").await, 403);
    let empty = server(&bin, "", json!({ "autoAllowSkills": true })).start().await;
    assert_eq!(tried(&empty, "summarise x").await, 403);
}

#[tokio::test]
async fn another_file_of_the_name_is_no_skill() {
    let scratch = Scratch::new();
    let place = fs::canonicalize(scratch.path()).expect("its path");
    let (first, real) = (place.join("first"), place.join("real"));
    program(&real.join("summarise"));
    program(&first.join("summarise"));
    let table = table("summarise", &real.join("summarise"));
    let server = server(&first, &table, json!({ "autoAllowSkills": true }))
        .start()
        .await;
    assert_eq!(tried(&server, "summarise x").await, 403);
    // A link to the file is the file.
    fs::remove_file(first.join("summarise")).expect("removed");
    symlink(real.join("summarise"), first.join("summarise")).expect("a link");
    assert_eq!(tried(&server, "summarise x").await, 200);
    // A name that the table does not have is none, whatever it leads to.
    symlink(real.join("summarise"), first.join("sum")).expect("a link");
    assert_eq!(tried(&server, "sum x").await, 403);
}

#[tokio::test]
async fn a_deny_rule_comes_before_a_skill_and_a_question_after_it() {
    let scratch = Scratch::new();
    let bin = fs::canonicalize(scratch.path()).expect("its path").join("bin");
    let skill = bin.join("summarise");
    program(&skill);
    let denied = json!({ "autoAllowSkills": true, "denylist": [{ "pattern": "summarise" }] });
    let denying = server(&bin, &table("summarise", &skill), denied).start().await;
    let problem = denying.agent().denied(json!({ "command": "summarise x" })).await;
    assert_eq!(problem["reason"], "denylist");
    let always = json!({ "autoAllowSkills": true, "ask": "always" });
    let asking = server(
        &bin,
        &format!(
            "{}[approvals]\nalways_reachable = true\n",
            table("summarise", &skill)
        ),
        always,
    )
    .start()
    .await;
    assert_eq!(tried(&asking, "summarise x").await, 202);
}
