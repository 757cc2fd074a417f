//! Forgetting, and what must not be forgotten.

use std::{collections::BTreeSet, time::Duration};

use countersign_domain::{Owner, Reason, Scope};

use super::*;

use crate::{
    Denial, KeyState, NewLoginLink, NewToken, Page, Retention, RunFilter, StoredOutcome,
    audit::AuditFilter,
    events::{Event, EventKind},
};

const DAY: Duration = Duration::from_hours(24);

fn forgetful(retention: Retention) -> Opened {
    Opened::tuned(Tuning {
        retention,
        ..Tuning::default()
    })
}

fn for_ever() -> Retention {
    Retention {
        events_count: 100_000,
        events_age: None,
        runs_age: None,
        audit_age: None,
    }
}

#[tokio::test]
async fn events_are_kept_by_count() {
    let opened = forgetful(Retention {
        events_count: 20,
        ..for_ever()
    });
    for elapsed_ms in 0..200 {
        let kind = EventKind::ExecRunning {
            elapsed_ms,
            session_id: None,
        };
        opened
            .ledger
            .record(Event::general(kind), Actor::system())
            .await
            .unwrap();
        let kept = opened.events().await;
        assert!(kept.len() <= 22, "never much more than asked for");
        assert!(
            kept.len() >= usize::try_from(elapsed_ms + 1).unwrap().min(20),
            "never less"
        );
        assert_eq!(kept.last().unwrap()["seq"], elapsed_ms + 1);
    }
}

#[tokio::test]
async fn the_newest_event_stays_so_that_its_number_does() {
    let opened = forgetful(Retention {
        events_age: Some(DAY),
        ..for_ever()
    });
    for _ in 0..3 {
        opened.launch_one().await;
    }
    opened.clock.advance(DAY * 2);
    assert_eq!(opened.ledger.prune().await.unwrap().events, 2);
    let reopened = opened.reopen();
    reopened.launch_one().await;
    let seqs: Vec<_> = reopened
        .events()
        .await
        .iter()
        .map(|event| event["seq"].clone())
        .collect();
    assert_eq!(seqs, [3, 4]);
}

#[tokio::test]
async fn old_finished_runs_go_with_their_output_and_approval_but_never_early() {
    let opened = forgetful(Retention {
        runs_age: Some(DAY),
        ..for_ever()
    });
    let finished = opened.launched().await;
    opened.ledger.finish(finish(finished.run_id())).await.unwrap();
    let unfinished = opened.launched().await;
    let asked = opened.ask().await;
    opened.decide(&asked.id, ApprovalDecision::Deny).await;
    opened.clock.advance(DAY + Duration::from_secs(1));
    let pruned = opened.ledger.prune().await.unwrap();
    assert_eq!(
        (pruned.runs, pruned.more),
        (vec![finished.run_id().clone()], false)
    );
    assert_eq!(opened.ledger.output(finished.run_id()).await.unwrap(), None);
    assert_eq!(opened.status(unfinished.run_id()).await, RunStatus::Launching);
    assert!(
        opened.ledger.approval(&asked.id).await.unwrap().is_some(),
        "approvals stay for 30 days"
    );
    opened.clock.advance(DAY * 30);
    opened.ledger.prune().await.unwrap();
    assert_eq!(opened.ledger.approval(&asked.id).await.unwrap(), None);
    let left = opened
        .ledger
        .runs(RunFilter::default(), Page::first(10))
        .await
        .unwrap();
    assert_eq!(left.items.len(), 1);
}

#[tokio::test]
async fn a_pruned_chain_is_whole_and_says_so() {
    let opened = forgetful(Retention {
        audit_age: Some(DAY),
        ..for_ever()
    });
    for _ in 0..4 {
        opened.launch_one().await;
    }
    opened.clock.advance(DAY * 2);
    opened.launch_one().await;
    assert_eq!(opened.ledger.prune().await.unwrap().audit_records, 4);
    let verified = opened.ledger.verify_audit().await.unwrap();
    assert_eq!(
        (verified.problem, verified.first_seq, verified.last_seq),
        (None, Some(5), Some(6))
    );
    let records = opened
        .ledger
        .audit(AuditFilter::default(), Page::first(10))
        .await
        .unwrap()
        .items;
    assert_eq!(
        records.last().map(|record| record.action.as_str()),
        Some("audit.pruned")
    );

    opened
        .raw()
        .execute("DELETE FROM audit WHERE seq = 5", ())
        .unwrap();
    assert!(
        !opened.is_chain_whole().await,
        "the anchor covers what was pruned and no more"
    );
    opened
        .raw()
        .execute(
            "UPDATE meta SET value = replace(value, '\"seq\":4', '\"seq\":5')",
            (),
        )
        .unwrap();
    assert!(!opened.is_chain_whole().await, "and cannot be moved");
}

#[tokio::test]
async fn tokens_of_links_go_after_their_end_and_no_others() {
    let opened = forgetful(for_ever());
    let ends = START + 1000;
    for (id, scopes, is_for_link) in [
        ("link", &[Scope::Approve, Scope::Read][..], true),
        ("link-of-an-admin", &[Scope::Admin], true),
        ("made-by-hand", &[Scope::Read], false),
    ] {
        let token = NewToken {
            id: id.parse().unwrap(),
            name: id.to_owned(),
            owner: Owner::operator(),
            proposed_by: None,
            sha256: format!("hash-of-{id}"),
            scopes: scopes.iter().copied().collect(),
            agents: None,
            groups: BTreeSet::new(),
            expires_at: Some(UnixMillis::new(ends)),
            replaces: None,
        };
        let token = opened.ledger.insert_token(token, approver()).await.unwrap();
        if is_for_link {
            let link = NewLoginLink {
                sha256: format!("code-of-{id}"),
                lasts: Duration::from_secs(1),
                made_by: None,
                token: Some(token.id),
            };
            opened.ledger.insert_login_link(link).await.unwrap();
        }
    }
    let left = async || {
        opened.ledger.prune().await.unwrap();
        let tokens = opened.ledger.tokens(Page::first(10)).await.unwrap().items;
        tokens
            .into_iter()
            .map(|token| token.id.to_string())
            .collect::<Vec<_>>()
    };
    opened.clock.set(UnixMillis::new(ends + 30 * 24 * 3_600_000 - 1));
    assert_eq!(left().await.len(), 3);
    opened.clock.advance(Duration::from_millis(1));
    assert_eq!(left().await, ["made-by-hand", "link-of-an-admin"]);
    assert!(opened.is_chain_whole().await);
}

#[tokio::test]
async fn keys_are_forgotten_after_a_day() {
    let opened = forgetful(for_ever());
    let run = opened.run();
    let id = run.id.clone();
    let denial = Denial {
        run,
        key: Some(key("k", "b")),
        reason: Reason::Denylist,
        detail: None,
        hint: None,
    };
    opened.ledger.admit_denied(denial).await.unwrap();
    opened.clock.set(UnixMillis::new(START + 24 * 3_600_000 - 1));
    opened.ledger.prune().await.unwrap();
    assert_eq!(
        opened.ledger.key_state(&key("k", "b")).await.unwrap(),
        KeyState::Known(StoredOutcome::Run { run: id, hint: None })
    );
    opened.clock.advance(Duration::from_millis(1));
    opened.ledger.prune().await.unwrap();
    assert_eq!(
        opened.ledger.key_state(&key("k", "b")).await.unwrap(),
        KeyState::New
    );
}
