//! What is kept for days, and goes after them: a later start of the server is made to believe that days have passed.

use serde_json::{Value, json};

use crate::support::{Api, Members, TestServer, eventually};

const KEEP: &str = "[database]\nkeep_runs_days = 10\nkeep_audit_days = 5\n[events]\nkeep_days = 3\n\
                    [output]\nkeep_days = 2\n[approvals]\nalways_reachable = true\n";

/// Stops the server and starts it this many days later.
async fn later(server: &mut TestServer, days: &str) {
    assert_eq!(server.stop().await, Some(0));
    server.start_with(&[("COUNTERSIGN_TEST_DAYS_AHEAD", days)]).await;
}

async fn status(api: &Api, path: &str) -> u16 {
    api.get(path).await.status
}

async fn gone(api: &Api, path: &str) {
    eventually("gone", || status(api, path), |status| *status == 404).await;
}

async fn verified(server: &TestServer) -> Value {
    server.operator().read("/v1/audit/verify").await
}

/// The number of the oldest event that is kept.
async fn oldest_event(api: &Api) -> i64 {
    let page = api.read("/v1/events?limit=1").await;
    page["items"][0]["seq"].as_i64().expect("an event")
}

#[tokio::test]
async fn each_thing_goes_after_its_own_time() {
    let mut server = TestServer::full().toml(KEEP).start().await;
    // Too much to be kept beside the record.
    let long = json!({ "command": "head -c 2000000 /dev/zero | tr '\\0' x" });
    let run = server.ran(long).await["runId"].clone();
    let asked = json!({ "argv": ["/bin/date"], "ask": "always" });
    let asked = server.accepted(asked).await;
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let (run, approval) = (text(&run), text(&asked["approvalId"]));
    server.operator().decided(&approval, "deny").await;
    let run = format!("/v1/runs/{run}");
    let asked = format!("/v1/runs/{}", text(&asked["runId"]));
    let approval = format!("/v1/approvals/{approval}");
    let output = format!("{run}/output");
    let before = server.operator().get_bytes(&output, None).await;
    assert_eq!((before.status, before.bytes.len()), (200, 2_000_000));
    assert_eq!(oldest_event(&server.operator()).await, 1);

    later(&mut server, "4").await;
    let operator = server.operator();
    gone(&operator, &output).await;
    eventually("forgotten", || oldest_event(&operator), |oldest| *oldest > 1).await;
    let mut stream = operator.events("", Some(0)).await;
    assert_eq!(stream.next().await.kind, "events.gap");
    drop(stream);
    let kept = operator.read(&run).await;
    assert_has!(kept, { "status": "completed", "outputBytes": 2_000_000 });
    assert_eq!(verified(&server).await["firstSeq"], 1);

    later(&mut server, "11").await;
    let operator = server.operator();
    gone(&operator, &run).await;
    assert_eq!(operator.read(&asked).await["status"], "denied");
    assert_eq!(operator.read(&approval).await["status"], "denied");
    let pruned = eventually(
        "pruned",
        || verified(&server),
        |verified| verified["firstSeq"].as_i64() > Some(1),
    )
    .await;
    assert_eq!(pruned["ok"], true, "{pruned}");
    let anchors = operator.read("/v1/audit?action=audit.pruned").await;
    assert_eq!(anchors["items"][0]["detail"]["fromSeq"], 1, "{anchors}");

    later(&mut server, "29").await;
    assert_eq!(status(&server.operator(), &approval).await, 200);
    later(&mut server, "31").await;
    gone(&server.operator(), &asked).await;
    server
        .operator()
        .get(&approval)
        .await
        .problem(404, "approval-not-found");
    assert_eq!(verified(&server).await["ok"], true);
}

#[tokio::test]
async fn what_is_to_be_kept_for_ever_is() {
    let mut server = TestServer::full()
        .toml("[database]\nkeep_runs_days = 0\nkeep_audit_days = 0\n")
        .start()
        .await;
    let run = server.ran(json!({ "argv": ["/bin/true"] })).await;
    let run = format!("/v1/runs/{}", run.text("runId"));
    later(&mut server, "3650").await;
    let operator = server.operator();
    // The first pass over everything is done once old events are gone.
    eventually("forgotten", || oldest_event(&operator), |oldest| *oldest > 1).await;
    operator.read(&run).await;
    assert_eq!(verified(&server).await["firstSeq"], 1);
}

