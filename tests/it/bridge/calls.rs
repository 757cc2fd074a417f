//! Calls of nodes: who is called, who answers, and what happens when nobody does.

use serde_json::{Value, json};

use super::wire::{TEXT, Wire};
use crate::support::{
    Members, OperatorClient, OperatorLink, TestServer, eventually,
    node::{Device, Line, Speaks, TestNode, answer_params},
    within,
};

/// What a call is told that finds no place at a node.
const FULL: &str = "too many calls wait for the node";

async fn operator(server: &TestServer) -> OperatorLink {
    OperatorClient::new(&server.operator_token(), &["operator.admin"])
        .connect(server)
        .await
}

fn which(node: &str) -> Value {
    json!({"nodeId": node, "command": "system.which", "params": {"bins": ["sh"]}})
}

/// What a node says to `system.which`.
#[expect(clippy::unnecessary_wraps, reason = "answers as the others do")]
fn found() -> Result<Value, (String, String)> {
    Ok(json!({"bins": {"sh": "/bin/sh"}}))
}

#[tokio::test]
async fn a_node_of_each_generation_is_called_and_answers() {
    let server = TestServer::full().start().await;
    let mut operator = operator(&server).await;
    for speaks in [Speaks::First, Speaks::Present, Speaks::Ours] {
        let node = TestNode::join(&server, Device::new(&server, speaks), |_call| Some(found())).await;
        let answer = operator.call("node.invoke", which(&node.id())).await;
        assert_eq!(answer["payload"], found().unwrap(), "{speaks:?}");
        let calls = node.calls();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0]["command"], "system.which");
        assert_eq!(calls[0]["params"], json!({"bins": ["sh"]}));
        assert_eq!(calls[0]["nodeId"], json!(node.id()));
        assert_eq!(calls[0]["timeoutMs"], 30_000);
        assert!(calls[0]["idempotencyKey"].is_string());
    }
}

#[tokio::test]
async fn a_nodes_own_error_is_handed_on() {
    let server = TestServer::full().start().await;
    let mut operator = operator(&server).await;
    let no = || Some(Err(("INVALID_REQUEST".to_owned(), "bins required".to_owned())));
    let node = TestNode::join(&server, Device::new(&server, Speaks::Present), move |_call| no()).await;
    let error = operator.fails("node.invoke", which(&node.id())).await;
    assert_has!(error, { "details/nodeError": {"code": "INVALID_REQUEST", "message": "bins required"} });
}

#[tokio::test]
async fn only_what_was_declared_and_is_allowed_is_called() {
    let server = TestServer::full()
        .toml(
            "[bridge]\nallow_commands = [\"ollama.chat\"]\ndeny_commands = [\"system.execApprovals.set\"]\n",
        )
        .start()
        .await;
    let mut operator = operator(&server).await;
    let device = Device::new(&server, Speaks::Present).declaring(&[
        "system.which",
        "system.execApprovals.set",
        "ollama.chat",
        "desktop.stream",
    ]);
    let node = TestNode::join(&server, device, |_call| Some(found())).await;
    for (command, reason) in [
        ("system.run.prepare", "command not declared by node"),
        ("system.execApprovals.set", "command not allowlisted"),
        ("desktop.stream", "command not allowlisted"),
    ] {
        let call = json!({"nodeId": node.id(), "command": command, "params": {}});
        let error = operator.fails("node.invoke", call).await;
        assert_eq!(error["details"]["reason"], reason, "{command}: {error}");
    }
    let call = json!({"nodeId": node.id(), "command": "ollama.chat", "params": {}});
    operator.call("node.invoke", call).await;
    assert_eq!(node.calls().len(), 1, "nothing else was sent");
    let shown = server.operator().read(&format!("/v1/nodes/{}", node.id())).await;
    assert_eq!(shown["commands"], json!(["ollama.chat", "system.which"]));
}

#[tokio::test]
async fn nobody_waits_longer_than_they_said_and_a_late_answer_is_ignored() {
    let server = TestServer::full().start().await;
    let mut operator = operator(&server).await;
    for (speaks, understands) in [(Speaks::First, false), (Speaks::Present, true)] {
        let node = TestNode::join(&server, Device::new(&server, speaks), |_call| None).await;
        let mut call = which(&node.id());
        call["timeoutMs"] = json!(50);
        let error = operator.fails("node.invoke", call).await;
        assert_eq!(error["details"]["nodeError"]["code"], "TIMEOUT");
        let id = node.called(1).await[0]["id"].clone();
        if understands {
            let cancel = node.receive("node.invoke.cancel").await;
            assert_eq!(cancel, json!({"invokeId": id, "nodeId": node.id()}));
        }
        // Over a connection of its own, so that the answer can be seen.
        let token = node.token();
        let device = node.device.clone().with_token(&token);
        node.vanish();
        let mut line = Line::open(&server).await;
        line.connect(&device).await.unwrap();
        let late = line
            .ask(
                "node.invoke.result",
                answer_params(id.as_str().unwrap(), &device.id(), found()),
            )
            .await;
        assert_eq!(late["payload"], json!({"ok": true, "ignored": true}));
    }
}

