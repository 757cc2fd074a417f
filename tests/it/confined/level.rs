//! Which level there is, and where it is told.

use serde_json::json;

use crate::support::{Members, TestServer, assert_says, is_root};

use super::{ACCOUNT, FREE, builder, possible, run};

const BAD_SETTINGS: i32 = 78;

#[tokio::test]
async fn every_run_names_the_level_it_had() {
    or_skip!(possible());
    let server = builder().start().await;
    assert_says(server.ready_line(), "isolation=confined");
    for (agent, level) in [("main", "confined"), (FREE, "same-user")] {
        let answer = run(&server, agent, "grep NoNewPrivs /proc/self/status").await;
        let expect = if level == "confined" {
            "NoNewPrivs:\t1\n"
        } else {
            "NoNewPrivs:\t0\n"
        };
        assert_eq!(answer["stdout"], expect, "{agent}");
        let record = server.agent().run(answer.text("runId")).await;
        assert_eq!(record["isolation"], level);
        let policy = server
            .operator()
            .get(&format!("/v1/policy/effective?agentId={agent}"))
            .await;
        assert_eq!(policy.expect(200)["isolation"], level);
    }
    let doctor = server.invocation(&["doctor", "--json"]).run_as(ACCOUNT);
    let report = TestServer::finish(doctor).await.stdout;
    assert!(report.contains("agent-not-confined"), "{report}");
    assert!(!report.contains("isolation-same-user"), "{report}");
}

#[tokio::test]
async fn a_demanded_level_fails_the_start_of_root_and_is_kept_from_no_agent() {
    if is_root() {
        let demanding = TestServer::full()
            .env("COUNTERSIGN_EXEC__ISOLATION", "confined")
            .prepare();
        assert_eq!(
            demanding.start_fails().await,
            Some(BAD_SETTINGS),
            "{}",
            demanding.log()
        );
        assert_says(demanding.log(), "commands of root cannot be confined");
    }
    or_skip!(possible());
    let server = builder()
        .env("COUNTERSIGN_EXEC__ISOLATION", "confined")
        .start()
        .await;
    assert_eq!(run(&server, "main", "true").await["exitCode"], 0);
    let call = json!({ "command": "true", "agentId": FREE });
    server.agent().exec(call).await.problem(400, "config-conflict");
}

#[tokio::test]
async fn a_policy_outside_of_the_state_directory_is_an_obstacle() {
    or_skip!(possible());
    let scratch = crate::support::Scratch::new();
    super::give(&scratch.path());
    let path = scratch.join("policy.json");
    let outside = |level: &str| {
        builder()
            .env("COUNTERSIGN_APPROVALS__PATH", &path.to_string_lossy())
            .env("COUNTERSIGN_EXEC__ISOLATION", level)
    };
    let demanding = outside("confined").prepare();
    assert_eq!(
        demanding.start_fails().await,
        Some(BAD_SETTINGS),
        "{}",
        demanding.log()
    );
    assert_says(demanding.log(), "policy.json lies outside");
    let server = outside("auto").start().await;
    assert_says(server.ready_line(), "isolation=same-user");
    assert_says(server.log(), "policy.json lies outside");
    let answer = run(&server, "main", "true").await;
    let record = server.agent().run(answer.text("runId")).await;
    assert_eq!(record["isolation"], "same-user");
}

#[tokio::test]
async fn what_was_allowed_as_confined_never_runs_with_more_rights() {
    or_skip!(possible());
    let mut server = TestServer::asking().run_as(ACCOUNT).start().await;
    let marks = server.state().join("workspace/marks");
    let command = format!("touch {}", marks.display());
    let pending = server
        .accepted(json!({ "command": command, "background": true }))
        .await;
    let run = pending.text("runId");
    assert_has!(server.agent().run(run).await, { "isolation": "confined", "status": "approval-pending" });
    server.stop().await;
    server
        .start_with(&[("COUNTERSIGN_EXEC__ISOLATION", "same-user")])
        .await;
    let record = server.answered(&pending, "allow-once").await;
    assert_has!(record, { "isolation": "confined", "status": "failed", "reason": "not-started" });
    assert!(!marks.exists());
}

#[tokio::test]
async fn a_runner_that_died_is_replaced_by_one_with_the_same_namespaces() {
    or_skip!(possible());
    let server = builder().start().await;
    let place = "readlink /proc/self/ns/user /proc/self/ns/mnt";
    let before = run(&server, "main", place).await["stdout"].clone();
    let outside = run(&server, FREE, place).await["stdout"].clone();
    assert_ne!(before, outside);
    // The parent of a command's parent: its supervisor's runner.
    let runner = run(&server, FREE, "awk '/PPid/ { print $2 }' /proc/$PPID/status").await;
    let runner: i32 = runner.text("stdout").trim().parse().unwrap();
    crate::support::kill_hard(runner);
    for _ in 0..20 {
        assert_eq!(run(&server, "main", place).await["stdout"], before);
    }
}

#[tokio::test]
async fn a_workspace_that_was_made_again_is_refused_until_a_restart() {
    or_skip!(possible());
    let mut server = builder().start().await;
    let workspace = server.state().join("workspace");
    assert_eq!(run(&server, "main", "true").await["exitCode"], 0);
    std::fs::rename(&workspace, server.state().join("old")).unwrap();
    std::fs::create_dir(&workspace).unwrap();
    super::give(&workspace);
    let answer = run(&server, "main", "true").await;
    let record = server.agent().run(answer.text("runId")).await;
    assert_eq!(record["reason"], "spawn-failed");
    assert!(record.text("detail").contains("restart"), "{record:#}");
    server.stop().await;
    server.start().await;
    assert_eq!(run(&server, "main", "true").await["exitCode"], 0);
}

#[tokio::test]
async fn a_patch_is_applied_where_commands_are() {
    or_skip!(possible());
    let server = builder().start().await;
    for (agent, level) in [("main", "confined"), (FREE, "same-user")] {
        let input = format!("*** Begin Patch\n*** Add File: of/{agent}\n+x\n*** End Patch\n");
        let body = json!({ "input": input, "agentId": agent });
        let applied = server.agent().posted("/v1/apply-patch", body.clone()).await;
        let record = server.agent().run(applied.text("runId")).await;
        assert_eq!(record["isolation"], level);
        let seen = run(&server, agent, &format!("cat of/{agent}; ls -A of")).await;
        assert_eq!(seen["exitCode"], 0, "{seen}");
        assert!(seen.text("stdout").starts_with("x\n"), "{seen}");
        let again = server.agent().post("/v1/apply-patch", body).await;
        again.problem(409, "patch-failed");
    }
}
