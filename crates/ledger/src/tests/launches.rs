//! Launches: what is consumed is consumed once, and only what was judged starts.

use std::time::Duration;

use countersign_domain::{ApprovalStatus, Reason};

use super::*;

use crate::{DecideAndLaunch, EndOutcome, Started, StoredOutput};

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_consumed_once() {
    let opened = Opened::new();
    let allowed = opened.allowed().await;
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (ledger, launch) = (opened.ledger.clone(), launch_of(&allowed.id));
            tokio::spawn(async move { ledger.launch(launch).await.unwrap() })
        })
        .collect();
    let mut permits = 0;
    for call in calls {
        match call.await.unwrap() {
            ApprovedOutcome::Launched(permit) => {
                assert_eq!(permit.run_id(), &allowed.run_id);
                permits += 1;
            }
            ApprovedOutcome::AlreadyConsumed => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(permits, 1);
}

#[tokio::test]
async fn only_an_allowed_approval_launches() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let launched = opened.launch(&asked.id).await;
    assert!(
        matches!(launched, ApprovedOutcome::NotAllowed(ApprovalStatus::Pending)),
        "{launched:?}"
    );
    opened.decide(&asked.id, ApprovalDecision::Deny).await;
    let launched = opened.launch(&asked.id).await;
    assert!(
        matches!(launched, ApprovedOutcome::NotAllowed(ApprovalStatus::Denied)),
        "{launched:?}"
    );
    let unknown = ApprovalId::parse("nobody").unwrap();
    assert!(matches!(opened.launch(&unknown).await, ApprovedOutcome::NotFound));
}

/// An answer with the launch that would follow from it.
fn answer_of(approval: &ApprovalId, decision: ApprovalDecision) -> DecideAndLaunch {
    DecideAndLaunch {
        decide: decision_of(approval, decision),
        launch: ApprovedLaunch {
            outlives_caller: true,
            ..launch_of(approval)
        },
    }
}

#[tokio::test]
async fn a_yes_and_its_launch_are_one_transaction() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let answer = answer_of(&asked.id, ApprovalDecision::AllowOnce);
    let (outcome, launched) = opened.ledger.decide_and_launch(answer).await.unwrap();
    assert!(
        matches!(&outcome, DecideOutcome::Decided { applied: true, .. }),
        "{outcome:?}"
    );
    let Some(ApprovedOutcome::Launched(permit)) = launched else {
        panic!("{launched:?}");
    };
    assert_eq!(permit.run_id(), &asked.run_id);
    let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
    assert_eq!((run.status, run.background), (RunStatus::Launching, true));

    let again = answer_of(&asked.id, ApprovalDecision::AllowOnce);
    let (outcome, launched) = opened.ledger.decide_and_launch(again).await.unwrap();
    assert!(
        matches!(&outcome, DecideOutcome::Decided { applied: false, .. }),
        "{outcome:?}"
    );
    assert!(launched.is_none(), "{launched:?}");
    assert!(matches!(
        opened.launch(&asked.id).await,
        ApprovedOutcome::AlreadyConsumed
    ));
}

#[tokio::test]
async fn an_answer_that_does_not_allow_launches_nothing() {
    let opened = Opened::new();
    let (denied, other) = (opened.ask().await, opened.ask().await);
    let answer = answer_of(&denied.id, ApprovalDecision::Deny);
    let (outcome, launched) = opened.ledger.decide_and_launch(answer).await.unwrap();
    assert!(
        matches!(&outcome, DecideOutcome::Decided { applied: true, .. }),
        "{outcome:?}"
    );
    assert!(launched.is_none(), "{launched:?}");
    let late = answer_of(&denied.id, ApprovalDecision::AllowOnce);
    let (outcome, launched) = opened.ledger.decide_and_launch(late).await.unwrap();
    assert!(matches!(&outcome, DecideOutcome::Conflict(_)), "{outcome:?}");
    assert!(launched.is_none(), "{launched:?}");

    // An answer launches the run of its own question only.
    let crossed = DecideAndLaunch {
        decide: decision_of(&other.id, ApprovalDecision::AllowOnce),
        launch: launch_of(&denied.id),
    };
    let (_, launched) = opened.ledger.decide_and_launch(crossed).await.unwrap();
    assert!(launched.is_none(), "{launched:?}");
    let run = opened.ledger.run(&other.run_id).await.unwrap().unwrap();
    assert_eq!(run.status, RunStatus::Requested);
}

#[tokio::test]
async fn a_yes_after_the_policy_changed_is_kept_and_launches_nothing_yet() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let answer = answer_of(&asked.id, ApprovalDecision::AllowOnce);
    opened.policy.set_generation(7);
    let (outcome, launched) = opened.ledger.decide_and_launch(answer).await.unwrap();
    assert!(
        matches!(&outcome, DecideOutcome::Decided { applied: true, .. }),
        "{outcome:?}"
    );
    assert!(matches!(launched, Some(ApprovedOutcome::Stale)), "{launched:?}");
    let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
    assert_eq!(run.status, RunStatus::Requested);
    opened.policy.set_generation(0);
    assert!(matches!(
        opened.launch(&asked.id).await,
        ApprovedOutcome::Launched(_)
    ));
}

