//! A full disk, or a ledger that another program holds: nothing runs unrecorded, the server says what is wrong, nobody waits
//! for longer than they asked for, and it goes on when there is room again.

use std::{fs, time::Duration};

use countersign_sys::hooks;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Answer, Members, Scratch, SmallDisk, TestServer, eventually, lines, write_file};

#[tokio::test]
async fn a_full_disk_runs_nothing_and_recovers() {
    let place = Scratch::new();
    let disk_at = place.dir("disk");
    let disk = or_skip!(SmallDisk::mount(&disk_at));
    let outside = Scratch::new();
    let ran = outside.join("ran");
    let server = TestServer::full().state_dir(&disk_at.join("state")).start().await;
    let agent = server.agent();
    let body = json!({ "command": format!("echo ran >> {}", ran.display()), "workdir": outside.path() });
    let mut answered = 0;
    agent.ran(body.clone()).await;
    answered += 1;
    server
        .operator()
        .made("/v1/agents/main/allowlist", json!({ "pattern": "/opt/kept" }))
        .await;
    let document = server.document_on_disk();

    disk.fill();
    // What the ledger has allocated already may hold a few records, but not the end of what would begin.
    for _ in 0..3 {
        agent.exec(body.clone()).await.problem(507, "storage-full");
    }
    assert_eq!(lines(&ran).len(), answered, "what was refused did not run");
    let not_ready = || async { server.anonymous().get("/readyz").await };
    let ready = eventually("not ready", not_ready, |answer| answer.status == 503)
        .await
        .json();
    assert_has!(ready, { "status": "not-ready", "checks/database/ok": false });
    let check = server.cli(&["doctor", "--ready"]).await;
    assert_eq!(
        (check.code, check.stdout.as_str()),
        (Some(1), "not ready\n"),
        "{check:?}"
    );
    assert!(check.stderr.starts_with("database: "), "{check:?}");
    let added = server
        .operator()
        .post("/v1/agents/main/allowlist", json!({ "pattern": "/opt/lost" }))
        .await;
    assert!([503, 507].contains(&added.status), "{}", added.text());
    assert_eq!(server.document_on_disk(), document, "the document is as it was");
    assert_eq!(server.anonymous().get("/healthz").await.status, 200);

    disk.make_room();
    let again = || async { agent.exec(body.clone()).await.status };
    eventually("running again", again, |status| {
        answered += usize::from(*status == 200);
        *status == 200
    })
    .await;
    assert_eq!(lines(&ran).len(), answered);
    let ready = || async { server.anonymous().get("/readyz").await.status };
    eventually("ready", ready, |status| *status == 200).await;
    let runs = agent.read("/v1/runs?status=completed&limit=500").await["items"].clone();
    assert_eq!(
        runs.as_array().map(Vec::len),
        Some(answered),
        "each that ran is recorded"
    );
    let verified: Value = server.operator().read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true, "{verified}");
    drop(server);
    drop(disk);
}

#[tokio::test]
async fn what_runs_ends_on_record_while_nothing_begins_for_want_of_room() {
    let place = Scratch::new();
    let disk_at = place.dir("disk");
    let disk = or_skip!(SmallDisk::mount(&disk_at));
    let server = TestServer::full().state_dir(&disk_at.join("state")).start().await;
    let agent = server.agent();
    let go_on = place.join("go-on");
    let command = format!(
        "until [ -e {} ]; do sleep 0.02; done; echo ended",
        go_on.display()
    );
    let running = agent
        .accepted(json!({ "command": command, "background": true }))
        .await;

    disk.fill_but(512 * 1024);
    agent
        .exec(json!({ "argv": ["true"] }))
        .await
        .problem(507, "storage-full");
    write_file(&go_on, "");
    let run = agent.finished(running.text("runId")).await;
    assert_has!(run, { "status": "completed", "exitCode": 0 });
    disk.make_room();
    let again = || async { agent.exec(json!({ "argv": ["true"] })).await.status };
    eventually("running again", again, |status| *status == 200).await;
    drop(server);
    drop(disk);
}

