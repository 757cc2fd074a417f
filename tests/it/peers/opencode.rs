//! opencode itself, with our MCP server, over both of its transports. It has no hooks.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    agent::{self, Client, ClientFixture, WaitPolicy, Way},
    model::{Call, Model},
};
use crate::support::{Invocation, installed, write_file};

/// Where `dev/peers` puts it.
const PLACE: &str = "peers/opencode-ai/node_modules";

struct OpenCode {
    program: PathBuf,
}

impl Client for OpenCode {
    fn find() -> Option<Self> {
        agent::installed_peer("opencode", program()).map(|program| Self { program })
    }

    fn invocation(
        &self,
        fixture: &ClientFixture,
        way: Way,
        wait_policy: WaitPolicy,
        model: &Model,
    ) -> Invocation {
        let label = if way == Way::Http {
            "opencode.json over=http"
        } else {
            "opencode.json"
        };
        let mut settings: Value = serde_json::from_str(&fixture.documented(label)).expect("settings");
        let limit = &mut settings["mcp"]["countersign"]["timeout"];
        assert!(limit.is_u64(), "{limit}");
        match wait_policy {
            WaitPolicy::Advised | WaitPolicy::ShortHook => {}
            WaitPolicy::Short => *limit = json!(4_000),
        }
        settings["provider"] = json!({"here": {
            "npm": "@ai-sdk/openai-compatible", "name": "here",
            "options": {"baseURL": format!("{}/v1", model.address()), "apiKey": "none"},
            "models": {"obedient": {"name": "obedient", "tool_call": true}},
        }});
        write_file(&fixture.project().join("opencode.json"), settings.to_string());
        let invocation = fixture.surround(Invocation::new(&self.program));
        invocation
            .args(&["run", "--model", "here/obedient", "Begin."])
            .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
            .env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")
            // It fetches packages that plugins would need.
            .env("npm_config_registry", "http://127.0.0.1:9")
    }

    fn call(&self, way: Way, command: &str, more: Value) -> Call {
        let tool = if way == Way::Hook {
            "bash"
        } else {
            "countersign_exec"
        };
        let mut input = more;
        input["command"] = json!(command);
        Call::new(tool, input)
    }
}

fn program() -> Option<PathBuf> {
    let packages = std::fs::read_dir(installed(PLACE)?).ok()?;
    // The last by its name is for every processor; others need more of it.
    let mut programs: Vec<PathBuf> = packages
        .flatten()
        .map(|package| package.path().join("bin/opencode"))
        .filter(|program| program.is_file())
        .collect();
    programs.sort_unstable();
    programs.pop()
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all() {
    agent::each_command_runs_once_or_not_at_all::<OpenCode>(Way::Stdio).await;
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all_over_http() {
    agent::each_command_runs_once_or_not_at_all::<OpenCode>(Way::Http).await;
}

/// Each report of progress restarts its limit.
#[tokio::test]
async fn a_call_outlasts_its_own_limit() {
    agent::a_call_outlasts_its_own_limit::<OpenCode>(Way::Stdio).await;
}

#[tokio::test]
async fn a_call_over_http_outlasts_its_own_limit() {
    agent::a_call_outlasts_its_own_limit::<OpenCode>(Way::Http).await;
}

#[tokio::test]
async fn nobody_answers_its_call() {
    agent::nobody_answers_its_call::<OpenCode>(Way::Stdio).await;
}

#[tokio::test]
async fn nobody_answers_its_call_over_http() {
    agent::nobody_answers_its_call::<OpenCode>(Way::Http).await;
}

#[tokio::test]
async fn what_is_taken_back_ends() {
    agent::what_is_taken_back_ends::<OpenCode>(Way::Stdio).await;
}

#[tokio::test]
async fn what_is_taken_back_over_http_ends() {
    agent::what_is_taken_back_ends::<OpenCode>(Way::Http).await;
}

/// Its own shell is among the ways: the settings of the documentation take it away.
#[tokio::test]
async fn without_a_server_nothing_runs() {
    agent::without_a_server_nothing_runs::<OpenCode>(&[Way::Stdio, Way::Http, Way::Hook]).await;
}
