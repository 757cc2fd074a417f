//! The files of runs, as the server makes them and looks at them.

use std::fs;

use countersign_sys::faults::RUN_FILES;
use serde_json::json;

use super::{Story, each, named};
use crate::support::{Members, TestServer, lines, soon, write_file};

#[tokio::test]
async fn a_run_whose_file_cannot_be_made_does_not_start_and_says_so() {
    let mut story = Story::begin(TestServer::asking()).await;
    for (point, fault) in each(&named(RUN_FILES, &["run-file.create"])) {
        let what = format!("{} {fault}", point.name);
        // Files of earlier runs are used before one is made.
        story.faults.arm("run-file.open-spent", "EACCES");
        story.faults.arm(point.name, fault);
        let run = story.run().await.expect(200);
        assert_has!(run, { "status": "failed", "reason": "not-started" }, "{what}");
        story.run_with_key().await;
        story.ask().await;
        assert!(story.faults.disarm(point.name), "{what}");
        story.faults.disarm("run-file.open-spent");
        story.settle(&what).await;
        story.works().await;
    }
    story.outlives_a_restart().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_used_again_is_made_anew() {
    let mut story = Story::begin(TestServer::asking()).await;
    let points = [
        "run-file.open-spent",
        "run-file.empty-spent",
        "run-file.rename-spent",
    ];
    story.works_despite(&named(RUN_FILES, &points)).await;
    story.outlives_a_restart().await;
}

/// A run that did not start is made impossible, or its file says what became of it.
#[tokio::test]
async fn a_run_that_cannot_be_made_impossible_is_not_started_all_the_same() {
    let mut story = Story::begin(TestServer::asking()).await;
    for (point, fault) in each(&named(RUN_FILES, &["run-file.open-to-void", "run-file.void"])) {
        let what = format!("{} {fault}", point.name);
        story.faults.arm("sup.fence", "ENOSPC");
        story.faults.arm(point.name, fault);
        let run = story.run().await.expect(200);
        assert_has!(run, { "status": "failed", "reason": "not-started" }, "{what}");
        story.run_with_key().await;
        assert!(story.faults.disarm(point.name), "{what}");
        story.faults.disarm("sup.fence");
        story.settle(&what).await;
        story.works().await;
    }
    story.outlives_a_restart().await;
}

/// A start looks at the files of the runs that were not over.
#[tokio::test]
async fn a_run_whose_file_cannot_be_read_is_lost_and_does_not_stay_open() {
    let mut story = Story::begin(TestServer::full()).await;
    for (point, fault) in each(&named(RUN_FILES, &["run-file.inspect"])) {
        let what = format!("{} {fault}", point.name);
        let go_on = story.directory.join("go-on");
        let command = format!("until [ -e {} ]; do sleep 0.02; done", go_on.display());
        let run = story
            .server
            .accepted(json!({ "command": command, "background": true }))
            .await;
        let id = run.text("runId");
        story.server.kill();
        write_file(&go_on, "");
        let file = story.server.state().join("countersign/runs").join(id);
        let ended = || lines(&file).iter().any(|line| line.starts_with("exit "));
        soon("the end in the file", ended, |ended| *ended).await;
        story.faults.arm(point.name, fault);
        story.server.start().await;
        let run = story.server.agent().finished(id).await;
        assert_has!(run, { "status": "lost" }, "{what}");
        assert!(story.faults.disarm(point.name), "{what}");
        fs::remove_file(&go_on).expect("the file");
        story.settle(&what).await;
        story.server.ran(json!({ "argv": ["true"] })).await;
    }
}
