//! Nodes: requests, decisions, tokens.

use countersign_domain::{NodeProfile, PairingDecision, PairingKind, PairingNeed};

use super::*;

use crate::{ConnectNode, NodeAdmission, NodeCredential, NodeToken, Page, audit::AuditFilter};

fn profile(commands: &[&str]) -> NodeProfile {
    NodeProfile {
        platform: "linux".to_owned(),
        commands: commands.iter().map(|name| (*name).to_owned()).collect(),
        ..NodeProfile::default()
    }
}

fn connect(node_id: &str, credential: NodeCredential, number: u32) -> ConnectNode {
    ConnectNode {
        node_id: node_id.to_owned(),
        public_key: "key".to_owned(),
        profile: profile(&["system.run"]),
        protocol: 4,
        credential,
        fresh_sha256: format!("fresh-{number}"),
        request_id: format!("request-{number}"),
    }
}

async fn asked(opened: &Opened, connect: ConnectNode) -> String {
    match opened.ledger.connect_node(connect).await.unwrap() {
        NodeAdmission::MustAsk { request, .. } => request.request_id,
        other => panic!("a person must be asked: {other:?}"),
    }
}

async fn approve(opened: &Opened, request: &str) {
    let decided = opened
        .ledger
        .decide_pairing(request.to_owned(), PairingDecision::Approve, approver())
        .await
        .unwrap()
        .unwrap();
    assert!(decided.node.is_some());
}

async fn token(opened: &Opened, node: &str) -> (Option<String>, Option<String>) {
    let NodeToken { current, previous } = opened.ledger.node_token(node).await.unwrap().unwrap();
    (current, previous)
}

