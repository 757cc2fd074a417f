//! `GET /v1/runs/{runId}?waitMs=` and `GET /v1/runs/{runId}/output?follow=1`.

use futures_util::StreamExt as _;
use reqwest::{Method, header::ACCEPT};
use serde_json::{Value, json};

use crate::{
    metrics::samples,
    support::{Answer, Api, EventStream, Members, TestServer, eventually, within},
};

const STREAMS: &str = "countersign_event_streams";

/// What is sent to wait for a run.
async fn wait(api: Api, pending: Value, query: &str) -> Answer {
    let path = format!("/v1/runs/{}?{query}", pending.text("runId"));
    api.get(&path).await
}

/// Once so many waits and streams are open.
async fn until_open(server: &TestServer, streams: f64) {
    let operator = server.operator();
    eventually(
        "open",
        || samples(&operator),
        |seen| seen.get(STREAMS) == Some(&streams),
    )
    .await;
}

#[tokio::test]
async fn a_wait_ends_with_the_run_or_with_the_answer() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let ended = tokio::spawn(wait(server.agent(), pending.clone(), "waitMs=60000"));
    let decided = tokio::spawn(wait(
        server.agent(),
        pending.clone(),
        "waitMs=60000&until=decided",
    ));
    until_open(&server, 2.0).await;
    server
        .operator()
        .decided(pending.text("approvalId"), "allow-once")
        .await;
    let decided = decided.await.expect("an answer").expect(200);
    assert_ne!(decided["status"], "approval-pending", "{decided}");
    let ended = ended.await.expect("an answer").expect(200);
    assert_has!(ended, { "status": "completed", "runId": pending["runId"], "exitCode": 0 });
    until_open(&server, 0.0).await;
    // What is so already keeps nobody waiting, and takes no place.
    let again = wait(server.agent(), pending, "waitMs=60000").await.expect(200);
    assert_eq!(again["status"], "completed");
}

#[tokio::test]
async fn a_denial_ends_a_wait() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let waiting = tokio::spawn(wait(server.agent(), pending.clone(), "waitMs=60000&until=ended"));
    until_open(&server, 1.0).await;
    server
        .operator()
        .decided(pending.text("approvalId"), "deny")
        .await;
    let run = waiting.await.expect("an answer").expect(200);
    assert_has!(run, { "status": "denied", "reason": "user-denied" });
}

#[tokio::test]
async fn at_the_end_of_the_wait_the_run_is_as_it_is() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    for query in ["waitMs=1", "waitMs=1&until=decided", "waitMs=0", "until=ended"] {
        let run = wait(server.agent(), pending.clone(), query).await.expect(200);
        assert_eq!(run["status"], "approval-pending", "{query}");
    }
    for (query, path) in [
        ("waitMs=60001", "waitMs"),
        ("waitMs=-1", "waitMs"),
        ("waitMs=1s", "waitMs"),
        ("until=answered", "until"),
    ] {
        let answer = wait(server.agent(), pending.clone(), query).await;
        let problem = answer.problem(400, "invalid-request");
        assert_has!(problem, { "fields/0/path": path }, "{query}: {problem}");
    }
    let nobody = json!({ "runId": "0198aaaa-bbbb" });
    wait(server.agent(), nobody, "waitMs=60000")
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn a_revoked_token_waits_no_longer() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let reader = json!({ "name": "reader", "scopes": ["read"] });
    let (id, api) = server.token_with(reader).await;
    let waiting = tokio::spawn(wait(api, pending.clone(), "waitMs=60000"));
    let other = tokio::spawn(wait(server.agent(), pending.clone(), "waitMs=60000"));
    until_open(&server, 2.0).await;
    server.operator().removed(&format!("/v1/tokens/{id}")).await;
    waiting.await.expect("an answer").problem(401, "unauthorized");
    until_open(&server, 1.0).await;
    // The wait of a token that lives goes on.
    server
        .operator()
        .decided(pending.text("approvalId"), "deny")
        .await;
    other.await.expect("an answer").expect(200);
}

#[tokio::test]
async fn to_revoke_or_rotate_the_token_that_asked_ends_its_wait_with_401() {
    let server = TestServer::asking().start().await;
    // The question of the token ends with it, and that end must not be the answer.
    for round in 0..12 {
        let asker = json!({ "name": format!("asker-{round}"), "scopes": ["exec"] });
        let (id, api) = server.token_with(asker).await;
        let pending = api
            .accepted(json!({ "argv": ["/bin/date", round.to_string()] }))
            .await;
        let until = if round % 2 == 0 { "ended" } else { "decided" };
        let query = format!("waitMs=60000&until={until}");
        let waiting = tokio::spawn(async move { wait(api, pending, &query).await });
        until_open(&server, 1.0).await;
        if round % 3 == 0 {
            server
                .operator()
                .made(&format!("/v1/tokens/{id}/rotate"), json!({}))
                .await;
        } else {
            server.operator().removed(&format!("/v1/tokens/{id}")).await;
        }
        waiting.await.expect("an answer").problem(401, "unauthorized");
        until_open(&server, 0.0).await;
    }
}

