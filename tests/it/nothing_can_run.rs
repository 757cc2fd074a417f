//! The machine takes away what commands need: the state directory, room for files, descriptors. Nothing runs then, the
//! server says why, and a lack of the machine is never a verdict about a command.

use std::{fs, net::TcpStream};

use serde_json::{Value, json};

use crate::support::{Api, Members, Scratch, SmallDisk, TestServer, assert_says, eventually, write_file};

async fn probe(api: &Api) -> (u16, Value) {
    let answer = api.get("/readyz").await;
    (answer.status, answer.json())
}

/// A server that may have so many files open.
fn with_open_files(builder: crate::support::ServerBuilder, most: u32) -> crate::support::ServerBuilder {
    let limited = format!("ulimit -n {most} && exec \"$@\"");
    builder.behind("sh", &["-c", &limited, "sh"])
}

#[tokio::test]
async fn a_deleted_state_directory_stops_everything_and_denies_nothing() {
    let server = TestServer::full().start().await;
    let (agent, operator, anyone) = (server.agent(), server.operator(), server.anonymous());
    let ran = server.scratch().join("ran");
    let body = json!({ "argv": ["/usr/bin/touch", ran] });
    agent.ran(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(probe(&anyone).await.0, 200);

    fs::remove_dir_all(server.state()).expect("deleting the state directory");
    for _ in 0..2 {
        let refused = agent.exec(body.clone()).await.problem(503, "storage-unavailable");
        let detail = refused.text("detail");
        assert!(detail.contains("deleted"), "{refused}");
        let explained = operator.post("/v1/exec/explain", body.clone()).await;
        explained.problem(503, "storage-unavailable");
    }
    let (status, ready) = probe(&anyone).await;
    assert_eq!((status, &ready["status"]), (503, &json!("not-ready")));
    let check = &ready["checks"]["database"];
    assert_eq!(check["ok"], false);
    assert!(check.text("detail").contains("deleted"), "{ready}");
    assert_eq!(anyone.get("/healthz").await.status, 200);
    assert!(!ran.exists(), "nothing ran");
}

#[tokio::test]
async fn an_approved_command_waits_while_the_state_directory_is_away() {
    let server = TestServer::asking().start().await;
    let ran = server.scratch().join("ran");
    let pending = server.asked(json!({ "argv": ["/usr/bin/touch", ran] })).await;
    let (agent, operator) = (server.agent(), server.operator());
    let away = server.scratch().join("away");
    fs::rename(server.state(), &away).expect("moving the state directory");
    let id = |member: &str| pending[member].as_str().expect(member).to_owned();
    operator.decided(&id("approvalId"), "allow-once").await;
    assert_eq!(probe(&operator).await.0, 503);
    let run = agent.run(&id("runId")).await;
    assert!(!ran.exists(), "{run}");
    // Settings that are away for a moment are no stricter policy.
    fs::rename(&away, server.state()).expect("moving it back");
    let run = agent.finished(&id("runId")).await;
    assert_eq!(
        (&run["status"], ran.exists()),
        (&json!("completed"), true),
        "{run}"
    );
}

#[tokio::test]
async fn a_document_that_cannot_be_read_denies_nothing() {
    let place = Scratch::new();
    let directory = place.dir("policy");
    let document = directory.join("exec-approvals.json");
    let server = TestServer::asking_with(&format!("path = {document:?}"))
        .start()
        .await;
    let (agent, operator) = (server.agent(), server.operator());
    let ran = server.scratch().join("ran");
    let touch = json!({ "argv": ["/usr/bin/touch", ran] });
    let pending = server.asked(touch.clone()).await;
    // In the place of its directory is a file, so that looking fails.
    let away = server.scratch().join("away");
    fs::rename(&directory, &away).expect("moving the directory of the document");
    write_file(&directory, "");
    let refused = agent.exec(touch).await;
    let problem = refused.problem(503, "overloaded");
    problem.says("detail", "document");
    assert_eq!(probe(&agent).await.1["checks"]["document"]["ok"], false);
    let approval = pending.text("approvalId");
    operator.decided(approval, "allow-once").await;

    fs::remove_file(&directory).expect("removing the file");
    fs::rename(&away, &directory).expect("moving it back");
    let run = agent.finished(pending.text("runId")).await;
    assert_eq!(
        (&run["status"], ran.exists()),
        (&json!("completed"), true),
        "{run}"
    );
}

#[tokio::test]
async fn too_few_open_files_fail_the_start_with_both_numbers() {
    let server = with_open_files(TestServer::full(), 64).prepare();
    assert_eq!(server.start_fails().await, Some(78));
    let log = server.log();
    assert_says(
        &log,
        "error[open-files]: it needs at least 256 open files and may have 64",
    );
}

#[tokio::test]
async fn without_descriptors_a_command_gets_no_verdict() {
    let server = with_open_files(
        TestServer::allowlist_only().toml("[limits]\nheader_timeout_ms = 600000\nanonymous_per_second = 0\n"),
        256,
    )
    .start()
    .await;
    let agent = server.agent();
    // Keeps its connection from here on.
    let denied = json!({ "argv": ["/usr/bin/id"] });
    let asked = || async { agent.exec(denied.clone()).await };
    asked().await.problem(403, "exec-denied");

    let address = server.address();
    let mut held: Vec<TcpStream> = Vec::new();
    let not_ready = || {
        held.push(TcpStream::connect(address).expect("a connection"));
        probe(&agent)
    };
    let (_status, ready) = eventually("no descriptors", not_ready, |(status, _)| *status == 503).await;
    let check = &ready["checks"]["machine"];
    assert_eq!(check["ok"], false, "{ready}");
    assert!(check.text("detail").contains("files"), "{ready}");
    for _ in 0..20 {
        let refused = asked().await;
        refused.problem(503, "overloaded");
        held.push(TcpStream::connect(address).expect("a connection"));
    }

    held.clear();
    let ready = || probe(&agent);
    eventually("ready again", ready, |(status, _)| *status == 200).await;
    asked().await.problem(403, "exec-denied");
}

#[tokio::test]
async fn a_disk_without_room_for_another_file_is_full() {
    let place = Scratch::new();
    let disk_at = place.dir("disk");
    let disk = or_skip!(SmallDisk::mount_with(&disk_at, "size=64m,nr_inodes=400"));
    let server = TestServer::full().state_dir(&disk_at.join("state")).start().await;
    let agent = server.agent();
    let body = json!({ "argv": ["/bin/true"] });
    agent.ran(body.clone()).await;

    let fillers: Vec<_> = (0..400)
        .map(|number| disk_at.join(format!("filler-{number}")))
        .take_while(|path| fs::File::create(path).is_ok())
        .collect();
    agent.exec(body.clone()).await.problem(507, "storage-full");
    let (status, ready) = probe(&server.anonymous()).await;
    assert_eq!((status, &ready["checks"]["database"]["ok"]), (503, &json!(false)));
    for path in fillers {
        fs::remove_file(path).expect("removing a filler");
    }
    let again = || async { agent.exec(body.clone()).await.status };
    eventually("running again", again, |status| *status == 200).await;
    drop(server);
    drop(disk);
}
