//! `countersign doctor --ready`, which service managers and the image run to see whether the server can work.

use std::fs;

use serde_json::Value;

use crate::support::{Scratch, TestServer, countersign, run_program};

#[tokio::test]
async fn a_server_that_can_work_is_ready_whoever_asks() {
    let server = TestServer::full().start().await;
    for token in ["operator.token", "gateway.token"] {
        fs::remove_file(server.state().join("countersign").join(token)).unwrap();
    }
    // Inside a command of an agent too: it tells nothing that is not told to anybody.
    let invocation = server
        .invocation(&["doctor", "--ready"])
        .env("OPENCLAW_SHELL", "exec");
    let done = TestServer::finish(invocation).await;
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "ready\n"),
        "{done:?}"
    );
    let done = server.cli(&["--json", "doctor", "--ready"]).await;
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(told, server.anonymous().get("/readyz").await.json());
}

#[tokio::test]
async fn a_refused_document_is_degraded_and_still_ready() {
    let server = TestServer::full().document_text("{").start().await;
    let done = server.cli(&["doctor", "--ready"]).await;
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "ready, degraded\n"),
        "{done:?}"
    );
    assert!(done.stderr.starts_with("document: "), "{done:?}");
}

#[tokio::test]
async fn no_server_is_not_ready() {
    let scratch = Scratch::new();
    let nobody = countersign()
        .args(&["doctor", "--ready"])
        .env("HOME", scratch.path())
        .env("OPENCLAW_STATE_DIR", scratch.path());
    assert_eq!(run_program(&nobody).code, Some(69));
    let mut server = TestServer::full().start().await;
    let invocation = server.invocation(&["doctor", "--ready"]);
    server.kill();
    let done = TestServer::finish(invocation).await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(69), ""), "{done:?}");
}