#[tokio::test]
async fn a_yes_to_what_would_be_something_else_by_now_ends_it() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let mut answer = answer_of(&asked.id, ApprovalDecision::AllowOnce);
    answer.launch.binding.cwd = "/elsewhere".to_owned();
    let (_, launched) = opened.ledger.decide_and_launch(answer).await.unwrap();
    assert!(
        matches!(launched, Some(ApprovedOutcome::BindingMismatch)),
        "{launched:?}"
    );
    let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Denied, Some(Reason::BindingMismatch))
    );
}

#[tokio::test]
async fn what_was_not_approved_does_not_start() {
    let opened = Opened::new();
    let allowed = opened.allowed().await;
    let mut launch = launch_of(&allowed.id);
    launch.binding.cwd = "/elsewhere".to_owned();
    let outcome = opened.ledger.launch(launch).await.unwrap();
    assert!(matches!(outcome, ApprovedOutcome::BindingMismatch), "{outcome:?}");
    let run = opened.ledger.run(&allowed.run_id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Denied, Some(Reason::BindingMismatch))
    );
    let again = opened.launch(&allowed.id).await;
    assert!(
        matches!(again, ApprovedOutcome::RunEnded(RunStatus::Denied)),
        "{again:?}"
    );
}

#[tokio::test]
async fn the_start_by_is_exact() {
    let opened = Opened::new();
    let (in_time, too_late) = (opened.allowed().await, opened.allowed().await);
    opened.clock.advance(MINUTE);
    assert!(matches!(
        opened.launch(&in_time.id).await,
        ApprovedOutcome::Launched(_)
    ));
    opened.clock.advance(Duration::from_millis(1));
    assert!(matches!(
        opened.launch(&too_late.id).await,
        ApprovedOutcome::StartByPassed
    ));
    let run = opened.ledger.run(&too_late.run_id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Failed, Some(Reason::NotStarted))
    );
}

