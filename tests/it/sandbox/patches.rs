//! Patches of the workspace of a sandbox.

use serde_json::{Value, json};

use super::{possible, printed, sandboxed};
use crate::support::TestServer;

fn patch(operations: &str) -> Value {
    json!({ "input": format!("*** Begin Patch\n{operations}*** End Patch\n") })
}

async fn prepared() -> Option<TestServer> {
    let server = sandboxed(&json!({})).start().await;
    possible(&server).await.map(|()| server)
}

#[tokio::test]
async fn a_patch_changes_what_commands_see_at_the_workdir() {
    let server = or_skip!(prepared().await);
    let agent = server.agent();
    let both = patch("*** Add File: new\n+x\n*** Add File: /workspace/deep/other\n+y\n");
    let applied = agent.posted("/v1/apply-patch", both).await;
    assert_eq!(applied["host"], "sandbox", "{applied}");
    assert_eq!(
        printed(&agent, "main", "cat /workspace/new deep/other").await,
        "x\ny\n"
    );
    printed(&agent, "main", "printf 'one\\ntwo\\n' > made").await;
    let edit = patch("*** Update File: made\n@@\n one\n-two\n+three\n");
    agent.posted("/v1/apply-patch", edit).await;
    assert_eq!(printed(&agent, "main", "cat made").await, "one\nthree\n");
    assert!(!server.state().join("workspace/new").exists());
}

#[tokio::test]
async fn what_a_command_left_as_a_trap_leads_a_patch_nowhere() {
    let server = or_skip!(prepared().await);
    let agent = server.agent();
    let outside = server.scratch().dir("outside");
    for target in [
        outside.display().to_string(),
        "../..".to_owned(),
        "/proc/self/cwd".to_owned(),
    ] {
        printed(&agent, "main", &format!("ln -sfn {target} /workspace/trap")).await;
        let into = patch("*** Add File: trap/made-by-a-patch\n+x\n");
        agent
            .post("/v1/apply-patch", into)
            .await
            .problem(409, "patch-failed");
    }
    let absolute = patch(&format!(
        "*** Add File: {}/made-by-a-patch\n+x\n",
        outside.display()
    ));
    agent
        .post("/v1/apply-patch", absolute)
        .await
        .problem(409, "patch-failed");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    let mut elsewhere = patch("*** Add File: new\n+x\n");
    elsewhere["workdir"] = json!("/workspace/deep");
    agent
        .post("/v1/apply-patch", elsewhere)
        .await
        .problem(400, "workdir-unavailable");
}
