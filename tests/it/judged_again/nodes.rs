//! The same for commands on a node: it is asked what it says now, and what it would refuse is left to people.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{id, run, write_script};
use crate::support::{
    Members, OurNode, TestServer, assert_says, eventually, let_in, lines, until_connected, until_gone,
};

/// A server, and a node of ours with a program that leaves a line each time it runs.
struct Far {
    server: TestServer,
    node: OurNode,
    program: PathBuf,
}

impl Far {
    /// The first is the policy of the server to start with; `own` and `document` are that of the node.
    async fn new((security, ask): (&str, &str), own: Value, document: Value) -> Self {
        let server = TestServer::asking()
            .config(&json!({
                "tools": { "exec": { "host": "auto", "security": security, "ask": ask } },
                "agents": { "defaults": { "sandbox": { "mode": "off" } } },
            }))
            .document(&json!({ "version": 1, "defaults": { "security": "full", "ask": "off" } }))
            .start()
            .await;
        let address = server.address();
        let host = address.ip().to_string();
        let config = json!({ "tools": { "exec": own } });
        let token = server.bridge_token();
        let mut node = OurNode::with_policy((&host, address.port()), &token, &config, &document);
        node.start();
        let operator = server.operator();
        let_in(&operator).await;
        until_connected(&operator).await;
        let program = node.file("mark");
        write_script(&program, "ran");
        Self {
            server,
            node,
            program,
        }
    }

    async fn ask(&self, file: &str) -> Value {
        let argv = json!([self.program, self.node.file(file)]);
        self.server
            .asked(json!({ "argv": argv, "host": "node", "join": false }))
            .await
    }

    fn ran(&self, file: &str) -> usize {
        lines(&self.node.file(file)).len()
    }

    async fn approval(&self, pending: &Value) -> Value {
        let path = format!("/v1/approvals/{}", id(pending));
        self.server.operator().read(&path).await
    }

    async fn ended(&self, pending: &Value) -> Value {
        self.server.agent().finished(run(pending)).await
    }

    /// Changes a key of the server's configuration.
    async fn set(&self, key: &str, value: &str) {
        let said = self.server.cli(&["config", "set", key, value]).await;
        assert_eq!(said.code, Some(0), "{said:?}");
    }

    /// A question about a command of the server's own machine, which is judged after all that waited before it.
    async fn canary(&self) -> Value {
        self.server
            .asked(json!({ "argv": ["/bin/true"], "host": "gateway" }))
            .await
    }

    /// Replaces the node's document by way of the server.
    async fn replace_document(&self, change: impl FnOnce(&mut Value)) {
        let operator = self.server.operator();
        let nodes = operator.read("/v1/nodes").await;
        let node = nodes["items"][0].text("nodeId");
        let path = format!("/v1/nodes/{node}/policy/document");
        let present = operator.get(&path).await;
        let tag = present.header("etag").expect("a tag").to_owned();
        let mut document = present.expect(200);
        change(&mut document);
        operator.put_matching(&path, &tag, &document).await.expect(200);
    }

    async fn verified(&self) {
        let verified = self.server.operator().read("/v1/audit/verify").await;
        assert_eq!(verified["ok"], true, "{verified}");
    }
}

fn open() -> Value {
    json!({ "security": "full", "ask": "off" })
}

fn open_document() -> Value {
    json!({ "version": 1, "defaults": open() })
}

#[tokio::test]
async fn what_the_policy_covers_now_runs_on_the_node_once() {
    let mut far = Far::new(("full", "always"), open(), open_document()).await;
    let asked = [far.ask("a").await, far.ask("b").await];
    far.set("tools.exec.ask", "off").await;
    for (pending, file) in asked.iter().zip(["a", "b"]) {
        assert_eq!(far.ended(pending).await["status"], "completed");
        assert_eq!(far.ran(file), 1);
        let approval = far.approval(pending).await;
        assert_has!(approval, { "status": "allowed", "decision": "allow-once", "terminalReason": "rule" });
    }
    // Neither another change nor another life of the node runs it again.
    far.set("tools.exec.timeoutSec", "77").await;
    far.node.kill();
    until_gone(&far.server.operator()).await;
    far.node.start();
    until_connected(&far.server.operator()).await;
    let canary = far
        .server
        .agent()
        .exec(json!({ "argv": ["/bin/true"], "host": "node" }))
        .await;
    assert_eq!(canary.expect(200)["status"], "completed");
    assert_eq!((far.ran("a"), far.ran("b")), (1, 1));
    far.verified().await;
}

#[tokio::test]
async fn an_entry_in_the_document_of_the_node_covers_what_waits() {
    let asking = json!({ "security": "allowlist", "ask": "on-miss" });
    let document = json!({ "version": 1, "defaults": asking });
    let far = Far::new(("allowlist", "on-miss"), asking, document).await;
    let pending = far.ask("by-entry").await;
    let entry = json!({ "pattern": far.program });
    far.replace_document(|document| document["agents"] = json!({ "main": { "allowlist": [entry] } }))
        .await;
    assert_eq!(far.ended(&pending).await["status"], "completed");
    assert_eq!(far.ran("by-entry"), 1);
    let by = far.approval(&pending).await["resolvedBy"]["name"].clone();
    assert!(by.as_str().is_some_and(|by| by.contains("operator")), "{by}");
    far.verified().await;
}

