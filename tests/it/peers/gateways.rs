//! Our node as a node of the product's gateways.

use serde_json::{Value, json};

use super::{Generation, Peers, operator::Operator};
use crate::support::{Members, OurNode, free_port};

const TOKEN: &str = "shared-token-of-the-gateway";

/// What `node.list` says of our node.
async fn ours(operator: &mut Operator) -> Option<Value> {
    let list = operator.call("node.list", json!({})).await.expect("the nodes");
    let nodes = list["nodes"].as_array().cloned().unwrap_or_default();
    nodes.into_iter().find(|node| node["displayName"] == "ours")
}

async fn invoke(operator: &mut Operator, node: &str, command: &str, params: Value) -> Result<Value, Value> {
    let key = format!("key-{command}-{params}");
    let call = json!({
        "nodeId": node, "command": command, "params": params, "timeoutMs": 60_000, "idempotencyKey": key,
    });
    operator.call("node.invoke", call).await
}

async fn serves(generation: Generation) {
    let peers = or_skip!(Peers::find(generation));
    let port = free_port();
    let gateway = peers.gateway(port, TOKEN);
    let mut operator = Operator::connect(generation, port, TOKEN).await;
    let mut host = OurNode::new(("127.0.0.1", port), TOKEN, "full", "off");
    host.start();

    // Devices first, on the first generation without a question from this machine; then what the node offers.
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(4);
    let node = loop {
        assert!(
            tokio::time::Instant::now() < deadline,
            "our node never came:\n{}\nand says:\n{}",
            gateway.log(),
            host.log()
        );
        for (list, approve) in [
            ("device.pair.list", "device.pair.approve"),
            ("node.pair.list", "node.pair.approve"),
        ] {
            let pending = operator.call(list, json!({})).await.unwrap_or_default();
            for request in pending["pending"].as_array().cloned().unwrap_or_default() {
                let id = json!({ "requestId": request["requestId"] });
                operator.call(approve, id).await.expect("an approval of our node");
            }
        }
        if let Some(node) = ours(&mut operator).await.filter(|node| node["connected"] == true) {
            let id = node.text("nodeId").to_owned();
            let probe = invoke(&mut operator, &id, "system.which", json!({ "bins": ["sh"] })).await;
            if probe.is_ok() {
                break id;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };

    let which = invoke(
        &mut operator,
        &node,
        "system.which",
        json!({ "bins": ["sh", "no-such-program"] }),
    )
    .await
    .expect("where programs are");
    let bins = which["payload"]["bins"].as_object().cloned().expect("an object");
    assert_eq!(bins.keys().collect::<Vec<_>>(), ["sh"], "{which}");

    let echoed = invoke(
        &mut operator,
        &node,
        "system.run",
        json!({ "command": ["echo", "hi"], "timeoutMs": 20_000 }),
    )
    .await
    .expect("a run");
    assert_eq!(echoed["payload"]["stdout"], "hi\n", "{echoed}");
    assert_has!(echoed, { "payload/exitCode": 0, "payload/success": true, "payload/timedOut": false });

    let failed = invoke(
        &mut operator,
        &node,
        "system.run",
        json!({ "command": ["/bin/sh", "-lc", "echo no >&2; exit 3"], "rawCommand": "echo no >&2; exit 3" }),
    )
    .await
    .expect("a run that failed");
    assert_eq!(failed["payload"]["exitCode"], 3, "{failed}");
    assert_eq!(failed["payload"]["stderr"], "no\n", "{failed}");

    let snapshot = operator
        .call("exec.approvals.node.get", json!({ "nodeId": node }))
        .await
        .expect("the node's own document");
    assert_eq!(snapshot["file"]["defaults"]["security"], "full", "{snapshot}");
    let mut file = snapshot["file"].clone();
    file["defaults"]["security"] = json!("deny");
    operator
        .call(
            "exec.approvals.node.set",
            json!({ "nodeId": node, "file": file, "baseHash": snapshot["hash"] }),
        )
        .await
        .expect("a changed document");
    let refused = invoke(
        &mut operator,
        &node,
        "system.run",
        json!({ "command": ["echo", "no"] }),
    )
    .await
    .expect_err("nothing runs any more");
    assert!(refused.to_string().contains("security=deny"), "{refused}");
}

#[tokio::test]
async fn our_node_serves_the_first_generation() {
    serves(Generation::First).await;
}

#[tokio::test]
async fn our_node_serves_the_present_generation() {
    serves(Generation::Present).await;
}
