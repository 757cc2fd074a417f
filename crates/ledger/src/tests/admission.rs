//! Admission: keys, denials, asking, no route.

use std::time::Duration;

use countersign_domain::{
    ApprovalState, ApprovalStatus, DecidedBy, Reason, RunDecision, RunVerdict, TerminalReason,
};

use super::*;

use crate::{
    ApprovalFilter, Denial, Fallback, KeyState, NoRoute, NoRouteOutcome, Page, RunFilter, StoredOutcome,
};

#[tokio::test]
async fn a_direct_launch_records_the_run_before_anything_starts() {
    let opened = Opened::new();
    let permit = opened.launched().await;
    let run = opened.ledger.run(permit.run_id()).await.unwrap().unwrap();
    assert_eq!(run.status, RunStatus::Launching);
    assert_eq!(
        run.decision,
        Some(RunDecision {
            verdict: RunVerdict::Run,
            by: DecidedBy::Policy
        })
    );
    assert_eq!(run.command, Command::shell("echo hello".to_owned()).unwrap());
    assert_eq!(permit.not_after(), UnixMillis::new(START + 60_000));
    assert_eq!(permit.binding(), &binding());
    assert_eq!(opened.event_types().await, ["exec.requested"]);
}

#[tokio::test]
async fn the_same_key_and_body_gets_the_first_run_and_another_body_none() {
    let opened = Opened::new();
    let keyed = |body: &str| DirectLaunch {
        run: opened.run(),
        key: Some(key("k", body)),
        terms: terms(),
    };
    let first = match opened.ledger.admit_and_launch(keyed("one")).await.unwrap() {
        Admission::New(LaunchOutcome::Launched(permit)) => permit.run_id().clone(),
        other => panic!("{other:?}"),
    };
    let again = opened.ledger.admit_and_launch(keyed("one")).await.unwrap();
    assert!(matches!(again, Admission::Known(StoredOutcome::Run { run, hint: None }) if run == first));
    let other = opened.ledger.admit_and_launch(keyed("two")).await.unwrap();
    assert!(matches!(other, Admission::Mismatch));
    assert_eq!(
        opened.ledger.key_state(&key("k", "one")).await.unwrap(),
        KeyState::Known(StoredOutcome::Run {
            run: first,
            hint: None
        })
    );
    let listed = opened
        .ledger
        .runs(RunFilter::default(), Page::first(10))
        .await
        .unwrap();
    assert_eq!(listed.items.len(), 1, "nothing was written for the others");

    opened.clock.advance(Duration::from_hours(24));
    assert!(matches!(
        opened.ledger.admit_and_launch(keyed("two")).await.unwrap(),
        Admission::New(LaunchOutcome::Launched(_))
    ));
}

#[tokio::test]
async fn a_hundred_calls_with_one_key_launch_one_run() {
    let opened = Opened::new();
    let mut calls = Vec::new();
    for _ in 0..100 {
        let ledger = opened.ledger.clone();
        let launch = DirectLaunch {
            run: opened.run(),
            key: Some(key("k", "b")),
            terms: terms(),
        };
        calls.push(tokio::spawn(async move {
            ledger.admit_and_launch(launch).await.unwrap()
        }));
    }
    let mut launched = 0;
    for call in calls {
        if let Admission::New(LaunchOutcome::Launched(_)) = call.await.unwrap() {
            launched += 1;
        }
    }
    assert_eq!(launched, 1);
}

#[tokio::test]
async fn an_answer_without_a_run_is_kept_too() {
    let opened = Opened::new();
    let kept = opened
        .ledger
        .keep_answer(key("k", "b"), 404, "{}".to_owned())
        .await
        .unwrap();
    assert!(matches!(kept, Admission::New(())));
    let expected = KeyState::Known(StoredOutcome::Answer {
        status: 404,
        body: "{}".to_owned(),
    });
    assert_eq!(opened.ledger.key_state(&key("k", "b")).await.unwrap(), expected);
}

#[tokio::test]
async fn a_denial_is_a_final_run_with_its_reason() {
    let opened = Opened::new();
    let run = opened.run();
    let id = run.id.clone();
    let detail = Some("rule 3".to_owned());
    let denial = Denial {
        run,
        key: None,
        reason: Reason::Denylist,
        detail,
        hint: None,
    };
    opened.ledger.admit_denied(denial).await.unwrap();
    let run = opened.ledger.run(&id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Denied, Some(Reason::Denylist))
    );
    assert_eq!(run.ended_at, Some(UnixMillis::new(START)));
    assert_eq!(opened.event_types().await, ["exec.requested", "exec.denied"]);
}

#[tokio::test]
async fn asking_is_bounded() {
    let opened = Opened::new();
    let mut asking = opened.asking();
    asking.limits.pending = 0;
    let refused = opened.ledger.admit_asking(asking).await.unwrap();
    assert!(matches!(refused, Admission::New(AskOutcome::TooMany(_))));
    assert!(opened.events().await.is_empty());
}

