//! The real server is killed at every point of a run on a node, and comes back: the node is never called twice, and the run ends
//! as what is known of it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use countersign_sys::hooks;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Api, Members, TestServer, eventually,
    node::{Device, Speaks, TestNode, pair},
    within,
};

/// A server whose calls all go to nodes.
fn server() -> TestServer {
    let exec = json!({ "host": "node", "security": "full", "ask": "off" });
    TestServer::full()
        .exec(&exec)
        .toml("[bridge]\ntick_ms = 20000\n[shutdown]\ngrace_ms = 100\n")
        .prepare()
}

/// What a node did.
#[derive(Debug, Default)]
struct Done {
    runs: AtomicUsize,
}

/// A node that runs what it is asked to, and remembers it.
fn deed(
    done: Arc<Done>,
) -> impl Fn(&Value) -> Option<Result<Value, (String, String)>> + Send + Sync + 'static {
    move |call: &Value| {
        let params = &call["params"];
        let ran = json!({ "exitCode": 0, "timedOut": false, "success": true, "stdout": "ran\n", "stderr": "",
            "error": null });
        Some(match call["command"].as_str().unwrap_or_default() {
            "system.execApprovals.get" => Ok(json!({ "path": "/x", "exists": true, "hash": "h",
                "file": { "version": 1 } })),
            "system.which" => Ok(json!({ "bins": { "echo": "/bin/echo" } })),
            "system.run.prepare" => Ok(
                json!({ "plan": { "argv": params["command"], "cwd": "/", "commandText": "x",
                "agentId": params["agentId"], "sessionKey": params["sessionKey"] } }),
            ),
            "system.run" => {
                done.runs.fetch_add(1, Ordering::SeqCst);
                Ok(ran)
            }
            "countersign.run.status" => Ok(if done.runs.load(Ordering::SeqCst) > 0 {
                json!({ "state": "ended", "result": { "ok": true, "payload": ran } })
            } else {
                json!({ "state": "void" })
            }),
            other => Err(("INVALID_REQUEST".to_owned(), format!("no {other}"))),
        })
    }
}

async fn only_run(api: &Api) -> Value {
    let runs = api.read("/v1/runs").await;
    let items = runs.list("items").clone();
    assert_eq!(items.len(), 1, "{runs}");
    items.into_iter().next().expect("one")
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_the_server_dies_the_node_is_called_at_most_once() {
    for point in hooks::NODE_POINTS {
        for speaks in [Speaks::First, Speaks::Ours] {
            story(point, speaks).await;
        }
    }
}

async fn story(point: &str, speaks: Speaks) {
    let what = format!("{point}, {speaks:?}");
    let mut server = server();
    server.start().await;
    let device = Device::new(&server, speaks);
    pair(&server, &device).await;
    server.stop().await;
    server
        .start_with(&[(hooks::KILL_VARIABLE, format!("{point}:1").as_str())])
        .await;
    let done = Arc::new(Done::default());
    let node = TestNode::connect(&server, device.clone(), deed(Arc::clone(&done))).await;
    let body = json!({ "argv": ["echo", "hi"], "background": true });
    let request = server.agent().request(Method::POST, "/v1/exec").json(&body);
    // The server may die before it answers.
    drop(Api::try_send(request).await);
    server.wait_killed().await;
    node.vanish();
    server.start().await;
    let run = only_run(&server.operator()).await;
    let node = TestNode::connect(&server, device, deed(Arc::clone(&done))).await;
    let id = run.text("runId").to_owned();
    let operator = server.operator();
    let run = eventually(
        "what became of the run",
        || operator.run(&id),
        |run| !matches!(run["status"].as_str(), Some("queued" | "running")),
    )
    .await;
    let runs = done.runs.load(Ordering::SeqCst);
    assert!(runs <= 1, "{what}: {runs} runs");
    match speaks {
        Speaks::Ours if runs == 1 => assert_eq!(run["status"], "completed", "{what}: {run}"),
        Speaks::Ours => assert_eq!(run["reason"], "not-started", "{what}: {run}"),
        // Nobody can be asked: even what was never sent is not known not to have been.
        Speaks::First | Speaks::Present => assert_eq!(run["reason"], "server-restart", "{what}: {run}"),
    }
    if speaks == Speaks::First {
        // The node says it after all.
        node.answer(
            &id,
            Ok(json!({ "exitCode": 0, "timedOut": false, "success": true, "stdout": "late", "stderr": "" })),
        );
        let run = eventually(
            "the late word",
            || operator.run(&id),
            |run| run["status"] == "completed",
        )
        .await;
        assert_eq!(run["tail"], "late");
    }
    assert!(done.runs.load(Ordering::SeqCst) <= 1, "{what}");
    node.vanish();
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_the_task_of_a_run_on_a_node_panics_the_run_ends_and_its_caller_is_answered() {
    for point in hooks::NODE_PANICS {
        let mut server = server();
        server.start().await;
        let device = Device::new(&server, Speaks::First);
        pair(&server, &device).await;
        server.stop().await;
        server.start_with(&[(hooks::PANIC_VARIABLE, point)]).await;
        let done = Arc::new(Done::default());
        let node = TestNode::connect(&server, device, deed(Arc::clone(&done))).await;
        let body = json!({ "argv": ["echo", "hi"], "yieldMs": 600_000 });
        let answer = within(point, server.agent().exec(body)).await.json();
        let (status, reason) = match *point {
            "node-run.starting" => ("failed", "not-started"),
            _ => ("lost", "node-disconnected"),
        };
        assert_has!(answer, { "status": status, "reason": reason });
        assert!(answer.text("detail").contains("bug of this server"), "{answer}");
        let again = server.ran(json!({ "argv": ["echo", "hi"] })).await;
        assert_has!(again, { "status": "completed", "stdout": "ran\n" });
        node.vanish();
        assert_eq!(server.stop().await, Some(0), "{point}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_reaches_a_real_node_and_its_answer_the_caller() {
    let mut server = server();
    server.start().await;
    let done = Arc::new(Done::default());
    for speaks in [Speaks::First, Speaks::Present, Speaks::Ours] {
        let node = TestNode::join(
            &server,
            Device::new(&server, speaks).named("mill"),
            deed(Arc::clone(&done)),
        )
        .await;
        let answer = server
            .ran(json!({ "argv": ["echo", "hi"], "node": node.id() }))
            .await;
        assert_has!(answer, { "status": "completed", "stdout": "ran\n" });
        assert_has!(answer, { "host": "node", "nodeId": node.id() });
    }
    let several = server
        .agent()
        .exec(json!({ "argv": ["echo"], "node": "mill" }))
        .await;
    let several = several.problem(409, "node-ambiguous");
    assert_eq!(several.list("candidates").len(), 3, "{several}");
    server
        .agent()
        .exec(json!({ "argv": ["echo"], "node": "nobody" }))
        .await
        .problem(404, "node-not-found");
}
