//! The ledger's database, its write-ahead log, and the head of the audit chain.

use countersign_sys::faults::{AUDIT, Call, LEDGER};

use super::{Story, each, in_time, named};
use crate::support::{Members, TestServer};

/// Fails every write and every sync of the log, while calls of every kind are made.
async fn the_log_fails(points: &[&str]) {
    let mut story = Story::begin(TestServer::asking()).await;
    for (point, fault) in each(&named(LEDGER, points)) {
        let what = format!("{} {fault}", point.name);
        story.works().await;
        story.settle(&what).await;
        story.faults.arm(point.name, fault);
        story.run().await;
        story.run_with_key().await;
        story.ask().await;
        story.allow().await;
        story.stop().await;
        story.faults.until_met(point.name).await;
        story.faults.disarm(point.name);
        story.resume().await;
        story.settle(&what).await;
    }
    story.outlives_a_restart().await;
}

#[tokio::test]
async fn nothing_runs_unrecorded_while_the_log_cannot_be_written() {
    the_log_fails(&["ledger.write-wal"]).await;
}

#[tokio::test]
async fn nothing_runs_unrecorded_while_the_log_cannot_be_synced() {
    the_log_fails(&["ledger.sync-wal"]).await;
}

/// The log has all of a transaction whose sync failed, and a start reads the log.
#[tokio::test]
async fn an_answer_that_was_refused_does_not_count_after_a_crash() {
    let mut story = Story::begin(TestServer::asking()).await;
    for fault in Call::Sync.faults() {
        story.works().await;
        let (_name, body) = story.call("asked");
        let asked = story.server.accepted(body).await;
        let id = asked.text("approvalId");
        story.faults.arm("ledger.sync-wal", fault);
        let operator = story.server.operator();
        let refused = in_time("an answer", operator.decide(id, "allow-once")).await;
        story.expect_trouble("an answer", &refused);
        story.server.kill();
        assert!(story.faults.disarm("ledger.sync-wal"), "{fault}");
        story.server.start().await;
        let approval = story.server.operator().approval(id).await;
        assert_eq!(approval["status"], "pending", "{fault}: {approval}");
        story.server.operator().decided(id, "allow-once").await;
        let run = story.server.agent().finished(asked.text("runId")).await;
        assert_has!(run, { "status": "completed" }, "{fault}");
    }
}

/// What folds the log into the database may fail: the log has everything.
#[tokio::test]
async fn calls_succeed_while_the_log_cannot_be_folded_in() {
    let mut story = Story::begin(TestServer::asking()).await;
    let points = [
        "ledger.write-database",
        "ledger.sync-database",
        "ledger.truncate-database",
    ];
    // Within a second the chain is sealed, and the log folded in.
    story.works_beside(&named(LEDGER, &points)).await;
    story.outlives_a_restart().await;
}

#[tokio::test]
async fn calls_succeed_while_the_chain_cannot_be_sealed() {
    let mut story = Story::begin(TestServer::asking()).await;
    story.works_beside(AUDIT).await;
    story.outlives_a_restart().await;
}

#[tokio::test]
async fn who_opens_the_ledger_anew_is_told_that_it_cannot_be_opened() {
    let mut story = Story::begin(TestServer::asking()).await;
    for point in named(LEDGER, &["ledger.open-database", "ledger.open-wal"]) {
        let operator = story.server.operator();
        // What was open once may be taken again instead.
        for fault in point.call.faults() {
            story.faults.arm(point.name, fault);
            let refused = in_time("a look at the chain", operator.get("/v1/audit/verify")).await;
            assert!(story.faults.disarm(point.name), "{} {fault}", point.name);
            story.expect_trouble("a look at the chain", &refused);
            story.works().await;
            story.settle(&format!("{} {fault}", point.name)).await;
        }
        let verified = operator.read("/v1/audit/verify").await;
        assert_eq!(verified["ok"], true, "{verified}");
    }
    story.outlives_a_restart().await;
}

/// The log is emptied when a server stops.
#[tokio::test]
async fn a_server_whose_log_cannot_be_emptied_stops_all_the_same() {
    let mut story = Story::begin(TestServer::asking()).await;
    for (point, fault) in each(&named(LEDGER, &["ledger.truncate-wal"])) {
        story.works().await;
        story.settle("before the stop").await;
        story.faults.arm(point.name, fault);
        assert_eq!(story.server.stop().await, Some(0), "{fault}");
        assert!(story.faults.disarm(point.name), "{} {fault}", point.name);
        story.server.start().await;
    }
    story.outlives_a_restart().await;
}
