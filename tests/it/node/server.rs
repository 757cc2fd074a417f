//! Our node and our server: one asks the other to be let in, and people at the server answer for what the node asks.

use serde_json::{Value, json};

use super::{gateway::Gateway, scene::TestNode};
use crate::support::{Members, TestServer, eventually};

#[tokio::test]
async fn a_new_node_waits_for_a_person_and_a_wrong_secret_does_not_even_wait() {
    let mut server = TestServer::asking().start().await;
    let port = server.address().port();
    let mut node = TestNode::open().env("OPENCLAW_GATEWAY_TOKEN", &server.bridge_token());
    node.start_at("127.0.0.1", port);
    let line = node.line("pairing").await;
    let request = line.text("requestId").to_owned();
    assert!(!request.is_empty());
    let status: Value = serde_json::from_str(&node.command(&["--json", "node", "status"]).stdout).unwrap();
    assert_has!(status, { "state": "pairing", "requestId": request, "paired": false });
    assert_eq!(node.stop().await, Some(0));
    let mut stranger = TestNode::open().env("OPENCLAW_GATEWAY_TOKEN", "guessed");
    stranger.start_at("127.0.0.1", port);
    assert_eq!(stranger.line("unauthorized").await["deviceToken"], false);
    assert_eq!(stranger.stop().await, Some(0));
    assert_eq!(server.stop().await, Some(0));
}

#[tokio::test]
#[expect(clippy::or_fun_call, reason = "cheap")]
async fn people_at_the_machines_own_server_are_asked_over_the_approvals_socket() {
    let mut server = TestServer::asking().with_socket().start().await;
    let gateway = Gateway::new().await;
    let mut node = TestNode::in_directory(server.state());
    let mut peer = node.connected(&gateway).await;
    let id = node.id();
    let operator = server.operator();
    let params = json!({"command": ["id", "-u"], "cwd": "/", "sessionKey": "agent:main:main"});
    for (call, decision, runs) in [("yes", "allow-once", true), ("no", "deny", false)] {
        peer.invoke(&id, call, "system.run", &params).await;
        let pending = eventually("asked", || operator.pending(), |pending| pending.len() == 1).await;
        let asked = &pending[0];
        assert!(
            asked["commandText"]
                .as_str()
                .or(asked["command"].as_str())
                .is_some(),
            "{asked}"
        );
        operator.decided(asked.text("id"), decision).await;
        let outcome = peer.result(call).await;
        assert_eq!(outcome.ok, runs, "{outcome:?}");
        if !runs {
            assert_eq!(outcome.error.1, "SYSTEM_RUN_DENIED: user denied");
        }
    }
    // A call that is taken back takes its question along.
    peer.invoke(&id, "taken-back", "system.run", &params).await;
    eventually("asked", || operator.pending(), |pending| pending.len() == 1).await;
    peer.cancel(&id, "taken-back").await;
    assert!(!peer.result("taken-back").await.ok);
    eventually("withdrawn", || operator.pending(), Vec::is_empty).await;
    // An answer that the gateway brings needs nobody here.
    let mut approved = params.clone();
    approved["approved"] = json!(true);
    peer.invoke(&id, "approved", "system.run", &approved).await;
    assert!(peer.result("approved").await.ok);
    assert_eq!(node.stop().await, Some(0));
    drop(peer);
    // Without anybody there it stays unanswered.
    assert_eq!(server.stop().await, Some(0));
    let mut peer = node.connected(&gateway).await;
    peer.invoke(&id, "nobody", "system.run", &params).await;
    assert_eq!(
        peer.result("nobody").await.failed().1,
        "SYSTEM_RUN_DENIED: approval required"
    );
    assert_eq!(node.stop().await, Some(0));
}
