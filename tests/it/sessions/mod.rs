//! Sessions, through every edge: what they override, what people say in them, what they are told.

mod attacks;
mod command_line;
mod commands;
mod elevated;
mod notifications;
mod overrides;
mod system_events;

use serde_json::{Value, json};

use crate::support::{Answer, Api, ServerBuilder, TestServer};

/// The main session of agent `main`.
const MAIN: &str = "agent:main:main";

/// Somebody who may use directives on the servers of these tests.
fn ann() -> Value {
    json!({ "provider": "telegram", "id": "42", "name": "Ann" })
}

/// Somebody who may not.
fn eve() -> Value {
    json!({ "provider": "telegram", "id": "13", "name": "Eve" })
}

/// `openclaw.json` with these members of `tools.exec`, where Ann may use directives.
fn config(exec: &Value) -> Value {
    json!({
        "tools": { "exec": exec },
        "commands": { "allowFrom": { "telegram": ["id:42"] } },
    })
}

/// A server where everything runs on the gateway host, and Ann may use directives.
fn open() -> ServerBuilder {
    TestServer::full().config(&config(
        &json!({ "host": "gateway", "security": "full", "ask": "off" }),
    ))
}

/// A server that denies everything unless a session says otherwise, and where Ann may use directives.
fn closed() -> ServerBuilder {
    TestServer::full()
        .config(&config(
            &json!({ "host": "gateway", "security": "deny", "ask": "on-miss" }),
        ))
        .toml("[approvals]\nalways_reachable = true\n")
}

/// A relay that may not answer questions.
async fn relay(server: &TestServer) -> Api {
    relay_with(server, json!({ "name": "bot", "scopes": ["relay"] })).await
}

/// A relay that may.
async fn answering_relay(server: &TestServer) -> Api {
    relay_with(server, json!({ "name": "bot", "scopes": ["relay", "approve"] })).await
}

async fn relay_with(server: &TestServer, request: Value) -> Api {
    server.token_with(request).await.1
}

/// The path of something of a session; a query after the key goes to the end.
fn of_session(session: &str, what: &str) -> String {
    match session.split_once('?') {
        Some((key, query)) => format!("/v1/sessions/{key}/{what}?{query}"),
        None => format!("/v1/sessions/{session}/{what}"),
    }
}

async fn say(api: &Api, session: &str, text: &str, sender: Value) -> Answer {
    let body = json!({ "text": text, "sender": sender });
    api.post(&of_session(session, "commands"), body).await
}

/// What Ann's text came to.
async fn ann_says(api: &Api, session: &str, text: &str) -> Value {
    say(api, session, text, ann()).await.expect(200)
}

async fn overrides_of(server: &TestServer, session: &str) -> Value {
    server.operator().read(&of_session(session, "overrides")).await
}

async fn put(server: &TestServer, session: &str, body: Value) -> Answer {
    let operator = server.operator();
    let path = of_session(session, "overrides");
    let request = operator.request(reqwest::Method::PUT, &path).json(&body);
    operator.send(request).await
}

async fn effective(server: &TestServer, session: &str) -> Value {
    server
        .operator()
        .read(&format!("/v1/policy/effective?sessionKey={session}"))
        .await
}

async fn peek(api: &Api, session: &str) -> Vec<Value> {
    items(api.get(&format!("/v1/sessions/{session}/system-events")).await)
}

async fn drain(api: &Api, session: &str) -> Vec<Value> {
    items(
        api.post(&format!("/v1/sessions/{session}/system-events/drain"), json!({}))
            .await,
    )
}

#[expect(clippy::needless_pass_by_value, reason = "reads better so")]
fn items(answer: Answer) -> Vec<Value> {
    answer.expect(200)["items"].as_array().cloned().expect("items")
}
