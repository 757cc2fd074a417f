//! Who becomes a node, and who stops being one: always by a person.

use serde_json::{Value, json};

use crate::support::{
    Api, Members, OperatorClient, TestServer, eventually,
    node::{Device, Line, Speaks, TestNode, decide, pair},
};

/// Tries to connect; the id of the request that a person must decide.
async fn asks(server: &TestServer, device: &Device) -> String {
    let mut line = Line::open(server).await;
    let error = line.connect(device).await.expect_err("a person must say so");
    assert_eq!(error["details"]["code"], "PAIRING_REQUIRED", "{error}");
    error["details"].text("requestId").to_owned()
}

async fn pairings(api: &Api) -> Vec<Value> {
    let list = api.read("/v1/nodes/pairings").await;
    list.list("items").clone()
}

#[tokio::test]
async fn the_same_question_is_asked_once_and_a_changed_one_not_at_every_knock() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    let first = asks(&server, &device).await;
    assert_eq!(asks(&server, &device).await, first);
    // What waits is what was shown, whatever the device calls itself meanwhile.
    for number in 0..5 {
        let changed = device.clone().named(&format!("another name {number}"));
        assert_eq!(asks(&server, &changed).await, first);
    }
    let waiting = pairings(&server.operator()).await;
    assert_eq!(waiting.len(), 1, "one device asks one thing");
    assert_has!(waiting[0], {
        "requestId": first, "nodeId": device.id(), "displayName": "box", "kind": "device",
        "isRepair": false,
    });
    let records = server.operator().read("/v1/audit?limit=500").await;
    let asked = records.list("items").iter();
    assert_eq!(
        asked
            .filter(|record| record["action"] == "node.pairing.requested")
            .count(),
        1
    );
}

#[tokio::test]
async fn a_rejected_device_stays_out() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    let request = asks(&server, &device).await;
    decide(&server, &request, "reject").await;
    assert!(pairings(&server.operator()).await.is_empty());
    assert_ne!(asks(&server, &device).await, request);
    assert_eq!(server.operator().read("/v1/nodes").await["items"], json!([]));
}

#[tokio::test]
async fn a_removed_node_is_cut_off_at_once_and_its_token_opens_nothing() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    let node = TestNode::join(&server, device.clone(), |_call| None).await;
    let token = node.token();
    let removed = server
        .operator()
        .delete(&format!("/v1/nodes/{}", device.id()))
        .await;
    assert_eq!(removed.status, 204);
    let (code, reason) = node.ended().await.close();
    assert_eq!((code, reason.as_str()), (4001, "removed"));
    let mut line = Line::open(&server).await;
    let error = line
        .connect(&device.clone().with_token(&token))
        .await
        .unwrap_err();
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISMATCH");
    asks(&server, &device).await;
}

#[tokio::test]
async fn more_commands_need_a_person_and_the_rest_goes_on() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present).declaring(&["system.which"]);
    pair(&server, &device).await;
    let wider = device
        .clone()
        .declaring(&["system.which", "system.run", "system.run.prepare"]);
    let node = TestNode::connect(&server, wider, |_call| None).await;
    let api = server.operator();
    let path = format!("/v1/nodes/{}", device.id());
    assert_eq!(api.read(&path).await["commands"], json!(["system.which"]));
    let waiting = pairings(&api).await;
    assert_has!(waiting[0], {
        "nodeId": device.id(), "kind": "commands", "isRepair": true,
        "commands": ["system.run", "system.run.prepare", "system.which"],
    });
    let request = waiting[0].text("requestId");
    decide(&server, request, "approve").await;
    let told = node.receive("node.pair.resolved").await;
    assert_has!(told, {"requestId": request, "nodeId": device.id(), "decision": "approved"});
    assert_has!(api.read(&path).await, { "commands": ["system.run", "system.run.prepare", "system.which"] });
}

#[tokio::test]
async fn commands_that_are_rejected_are_not_offered() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present).declaring(&["system.which"]);
    pair(&server, &device).await;
    let wider = device.clone().declaring(&["system.which", "system.run"]);
    let node = TestNode::connect(&server, wider, |_call| None).await;
    let api = server.operator();
    let request = pairings(&api).await[0].text("requestId").to_owned();
    decide(&server, &request, "reject").await;
    assert_eq!(node.receive("node.pair.resolved").await["decision"], "rejected");
    let shown = api.read(&format!("/v1/nodes/{}", device.id())).await;
    assert_eq!(shown["commands"], json!(["system.which"]));
    assert_eq!(shown["connected"], true);
}