#[tokio::test]
async fn a_changed_policy_makes_every_launch_stale_and_writes_nothing() {
    let opened = Opened::new();
    let allowed = opened.allowed().await;
    let before = opened.events().await.len();
    opened.policy.set_generation(7);
    assert!(matches!(opened.launch(&allowed.id).await, ApprovedOutcome::Stale));
    let launch = DirectLaunch {
        run: opened.run(),
        key: Some(key("k", "b")),
        terms: terms(),
    };
    let run_id = launch.run.id.clone();
    let outcome = opened.ledger.admit_and_launch(launch).await.unwrap();
    assert!(
        matches!(outcome, Admission::New(LaunchOutcome::Stale)),
        "{outcome:?}"
    );
    assert_eq!(opened.ledger.run(&run_id).await.unwrap(), None);
    assert_eq!(opened.events().await.len(), before);
    opened.policy.set_generation(0);
    assert!(matches!(
        opened.launch(&allowed.id).await,
        ApprovedOutcome::Launched(_)
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_used_no_more_often_than_it_says() {
    let opened = Opened::new();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let ledger = opened.ledger.clone();
            let terms = LaunchTerms {
                grants: vec![grant(3)],
                ..terms()
            };
            let launch = DirectLaunch {
                run: opened.run(),
                key: None,
                terms,
            };
            tokio::spawn(async move { ledger.admit_and_launch(launch).await.unwrap() })
        })
        .collect();
    let mut launched = 0;
    for call in calls {
        match call.await.unwrap() {
            Admission::New(LaunchOutcome::Launched(_)) => launched += 1,
            Admission::New(LaunchOutcome::UsedUp(entry)) => assert_eq!(entry.as_str(), "grant-1"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(launched, 3);
    assert_eq!(
        opened
            .ledger
            .grant_uses("main", &grant(3).entry_id)
            .await
            .unwrap(),
        3
    );
    assert_eq!(
        opened.ledger.grant_uses("*", &grant(3).entry_id).await.unwrap(),
        0
    );
}

#[tokio::test]
async fn environment_values_are_sealed_while_waiting_and_gone_after() {
    let opened = Opened::new();
    let mut asking = opened.asking();
    asking.run.env = secret_env();
    asking.approval.card.binding.env_hash = Some("hash".to_owned());
    let asked = opened.ask_with(asking).await;
    opened.decide(&asked.id, ApprovalDecision::AllowOnce).await;
    assert!(!holds(opened.path(), b"s3cret-value"), "sealed on disk");

    let opened = opened.after_kill("boot-1");
    let mut launch = launch_of(&asked.id);
    launch.binding.env_hash = Some("hash".to_owned());
    let permit = match opened.ledger.launch(launch).await.unwrap() {
        ApprovedOutcome::Launched(permit) => permit,
        other => panic!("{other:?}"),
    };
    assert_eq!(permit.env(), &secret_env());
    let sealed: Option<Vec<u8>> = opened
        .raw()
        .query_row(
            "SELECT env_sealed FROM approvals WHERE id = ?1",
            (asked.id.as_str(),),
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(sealed, None);
}

#[tokio::test]
async fn environment_values_are_gone_when_the_run_ends_before_its_launch() {
    let opened = Opened::new();
    for end_early in [true, false] {
        let mut asking = opened.asking();
        asking.run.env = secret_env();
        asking.approval.card.binding.env_hash = Some("hash".to_owned());
        let asked = opened.ask_with(asking).await;
        opened.decide(&asked.id, ApprovalDecision::AllowOnce).await;
        if end_early {
            opened
                .ledger
                .deny(asked.run_id.clone(), Reason::SecurityDeny, None)
                .await
                .unwrap();
        } else {
            let mut late = finish(&asked.run_id);
            late.end.status = RunStatus::Failed;
            assert_eq!(
                opened.ledger.finish(late).await.unwrap().outcome,
                EndOutcome::Applied
            );
        }
    }
    let sealed = "SELECT count(*) FROM approvals WHERE env_sealed IS NOT NULL";
    let left: i64 = opened.raw().query_row(sealed, (), |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn lost_environment_values_deny_the_run() {
    let opened = Opened::new();
    let mut asking = opened.asking();
    asking.run.env = secret_env();
    asking.approval.card.binding.env_hash = Some("hash".to_owned());
    let asked = opened.ask_with(asking).await;
    opened.decide(&asked.id, ApprovalDecision::AllowOnce).await;
    opened
        .raw()
        .execute("UPDATE approvals SET env_sealed = NULL", ())
        .unwrap();
    let mut launch = launch_of(&asked.id);
    launch.binding.env_hash = Some("hash".to_owned());
    let outcome = opened.ledger.launch(launch).await.unwrap();
    assert!(matches!(outcome, ApprovedOutcome::BindingMismatch), "{outcome:?}");
}

#[tokio::test]
async fn a_short_run_is_told_whole_and_in_order() {
    let opened = Opened::new();
    let permit = opened.launched().await;
    let run_id = permit.run_id().clone();
    let at = UnixMillis::new(START + 5);
    opened.ledger.started(Started {
        run_id: run_id.clone(),
        pid: Some(42),
        session_id: None,
        at,
    });
    assert_eq!(
        opened.ledger.finish(finish(&run_id)).await.unwrap().outcome,
        EndOutcome::Applied
    );
    assert_eq!(
        opened.event_types().await,
        ["exec.requested", "exec.started", "exec.finished"]
    );
    let finished = opened.events().await.pop().unwrap();
    assert_eq!(finished["durationMs"], 20);
    assert_eq!(finished["tail"], "hello\n");
    let run = opened.ledger.run(&run_id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.pid, run.started_at),
        (RunStatus::Completed, Some(42), Some(at))
    );
    let output = opened.ledger.output(&run_id).await.unwrap();
    assert_eq!(output, Some(StoredOutput::Inline(b"frames".to_vec())));
    let again = opened.ledger.finish(finish(&run_id)).await.unwrap().outcome;
    assert_eq!(again, EndOutcome::Refused(RunStatus::Completed));
}

#[tokio::test]
async fn a_start_is_written_without_any_other_job() {
    let opened = Opened::new();
    let permit = opened.launched().await;
    let mut events = opened
        .ledger
        .subscribe(EventFilter::default(), crate::events::Start::Now);
    let run_id = permit.run_id().clone();
    opened.ledger.started(Started {
        run_id,
        pid: None,
        session_id: None,
        at: UnixMillis::new(START),
    });
    let item = events.next().await.unwrap().unwrap();
    assert!(matches!(
        item,
        crate::events::StreamItem::Event(event)
            if event.event_type == crate::events::EventType::ExecStarted
    ));
}

#[tokio::test]
async fn a_lost_gateway_run_stays_lost_and_a_late_node_result_counts_once() {
    let opened = Opened::new();
    for (host, late) in [
        (Host::Gateway, EndOutcome::Refused(RunStatus::Lost)),
        (Host::Node, EndOutcome::Applied),
    ] {
        let run = NewRun { host, ..opened.run() };
        let run_id = run.id.clone();
        opened
            .ledger
            .admit_and_launch(DirectLaunch {
                run,
                key: None,
                terms: terms(),
            })
            .await
            .unwrap();
        let mut lost = finish(&run_id);
        lost.end.status = RunStatus::Lost;
        lost.end.reason = Some(Reason::NodeDisconnected);
        assert_eq!(
            opened.ledger.finish(lost).await.unwrap().outcome,
            EndOutcome::Applied
        );
        assert_eq!(
            opened.ledger.finish(finish(&run_id)).await.unwrap().outcome,
            late,
            "{host}"
        );
        let again = opened.ledger.finish(finish(&run_id)).await.unwrap().outcome;
        assert!(matches!(again, EndOutcome::Refused(_)), "{host}");
    }
}

/// Whether any file of a directory holds these bytes.
fn holds(dir: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let content = std::fs::read(entry.unwrap().path()).unwrap();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}
