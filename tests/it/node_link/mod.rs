//! Our server and our node, end to end, over lines of every quality.

mod line;
mod refusals;

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use countersign_sys::hooks;

use crate::support::{
    Api, Members, OurNode, Pause, ServerBuilder, TestServer, eventually, let_in, lines, until_connected,
    until_gone, write_file,
};
use line::{Line, Quality};

/// A server, a node of ours that it has let in, and the line between them.
struct Both {
    node: OurNode,
    line: Line,
    server: TestServer,
}

impl Both {
    /// The server decides by its own policy and by that of the node.
    async fn meet(server: ServerBuilder, security: &str, ask: &str) -> Self {
        let document = json!({ "version": 1, "defaults": { "security": security, "ask": ask } });
        let config = json!({ "tools": { "exec": { "security": security, "ask": ask } } });
        Self::meet_with(server, (security, ask), &config, &document).await
    }

    /// The same with another policy on the node.
    async fn meet_with(
        server: ServerBuilder,
        (security, ask): (&str, &str),
        config: &Value,
        document: &Value,
    ) -> Self {
        let server = server
            .exec(&json!({ "host": "node", "security": security, "ask": ask }))
            .toml("[bridge]\ntick_ms = 1000\n")
            .start()
            .await;
        let line = Line::to(server.address()).await;
        let address = line.address();
        let host = address.ip().to_string();
        let token = server.bridge_token();
        let mut node = OurNode::with_policy((&host, address.port()), &token, config, document);
        node.start();
        let operator = server.operator();
        let_in(&operator).await;
        until_connected(&operator).await;
        Self { node, line, server }
    }

    async fn full() -> Self {
        Self::meet(TestServer::full(), "full", "off").await
    }

    async fn asking() -> Self {
        Self::meet(TestServer::asking(), "allowlist", "on-miss").await
    }

    fn agent(&self) -> Api {
        self.server.agent()
    }
}

async fn begin(agent: &Api, text: &str) -> String {
    let body = json!({ "command": text, "host": "node", "background": true });
    let answer = agent.accepted(body).await;
    answer.text("runId").to_owned()
}

/// Says that it began, waits for a sign, says that it ended.
fn long(log: &Path, sign: &Path) -> String {
    format!(
        "echo begun >> {log}; while [ ! -e {sign} ]; do sleep 0.1; done; echo ended >> {log}",
        log = log.display(),
        sign = sign.display()
    )
}

async fn completed(agent: &Api, run: &str) {
    let is_completed = |run: &Value| run["status"] == "completed" && run["exitCode"] == 0;
    eventually("completed", || agent.run(run), is_completed).await;
}

async fn has(log: &Path, wanted: &[&str]) {
    eventually("in the log", || async { lines(log) }, |found| found == wanted).await;
}

#[tokio::test]
async fn a_node_that_was_let_in_runs_what_it_is_sent_until_it_is_removed() {
    let both = Both::full().await;
    let agent = both.agent();
    let ran = agent
        .ran(json!({ "command": "echo out; echo err >&2; exit 3", "host": "node", "env": { "GREETING": "hi" } })).await;
    assert_has!(ran, {
        "status": "failed", "exitCode": 3, "stdout": "out\n", "stderr": "err\n", "host": "node",
        "timedOut": false,
    });
    let ran = agent
        .ran(json!({ "command": "echo $GREETING", "host": "node", "env": { "GREETING": "hi" } }))
        .await;
    assert_eq!(ran["stdout"], "hi\n", "{ran}");

    let operator = both.server.operator();
    let node = ran.text("nodeId");
    operator.removed(&format!("/v1/nodes/{node}")).await;
    until_gone(&operator).await;
    agent
        .exec(json!({ "argv": ["true"], "host": "node" }))
        .await
        .problem(503, "node-unavailable");
}

