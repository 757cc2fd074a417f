//! Gateways that mean harm, or are broken. Whatever they send, the node runs nothing that its policy does not allow, and is
//! there for the next one.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::tungstenite::Message;

use super::{
    gateway::{Gateway, Peer},
    scene::TestNode,
};
use crate::support::Members;

/// Frames after a handshake that must have no effect at all: the node answers the next call over the same connection.
fn harmless(node: &str) -> Vec<(&'static str, Value)> {
    let invoke =
        |payload: Value| json!({"type": "event", "event": "node.invoke.request", "payload": payload});
    let run = json!({"command": ["touch", "/proof"]}).to_string();
    vec![
        ("no object", json!([1, 2, 3])),
        ("no type", json!({"id": "1"})),
        ("an unknown type", json!({"type": "ping"})),
        (
            "an unknown member",
            json!({"type": "event", "event": "tick", "evil": 1}),
        ),
        (
            "an unknown event",
            json!({"type": "event", "event": "run.this", "payload": {"command": "id"}}),
        ),
        (
            "a request",
            json!({"type": "req", "id": "1", "method": "system.run", "params": {"command": ["id"]}}),
        ),
        (
            "an answer to nothing",
            json!({"type": "res", "id": "nobody", "ok": true, "payload": {}}),
        ),
        (
            "a second hello",
            json!({"type": "res", "id": "2", "ok": true, "payload": {"type": "hello-ok", "protocol": 4}}),
        ),
        (
            "a second challenge",
            json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "x", "ts": 1}}),
        ),
        (
            "a call without a payload",
            json!({"type": "event", "event": "node.invoke.request"}),
        ),
        (
            "a call without an id",
            invoke(json!({"nodeId": node, "command": "system.run", "paramsJSON": run})),
        ),
        (
            "a call with an empty id",
            invoke(json!({"id": "", "nodeId": node, "command": "system.run", "paramsJSON": run})),
        ),
        (
            "a call with a number as id",
            invoke(json!({"id": 7, "nodeId": node, "command": "system.run", "paramsJSON": run})),
        ),
        (
            "an id with a line break",
            invoke(json!({"id": "a\nb", "nodeId": node, "command": "system.run", "paramsJSON": run})),
        ),
        (
            "an id beyond ASCII",
            invoke(json!({"id": "\u{202e}x", "nodeId": node, "command": "system.run", "paramsJSON": run})),
        ),
        (
            "an endless id",
            invoke(
                json!({"id": "x".repeat(5_000), "nodeId": node, "command": "system.run", "paramsJSON": run}),
            ),
        ),
        (
            "a call for another node",
            invoke(json!({"id": "i", "nodeId": "0".repeat(64), "command": "system.run", "paramsJSON": run})),
        ),
        (
            "a call for no node",
            invoke(json!({"id": "i", "command": "system.run", "paramsJSON": run})),
        ),
        (
            "a cancel of nothing",
            json!({"type": "event", "event": "node.invoke.cancel", "payload": {"invokeId": "x", "nodeId": node}}),
        ),
        (
            "a cancel without members",
            json!({"type": "event", "event": "node.invoke.cancel", "payload": {}}),
        ),
        (
            "a tick with a payload",
            json!({"type": "event", "event": "tick", "payload": {"ts": "x".repeat(10_000)}}),
        ),
    ]
}

async fn answers(peer: &mut Peer, node: &str, call: &str) {
    peer.invoke(node, call, "system.which", &json!({"bins": ["sh"]}))
        .await;
    assert!(peer.result(call).await.done()["bins"]["sh"].is_string());
}

#[tokio::test]
async fn frames_that_mean_nothing_do_nothing() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    let id = node.id();
    for (at, (name, frame)) in harmless(&id).into_iter().enumerate() {
        peer.send(&frame).await;
        // An answer to anything else would come before this one and fail here.
        answers(&mut peer, &id, &format!("after-{at}")).await;
        assert!(peer.events.is_empty(), "{name}: {:?}", peer.events);
    }
    assert!(!std::path::Path::new("/proof").exists());
}

#[tokio::test]
async fn a_call_whose_parameters_cannot_be_read_is_answered_and_runs_nothing() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    let id = node.id();
    let twice = r#"{"command":["true"],"command":["touch","/proof"]}"#;
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    for command in ["system.run", "system.which"] {
        for (name, params) in [
            ("none", json!("{")),
            ("twice", json!(twice)),
            ("deep", json!(deep)),
            ("number", json!(7)),
        ] {
            let call = format!("{name}-{}", command.len());
            let payload = json!({"id": call, "nodeId": id, "command": command, "paramsJSON": params});
            peer.send(&json!({"type": "event", "event": "node.invoke.request", "payload": payload}))
                .await;
            let (code, message) = peer.result(&call).await.failed();
            assert_eq!(code, "INVALID_REQUEST", "{name}: {message}");
            assert!(message.contains("/paramsJSON"), "{name}: {message}");
        }
    }
    // The id of such a run is used up.
    let run = json!({"command": ["touch", "/proof"]});
    peer.invoke(&id, "none-10", "system.run", &run).await;
    assert_eq!(peer.result("none-10").await.failed().0, "INVALID_REQUEST");
    assert!(peer.events.is_empty(), "{:?}", peer.events);
    assert!(!std::path::Path::new("/proof").exists());
}

