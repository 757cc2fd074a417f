//! The record nobody can quietly change.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Members, TestServer, eventually, only, run_program};

async fn verify(server: &TestServer) -> Value {
    server.operator().read("/v1/audit/verify").await
}

/// A stopped server with a few records of different kinds.
async fn recorded() -> TestServer {
    let mut server = TestServer::asking().start().await;
    let pending = server.accepted(json!({ "argv": ["/bin/date"] })).await;
    server
        .operator()
        .decided(pending.text("approvalId"), "deny")
        .await;
    server
        .operator()
        .made("/v1/agents/main/allowlist", json!({ "pattern": "/bin/date" }))
        .await;
    server.ran(json!({ "argv": ["/bin/date"] })).await;
    let (id, _) = server
        .token_with(json!({ "name": "short-lived", "scopes": ["read"] }))
        .await;
    server.operator().removed(&format!("/v1/tokens/{id}")).await;
    assert_eq!(verify(&server).await["ok"], true);
    assert_eq!(server.stop().await, Some(0));
    server
}

/// Changes the ledger behind the server's back.
fn tamper(server: &TestServer, change: fn(&rusqlite::Connection)) {
    let ledger = rusqlite::Connection::open(server.database()).unwrap();
    change(&ledger);
    // So that nothing of it waits in a side file.
    ledger
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
}

fn sql(ledger: &rusqlite::Connection, text: &str) {
    ledger.execute_batch(text).unwrap();
}

#[tokio::test]
async fn what_happened_is_recorded_in_order() {
    let mut server = recorded().await;
    server.start().await;
    let records = server.operator().read("/v1/audit?limit=500").await["items"].clone();
    let records = records.as_array().unwrap();
    let actions: Vec<&str> = records.iter().map(|record| record.text("action")).collect();
    for action in [
        "exec.requested",
        "exec.approval.requested",
        "exec.approval.resolved",
        "exec.denied",
        "allowlist.changed",
        "exec.started",
        "exec.finished",
        "token.created",
        "token.revoked",
    ] {
        assert!(actions.contains(&action), "{action} in {actions:?}");
    }
    for pair in records.windows(2) {
        assert_eq!(pair[1]["prevHash"], pair[0]["hash"]);
        assert_eq!(
            pair[1]["seq"].as_u64(),
            pair[0]["seq"].as_u64().map(|seq| seq + 1)
        );
    }
    let resolved = records
        .iter()
        .find(|record| record["action"] == "exec.approval.resolved")
        .unwrap();
    assert_eq!(resolved["actor"]["kind"], "token");
    assert_eq!(resolved["outcome"], "denied");
    let from = records[2]["seq"].as_u64().unwrap();
    let later = server
        .operator()
        .read(&format!("/v1/audit?afterSeq={from}&limit=1"))
        .await;
    assert_eq!(later["items"][0], records[3]);
}

#[tokio::test]
async fn an_untouched_record_verifies_with_and_without_a_server() {
    let mut server = recorded().await;
    let offline = server.cli(&["audit", "verify", "--offline", "--json"]).await;
    assert_eq!(offline.code, Some(0), "{offline:?}");
    server.start().await;
    let online = server.cli(&["audit", "verify", "--json"]).await;
    assert_eq!(online.code, Some(0), "{online:?}");
    let verified = verify(&server).await;
    assert_has!(verified, { "ok": true, "problem": null });
    assert!(
        verified["records"].as_u64().is_some_and(|records| records >= 9),
        "{verified}"
    );
}

/// A change of the ledger by SQL, and the problem that is found.
macro_rules! by_sql {
    ($what:literal: $sql:literal => $kind:literal) => {
        ($what, |ledger| sql(ledger, $sql), $kind)
    };
}