#[tokio::test]
async fn an_answer_given_here_is_carried_there_with_what_was_asked() {
    let both = Both::asking().await;
    let (agent, operator) = (both.agent(), both.server.operator());
    let touched = both.node.file("touched");
    let body = json!({ "argv": ["/usr/bin/touch", &touched], "host": "node" });
    for (decision, status, is_there) in [("deny", "denied", false), ("allow-once", "completed", true)] {
        let asked = agent.accepted(body.clone()).await;
        let approval = asked.text("approvalId");
        let shown = operator.approval(approval).await;
        assert_eq!(shown["nodeId"], asked["nodeId"], "{shown}");
        assert!(!touched.exists(), "it ran before anybody answered");
        operator.decided(approval, decision).await;
        let run = agent.finished(asked.text("runId")).await;
        assert_eq!(run["status"], status, "{run}");
        assert_eq!(touched.exists(), is_there, "{run}");
    }
    // Once is once.
    let asked = agent.accepted(body.clone()).await;
    let approval = asked.text("approvalId");
    operator.decided(approval, "allow-always").await;
    let run = agent.finished(asked.text("runId")).await;
    assert_eq!(run["status"], "completed", "{run}");
    let stored = both.node.document();
    let entries = stored["agents"]["main"]["allowlist"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert_eq!(entries.len(), 1, "the node stores it: {stored}");
    assert_eq!(agent.ran(body).await["status"], "completed");
    // Another one is asked about as before.
    let other = json!({ "argv": ["/usr/bin/id"], "host": "node" });
    assert_eq!(agent.accepted(other).await["status"], "approval-pending");
}

#[tokio::test]
async fn a_command_on_a_node_ends_when_it_is_cancelled() {
    let both = Both::full().await;
    let agent = both.agent();
    let (log, sign) = (both.node.file("log"), both.node.file("sign"));
    let run = begin(&agent, &long(&log, &sign)).await;
    has(&log, &["begun"]).await;
    agent.cancel(&run).await;
    assert_eq!(agent.finished(&run).await["status"], "cancelled");
    write_file(&sign, "");
    let after = agent.ran(json!({ "argv": ["true"], "host": "node" })).await;
    assert_eq!(after["status"], "completed", "{after}");
    assert_eq!(lines(&log), ["begun"], "it went on");
}

#[tokio::test]
async fn on_a_slow_line_everything_happens_once_and_in_order() {
    let both = Both::full().await;
    let agent = both.agent();
    both.line.becomes(Quality::Late(Duration::from_millis(400)));
    let log = both.node.file("log");
    for number in 0..3 {
        let text = format!("echo {number} >> {}; echo done {number}", log.display());
        let ran = agent.ran(json!({ "command": text, "host": "node" })).await;
        assert_has!(ran, { "status": "completed", "stdout": format!("done {number}\n") });
    }
    assert_eq!(lines(&log), ["0", "1", "2"]);
    let (log, sign) = (both.node.file("long"), both.node.file("sign"));
    let run = begin(&agent, &long(&log, &sign)).await;
    has(&log, &["begun"]).await;
    agent.cancel(&run).await;
    assert_eq!(agent.finished(&run).await["status"], "cancelled");
}

#[tokio::test]
async fn a_line_that_stands_still_or_is_cut_loses_no_run_and_starts_none_twice() {
    let both = Both::full().await;
    let (agent, operator) = (both.agent(), both.server.operator());
    for (round, stands_still) in [true, false].into_iter().enumerate() {
        let (log, sign) = (
            both.node.file(&format!("log-{round}")),
            both.node.file(&format!("sign-{round}")),
        );
        let run = begin(&agent, &long(&log, &sign)).await;
        has(&log, &["begun"]).await;
        if stands_still {
            both.line.becomes(Quality::Still);
            until_gone(&operator).await;
            write_file(&sign, "");
            has(&log, &["begun", "ended"]).await;
            both.line.becomes(Quality::Late(Duration::ZERO));
        } else {
            both.line.cut();
            write_file(&sign, "");
        }
        completed(&agent, &run).await;
        until_connected(&operator).await;
        assert_eq!(lines(&log), ["begun", "ended"], "it ran again");
    }
}

/// Between the end of a wait and its record nobody listens: what the node says then must not be lost.
#[tokio::test]
async fn an_answer_that_comes_while_the_loss_is_recorded_is_asked_for_again() {
    let pause = Pause::at(hooks::NODE_PAUSES);
    let both = Both::meet(pause.of(TestServer::full()), "full", "off").await;
    let (agent, operator) = (both.agent(), both.server.operator());
    let (log, sign) = (both.node.file("log"), both.node.file("sign"));
    let run = begin(&agent, &long(&log, &sign)).await;
    has(&log, &["begun"]).await;

    pause.begin();
    both.line.becomes(Quality::Still);
    pause.reached().await;
    write_file(&sign, "");
    has(&log, &["begun", "ended"]).await;
    both.line.becomes(Quality::Late(Duration::ZERO));
    until_connected(&operator).await;
    // What the node had to say by itself it has said before it takes this.
    agent.ran(json!({ "argv": ["true"], "host": "node" })).await;
    pause.end();

    completed(&agent, &run).await;
    assert_eq!(lines(&log), ["begun", "ended"], "it ran again");
}
