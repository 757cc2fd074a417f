//! One invocation is at most one run, across duplicates, connections, and the death of the node at any moment.

use serde_json::{Value, json};

use super::{
    gateway::{Gateway, Peer},
    scene::TestNode,
};
use crate::support::{Members, write_file};

/// A command that leaves a line for each time that it runs.
fn counting(node: &TestNode, then: &str) -> Value {
    let count = node.scratch.join("count");
    let script = format!("echo x >> {}; {then}", count.display());
    json!({"command": ["/bin/sh", "-c", script]})
}

async fn status(peer: &mut Peer, node: &TestNode, question: &str, run: &str) -> Value {
    let params = json!({"runId": run});
    peer.invoke(&node.id(), question, "countersign.run.status", &params)
        .await;
    peer.result(question).await.done()
}

#[tokio::test]
async fn a_duplicate_gets_the_first_answer_and_runs_nothing() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    let (id, params) = (node.id(), counting(&node, "echo done"));
    peer.invoke(&id, "one", "system.run", &params).await;
    let first = peer.result("one").await;
    assert_eq!(first.clone().done()["stdout"], "done\n");
    let events = peer.events.len();
    // The same again, and the same id for something else: the id is what counts.
    for params in [params.clone(), json!({"command": ["echo", "else"]}), json!({})] {
        peer.invoke(&id, "one", "system.run", &params).await;
        assert_eq!(peer.result("one").await, first);
    }
    assert_eq!(peer.events.len(), events, "a duplicate tells nothing new");
    // Over another connection, and after a restart.
    drop(peer);
    let mut peer = gateway.welcome().await;
    peer.invoke(&id, "one", "system.run", &params).await;
    assert_eq!(peer.result("one").await, first);
    node.kill().await;
    let mut peer = node.connected(&gateway).await;
    peer.invoke(&id, "one", "system.run", &params).await;
    assert_eq!(peer.result("one").await, first);
    assert_eq!(node.lines_of("count"), 1);
}

#[tokio::test]
async fn duplicates_at_the_same_time_run_once_and_are_answered_once() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    let (id, go) = (node.id(), node.scratch.join("go"));
    let params = counting(
        &node,
        &format!("until [ -e {} ]; do sleep 0.01; done", go.display()),
    );
    for _ in 0..20 {
        peer.invoke(&id, "one", "system.run", &params).await;
    }
    // All of them came while the first runs: calls are taken one after the other.
    peer.invoke(&id, "last", "system.which", &json!({"bins": []}))
        .await;
    peer.result("last").await.done();
    write_file(&go, "");
    assert_eq!(peer.result("one").await.done()["success"], true);
    // Whatever came of the others was said before this.
    peer.invoke(&id, "which", "system.which", &json!({"bins": []}))
        .await;
    peer.result("which").await.done();
    assert_eq!(node.lines_of("count"), 1);
}

#[tokio::test]
async fn what_comes_too_late_never_runs() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    let id = node.id();
    let mut late = counting(&node, "true");
    // The gateway's clock counts, which the challenge told: it is far behind ours here.
    late["notAfterMs"] = json!(1_794_999_999_000_i64);
    peer.invoke(&id, "late", "system.run", &late).await;
    let refused = peer.result("late").await.failed();
    assert_eq!(refused.0, "UNAVAILABLE");
    assert!(refused.1.starts_with("RUN_VOID: "), "{}", refused.1);
    // Nor does it when it comes again without the limit.
    let again = counting(&node, "true");
    peer.invoke(&id, "late", "system.run", &again).await;
    assert!(peer.result("late").await.failed().1.starts_with("RUN_VOID: "));
    assert_eq!(
        status(&mut peer, &node, "q", "late").await,
        json!({"state": "void"})
    );
    let mut in_time = counting(&node, "true");
    in_time["notAfterMs"] = json!(1_795_000_600_000_i64);
    peer.invoke(&id, "in-time", "system.run", &in_time).await;
    assert_eq!(peer.result("in-time").await.done()["success"], true);
    assert_eq!(node.lines_of("count"), 1);
}

