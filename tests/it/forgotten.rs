//! Runs that the ledger has forgotten: its log was cut, damaged, deleted or replaced while no server ran. What ran has a record
//! all the same, nothing runs twice, and the record is no longer taken for complete.

use std::{
    fs,
    path::{Path, PathBuf},
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    run_files::with_checksum,
    support::{Api, Members, TestServer, eventually, is_alive, lines, only, write_file_mode},
};

/// How the ledger was left.
type Damage = fn(&Left);

/// A dead server whose log has all that came after a stop.
struct Left {
    server: TestServer,
    marker: PathBuf,
    /// The ledger and the sealed head as they were at that stop.
    older: Vec<u8>,
    head: Vec<u8>,
    /// A command that went on alone.
    sleeper: i32,
}

fn log_of(server: &TestServer) -> PathBuf {
    beside(&server.database(), "-wal")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn head_of(server: &TestServer) -> PathBuf {
    server.state().join("countersign/audit.head")
}

/// The runs that have a file.
fn filed(server: &TestServer) -> Vec<String> {
    let entries = fs::read_dir(server.state().join("countersign/runs")).expect("the directory of run files");
    let entries = entries.map(|entry| entry.expect("an entry"));
    entries
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().into_string().expect("a name"))
        .collect()
}

async fn left() -> Left {
    let mut server = TestServer::full().start().await;
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(server.stop().await, Some(0));
    let older = fs::read(server.database()).expect("the ledger");
    let head = fs::read(head_of(&server)).expect("the head");
    server.start().await;
    let reader = rusqlite::Connection::open(server.database()).expect("the ledger");
    // As long as this one reads, nothing of the log that follows is folded into the ledger.
    let count = "BEGIN; SELECT count(*) FROM runs";
    reader.execute_batch(count).expect("a view of the ledger");
    let work = server.scratch().dir("work");
    let (marker, pid) = (work.join("marker"), work.join("pid"));
    for number in 0..8 {
        let command = format!("echo {number} >> {}", marker.display());
        server.ran(json!({ "command": command })).await;
    }
    let command = format!(
        "echo long >> {}; echo $$ > {}; exec sleep 1000",
        marker.display(),
        pid.display()
    );
    let call = json!({ "command": command, "background": true });
    let answer = server.agent().exec_with_key("kept", call).await;
    assert!(answer.status < 300, "{}", answer.text());
    let noted = eventually("started", || async { lines(&pid) }, |lines| !lines.is_empty()).await;
    let sleeper = noted[0].parse().expect("a process");
    let head_now = || async { fs::read(head_of(&server)).expect("the head") };
    let newest = server.operator().read("/v1/audit/verify").await["lastSeq"].clone();
    eventually("sealed", head_now, |sealed| {
        let sealed: Value = serde_json::from_slice(sealed).expect("a head");
        sealed["seq"].as_i64() >= newest.as_i64()
    })
    .await;
    server.kill();
    keep_log(&server, reader);
    Left {
        server,
        marker,
        older,
        head,
        sleeper,
    }
}

/// Closes the last connection to a ledger as a kill would: it leaves the log.
fn keep_log(server: &TestServer, connection: rusqlite::Connection) {
    let index = beside(&server.database(), "-shm");
    let files = [server.database(), log_of(server), index];
    let kept = files
        .clone()
        .map(|file| fs::read(file).expect("a file of the ledger"));
    drop(connection);
    for (file, bytes) in files.iter().zip(kept) {
        write_file_mode(file, bytes, 0o600);
    }
}

fn change_log(server: &TestServer, change: impl FnOnce(&mut Vec<u8>)) {
    let log = log_of(server);
    let mut bytes = fs::read(&log).expect("the log");
    assert!(bytes.len() > 100_000, "{}", bytes.len());
    change(&mut bytes);
    write_file_mode(&log, bytes, 0o600);
}