#[tokio::test]
async fn an_answer_that_the_node_remembers_settles_the_same_question_beside_it() {
    let asking = json!({ "security": "allowlist", "ask": "on-miss" });
    let document = json!({ "version": 1, "defaults": asking });
    let far = Far::new(("allowlist", "on-miss"), asking, document).await;
    let (first, second) = (far.ask("same").await, far.ask("same").await);
    let other = far.ask("other").await;
    far.server.answered(&first, "allow-always").await;
    assert_eq!(far.ended(&second).await["status"], "completed");
    assert_eq!(far.ran("same"), 2);
    assert_eq!(far.approval(&second).await["terminalReason"], "rule");
    assert_eq!(far.approval(&other).await["status"], "pending");
    assert_eq!(far.ran("other"), 0);
}

#[tokio::test]
async fn a_deny_rule_of_the_node_ends_what_it_forbids_and_says_where_it_lies() {
    let asking = json!({ "security": "allowlist", "ask": "on-miss" });
    let document = json!({ "version": 1, "defaults": asking });
    let far = Far::new(("allowlist", "on-miss"), asking, document).await;
    let pending = far.ask("forbidden").await;
    let rule = json!({ "pattern": far.program, "reason": "not today" });
    far.replace_document(|document| document["agents"] = json!({ "main": { "denylist": [rule] } }))
        .await;
    let ended = far.ended(&pending).await;
    assert_has!(ended, { "status": "denied", "reason": "denylist" });
    let by = far.approval(&pending).await["resolvedBy"]["name"].clone();
    let place = far.node.file("state/exec-approvals.json").display().to_string();
    let by = by.as_str().expect("a name");
    assert_says(by, "agents.main.denylist in ");
    assert_says(by, &place);
    assert_eq!(far.ran("forbidden"), 0);
}

#[tokio::test]
async fn while_the_node_is_away_its_questions_are_left_to_people() {
    let mut far = Far::new(("full", "always"), open(), open_document()).await;
    let pending = far.ask("later").await;
    let canary = far.canary().await;
    far.node.kill();
    until_gone(&far.server.operator()).await;
    far.set("tools.exec.ask", "off").await;
    assert_eq!(far.ended(&canary).await["status"], "completed");
    assert_eq!(far.approval(&pending).await["status"], "pending");
    // It comes back, and what changed meanwhile counts.
    far.node.start();
    assert_eq!(far.ended(&pending).await["status"], "completed");
    assert_eq!(far.ran("later"), 1);
    assert_eq!(far.approval(&pending).await["terminalReason"], "rule");
}

/// The node would refuse what no person allowed: a rule of the server that covers it now must not end the question.
#[tokio::test]
async fn what_the_node_itself_asks_about_is_left_to_people() {
    let own = json!({ "security": "full", "ask": "always" });
    let far = Far::new(("full", "always"), own, open_document()).await;
    let (pending, canary) = (far.ask("answered").await, far.canary().await);
    far.set("tools.exec.ask", "off").await;
    assert_eq!(far.ended(&canary).await["status"], "completed");
    assert_eq!(far.approval(&pending).await["status"], "pending");
    let answered = far.server.answered(&pending, "allow-once").await;
    assert_eq!(answered["status"], "completed", "{answered}");
    assert_eq!(far.ran("answered"), 1);
}

#[tokio::test]
async fn what_the_node_itself_forbids_never_runs() {
    let far = Far::new(("full", "always"), json!({ "security": "deny" }), open_document()).await;
    let (pending, canary) = (far.ask("never").await, far.canary().await);
    far.set("tools.exec.ask", "off").await;
    assert_eq!(far.ended(&canary).await["status"], "completed");
    assert_eq!(far.approval(&pending).await["status"], "pending");
    let answered = far.server.answered(&pending, "allow-once").await;
    assert_has!(answered, { "status": "denied", "reason": "security-deny" });
    let detail = answered.text("detail");
    assert!(detail.contains("tools.exec.security in "), "{detail}");
    assert_eq!(far.ran("never"), 0);
    far.verified().await;
}

#[tokio::test]
async fn a_node_that_was_removed_leaves_its_questions_to_people() {
    let far = Far::new(("full", "always"), open(), open_document()).await;
    let (pending, canary) = (far.ask("gone").await, far.canary().await);
    let operator = far.server.operator();
    let nodes = operator.read("/v1/nodes").await;
    let node = nodes["items"][0].text("nodeId").to_owned();
    operator.removed(&format!("/v1/nodes/{node}")).await;
    far.set("tools.exec.ask", "off").await;
    assert_eq!(far.ended(&canary).await["status"], "completed");
    let look = || far.approval(&pending);
    let approval = eventually("left", look, |approval| approval["status"] == "pending").await;
    assert_eq!(approval["terminalReason"], Value::Null, "{approval}");
    assert_eq!(far.ran("gone"), 0);
}
