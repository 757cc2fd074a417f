//! A first program that is nowhere on the PATH: nobody is asked about it.

use serde_json::json;

use crate::support::{TestServer, only};

#[tokio::test]
async fn nobody_is_asked_about_a_program_that_is_not_there() {
    let server = TestServer::asking().start().await;
    let agent = server.agent();
    for body in [
        json!({ "command": "no-such-program-here --version" }),
        json!({ "command": "no-such-program-here | wc -l" }),
        json!({ "argv": ["no-such-program-here", "x"] }),
    ] {
        let explained = agent.post("/v1/exec/explain", body.clone()).await.expect(200);
        assert_eq!(
            only(&explained, &["outcome", "reason"]),
            json!({ "outcome": "deny", "reason": "program-not-found" })
        );
        let denied = agent.exec(body).await.problem(403, "exec-denied");
        assert_eq!(denied["reason"], "program-not-found", "{denied}");
        assert!(
            denied["detail"]
                .as_str()
                .is_some_and(|detail| detail.contains("no-such-program-here")),
            "{denied}"
        );
        let run = agent.run(denied["runId"].as_str().expect("a run")).await;
        assert_eq!(
            only(&run, &["status", "reason"]),
            json!({ "status": "denied", "reason": "program-not-found" })
        );
    }
    let asked = server
        .operator()
        .get("/v1/approvals?status=all")
        .await
        .expect(200);
    assert_eq!(asked["items"], json!([]));
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
            .agent()
            .exec(json!({ "command": command, "approvalWaitMs": 0 }))
            .await
            .expect(202);
    }
}

#[tokio::test]
async fn under_full_the_shell_says_so_itself() {
    let server = TestServer::full().start().await;
    let ran = server
        .agent()
        .exec(json!({ "command": "no-such-program-here" }))
        .await
        .expect(200);
    assert_eq!(ran["exitCode"], 127, "{ran}");
}
