//! The same tool by the Model Context Protocol, over HTTP and over standard input and output.

use std::io::{BufRead as _, BufReader, Write as _};

use serde_json::{Value, json};

use super::{act, ended, start};
use crate::support::{Members, TestServer};

fn call(id: u64, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "process", "arguments": arguments } })
}

fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    } })
}

#[tokio::test]
async fn mcp_over_http_does_what_the_api_does() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "echo hello; cat").await;
    super::wrote(&api, &id, 6).await;
    let tool = |arguments: Value| {
        let request = api
            .request(reqwest::Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2025-11-25")
            .json(&call(1, &arguments));
        let api = api.clone();
        async move { api.send(request).await.expect(200)["result"].clone() }
    };
    let polled = tool(json!({ "action": "poll", "sessionId": id })).await;
    assert_eq!(polled["structuredContent"]["stdout"], "hello\n", "{polled}");
    assert_eq!(polled["content"][0]["text"], "hello\n");
    assert_has!(polled, { "content/1/text": format!("[session {id}: echo hello, running]") });
    let written = tool(json!({ "action": "write", "sessionId": id, "data": "x\n", "eof": true })).await;
    assert_eq!(written["isError"], false, "{written}");
    ended(&api, &id).await;
    let refused = tool(json!({ "action": "submit", "sessionId": id })).await;
    assert_has!(refused, { "isError": true, "structuredContent/code": "session-ended" });
    let foreign = tool(json!({ "action": "poll", "sessionId": id, "agentId": "build" })).await;
    assert_eq!(foreign["structuredContent"]["code"], "not-found");
    let wrong = tool(json!({ "action": "poll", "sessionId": id, "data": "x" })).await;
    assert_eq!(wrong["structuredContent"]["code"], "invalid-request");
    let listed = tool(json!({ "action": "list" })).await;
    assert_eq!(listed["structuredContent"]["items"][0]["sessionId"], id.as_str());
}

#[tokio::test]
async fn mcp_over_standard_input_does_it_too() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "read line; echo got $line").await;
    let mut child = server.invocation(&["mcp"]).start_interactive();
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let asked = id.clone();
    let talk = tokio::task::spawn_blocking(move || {
        let mut ask = |message: &Value| -> Value {
            writeln!(stdin, "{message}").expect("a message");
            let mut line = String::new();
            stdout.read_line(&mut line).expect("an answer");
            serde_json::from_str(&line).expect("JSON")
        };
        ask(&initialize());
        ask(&call(
            2,
            &json!({ "action": "write", "sessionId": asked, "data": "it\n" }),
        ));
        let polled = ask(&call(
            3,
            &json!({ "action": "poll", "sessionId": asked, "timeout": 30_000 }),
        ));
        drop(stdin);
        polled
    });
    let polled = talk.await.expect("the talk");
    assert_has!(polled, { "result/structuredContent/stdout": "got it\n" });
    child.wait().expect("the end of mcp");
    let session = ended(&api, &id).await;
    assert_eq!(session.text("status"), "completed");
    act(&api, "clear", &id, json!({})).await.expect(200);
}
