//! The product's client of the approvals socket speaks to ours.

use std::path::Path;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{Generation, Peers, patiently};
use crate::support::{TestServer, run_long_program};

/// Calls a function of the product; its answer.
fn call(
    peers: &Peers,
    server: &TestServer,
    module: &str,
    function: &'static str,
    params: &Value,
) -> JoinHandle<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/peers/socket_client.mjs");
    let invocation = peers
        .runtime()
        .arg(script)
        .arg(peers.package().join(module))
        .args(&[function, &params.to_string()])
        .env("HOME", server.scratch().path())
        .env("TMPDIR", server.scratch().path())
        .cwd(&server.scratch().path());
    tokio::task::spawn_blocking(move || {
        let done = run_long_program(&invocation, std::time::Duration::from_mins(4));
        assert_eq!(done.code, Some(0), "{}\n{}", done.stdout, done.stderr);
        let last = done.stdout.lines().last().unwrap_or_default().to_owned();
        serde_json::from_str(&last).unwrap_or_else(|error| panic!("{error}: {}", done.stdout))
    })
}

/// Where our socket is, and its token.
fn address(server: &TestServer) -> (Value, Value) {
    let document = server.document_on_disk();
    (
        json!(server.state().join("exec-approvals.sock")),
        document["socket"]["token"].clone(),
    )
}

async fn prompt(server: &TestServer) -> String {
    let operator = server.operator();
    patiently(
        "a prompt",
        || operator.pending(),
        |pending| {
            pending
                .first()
                .and_then(|approval| approval["id"].as_str().map(str::to_owned))
        },
    )
    .await
}

fn question(server: &TestServer, token: &Value) -> Value {
    json!({
        "socketPath": address(server).0, "token": token, "timeoutMs": 120_000,
        "request": {
            "command": "git push", "cwd": server.scratch().path(), "host": "gateway", "security": "allowlist",
            "ask": "always", "agentId": "main", "resolvedPath": "/usr/bin/git", "sessionKey": "agent:main:main",
        },
    })
}

async fn answers(generation: Generation, module: &str) {
    let peers = or_skip!(Peers::find(generation));
    let server = TestServer::asking().with_socket().start().await;
    let token = address(&server).1;
    assert!(
        token.is_string(),
        "a server that hosts the socket has its token in place"
    );
    for decision in ["allow-once", "deny"] {
        let asked = question(&server, &token);
        let client = call(&peers, &server, module, "requestExecApprovalViaSocket", &asked);
        let approval = prompt(&server).await;
        server.operator().decided(&approval, decision).await;
        assert_eq!(client.await.expect("the client"), decision);
    }
    let wrong = question(&server, &json!("not-the-token"));
    let refused = call(&peers, &server, module, "requestExecApprovalViaSocket", &wrong);
    assert_eq!(refused.await.expect("the client"), "deny");
    assert!(
        server.operator().pending().await.is_empty(),
        "a wrong token asked somebody"
    );
}

#[tokio::test]
async fn the_first_generation_gets_its_answers() {
    answers(Generation::First, "dist/infra/exec-approvals.js").await;
}

#[tokio::test]
async fn the_present_generation_gets_its_answers() {
    answers(Generation::Present, "dist/plugin-sdk/infra-runtime.js").await;
}

#[tokio::test]
async fn the_first_generation_has_a_command_run() {
    let peers = or_skip!(Peers::find(Generation::First));
    let server = TestServer::asking().with_socket().start().await;
    let (path, token) = address(&server);
    let order = json!({
        "socketPath": path, "token": token, "timeoutMs": 120_000,
        "request": { "command": ["/bin/echo", "hi"], "rawCommand": null, "cwd": null, "timeoutMs": 60_000 },
    });
    let ran = call(
        &peers,
        &server,
        "dist/infra/exec-host.js",
        "requestExecHostViaSocket",
        &order,
    );
    let approval = prompt(&server).await;
    server.operator().decided(&approval, "allow-once").await;
    let ran = ran.await.expect("the client");
    assert_has!(ran, { "ok": true, "payload/stdout": "hi\n" });

    let refused = call(
        &peers,
        &server,
        "dist/infra/exec-host.js",
        "requestExecHostViaSocket",
        &order,
    );
    let approval = prompt(&server).await;
    server.operator().decided(&approval, "deny").await;
    let refused = refused.await.expect("the client");
    assert_has!(refused, { "ok": false, "error/reason": "user-denied" });
}
