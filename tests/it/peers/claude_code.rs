//! Claude Code itself, with our MCP server, over both of its transports, and with our hook.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    agent::{self, Client, ClientFixture, WaitPolicy, Way},
    model::{Call, Model},
};
use crate::{
    docs_agents::block,
    support::{Finished, Invocation, Members, TestServer, inherited_path, installed, lines, write_file},
};

/// Where `dev/peers` puts it.
const PLACE: &str = "peers/@anthropic-ai/claude-code/node_modules/@anthropic-ai";

/// Blocks of the documentation.
const HOOK: &str = ".claude/settings.json use=hook";
const PERMISSIONS: &str = ".claude/settings.json use=permissions";

/// Claude Code with a home and a project of its own, beside a server.
struct Agent<'a> {
    server: &'a TestServer,
    program: PathBuf,
    home: PathBuf,
    project: PathBuf,
    /// What its commands write to.
    file: PathBuf,
}

impl<'a> Agent<'a> {
    /// `None`, and a line that says so, where it is not installed.
    fn beside(server: &'a TestServer) -> Option<Self> {
        let program = ClaudeCode::find()?.program;
        let agent = Self {
            server,
            program,
            home: server.scratch().dir("claude-home"),
            project: server.scratch().dir("project"),
            file: server.scratch().join("lines"),
        };
        write_file(&agent.home.join(".claude/settings.json"), block(HOOK));
        Some(agent)
    }

    /// A command that leaves a line.
    fn command(&self) -> String {
        format!("echo ran >> {}", self.file.display())
    }

    /// Calls a tool with a command; how that ended, and what the tool said.
    async fn run_tool(&self, tool: &str, command: &str, more: &[&str]) -> (Finished, String) {
        let model = Model::saying(vec![vec![Call::new(tool, json!({ "command": command }))]]).await;
        let own = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let folder = own.parent().expect("a folder").display().to_string();
        let begun = begin(&self.program, &model, &self.home, &self.project)
            .args(&["-p", "Begin."])
            .args(more)
            .env("PATH", format!("{folder}:{}", inherited_path()))
            .env("OPENCLAW_STATE_DIR", self.server.state());
        let done = TestServer::finish(begun).await;
        (done, model.results().concat())
    }