#[tokio::test]
async fn another_kind_of_machine_is_let_in_anew() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    pair(&server, &device).await;
    let mut line = Line::open(&server).await;
    let mut params = device.connect_params(&line.nonce, line.ts);
    params["client"]["platform"] = json!("macos");
    params["client"]["deviceFamily"] = json!("Mac");
    device.sign(&mut params, &line.nonce, line.ts);
    let error = line.connect_with(params).await.unwrap_err();
    assert_eq!(error["details"]["reason"], "metadata-upgrade");
    let waiting = pairings(&server.operator()).await;
    assert_has!(waiting[0], {"platform": "macos", "isRepair": true, "kind": "device"});
    // As what it was it still may.
    Line::open(&server).await.connect(&device).await.unwrap();
}

#[tokio::test]
async fn whoever_cannot_administer_cannot_let_anybody_in() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    let request = asks(&server, &device).await;
    let path = format!("/v1/nodes/pairings/{request}/decision");
    let body = json!({"decision": "approve"});
    let (_, approver) = server
        .token_with(json!({"name": "a", "scopes": ["approve", "read"]}))
        .await;
    for api in [server.agent(), approver] {
        api.post(&path, body.clone()).await.problem(403, "forbidden");
    }
    server
        .anonymous()
        .post(&path, body.clone())
        .await
        .problem(401, "unauthorized");
    // The shared secret is no token of the API.
    let secret = server.bridge_token();
    let shared = server.anonymous().with_token(Some(&secret));
    shared.post(&path, body).await.problem(401, "unauthorized");
    assert_eq!(asks(&server, &device).await, request);
}

#[tokio::test]
async fn a_name_given_here_counts() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present).named("as it says");
    pair(&server, &device).await;
    let api = server.operator();
    let path = format!("/v1/nodes/{}", device.id());
    let request = api
        .request(reqwest::Method::PATCH, &path)
        .json(&json!({"displayName": "as we say"}));
    assert_eq!(api.send(request).await.expect(200)["displayName"], "as we say");
    let mut line = Line::open(&server).await;
    line.connect(&device.named("something else")).await.unwrap();
    assert_eq!(api.read(&path).await["displayName"], "as we say");
}

#[tokio::test]
async fn a_node_takes_no_name_of_another_by_coming_back_under_it() {
    let exec = json!({"host": "node", "security": "full", "ask": "off"});
    let server = TestServer::full()
        .config(&json!({"tools": {"exec": exec}}))
        .start()
        .await;
    let vault = Device::new(&server, Speaks::Present).named("vault");
    pair(&server, &vault).await;
    let mill = Device::new(&server, Speaks::Present).named("mill");
    pair(&server, &mill).await;
    let api = server.operator();
    let beginning: String = vault.id().chars().take(12).collect();
    for name in [beginning.as_str(), "Vault!", "127.0.0.1", "another"] {
        let mut line = Line::open(&server).await;
        line.connect(&mill.clone().named(name)).await.unwrap();
        let shown = api.read(&format!("/v1/nodes/{}", mill.id())).await;
        assert_eq!(shown["displayName"], "mill", "{name}");
        // The one that is meant is away: nobody else gets the call.
        for named in [beginning.as_str(), "vault"] {
            let body = json!({"argv": ["true"], "host": "node", "node": named});
            let refused = server.agent().exec(body).await.problem(503, "node-unavailable");
            let detail = refused["detail"].as_str().unwrap_or_default();
            assert!(detail.contains("vault"), "{name}: {refused}");
        }
        line.close().await;
    }
    assert!(pairings(&api).await.is_empty());
}

/// What a node says of a run that wrote this.
fn wrote(text: &str) -> Value {
    json!({"exitCode": 0, "timedOut": false, "success": true, "stdout": text, "stderr": "", "error": null})
}

