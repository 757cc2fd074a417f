//! What a node refuses by the policy of its own machine: which rule of which file, on the whole way back.

use serde_json::{Value, json};

use super::Both;
use crate::support::{
    Members, TestServer, eventually,
    node::{Device, Speaks, TestNode},
};

/// A server that lets everything run, and a node of ours with this policy.
async fn with_node(config: Value, document: Value) -> Both {
    Both::meet_with(TestServer::full(), ("full", "off"), &config, &document).await
}

/// Refuses a command, and looks at the whole way back: the answer, the record, the event, the command line. Returns the
/// words.
async fn refused(server: &TestServer, reason: &str) -> String {
    let (agent, operator) = (server.agent(), server.operator());
    let problem = agent
        .denied(json!({ "argv": ["/usr/bin/id"], "host": "node" }))
        .await;
    assert_eq!(problem["reason"], reason, "{problem}");
    let run = problem.text("runId");
    let record = operator.run(run).await;
    assert_has!(record, { "status": "denied", "reason": reason, "detail": problem["detail"] });
    let mut events = operator.events("", Some(0)).await;
    let event = loop {
        let event = events.next_of("exec.denied").await;
        if event.data["runId"] == run {
            break event;
        }
    };
    assert_eq!(event.data["detail"], problem["detail"], "{event:?}");
    let detail = problem.text("detail").to_owned();
    let invocation = server
        .invocation(&["exec", "--host", "node", "--", "/usr/bin/id"])
        .env("COUNTERSIGN_TOKEN", server.gateway_token());
    let said = TestServer::finish(invocation).await;
    assert_eq!(said.code, Some(77), "{said:?}");
    assert!(said.stderr.contains(&detail), "{detail}: {said:?}");
    detail
}

async fn explained(server: &TestServer) -> Value {
    let call = json!({ "argv": ["/usr/bin/id"], "host": "node" });
    server.operator().explain(call).await
}

#[tokio::test]
async fn a_node_that_refuses_by_its_configuration_names_the_key_and_the_file() {
    let both = with_node(
        json!({ "tools": { "exec": { "security": "deny" } } }),
        json!({ "version": 1, "defaults": { "security": "full", "ask": "off" } }),
    )
    .await;
    let file = both.node.file("state/openclaw.json");
    let rule = format!(
        "security-deny by tools.exec.security in {} (layer global)",
        file.display()
    );
    let detail = refused(&both.server, "security-deny").await;
    assert_eq!(
        detail,
        format!(
            "the node said: SYSTEM_RUN_DISABLED: security=deny (code SYSTEM_RUN_DENIED); decided there: {rule}"
        )
    );
    // This server knows no rule against it, and says what the node would say.
    let explained = explained(&both.server).await;
    assert_eq!(explained["outcome"], "run", "{explained}");
    assert_eq!(explained["node"]["wouldRefuse"], rule, "{explained}");
    let shown = both.server.cli(&["policy", "explain", "--", "/usr/bin/id"]).await;
    assert!(shown.stdout.contains(&rule), "{shown:?}");
}

#[tokio::test]
async fn a_node_whose_document_refuses_is_named_with_the_place_of_its_document() {
    let both = with_node(
        json!({ "tools": { "exec": { "security": "full", "ask": "off" } } }),
        json!({ "version": 1, "defaults": { "security": "full", "ask": "off" },
            "agents": { "main": { "security": "deny" } } }),
    )
    .await;
    let file = both.node.file("state/exec-approvals.json").display().to_string();
    let detail = refused(&both.server, "security-deny").await;
    let place = format!("security is deny (agents.main.security in {file} on node ours (");
    assert!(detail.starts_with(&place), "{detail}");
    let explained = explained(&both.server).await;
    assert_eq!(explained["node"]["path"], file, "{explained}");

    let both = with_node(
        json!({ "tools": { "exec": { "security": "full", "ask": "off" } } }),
        json!({ "version": 1, "defaults": { "security": "full", "ask": "off" },
            "agents": { "*": { "denylist": [{ "id": "d", "pattern": "/usr/bin/id", "reason": "not here" }] } } }),
    )
    .await;
    let file = both.node.file("state/exec-approvals.json").display().to_string();
    let detail = refused(&both.server, "denylist").await;
    let told = format!("deny rule /usr/bin/id matched: not here (agents.*.denylist in {file} on node ours (");
    assert!(detail.starts_with(&told), "{detail}");
}

/// A node of ours whose program was exchanged: it may send anything, and changes nothing but text.
#[tokio::test]
async fn what_a_hostile_node_says_about_its_rule_is_text_and_no_more() {
    let server = TestServer::full()
        .exec(&json!({ "host": "node", "security": "full", "ask": "off" }))
        .start()
        .await;
    let device = Device::new(&server, Speaks::Ours).declaring(&["system.run", "countersign.run.status"]);
    let node = TestNode::join(&server, device, |_call| None).await;
    let agent = server.agent();
    let lie = json!({ "reason": "user-denied", "layer": "clamp", "key": "x in /etc/shadow\u{202e}\n\u{1b}[2J", "file": "/\u{0}" });
    for (at, (member, code, told)) in [
        (json!("text"), "SYSTEM_RUN_DENIED", None),
        (json!({ "reason": "because" }), "SYSTEM_RUN_DENIED", None),
        (json!({ "reason": ["security-deny"] }), "SYSTEM_RUN_DENIED", None),
        (
            json!({ "reason": "denylist", "key": "k".repeat(400_000) }),
            "SYSTEM_RUN_DENIED",
            Some("denylist"),
        ),
        (
            json!({ "reason": "denylist", "file": "../../relative", "layer": "\u{202e}" }),
            "SYSTEM_RUN_DENIED",
            Some("denylist"),
        ),
        (
            lie.clone(),
            "SYSTEM_RUN_DENIED",
            Some("user-denied by x in /etc/shadow\u{fffd}\u{fffd}\u{fffd}[2J in /\u{fffd} (layer clamp)"),
        ),
        // What is no denial has no rule.
        (lie, "UNAVAILABLE", None),
    ]
    .into_iter()
    .enumerate()
    {
        let asking = agent.exec(json!({ "argv": ["/usr/bin/id"] }));
        let answering = async {
            let call = node.called(at + 1).await[at].clone();
            let message = if code == "UNAVAILABLE" {
                "it broke"
            } else {
                "SYSTEM_RUN_DENIED: allowlist miss"
            };
            let error = json!({ "code": code, "message": message, "countersign": member });
            node.say(
                "node.invoke.result",
                json!({ "id": call["id"], "nodeId": node.id(), "ok": false, "error": error }),
            );
        };
        let (answer, ()) = tokio::join!(asking, answering);
        let (reason, detail) = if code == "UNAVAILABLE" {
            let run = answer.expect(200);
            (run["reason"].clone(), run["detail"].clone())
        } else {
            let problem = answer.problem(403, "exec-denied");
            (problem["reason"].clone(), problem["detail"].clone())
        };
        let expect = if code == "UNAVAILABLE" {
            "invoke-failed"
        } else {
            "allowlist-miss"
        };
        assert_eq!(reason, expect, "{detail}");
        let words = detail.as_str().expect("a detail");
        assert!(words.len() < 2_000, "{}", words.len());
        let rule = words.split_once("; decided there: ").map(|(_, rule)| rule);
        assert_eq!(rule, told, "{words}");
    }
    // It is still there, and its word counts as before.
    let listed = || async { server.operator().read("/v1/nodes").await };
    eventually("connected", listed, |nodes| {
        nodes["items"][0]["connected"] == true
    })
    .await;
}