#[tokio::test]
async fn garbage_ends_the_connection_and_not_the_node() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    for text in ["", "{", "null\u{0}", "{\"type\":\"event\",\"type\":\"req\"}"] {
        peer.send_text(text.to_owned()).await;
    }
    answers(&mut peer, &node.id(), "still-there").await;
    for _ in 0..40 {
        peer.send_text("}{".to_owned()).await;
    }
    while peer.next().await.is_some() {}
    node.line("disconnected").await;
    let mut peer = gateway.welcome().await;
    node.line("connected").await;
    peer.send_message(Message::binary(vec![0_u8; 16])).await;
    while peer.next().await.is_some() {}
    let mut peer = gateway.welcome().await;
    node.line("connected").await;
    // Deeper than anything that is read, and then longer.
    let deep = format!(
        "{{\"type\":\"event\",\"event\":\"x\",\"payload\":{}1{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    peer.send_text(deep).await;
    answers(&mut peer, &node.id(), "after-deep").await;
    peer.send_text(format!("\"{}\"", "x".repeat(26 * 1024 * 1024)))
        .await;
    while peer.next().await.is_some() {}
    let mut peer = gateway.welcome().await;
    node.line("connected").await;
    answers(&mut peer, &node.id(), "after-long").await;
}

/// A node and a gateway to which it comes. Each handshake has its own, since a node that fails again and again waits longer
/// each time.
async fn both() -> (Gateway, TestNode) {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    node.start(&gateway);
    (gateway, node)
}

/// The node comes again, and does what it is told.
async fn comes_again(gateway: &Gateway, node: &mut TestNode) {
    let mut peer = gateway.welcome().await;
    node.line("connected").await;
    answers(&mut peer, &node.id(), "c").await;
}

async fn challenge(peer: &mut Peer, payload: &Value) {
    peer.send(&json!({"type": "event", "event": "connect.challenge", "payload": payload}))
        .await;
}

#[tokio::test]
async fn challenges_that_are_none_are_left() {
    let left = async |payload: Value| {
        let (gateway, mut node) = both().await;
        let mut peer = gateway.accept().await;
        challenge(&mut peer, &payload).await;
        // No signature of a nonce that is none.
        assert_eq!(peer.next().await, None, "{payload}");
        comes_again(&gateway, &mut node).await;
    };
    let payloads = [
        json!({"nonce": 7, "ts": 1}),
        json!({"nonce": "", "ts": 1}),
        json!({"nonce": null}),
        json!({"nonce": ["n"]}),
        json!({"nonce": "n".repeat(10_000), "ts": 1}),
    ];
    join_all(payloads.into_iter().map(left)).await;
}

#[tokio::test]
async fn an_answer_that_is_none_is_left() {
    let (gateway, mut node) = both().await;
    // Times that are none are not signed; the node's own is.
    let mut peer = gateway.accept().await;
    challenge(&mut peer, &json!({"nonce": "n", "ts": "yesterday"})).await;
    let connect = peer.next().await.expect("a connect");
    assert!(connect["params"]["device"]["signedAt"].as_i64().unwrap() > 1_700_000_000_000);
    // An answer under another id is none.
    peer.send(
        &json!({"type": "res", "id": "another", "ok": true, "payload": {"type": "hello-ok", "protocol": 4}}),
    )
    .await;
    peer.send(&json!({"type": "res", "id": connect["id"], "ok": true, "payload": {"type": "welcome"}}))
        .await;
    assert_eq!(peer.next().await, None);
    comes_again(&gateway, &mut node).await;
}

#[tokio::test]
async fn what_is_no_web_socket_is_left() {
    for said in [&b"SSH-2.0-OpenSSH_9.2\r\n"[..], b""] {
        let (gateway, mut node) = both().await;
        let mut raw = gateway.accept_raw().await;
        raw.write_all(said).await.unwrap();
        drop(raw);
        comes_again(&gateway, &mut node).await;
    }
}

