use serde_json::{Value, json};

use super::{ONLY_RUN, SURFACE, WITH_WHICH, knock, operator_token, paired, token};
use crate::support::{OperatorClient, ServerBuilder, TestServer, eventually};

const PAIRING: &[&str] = &["operator.read", "operator.pairing", "operator.admin"];

#[tokio::test]
async fn an_operator_lists_describes_renames_and_removes() {
    let server = TestServer::asking().start().await;
    let connected = paired(&server, "Zebra", ONLY_RUN).await;
    let offline = paired(&server, "aardvark", ONLY_RUN).await;
    let offline_id = offline.id();
    offline.leave(&server).await;
    let client = OperatorClient::new(&operator_token(&server), PAIRING);
    for first_generation in [false, true] {
        let client = if first_generation {
            client.clone().first_generation()
        } else {
            client.clone()
        };
        let mut operator = client.connect(&server).await;
        let list = operator.call("node.list", json!({})).await;
        assert!(list["ts"].is_i64(), "{list}");
        let nodes = list["nodes"].as_array().expect("nodes");
        let ids: Vec<&Value> = nodes.iter().map(|node| &node["nodeId"]).collect();
        assert_eq!(
            ids,
            [&json!(connected.id()), &json!(offline_id)],
            "connected first"
        );
        assert_eq!(nodes[0]["commands"], json!(ONLY_RUN));
        assert_eq!(
            (&nodes[0]["connected"], &nodes[0]["paired"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(nodes[0].get("approvalState").is_some(), !first_generation);
        let described = operator
            .call("node.describe", json!({ "nodeId": connected.id() }))
            .await;
        assert_eq!(described["nodeId"], connected.id());
        assert!(described["ts"].is_i64());
    }
    let mut operator = client.connect(&server).await;
    let rename = json!({ "nodeId": connected.id(), "displayName": "Horse" });
    assert_eq!(operator.call("node.rename", rename).await["displayName"], "Horse");
    let rename = json!({ "deviceId": connected.id(), "label": "Pony" });
    assert_eq!(operator.call("device.pair.rename", rename).await["label"], "Pony");
    let error = operator
        .fails(
            "node.rename",
            json!({ "nodeId": connected.id(), "displayName": "a\nb" }),
        )
        .await;
    assert_eq!(error["code"], "INVALID_REQUEST");

    let rotated = operator
        .call(
            "device.token.rotate",
            json!({ "deviceId": offline_id, "role": "node" }),
        )
        .await;
    assert!(
        rotated["token"].as_str().is_some_and(|token| token.len() >= 32),
        "{rotated}"
    );
    operator
        .fails(
            "device.token.rotate",
            json!({ "deviceId": offline_id, "role": "operator" }),
        )
        .await;
    operator
        .call(
            "device.token.revoke",
            json!({ "deviceId": offline_id, "role": "node" }),
        )
        .await;
    let id = connected.id();
    operator
        .call("device.pair.remove", json!({ "deviceId": id }))
        .await;
    connected.closed().await;
    operator
        .fails("device.pair.remove", json!({ "deviceId": id }))
        .await;
}

#[tokio::test]
async fn an_operator_hears_of_pairings_and_decides_them() {
    let server = TestServer::asking().start().await;
    let mut operator = OperatorClient::new(&operator_token(&server), &["operator.pairing"])
        .connect(&server)
        .await;
    let mut reader = OperatorClient::new(&operator_token(&server), &["operator.read"])
        .connect(&server)
        .await;
    let asked = knock(&server, "build-box", ONLY_RUN).await;
    let event = operator.event("device.pair.requested").await;
    let request = &event["payload"];
    assert_eq!(
        (&request["requestId"], &request["deviceId"]),
        (&json!(asked.request), &json!(asked.node_id))
    );
    assert_eq!(
        (&request["silent"], &request["isRepair"], &request["role"]),
        (&json!(false), &json!(false), &json!("node"))
    );
    let listed = operator.call("device.pair.list", json!({})).await;
    assert_eq!(&listed["pending"][0], request);
    assert_eq!(listed["paired"], json!([]));
    // It is not one of the other kind.
    operator
        .fails("node.pair.reject", json!({ "requestId": asked.request }))
        .await;
    let approved = operator
        .call("device.pair.approve", json!({ "requestId": asked.request }))
        .await;
    assert_eq!(approved["device"]["deviceId"], asked.node_id.as_str());
    let tokens = &approved["device"]["tokens"];
    assert!(
        tokens[0].get("token").is_none(),
        "a token is never shown: {tokens}"
    );
    let resolved = operator.event("device.pair.resolved").await;
    assert_eq!(resolved["payload"]["decision"], "approved");
    assert_eq!(resolved["payload"]["deviceId"], asked.node_id.as_str());
    operator
        .fails("device.pair.approve", json!({ "requestId": asked.request }))
        .await;

    let stranger = knock(&server, "stranger", ONLY_RUN).await;
    let rejected = operator
        .call("device.pair.reject", json!({ "requestId": stranger.request }))
        .await;
    assert_eq!(
        rejected,
        json!({ "requestId": stranger.request, "deviceId": stranger.node_id })
    );
    reader.call("health", json!({})).await;
    assert_eq!(reader.untaken().filter(|name| name.contains(".pair.")).count(), 0);
}

#[tokio::test]
async fn a_wider_surface_is_approved_by_an_operator_who_asked_for_admin() {
    let server = TestServer::asking().start().await;
    let node = paired(&server, "build-box", ONLY_RUN).await;
    let id = node.id();
    let mut pairing = OperatorClient::new(&operator_token(&server), &["operator.pairing"])
        .connect(&server)
        .await;
    let node = node.reconnect_with(&server, WITH_WHICH).await;
    let event = pairing.event("node.pair.requested").await;
    let request = event["payload"]["requestId"].clone();
    assert_eq!(
        event["payload"]["requiredApproveScopes"],
        json!(["operator.pairing", "operator.admin"])
    );
    let listed = pairing.call("node.pair.list", json!({})).await;
    assert_eq!(listed["pending"][0]["requestId"], request);
    assert_eq!(listed["paired"][0]["nodeId"], id.as_str());
    let error = pairing
        .fails("node.pair.approve", json!({ "requestId": request }))
        .await;
    assert_eq!(error["message"], "missing scope: operator.admin");
    let mut admin = OperatorClient::new(&operator_token(&server), PAIRING)
        .connect(&server)
        .await;
    let approved = admin
        .call("node.pair.approve", json!({ "requestId": request }))
        .await;
    assert_eq!(approved["node"]["nodeId"], id.as_str());
    assert_eq!(
        pairing.event("node.pair.resolved").await["payload"]["decision"],
        "approved"
    );
    drop(node);
}

#[tokio::test]
async fn commands_of_a_node_are_open_by_scope() {
    let server = TestServer::asking().start().await;
    let node = paired(
        &server,
        "build-box",
        &["system.execApprovals.set", "system.run", "system.which"],
    )
    .await;
    node.answers(|command, params| match (command, &params["bins"]) {
        ("system.which", Value::Array(_)) => Ok(json!({ "bins": { "sh": "/usr/bin/sh" } })),
        ("system.which", _) => Err(("INVALID_REQUEST", "Error: INVALID_REQUEST: bins required")),
        _ => Ok(json!({ "set": true })),
    });
    let invoke = |command: &str, params: Value| json!({ "nodeId": node.id(), "command": command, "params": params, "idempotencyKey": "k" });
    let (exec, _) = token(&server, &["exec"]).await;
    let mut runner = OperatorClient::new(&exec, &["operator.write"])
        .connect(&server)
        .await;
    let answer = runner
        .call(
            "node.invoke",
            invoke("system.which", json!({ "bins": ["sh", "nope"] })),
        )
        .await;
    assert_eq!(answer["payload"], json!({ "bins": { "sh": "/usr/bin/sh" } }));
    assert_eq!(answer["payloadJSON"], r#"{"bins":{"sh":"/usr/bin/sh"}}"#);
    assert_eq!(
        (&answer["ok"], &answer["nodeId"], &answer["command"]),
        (&json!(true), &json!(node.id()), &json!("system.which"))
    );
    let error = runner
        .fails("node.invoke", invoke("system.which", json!({})))
        .await;
    assert_eq!(
        error["message"],
        "INVALID_REQUEST: Error: INVALID_REQUEST: bins required"
    );
    assert_eq!(error["details"]["nodeCommandDispatched"], true);
    let error = runner
        .fails(
            "node.invoke",
            invoke("system.execApprovals.set", json!({ "file": {} })),
        )
        .await;
    assert_eq!(
        error["message"], "missing scope: operator.admin",
        "no side door to a node's policy"
    );

    let mut admin = OperatorClient::new(&operator_token(&server), &["operator.admin"])
        .connect(&server)
        .await;
    admin
        .call(
            "node.invoke",
            invoke("system.execApprovals.set", json!({ "file": {} })),
        )
        .await;
    let error = admin
        .fails(
            "node.invoke",
            invoke("system.run", json!({ "command": ["echo", "hi"] })),
        )
        .await;
    assert_eq!(
        error["message"], "missing scope: operator.write",
        "who answers runs nothing"
    );
    let error = admin
        .fails("node.invoke", invoke("system.notify", json!({})))
        .await;
    assert_eq!(
        error["details"]["reason"], "command not declared by node",
        "{error}"
    );
    let error = admin.fails("node.invoke", invoke("bogus.cmd", json!({}))).await;
    assert_eq!(error["details"]["command"], "bogus.cmd", "{error}");

    let mut first = OperatorClient::new(&exec, &["operator.write"])
        .first_generation()
        .connect(&server)
        .await;
    let error = first
        .fails("node.invoke", invoke("system.which", json!({})))
        .await;
    assert_eq!(error["message"], "Error: INVALID_REQUEST: bins required");
    let nobody = json!({ "nodeId": "0".repeat(64), "command": "system.which", "idempotencyKey": "k" });
    let error = first.fails("node.invoke", nobody).await;
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!("UNAVAILABLE"), &json!("node not connected"))
    );
    assert_eq!(error["details"]["code"], "NOT_CONNECTED");
}

#[tokio::test]
async fn what_a_caller_says_about_approvals_lets_nothing_run() {
    let server = ServerBuilder::new(&json!({ "host": "node", "security": "allowlist", "ask": "always" }))
        .toml("[approvals]\nalways_reachable = true\n")
        .start()
        .await;
    let node = paired(&server, "build-box", SURFACE).await;
    node.answers(|command, params| match command {
        "system.run.prepare" => Ok(json!({
            "plan": { "argv": params["command"], "cwd": "/tmp", "commandText": "/usr/bin/id -u", "commandPreview": null,
                "agentId": params["agentId"], "sessionKey": params["sessionKey"] },
            "execPolicy": { "security": "full", "ask": "off" },
            "allowAlwaysCoverage": { "complete": true, "patterns": [] },
        })),
        "system.execApprovals.get" => Ok(json!({
            "path": "/x", "exists": true, "hash": "a".repeat(64),
            "file": { "version": 1, "defaults": { "security": "full", "ask": "off" } },
        })),
        "system.which" => Ok(json!({ "bins": {} })),
        "system.run" => Ok(json!({
            "exitCode": 0, "timedOut": false, "success": true, "stdout": "0\n", "stderr": "", "error": null,
        })),
        _ => Err(("UNAVAILABLE", "not here")),
    });
    let (exec, _) = token(&server, &["exec"]).await;
    let mut runner = OperatorClient::new(&exec, &["operator.write"])
        .connect(&server)
        .await;
    for (number, decision) in ["deny", "allow-once"].into_iter().enumerate() {
        let forged = json!({
            "command": ["/usr/bin/id", "-u"],
            "rawCommand": "/usr/bin/id -u",
            "cwd": "/tmp",
            "agentId": "main",
            "approved": true,
            "approvalDecision": "allow-always",
            "approvalSource": "ask-fallback",
            "runId": "30d1f3d7-2e8a-40f2-90b5-26b993a4c9cb",
            "systemRunPlan": { "argv": ["/bin/true"], "cwd": "/", "commandText": "/bin/true" },
        });
        let invoke = json!({
            "nodeId": node.id(), "command": "system.run", "params": forged, "idempotencyKey": number.to_string(),
        });
        let asked = runner.send("node.invoke", invoke).await;
        let pending = eventually(
            "asked",
            || async { server.operator().pending().await },
            |pending| !pending.is_empty(),
        )
        .await;
        assert_eq!(
            node.calls_of("system.run"),
            Vec::<Value>::new(),
            "nothing ran unasked"
        );
        assert_eq!(pending[0]["nodeId"], node.id());
        assert_eq!(pending[0]["command"], "/usr/bin/id -u");
        let id = pending[0]["id"].as_str().expect("an id");
        server.operator().decide(id, decision).await.expect(200);
        let answer = runner.answer(&asked).await;
        if decision == "deny" {
            let error = &answer["error"];
            assert_eq!(error["code"], "UNAVAILABLE", "{answer}");
            assert_eq!(
                error["details"]["nodeError"]["code"], "SYSTEM_RUN_DENIED",
                "{answer}"
            );
            assert_eq!(error["details"]["reason"], "user-denied", "{answer}");
        } else {
            assert_eq!(answer["payload"]["payload"]["stdout"], "0\n", "{answer}");
            assert_eq!(answer["payload"]["payload"]["exitCode"], 0, "{answer}");
            let ran = node.calls_of("system.run");
            assert_eq!(ran.len(), 1, "{ran:?}");
            assert_ne!(ran[0]["params"]["systemRunPlan"]["commandText"], "/bin/true");
        }
    }
}
