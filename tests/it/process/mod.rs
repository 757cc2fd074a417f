//! Process sessions, through every edge: what goes on in the background, its output, its input, its end.

mod actions;
mod command_line;
mod leftovers;
mod many;
mod notices;
mod output;
mod over_mcp;
mod recorded;
mod restart;
mod retention;
mod scope;
mod screen;

use serde_json::{Value, json};

use crate::support::{Answer, Api, Event, EventStream, Members, eventually, within};

/// Calls the process tool for agent `main`.
async fn act(api: &Api, action: &str, session: &str, members: Value) -> Answer {
    let mut body = json!({ "action": action, "sessionId": session });
    for (name, value) in members.as_object().expect("members") {
        body[name] = value.clone();
    }
    api.post("/v1/process", body).await
}

/// A session that runs this text of a shell.
async fn start(api: &Api, command: &str) -> String {
    start_with(api, json!({ "command": command, "background": true })).await
}

async fn start_with(api: &Api, body: Value) -> String {
    api.accepted(body).await.text("sessionId").to_owned()
}

/// The sessions of agent `main`.
async fn list(api: &Api) -> Vec<Value> {
    let answer = api.post("/v1/process", json!({ "action": "list" })).await;
    answer.expect(200)["items"].as_array().cloned().expect("items")
}

async fn one(api: &Api, session: &str) -> Value {
    api.read(&format!("/v1/process/{session}")).await
}

/// Waits until a session has ended.
async fn ended(api: &Api, session: &str) -> Value {
    eventually(
        "ended",
        || one(api, session),
        |session| session["status"] != "running",
    )
    .await
}

/// Waits until a session wrote so many bytes.
async fn wrote(api: &Api, session: &str, bytes: u64) -> Value {
    let has = |session: &Value| session["outputBytes"].as_u64() >= Some(bytes);
    eventually("written", || one(api, session), has).await
}

/// Opens the stream of a session, after so many bytes.
async fn stream(api: &Api, session: &str, after: Option<u64>) -> EventStream {
    let mut request = api
        .request(reqwest::Method::GET, &format!("/v1/process/{session}/stream"))
        .header("accept", "text/event-stream");
    if let Some(after) = after {
        request = request.header("Last-Event-ID", after.to_string());
    }
    let response = within("the stream", request.send()).await.expect("the stream");
    assert_eq!(response.status().as_u16(), 200, "{response:?}");
    EventStream::new(response)
}

/// Everything to the end of a stream: its outputs, and the session.
async fn to_the_end(mut stream: EventStream) -> (Vec<Event>, Value) {
    let mut outputs = Vec::new();
    loop {
        let event = stream.next().await;
        match event.kind.as_str() {
            "output" => outputs.push(event),
            "end" => {
                assert_eq!(event.id, None);
                assert!(stream.next_or_end().await.is_none(), "something follows the end");
                return (outputs, event.data);
            }
            other => panic!("{other}: {}", event.data),
        }
    }
}

/// The text of a stream's outputs.
fn joined(outputs: &[Event]) -> String {
    outputs
        .iter()
        .filter_map(|event| event.data["text"].as_str())
        .collect()
}
