//! Where the socket may lie, who may host it, and what is said when it cannot be hosted.

use std::{
    fs::{self, Permissions},
    io::Read as _,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
};

use serde_json::{Value, json};

use super::support::Asker;
use crate::support::{Members, ServerBuilder, TestServer, eventually, soon, write_file};

fn at(path: &Path) -> ServerBuilder {
    TestServer::full()
        .document(&json!({ "version": 1, "socket": { "path": path, "token": "a-token-of-the-test" }, "agents": {} }))
        .toml("[ipc]\nrole = \"host\"\n")
        .with_socket()
}

/// The server is ready, says that something is missing, and doctor says what.
async fn expect_not_hosted(server: &mut TestServer, why: &str) {
    server.start().await;
    let ready = server.anonymous().read("/readyz").await;
    assert_has!(ready, { "status": "ready", "degraded": true });
    assert_eq!(ready["checks"]["ipc"]["ok"], false, "{ready}");
    assert!(
        !ready.to_string().contains("exec-approvals"),
        "anybody may ask: {ready}"
    );
    // The log is written aside.
    eventually(
        "logged",
        async || server.log(),
        |log| log.contains("the approvals socket is not hosted"),
    )
    .await;
    let doctor = server.cli(&["doctor", "--json"]).await;
    let findings: Value = serde_json::from_str(&doctor.stdout).expect("JSON");
    let found = findings
        .list("findings")
        .iter()
        .find(|finding| finding["id"] == "approvals-socket")
        .cloned();
    match found {
        Some(finding) => assert!(finding.text("explanation").contains(why), "{finding}"),
        None => assert_eq!(why, "", "{findings}"),
    }
    let run = server.agent().exec(json!({ "argv": ["true"] })).await;
    assert_eq!(run.expect(200)["status"], "completed");
    server.stop().await;
}

#[tokio::test]
async fn a_place_that_others_may_change_is_refused_and_left_alone() {
    let mut server = at(Path::new("/tmp/unused")).prepare();
    let loose = server.scratch().join("loose");
    fs::create_dir(&loose).unwrap();
    fs::set_permissions(&loose, Permissions::from_mode(0o777)).unwrap();
    name_socket(&server, &loose.join("s.sock"));
    expect_not_hosted(&mut server, "may be changed by one").await;
    assert_eq!(fs::metadata(&loose).unwrap().permissions().mode() & 0o777, 0o777);
    assert_eq!(fs::read_dir(&loose).unwrap().count(), 0);
}

fn name_socket(server: &TestServer, path: &Path) {
    server.edit_document(
        &json!({ "version": 1, "socket": { "path": path, "token": "a-token-of-the-test" }, "agents": {} })
            .to_string(),
    );
}

#[tokio::test]
async fn a_path_that_does_not_fit_an_address_is_refused_and_never_cut() {
    let mut server = at(Path::new("/tmp/unused")).prepare();
    let long = server.state().join("x".repeat(200));
    name_socket(&server, &long);
    expect_not_hosted(&mut server, "fit into a socket address").await;
    let names: Vec<String> = fs::read_dir(server.state())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(!names.iter().any(|name| name.starts_with("xx")), "{names:?}");
}

#[tokio::test]
async fn what_is_in_the_way_stays() {
    let mut server = at(Path::new("/tmp/unused")).prepare();
    let path = server.state().join("s.sock");
    name_socket(&server, &path);
    write_file(&path, "precious");
    expect_not_hosted(&mut server, "is in the way").await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();

    let target = server.state().join("target.sock");
    let _listener = UnixListener::bind(&target).unwrap();
    symlink(&target, &path).unwrap();
    expect_not_hosted(&mut server, "is in the way").await;
    assert!(target.exists() && fs::symlink_metadata(&path).unwrap().is_symlink());
}

#[tokio::test]
async fn a_lock_that_is_not_ours_alone_is_not_taken() {
    let mut server = at(Path::new("/tmp/unused")).prepare();
    let path = server.state().join("s.sock");
    name_socket(&server, &path);
    let lock = server.state().join("s.sock.lifecycle.lock");
    let other = server.state().join("other");
    write_file(&other, "other");
    symlink(&other, &lock).unwrap();
    expect_not_hosted(&mut server, "is not a lock file").await;
    fs::remove_file(&lock).unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(&other, &lock).unwrap();
    expect_not_hosted(&mut server, "is not a lock file").await;
    assert_eq!(fs::read_to_string(&other).unwrap(), "other");
}

