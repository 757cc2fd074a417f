use serde_json::{Value, json};

use super::{ONLY_RUN, SURFACE, WITH_WHICH, knock, operator_token, paired, token};
use crate::support::{
    Members, OperatorClient, ServerBuilder, TestServer,
    node::{Device, Speaks, TestNode},
};

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
        let nodes = list.list("nodes");
        let ids: Vec<&Value> = nodes.iter().map(|node| &node["nodeId"]).collect();
        assert_eq!(
            ids,
            [&json!(connected.id()), &json!(offline_id)],
            "connected first"
        );
        assert_eq!(nodes[0]["commands"], json!(ONLY_RUN));
        assert_has!(list, { "nodes/0/connected": true, "nodes/0/paired": true });
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
    assert_has!(request, { "requestId": asked.request, "deviceId": asked.node_id });
    assert_has!(request, { "silent": false, "isRepair": false, "role": "node" });
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
    assert_has!(event, { "payload/requiredApproveScopes": ["operator.pairing", "operator.admin"] });
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
    assert_has!(pairing.event("node.pair.resolved").await, { "payload/decision": "approved" });
    drop(node);
}

#[tokio::test]
async fn commands_of_a_node_are_open_by_scope() {
    let server = TestServer::asking_on_nodes().start().await;
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
    assert_has!(answer, { "ok": true, "nodeId": node.id(), "command": "system.which" });
    let error = runner
        .fails("node.invoke", invoke("system.which", json!({})))
        .await;
    assert_has!(error, { "message": "INVALID_REQUEST: Error: INVALID_REQUEST: bins required" });
    assert_eq!(error["details"]["nodeCommandDispatched"], true);
    let error = runner
        .fails(
            "node.invoke",
            invoke("system.execApprovals.set", json!({ "file": {} })),
        )
        .await;
    assert_has!(error, { "message": "missing scope: operator.admin" }, "no side edge to a node's policy");

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
    assert_has!(error, { "message": "missing scope: operator.write" }, "who answers runs nothing");
    let error = admin
        .fails("node.invoke", invoke("system.notify", json!({})))
        .await;
    assert_has!(error, { "details/reason": "command not declared by node" });
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
    assert_has!(error, { "code": "UNAVAILABLE", "message": "node not connected" });
    assert_eq!(error["details"]["code"], "NOT_CONNECTED");
}

/// What a node answers that lets everything run.
fn willing(command: &str, params: &Value) -> Result<Value, (&'static str, &'static str)> {
    match command {
        "system.run.prepare" => Ok(json!({
            "plan": { "argv": params["command"], "cwd": "/tmp", "commandText": "/usr/bin/id -u", "commandPreview": null,
                "agentId": params["agentId"], "sessionKey": params["sessionKey"],
                "mutableFileOperand": { "argvIndex": 1, "path": "/etc/shadow", "sha256": "0".repeat(64) } },
            "execPolicy": { "security": "full", "ask": "off" },
            "allowAlwaysCoverage": { "complete": true, "patterns": [] },
        })),
        "system.execApprovals.get" => Ok(json!({
            "path": "/x", "exists": true, "hash": "a".repeat(64),
            "file": { "version": 1, "defaults": { "security": "full", "ask": "off" } },
        })),
        "system.which" => Ok(json!({ "bins": { "sh": "/usr/bin/sh" } })),
        _ => Err(("UNAVAILABLE", "not here")),
    }
}

/// Somebody who runs things for these agents alone.
async fn runner_for(server: &TestServer, agents: &[&str]) -> crate::support::OperatorLink {
    let name = format!("for {}", agents.join(" "));
    let (_, api) = server
        .token_with(json!({ "name": name, "scopes": ["exec"], "agents": agents }))
        .await;
    OperatorClient::new(api.token().expect("a secret"), &["operator.write"])
        .connect(server)
        .await
}

