//! The node hosts of the product as nodes of our server.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Generation, Peers, patiently, peer::items};
use crate::support::{Api, Members, TestServer};

/// Runs and asks nobody, on whichever node there is.
fn on_nodes() -> crate::support::ServerBuilder {
    TestServer::full().exec(&json!({ "host": "node", "security": "full", "ask": "off" }))
}

fn port_of(server: &TestServer) -> u16 {
    let base = server.agent().base().to_owned();
    base.rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port")
}

/// The token that a node presents at first.
fn bridge_token(server: &TestServer) -> String {
    let path = server.state().join("countersign/bridge.token");
    std::fs::read_to_string(path)
        .expect("the token of the Bridge")
        .trim()
        .to_owned()
}

/// Waits for a request to pair of this kind and approves it.
async fn approve(operator: &Api, kind: &str) -> Value {
    let request = patiently(
        kind,
        || async { items(&operator.read("/v1/nodes/pairings").await) },
        |pairings| pairings.iter().find(|pairing| pairing["kind"] == kind).cloned(),
    )
    .await;
    let id = request.text("requestId");
    operator
        .posted(
            &format!("/v1/nodes/pairings/{id}/decision"),
            json!({ "decision": "approve" }),
        )
        .await;
    request
}

/// Waits until a node is connected that may be called with `system.run`.
async fn ready(operator: &Api, name: &str) -> Value {
    patiently(
        "a connected node",
        || async { items(&operator.read("/v1/nodes").await) },
        |nodes| {
            let is_ready = |node: &&Value| {
                let commands = node["commands"].as_array().cloned().unwrap_or_default();
                node["displayName"] == name
                    && node["connected"] == true
                    && commands.contains(&json!("system.run"))
            };
            nodes.iter().find(is_ready).cloned()
        },
    )
    .await
}

async fn runs_echo(server: &TestServer, node: &Value) {
    let answer = server
        .ran(json!({ "argv": ["echo", "hi"], "host": "node" }))
        .await;
    assert_eq!(answer["status"], "completed", "{answer}");
    assert_eq!(answer["stdout"], "hi\n", "{answer}");
    assert_has!(answer, { "host": "node", "nodeId": node["nodeId"] });
    let failed = server.ran(json!({ "command": "exit 3", "host": "node" })).await;
    assert_has!(failed, { "status": "failed", "exitCode": 3 });
}

/// The node's own approvals document, read and changed over our API.
async fn document_of(operator: &Api, node: &Value) {
    let path = format!("/v1/nodes/{}/policy/document", node.text("nodeId"));
    let before = operator.get(&path).await;
    let document = before.expect(200);
    assert_eq!(document["version"], 1, "{document}");
    assert!(document["socket"]["token"].is_null(), "{document}");
    let etag = before.header("etag").expect("a version").to_owned();
    let changed =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/usr/bin/id" }] } } });
    let put = |etag: String| {
        operator.send(
            operator
                .request(Method::PUT, &path)
                .header("If-Match", etag)
                .json(&changed),
        )
    };
    put(etag.clone()).await.expect(200);
    let after = operator.read(&path).await;
    assert_has!(after, { "agents/main/allowlist/0/pattern": "/usr/bin/id" });
    assert_eq!(put(etag).await.status, 412);
}

#[tokio::test]
async fn the_first_generation_pairs_and_runs() {
    let peers = or_skip!(Peers::find(Generation::First));
    let server = on_nodes().start().await;
    let operator = server.operator();
    let mut node = peers.node_host(port_of(&server), "first", &bridge_token(&server));
    // It gives up whenever it is not taken at once.
    let request = approve(&operator, "device").await;
    assert_eq!(request["displayName"], "first", "{request}");
    node.ended().await;
    node.restart();
    let known = ready(&operator, "first").await;
    assert_eq!(known["protocol"], 3, "{known}");
    // Its own policy refuses whatever is not allowed; our decision goes with the call.
    runs_echo(&server, &known).await;
    document_of(&operator, &known).await;
}

#[tokio::test]
async fn the_present_generation_waits_until_it_is_paired_and_runs() {
    let peers = or_skip!(Peers::find(Generation::Present));
    let server = on_nodes().start().await;
    let operator = server.operator();
    let _node = peers.node_host(port_of(&server), "present", &bridge_token(&server));
    let request = approve(&operator, "device").await;
    assert_eq!(request["displayName"], "present", "{request}");
    // Nobody starts it again.
    let known = ready(&operator, "present").await;
    assert_eq!(known["protocol"], 4, "{known}");
    runs_echo(&server, &known).await;
    document_of(&operator, &known).await;
}

#[tokio::test]
async fn a_question_about_a_real_node_is_asked_here_and_carried_there() {
    let peers = or_skip!(Peers::find(Generation::Present));
    let server = TestServer::asking()
        .exec(&json!({ "host": "node", "security": "allowlist", "ask": "on-miss" }))
        .start()
        .await;
    let operator = server.operator();
    let node = peers.node_host(port_of(&server), "asked", &bridge_token(&server));
    approve(&operator, "device").await;
    ready(&operator, "asked").await;
    let file = node.directory().join("ran");
    let body = json!({ "argv": ["/usr/bin/touch", file], "host": "node" });
    let asked = server.accepted(body.clone()).await;
    assert!(!file.exists(), "it ran before anybody answered");
    let approval = asked.text("approvalId");
    operator.decided(approval, "allow-once").await;
    let run = server.agent().finished(asked.text("runId")).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert!(file.exists());
    let again = server.accepted(body).await;
    let approval = again.text("approvalId");
    operator.decided(approval, "deny").await;
    let run = server.agent().finished(again.text("runId")).await;
    assert_eq!(run["status"], "denied", "{run}");
}

#[tokio::test]
async fn a_node_that_vanishes_leaves_its_run_lost() {
    let peers = or_skip!(Peers::find(Generation::Present));
    let server = on_nodes().start().await;
    let operator = server.operator();
    let mut node = peers.node_host(port_of(&server), "vanishing", &bridge_token(&server));
    approve(&operator, "device").await;
    ready(&operator, "vanishing").await;
    let begun = node.directory().join("begun");
    let text = format!("echo ran >> {}; sleep 600", begun.display());
    let body = json!({ "command": text, "host": "node", "background": true });
    let run = server.agent().exec(body).await.json();
    let run_id = run.text("runId").to_owned();
    patiently(
        "begun",
        || async { (begun.exists(), server.agent().run(&run_id).await) },
        |(is_begun, _run)| is_begun.then_some(()),
    )
    .await;
    node.kill();
    let lost = server.agent().finished(&run_id).await;
    assert_has!(lost, { "status": "lost", "reason": "node-disconnected" });
    node.restart();
    ready(&operator, "vanishing").await;
    runs_echo(&server, &ready(&operator, "vanishing").await).await;
    let lines = std::fs::read_to_string(&begun).expect("what it wrote");
    assert_eq!(lines, "ran\n", "it ran again");
    assert_eq!(server.agent().run(&run_id).await["status"], "lost");
}
