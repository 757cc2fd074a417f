//! Tokens.

use std::collections::BTreeSet;

use countersign_domain::{Owner, Scope};

use super::*;

use crate::{LedgerError, NewToken, Page, audit::AuditFilter};

fn token(id: &str) -> NewToken {
    NewToken {
        owner: Owner::operator(),
        proposed_by: None,
        id: id.parse().unwrap(),
        name: "gateway".to_owned(),
        sha256: format!("hash-of-{id}"),
        scopes: BTreeSet::from([Scope::Exec]),
        agents: Some(BTreeSet::from([AgentId::main()])),
        groups: BTreeSet::from(["ops".to_owned()]),
        expires_at: Some(UnixMillis::new(START + 10)),
        replaces: None,
    }
}

#[tokio::test]
async fn a_token_is_found_by_its_hash_and_revoked_once() {
    let opened = Opened::new();
    let made = opened
        .ledger
        .insert_token(token("t-1"), approver())
        .await
        .unwrap();
    assert_eq!(
        opened.ledger.token_by_sha256("hash-of-t-1").await.unwrap(),
        Some(made.clone())
    );
    assert_eq!(opened.ledger.token_by_sha256("hash-of-t-2").await.unwrap(), None);
    opened.clock.set(UnixMillis::new(START + 5));
    for _ in 0..2 {
        let revoked = opened
            .ledger
            .revoke_token(made.id.clone(), approver())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(revoked.token.revoked_at, Some(UnixMillis::new(START + 5)));
    }
    let unknown = opened
        .ledger
        .revoke_token("nobody".parse().unwrap(), approver())
        .await
        .unwrap();
    assert_eq!(unknown, None);
    let records = opened
        .ledger
        .audit(AuditFilter::default(), Page::first(10))
        .await
        .unwrap()
        .items;
    let actions: Vec<_> = records.iter().map(|record| record.action.as_str()).collect();
    assert_eq!(actions, ["token.created", "token.revoked"]);
}

#[tokio::test]
async fn tokens_are_listed_in_pages_newest_first() {
    let opened = Opened::new();
    for id in ["t-1", "t-2", "t-3"] {
        opened.ledger.insert_token(token(id), approver()).await.unwrap();
    }
    let first = opened.ledger.tokens(Page::first(2)).await.unwrap();
    let rest = opened
        .ledger
        .tokens(Page {
            limit: 2,
            cursor: first.next,
        })
        .await
        .unwrap();
    let ids: Vec<_> = first
        .items
        .iter()
        .chain(&rest.items)
        .map(|token| token.id.as_str())
        .collect();
    assert_eq!(
        (ids.as_slice(), rest.next),
        (["t-3", "t-2", "t-1"].as_slice(), None)
    );
}

#[tokio::test]
async fn the_same_secret_twice_is_refused() {
    let opened = Opened::new();
    opened
        .ledger
        .insert_token(token("t-1"), approver())
        .await
        .unwrap();
    let same = NewToken {
        id: "t-2".parse().unwrap(),
        ..token("t-1")
    };
    let refused = opened.ledger.insert_token(same, approver()).await;
    assert!(matches!(refused, Err(LedgerError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn the_last_use_is_written_behind_and_by_the_stop_at_the_latest() {
    let opened = Opened::new();
    let made = opened
        .ledger
        .insert_token(token("t-1"), approver())
        .await
        .unwrap();
    opened
        .ledger
        .touch_token(made.id.clone(), UnixMillis::new(START + 9));
    opened
        .ledger
        .touch_token("unknown".parse().unwrap(), UnixMillis::new(START + 9));
    let reopened = opened.reopen();
    let kept = reopened.ledger.token(&made.id).await.unwrap().unwrap();
    assert_eq!(kept.last_used_at, Some(UnixMillis::new(START + 9)));
}