#[tokio::test]
async fn calls_by_a_name_given_here_never_go_to_a_node_that_chose_the_same_name() {
    let exec = json!({"host": "node", "security": "full", "ask": "off"});
    let server = TestServer::full()
        .config(&json!({"tools": {"exec": exec}}))
        .start()
        .await;
    let device = |name: &str| {
        Device::new(&server, Speaks::Present)
            .named(name)
            .declaring(&["system.run"])
    };
    let mill = TestNode::join(&server, device("mill"), |_call| Some(Ok(wrote("mill")))).await;
    let attic = TestNode::join(&server, device("attic"), |_call| Some(Ok(wrote("attic")))).await;
    let (mill_id, attic_id) = (mill.id(), attic.id());
    let api = server.operator();
    let run_on = async |named: &str| {
        let body = json!({"argv": ["true"], "host": "node", "node": named});
        server.agent().exec(body).await
    };
    let rename = async |id: &str, name: &str| {
        let path = format!("/v1/nodes/{id}");
        api.patch(&path, json!({"displayName": name})).await.expect(200);
    };
    assert_eq!(run_on("mill").await.expect(200)["stdout"], "mill");
    rename(&attic_id, "Mill").await;
    assert_eq!(run_on("mill").await.expect(200)["stdout"], "attic");
    assert_eq!(run_on(&mill_id[..12]).await.expect(200)["stdout"], "mill");
    // It is the one that is meant while it is away, too.
    attic.vanish();
    let path = format!("/v1/nodes/{attic_id}");
    let shown = async || api.read(&path).await;
    eventually("away", shown, |node| node["connected"] == false).await;
    run_on("mill").await.problem(503, "node-unavailable");
    assert_eq!(mill.calls().len(), 2);
    // Two names that were given here are equals.
    rename(&mill_id, "MILL").await;
    let refused = run_on("mill").await.problem(409, "node-ambiguous");
    assert_eq!(
        refused["candidates"].as_array().map(Vec::len),
        Some(2),
        "{refused}"
    );
}

#[tokio::test]
async fn what_cannot_be_seen_in_a_name_is_replaced() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present).named("bo\u{202e}x\u{7}");
    asks(&server, &device).await;
    let waiting = pairings(&server.operator()).await;
    assert_eq!(waiting[0]["displayName"], "bo\u{fffd}x\u{fffd}");
}

#[tokio::test]
async fn a_revoked_token_opens_nothing_and_the_secret_alone_neither() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    let node = TestNode::join(&server, device.clone(), |_call| None).await;
    let token = node.token();
    let mut operator = OperatorClient::new(&server.operator_token(), &["operator.admin"])
        .connect(&server)
        .await;
    let of_node = json!({"deviceId": device.id(), "role": "node"});
    operator.call("device.token.revoke", of_node.clone()).await;
    let (code, reason) = node.ended().await.close();
    assert_eq!((code, reason.as_str()), (4001, "token revoked"));
    let mut line = Line::open(&server).await;
    let error = line
        .connect(&device.clone().with_token(&token))
        .await
        .unwrap_err();
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISMATCH");
    // A new token is not made behind the back of whoever took the old one away.
    let error = operator.fails("device.token.rotate", of_node).await;
    assert_eq!(error["code"], "INVALID_REQUEST");
    let request = asks(&server, &device).await;
    let waiting = pairings(&server.operator()).await;
    assert_has!(waiting[0], {"requestId": request, "isRepair": true, "kind": "device"});
    decide(&server, &request, "approve").await;
    Line::open(&server).await.connect(&device).await.unwrap();
}

#[tokio::test]
async fn a_rotated_token_is_the_only_one() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::First);
    let node = TestNode::join(&server, device.clone(), |_call| None).await;
    let token = node.token();
    let mut operator = OperatorClient::new(&server.operator_token(), &["operator.admin"])
        .connect(&server)
        .await;
    let rotated = operator
        .call(
            "device.token.rotate",
            json!({"deviceId": device.id(), "role": "node"}),
        )
        .await;
    assert_eq!(node.ended().await.close().0, 4001);
    let old = device.clone().with_token(&token);
    let error = Line::open(&server).await.connect(&old).await.unwrap_err();
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISMATCH");
    let new = device.with_token(rotated.text("token"));
    Line::open(&server).await.connect(&new).await.unwrap();
}
