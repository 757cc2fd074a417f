//! No descriptors are left, in the server or in what starts commands.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use rustix::process::Signal;
use serde_json::json;

use super::{Outcome, children, free_files, in_time, leave_files, outcome_of, probe, runner_of, touching};
use crate::support::{Members, TestServer, eventually, signal, soon, write_file};

#[tokio::test]
async fn a_server_that_loses_its_descriptors_refuses_and_goes_on_with_them() {
    let server = TestServer::full()
        .toml("[limits]\nheader_timeout_ms = 600000\n")
        .start()
        .await;
    let (agent, operator) = (server.agent(), server.operator());
    let go_on = server.scratch().join("go-on");
    let command = format!(
        "until [ -e {} ]; do sleep 0.02; done; echo ended",
        go_on.display()
    );
    let running = agent
        .accepted(json!({ "command": command, "background": true }))
        .await;
    let mut events = operator.events("", None).await;
    // Both keep the connections they have.
    operator.read("/v1/runs").await;

    leave_files(server.pid(), 0);
    let refused = server.scratch().join("refused");
    let answer = in_time("a call", agent.exec(touching(&refused))).await;
    assert_eq!(outcome_of(&answer, &refused), Outcome::Refused);
    answer.json().says("detail", "open");
    let (status, ready) = in_time("the probe", probe(&agent)).await;
    assert_has!((status, ready), { "0": 503, "1/checks/machine/ok": false });
    // The kernel takes a connection that the server has no room for.
    let mut waiting = TcpStream::connect(server.address()).expect("a connection");
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    waiting.write_all(request.as_bytes()).expect("a request");

    // What runs ends on record, and those who listen hear of it.
    write_file(&go_on, "");
    let run = agent.finished(running.text("runId")).await;
    assert_has!(run, { "status": "completed", "exitCode": 0, "tail": "ended\n" });
    let heard = events.next_of("exec.finished").await;
    assert_eq!(heard.data["runId"], running["runId"]);
    let stopped = in_time(
        "a stop",
        operator.post("/v1/stop", json!({ "reason": "no files" })),
    )
    .await;
    assert_has!(stopped.expect(200), { "durable": true });
    in_time(
        "going on",
        operator.post("/v1/resume", json!({ "reason": "files" })),
    )
    .await
    .expect(200);

    free_files(server.pid());
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let ran = server.scratch().join("ran");
    assert_eq!(outcome_of(&agent.exec(touching(&ran)).await, &ran), Outcome::Ran);
    assert_eq!(probe(&server.anonymous()).await.0, 200);
    assert_eq!(operator.read("/v1/audit/verify").await["ok"], true);
}

#[tokio::test]
async fn with_any_number_of_descriptors_a_call_runs_or_says_why_not() {
    let entries = json!([{ "id": "00000000-0000-4000-8000-000000000001", "pattern": "/usr/bin/touch" }]);
    let covered = TestServer::allowlist_only().allowlist(&entries).start().await;
    let full = TestServer::full().start().await;
    for server in [&covered, &full] {
        let agent = server.agent();
        // Keeps its connection from here on.
        agent.read("/v1/runs").await;
        let mut outcomes = Vec::new();
        for spare in 0..40 {
            let file = server.scratch().join(&format!("file-{spare}"));
            leave_files(server.pid(), spare);
            let answer = in_time("a call", agent.exec(touching(&file))).await;
            free_files(server.pid());
            let outcome = outcome_of(&answer, &file);
            if outcome == Outcome::NotStarted {
                let run = agent.run(answer.json().text("runId")).await;
                assert_has!(run, { "status": "failed", "reason": "not-started" });
            }
            outcomes.push(outcome);
        }
        assert_eq!(outcomes.first(), Some(&Outcome::Refused), "{outcomes:?}");
        assert_eq!(outcomes.last(), Some(&Outcome::Ran), "{outcomes:?}");
        let runs = agent.read("/v1/runs?status=completed&limit=500").await;
        let ran = outcomes
            .iter()
            .filter(|outcome| **outcome == Outcome::Ran)
            .count();
        assert_eq!(runs.list("items").len(), ran, "each that ran is recorded");
    }
}

#[tokio::test]
async fn what_starts_commands_is_without_descriptors() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let runner = runner_of(&server).await;
    let mut outcomes = Vec::new();
    for spare in 0..16 {
        let supervisors = soon("idle", || children(runner), |found| !found.is_empty()).await;
        let processes = [&[runner][..], &supervisors].concat();
        for process in &processes {
            signal(*process, Signal::STOP);
        }
        for process in &processes {
            leave_files(*process, spare);
        }
        for process in &processes {
            signal(*process, Signal::CONT);
        }
        let file = server.scratch().join(&format!("file-{spare}"));
        let answer = in_time("a call", agent.exec(touching(&file))).await;
        let outcome = outcome_of(&answer, &file);
        let run = agent.run(answer.json().text("runId")).await;
        let status = if outcome == Outcome::Ran {
            "completed"
        } else {
            "failed"
        };
        assert_eq!(run["status"], status, "{run}");
        outcomes.push(outcome);
        for process in [&[runner][..], &children(runner)].concat() {
            free_files(process);
        }
    }
    assert_eq!(outcomes.first(), Some(&Outcome::NotStarted), "{outcomes:?}");
    assert_eq!(outcomes.last(), Some(&Outcome::Ran), "{outcomes:?}");
    let ran = server.scratch().join("ran");
    let again = || async { outcome_of(&agent.exec(touching(&ran)).await, &ran) };
    eventually("running again", again, |outcome| *outcome == Outcome::Ran).await;
    assert_eq!(runner_of(&server).await, runner, "the runner lives");
}
