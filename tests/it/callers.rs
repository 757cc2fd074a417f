//! What `countersign exec` started ends with it, however it ends; and only what it holds.

use std::{path::PathBuf, process::Child};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    Api, Invocation, Members, ServerBuilder, TestServer, eventually, is_alive, lines, write_file,
};

/// The signals that end a program, and the code of one that ends by them; a killed one has none.
const ENDINGS: [(Signal, Option<i32>); 4] = [
    (Signal::INT, Some(130)),
    (Signal::TERM, Some(143)),
    (Signal::HUP, Some(129)),
    (Signal::KILL, None),
];

/// A command that leaves its process id in a file and goes on.
struct Marker {
    file: PathBuf,
    text: String,
}

impl Marker {
    fn new(server: &TestServer, name: &str) -> Self {
        let file = server.scratch().join(name);
        let text = format!("echo $$ >> {}; exec sleep 1000", file.display());
        Self { file, text }
    }

    fn times(&self) -> usize {
        lines(&self.file).len()
    }

    /// Its process, once it has begun.
    async fn process(&self) -> i32 {
        let begun = eventually("begun", || async { lines(&self.file) }, |lines| !lines.is_empty()).await;
        begun[0].parse().expect("a process id")
    }

    async fn ends(&self) {
        let process = self.process().await;
        eventually("ended", || async { is_alive(process) }, |is_alive| !is_alive).await;
    }
}

fn exec(server: &TestServer, arguments: &[&str], text: &str) -> Invocation {
    let mut line = vec!["exec"];
    line.extend(arguments);
    line.extend(["-c", text]);
    server.invocation(&line)
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a signal");
}

async fn code(mut child: Child) -> Option<i32> {
    tokio::task::spawn_blocking(move || child.wait().expect("its end").code())
        .await
        .expect("its end")
}

async fn only_run(api: &Api) -> Value {
    let is_there = |runs: &Value| runs["items"].as_array().is_some_and(|runs| runs.len() == 1);
    let list = || async { api.read("/v1/runs").await };
    eventually("one run", list, is_there).await["items"][0].clone()
}

async fn is_cancelled(api: &Api) {
    let run = only_run(api).await;
    let run = api.finished(run.text("runId")).await;
    assert_eq!(run["status"], "cancelled", "{run}");
}

#[tokio::test]
async fn a_run_ends_with_its_caller_by_every_signal() {
    for (signal, expected) in ENDINGS {
        let server = TestServer::full().start().await;
        let marker = Marker::new(&server, "marker");
        let child = exec(&server, &[], &marker.text).start_interactive();
        marker.process().await;
        send(&child, signal);
        assert_eq!(code(child).await, expected, "{signal:?}");
        marker.ends().await;
        is_cancelled(&server.agent()).await;
        assert_eq!(marker.times(), 1);
    }
}

#[tokio::test]
async fn a_run_that_takes_longer_than_an_answer_ends_with_its_caller_by_every_signal() {
    for (signal, expected) in ENDINGS {
        let server = ServerBuilder::new(
            &json!({"host": "gateway", "security": "full", "ask": "off", "backgroundMs": 10}),
        )
        .start()
        .await;
        let agent = server.agent();
        let marker = Marker::new(&server, "marker");
        let child = exec(&server, &[], &marker.text).start_interactive();
        marker.process().await;
        // The first call was answered: it is a session by now.
        let is_session = |run: &Value| run["sessionId"].is_string();
        eventually("a session", || only_run(&agent), is_session).await;
        send(&child, signal);
        assert_eq!(code(child).await, expected, "{signal:?}");
        marker.ends().await;
        is_cancelled(&agent).await;
    }
}

