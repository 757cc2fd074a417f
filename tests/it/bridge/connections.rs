//! Connections while they last: ticks, pings, limits, the end of the server, and what outlives it.

use serde_json::json;

use crate::support::{
    Members, TestServer, assert_says, eventually,
    node::{Device, Line, Received, Speaks, TestNode, decide, pair},
};

#[tokio::test]
async fn ticks_and_pings_come_as_often_as_was_said() {
    let server = TestServer::full().toml("[bridge]\ntick_ms = 100\n").start().await;
    let device = Device::new(&server, Speaks::First);
    pair(&server, &device).await;
    let mut line = Line::open(&server).await;
    let hello = line.connect(&device).await.unwrap();
    assert_eq!(hello["policy"]["tickIntervalMs"], 100);
    let first = line.event("tick").await["ts"].as_i64().unwrap();
    let second = line.event("tick").await["ts"].as_i64().unwrap();
    assert!(second > first);
    line.hear_ping().await;
}

#[tokio::test]
async fn a_server_that_stops_says_so_and_its_next_life_knows_its_nodes() {
    let mut server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    let node = TestNode::join(&server, device.clone(), |_call| None).await;
    let token = node.token();
    server.send_signal(rustix::process::Signal::TERM);
    assert_eq!(node.receive("shutdown").await["reason"], "service restart");
    assert_eq!(
        node.ended().await,
        Received::Closed {
            code: 1012,
            reason: "service restart".to_owned()
        }
    );
    assert_eq!(server.ended().await, Some(0));
    server.start().await;
    let shown = server.operator().read("/v1/nodes").await;
    assert_has!(shown["items"][0], {"nodeId": device.id(), "connected": false, "paired": true});
    let mut line = Line::open(&server).await;
    let hello = line.connect(&device.with_token(&token)).await.unwrap();
    assert_eq!(hello["auth"]["deviceToken"], json!(token));
}

#[tokio::test]
async fn a_crash_takes_no_pairing_along() {
    let mut server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::First);
    let waiting = Device::new(&server, Speaks::Present).named("waits");
    pair(&server, &device).await;
    let mut line = Line::open(&server).await;
    let error = line.connect(&waiting).await.unwrap_err();
    let request = error["details"].text("requestId").to_owned();
    server.crash_and_restart().await;
    decide(&server, &request, "approve").await;
    for device in [device, waiting] {
        Line::open(&server).await.connect(&device).await.unwrap();
    }
}

#[tokio::test]
async fn connecting_and_leaving_is_told() {
    let server = TestServer::full().start().await;
    let mut events = server.operator().events("?types=node.", None).await;
    let device = Device::new(&server, Speaks::Present).named("build box");
    let node = TestNode::join(&server, device.clone(), |_call| None).await;
    let requested = events.next_of("node.pairing.requested").await.data;
    assert_has!(requested, {
        "nodeId": device.id(), "displayName": "build box", "platform": "linux", "kind": "device",
        "isRepair": false, "remoteIp": "127.0.0.1",
        "commands": [
            "system.execApprovals.get", "system.execApprovals.set", "system.run", "system.run.prepare",
            "system.which",
        ],
    });
    let resolved = events.next_of("node.pairing.resolved").await.data;
    assert_has!(resolved, {
        "nodeId": device.id(), "requestId": requested["requestId"], "decision": "approve", "kind": "device",
    });
    assert_eq!(resolved["by"]["name"], "operator");
    let connected = events.next_of("node.connected").await.data;
    assert_has!(connected, {"nodeId": device.id(), "displayName": "build box"});
    node.vanish();
    let gone = events.next_of("node.disconnected").await.data;
    assert_has!(gone, {"nodeId": device.id(), "displayName": "build box", "reason": "gone"});
    let record = server.operator().read("/v1/audit?action=node.disconnected").await;
    assert_has!(record, { "items/0/target": {"kind": "node", "id": device.id()} });
}

#[tokio::test]
async fn there_are_no_more_nodes_than_places() {
    let server = TestServer::full().toml("[bridge]\nmax_nodes = 1\n").start().await;
    let device = Device::new(&server, Speaks::Present);
    let node = TestNode::join(&server, device.clone(), |_call| None).await;
    let other = Device::new(&server, Speaks::Present).named("other");
    pair(&server, &other).await;
    let mut line = Line::open(&server).await;
    let error = line.connect(&other).await.unwrap_err();
    assert_eq!(error["retryable"], true, "{error}");
    assert_eq!(line.end().await.close().0, 1013);
    // Who is here may come back.
    let again = TestNode::connect(&server, device, |_call| None).await;
    assert_eq!(node.ended().await.close().0, 4001);
    again.vanish();
    eventually(
        "a free place",
        || async {
            let mut line = Line::open(&server).await;
            line.connect(&other).await.is_ok()
        },
        |entered| *entered,
    )
    .await;
}