#[tokio::test]
async fn a_second_listener_does_not_take_the_place_of_the_first() {
    let first = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&first);
    let mut second = at(Path::new("/tmp/unused")).prepare();
    name_socket(&second, &asker.path);
    // Nothing is wrong with the place: somebody else has it.
    expect_not_hosted(&mut second, "").await;
    asker.expect_alive().await;
    // A program that knows nothing of locks, and is there before anybody.
    let path = second.state().join("s.sock");
    let _unlocked = UnixListener::bind(&path).unwrap();
    name_socket(&second, &path);
    expect_not_hosted(&mut second, "").await;
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
}

#[tokio::test]
async fn by_itself_a_server_hosts_what_lies_in_its_state_directory_only() {
    let mut server = TestServer::full().with_socket().prepare();
    let elsewhere = server.scratch().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).unwrap();
    name_socket(&server, &elsewhere.join("s.sock"));
    server.start().await;
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    let ready = server.anonymous().read("/readyz").await;
    assert_eq!(ready["degraded"], false);
}

#[tokio::test]
async fn a_leftover_of_a_host_that_died_is_replaced() {
    let mut server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    server.kill();
    assert!(asker.path.exists());
    server.start().await;
    asker.expect_alive().await;
}

#[tokio::test]
async fn a_socket_that_is_gone_or_was_in_the_way_is_hosted_again() {
    let server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    fs::remove_file(&asker.path).unwrap();
    eventually("there again", async || asker.path.exists(), |is_there| *is_there).await;
    asker.expect_alive().await;

    let mut server = at(Path::new("/tmp/unused")).prepare();
    let path = server.state().join("s.sock");
    name_socket(&server, &path);
    write_file(&path, "in the way");
    server.start().await;
    let ready = server.anonymous().read("/readyz").await;
    assert_eq!(ready["degraded"], true);
    fs::remove_file(&path).unwrap();
    let degraded = async || server.anonymous().read("/readyz").await["degraded"].clone();
    eventually("hosted", degraded, |degraded| *degraded == json!(false)).await;
    assert!(path.exists());
}

#[tokio::test]
async fn whoever_takes_the_place_of_a_running_host_is_not_asked() {
    let server = TestServer::asking().with_socket().start().await;
    let asker = Asker::of(&server);
    fs::remove_file(&asker.path).unwrap();
    let impostor = UnixListener::bind(&asker.path).unwrap();
    impostor.set_nonblocking(true).unwrap();
    let degraded = async || server.anonymous().read("/readyz").await["degraded"].clone();
    eventually("missed", degraded, |degraded| *degraded == json!(true)).await;
    let is_told = |log: &String| log.contains("another process has the approvals socket");
    soon("told", || server.log(), is_told).await;
    let pending = server.asked(json!({ "argv": ["/usr/bin/printf", "x"] })).await;
    let run = server.answered(&pending, "allow-once").await;
    assert_eq!(run["status"], "completed", "{run}");
    // It saw nothing but that somebody looked whether it is there.
    while let Ok((mut stream, _)) = impostor.accept() {
        let mut seen = String::new();
        stream.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "");
    }
    drop(impostor);
    fs::remove_file(&asker.path).unwrap();
    eventually("hosted", degraded, |degraded| *degraded == json!(false)).await;
    asker.expect_alive().await;
}

#[tokio::test]
async fn a_refused_document_means_no_socket() {
    let server = TestServer::full()
        .document_text("{ \"version\": 1, ")
        .with_socket()
        .start()
        .await;
    assert!(!server.state().join("exec-approvals.sock").exists());
    let server = TestServer::full()
        .toml("[ipc]\nrole = \"off\"\n")
        .with_socket()
        .start()
        .await;
    assert!(!server.state().join("exec-approvals.sock").exists() && !server.document_path().exists());
}