#[tokio::test]
async fn a_full_disk_under_the_document_loses_no_entry_and_no_answer() {
    let place = Scratch::new();
    let disk_at = place.dir("disk");
    let disk = or_skip!(SmallDisk::mount(&disk_at));
    // The ledger lies elsewhere and has all the room it needs.
    let path = disk_at.join("exec-approvals.json");
    let server = TestServer::asking_with(&format!("path = {path:?}")).start().await;
    let operator = server.operator();
    operator
        .made("/v1/agents/main/allowlist", json!({ "pattern": "/bin/true" }))
        .await;
    let before = fs::read(&path).unwrap();

    disk.fill();
    operator
        .post("/v1/agents/main/allowlist", json!({ "pattern": "/opt/lost" }))
        .await
        .problem(507, "storage-full");
    let pending = server
        .accepted(json!({ "argv": ["/bin/date", "--version"] }))
        .await;
    let approval = pending.text("approvalId");
    // The answer itself is kept by the ledger.
    operator.decided(approval, "allow-always").await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_has!(run, { "status": "completed", "exitCode": 0 });
    assert_eq!(fs::read(&path).unwrap(), before, "never half a document");
    let mut left: Vec<_> = fs::read_dir(&disk_at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert!(
        left.iter()
            .all(|name| !name.to_string_lossy().contains("tmp") && name != "lost"),
        "{left:?}"
    );
    // What the document allows is still allowed, and nothing else is.
    let covered = json!({ "argv": ["/bin/true"] });
    assert_eq!(server.agent().exec(covered).await.status, 200);
    server.accepted(json!({ "argv": ["/bin/date", "--help"] })).await;

    disk.make_room();
    operator
        .made("/v1/agents/main/allowlist", json!({ "pattern": "/opt/kept" }))
        .await;
    let after = fs::read_to_string(&path).unwrap();
    assert!(after.contains("/bin/true") && after.contains("/opt/kept") && !after.contains("/opt/lost"));
    drop(server);
    drop(disk);
}

/// Most that a call may take beyond what it waits for, no matter what fails.
const BEYOND: Duration = Duration::from_secs(5);

/// Has another program hold the ledger, so that nothing can be written to it until this is dropped.
fn hold(server: &TestServer) -> Connection {
    let ledger = Connection::open(server.database()).expect("the ledger");
    ledger.busy_timeout(BEYOND).expect("a time to wait");
    ledger
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the ledger's lock");
    ledger
}

async fn in_time(what: &str, call: impl Future<Output = Answer>) -> Answer {
    let answer = tokio::time::timeout(BEYOND, call).await;
    answer.unwrap_or_else(|_elapsed| panic!("{what}: no answer in time"))
}

#[tokio::test]
async fn nobody_waits_for_an_end_that_cannot_be_recorded() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let place = Scratch::new();
    let (began, go_on) = (place.join("began"), place.join("go-on"));
    let command = format!(
        "touch {}; until [ -e {} ]; do sleep 0.02; done; echo ended",
        began.display(),
        go_on.display()
    );
    let body = json!({ "command": command, "yieldMs": 600_000 });
    let mut call = Box::pin(agent.exec_with_key("key", body.clone()));
    let is_there = || async { began.exists() };
    tokio::select! {
        _there = eventually("begun", is_there, |there| *there) => {}
        answer = &mut call => panic!("{}", answer.text()),
    }
    let held = hold(&server);
    write_file(&go_on, "");
    let refused = in_time("the call", call).await;
    let refused = refused.problem(503, "storage-unavailable");
    assert!(
        refused.text("detail").contains("its end cannot be recorded yet"),
        "{refused}"
    );
    let run = refused.text("runId").to_owned();
    // Who asks again, and who cancels, is told the same, and the record says no more than it knows.
    let again = in_time("the same again", agent.exec_with_key("key", body.clone())).await;
    assert_eq!(again.problem(503, "storage-unavailable")["runId"], json!(run));
    let path = format!("/v1/runs/{run}/cancel");
    let cancel = agent.post(&path, json!({}));
    in_time("cancelling", cancel)
        .await
        .problem(503, "storage-unavailable");
    // Its start may be among what could not be recorded.
    let status = agent.run(&run).await["status"].clone();
    assert!(status == "running" || status == "queued", "{status}");
    in_time("another call", agent.exec(json!({ "argv": ["true"] })))
        .await
        .problem(503, "storage-unavailable");
    drop(held);
    let ended = agent.finished(&run).await;
    assert_has!(ended, { "status": "completed", "exitCode": 0, "tail": "ended\n" });
    let again = agent.exec_with_key("key", body).await;
    assert_has!(again.json(), { "status": "completed", "stdout": "ended\n", "runId": run });
}

#[tokio::test]
async fn nobody_waits_for_the_record_of_a_run_that_could_not_start() {
    let pauses = Scratch::new();
    let server = TestServer::full()
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().expect("text"))
        .start()
        .await;
    let agent = server.agent();
    let place = Scratch::new();
    let workdir = place.dir("gone");
    let (wanted, reached) = (pauses.join("host.begun"), pauses.join("host.begun.reached"));
    write_file(&wanted, "");
    let body = json!({ "argv": ["true"], "workdir": workdir, "yieldMs": 600_000 });
    let mut call = Box::pin(agent.exec(body));
    let is_there = || async { reached.exists() };
    tokio::select! {
        _there = eventually("permitted", is_there, |there| *there) => {}
        answer = &mut call => panic!("{}", answer.text()),
    }
    fs::remove_dir(&workdir).expect("an empty directory");
    let held = hold(&server);
    fs::remove_file(&reached).expect("the way on");
    let refused = in_time("the call", call).await;
    let refused = refused.problem(503, "storage-unavailable");
    let run = refused.text("runId").to_owned();
    assert_eq!(agent.run(&run).await["status"], "queued");
    drop(held);
    let ended = agent.finished(&run).await;
    assert_has!(ended, { "status": "denied", "reason": "binding-mismatch" });
    agent.ran(json!({ "argv": ["true"] })).await;
}

#[tokio::test]
async fn a_server_that_cannot_record_an_end_still_stops() {
    let mut server = TestServer::full()
        .toml("[shutdown]\ngrace_ms = 100\n")
        .start()
        .await;
    let agent = server.agent();
    let place = Scratch::new();
    let go_on = place.join("go-on");
    let command = format!("until [ -e {} ]; do sleep 0.02; done", go_on.display());
    let running = agent
        .accepted(json!({ "command": command, "background": true }))
        .await;
    let held = hold(&server);
    write_file(&go_on, "");
    let refused = in_time("a call", agent.exec(json!({ "argv": ["true"] }))).await;
    refused.problem(503, "storage-unavailable");
    server.stop().await;
    drop(held);
    server.start().await;
    let run = server.agent().finished(running.text("runId")).await;
    assert_has!(run, { "status": "completed", "exitCode": 0 });
}
