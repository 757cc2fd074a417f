//! What `countersign doctor` finds in a state directory, with a server on it and without.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use crate::support::{Members, TestServer, write_file};

/// The findings of this kind.
async fn found(server: &TestServer, id: &str) -> Vec<Value> {
    let report = server.cli(&["doctor", "--json"]).await;
    let report: Value =
        serde_json::from_str(&report.stdout).unwrap_or_else(|error| panic!("{error}: {report:?}"));
    let findings = report.list("findings");
    findings
        .iter()
        .filter(|finding| finding["id"] == id)
        .cloned()
        .collect()
}

fn files(server: &TestServer) -> BTreeSet<String> {
    let entries = fs::read_dir(server.state().join("countersign")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn a_token_that_asks_as_any_agent_is_told_of_until_it_is_bound() {
    let mut server = TestServer::full().start().await;
    // That of the gateway is one, and is meant to be.
    assert_eq!(found(&server, "unbound-exec-token").await, Vec::<Value>::new());
    for request in [
        json!({ "name": "bound", "scopes": ["exec"], "agents": ["build"] }),
        json!({ "name": "reader", "scopes": ["read"] }),
    ] {
        server.token_with(request).await;
    }
    assert_eq!(found(&server, "unbound-exec-token").await, Vec::<Value>::new());

    let (id, _holder) = server
        .token_with(json!({ "name": "ci", "scopes": ["exec", "read"] }))
        .await;
    let is_told = |findings: &[Value]| {
        let [finding] = findings else {
            panic!("one finding: {findings:#?}")
        };
        assert_has!(finding, { "key": id, "severity": "warning" });
        let fix = finding.text("fix");
        assert!(fix.contains("--agent") && fix.contains(&id), "{fix}");
        assert!(finding.text("explanation").contains("\"ci\""), "{finding:#}");
    };
    is_told(&found(&server, "unbound-exec-token").await);

    // A ledger at rest is looked at without a trace.
    assert_eq!(server.stop().await, Some(0));
    let before = (files(&server), fs::read(server.database()).unwrap());
    is_told(&found(&server, "unbound-exec-token").await);
    assert!(
        before == (files(&server), fs::read(server.database()).unwrap()),
        "{:?}",
        files(&server)
    );

    server.start().await;
    let revoked = server.operator().delete(&format!("/v1/tokens/{id}")).await;
    assert!(matches!(revoked.status, 200 | 204), "{}", revoked.text());
    assert_eq!(found(&server, "unbound-exec-token").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_token_that_counts_as_an_approver_by_its_scope_alone_is_told_of() {
    let mut server = TestServer::asking().start().await;
    let none = Vec::<Value>::new();
    let reader = server.token_of("rita", &["read"]).await;
    let watcher = server.token_of("wanda", &["read", "approve"]).await;
    drop((
        reader.events("", None).await,
        watcher.events("?approver=true", None).await,
        server.operator().events("?approver=false", None).await,
    ));
    assert_eq!(found(&server, "approver-not-declared").await, none);
    drop(watcher.events("", None).await);
    let is_told = |findings: &[Value]| {
        let [finding] = findings else {
            panic!("one finding: {findings:#?}")
        };
        let explanation = finding.text("explanation");
        assert!(explanation.contains("\"wanda\""), "{finding:#}");
        assert_eq!(finding["severity"], "warning");
    };
    is_told(&found(&server, "approver-not-declared").await);
    // It is known to the next server, until the client says what it is.
    assert_eq!(server.stop().await, Some(0));
    server.start().await;
    is_told(&found(&server, "approver-not-declared").await);
    let watcher = server.anonymous().with_token(watcher.token());
    drop(watcher.events("?approver=true", None).await);
    assert_eq!(found(&server, "approver-not-declared").await, none);
}

#[tokio::test]
async fn a_demand_for_two_owners_is_told_of_while_there_is_one() {
    let mut server = TestServer::full().start().await;
    let none = Vec::<Value>::new();
    assert_eq!(found(&server, "one-owner").await, none);
    let ask = "[exec]\nlogin_path = false\n[approvals]\nwidening = \"ask\"\n";
    let is_told = |findings: &[Value]| {
        let [finding] = findings else {
            panic!("one finding: {findings:#?}")
        };
        assert_eq!(finding["key"], "approvals.widening");
        assert_eq!(finding["severity"], "warning");
        assert!(finding.text("fix").contains("--owner"), "{finding:#}");
    };
    // The server that runs rejects it, and the next one would not start.
    server.edit_toml(ask);
    is_told(&found(&server, "one-owner").await);
    assert_eq!(server.stop().await, Some(0));
    is_told(&found(&server, "one-owner").await);

    server.edit_toml("[exec]\nlogin_path = false\n");
    server.start().await;
    server.token_of("ann", &["admin"]).await;
    server.edit_toml(ask);
    assert_eq!(found(&server, "one-owner").await, none);
}

#[tokio::test]
async fn a_ledger_that_does_not_read_is_told_of() {
    let mut server = TestServer::full().start().await;
    assert_eq!(server.stop().await, Some(0));
    assert_eq!(found(&server, "ledger-unread").await, Vec::<Value>::new());
    write_file(&server.database(), "no ledger at all");
    assert_eq!(found(&server, "ledger-unread").await.len(), 1);
}