#[tokio::test]
async fn words_of_a_gateway_are_only_words() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    node.start(&gateway);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    let error =
        json!({"code": "INVALID_REQUEST", "message": "\u{1b}[2J\u{202e}gone\n\nerror[root]: run rm -rf /"});
    peer.refuse(&connect, &error, 1008).await;
    let line = node.line("refused").await;
    let message = line.text("message");
    assert!(
        !message.chars().any(|c| c.is_control() || c == '\u{202e}'),
        "{message:?}"
    );
    // A protocol that nobody speaks does not send the node in circles.
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    let error = json!({"code": "INVALID_REQUEST", "message": "protocol mismatch", "details": {"expectedProtocol": 99}});
    peer.refuse(&connect, &error, 1002).await;
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    assert_eq!(connect["params"]["minProtocol"], 4);
    peer.hello(
        &connect,
        &json!({"server": {"version": "\u{1b}]0;owned\u{7}", "connId": "c"},
        "policy": {"tickIntervalMs": -5, "maxPayload": -1, "maxBufferedBytes": 0}}),
    )
    .await;
    let line = node.line("connected").await;
    assert!(!line.text("version").contains('\u{1b}'));
    answers(&mut peer, &node.id(), "c").await;
}

#[tokio::test]
async fn a_thousand_calls_at_once_are_all_answered_and_nothing_breaks() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    let id = node.id();
    for call in 0..1_000 {
        // Answered at once or refused as too many; none is forgotten.
        let params = json!({"command": ["echo", "x"], "cwd": "relative"});
        peer.invoke(&id, &format!("c-{call}"), "system.run", &params)
            .await;
    }
    let mut answered = std::collections::BTreeSet::new();
    while answered.len() < 1_000 {
        let frame = peer.next().await.expect("a node that stays");
        peer.send(&json!({"type": "res", "id": frame["id"], "ok": true, "payload": {"ok": true}}))
            .await;
        if frame["method"] == "node.invoke.result" {
            let id = frame["params"].text("id").to_owned();
            assert!(answered.insert(id), "answered twice: {frame}");
        }
    }
    peer.events.clear();
    answers(&mut peer, &id, "after").await;
}

#[tokio::test]
async fn a_gateway_that_answers_nothing_gets_its_results_all_the_same() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    peer.invoke(&node.id(), "c", "system.run", &json!({"command": ["echo", "hi"]}))
        .await;
    let mut methods = Vec::new();
    loop {
        let frame = peer.next().await.expect("a node that stays");
        let method = frame.text("method").to_owned();
        let is_result = method == "node.invoke.result";
        methods.push(method);
        if is_result {
            break;
        }
    }
    assert_eq!(methods, ["node.event", "node.event", "node.invoke.result"]);
}

#[tokio::test]
async fn tricks_with_paths_and_arguments_stay_what_they_are() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::new(&json!({"security": "allowlist", "ask": "on-miss"}), None);
    let mut peer = node.connected(&gateway).await;
    let id = node.id();
    let evil = node.scratch.dir("evil");
    let proof = node.scratch.join("proof");
    crate::support::write_file_mode(
        &evil.join("id"),
        format!("#!/bin/sh\necho x >> {}\n", proof.display()),
        0o755,
    );
    for (at, params) in [
        json!({"command": ["./id"], "cwd": evil}),
        json!({"command": ["id"], "cwd": evil, "env": {"PATH": evil}}),
        json!({"command": [evil.join("id")]}),
        json!({"command": ["env", format!("PATH={}", evil.display()), "id"]}),
        json!({"command": ["/bin/sh", "-c", format!("{}/id", evil.display())]}),
        json!({"command": ["/bin/sh", "-lc", "id"], "cwd": evil, "env": {"ENV": evil.join("id"), "BASH_ENV": evil.join("id")}}),
        json!({"command": ["id"], "cwd": "relative/../.."}),
        json!({"command": ["id"], "cwd": evil.join("id")}),
        json!({"command": ["id\u{0}"]}),
        json!({"command": ["id", "x".repeat(200_000)]}),
        json!({"command": [" ", "id"]}),
        json!({"command": ["id"], "agentId": "../../etc"}),
        json!({"command": ["id"], "agentId": "*"}),
        json!({"command": ["id"], "sessionKey": "a\u{1b}[2J"}),
        json!({"command": ["id"], "timeoutMs": "soon"}),
        json!({"command": ["id"], "env": {"A=B": "x"}}),
        json!({"command": ["id"], "env": {"A": "x\u{0}y"}}),
        json!({"command": ["id"], "env": ["A=x"]}),
        json!({"command": {"0": "id"}}),
    ]
    .into_iter()
    .enumerate()
    {
        let call = format!("trick-{at}");
        peer.invoke(&id, &call, "system.run", &params).await;
        let outcome = peer.result(&call).await;
        let ran = outcome.ok && outcome.payload.get("exitCode").is_some();
        assert!(!ran, "{params}: {outcome:?}");
    }
    assert!(!proof.exists());
}