#[expect(clippy::unnecessary_wraps, reason = "compared with what may be missing")]
fn word(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn a_device_waits_for_a_person_for_five_minutes() {
    let opened = Opened::new();
    let first = asked(&opened, connect("a", NodeCredential::Shared, 1)).await;
    assert_eq!(
        asked(&opened, connect("a", NodeCredential::Shared, 2)).await,
        first
    );
    opened.clock.advance(Duration::from_mins(5));
    assert!(opened.ledger.node_pairings().await.unwrap().is_empty());
    let late = opened
        .ledger
        .decide_pairing(first.clone(), PairingDecision::Approve, approver())
        .await
        .unwrap();
    assert_eq!(late, None);
    assert_ne!(
        asked(&opened, connect("a", NodeCredential::Shared, 3)).await,
        first
    );
    assert_eq!(opened.ledger.node_pairings().await.unwrap().len(), 1);
}

#[tokio::test]
async fn pairings_and_nodes_survive_a_restart() {
    let opened = Opened::new();
    let request = asked(&opened, connect("a", NodeCredential::Shared, 1)).await;
    let waiting = asked(&opened, connect("b", NodeCredential::Shared, 2)).await;
    approve(&opened, &request).await;
    let nodes = opened.ledger.paired_nodes().await.unwrap();
    let opened = opened.reopen();
    assert_eq!(opened.ledger.paired_nodes().await.unwrap(), nodes);
    assert_eq!(nodes[0].node_id, "a");
    let pairings = opened.ledger.node_pairings().await.unwrap();
    assert_eq!(pairings[0].request_id, waiting);
}

#[tokio::test]
async fn a_token_stays_good_until_the_next_one_is_used() {
    let opened = Opened::new();
    let request = asked(&opened, connect("a", NodeCredential::Shared, 1)).await;
    approve(&opened, &request).await;
    assert_eq!(token(&opened, "a").await, (None, None));
    for (number, expect) in [
        (2, (word("fresh-2"), None)),
        (3, (word("fresh-3"), word("fresh-2"))),
    ] {
        let admitted = opened
            .ledger
            .connect_node(connect("a", NodeCredential::Shared, number))
            .await
            .unwrap();
        assert!(matches!(admitted, NodeAdmission::Admitted { is_fresh: true, .. }));
        assert_eq!(token(&opened, "a").await, expect);
    }
    let with = |token: &str, number| connect("a", NodeCredential::Token(token.to_owned()), number);
    for (shown, expect) in [
        ("fresh-2", (word("fresh-3"), word("fresh-2"))),
        ("fresh-3", (word("fresh-3"), None)),
    ] {
        let admitted = opened.ledger.connect_node(with(shown, 9)).await.unwrap();
        assert!(matches!(
            admitted,
            NodeAdmission::Admitted { is_fresh: false, .. }
        ));
        assert_eq!(token(&opened, "a").await, expect);
    }
    assert_eq!(
        opened.ledger.connect_node(with("fresh-2", 9)).await.unwrap(),
        NodeAdmission::WrongToken
    );
}

#[tokio::test]
async fn a_revoked_node_is_let_in_by_a_person_alone() {
    let opened = Opened::new();
    let request = asked(&opened, connect("a", NodeCredential::Shared, 1)).await;
    approve(&opened, &request).await;
    opened
        .ledger
        .connect_node(connect("a", NodeCredential::Shared, 2))
        .await
        .unwrap();
    let revoked = opened
        .ledger
        .revoke_node("a".to_owned(), approver())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(revoked.revoked_at, Some(UnixMillis::new(START)));
    let own = NodeCredential::Token("fresh-2".to_owned());
    assert_eq!(
        opened.ledger.connect_node(connect("a", own, 3)).await.unwrap(),
        NodeAdmission::WrongToken
    );
    let replaced = opened
        .ledger
        .replace_node_token("a".to_owned(), "x".to_owned(), approver())
        .await
        .unwrap();
    assert!(!replaced, "a revoked node gets no token");
    let again = opened
        .ledger
        .connect_node(connect("a", NodeCredential::Shared, 4))
        .await
        .unwrap();
    let NodeAdmission::MustAsk { request, need } = again else {
        panic!("a person must be asked: {again:?}");
    };
    assert!(request.is_repair);
    assert_eq!(need, PairingNeed::NotPaired);
    approve(&opened, &request.request_id).await;
    let admitted = opened
        .ledger
        .connect_node(connect("a", NodeCredential::Shared, 5))
        .await
        .unwrap();
    assert!(matches!(admitted, NodeAdmission::Admitted { .. }));
}

#[tokio::test]
async fn what_a_node_wants_besides_is_asked_once_and_forgotten_when_it_wants_it_no_more() {
    let opened = Opened::new();
    let request = asked(&opened, connect("a", NodeCredential::Shared, 1)).await;
    approve(&opened, &request).await;
    let wider = |number| ConnectNode {
        profile: profile(&["system.run", "system.which"]),
        ..connect("a", NodeCredential::Shared, number)
    };
    for number in [2, 3] {
        let admitted = opened.ledger.connect_node(wider(number)).await.unwrap();
        let NodeAdmission::Admitted {
            node,
            wider: Some(request),
            ..
        } = admitted
        else {
            panic!("it is here and asks: {admitted:?}");
        };
        assert_eq!(
            (request.kind, request.request_id.as_str()),
            (PairingKind::Commands, "request-2")
        );
        assert_eq!(node.commands().len(), 1);
    }
    opened
        .ledger
        .connect_node(connect("a", NodeCredential::Shared, 4))
        .await
        .unwrap();
    assert!(opened.ledger.node_pairings().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_device_that_changes_its_mind_is_heard_once_a_minute() {
    let opened = Opened::new();
    let called = |name: &str, number| ConnectNode {
        profile: NodeProfile {
            display_name: Some(name.to_owned()),
            ..profile(&["system.run"])
        },
        ..connect("a", NodeCredential::Shared, number)
    };
    let shown = async || opened.ledger.node_pairings().await.unwrap().remove(0).profile;
    let first = asked(&opened, called("one", 1)).await;
    for number in 2..50 {
        let waiting = asked(&opened, called(&format!("name {number}"), number)).await;
        assert_eq!(waiting, first);
    }
    assert_eq!(shown().await.display_name.as_deref(), Some("one"));
    // What no approval covers is shown as it is now.
    let mut moved = called("one", 50);
    moved.profile.version = "2".to_owned();
    assert_eq!(asked(&opened, moved).await, first);
    assert_eq!(shown().await.version, "2");
    let requested = async || {
        let types = opened.event_types().await;
        types
            .iter()
            .filter(|kind| *kind == "node.pairing.requested")
            .count()
    };
    assert_eq!(requested().await, 1);
    opened.clock.advance(Duration::from_mins(1));
    assert_ne!(asked(&opened, called("two", 51)).await, first);
    assert_eq!(shown().await.display_name.as_deref(), Some("two"));
    assert_eq!(requested().await, 2);
    let stale = opened
        .ledger
        .decide_pairing(first, PairingDecision::Approve, approver())
        .await
        .unwrap();
    assert_eq!(stale, None, "what was shown before can no longer be approved");
}

#[tokio::test]
async fn a_record_of_before_names_were_approved_keeps_the_one_that_it_has() {
    let opened = Opened::new();
    let called = |name: &str, number| ConnectNode {
        profile: NodeProfile {
            display_name: Some(name.to_owned()),
            ..profile(&["system.run"])
        },
        ..connect("a", NodeCredential::Shared, number)
    };
    let request = asked(&opened, called("mill", 1)).await;
    approve(&opened, &request).await;
    let changed = opened
        .raw()
        .execute(
            "UPDATE nodes SET approved = json_remove(approved, '$.displayName')",
            (),
        )
        .unwrap();
    assert_eq!(changed, 1);
    for number in [2, 3] {
        let admitted = opened
            .ledger
            .connect_node(called(&format!("vault {number}"), number))
            .await
            .unwrap();
        let NodeAdmission::Admitted { node, .. } = admitted else {
            panic!("it was let in: {admitted:?}");
        };
        assert_eq!(node.display_name(), Some("mill"));
    }
    assert_eq!(
        opened.ledger.paired_nodes().await.unwrap()[0].display_name(),
        Some("mill")
    );
}

#[tokio::test]
async fn not_everybody_can_wait_at_once() {
    let opened = Opened::new();
    for number in 0..200 {
        asked(
            &opened,
            connect(&format!("n{number}"), NodeCredential::Shared, number),
        )
        .await;
    }
    let one_more = || connect("one-more", NodeCredential::Shared, 999);
    assert_eq!(
        opened.ledger.connect_node(one_more()).await.unwrap(),
        NodeAdmission::Full
    );
    opened.clock.advance(Duration::from_mins(5));
    asked(&opened, one_more()).await;
}

#[tokio::test]
async fn a_removed_node_leaves_nothing_but_its_record() {
    let opened = Opened::new();
    let request = asked(&opened, connect("a", NodeCredential::Shared, 1)).await;
    approve(&opened, &request).await;
    assert!(
        opened
            .ledger
            .remove_node("a".to_owned(), approver())
            .await
            .unwrap()
    );
    assert!(
        !opened
            .ledger
            .remove_node("a".to_owned(), approver())
            .await
            .unwrap()
    );
    assert!(opened.ledger.paired_nodes().await.unwrap().is_empty());
    assert_eq!(opened.ledger.node_token("a").await.unwrap(), None);
    let records = opened
        .ledger
        .audit(AuditFilter::default(), Page::first(10))
        .await
        .unwrap()
        .items;
    let told: Vec<(&str, &str)> = records
        .iter()
        .map(|record| (record.action.as_str(), record.target.id.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("node.pairing.requested", "a"),
            ("node.pairing.resolved", "a"),
            ("node.pairing.resolved", "a")
        ]
    );
    assert_eq!(records[2].detail["decision"], "removed");
}