#[tokio::test]
async fn a_server_that_stops_answers_those_who_wait() {
    let mut server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let waiting = tokio::spawn(wait(server.agent(), pending, "waitMs=60000"));
    until_open(&server, 1.0).await;
    server.send_signal(rustix::process::Signal::TERM);
    let run = waiting.await.expect("an answer").expect(200);
    assert_eq!(run["status"], "approval-pending");
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn waits_take_the_places_of_streams() {
    let server = TestServer::asking()
        .toml("[limits]\nmax_sse_clients = 2\n")
        .start()
        .await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let held = tokio::spawn(wait(server.agent(), pending.clone(), "waitMs=60000"));
    until_open(&server, 1.0).await;
    wait(server.agent(), pending.clone(), "waitMs=60000")
        .await
        .problem(503, "overloaded");
    wait(server.agent(), pending.clone(), "waitMs=0")
        .await
        .expect(200);
    server
        .operator()
        .decided(pending.text("approvalId"), "deny")
        .await;
    held.await.expect("an answer").expect(200);
}

#[tokio::test]
async fn output_is_followed_from_before_the_start_to_the_end() {
    let server = TestServer::asking().start().await;
    let text = "echo one; echo two >&2; echo three";
    let pending = server.asked(json!({ "command": text })).await;
    let path = format!("/v1/runs/{}/output", pending.text("runId"));
    let agent = server.agent();
    let followed = agent.request(Method::GET, &format!("{path}?follow=1")).send();
    let followed = within("the beginning", followed).await.expect("an answer");
    assert_eq!(followed.headers()["content-type"], "text/plain; charset=utf-8");
    let streamed = agent
        .request(Method::GET, &format!("{path}?follow=true&stream=stderr"))
        .header(ACCEPT, "text/event-stream")
        .send();
    let streamed = within("the beginning", streamed).await.expect("an answer");
    assert_eq!(streamed.headers()["content-type"], "text/event-stream");
    server
        .operator()
        .decided(pending.text("approvalId"), "allow-once")
        .await;
    let text = within("the end", followed.text()).await.expect("a text");
    for word in ["one\n", "two\n", "three\n"] {
        assert!(text.contains(word), "{text:?}");
    }
    let mut events = EventStream::new(streamed);
    let first = events.next().await;
    assert_eq!(first.kind, "output");
    assert_has!(first.data, { "stream": "stderr", "text": "two\n" });
    let end = events.next().await;
    assert_eq!(end.kind, "end");
    assert_has!(end.data, { "status": "completed", "runId": pending["runId"] });
    assert_eq!(events.next_or_end().await, None);
    // Of a run that has ended it is all there, and goes on where it is told to.
    let rest = agent
        .request(Method::GET, &format!("{path}?follow=1"))
        .header("Last-Event-ID", "4");
    let rest = agent.send(rest).await;
    assert_eq!(rest.text().len(), text.len() - 4);
    let exact = agent.get_bytes(&path, None).await;
    assert_eq!(exact.text(), text);
}

#[tokio::test]
async fn output_comes_while_the_command_runs() {
    let server = TestServer::full().start().await;
    // It goes on until its input is closed.
    let call = json!({ "command": "echo here; exec cat", "background": true, "pty": false });
    let running = server.accepted(call).await;
    let path = format!("/v1/runs/{}/output?follow=1", running.text("runId"));
    let reader = json!({ "name": "reader", "scopes": ["read"] });
    let (id, reader) = server.token_with(reader).await;
    let answer = reader.request(Method::GET, &path).send();
    let mut body = within("the beginning", answer)
        .await
        .expect("an answer")
        .bytes_stream();
    let first = within("output", body.next())
        .await
        .expect("output")
        .expect("bytes");
    assert_eq!(&first[..], b"here\n");
    server.operator().removed(&format!("/v1/tokens/{id}")).await;
    assert!(
        within("the end", body.next()).await.is_none(),
        "a revoked token reads on"
    );
    server.agent().cancel(running.text("runId")).await;
}

#[tokio::test]
async fn nobody_follows_what_they_may_not_see() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let path = format!("/v1/runs/{}/output?follow=1", pending.text("runId"));
    let other = json!({ "name": "other", "scopes": ["exec"] });
    let (_, other) = server.token_with(other).await;
    other.get_bytes(&path, None).await.problem(404, "not-found");
    wait(other, pending.clone(), "waitMs=60000")
        .await
        .problem(404, "not-found");
    let wrong = path.replace("follow=1", "follow=yes");
    let problem = server.agent().get_bytes(&wrong, None).await;
    assert_has!(problem.problem(400, "invalid-request"), { "fields/0/path": "follow" });
}