#[tokio::test]
async fn every_kind_of_tampering_is_found() {
    type Tampering = fn(&rusqlite::Connection);
    let changes: [(&str, Tampering, &str); 24] = [
        by_sql!("a changed record":
            "UPDATE audit SET body = replace(body, 'a', 'b') WHERE seq = 3" => "edited"),
        (
            "a changed record with its hash made anew",
            change_with_hash,
            "forged",
        ),
        by_sql!("a removed record": "DELETE FROM audit WHERE seq = 3" => "missing"),
        ("two records swapped", swap, "reordered"),
        by_sql!("the end cut off": "DELETE FROM audit WHERE seq > 4" => "truncated"),
        by_sql!("everything removed": "DELETE FROM audit" => "truncated"),
        ("a record told twice", repeat_last, "reordered"),
        by_sql!("another actor in the column behind searches":
            "UPDATE audit SET actor_id = 'x' WHERE seq = 3" => "edited"),
        by_sql!("another action there":
            "UPDATE audit SET action = 'exec.approval.expired' WHERE seq = 3" => "edited"),
        by_sql!("another command of a run":
            "UPDATE runs SET command = 'echo harmless', argv_json = NULL" => "edited"),
        by_sql!("other arguments of a run":
            "UPDATE runs SET argv_json = '[\"/bin/date\",\"-u\"]'" => "edited"),
        by_sql!("another end of a run":
            "UPDATE runs SET status = 'denied' WHERE status = 'completed'" => "edited"),
        by_sql!("a run that nobody was asked about":
            "UPDATE runs SET verdict_by = 'policy', approval_id = NULL" => "edited"),
        by_sql!("somebody else who asked": "UPDATE runs SET asked_by_name = 'somebody'" => "edited"),
        by_sql!("another gate in front of a run":
            "UPDATE runs SET security = 'deny', ask = 'always'" => "edited"),
        by_sql!("another trust level of a run": "UPDATE runs SET isolation = 'confined'" => "edited"),
        by_sql!("a policy that decided in place of a person":
            "UPDATE runs SET verdict_by = 'policy'" => "edited"),
        by_sql!("another output at the end of a run": "UPDATE runs SET tail = 'all is well'" => "edited"),
        by_sql!("the order of the runs": "UPDATE runs SET seq = -seq" => "edited"),
        by_sql!("other people who voted": "UPDATE approvals SET votes_json = '[{}]'" => "edited"),
        by_sql!("another reason of an answer": "UPDATE approvals SET reason = 'she said so'" => "edited"),
        by_sql!("a run taken out": "DELETE FROM runs WHERE status = 'completed'" => "missing"),
        by_sql!("an answer turned round":
            "UPDATE approvals SET decision = 'allow-once', status = 'allowed', resolved_name = 'bob'" => "edited"),
        by_sql!("a run put in":
            "CREATE TEMP TABLE copy AS SELECT * FROM runs LIMIT 1; \
             UPDATE copy SET seq = 1000, run_id = 'another', created_ms = created_ms + 1; \
             INSERT INTO runs SELECT * FROM copy" => "forged"),
    ];
    for (what, change, kind) in changes {
        let mut server = recorded().await;
        tamper(&server, change);
        let offline = server.cli(&["audit", "verify", "--offline", "--json"]).await;
        server.start().await;
        let online = server.cli(&["audit", "verify", "--json"]).await;
        for done in [offline, online] {
            assert_eq!(done.code, Some(1), "{what}: {done:?}");
            let verified: Value = serde_json::from_str(&done.stdout).unwrap();
            let seen = (&verified["ok"], &verified["problem"]["kind"]);
            assert_eq!(seen, (&json!(false), &json!(kind)), "{what}: {verified}");
        }
    }
}

/// As somebody would who knows how the hash is made and not the key of its seal.
fn change_with_hash(ledger: &rusqlite::Connection) {
    use sha2::{Digest, Sha256};
    let body: String = ledger
        .query_row("SELECT body FROM audit WHERE seq = 3", [], |row| row.get(0))
        .unwrap();
    let changed = body.replacen("\"ok\"", "\"no\"", 1).replacen("exec", "exce", 1);
    assert_ne!(changed, body);
    let hash = Sha256::digest(&changed)
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    ledger
        .execute(
            "UPDATE audit SET body = ?1, hash = ?2 WHERE seq = 3",
            (&changed, &hash),
        )
        .unwrap();
}

fn swap(ledger: &rusqlite::Connection) {
    sql(
        ledger,
        "UPDATE audit SET seq = -1 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4; \
         UPDATE audit SET seq = 4 WHERE seq = -1",
    );
}

fn repeat_last(ledger: &rusqlite::Connection) {
    sql(
        ledger,
        "INSERT INTO audit SELECT seq + 1, actor_id, action, body, hash, mac FROM audit ORDER BY seq DESC LIMIT 1",
    );
}