#[tokio::test]
async fn operators_take_no_more_than_their_places() {
    let server = TestServer::full()
        .toml("[limits]\nmax_connections = 16\n")
        .start()
        .await;
    let enter = async |token: &str| {
        let mut line = Line::open(&server).await;
        let params = json!({
            "minProtocol": 4, "maxProtocol": 4, "role": "operator", "scopes": ["operator.write"], "caps": [],
            "client": {"id": "cli", "version": "2026.9.6", "platform": "linux", "mode": "cli"},
            "auth": {"token": token},
        });
        match line.connect_with(params).await {
            Ok(_hello) => Ok(line),
            Err(error) => {
                assert_eq!(error["code"], "UNAVAILABLE", "{error}");
                assert_eq!(error["details"]["reason"], "full", "{error}");
                assert_eq!(line.end().await.close().0, 1013);
                Err(error.text("message").to_owned())
            }
        }
    };
    let mut tokens = Vec::new();
    for name in ["a", "b", "c"] {
        let (_, api) = server.token_with(json!({"name": name, "scopes": ["exec"]})).await;
        tokens.push(api.token().unwrap().to_owned());
    }
    // Eight places are for operators, four of them for one token.
    let mut lines = Vec::new();
    for token in &tokens[..2] {
        for _ in 0..4 {
            lines.push(enter(token).await.expect("a place"));
        }
        if lines.len() == 4 {
            let refused = enter(token).await.unwrap_err();
            assert_eq!(
                refused,
                "too many operators are connected with this token; retry later"
            );
        }
    }
    let refused = enter(&tokens[2]).await.unwrap_err();
    assert_eq!(refused, "too many operators are connected; retry later");
    // Everybody else is answered.
    server.operator().read("/v1/approvals").await;
    server.anonymous().read("/readyz").await;
    let node = TestNode::join(&server, Device::new(&server, Speaks::Present), |_call| None).await;
    node.vanish();
    lines.clear();
    eventually(
        "a free place",
        || async { enter(&tokens[2]).await.is_ok() },
        |entered| *entered,
    )
    .await;
}

#[tokio::test]
async fn a_websocket_keeps_its_place_among_the_connections() {
    let server = TestServer::full()
        .toml("[limits]\nmax_connections = 3\n")
        .start()
        .await;
    let first = Line::open(&server).await;
    let second = Line::open(&server).await;
    // The third place is for whoever asks now; with the two above given back there would be more.
    let metrics = server.operator().get("/metrics").await.text();
    assert_says(&metrics, "countersign_http_connections{listener=\"tcp\"} 3");
    drop((first, second));
    eventually(
        "given back",
        || async { server.operator().get("/metrics").await.text() },
        |metrics| metrics.contains("countersign_http_connections{listener=\"tcp\"} 1"),
    )
    .await;
}

#[tokio::test]
async fn who_is_connected_and_who_was_refused_is_counted() {
    let server = TestServer::full().start().await;
    let node = TestNode::join(&server, Device::new(&server, Speaks::Present), |_call| None).await;
    let metrics = server.operator().get("/metrics").await.text();
    assert_says(&metrics, "countersign_bridge_connections{role=\"node\"} 1");
    assert_says(&metrics, "countersign_bridge_refused_total{reason=\"pairing\"} 1");
    let ready = server.anonymous().read("/readyz").await;
    assert_eq!(ready["checks"]["bridge"], json!({"ok": true}));
    node.vanish();
}

#[tokio::test]
async fn without_a_secret_no_new_node_asks_and_readiness_says_so() {
    let mut server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    let node = TestNode::join(&server, device.clone(), |_call| None).await;
    let token = node.token();
    node.vanish();
    server.stop().await;
    crate::support::write_file_mode(&server.state().join("countersign/bridge.token"), "\n", 0o600);
    server.start().await;
    let ready = server.anonymous().read("/readyz").await;
    assert_has!(ready, { "degraded": true, "checks/bridge/ok": false });
    let empty = device.clone().showing(json!({"token": ""}));
    let error = Line::open(&server).await.connect(&empty).await.unwrap_err();
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISSING");
    // Who was let in has a token of its own.
    Line::open(&server)
        .await
        .connect(&device.with_token(&token))
        .await
        .unwrap();
}