const DAMAGES: [(&str, Damage); 5] = [
    ("the log is deleted", |left| {
        fs::remove_file(log_of(&left.server)).expect("the log");
    }),
    ("the log is empty", |left| change_log(&left.server, Vec::clear)),
    ("the log is cut", |left| {
        change_log(&left.server, |bytes| bytes.truncate(bytes.len() / 2));
    }),
    ("a bit of the log is flipped", |left| {
        change_log(&left.server, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
    }),
    ("an older ledger is put in place", |left| {
        fs::remove_file(log_of(&left.server)).expect("the log");
        write_file_mode(&left.server.database(), &left.older, 0o600);
    }),
];

async fn doctor(server: &TestServer) -> String {
    server.cli(&["doctor", "--json"]).await.stdout
}

async fn verified(server: &TestServer) -> Value {
    server.operator().read("/v1/audit/verify").await
}

/// What a start makes of a ledger that forgot some of this.
async fn found(left: &mut Left, what: &str, kind: &str) {
    let (server, marker) = (&mut left.server, &left.marker);
    let (files, ran) = (filed(server), lines(marker));
    server.start().await;
    let mut lost = 0;
    for run in &files {
        let run = server.operator().read(&format!("/v1/runs/{run}")).await;
        let seen = only(&run, &["runId", "status", "reason", "detail"]);
        assert!(
            run["status"] == "lost" || run["status"] == "completed",
            "{what}: {seen}"
        );
        lost += usize::from(run["status"] == "lost" && run["reason"] == "server-restart");
    }
    // Two that ended, and the one that still ran.
    assert!(lost >= 3, "{what}: {lost} of {files:?}");
    assert!(!is_alive(left.sleeper), "{what}: it runs, and is on no record");
    assert_eq!(lines(marker), ran, "{what}");
    let report = verified(server).await;
    assert_eq!(
        (&report["ok"], &report["problem"]["kind"]),
        (&json!(false), &json!(kind)),
        "{what}: {report}"
    );
    let ready = server.operator().read("/readyz").await;
    assert_has!(ready, { "degraded": true, "checks/record/ok": false });
    let offline = server.cli(&["audit", "verify", "--offline"]).await;
    assert_eq!(offline.code, Some(1), "{what}: {offline:?}");
    let told = doctor(server).await;
    assert!(told.contains("ledger-forgot-runs"), "{what}: {told}");
    let recorded = server
        .operator()
        .read("/v1/audit?action=run.forgotten&limit=200")
        .await;
    assert_eq!(recorded.list("items").len(), lost, "{what}: {recorded}");
    // The next start finds nothing new, and does not call it well.
    server.crash_and_restart().await;
    let again = server
        .operator()
        .read("/v1/audit?action=run.forgotten&limit=200")
        .await;
    assert_eq!(again["items"], recorded["items"], "{what}");
    let ready = server.operator().read("/readyz").await;
    assert_has!(ready, { "degraded": true, "checks/record/ok": false });
    assert_eq!(server.stop().await, Some(0));
    let reset = server
        .cli(&["audit", "reset", "--reason", "power was lost"])
        .await;
    assert_eq!(reset.code, Some(0), "{what}: {reset:?}");
    server.start().await;
    assert_eq!(verified(server).await["ok"], true, "{what}");
    let ready = server.operator().read("/readyz").await;
    assert_eq!(ready["degraded"], false, "{what}: {ready}");
    let told = doctor(server).await;
    assert!(!told.contains("ledger-forgot-runs"), "{what}: {told}");
    assert_eq!(lines(marker), ran, "{what}");
}

/// Only the files of the runs tell of them: nothing was sealed since.
#[tokio::test]
async fn what_the_files_of_runs_tell_is_recorded_as_lost() {
    for (what, damage) in DAMAGES {
        let mut left = left().await;
        damage(&left);
        write_file_mode(&head_of(&left.server), &left.head, 0o600);
        found(&mut left, what, "forgotten").await;
    }
}

/// The head tells as well, also before a server starts.
#[tokio::test]
async fn a_log_that_ends_before_the_head_is_a_broken_record() {
    let (what, damage) = DAMAGES[0];
    let mut left = left().await;
    damage(&left);
    let offline = left.server.cli(&["audit", "verify", "--offline", "--json"]).await;
    assert_eq!(offline.code, Some(1), "{offline:?}");
    let report: Value = serde_json::from_str(&offline.stdout).expect("a report");
    assert_eq!(report["problem"]["kind"], "truncated", "{report}");
    left.server.start().await;
    assert_eq!(verified(&left.server).await["problem"]["kind"], "missing");
    let ready = left.server.operator().read("/readyz").await;
    ready["checks"]["record"].says("detail", "truncated");
    left.server.crash_and_restart().await;
    let told = doctor(&left.server).await;
    assert!(told.contains("ledger-forgot-runs"), "{what}: {told}");
    assert!(!is_alive(left.sleeper));
}

/// Every run ends as it did, and there is no finding.
async fn nothing_is_forgotten(server: &TestServer) {
    let report = verified(server).await;
    assert_eq!(report["ok"], true, "{report}");
    let ready = server.operator().read("/readyz").await;
    assert_eq!(ready["degraded"], false, "{ready}");
    let told = doctor(server).await;
    assert!(!told.contains("ledger-forgot-runs"), "{told}");
    let lost = server.operator().read("/v1/runs?status=lost").await;
    assert!(lost.list("items").is_empty(), "{lost}");
}

#[tokio::test]
async fn a_crash_and_a_stop_are_no_loss() {
    let mut left = left().await;
    left.server.start().await;
    nothing_is_forgotten(&left.server).await;
    assert!(is_alive(left.sleeper), "a background run goes on");
    let runs = left.server.operator().read("/v1/runs?status=running").await;
    let run = runs.list("items")[0].text("runId").to_owned();
    left.server.agent().cancel(&run).await;
    left.server.agent().finished(&run).await;
    assert_eq!(left.server.stop().await, Some(0));
    left.server.start().await;
    nothing_is_forgotten(&left.server).await;
}

/// A server that dies between removing a run and its file leaves a file of a run that it does not know.
#[tokio::test]
async fn what_retention_removed_is_not_forgotten() {
    let mut server = TestServer::full()
        .toml("[database]\nkeep_runs_days = 10\n[approvals]\nalways_reachable = true\n")
        .start()
        .await;
    let run = server.ran(json!({ "argv": ["/bin/true"] })).await;
    let run = run.text("runId").to_owned();
    assert_eq!(server.stop().await, Some(0));
    let file = server.state().join("countersign/runs").join(&run);
    let told = fs::read(&file).expect("a run file");
    server.start_with(&[("COUNTERSIGN_TEST_DAYS_AHEAD", "11")]).await;
    let gone = || async { server.operator().get(&format!("/v1/runs/{run}")).await.status };
    eventually("gone", gone, |status| *status == 404).await;
    eventually("gone", || async { file.exists() }, |exists| !exists).await;
    server.kill();
    write_file_mode(&file, told, 0o600);
    server.start().await;
    nothing_is_forgotten(&server).await;
    assert!(!file.exists(), "it went with its run");
}

/// A run that the ledger knows as a question, and that a person allowed afterwards.
#[tokio::test]
async fn a_launch_that_was_forgotten_is_not_done_again() {
    let mut server = TestServer::asking().start().await;
    let marker = server.scratch().dir("work").join("marker");
    let command = json!({ "command": format!("echo ran >> {}", marker.display()) });
    let asked = server.asked(command).await;
    assert_eq!(server.stop().await, Some(0));
    let older = fs::read(server.database()).expect("the ledger");
    server.start().await;
    assert_eq!(server.answered(&asked, "allow-once").await["status"], "completed");
    assert_eq!(server.stop().await, Some(0));
    write_file_mode(&server.database(), older, 0o600);
    server.start().await;
    let run = server
        .operator()
        .read(&format!("/v1/runs/{}", asked.text("runId")))
        .await;
    assert_has!(run, { "status": "lost", "reason": "server-restart" });
    let answer = server
        .operator()
        .decide(asked.text("approvalId"), "allow-once")
        .await;
    answer.problem(410, "approval-cancelled");
    assert_eq!(lines(&marker), ["ran"]);
    assert_eq!(verified(&server).await["ok"], false);
}

/// A ledger that forgot one run may have forgotten the launch of another, whose file a later run has.
#[tokio::test]
async fn nothing_is_started_by_a_ledger_that_forgot_something() {
    for forgot in [false, true] {
        let mut server = TestServer::asking().prepare();
        server
            .start_until_ready_or_dead(&[("COUNTERSIGN_TEST_KILL", "engine.before-launch-approved")])
            .await;
        let work = server.scratch().dir("work");
        let (program, marker) = (work.join("program"), work.join("marker"));
        let script = format!("#!/bin/sh\necho ran >> {}\n", marker.display());
        write_file_mode(&program, script, 0o755);
        let asked = server.asked(json!({ "argv": [program] })).await;
        // An answer that is remembered, and the launch that follows from it, are two steps.
        let decision = format!("/v1/approvals/{}/decision", asked.text("approvalId"));
        let decision = server.operator().request(Method::POST, &decision);
        drop(Api::try_send(decision.json(&json!({ "decision": "allow-always" }))).await);
        server.wait_killed().await;
        if forgot {
            let name = "0199f000-0000-7000-8000-000000000001";
            let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
            let fence = with_checksum(&format!("started 999999 {} 1 launch-1", boot.trim()));
            let runs = server.state().join("countersign/runs");
            write_file_mode(&runs.join(name), format!("{fence}\n"), 0o600);
        }
        server.start().await;
        let run = server.agent().finished(asked.text("runId")).await;
        let expected = if forgot { ("lost", 0) } else { ("completed", 1) };
        assert_eq!((run.text("status"), lines(&marker).len()), expected, "{run}");
    }
}

/// Where a log was folded into the ledger and then cut, its old pages lie over newer ones.
#[tokio::test]
async fn a_ledger_that_contradicts_itself_is_not_used() {
    let mut server = TestServer::full().start().await;
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(server.stop().await, Some(0));
    let older = fs::read(server.database()).expect("the ledger");
    let ledger = rusqlite::Connection::open(server.database()).expect("the ledger");
    ledger
        .pragma_update(None, "wal_autocheckpoint", 0)
        .expect("a log that is folded in at once");
    let row = "INSERT INTO idempotency (token_id, key, body_sha256, created_ms) VALUES ('t', ?1, hex(randomblob(200)), ?2)";
    let insert = |key: String, created: i64| {
        ledger.execute(row, (key, created)).expect("a row");
    };
    (0..1000).for_each(|number| insert(format!("a{number:04}"), number * 1000));
    let fold = ledger.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get::<_, i64>(0));
    assert_eq!(fold, Ok(0), "it is folded in");
    // They go to the same pages of the table, and to other ones of the index.
    (0..100).for_each(|number| insert(format!("y{number:04}"), 1));
    (0..100).for_each(|number| insert(format!("z{number:04}"), 1_000_000_000));
    let fold = ledger.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |row| row.get::<_, i64>(0));
    assert_eq!(fold, Ok(0), "it is folded in");
    keep_log(&server, ledger);
    change_log(&server, |bytes| bytes.truncate(bytes.len() / 2));
    for _start in 0..2 {
        assert_eq!(server.start_fails().await, Some(78), "{}", server.log());
    }
    assert!(server.log().contains("was damaged"), "{}", server.log());
    // A copy helps, which has no log.
    for ending in ["-wal", "-shm"] {
        drop(fs::remove_file(beside(&server.database(), ending)));
    }
    write_file_mode(&server.database(), older, 0o600);
    server.start().await;
    nothing_is_forgotten(&server).await;
}