#[tokio::test]
async fn asking_about_a_run_that_never_came_keeps_it_from_running() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    let params = counting(&node, "true");
    assert_eq!(
        status(&mut peer, &node, "q1", "run").await,
        json!({"state": "void"})
    );
    assert_eq!(
        status(&mut peer, &node, "q2", "run").await,
        json!({"state": "void"})
    );
    peer.invoke(&node.id(), "run", "system.run", &params).await;
    assert!(peer.result("run").await.failed().1.starts_with("RUN_VOID: "));
    assert_eq!(node.lines_of("count"), 0);
    peer.invoke(
        &node.id(),
        "bad",
        "countersign.run.status",
        &json!({"runId": "a b"}),
    )
    .await;
    assert_eq!(peer.result("bad").await.failed().0, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_run_outlives_its_connection_and_is_reported_over_the_next() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    let go = node.scratch.join("go");
    let params = counting(
        &node,
        &format!("until [ -e {} ]; do sleep 0.05; done; echo late", go.display()),
    );
    peer.invoke(&node.id(), "run", "system.run", &params).await;
    node.has_lines("count", 1).await;
    peer.event("exec.started").await;
    drop(peer);
    let mut peer = gateway.welcome().await;
    assert_eq!(
        status(&mut peer, &node, "q1", "run").await,
        json!({"state": "running"})
    );
    write_file(&go, "");
    let late = peer.result("run").await.done();
    assert_eq!(late["stdout"], "late\n");
    peer.event("exec.finished").await;
    let ended = status(&mut peer, &node, "q2", "run").await;
    assert_eq!(
        ended,
        json!({"state": "ended", "result": {"ok": true, "payload": late}})
    );
    assert_eq!(node.lines_of("count"), 1);
}

#[tokio::test]
async fn a_run_outlives_the_node_and_is_reported_by_the_next() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    let go = node.scratch.join("go");
    let params = counting(
        &node,
        &format!("until [ -e {} ]; do sleep 0.05; done; echo late", go.display()),
    );
    peer.invoke(&node.id(), "run", "system.run", &params).await;
    node.has_lines("count", 1).await;
    node.kill().await;
    let mut peer = node.connected(&gateway).await;
    assert_eq!(
        status(&mut peer, &node, "q1", "run").await,
        json!({"state": "running"})
    );
    write_file(&go, "");
    let late = peer.result("run").await.done();
    assert_eq!(late["stdout"], "late\n");
    assert_eq!(node.lines_of("count"), 1);
}

#[tokio::test]
async fn a_refusal_is_remembered_like_a_run() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::new(&json!({"security": "allowlist", "ask": "on-miss"}), None);
    let mut peer = node.connected(&gateway).await;
    let mut params = counting(&node, "true");
    peer.invoke(&node.id(), "run", "system.run", &params).await;
    let refused = peer.result("run").await;
    // An approval that comes for the same invocation comes too late: that one was answered.
    params["approved"] = json!(true);
    peer.invoke(&node.id(), "run", "system.run", &params).await;
    assert_eq!(peer.result("run").await, refused);
    let ended = status(&mut peer, &node, "q", "run").await;
    assert_has!(ended, { "result/error/message": "SYSTEM_RUN_DENIED: approval required" });
    peer.invoke(&node.id(), "another", "system.run", &params).await;
    assert_eq!(peer.result("another").await.done()["success"], true);
    assert_eq!(node.lines_of("count"), 1);
}

/// Where the node, its runner or a supervisor dies on the way of a run, and whether an approval came with it.
const POINTS: &[(&str, bool)] = &[
    ("engine.before-launch", false),
    ("engine.launched", false),
    ("engine.before-start", false),
    ("engine.frame-sent", false),
    ("engine.exit-received", false),
    ("engine.finished", false),
    ("engine.before-ask", true),
    ("engine.asked", true),
    ("engine.before-decide", true),
    ("engine.decided", true),
    ("engine.before-launch-approved", true),
    ("engine.approved-launched", true),
];

#[tokio::test]
async fn whenever_the_node_dies_the_command_runs_at_most_once_and_the_gateway_learns_which() {
    let mut reached = 0;
    for (point, approved) in POINTS {
        let gateway = Gateway::new().await;
        let exec = if *approved {
            json!({"security": "allowlist", "ask": "on-miss"})
        } else {
            json!({"security": "full", "ask": "off"})
        };
        let mut node = TestNode::new(&exec, None).env("COUNTERSIGN_TEST_KILL", point);
        let mut peer = node.connected(&gateway).await;
        let mut params = counting(&node, "echo done");
        params["approved"] = json!(approved);
        peer.invoke(&node.id(), "run", "system.run", &params).await;
        while peer.next().await.is_some() {}
        node.ended().await;
        reached += 1;
        node.set_env("COUNTERSIGN_TEST_KILL", "");
        let mut peer = node.connected(&gateway).await;
        let mut state = status(&mut peer, &node, "q", "run").await;
        if state["state"] == "running" {
            peer.result("run").await;
            state = status(&mut peer, &node, "q2", "run").await;
        }
        let ran = node.lines_of("count");
        match state.text("state") {
            "void" => assert_eq!(ran, 0, "{point}"),
            "ended" => {
                assert_eq!(
                    ran,
                    usize::from(state["result"]["ok"] == true),
                    "{point}: {state}"
                );
            }
            other => panic!("{point}: {other}"),
        }
        // Sent again it changes nothing.
        peer.invoke(&node.id(), "run", "system.run", &params).await;
        peer.result("run").await;
        assert_eq!(node.lines_of("count"), ran, "{point}");
    }
    assert_eq!(reached, POINTS.len());
}
