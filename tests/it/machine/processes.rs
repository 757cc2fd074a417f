//! The machine starts no more processes.

use rustix::process::Signal;
use serde_json::json;

use super::{
    Outcome, children,
    group::{Group, Kind},
    in_time, outcome_of, probe, runner_of, touching,
};
use crate::support::{Members, TestServer, eventually, signal, soon};

#[tokio::test]
async fn a_command_that_cannot_be_forked_is_on_record_as_not_started() {
    let group = or_skip!(Group::make(Kind::Processes));
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let runner = runner_of(&server).await;
    let supervisors = soon("idle", || children(runner), |found| !found.is_empty()).await;
    for process in [&[runner][..], &supervisors].concat() {
        group.admit(process);
    }
    group.limit("0");
    let refused = server.scratch().join("refused");
    for _ in 0..3 {
        let answer = in_time("a call", agent.exec(touching(&refused))).await;
        assert_eq!(outcome_of(&answer, &refused), Outcome::NotStarted);
        let run = agent.run(answer.json().text("runId")).await;
        assert_has!(run, { "status": "failed", "reason": "not-started" });
    }
    assert_eq!(probe(&agent).await.0, 200);

    group.limit("max");
    let ran = server.scratch().join("ran");
    let again = || async { outcome_of(&agent.exec(touching(&ran)).await, &ran) };
    eventually("running again", again, |outcome| *outcome == Outcome::Ran).await;
    assert!(!refused.exists(), "what was not started starts no more");
    assert_eq!(server.operator().read("/v1/audit/verify").await["ok"], true);
    drop(server);
    group.remove().await;
}

#[tokio::test]
async fn a_call_for_which_nothing_can_be_started_waits_no_longer_than_its_time_limit() {
    let group = or_skip!(Group::make(Kind::Processes));
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let runner = runner_of(&server).await;
    let supervisors = soon("idle", || children(runner), |found| !found.is_empty()).await;
    group.admit(runner);
    group.limit("0");
    for supervisor in &supervisors {
        signal(*supervisor, Signal::KILL);
    }
    soon("without supervisors", || children(runner), Vec::is_empty).await;

    let file = server.scratch().join("file");
    let mut body = touching(&file);
    body["timeout"] = json!(0.5);
    let answer = in_time("a call", agent.exec(body)).await;
    assert_eq!(outcome_of(&answer, &file), Outcome::NotStarted);
    answer.json().says("detail", "no process");
    let run = agent.run(answer.json().text("runId")).await;
    assert_has!(run, { "status": "failed", "reason": "not-started" });
    // Nobody waits for one in the background. It can be cancelled.
    let mut body = touching(&file);
    body["background"] = json!(true);
    let waiting = in_time("a call", agent.accepted(body)).await;
    in_time("cancelling", agent.cancel(waiting.text("runId"))).await;

    group.limit("max");
    let ran = server.scratch().join("ran");
    assert_eq!(outcome_of(&agent.exec(touching(&ran)).await, &ran), Outcome::Ran);
    agent.finished(waiting.text("runId")).await;
    assert!(!file.exists(), "what was given up starts no more");
    drop(server);
    group.remove().await;
}
