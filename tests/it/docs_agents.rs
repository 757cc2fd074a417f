//! `docs/agents.md` and the pages below `docs/agents/`, tried literally: each block is taken out of its page as it
//! stands and used as its client would use it, with the client's own first messages.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Finished, Invocation, Members, TestServer, inherited_path};

/// The texts of the pages, joined.
fn pages() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let below = fs::read_dir(docs.join("agents")).expect("the pages of the clients");
    let mut pages = vec![docs.join("agents.md")];
    pages.extend(below.map(|entry| entry.expect("an entry").path()));
    let texts = pages.iter().map(|page| fs::read_to_string(page).expect("a page"));
    texts.collect::<Vec<_>>().join("\n")
}

/// The block whose fence carries this label. No two pages share one.
pub(crate) fn block(label: &str) -> String {
    let pages = pages();
    let mut blocks = BTreeMap::new();
    let mut lines = pages.lines();
    while let Some(line) = lines.next() {
        let Some((_language, name)) = line
            .strip_prefix("```")
            .and_then(|fence| fence.split_once(" file="))
        else {
            continue;
        };
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let doubled = blocks.insert(name.to_owned(), text.join("\n"));
        assert_eq!(doubled, None, "two blocks are called {name}");
    }
    blocks
        .get(label)
        .unwrap_or_else(|| panic!("no block {label}; there are {:?}", blocks.keys()))
        .clone()
}

fn json_block(label: &str) -> Value {
    serde_json::from_str(&block(label)).unwrap_or_else(|error| panic!("{label}: {error}"))
}

/// The surroundings of somebody who has `countersign` on PATH and a server.
fn surroundings(invocation: Invocation, server: &TestServer) -> Invocation {
    let program = Path::new(env!("CARGO_BIN_EXE_countersign"));
    let folder = program.parent().expect("a folder").display().to_string();
    invocation
        .env("PATH", format!("{folder}:{}", inherited_path()))
        .env("HOME", server.scratch().join("home"))
        .env("OPENCLAW_STATE_DIR", server.state())
        .env("COUNTERSIGN_URL", server.agent().base())
        .env("COUNTERSIGN_TOKEN", server.gateway_token())
        .cwd(&server.scratch().path())
}

async fn finish(invocation: Invocation) -> Finished {
    TestServer::finish(invocation).await
}

/// A client's first messages, as that client sends them, and a call.
fn conversation(client: &str, version: &str, capabilities: &Value) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": capabilities,
        "clientInfo": {"name": client, "version": "1.0.0"},
    }});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "exec", "arguments": {"argv": ["echo", "hi"]}, "_meta": {"progressToken": 2},
    }});
    format!("{hello}\n{ready}\n{list}\n{call}\n")
}

/// Starts what the configuration names and holds the conversation.
async fn converse(server: &TestServer, entry: &Value, conversation: &str) {
    let arguments: Vec<&str> = entry.list("args").iter().filter_map(Value::as_str).collect();
    let program = entry.text("command");
    let line = std::iter::once(program)
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ");
    // By a shell, so that the program is looked for on the PATH that is given here.
    let invocation = surroundings(
        Invocation::new("sh").args(&["-c", &format!("exec {line}")]),
        server,
    );
    let done = finish(invocation.input(conversation)).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let answers: BTreeMap<i64, Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a message"))
        .filter_map(|message| Some((message["id"].as_i64()?, message)))
        .collect();
    assert_eq!(answers[&0]["result"]["serverInfo"]["name"], "countersign");
    assert_eq!(answers[&1]["result"]["tools"][0]["name"], "exec");
    assert_has!(answers[&2], { "result/structuredContent/stdout": "hi\n" }, "{answers:?}");
}