#[tokio::test]
async fn who_may_run_nothing_on_a_node_asks_it_nothing() {
    let agent = |id: &str, exec: Value| json!({ "id": id, "tools": { "exec": exec } });
    let server = TestServer::asking_on_nodes()
        .config(&json!({
            "tools": { "exec": { "host": "node", "security": "allowlist", "ask": "on-miss" } },
            "agents": { "list": [
                agent("here", json!({ "host": "gateway" })),
                agent("closed", json!({ "security": "deny" })),
            ] },
        }))
        .start()
        .await;
    let node = paired(&server, "build-box", SURFACE).await;
    node.answers(willing);
    let prepare = |agent: &str| {
        json!({ "nodeId": node.id(), "command": "system.run.prepare", "idempotencyKey": "k", "params": {
            "command": ["/usr/bin/id", "-u"], "rawCommand": "/usr/bin/id -u", "agentId": agent,
            "sessionKey": format!("agent:{agent}:main"), "notAfterMs": 1, "unheardOf": "x",
        } })
    };
    let which = json!({
        "nodeId": node.id(), "command": "system.which", "idempotencyKey": "k", "params": { "bins": ["sh"], "j": "x" },
    });

    let mut build = runner_for(&server, &["build"]).await;
    let error = build.fails("node.invoke", prepare("secret")).await;
    assert_eq!(error["message"], "the token may not act for this agent");
    let mut hidden = prepare("secret");
    hidden["params"]["agentId"] = json!("build");
    let error = build.fails("node.invoke", hidden).await;
    assert_has!(error, { "message": "invalid system.run params: at /sessionKey: belongs to another agent" });
    let mut unnamed = prepare("secret");
    unnamed["params"] = json!({ "command": ["/usr/bin/id"] });
    let error = build.fails("node.invoke", unnamed).await;
    assert_has!(error, { "message": "the token may not act for this agent" }, "main is another one");

    let mut here = runner_for(&server, &["here"]).await;
    for call in [prepare("here"), which.clone()] {
        let error = here.fails("node.invoke", call).await;
        let message = error.text("message");
        assert!(message.starts_with("the host is not allowed: "), "{error}");
        let hint = error["details"].text("hint");
        assert!(hint.contains("tools.exec.host"), "{error}");
    }
    let mut closed = runner_for(&server, &["closed"]).await;
    let error = closed.fails("node.invoke", which.clone()).await;
    assert_eq!(error["details"]["reason"], "security-deny", "{error}");
    let error = closed.fails("node.invoke", prepare("closed")).await;
    assert_eq!(error["details"]["reason"], "security-deny", "{error}");
    for command in ["system.run.prepare", "system.which"] {
        assert_eq!(node.calls_of(command), Vec::<Value>::new(), "{command}");
    }

    // Whoever may run things there is answered, of what belongs to the question and of nothing that files hold.
    let answer = build.call("node.invoke", prepare("build")).await;
    assert_eq!(answer["payload"]["plan"]["argv"], json!(["/usr/bin/id", "-u"]));
    assert!(
        answer["payload"]["plan"].get("mutableFileOperand").is_none(),
        "{answer}"
    );
    assert!(!answer.text("payloadJSON").contains("mutableFileOperand"));
    let asked = node.calls_of("system.run.prepare");
    assert_eq!(
        asked.last().expect("a call")["params"],
        json!({
            "command": ["/usr/bin/id", "-u"], "rawCommand": "/usr/bin/id -u", "sessionKey": "agent:build:main",
            "agentId": "build",
        })
    );
    let answer = build.call("node.invoke", which.clone()).await;
    assert_eq!(answer["payload"], json!({ "bins": { "sh": "/usr/bin/sh" } }));
    let asked = node.calls_of("system.which");
    assert_eq!(asked.last().expect("a call")["params"], json!({ "bins": ["sh"] }));

    // A token for every agent looks programs up as soon as one of them may be there.
    let (exec, _) = token(&server, &["exec"]).await;
    let mut anybody = OperatorClient::new(&exec, &["operator.write"])
        .connect(&server)
        .await;
    anybody.call("node.invoke", which).await;
}

#[tokio::test]
async fn where_commands_stay_on_the_gateway_no_node_is_asked() {
    let server = TestServer::asking().start().await;
    let node = paired(&server, "build-box", SURFACE).await;
    node.answers(willing);
    let (exec, _) = token(&server, &["exec"]).await;
    let mut runner = OperatorClient::new(&exec, &["operator.write"])
        .connect(&server)
        .await;
    for (command, params) in [
        ("system.which", json!({ "bins": ["sh"] })),
        (
            "system.run.prepare",
            json!({ "command": ["/bin/sh", "/etc/shadow"] }),
        ),
    ] {
        let call =
            json!({ "nodeId": node.id(), "command": command, "params": params, "idempotencyKey": "k" });
        let error = runner.fails("node.invoke", call.clone()).await;
        let message = error.text("message");
        assert!(
            message.starts_with("the host is not allowed: "),
            "{command}: {error}"
        );
        assert!(error["details"]["hint"].is_string(), "{command}: {error}");
        assert_eq!(node.calls_of(command), Vec::<Value>::new());
        // Whoever looks after nodes runs nothing anywhere.
        let mut admin = OperatorClient::new(&operator_token(&server), &["operator.admin"])
            .connect(&server)
            .await;
        admin.call("node.invoke", call).await;
    }
}

/// A server whose commands all run on nodes, without a question.
fn free_on_nodes() -> ServerBuilder {
    ServerBuilder::new(&json!({ "host": "node", "security": "full", "ask": "off" }))
}