#[tokio::test]
async fn the_anchor_can_be_neither_moved_nor_removed() {
    let changes = [
        "DELETE FROM meta WHERE key = 'audit_anchor'",
        "DELETE FROM audit WHERE seq = (SELECT min(seq) FROM audit)",
        "UPDATE meta SET value = replace(value, '\"seq\":', '\"seq\":1') WHERE key = 'audit_anchor'",
    ];
    for change in changes {
        let mut server = TestServer::full().toml(KEEP).start().await;
        for _ in 0..3 {
            let call = json!({ "argv": ["/bin/true"] });
            server.ran(call).await;
        }
        later(&mut server, "6").await;
        let is_pruned = |verified: &Value| verified["firstSeq"].as_i64() > Some(1);
        let whole = eventually("pruned", || verified(&server), is_pruned).await;
        assert_eq!(whole["ok"], true, "{whole}");
        assert_eq!(server.stop().await, Some(0));
        let ledger = rusqlite::Connection::open(server.database()).expect("the ledger");
        let changed = ledger.execute(change, ()).expect("a change");
        assert_eq!(changed, 1, "{change}");
        drop(ledger);
        let offline = server.cli(&["audit", "verify", "--offline", "--json"]).await;
        assert_eq!(offline.code, Some(1), "{change}: {offline:?}");
    }
}

fn ledger_bytes(server: &TestServer) -> u64 {
    std::fs::metadata(server.database()).expect("the ledger").len()
}

#[tokio::test]
async fn the_ledger_s_file_gives_back_the_room_of_what_was_removed() {
    let mut server = TestServer::full().toml(KEEP).start().await;
    // As much output of each as the record keeps.
    let output = json!({ "command": "head -c 60000 /dev/zero | tr '\\0' x" });
    for _ in 0..100 {
        server.ran(output.clone()).await;
    }
    assert_eq!(server.stop().await, Some(0));
    let before = ledger_bytes(&server);
    assert!(before > 5 << 20, "{before}");
    server.start_with(&[("COUNTERSIGN_TEST_DAYS_AHEAD", "31")]).await;
    let log = || async { server.log() };
    let told = |log: &String| log.contains("gives back the room");
    eventually("given back", log, told).await;
    assert_eq!(verified(&server).await["ok"], true);
    server.ran(output).await;
    assert_eq!(server.stop().await, Some(0));
    let after = ledger_bytes(&server);
    assert!(after < before / 2, "{before} bytes became {after}");
}

#[tokio::test]
async fn a_file_of_an_earlier_version_is_written_anew_at_a_start_if_most_of_it_is_free() {
    let mut server = TestServer::full().start().await;
    let run = server.ran(json!({ "argv": ["echo", "kept"] })).await;
    let run = format!("/v1/runs/{}", run.text("runId"));
    assert_eq!(server.stop().await, Some(0));
    let path = server.database();
    let ledger = || rusqlite::Connection::open(&path).expect("the ledger");
    let mode = || ledger().query_row("PRAGMA auto_vacuum", (), |row| row.get::<_, i64>(0));
    assert_eq!(mode(), Ok(2), "a new ledger lets its free pages go");
    let leave_free = |bytes: u64| {
        let sql = format!(
            "PRAGMA auto_vacuum = NONE; VACUUM; CREATE TABLE bulk (bytes); \
             INSERT INTO bulk VALUES (zeroblob({bytes})); DROP TABLE bulk; PRAGMA wal_checkpoint(TRUNCATE);"
        );
        ledger().execute_batch(&sql).expect("free pages");
    };
    // It saves little: nothing is done.
    leave_free(1 << 20);
    let before = ledger_bytes(&server);
    server.start().await;
    assert_eq!(server.stop().await, Some(0));
    assert_eq!(ledger_bytes(&server), before);
    assert!(!server.log().contains("written anew"), "{}", server.log());

    leave_free(12 << 20);
    assert_eq!(mode(), Ok(0));
    let before = ledger_bytes(&server);
    server.start().await;
    assert!(server.log().contains("written anew"), "{}", server.log());
    assert_has!(server.operator().read(&run).await, { "status": "completed", "tail": "kept\n" });
    assert_eq!(verified(&server).await["ok"], true);
    assert_eq!(server.stop().await, Some(0));
    let after = ledger_bytes(&server);
    assert!(after < before / 2, "{before} bytes became {after}");
    assert_eq!(mode(), Ok(2), "from now on it lets its free pages go");
}