    async fn runs(&self) -> (Finished, String) {
        self.run_tool("Bash", &self.command(), &[]).await
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

struct ClaudeCode {
    program: PathBuf,
}

impl Client for ClaudeCode {
    const CLOSES_WHAT_IT_GIVES_UP: bool = true;

    fn find() -> Option<Self> {
        agent::installed_peer("Claude Code", program()).map(|program| Self { program })
    }

    fn invocation(
        &self,
        fixture: &ClientFixture,
        way: Way,
        wait_policy: WaitPolicy,
        model: &Model,
    ) -> Invocation {
        let invocation = begin(&self.program, model, &fixture.home(), &fixture.project());
        let invocation = fixture.surround(invocation).args(&["-p", "Begin."]);
        if way == Way::Hook {
            let mut settings: Value = serde_json::from_str(&fixture.documented(HOOK)).expect("settings");
            let hook = &mut settings["hooks"]["PreToolUse"][0]["hooks"][0];
            match wait_policy {
                WaitPolicy::Advised => {}
                WaitPolicy::Short => hook["timeout"] = json!(4),
                WaitPolicy::ShortHook => hook["command"] = json!("countersign hook claude-code --timeout 1s"),
            }
            write_file(
                &fixture.home().join(".claude/settings.json"),
                settings.to_string(),
            );
            return invocation;
        }
        let label = if way == Way::Http {
            ".mcp.json over=http"
        } else {
            ".mcp.json"
        };
        let limit = match wait_policy {
            WaitPolicy::Advised | WaitPolicy::ShortHook => "700000",
            WaitPolicy::Short => "4000",
        };
        invocation.env("MCP_TOOL_TIMEOUT", limit).args(&[
            "--strict-mcp-config",
            "--mcp-config",
            &fixture.documented(label),
            "--settings",
            &fixture.documented(PERMISSIONS),
        ])
    }

    fn call(&self, way: Way, command: &str, more: Value) -> Call {
        let (tool, mut input) = if way == Way::Hook {
            ("Bash", json!({}))
        } else {
            ("mcp__countersign__exec", more)
        };
        input["command"] = json!(command);
        Call::new(tool, input)
    }
}

fn begin(program: &Path, model: &Model, home: &Path, project: &Path) -> Invocation {
    Invocation::new(program)
        .cwd(project)
        .env("HOME", home)
        .env("ANTHROPIC_BASE_URL", model.address())
        .env("ANTHROPIC_API_KEY", "none")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
}

#[tokio::test]
async fn an_allowed_command_runs_once_and_by_countersign() {
    let server = TestServer::full().start().await;
    let agent = or_skip!(Agent::beside(&server));
    let (done, _said) = agent.runs().await;
    assert_eq!((done.code, agent.times()), (Some(0), 1), "{done:?}");
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(1), "{runs}");
    assert_eq!(runs["items"][0]["command"], agent.command());
    assert_eq!(runs["items"][0]["status"], "completed");
}

#[tokio::test]
async fn what_a_person_allows_runs_once() {
    let server = TestServer::asking().start().await;
    let agent = or_skip!(Agent::beside(&server));
    let operator = server.operator();
    let ((done, _said), ()) = tokio::join!(agent.runs(), async {
        let asked = operator.waiting().await;
        assert_eq!(agent.times(), 0);
        let id = asked[0].text("id");
        operator.decided(id, "allow-once").await;
    });
    assert_eq!((done.code, agent.times()), (Some(0), 1), "{done:?}");
    assert_eq!(operator.pending().await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_denied_or_cannot_be_asked_about_does_not_run() {
    let denying = TestServer::allowlist_only().start().await;
    let absent = TestServer::full().prepare();
    for (server, why) in [(&denying, "allowlist-miss"), (&absent, "countersign")] {
        let agent = or_skip!(Agent::beside(server));
        let (done, said) = agent.runs().await;
        assert!(said.contains(why), "{said} {done:?}");
        assert_eq!(agent.times(), 0, "{done:?}");
    }
}

#[tokio::test]
async fn its_own_rules_hold_for_each_part_of_a_command() {
    let server = TestServer::full().start().await;
    let agent = or_skip!(Agent::beside(&server));
    for effect in ["deny", "ask"] {
        let rules = json!({"permissions": {effect: ["Bash(echo ran:*)"]}});
        write_file(&agent.project.join(".claude/settings.json"), rules.to_string());
        let command = format!("cd / && {}", agent.command());
        let (done, said) = agent.run_tool("Bash", &command, &[]).await;
        assert!(said.contains("Bash(echo ran:*)"), "{effect}: {said} {done:?}");
        assert_eq!(agent.times(), 0, "{effect}: {done:?}");
    }
}

#[tokio::test]
async fn its_mcp_tool_runs_a_command_once_in_the_project() {
    let server = TestServer::full().start().await;
    let agent = or_skip!(Agent::beside(&server));
    let command = format!("pwd >> {}", agent.file.display());
    let more = [
        "--strict-mcp-config",
        "--mcp-config",
        &block(".mcp.json"),
        "--settings",
        &block(PERMISSIONS),
    ];
    let (done, _said) = agent.run_tool("mcp__countersign__exec", &command, &more).await;
    assert_eq!(
        lines(&agent.file),
        [agent.project.display().to_string()],
        "{done:?}"
    );
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all() {
    agent::each_command_runs_once_or_not_at_all::<ClaudeCode>(Way::Stdio).await;
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all_over_http() {
    agent::each_command_runs_once_or_not_at_all::<ClaudeCode>(Way::Http).await;
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all_with_the_hook() {
    agent::each_command_runs_once_or_not_at_all::<ClaudeCode>(Way::Hook).await;
}

#[tokio::test]
async fn a_call_that_was_given_up_over_http_is_joined() {
    agent::a_call_that_was_given_up_is_joined::<ClaudeCode>(Way::Http).await;
}

#[tokio::test]
async fn what_is_taken_back_ends() {
    agent::what_is_taken_back_ends::<ClaudeCode>(Way::Stdio).await;
}

#[tokio::test]
async fn what_is_taken_back_over_http_ends() {
    agent::what_is_taken_back_ends::<ClaudeCode>(Way::Http).await;
}

#[tokio::test]
async fn what_is_taken_back_from_the_hook_ends() {
    agent::what_is_taken_back_ends::<ClaudeCode>(Way::Hook).await;
}

#[tokio::test]
async fn without_a_server_nothing_runs() {
    agent::without_a_server_nothing_runs::<ClaudeCode>(&[Way::Stdio, Way::Http]).await;
}

#[tokio::test]
async fn nobody_answers_its_call() {
    agent::nobody_answers_its_call::<ClaudeCode>(Way::Stdio).await;
}

#[tokio::test]
async fn nobody_answers_its_call_over_http() {
    agent::nobody_answers_its_call::<ClaudeCode>(Way::Http).await;
}

#[tokio::test]
async fn nobody_answers_its_hook() {
    agent::nobody_answers_its_hook::<ClaudeCode>().await;
}

/// `onFailure` of the documentation.
#[tokio::test]
async fn it_runs_nothing_without_a_hook_that_it_ended() {
    agent::its_hook_is_ended::<ClaudeCode>(false).await;
}