#[tokio::test]
async fn a_pending_approval_is_listed_read_back_whole_and_counted() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    assert_eq!(
        opened.ledger.approval(&asked.id).await.unwrap(),
        Some(asked.clone())
    );
    let pending = ApprovalFilter {
        status: Some(ApprovalStatus::Pending),
        ..ApprovalFilter::default()
    };
    let listed = opened.ledger.approvals(pending, Page::first(10)).await.unwrap();
    assert_eq!(listed.items, vec![asked.clone()]);
    let by_prefix = ApprovalFilter {
        id_prefix: Some(asked.id.slug().to_uppercase()),
        ..ApprovalFilter::default()
    };
    assert_eq!(
        opened
            .ledger
            .approvals(by_prefix, Page::first(2))
            .await
            .unwrap()
            .items,
        vec![asked]
    );
    assert_eq!(opened.pending_approvals().await, 1);
    assert_eq!(
        opened
            .ledger
            .agents()
            .await
            .unwrap()
            .first()
            .map(|agent| agent.pending),
        Some(1)
    );
}

#[tokio::test]
async fn without_a_route_the_fallback_counts_at_once() {
    let opened = Opened::new();
    let no_route = |fallback| NoRoute {
        run: opened.run(),
        approval: opened.approval(),
        key: None,
        fallback,
        hint: None,
    };
    let denied = no_route(Fallback::deny(Reason::NoApprover));
    let run_id = denied.run.id.clone();
    let approval = match opened.ledger.admit_no_route(denied).await.unwrap() {
        Admission::New(NoRouteOutcome::Denied(approval)) => approval,
        other => panic!("{other:?}"),
    };
    let expected = ApprovalState::Expired {
        at: UnixMillis::new(START),
        why: TerminalReason::NoRoute,
    };
    assert_eq!(approval.state, expected);
    assert_eq!(
        opened.ledger.approval(&approval.id).await.unwrap(),
        Some(*approval)
    );
    let run = opened.ledger.run(&run_id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Denied, Some(Reason::NoApprover))
    );
    assert_eq!(
        run.decision,
        Some(RunDecision {
            verdict: RunVerdict::Deny,
            by: DecidedBy::Fallback
        })
    );

    match opened
        .ledger
        .admit_no_route(no_route(Fallback::Run(terms())))
        .await
        .unwrap()
    {
        Admission::New(NoRouteOutcome::Launched { permit, .. }) => {
            assert_eq!(opened.status(permit.run_id()).await, RunStatus::Launching);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(opened.pending_approvals().await, 0);
}

#[tokio::test]
async fn runs_are_listed_newest_first_in_pages_and_by_filter() {
    let opened = Opened::new();
    let mut ids = Vec::new();
    for index in 0..5 {
        opened.clock.advance(Duration::from_secs(1));
        let mut run = opened.run();
        run.agent = AgentId::parse(format!("agent-{}", index % 2)).unwrap();
        ids.push(run.id.clone());
        opened
            .ledger
            .admit_and_launch(DirectLaunch {
                run,
                key: None,
                terms: terms(),
            })
            .await
            .unwrap();
    }
    ids.reverse();
    let first = opened
        .ledger
        .runs(RunFilter::default(), Page::first(3))
        .await
        .unwrap();
    let rest = opened
        .ledger
        .runs(
            RunFilter::default(),
            Page {
                limit: 3,
                cursor: first.next,
            },
        )
        .await
        .unwrap();
    let listed: Vec<_> = first
        .items
        .iter()
        .chain(&rest.items)
        .map(|run| run.id.clone())
        .collect();
    assert_eq!(listed, ids);
    assert_eq!(rest.next, None);

    let count = async |filter| {
        opened
            .ledger
            .runs(filter, Page::first(50))
            .await
            .unwrap()
            .items
            .len()
    };
    let agent = Some(AgentId::parse("agent-1").unwrap());
    assert_eq!(
        count(RunFilter {
            agent,
            ..RunFilter::default()
        })
        .await,
        2
    );
    let since = Some(UnixMillis::new(START + 4000));
    assert_eq!(
        count(RunFilter {
            since,
            ..RunFilter::default()
        })
        .await,
        2
    );
    assert_eq!(
        count(RunFilter {
            until: since,
            ..RunFilter::default()
        })
        .await,
        3
    );
    assert_eq!(
        count(RunFilter {
            query: Some("o hel".to_owned()),
            ..RunFilter::default()
        })
        .await,
        5
    );
    assert_eq!(
        count(RunFilter {
            query: Some("%".to_owned()),
            ..RunFilter::default()
        })
        .await,
        0
    );
    let statuses = vec![RunStatus::Requested, RunStatus::Launching];
    assert_eq!(
        count(RunFilter {
            statuses,
            ..RunFilter::default()
        })
        .await,
        5
    );
    let owner = Some("t-other".parse().unwrap());
    assert_eq!(
        count(RunFilter {
            owner,
            ..RunFilter::default()
        })
        .await,
        0
    );
}