/// Without a head nothing tells how far the chain had come, so nobody but the operator may begin another.
#[tokio::test]
async fn a_chain_that_was_dropped_stays_broken_until_the_operator_begins_another() {
    let mut server = recorded().await;
    let whole = server.cli(&["audit", "reset", "--reason", "for fun"]).await;
    assert_eq!(whole.code, Some(1), "{whole:?}");
    assert!(whole.stderr.contains("is whole"), "{whole:?}");
    tamper(&server, |ledger| sql(ledger, "DELETE FROM audit"));
    let head = server.state().join("countersign/audit.head");
    fs::remove_file(&head).unwrap();
    server.start().await;
    server.ran(json!({ "argv": ["/bin/date"] })).await;
    let verified = verify(&server).await;
    assert_eq!(verified["problem"]["kind"], "missing", "{verified}");
    let ready = server.operator().read("/readyz").await;
    assert_has!(ready, { "degraded": true, "checks/record/ok": false });
    let sick = server.cli(&["doctor", "--json"]).await;
    assert!(sick.stdout.contains("audit-broken"), "{sick:?}");
    let in_use = server.cli(&["audit", "reset", "--reason", "x"]).await;
    assert_eq!(in_use.code, Some(1), "{in_use:?}");
    assert_eq!(server.stop().await, Some(0));
    assert!(
        !head.exists(),
        "a head that was removed is made anew by a reset alone"
    );

    let reset = server
        .cli(&["audit", "reset", "--reason", "restored from the backup", "--json"])
        .await;
    assert_eq!(reset.code, Some(0), "{reset:?}");
    let reset: Value = serde_json::from_str(&reset.stdout).unwrap();
    let kept = fs::read_to_string(reset.text("kept")).unwrap();
    assert_eq!(Some(kept.lines().count() as u64), reset["records"].as_u64());
    server.start().await;
    let verified = verify(&server).await;
    assert_eq!(verified["ok"], true, "{verified}");
    let first = server.operator().read("/v1/audit?limit=1").await["items"][0].clone();
    assert_has!(first, {
        "action": "audit.reset", "detail/reason": "restored from the backup", "detail/problem": "missing",
    });
    let ready = server.operator().read("/readyz").await;
    assert_eq!(ready["degraded"], false, "{ready}");
}

/// A start makes a new key, which seals nothing that was recorded under the other.
#[tokio::test]
async fn a_key_that_went_with_its_head_is_missed_while_there_are_runs() {
    let mut server = recorded().await;
    let place = server.state().join("countersign");
    for file in ["audit.key", "audit.head"] {
        fs::remove_file(place.join(file)).unwrap();
    }
    let before = server.cli(&["doctor", "--json"]).await;
    assert!(before.stdout.contains("audit-broken"), "{before:?}");
    server.start().await;
    let verified = verify(&server).await;
    assert_eq!(verified["ok"], false, "{verified}");
    let after = server.cli(&["doctor", "--json"]).await;
    assert!(after.stdout.contains("audit-broken"), "{after:?}");
}

/// A first start that was cut off anywhere leaves nothing that a later one takes for tampering.
#[tokio::test]
async fn a_head_without_key_and_history_is_a_start_that_was_cut_off() {
    let mut server = TestServer::full().start().await;
    assert_eq!(server.stop().await, Some(0));
    let place = server.state().join("countersign");
    tamper(&server, |ledger| {
        sql(ledger, "DELETE FROM audit; DELETE FROM runs");
    });
    fs::remove_file(place.join("audit.key")).unwrap();
    server.start().await;
    let verified = verify(&server).await;
    assert_eq!(verified["ok"], true, "{verified}");
}

#[tokio::test]
async fn a_cut_that_a_start_follows_is_told_by_readyz() {
    let mut server = recorded().await;
    tamper(&server, |ledger| sql(ledger, "DELETE FROM audit WHERE seq > 4"));
    server.start().await;
    let ready = server.operator().read("/readyz").await;
    ready["checks"]["record"].says("detail", "truncated");
}

#[tokio::test]
async fn a_crash_is_no_tampering() {
    let mut server = TestServer::full().start().await;
    for round in 0..3 {
        for _ in 0..5 {
            server.ran(json!({ "argv": ["/bin/true"] })).await;
        }
        server.crash_and_restart().await;
        let verified = verify(&server).await;
        assert_eq!(verified["ok"], true, "round {round}: {verified}");
    }
}

#[tokio::test]
async fn the_record_can_be_exported() {
    let server = TestServer::full().start().await;
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    let export = || async { run_program(&server.invocation(&["audit", "export"])) };
    let whole = eventually("exported", export, |done| done.stdout.contains("exec.finished")).await;
    assert_eq!(whole.code, Some(0));
    for line in whole.stdout.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert!(
            record["hash"].is_string(),
            "{}",
            only(&record, &["seq", "action"])
        );
    }
}
