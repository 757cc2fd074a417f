//! The Model Context Protocol: by hand, message by message, and with the official client.

mod http;
mod sdk_client;
mod stdio;

use std::path::Path;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::{Answer, Api, Members};

/// The last version that begins with a handshake.
const LEGACY: &str = "2025-11-25";
/// What clients of last year begin with.
const OLDER: &str = "2025-06-18";
/// The first one without.
const MODERN: &str = "2026-07-28";

/// One MCP client over HTTP, written by hand.
#[derive(Debug, Clone)]
struct Client {
    api: Api,
    version: &'static str,
    session: Option<String>,
}

impl Client {
    /// A client that has shaken hands.
    async fn connect(api: &Api, capabilities: Value) -> Self {
        Self::connect_as(api, LEGACY, &capabilities).await
    }

    /// The same with a version of the protocol.
    async fn connect_as(api: &Api, version: &'static str, capabilities: &Value) -> Self {
        let mut client = Self {
            api: api.clone(),
            version,
            session: None,
        };
        let answer = client.send(&initialize(version, capabilities)).await;
        let session = answer.header("mcp-session-id").expect("a session").to_owned();
        let hello = answer.expect(200);
        assert_eq!(hello["result"]["protocolVersion"], version, "{hello}");
        client.session = Some(session);
        let noted = client
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        assert_eq!(noted.status, 202);
        client
    }

    fn request(&self, message: &Value) -> RequestBuilder {
        let request = post(&self.api, message).header("MCP-Protocol-Version", self.version);
        match &self.session {
            Some(session) => request.header("Mcp-Session-Id", session),
            None => request,
        }
    }

    async fn send(&self, message: &Value) -> Answer {
        self.api.send(self.request(message)).await
    }

    /// Calls a tool under a request id and returns the result.
    async fn call(&self, id: u64, tool: &str, arguments: &Value) -> Value {
        let answer = self.send(&call(id, tool, arguments)).await;
        result(&answer)
    }

    async fn exec(&self, id: u64, arguments: &Value) -> Value {
        self.call(id, "exec", arguments).await
    }
}

fn post(api: &Api, message: &Value) -> RequestBuilder {
    api.request(Method::POST, "/mcp")
        .header("Accept", "application/json, text/event-stream")
        .json(message)
}

fn initialize(version: &str, capabilities: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": capabilities,
        "clientInfo": {"name": "by hand", "version": "1"},
    }})
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// A request that stands for itself, and its sending.
async fn modern(api: &Api, id: u64, arguments: &Value, capabilities: &Value, more: Value) -> Value {
    let mut message = call(id, "exec", arguments);
    let params = message["params"].as_object_mut().expect("parameters");
    params.insert(
        "_meta".to_owned(),
        json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }),
    );
    if let Value::Object(more) = more {
        params.extend(more);
    }
    let request = post(api, &message)
        .header("MCP-Protocol-Version", MODERN)
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "exec");
    result(&api.send(request).await)
}

/// The result of an answer, which is JSON or the last event of a stream.
#[track_caller]
fn result(answer: &Answer) -> Value {
    let message = messages(answer).pop().expect("a message");
    assert!(message["result"].is_object(), "{message}");
    message["result"].clone()
}

/// All messages of an answer.
#[track_caller]
fn messages(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    if answer.header("content-type") == Some("application/json") {
        return vec![answer.json()];
    }
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.map(str::trim)
        .filter(|data| !data.is_empty())
        .map(|data| serde_json::from_str(data).expect("a message"))
        .collect()
}

/// The text of a result, block by block.
fn texts(result: &Value) -> Vec<String> {
    let blocks = result.list("content");
    let text = |block: &Value| block.text("text").to_owned();
    blocks.iter().map(text).collect()
}

/// A command that leaves one line in a file each time it runs.
fn append_line(file: &Path) -> Value {
    json!({ "command": format!("echo ran >> {}", file.display()) })
}