#[tokio::test]
async fn claude_code_with_mcp() {
    let server = TestServer::full().start().await;
    let config = json_block(".mcp.json");
    let entry = &config["mcpServers"]["countersign"];
    assert_eq!(entry["type"], "stdio");
    let talk = conversation("claude-code", "2025-06-18", &json!({"roots": {}}));
    converse(&server, entry, &talk).await;
    let settings = json_block(".claude/settings.json use=permissions");
    // All tools of the server: what takes longer than an answer needs `process`.
    assert_eq!(settings["permissions"]["allow"], json!(["mcp__countersign"]));
}

#[tokio::test]
async fn claude_code_over_http() {
    let server = TestServer::full().start().await;
    let config = json_block(".mcp.json over=http");
    let entry = &config["mcpServers"]["countersign"];
    let url = entry.text("url");
    let path = url
        .strip_prefix("http://127.0.0.1:18790")
        .expect("the default address");
    let token = entry["headers"]["Authorization"]
        .as_str()
        .and_then(|header| header.strip_prefix("Bearer "));
    assert_eq!(token, Some("${COUNTERSIGN_TOKEN}"));
    let agent = server.agent();
    let talk = conversation("claude-code", "2025-06-18", &json!({"roots": {}}));
    let mut session: Option<String> = None;
    let mut last = Value::Null;
    for message in talk.lines() {
        let mut request = agent
            .request(reqwest::Method::POST, path)
            .header("Accept", "application/json, text/event-stream")
            .header("Content-Type", "application/json")
            .body(message.to_owned());
        if let Some(session) = &session {
            request = request
                .header("Mcp-Session-Id", session)
                .header("MCP-Protocol-Version", "2025-06-18");
        }
        let answer = agent.send(request).await;
        assert!(matches!(answer.status, 200 | 202), "{}", answer.text());
        session = session.or_else(|| answer.header("mcp-session-id").map(str::to_owned));
        last = answer.json();
    }
    assert_eq!(last["result"]["structuredContent"]["stdout"], "hi\n", "{last}");
}

#[tokio::test]
async fn claude_code_with_a_hook() {
    let server = TestServer::full().start().await;
    let settings = json_block(".claude/settings.json use=hook");
    let group = &settings["hooks"]["PreToolUse"][0];
    let matcher = group.text("matcher");
    assert!(matcher.split('|').any(|tool| tool == "Bash"));
    let hook = &group["hooks"][0];
    assert!(
        hook["timeout"].as_u64() > Some(9 * 60),
        "longer than our own patience"
    );
    let command = hook.text("command");
    let replaced = hook_replaces(&server, command).await;
    let shell = surroundings(Invocation::new("bash").args(&["-c", &replaced]), &server);
    let done = finish(shell).await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "hi\n"), "{done:?}");
}

/// Asks a hook as its client does and returns the replaced command.
async fn hook_replaces(server: &TestServer, command: &str) -> String {
    let event = json!({
        "session_id": "abc123", "transcript_path": "/home/u/.claude/projects/p/abc123.jsonl",
        "cwd": server.scratch().path(), "permission_mode": "default", "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {"command": "echo hi", "description": "Say hi", "timeout": 120_000},
        "tool_use_id": "toolu_01ABC123",
    });
    let shell = surroundings(Invocation::new("sh").args(&["-c", command]), server);
    let done = finish(shell.input(event.to_string())).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let output: Value = serde_json::from_str(&done.stdout).expect("a decision");
    let decision = &output["hookSpecificOutput"];
    assert_eq!(decision["permissionDecision"], "allow", "{output}");
    decision["updatedInput"].text("command").to_owned()
}

