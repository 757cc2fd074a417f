//! What supervisors write: the fence, the end of a run, its output, and where the next server finds them.

use countersign_sys::faults::SUPERVISOR;
use serde_json::json;

use super::{Story, each, named};
use crate::support::{Members, TestServer, eventually, write_file};

#[tokio::test]
async fn nothing_starts_without_its_fence() {
    let mut story = Story::begin(TestServer::asking()).await;
    for (point, fault) in each(&named(SUPERVISOR, &["sup.fence"])) {
        let what = format!("{} {fault}", point.name);
        story.faults.arm(point.name, fault);
        let run = story.run().await.expect(200);
        if fault == "EINTR once" {
            assert_has!(run, { "status": "completed" }, "{what}");
        } else {
            assert_has!(run, { "status": "failed", "reason": "not-started" }, "{what}");
        }
        story.run_with_key().await;
        story.ask().await;
        assert!(story.faults.disarm(point.name), "{what}");
        story.settle(&what).await;
        story.works().await;
    }
    story.outlives_a_restart().await;
}

/// Half a fence that cannot be taken away may have been a whole one.
#[tokio::test]
async fn half_a_fence_that_stays_is_no_run() {
    let mut story = Story::begin(TestServer::asking()).await;
    for (point, fault) in each(&named(SUPERVISOR, &["sup.empty-run-file"])) {
        let what = format!("{} {fault}", point.name);
        story.faults.arm("sup.fence", "short once");
        story.faults.arm(point.name, fault);
        let run = story.run().await.expect(200);
        assert!(["failed", "lost"].contains(&run.text("status")), "{what}: {run}");
        assert!(story.faults.disarm(point.name), "{what}");
        story.settle(&what).await;
        story.works().await;
    }
    story.outlives_a_restart().await;
}

#[tokio::test]
async fn an_end_that_is_not_in_the_file_is_still_told() {
    let mut story = Story::begin(TestServer::asking()).await;
    story.works_despite(&named(SUPERVISOR, &["sup.exit-line"])).await;
    story.outlives_a_restart().await;
}

/// The output of a command that says more than is kept in memory.
#[tokio::test]
async fn output_that_cannot_be_spooled_ends_early_and_the_run_does_not() {
    const SAID: u64 = 400_000;
    let mut story = Story::begin(TestServer::full()).await;
    let points = ["sup.open-spool", "sup.write-spool", "sup.cut-spool"];
    for (point, fault) in each(&named(SUPERVISOR, &points)) {
        let what = format!("{} {fault}", point.name);
        if point.name == "sup.cut-spool" {
            story.faults.arm("sup.write-spool", "ENOSPC");
        }
        story.faults.arm(point.name, fault);
        let command = format!("head -c {SAID} /dev/zero | tr '\\0' x");
        let run = story.server.ran(json!({ "command": command })).await;
        assert_has!(run, { "status": "completed", "exitCode": 0 }, "{what}");
        assert!(story.faults.disarm(point.name), "{what}");
        story.faults.disarm("sup.write-spool");
        let path = format!("/v1/runs/{}/output?stream=stdout", run.text("runId"));
        let output = story.server.agent().get_bytes(&path, None).await;
        let whole = output.status == 200 && output.bytes.len() as u64 == SAID;
        let is_passing = fault.ends_with(" once") && point.name == "sup.write-spool";
        assert_eq!(whole, is_passing, "{what}: {} bytes", output.bytes.len());
        assert!(
            output.bytes.iter().all(|byte| *byte == b'x') || output.status != 200,
            "{what}"
        );
        story.settle(&what).await;
    }
}

/// A supervisor waits for the next server at a socket, which is a file.
#[tokio::test]
async fn a_supervisor_that_cannot_wait_for_a_server_tries_again() {
    let mut story = Story::begin(TestServer::full()).await;
    for (point, fault) in each(&named(SUPERVISOR, &["sup.attach"])) {
        let what = format!("{} {fault}", point.name);
        let go_on = story.directory.join("go-on");
        let command = format!(
            "until [ -e {} ]; do sleep 0.02; done; echo ended",
            go_on.display()
        );
        let body = json!({ "command": command, "background": true });
        let running = story.server.accepted(body).await;
        let id = running.text("runId").to_owned();
        let started = || async { story.server.agent().run(&id).await["status"].clone() };
        eventually("running", started, |status| *status == "running").await;
        story.faults.arm(point.name, fault);
        story.server.kill();
        story.faults.until_met(point.name).await;
        story.faults.disarm(point.name);
        story.server.start().await;
        assert_has!(story.server.agent().run(&id).await, { "status": "running" }, "{what}");
        write_file(&go_on, "");
        let run = story.server.agent().finished(&id).await;
        assert_has!(run, { "status": "completed", "tail": "ended\n" }, "{what}");
        std::fs::remove_file(&go_on).expect("the file");
    }
}