#[tokio::test]
async fn a_node_that_goes_away_answers_nothing_any_more() {
    let server = TestServer::full().start().await;
    let mut operator = operator(&server).await;
    let node = TestNode::join(&server, Device::new(&server, Speaks::Present), |_call| None).await;
    let id = operator.send("node.invoke", which(&node.id())).await;
    node.called(1).await;
    let device = node.device.clone();
    node.vanish();
    let answer = operator.answer(&id).await;
    assert_eq!(answer["error"]["code"], "UNAVAILABLE", "{answer}");
    let error = operator.fails("node.invoke", which(&device.id())).await;
    assert_eq!(error["details"]["code"], "NOT_CONNECTED");
}

#[tokio::test]
async fn a_second_connection_replaces_the_first_for_good() {
    let server = TestServer::full().start().await;
    let mut operator = operator(&server).await;
    let device = Device::new(&server, Speaks::Present);
    let first = TestNode::join(&server, device.clone(), |_call| None).await;
    let waiting = operator.send("node.invoke", which(&device.id())).await;
    first.called(1).await;
    let second = TestNode::connect(&server, device.clone(), |_call| Some(found())).await;
    let answer = operator.answer(&waiting).await;
    assert_eq!(answer["error"]["code"], "UNAVAILABLE", "{answer}");
    let (code, reason) = first.ended().await.close();
    assert_eq!((code, reason.as_str()), (4001, "replaced by a newer connection"));
    // The end of the first took nothing of the second along.
    for _ in 0..3 {
        let answer = operator.call("node.invoke", which(&device.id())).await;
        assert_eq!(answer["payload"], found().unwrap());
    }
    assert_eq!(second.calls().len(), 3);
}

#[tokio::test]
async fn many_calls_at_once_find_their_answers() {
    let server = TestServer::full().start().await;
    let mut operator = operator(&server).await;
    let echo = |call: &Value| Some(Ok(call["params"].clone()));
    let node = TestNode::join(&server, Device::new(&server, Speaks::Present), echo).await;
    let mut asked = Vec::new();
    for number in 0..40 {
        let call =
            json!({"nodeId": node.id(), "command": "system.which", "params": {"bins": [number.to_string()]}});
        asked.push((number, operator.send("node.invoke", call).await));
    }
    for (number, id) in asked {
        let answer = operator.answer(&id).await;
        assert_has!(answer, { "payload/payload": {"bins": [number.to_string()]} });
    }
}

#[tokio::test]
async fn a_call_that_is_too_large_reaches_no_node_and_cuts_none_off() {
    let server = TestServer::asking_on_nodes()
        .toml("[bridge]\nmax_buffer_bytes = 65536\n")
        .start()
        .await;
    let node = TestNode::join(&server, Device::new(&server, Speaks::Present), |_call| {
        Some(found())
    })
    .await;
    let invoke =
        |command: &str, params: Value| json!({"nodeId": node.id(), "command": command, "params": params});
    let (_, api) = server
        .token_with(json!({"name": "build", "scopes": ["exec"], "agents": ["build"]}))
        .await;
    let mut runner = OperatorClient::new(api.token().unwrap(), &["operator.write"])
        .connect(&server)
        .await;
    // Each of these is escaped once more for the node.
    let junk = "\"".repeat(300_000);
    runner
        .call(
            "node.invoke",
            invoke("system.which", json!({"bins": ["sh"], "junk": junk})),
        )
        .await;
    assert_eq!(node.calls()[0]["params"], json!({"bins": ["sh"]}));
    for bins in [vec!["x".to_owned(); 65], vec!["x".repeat(257)]] {
        let error = runner
            .fails("node.invoke", invoke("system.which", json!({"bins": bins})))
            .await;
        assert_eq!(
            error["message"],
            "invalid system.which params: at /bins: at most 64 names of at most 256 bytes"
        );
    }
    let prepare = json!({"command": ["/bin/true"], "agentId": "build", "junk": junk});
    let error = runner
        .fails("node.invoke", invoke("system.run.prepare", prepare))
        .await;
    assert_has!(error, { "message": "invalid system.run.prepare params: at most 262144 bytes" });
    let mut admin = operator(&server).await;
    let document = json!({"file": {"version": 1, "junk": junk}});
    for (method, params) in [
        (
            "node.invoke",
            invoke("system.execApprovals.set", document.clone()),
        ),
        (
            "exec.approvals.node.set",
            json!({"nodeId": node.id(), "file": document["file"]}),
        ),
    ] {
        let error = admin.fails(method, params).await;
        let message = error.text("message");
        assert!(message.contains("and a node takes at most "), "{message}");
    }
    assert_eq!(node.calls().len(), 1, "nothing of it was sent");
    let answer = admin.call("node.invoke", which(&node.id())).await;
    assert_eq!(answer["payload"], found().unwrap(), "over the same connection");
}

