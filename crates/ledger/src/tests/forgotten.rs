//! Which runs the ledger takes for forgotten, and what it records of them.

use super::*;
use crate::{
    ForgottenRun, FoundRun, Retention,
    audit::{ProblemKind, verify},
};

const DAY: Duration = Duration::from_hours(24);

fn found(run_id: &RunId, made_at: i64) -> FoundRun {
    FoundRun {
        run_id: run_id.clone(),
        made_at: UnixMillis::new(made_at),
    }
}

fn run(name: &str) -> RunId {
    RunId::parse(name).unwrap()
}

fn lost(run_id: &RunId) -> ForgottenRun {
    ForgottenRun {
        run_id: run_id.clone(),
        made_at: UnixMillis::new(START),
        launch_id: None,
        detail: "only its file is left".to_owned(),
    }
}

/// The forgotten ones, and those that retention may have removed.
async fn unknown(opened: &Opened, runs: Vec<FoundRun>) -> [Vec<RunId>; 2] {
    let unknown = opened.ledger.unknown_runs(runs).await.unwrap();
    let forgotten = unknown.forgotten.into_iter().map(|run| run.run_id).collect();
    [forgotten, unknown.outdated]
}

fn problem(opened: &Opened) -> Option<ProblemKind> {
    let config = config(opened.path());
    let verified = verify(&config.path, &config.audit_key, &config.audit_head).unwrap();
    verified.problem.map(|problem| problem.kind)
}

#[tokio::test]
async fn a_run_without_a_record_is_forgotten_and_one_that_was_launched_is_not() {
    let opened = Opened::new();
    let launched = opened.launched().await;
    let waiting = opened.ask().await.run_id;
    let other = run("other");
    let runs = [launched.run_id(), &waiting, &other];
    let runs = runs.map(|run| found(run, START)).to_vec();
    assert_eq!(unknown(&opened, runs).await, [vec![waiting, other], vec![]]);
}

#[tokio::test]
async fn what_retention_removed_was_not_forgotten() {
    let opened = Opened::tuned(Tuning {
        retention: Retention {
            events_count: 100_000,
            events_age: None,
            runs_age: Some(DAY),
            audit_age: Some(DAY),
        },
        ..Tuning::default()
    });
    let old = opened.launched().await;
    opened.ledger.finish(finish(old.run_id())).await.unwrap();
    opened.clock.advance(DAY * 2);
    assert_eq!(opened.ledger.prune().await.unwrap().runs, [old.run_id().clone()]);
    let day = i64::try_from(DAY.as_millis()).unwrap();
    let young = run("young");
    let runs = vec![found(old.run_id(), START), found(&young, START + day)];
    let expected = [vec![young.clone()], vec![old.run_id().clone()]];
    assert_eq!(unknown(&opened, runs.clone()).await, expected);
    assert_eq!(unknown(&opened.reopen(), runs).await, expected);
}

/// A verification says of such a row that it is missing; it is not put in again.
#[tokio::test]
async fn a_run_whose_row_was_taken_out_was_not_forgotten() {
    let opened = Opened::new();
    let launched = opened.launched().await;
    opened.ledger.finish(finish(launched.run_id())).await.unwrap();
    let ledger = rusqlite::Connection::open(config(opened.path()).path).unwrap();
    ledger.execute("DELETE FROM runs", ()).unwrap();
    let runs = vec![found(launched.run_id(), START)];
    assert_eq!(unknown(&opened, runs.clone()).await, [vec![], vec![]]);
    assert_eq!(problem(&opened), Some(ProblemKind::Missing));
    // Whatever else was done to the record.
    ledger.execute("UPDATE audit SET body = '{'", ()).unwrap();
    assert_eq!(unknown(&opened, runs).await[0].len(), 1);
}

#[tokio::test]
async fn a_forgotten_run_is_lost_and_the_record_is_broken_by_it() {
    let opened = Opened::new();
    let other = run("other");
    for _ in 0..2 {
        opened.ledger.record_forgotten(lost(&other)).await.unwrap();
    }
    let recorded = opened.ledger.run(&other).await.unwrap().unwrap();
    assert_eq!(recorded.status, RunStatus::Lost);
    assert_eq!(recorded.detail.as_deref(), Some("only its file is left"));
    assert_eq!(opened.events().await.len(), 1, "it is recorded once");
    assert_eq!(
        unknown(&opened, vec![found(&other, START)]).await,
        [vec![], vec![]]
    );
    assert_eq!(opened.ledger.broken_record(), Some(ProblemKind::Forgotten));
    assert_eq!(problem(&opened), Some(ProblemKind::Forgotten));
    let reopened = opened.reopen();
    assert_eq!(reopened.ledger.broken_record(), Some(ProblemKind::Forgotten));
    assert!(!reopened.ledger.was_cut());
}

#[tokio::test]
async fn a_question_about_a_forgotten_launch_is_over() {
    let opened = Opened::new();
    let pending = opened.ask().await;
    let allowed = opened.ask().await;
    opened.decide(&allowed.id, ApprovalDecision::AllowOnce).await;
    for approval in [&pending, &allowed] {
        opened
            .ledger
            .record_forgotten(lost(&approval.run_id))
            .await
            .unwrap();
        assert_eq!(opened.status(&approval.run_id).await, RunStatus::Lost);
        let outcome = opened.launch(&approval.id).await;
        assert!(!matches!(outcome, ApprovedOutcome::Launched(_)), "{outcome:?}");
    }
    assert_eq!(opened.pending_approvals().await, 0);
    assert_eq!(problem(&opened), Some(ProblemKind::Forgotten));
}

#[tokio::test]
async fn an_end_on_record_is_not_changed() {
    let opened = Opened::new();
    let launched = opened.launched().await;
    opened.ledger.finish(finish(launched.run_id())).await.unwrap();
    opened
        .ledger
        .record_forgotten(lost(launched.run_id()))
        .await
        .unwrap();
    assert_eq!(opened.status(launched.run_id()).await, RunStatus::Completed);
    assert_eq!(opened.ledger.broken_record(), None);
}
