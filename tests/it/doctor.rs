//! What `countersign doctor` finds in a state directory, with a server on it and without.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _};

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

#[tokio::test]
async fn what_is_wrong_comes_first_and_then_what_is_not_as_ever() {
    let server = TestServer::full()
        .toml("[output]\ntail_chars = 7\n")
        .start()
        .await;
    let shown = server.cli(&["doctor"]).await.stdout;
    let place = |part: &str| shown.find(part).unwrap_or_else(|| panic!("{part} in {shown}"));
    // The tests run as one account, which is an error finding.
    assert!(place("error[") < place("\nsettings in force"), "{shown}");
    assert!(place("\n1 error") < place("output.tail_chars"), "{shown}");
    assert!(
        !shown.contains("output.max_chars") && shown.contains("; --all shows the rest\n"),
        "{shown}"
    );
    let all = server.cli(&["doctor", "--all"]).await.stdout;
    assert!(
        all.contains("output.max_chars") && all.contains("kept by the kernel"),
        "{all}"
    );
    assert!(all.lines().count() > shown.lines().count() + 50, "{all}");
}

#[tokio::test]
async fn a_dry_run_shows_what_a_fix_would_change_and_changes_nothing() {
    let server = TestServer::full().start().await;
    let token = server.state().join("countersign/operator.token");
    let mode = || fs::metadata(&token).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let dry = server.cli(&["doctor", "--fix", "--dry-run"]).await;
    assert_eq!(mode(), 0o644, "{dry:?}");
    for part in [
        "would fix file-not-private: ",
        "  -mode 0644 ",
        "  +mode 0600 ",
        "[file-not-private]",
    ] {
        dry.says(part);
    }
    let report = server.cli(&["doctor", "--fix", "--dry-run", "--json"]).await;
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_has!(report, { "repaired": [], "repairs/0/done": false });
    let fixed = server.cli(&["doctor", "--fix"]).await;
    assert_eq!(mode(), 0o600, "{fixed:?}");
    fixed.says("\nfixed file-not-private: ".trim_start());
    assert!(!fixed.stdout.contains("[file-not-private]"), "{fixed:?}");
    let alone = server.cli(&["doctor", "--dry-run"]).await;
    assert_eq!(alone.code, Some(64), "{alone:?}");
}
