//! The queue of a session: peeked at, drained, bounded.

use serde_json::{Value, json};

use super::{MAIN, drain, open, peek};
use crate::support::{Api, Members, TestServer, eventually};

async fn background(api: &Api, command: &str, session: &str) -> String {
    let body = json!({ "command": command, "background": true, "sessionKey": session });
    let run = api.exec(body).await.json().text("runId").to_owned();
    api.finished(&run).await;
    // The run is seen to have ended a moment before its session is told.
    let is_told = |events: &Vec<Value>| events.iter().any(|event| event["runId"] == run.as_str());
    eventually("told", || peek(api, session), is_told).await;
    run
}

fn texts(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| event.text("text").to_owned()).collect()
}

#[tokio::test]
async fn what_a_session_was_told_waits_for_its_next_prompt() {
    let server = open().start().await;
    let api = server.agent();
    assert_eq!(peek(&api, MAIN).await, [] as [Value; 0]);
    let first = background(&api, "echo one; exit 3", MAIN).await;
    let second = background(&api, "echo two", "agent:main:other").await;
    let events = peek(&api, MAIN).await;
    assert_eq!(
        texts(&events),
        [format!("Exec finished (gateway, id={first}, code=3)\none")]
    );
    assert_eq!(events[0]["runId"], first.as_str());
    assert!(events[0]["ts"].is_i64());
    // Looking takes nothing away, draining all.
    assert_eq!(drain(&api, MAIN).await, events);
    assert_eq!(drain(&api, MAIN).await, [] as [Value; 0]);
    assert_eq!(
        texts(&drain(&api, "agent:main:other").await),
        [format!("Exec finished (gateway, id={second}, code=0)\ntwo")]
    );
}

#[tokio::test]
async fn a_flood_leaves_the_last_twenty() {
    let server = open().start().await;
    let api = server.agent();
    let mut runs = Vec::new();
    for number in 0..25 {
        runs.push(background(&api, &format!("echo {number}"), MAIN).await);
    }
    let kept = drain(&api, MAIN).await;
    let ids: Vec<&str> = kept.iter().filter_map(|event| event["runId"].as_str()).collect();
    assert_eq!(ids, runs[5..]);
}

#[tokio::test]
async fn only_the_agents_own_tokens_see_it() {
    let server = open().start().await;
    let api = server.agent();
    background(&api, "echo secret", MAIN).await;
    let (_, bound) = server
        .token_with(json!({ "name": "bound", "scopes": ["exec"], "agents": ["build"] }))
        .await;
    let events = format!("/v1/sessions/{MAIN}/system-events");
    bound.get(&events).await.problem(403, "forbidden");
    bound
        .post(&format!("{events}/drain"), json!({}))
        .await
        .problem(403, "forbidden");
    // A key of another form is another session for each agent.
    background(&api, "echo secret", "chat:7").await;
    let own = bound
        .read("/v1/sessions/chat:7/system-events?agentId=build")
        .await;
    assert_eq!(own["items"], json!([]));
    bound
        .get("/v1/sessions/chat:7/system-events")
        .await
        .problem(403, "forbidden");
    for api in [server.operator(), server.anonymous()] {
        assert!(matches!(api.get(&events).await.status, 401 | 403));
    }
    assert_eq!(peek(&api, MAIN).await.len(), 1);
}

#[tokio::test]
async fn sessions_without_end_are_bounded_and_push_no_overrides_out() {
    let server = TestServer::full()
        .toml("[limits]\nmax_sessions = 3\n")
        .start()
        .await;
    let api = server.agent();
    super::put(&server, MAIN, json!({ "security": "deny" }))
        .await
        .expect(200);
    for number in 0..8 {
        background(&api, "echo x", &format!("agent:main:{number}")).await;
    }
    let waiting = |number: usize| {
        let api = api.clone();
        async move { peek(&api, &format!("agent:main:{number}")).await.len() }
    };
    assert_eq!((waiting(5).await, waiting(6).await, waiting(7).await), (0, 1, 1));
    let body = json!({ "argv": ["/bin/true"] });
    api.denied(body).await;
}

#[tokio::test]
async fn an_end_that_came_while_the_server_was_down_is_told_by_the_next_one() {
    let mut server = open().start().await;
    let api = server.agent();
    let body = json!({ "command": "cat; echo done", "background": true });
    let started = api.accepted(body).await;
    let run = started.text("runId").to_owned();
    server.crash_and_restart().await;
    let api = server.agent();
    let closed = json!({ "action": "write", "sessionId": started.text("sessionId").to_owned(), "data": "", "eof": true });
    api.posted("/v1/process", closed).await;
    let events = eventually("told", || peek(&api, MAIN), |events| !events.is_empty()).await;
    assert_eq!(
        texts(&events),
        [format!("Exec finished (gateway, id={run}, code=0)\ndone")]
    );
}
