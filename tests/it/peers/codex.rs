//! Codex itself, with our MCP server, over both of its transports, and with our hook.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    agent::{self, Client, ClientFixture, WaitPolicy, Way},
    model::{Call, Model},
};
use crate::support::{Invocation, eventually, installed, write_file};

/// Where `dev/peers` puts it.
const PLACE: &str = "peers/@openai/codex/node_modules/@openai";

struct Codex {
    program: PathBuf,
}

impl Client for Codex {
    fn find() -> Option<Self> {
        agent::installed_peer("Codex", program()).map(|program| Self { program })
    }

    fn invocation(
        &self,
        fixture: &ClientFixture,
        way: Way,
        wait_policy: WaitPolicy,
        model: &Model,
    ) -> Invocation {
        let label = if way == Way::Http {
            "config.toml over=http"
        } else {
            "config.toml"
        };
        let mut settings = fixture.documented(label);
        if wait_policy == WaitPolicy::Short {
            settings = replaced(&settings, "tool_timeout_sec = 700", "tool_timeout_sec = 4");
        }
        let invocation = fixture.surround(Invocation::new(&self.program));
        let mut invocation = invocation.args(&["exec", "--skip-git-repo-check", "Begin."]);
        if way == Way::Hook {
            // Its own shell, which the hook is for. Its sandbox does not start in a home below the directory of
            // temporary files.
            settings = String::new();
            let mut hooks = replaced(
                &fixture.documented("hooks.json"),
                "countersign hook codex",
                "countersign hook codex --mode rewrite",
            );
            hooks = match wait_policy {
                WaitPolicy::Advised => hooks,
                WaitPolicy::Short => replaced(&hooks, "\"timeout\": 600", "\"timeout\": 4"),
                WaitPolicy::ShortHook => replaced(&hooks, "--mode rewrite", "--mode rewrite --timeout 1s"),
            };
            write_file(&fixture.home().join(".codex/hooks.json"), hooks);
            invocation = invocation.args(&[
                "--dangerously-bypass-hook-trust",
                "--sandbox",
                "danger-full-access",
            ]);
        }
        configure(fixture, model, &settings);
        invocation
    }

    fn call(&self, way: Way, command: &str, more: Value) -> Call {
        if way == Way::Hook {
            return Call::new("exec_command", json!({"cmd": command, "yield_time_ms": 30_000}));
        }
        let mut input = more;
        input["command"] = json!(command);
        Call {
            namespace: Some("mcp__countersign"),
            ..Call::new("exec", input)
        }
    }
}

fn program() -> Option<PathBuf> {
    let packages = std::fs::read_dir(installed(PLACE)?).ok()?;
    let vendors = packages
        .flatten()
        .filter_map(|package| std::fs::read_dir(package.path().join("vendor")).ok());
    vendors
        .flatten()
        .flatten()
        .map(|platform| platform.path().join("bin/codex"))
        .find(|program| program.is_file())
}

#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no {from} in {text}");
    text.replace(from, to)
}