#[tokio::test]
async fn a_question_ends_with_its_caller_by_every_signal() {
    for (signal, expected) in ENDINGS {
        let server = TestServer::asking().start().await;
        let operator = server.operator();
        let marker = Marker::new(&server, "marker");
        let child = exec(&server, &[], &marker.text).start_interactive();
        let asked = operator.waiting().await;
        send(&child, signal);
        assert_eq!(code(child).await, expected, "{signal:?}");
        eventually("withdrawn", || operator.pending(), Vec::is_empty).await;
        is_cancelled(&server.agent()).await;
        let late = operator.decide(asked[0].text("id"), "allow-once").await;
        late.problem(410, "approval-cancelled");
        assert_eq!(marker.times(), 0);
    }
}

#[tokio::test]
async fn what_is_in_the_background_or_not_waited_for_outlives_a_caller_that_is_killed() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let background = Marker::new(&server, "background");
    let left = exec(&server, &["--background"], &background.text).start_interactive();
    assert_eq!(code(left).await, Some(75));
    let process = background.process().await;
    let run = only_run(&agent).await;
    // Longer gone than one whose run ends with it.
    let marker = Marker::new(&server, "marker");
    let child = exec(&server, &[], &marker.text).start_interactive();
    marker.process().await;
    send(&child, Signal::KILL);
    code(child).await;
    marker.ends().await;
    assert!(is_alive(process));
    agent.cancel(run.text("runId")).await;
}

#[tokio::test]
async fn a_caller_that_ignores_a_hang_up_goes_on() {
    let server = TestServer::full().start().await;
    let (begun, go) = (server.scratch().join("begun"), server.scratch().join("go"));
    let text = format!(
        "echo begun >> {}; while [ ! -e {} ]; do sleep 0.05; done; exit 7",
        begun.display(),
        go.display()
    );
    let child = exec(&server, &[], &text)
        .behind("sh", &["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .start_interactive();
    eventually("begun", || async { lines(&begun) }, |lines| !lines.is_empty()).await;
    send(&child, Signal::HUP);
    write_file(&go, "");
    assert_eq!(code(child).await, Some(7));
}

#[tokio::test]
async fn a_holder_who_comes_back_under_the_key_keeps_its_run() {
    let server = TestServer::asking().start().await;
    let agent = server.agent();
    let file = server.scratch().join("lines");
    let body = json!({"command": format!("echo ran >> {}", file.display())});
    let held = |query: &str| {
        agent
            .request(reqwest::Method::POST, &format!("/v1/exec{query}"))
            .header("Idempotency-Key", "k")
            .json(&body)
    };
    let pending = agent.send(held("?held=run")).await.expect(202);
    let id = pending.text("approvalId");
    // The connection of this one breaks; that of the next holds the run on.
    let broken = tokio::spawn(held("?held=run&holdMs=60000").send());
    let again = tokio::spawn({
        let (agent, request) = (agent.clone(), held("?held=run&holdMs=60000"));
        async move { agent.send(request).await }
    });
    broken.abort();
    server.operator().decided(id, "allow-once").await;
    let done = again.await.expect("an answer").expect(200);
    assert_has!(done, {"status": "completed", "approvalId": id});
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn a_call_that_nobody_comes_back_for_is_withdrawn() {
    let server = TestServer::asking().start().await;
    let agent = server.agent();
    let held = |query: &str, key: &str| {
        agent
            .request(reqwest::Method::POST, &format!("/v1/exec{query}"))
            .header("Idempotency-Key", key)
            .json(&json!({"argv": ["id"]}))
    };
    for (number, what) in ["question", "run"].into_iter().enumerate() {
        let request = held(&format!("?held={what}"), &number.to_string());
        let pending = agent.send(request).await.expect(202);
        let run = agent.finished(pending.text("runId")).await;
        assert_eq!(run["status"], "cancelled", "{what}");
    }
    for query in [
        "?held=all",
        "?held=run&holdMs=600001",
        "?held=run&holdMs=x",
        "?hold=1",
    ] {
        agent.send(held(query, "k")).await.problem(400, "invalid-request");
    }
    let keyless = agent
        .request(reqwest::Method::POST, "/v1/exec?held=run")
        .json(&json!({"argv": ["id"]}));
    agent.send(keyless).await.problem(400, "invalid-request");
}
