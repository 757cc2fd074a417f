//! Calls that ask for a pseudo-terminal.

use serde_json::{Value, json};

use crate::{
    explain::ask_to_explain,
    support::{Members, TestServer, write_file},
};

/// What a call on a terminal printed.
async fn printed(server: &TestServer, command: &str) -> Value {
    let answer = server.ran(json!({ "command": command, "pty": true })).await;
    assert_has!(answer, { "exitCode": 0, "stderr": "" });
    answer
}

#[tokio::test]
async fn a_call_gets_a_terminal_and_its_record_says_so() {
    let server = TestServer::full()
        .env("COLUMNS", "7")
        .env("TERM", "dumb")
        .start()
        .await;
    let command = "test -t 0 && stty size && echo \"$TERM/$COLUMNS\"; echo errors >&2";
    let answer = printed(&server, command).await;
    assert_eq!(answer["stdout"], "30 120\r\nxterm-256color/\r\nerrors\r\n");
    let record = server.agent().run(answer.text("runId")).await;
    assert_eq!(record["pty"], true);

    let given = json!({ "command": "echo $TERM", "pty": true, "env": { "TERM": "vt100" } });
    assert_eq!(server.ran(given).await["stdout"], "vt100\r\n");
    let without = server.ran(json!({ "command": "test -t 1" })).await;
    assert_eq!(without["exitCode"], 1);
    let explained = ask_to_explain(&server.agent(), &json!({ "command": "top", "pty": true })).await;
    assert_eq!(explained.expect(200)["outcome"], "run");
}

#[tokio::test]
async fn steps_of_a_plan_share_the_terminal() {
    let document =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "*", "input": true }] } } });
    let server = TestServer::allowlist_only().document(&document).start().await;
    write_file(&server.scratch().join("lines"), "b\na\n");
    let command = format!(
        "stty size | cat && tty -s && sort {} | cat && echo end",
        server.scratch().join("lines").display()
    );
    assert_has!(printed(&server, &command).await, { "stdout": "30 120\r\na\r\nb\r\nend\r\n" });
}

#[tokio::test]
async fn a_question_of_one_with_a_terminal_is_answered_for_that() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "command": "stty size", "pty": true })).await;
    let run = server.answered(&pending, "allow-once").await;
    assert_has!(run, { "pty": true, "exitCode": 0 });
}

#[tokio::test]
async fn no_node_gives_one() {
    let exec = json!({ "tools": { "exec": { "host": "auto", "security": "full", "ask": "off" } } });
    let server = TestServer::full().config(&exec).start().await;
    let call = json!({ "command": "ls", "pty": true, "host": "node" });
    let refused = server.agent().exec(call).await.problem(400, "invalid-request");
    assert!(refused.text("detail").contains("pseudo-terminal"), "{refused:#}");
}
