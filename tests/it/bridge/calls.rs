//! Calls of nodes: who is called, who answers, and what happens when nobody does.

use serde_json::{Value, json};

use crate::support::{
    OperatorClient, OperatorLink, TestServer,
    node::{Device, Line, Speaks, TestNode, answer_params},
};

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
    assert_eq!(
        error["details"]["nodeError"],
        json!({"code": "INVALID_REQUEST", "message": "bins required"})
    );
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
    let shown = server
        .operator()
        .get(&format!("/v1/nodes/{}", node.id()))
        .await
        .expect(200);
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
            let cancel = node.heard("node.invoke.cancel").await;
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
        assert_eq!(
            answer["payload"]["payload"],
            json!({"bins": [number.to_string()]})
        );
    }
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