/// Calls of `system.run`, each under a key of its own.
fn run_call(node: &str, key: &str, more: &Value) -> Value {
    let mut params = json!({ "command": ["/usr/bin/id", "-u"] });
    for (name, value) in more.as_object().expect("members") {
        params[name] = value.clone();
    }
    json!({ "nodeId": node, "command": "system.run", "params": params, "idempotencyKey": key })
}

#[tokio::test]
async fn a_node_that_said_no_to_a_run_is_heard_in_its_own_words() {
    let server = free_on_nodes().start().await;
    let node = paired(&server, "build-box", SURFACE).await;
    let (exec, _) = token(&server, &["exec"]).await;
    let client = OperatorClient::new(&exec, &["operator.write"]);
    let mut present = client.clone().connect(&server).await;
    let mut first = client.first_generation().connect(&server).await;
    for (number, (code, message)) in [
        ("UNAVAILABLE", "PERMISSION_MISSING: screenRecording"),
        ("INVALID_REQUEST", "rawCommand does not match command"),
        ("SYSTEM_RUN_DENIED", "SYSTEM_RUN_DENIED: approval required"),
        ("UNAVAILABLE", "SYSTEM_RUN_DISABLED: security=deny"),
        ("UNAVAILABLE", "the disk is gone"),
    ]
    .into_iter()
    .enumerate()
    {
        node.answers(move |command, params| match command {
            "system.run" => Err((code, message)),
            _other => willing(command, params),
        });
        let call = |key: &str| run_call(&node.id(), &format!("{key}-{number}"), &json!({}));
        let error = present.fails("node.invoke", call("four")).await;
        assert_eq!(error["code"], "UNAVAILABLE", "{error}");
        assert_eq!(error["message"], format!("{code}: {message}"), "{error}");
        let said = json!({ "code": code, "message": message });
        assert_eq!(error["details"]["nodeError"], said, "{error}");
        assert_eq!(error["details"]["nodeCommandDispatched"], true, "{error}");
        let error = first.fails("node.invoke", call("three")).await;
        assert_eq!(error["message"], message, "{error}");
        assert_eq!(error["details"]["nodeError"], said, "{error}");
        assert_eq!(error["details"].get("nodeCommandDispatched"), None, "{error}");
    }
    // What this server refuses was never sent.
    let blocked = run_call(&node.id(), "env", &json!({ "env": { "LD_PRELOAD": "x" } }));
    let error = present.fails("node.invoke", blocked).await;
    assert_has!(error, { "details/nodeError/code": "INVALID_REQUEST" });
    assert_eq!(error["details"]["nodeCommandDispatched"], false, "{error}");
    // Neither was what the node would not even prepare.
    let ran = node.calls_of("system.run").len();
    node.answers(|command, params| match command {
        "system.run.prepare" => Err(("SYSTEM_RUN_DENIED", "SYSTEM_RUN_DISABLED: security=deny")),
        _other => willing(command, params),
    });
    let error = present
        .fails("node.invoke", run_call(&node.id(), "prepare", &json!({})))
        .await;
    assert_has!(error, { "message": "SYSTEM_RUN_DENIED: SYSTEM_RUN_DISABLED: security=deny" });
    assert_eq!(error["details"]["nodeCommandDispatched"], false, "{error}");
    assert_eq!(node.calls_of("system.run").len(), ran);
}