/// Settings with the model before them.
fn configure(fixture: &ClientFixture, model: &Model, settings: &str) {
    let address = model.address();
    let all = format!(
        "model = \"obedient\"\nmodel_provider = \"here\"\n[model_providers.here]\nname = \"here\"\n\
         base_url = \"{address}/v1\"\nwire_api = \"responses\"\n{settings}\n"
    );
    write_file(&fixture.home().join(".codex/config.toml"), all);
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all() {
    agent::each_command_runs_once_or_not_at_all::<Codex>(Way::Stdio).await;
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all_over_http() {
    agent::each_command_runs_once_or_not_at_all::<Codex>(Way::Http).await;
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all_with_the_hook() {
    agent::each_command_runs_once_or_not_at_all::<Codex>(Way::Hook).await;
}

#[tokio::test]
async fn a_call_that_was_given_up_is_joined() {
    agent::a_call_that_was_given_up_is_joined::<Codex>(Way::Stdio).await;
}

#[tokio::test]
async fn a_call_that_was_given_up_over_http_is_joined() {
    agent::a_call_that_was_given_up_is_joined::<Codex>(Way::Http).await;
}

#[tokio::test]
async fn what_is_taken_back_ends() {
    agent::what_is_taken_back_ends::<Codex>(Way::Stdio).await;
}

#[tokio::test]
async fn what_is_taken_back_over_http_ends() {
    agent::what_is_taken_back_ends::<Codex>(Way::Http).await;
}

#[tokio::test]
async fn what_is_taken_back_from_the_hook_ends() {
    agent::what_is_taken_back_ends::<Codex>(Way::Hook).await;
}

#[tokio::test]
async fn without_a_server_nothing_runs() {
    agent::without_a_server_nothing_runs::<Codex>(&[Way::Stdio, Way::Http, Way::Hook]).await;
}

#[tokio::test]
async fn nobody_answers_its_call() {
    agent::nobody_answers_its_call::<Codex>(Way::Stdio).await;
}

#[tokio::test]
async fn nobody_answers_its_call_over_http() {
    agent::nobody_answers_its_call::<Codex>(Way::Http).await;
}

#[tokio::test]
async fn nobody_answers_its_hook() {
    agent::nobody_answers_its_hook::<Codex>().await;
}

/// What the documentation warns of.
#[tokio::test]
async fn it_goes_on_without_a_hook_that_it_ended() {
    agent::its_hook_is_ended::<Codex>(true).await;
}

/// The documentation says that the hook as it stands sends the agent to the tool, that the shell is gone with
/// `[features]`, that an untrusted hook is none, and that calls are refused without `default_tools_approval_mode`.
#[tokio::test]
async fn its_settings_do_what_is_said_of_them() {
    let client = or_skip!(Codex::find());
    let fixture = ClientFixture::new();
    let server = fixture.server().start().await;
    let fixture = fixture.beside(&server);
    let allowed = fixture.program("allowed");
    let told = |settings: &str, more: &[&str], turns: Vec<Vec<Call>>| {
        let settings = settings.to_owned();
        let arguments: Vec<String> = more.iter().map(ToString::to_string).collect();
        let (fixture, client) = (&fixture, &client);
        async move {
            let model = Model::saying(turns).await;
            configure(fixture, &model, &settings);
            let invocation = fixture.surround(Invocation::new(&client.program));
            let invocation = invocation
                .args(&["exec", "--skip-git-repo-check", "Begin."])
                .args(&arguments);
            fixture.start(&invocation).ended().await;
            model
        }
    };
    let shell = || vec![client.call(Way::Hook, &format!("{allowed} shell"), json!({}))];
    let tool = || vec![client.call(Way::Stdio, &format!("{allowed} tool"), json!({}))];
    let settings = fixture.documented("config.toml");

    let model = told(&settings, &[], vec![shell(), tool()]).await;
    assert!(!model.knows("exec_command") && !model.knows("shell"));
    assert_eq!(fixture.marks(), ["allowed tool"], "{:?}", model.results());

    let unasked = replaced(&settings, "default_tools_approval_mode = \"approve\"\n", "");
    let model = told(&unasked, &[], vec![tool()]).await;
    assert_eq!(fixture.marks(), ["allowed tool"], "{:?}", model.results());

    let (servers, _features) = settings.split_once("[features]").expect("features");
    write_file(
        &fixture.home().join(".codex/hooks.json"),
        fixture.documented("hooks.json"),
    );
    let open = ["--sandbox", "danger-full-access"];
    let trusted = [
        "--sandbox",
        "danger-full-access",
        "--dangerously-bypass-hook-trust",
    ];
    let model = told(servers, &trusted, vec![shell(), tool()]).await;
    assert!(model.results()[0].contains("use-mcp"), "{:?}", model.results());
    assert_eq!(fixture.marks(), ["allowed tool", "allowed tool"]);

    told(servers, &open, vec![shell()]).await;
    let marks = || async { fixture.marks() };
    let marks = eventually("ran", marks, |marks| marks.len() > 2).await;
    assert_eq!(marks, ["allowed shell", "allowed tool", "allowed tool"]);
}