#[tokio::test]
async fn calls_that_a_node_does_not_take_are_refused_and_leave_it_connected() {
    let server = TestServer::full()
        .toml("[bridge]\nmax_buffer_bytes = 65536\n")
        .start()
        .await;
    let device = Device::new(&server, Speaks::Present).named("slow");
    crate::support::node::pair(&server, &device).await;
    let mut wire = Wire::open(&server).await;
    let params = wire.connect_params(&device).await;
    let connect = json!({"type": "req", "id": "c", "method": "connect", "params": params});
    wire.frame(TEXT, connect.to_string().as_bytes()).await;
    let path = format!("/v1/nodes/{}", device.id());
    let shown = async || server.operator().read(&path).await;
    eventually("connected", shown, |node| node["connected"] == true).await;
    let mut operator = operator(&server).await;
    let call = json!({
        "nodeId": device.id(), "command": "system.execApprovals.set", "timeoutMs": 1,
        "params": {"file": {"version": 1, "junk": "x".repeat(40_000)}},
    });
    let mut refused = None;
    for _ in 0..5_000 {
        let error = operator.fails("node.invoke", call.clone()).await;
        if error["details"]["nodeError"]["code"] != "TIMEOUT" {
            refused = Some(error);
            break;
        }
    }
    let error = refused.expect("the buffers of the system end somewhere");
    assert_eq!(error["message"], FULL);
    assert_eq!(server.operator().read(&path).await["connected"], true);
    drop(wire);
}

/// Calls a silent node until a call is sent, and waits no longer than a moment for its answer.
async fn until_sent(operator: &mut OperatorLink, node: &str) {
    let mut call = which(node);
    call["timeoutMs"] = json!(1);
    let sent = async {
        loop {
            let error = operator.fails("node.invoke", call.clone()).await;
            if error["details"]["nodeError"]["code"] == "TIMEOUT" {
                return;
            }
            assert_eq!(error["message"], FULL);
        }
    };
    within("a place", sent).await;
}

#[tokio::test]
async fn one_token_leaves_room_at_a_silent_node_and_gets_its_own_back_however_its_calls_end() {
    let server = TestServer::asking_on_nodes().start().await;
    let device = Device::new(&server, Speaks::Present);
    let node = TestNode::join(&server, device.clone(), |_call| None).await;
    let (_, api) = server
        .token_with(json!({"name": "greedy", "scopes": ["exec"]}))
        .await;
    let greedy = OperatorClient::new(api.token().unwrap(), &["operator.write"]);
    let mut first = greedy.connect(&server).await;
    let mut second = greedy.connect(&server).await;
    let mut third = greedy.connect(&server).await;
    let mut call = which(&node.id());
    call["timeoutMs"] = json!(600_000);
    // As many as one connection may have unanswered.
    for link in [&mut first, &mut second] {
        for _ in 0..64 {
            link.send("node.invoke", call.clone()).await;
        }
    }
    let calls = node.called(128).await;
    let error = third.fails("node.invoke", call.clone()).await;
    assert_has!(error, { "message": FULL, "retryable": true });
    assert_eq!(node.calls().len(), 128, "nothing more was sent");

    // Everybody else's calls are still sent: of another token with the same rights, and of whoever looks after nodes.
    let mut other = OperatorClient::new(&server.gateway_token(), &["operator.write"])
        .connect(&server)
        .await;
    until_sent(&mut other, &node.id()).await;
    until_sent(&mut operator(&server).await, &node.id()).await;
    let error = third.fails("node.invoke", call.clone()).await;
    assert_eq!(error["message"], FULL, "their end gives this token nothing");

    // An answer frees a place, and so does every end of waiting.
    node.answer(calls[0].text("id"), found());
    for _ in 0..3 {
        until_sent(&mut third, &node.id()).await;
    }
    let mut last = call.clone();
    last["params"]["bins"] = json!(["last"]);
    third.send("node.invoke", last.clone()).await;
    let calls = || std::future::ready(node.calls());
    let is_there = |calls: &Vec<Value>| calls.iter().any(|call| call["params"] == last["params"]);
    eventually("the last place taken", calls, is_there).await;
    let mut fourth = greedy.connect(&server).await;
    let error = fourth.fails("node.invoke", call.clone()).await;
    assert_eq!(error["message"], FULL);
    // So does the end of a connection that waits.
    drop(first);
    until_sent(&mut fourth, &node.id()).await;
    // Another connection of the node begins with nothing.
    node.vanish();
    let again = TestNode::connect(&server, device, |_call| None).await;
    fourth.send("node.invoke", call).await;
    again.called(1).await;
}

#[tokio::test]
async fn skills_are_told_from_the_settings() {
    let server = TestServer::full()
        .toml("[[policy.skill_bins]]\nname = \"jq\"\npath = \"/usr/bin/jq\"\n")
        .start()
        .await;
    let device = Device::new(&server, Speaks::First);
    crate::support::node::pair(&server, &device).await;
    let mut line = Line::open(&server).await;
    line.connect(&device).await.unwrap();
    let answer = line.ask("skills.bins", json!({})).await;
    assert_eq!(answer["payload"], json!({"bins": ["jq"]}));
}
