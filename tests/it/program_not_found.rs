//! A first program that is nowhere on the PATH: nobody is asked about it.

use serde_json::json;

use crate::support::{Members, TestServer, assert_says};

#[tokio::test]
async fn nobody_is_asked_about_a_program_that_is_not_there() {
    let server = TestServer::asking().start().await;
    let agent = server.agent();
    for body in [
        json!({ "command": "no-such-program-here --version" }),
        json!({ "command": "no-such-program-here | wc -l" }),
        json!({ "argv": ["no-such-program-here", "x"] }),
    ] {
        let explained = agent.explain(body.clone()).await;
        assert_has!(explained, { "outcome": "deny", "reason": "program-not-found" });
        let denied = agent.denied(body).await;
        assert_eq!(denied["reason"], "program-not-found", "{denied}");
        denied.says("detail", "no-such-program-here");
        let run = agent.run(denied.text("runId")).await;
        assert_has!(run, { "status": "denied", "reason": "program-not-found" });
    }
    let asked = server.operator().read("/v1/approvals?status=all").await;
    assert_eq!(asked["items"], json!([]));
    let explained = server
        .cli(&["exec", "--explain", "--", "no-such-program-here"])
        .await;
    assert_says(
        &explained.stdout,
        "the PATH of this host, where no such program is found",
    );
}

#[tokio::test]
async fn what_may_be_there_is_asked_about() {
    let server = TestServer::asking().start().await;
    for command in [
        // Builtins of the shell, a path, later programs, and what the shell alone can read.
        "export A=1",
        "ulimit -n",
        ". ./no-such-file-here",
        "./no-such-program-here",
        "id && no-such-program-here",
        "env no-such-program-here",
        "f() { id; }; f",
    ] {
        server
            .accepted(json!({ "command": command, "approvalWaitMs": 0 }))
            .await;
    }
}

#[tokio::test]
async fn under_full_the_shell_says_so_itself() {
    let server = TestServer::full().start().await;
    let ran = server.ran(json!({ "command": "no-such-program-here" })).await;
    assert_eq!(ran["exitCode"], 127, "{ran}");
}