#[tokio::test]
async fn codex_with_mcp_and_a_hook_that_leads_there() {
    let server = TestServer::full().start().await;
    let config: toml::Table = block("config.toml").parse().expect("TOML");
    let entry = serde_json::to_value(&config["mcp_servers"]["countersign"]).expect("JSON");
    assert_eq!(entry["default_tools_approval_mode"], "approve");
    assert!(
        entry["tool_timeout_sec"].as_u64() > Some(600),
        "longer than approvalWaitMs"
    );
    assert_eq!(config["features"]["shell_tool"].as_bool(), Some(false));
    let talk = conversation("codex-mcp-client", "2025-06-18", &json!({"elicitation": {}}));
    converse(&server, &entry, &talk).await;

    let hooks = json_block("hooks.json");
    let command = hooks["hooks"]["PreToolUse"][0]["hooks"][0].text("command");
    let event = json!({
        "session_id": "t1", "turn_id": "1", "cwd": "/", "hook_event_name": "PreToolUse", "model": "m",
        "permission_mode": "default", "tool_name": "Bash", "tool_input": {"command": "echo hi"}, "tool_use_id": "c1",
    });
    let shell = surroundings(Invocation::new("sh").args(&["-c", command]), &server);
    let done = finish(shell.input(event.to_string())).await;
    let output: Value = serde_json::from_str(&done.stdout).expect("a decision");
    assert_has!(output, { "hookSpecificOutput/permissionDecision": "deny" });
}

#[tokio::test]
async fn gemini_cli_with_mcp() {
    let server = TestServer::full().start().await;
    let settings = json_block("settings.json");
    assert_eq!(settings["tools"]["exclude"], json!(["run_shell_command"]));
    assert_eq!(settings["mcpServers"]["countersign"]["trust"], true);
    let talk = conversation(
        "gemini-cli-mcp-client",
        "2025-11-25",
        &json!({"roots": {"listChanged": true}}),
    );
    converse(&server, &settings["mcpServers"]["countersign"], &talk).await;
}

#[tokio::test]
async fn gemini_cli_with_a_hook() {
    let server = TestServer::full().start().await;
    let settings = json_block("settings.json use=hook");
    let group = &settings["hooks"]["BeforeTool"][0];
    assert_eq!(group["matcher"], "run_shell_command");
    let hook = &group["hooks"][0];
    assert!(
        hook["timeout"].as_u64() > Some(9 * 60 * 1000),
        "longer than our own patience"
    );
    let event = json!({
        "session_id": "abc123", "transcript_path": "/home/u/.gemini/tmp/p/chats/abc123.json",
        "cwd": server.scratch().path(), "hook_event_name": "BeforeTool", "timestamp": "2026-11-24T08:00:00.000Z",
        "tool_name": "run_shell_command", "tool_input": {"command": "echo hi", "description": "Say hi"},
    });
    let command = hook.text("command");
    let shell = surroundings(Invocation::new("sh").args(&["-c", command]), &server);
    let done = finish(shell.input(event.to_string())).await;
    let output: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!(output["decision"], "allow", "{output}");
    let replaced = output["hookSpecificOutput"]["tool_input"].text("command");
    let shell = surroundings(Invocation::new("bash").args(&["-c", replaced]), &server);
    let done = finish(shell).await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "hi\n"), "{done:?}");
}

#[tokio::test]
async fn opencode_with_mcp() {
    let server = TestServer::full().start().await;
    let config = json_block("opencode.json");
    assert_eq!(config["permission"]["bash"], "deny");
    let entry = &config["mcp"]["countersign"];
    assert_eq!(entry["type"], "local");
    let words = entry.list("command");
    let (program, arguments) = words.split_first().expect("a program");
    let talk = conversation("opencode", "2025-11-25", &json!({}));
    converse(&server, &json!({"command": program, "args": arguments}), &talk).await;
}

#[tokio::test]
async fn curl_and_the_generic_hook() {
    let server = TestServer::full().start().await;
    for (label, pointer, expected) in [
        ("exec.sh", "/status", "completed"),
        ("mcp.sh", "/result/structuredContent/status", "completed"),
        ("hook.sh", "/decision", "replace"),
    ] {
        let shell = surroundings(Invocation::new("sh").args(&["-c", &block(label)]), &server);
        let done = finish(shell).await;
        assert_eq!(done.code, Some(0), "{label}: {done:?}");
        let answer: Value =
            serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{label}: {done:?}"));
        assert_eq!(
            answer.pointer(pointer),
            Some(&json!(expected)),
            "{label}: {answer}"
        );
    }
}
