//! Claude Code itself, with a model on this machine that does what it is told. Every command leaves a line in a file, so
//! that one that ran twice, or beside countersign, shows.

use std::{
    fs,
    path::{Path, PathBuf},
};

use axum::{
    Router,
    http::{Uri, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use crate::support::{
    Finished, Invocation, TestServer, eventually, inherited_path, installed, lines, skip, write_file,
};

/// Where `dev/peers` puts it.
const PLACE: &str = "peers/@anthropic-ai/claude-code/node_modules/@anthropic-ai";

/// Claude Code with a home and a project of its own, beside a server.
struct Agent<'a> {
    server: &'a TestServer,
    program: PathBuf,
    model: String,
    home: PathBuf,
    project: PathBuf,
    /// What its commands write to.
    file: PathBuf,
}

impl<'a> Agent<'a> {
    /// `None`, and a line that says so, where it is not installed.
    async fn beside(server: &'a TestServer) -> Option<Self> {
        let Some(program) = program() else {
            skip("Claude Code is not installed (dev/peers installs it)");
            return None;
        };
        let agent = Self {
            server,
            program,
            model: obedient_model().await,
            home: server.scratch().dir("claude-home"),
            project: server.scratch().dir("project"),
            file: server.scratch().join("lines"),
        };
        let hook = json!({"type": "command", "command": "countersign hook claude-code", "timeout": 600, "onFailure": "block"});
        let hooks = json!({"PreToolUse": [{"matcher": "Bash|PowerShell|Monitor", "hooks": [hook]}]});
        let settings = agent.home.join(".claude/settings.json");
        write_file(&settings, json!({ "hooks": hooks }).to_string());
        Some(agent)
    }

    /// A command that leaves a line.
    fn command(&self) -> String {
        format!("echo ran >> {}", self.file.display())
    }

    /// What it is started as, to call a tool with a command.
    fn told(&self, tool: &str, command: &str) -> Invocation {
        let own = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let folder = own.parent().expect("a folder").display().to_string();
        Invocation::new(&self.program)
            .args(&["-p", &format!("Run `{command}` with {tool}.")])
            .cwd(&self.project)
            .env("HOME", &self.home)
            .env("PATH", format!("{folder}:{}", inherited_path()))
            .env("OPENCLAW_STATE_DIR", self.server.state())
            .env("ANTHROPIC_BASE_URL", &self.model)
            .env("ANTHROPIC_API_KEY", "none")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
    }

    async fn runs(&self) -> Finished {
        TestServer::finish(self.told("Bash", &self.command())).await
    }

    fn times(&self) -> usize {
        lines(&self.file).len()
    }
}

fn program() -> Option<PathBuf> {
    let packages = fs::read_dir(installed(PLACE)?).ok()?;
    packages
        .filter_map(Result::ok)
        .map(|package| package.path().join("claude"))
        .find(|program| program.is_file())
}

/// A model: "Run `COMMAND` with TOOL." becomes one call of that tool, and its answer is said back. Returns its address.
async fn obedient_model() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("its address");
    let router = Router::new().fallback(|uri: Uri, body: String| async move { answer(&uri, &body) });
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn answer(uri: &Uri, body: &str) -> Response {
    if uri.path() != "/v1/messages" {
        return axum::Json(json!({"input_tokens": 1, "data": []})).into_response();
    }
    let request: Value = serde_json::from_str(body).expect("a request");
    let (block, stop) = block_for(&request);
    let message = |content: Value, stop: Value| {
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "obedient", "content": content,
            "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        })
    };
    if request["stream"] != true {
        return axum::Json(message(json!([block]), json!(stop))).into_response();
    }
    let (begins, delta) = if block["type"] == "text" {
        (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": block["text"]}),
        )
    } else {
        let mut begins = block.clone();
        begins["input"] = json!({});
        let input = block["input"].to_string();
        (begins, json!({"type": "input_json_delta", "partial_json": input}))
    };
    let events = [
        json!({"type": "message_start", "message": message(json!([]), Value::Null)}),
        json!({"type": "content_block_start", "index": 0, "content_block": begins}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ];
    let event = |event: &Value| {
        let kind = event["type"].as_str().expect("a type");
        format!("event: {kind}\ndata: {event}\n\n")
    };
    let text: String = events.iter().map(event).collect();
    ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
}

/// What the model says, and why it stops there.
fn block_for(request: &Value) -> (Value, &'static str) {
    let messages = request["messages"].as_array().expect("messages");
    let texts: Vec<String> = messages
        .iter()
        .map(|message| text_of(&message["content"]))
        .collect();
    let order = texts.iter().rev().find_map(|text| {
        let (_, rest) = text.split_once("Run `")?;
        let (command, rest) = rest.split_once("` with ")?;
        Some((command, rest.split_once('.')?.0))
    });
    let last = messages.last().map(|message| &message["content"]);
    let result = last
        .and_then(Value::as_array)
        .and_then(|blocks| blocks.iter().find(|block| block["type"] == "tool_result"));
    let has_tools = request["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    match (result, order) {
        (None, Some((command, tool))) if has_tools => {
            let input = json!({ "command": command });
            (
                json!({"type": "tool_use", "id": "toolu_1", "name": tool, "input": input}),
                "tool_use",
            )
        }
        (result, _) => {
            let said = result
                .map(|result| text_of(&result["content"]))
                .unwrap_or_default();
            (
                json!({"type": "text", "text": format!("It said: {said}")}),
                "end_turn",
            )
        }
    }
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

#[tokio::test]
async fn an_allowed_command_runs_once_and_by_countersign() {
    let server = TestServer::full().start().await;
    let Some(agent) = Agent::beside(&server).await else {
        return;
    };
    let done = agent.runs().await;
    assert_eq!((done.code, agent.times()), (Some(0), 1), "{done:?}");
    let runs = server.operator().get("/v1/runs").await.expect(200);
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(1), "{runs}");
    assert_eq!(runs["items"][0]["command"], agent.command());
    assert_eq!(runs["items"][0]["status"], "completed");
}

#[tokio::test]
async fn what_a_person_allows_runs_once() {
    let server = TestServer::asking().start().await;
    let Some(agent) = Agent::beside(&server).await else {
        return;
    };
    let operator = server.operator();
    let (done, ()) = tokio::join!(agent.runs(), async {
        let asked = eventually("asked", || operator.pending(), |pending| !pending.is_empty()).await;
        assert_eq!(agent.times(), 0);
        let id = asked[0]["id"].as_str().expect("an id");
        operator.decide(id, "allow-once").await.expect(200);
    });
    assert_eq!((done.code, agent.times()), (Some(0), 1), "{done:?}");
    assert_eq!(operator.pending().await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_denied_or_cannot_be_asked_about_does_not_run() {
    let denying = TestServer::allowlist_only().start().await;
    let absent = TestServer::full().prepare();
    for (server, why) in [(&denying, "allowlist-miss"), (&absent, "countersign")] {
        let Some(agent) = Agent::beside(server).await else {
            return;
        };
        let done = agent.runs().await;
        assert!(done.stdout.contains(why), "{done:?}");
        assert_eq!(agent.times(), 0, "{done:?}");
    }
}

#[tokio::test]
async fn its_own_rules_hold_for_each_part_of_a_command() {
    let server = TestServer::full().start().await;
    let Some(agent) = Agent::beside(&server).await else {
        return;
    };
    for effect in ["deny", "ask"] {
        let rules = json!({"permissions": {effect: ["Bash(echo ran:*)"]}});
        write_file(&agent.project.join(".claude/settings.json"), rules.to_string());
        let command = format!("cd / && {}", agent.command());
        let done = TestServer::finish(agent.told("Bash", &command)).await;
        assert!(done.stdout.contains("Bash(echo ran:*)"), "{effect}: {done:?}");
        assert_eq!(agent.times(), 0, "{effect}: {done:?}");
    }
}

#[tokio::test]
async fn its_mcp_tool_runs_a_command_once_in_the_project() {
    let server = TestServer::full().start().await;
    let Some(agent) = Agent::beside(&server).await else {
        return;
    };
    let servers =
        json!({"mcpServers": {"countersign": {"type": "stdio", "command": "countersign", "args": ["mcp"]}}});
    let rules = json!({"permissions": {"deny": ["Bash"], "allow": ["mcp__countersign"]}});
    let command = format!("pwd >> {}", agent.file.display());
    let told = agent.told("mcp__countersign__exec", &command).args(&[
        "--strict-mcp-config",
        "--mcp-config",
        &servers.to_string(),
        "--settings",
        &rules.to_string(),
    ]);
    let done = TestServer::finish(told).await;
    assert_eq!(
        lines(&agent.file),
        [agent.project.display().to_string()],
        "{done:?}"
    );
}
