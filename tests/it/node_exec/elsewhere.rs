//! Commands that somebody else starts on a person's answer: no node has anything to say of them.

use serde_json::json;

use crate::support::{
    Members, OperatorClient, TestServer,
    node::{Device, Line, Speaks, answer_params, pair},
};

#[tokio::test]
async fn a_node_cannot_end_what_was_never_sent_to_it() {
    let server = TestServer::asking().start().await;
    let device = Device::new(&server, Speaks::Ours);
    pair(&server, &device).await;
    let mut node = Line::open(&server).await;
    node.connect(&device).await.unwrap();
    let (_, exec) = server
        .token_with(json!({ "name": "asker", "scopes": ["exec"] }))
        .await;
    let mut asker = OperatorClient::new(exec.token().expect("a token"), &["operator.write"])
        .connect(&server)
        .await;
    let question = json!({
        "command": "/usr/bin/id -u", "host": "node", "nodeId": device.id(), "agentId": "main",
        "timeoutMs": 60_000, "twoPhase": true,
    });
    let asked = asker.send("exec.approval.request", question).await;
    let accepted = asker.answer(&asked).await;
    let id = accepted["payload"].text("id").to_owned();
    let operator = server.operator();
    operator.decided(&id, "allow-once").await;
    let approval = operator.approval(&id).await;
    let run_id = approval.text("runId");
    let run = operator.run(run_id).await;
    assert_has!(run, { "status": "lost", "reason": "run-elsewhere" });
    let forged =
        json!({ "exitCode": 0, "timedOut": false, "success": true, "stdout": "forged", "stderr": "" });
    let params = answer_params(run_id, &device.id(), Ok(forged));
    let answer = node.ask("node.invoke.result", params).await;
    assert_eq!(answer["payload"], json!({ "ok": true, "ignored": true }));
    assert_eq!(operator.run(run_id).await, run);
}