#[tokio::test]
async fn what_a_command_wrote_goes_on_as_its_node_sent_it() {
    let server = free_on_nodes().start().await;
    let node = paired(&server, "build-box", SURFACE).await;
    let (exec, _) = token(&server, &["exec"]).await;
    let mut runner = OperatorClient::new(&exec, &["operator.write"])
        .connect(&server)
        .await;
    let long = format!("{}\n... (truncated)", "a".repeat(200_000));
    let half = "a".repeat(150_000);
    let rest = format!("{}\n... (truncated)", "b".repeat(50_000));
    let ended =
        |code: i64| json!({ "exitCode": code, "timedOut": false, "success": code == 0, "error": null });
    let without_code = |error: Value| json!({ "timedOut": false, "success": false, "error": error });
    for (number, (result, stdout, stderr)) in [
        (ended(0), long.as_str(), ""),
        (ended(0), half.as_str(), rest.as_str()),
        (ended(3), "\u{1b}[31mred\u{1b}[0m\n", "\u{1b}]0;title\u{7}"),
        (without_code(json!("spawn x ENOENT")), "", ""),
        (without_code(Value::Null), "so far", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let mut result = result;
        result["stdout"] = json!(stdout);
        result["stderr"] = json!(stderr);
        let sent = result.clone();
        node.answers(move |command, params| match command {
            "system.run" => Ok(sent.clone()),
            _other => willing(command, params),
        });
        let call = run_call(&node.id(), &number.to_string(), &json!({}));
        let mut answer = runner.call("node.invoke", call).await;
        let payload = answer["payload"].as_object_mut().expect("a payload");
        assert!(payload.shift_remove("runId").is_some(), "{number}");
        assert!(
            Value::Object(payload.clone()) == result,
            "{number}: {:.300}",
            Value::Object(payload.clone()).to_string()
        );
    }
}

#[tokio::test]
async fn a_silent_node_an_absent_one_and_none_at_all_are_told_apart() {
    let server = free_on_nodes()
        .toml("[bridge]\ninvoke_timeout_ms = 500\n")
        .start()
        .await;
    // It says what its policy is, and nothing of any command.
    let device = Device::new(&server, Speaks::Present);
    let document = willing("system.execApprovals.get", &Value::Null).expect("a document");
    let silent = TestNode::join(&server, device, move |call| {
        (call["command"] == "system.execApprovals.get").then(|| Ok(document.clone()))
    })
    .await;
    let absent = paired(&server, "away", SURFACE).await;
    let absent_id = absent.id();
    absent.leave(&server).await;
    let (exec, _) = token(&server, &["exec"]).await;
    let client = OperatorClient::new(&exec, &["operator.write"]);
    let mut present = client.clone().connect(&server).await;
    let mut first = client.first_generation().connect(&server).await;

    let error = present
        .fails("node.invoke", run_call(&silent.id(), "silent", &json!({})))
        .await;
    assert_eq!(error["code"], "UNAVAILABLE", "{error}");
    assert_eq!(error["details"]["nodeError"]["code"], "TIMEOUT", "{error}");
    assert_eq!(error["details"]["nodeCommandDispatched"], false, "{error}");

    for operator in [&mut present, &mut first] {
        let away = run_call(&absent_id, "absent", &json!({}));
        let error = operator.fails("node.invoke", away).await;
        assert_eq!(error["message"], "node not connected", "{error}");
        assert_eq!(error["details"]["code"], "NOT_CONNECTED", "{error}");
    }

    for command in ["system.run", "system.which"] {
        let mut nobody = run_call(&"0".repeat(64), "nobody", &json!({}));
        nobody["command"] = json!(command);
        let error = present.fails("node.invoke", nobody.clone()).await;
        assert_eq!(error["code"], "UNAVAILABLE", "{error}");
        assert_eq!(error["details"]["code"], "PAIRING_CHANGED", "{error}");
        assert_eq!(error["retryable"], true, "{error}");
        let error = first.fails("node.invoke", nobody).await;
        assert_eq!(error["details"]["code"], "NOT_CONNECTED", "{error}");
    }
}

#[tokio::test]
async fn what_waits_for_a_person_is_bounded_in_bytes() {
    let server = TestServer::asking().start().await;
    let (exec, _) = token(&server, &["exec"]).await;
    let mut asker = OperatorClient::new(&exec, &["operator.write"])
        .connect(&server)
        .await;
    assert_eq!(asker.hello["policy"]["maxPayload"], 4 * 1024 * 1024);
    let request = json!({ "command": "ls", "host": "gateway", "timeoutMs": 600_000, "twoPhase": true });
    let accepted = asker.call("exec.approval.request", request).await;
    let id = accepted.text("id").to_owned();
    let padded = json!({ "id": id, "junk": "x".repeat(3_000_000) });
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(asker.send("exec.approval.waitDecision", padded.clone()).await);
    }
    let error = asker.fails("exec.approval.waitDecision", padded.clone()).await;
    assert_has!(error, { "message": "too many requests are unanswered", "retryable": true });
    // What is short still fits.
    asker.call("health", json!({})).await;
    server.operator().decided(&id, "deny").await;
    for question in waiting {
        let answer = asker.answer(&question).await;
        assert_eq!(answer["payload"]["decision"], "deny", "{answer}");
    }
    let answer = asker.call("exec.approval.waitDecision", padded).await;
    assert_eq!(answer["decision"], "deny");
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
        let pending = server.operator().waiting().await;
        assert_eq!(
            node.calls_of("system.run"),
            Vec::<Value>::new(),
            "nothing ran unasked"
        );
        assert_eq!(pending[0]["nodeId"], node.id());
        assert_eq!(pending[0]["command"], "/usr/bin/id -u");
        let id = pending[0].text("id");
        server.operator().decided(id, decision).await;
        let answer = runner.answer(&asked).await;
        if decision == "deny" {
            let error = &answer["error"];
            assert_eq!(error["code"], "UNAVAILABLE", "{answer}");
            assert_has!(error, { "details/nodeError/code": "SYSTEM_RUN_DENIED" }, "{answer}");
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
