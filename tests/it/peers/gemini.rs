//! Gemini CLI itself, with our MCP server, over both of its transports, and with our hook.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    agent::{self, Client, ClientFixture, Shell, WaitPolicy, Way},
    model::{Call, Model},
};
use crate::support::{Invocation, installed, node_compile_cache, node_runtime, write_file};

struct Gemini {
    runtime: PathBuf,
    program: PathBuf,
}

impl Client for Gemini {
    fn find() -> Option<Self> {
        agent::installed_peer("Gemini CLI", found())
    }

    fn invocation(
        &self,
        fixture: &ClientFixture,
        way: Way,
        wait_policy: WaitPolicy,
        model: &Model,
    ) -> Invocation {
        let label = match way {
            Way::Stdio => "settings.json",
            Way::Http => "settings.json over=http",
            Way::Hook => "settings.json use=hook",
        };
        let mut settings: Value = serde_json::from_str(&fixture.documented(label)).expect("settings");
        let limited = match way {
            Way::Stdio | Way::Http => &mut settings["mcpServers"]["countersign"],
            Way::Hook => &mut settings["hooks"]["BeforeTool"][0]["hooks"][0],
        };
        assert!(limited["timeout"].is_u64(), "{limited}");
        match wait_policy {
            WaitPolicy::Advised => {}
            WaitPolicy::Short => limited["timeout"] = json!(4_000),
            WaitPolicy::ShortHook => limited["command"] = json!("countersign hook gemini --timeout 1s"),
        }
        configure(fixture, settings);
        // Without a person it has no shell otherwise.
        let more: &[&str] = if way == Way::Hook { &["--yolo"] } else { &[] };
        self.begin(fixture, model).args(more)
    }

    fn call(&self, way: Way, command: &str, more: Value) -> Call {
        let (tool, mut input) = if way == Way::Hook {
            ("run_shell_command", json!({}))
        } else {
            ("mcp_countersign_exec", more)
        };
        input["command"] = json!(command);
        Call::new(tool, input)
    }
}

impl Gemini {
    fn begin(&self, fixture: &ClientFixture, model: &Model) -> Invocation {
        fixture
            .surround(Invocation::new(&self.runtime))
            .arg(&self.program)
            .args(&[
                "--model",
                "gemini-2.5-flash",
                "--prompt",
                "Begin.",
                "--skip-trust",
            ])
            .env("GEMINI_API_KEY", "none")
            .env("GOOGLE_GEMINI_BASE_URL", model.address())
            .env("NODE_COMPILE_CACHE", node_compile_cache())
            // It would start itself once more, with more memory.
            .env("GEMINI_CLI_NO_RELAUNCH", "true")
    }
}

fn found() -> Option<Gemini> {
    let program = installed("peers/@google/gemini-cli/node_modules/@google/gemini-cli/bundle/gemini.js")?;
    let runtime = node_runtime()?;
    Some(Gemini { runtime, program }).filter(|found| found.program.is_file())
}

fn configure(fixture: &ClientFixture, mut settings: Value) {
    settings["security"] = json!({"auth": {"selectedType": "gemini-api-key"}});
    settings["privacy"] = json!({"usageStatisticsEnabled": false});
    settings["general"] = json!({"enableAutoUpdate": false});
    write_file(
        &fixture.home().join(".gemini/settings.json"),
        settings.to_string(),
    );
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all() {
    agent::each_command_runs_once_or_not_at_all::<Gemini>(Way::Stdio).await;
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all_over_http() {
    agent::each_command_runs_once_or_not_at_all::<Gemini>(Way::Http).await;
}

#[tokio::test]
async fn each_command_runs_once_or_not_at_all_with_the_hook() {
    agent::each_command_runs_once_or_not_at_all::<Gemini>(Way::Hook).await;
}

#[tokio::test]
async fn a_call_that_was_given_up_is_joined() {
    agent::a_call_that_was_given_up_is_joined::<Gemini>(Way::Stdio).await;
}

#[tokio::test]
async fn what_is_taken_back_ends() {
    agent::what_is_taken_back_ends::<Gemini>(Way::Stdio).await;
}

#[tokio::test]
async fn what_is_taken_back_over_http_ends() {
    agent::what_is_taken_back_ends::<Gemini>(Way::Http).await;
}

#[tokio::test]
async fn its_shell_outlives_it_and_its_questions_do_not() {
    agent::what_is_taken_back_from::<Gemini>(Way::Hook, Shell::GoesOn).await;
}

#[tokio::test]
async fn without_a_server_nothing_runs() {
    agent::without_a_server_nothing_runs::<Gemini>(&[Way::Stdio, Way::Http, Way::Hook]).await;
}

#[tokio::test]
async fn a_call_that_was_given_up_over_http_is_joined() {
    agent::a_call_that_was_given_up_is_joined::<Gemini>(Way::Http).await;
}

#[tokio::test]
async fn nobody_answers_its_call() {
    agent::nobody_answers_its_call::<Gemini>(Way::Stdio).await;
}

#[tokio::test]
async fn nobody_answers_its_call_over_http() {
    agent::nobody_answers_its_call::<Gemini>(Way::Http).await;
}

#[tokio::test]
async fn nobody_answers_its_hook() {
    agent::nobody_answers_its_hook::<Gemini>().await;
}

/// What the documentation warns of.
#[tokio::test]
async fn it_goes_on_without_a_hook_that_it_ended() {
    agent::its_hook_is_ended::<Gemini>(true).await;
}

/// The documentation says after which failures of a hook it goes on without it.
#[tokio::test]
async fn it_goes_on_after_a_hook_that_exits_with_1_or_says_nothing() {
    let client = or_skip!(Gemini::find());
    let fixture = ClientFixture::new();
    let server = fixture.server().start().await;
    let fixture = fixture.beside(&server);
    let mut expected = Vec::new();
    for (number, (hook, goes_on)) in [
        ("echo why-not >&2; exit 1", true),
        ("echo why-not >&2; exit 2", false),
        ("echo why-not >&2; exit 3", false),
        ("exit 2", true),
    ]
    .into_iter()
    .enumerate()
    {
        let label = "settings.json use=hook";
        let mut settings: Value = serde_json::from_str(&fixture.documented(label)).expect("settings");
        settings["hooks"]["BeforeTool"][0]["hooks"][0]["command"] = json!(hook);
        let command = format!("{} {number}", fixture.program("allowed"));
        let model = Model::saying(vec![vec![client.call(Way::Hook, &command, json!({}))]]).await;
        configure(&fixture, settings);
        let begun = client.begin(&fixture, &model).args(&["--yolo"]);
        fixture.start(&begun).ended().await;
        if goes_on {
            expected.push(format!("allowed {number}"));
        } else {
            assert!(model.results()[0].contains("why-not"), "{:?}", model.results());
        }
        assert_eq!(fixture.marks(), expected, "{hook}: {:?}", model.results());
    }
}

/// The documentation says that its shell is gone, and that it refuses calls where it has no user and no `trust`.
#[tokio::test]
async fn its_settings_do_what_is_said_of_them() {
    let client = or_skip!(Gemini::find());
    let fixture = ClientFixture::new();
    let server = fixture.server().start().await;
    let fixture = fixture.beside(&server);
    let allowed = fixture.program("allowed");
    let mut settings: Value = serde_json::from_str(&fixture.documented("settings.json")).expect("settings");
    let turns = vec![
        vec![client.call(Way::Hook, &allowed, json!({}))],
        vec![client.call(Way::Stdio, &format!("{allowed} tool"), json!({}))],
    ];
    let model = Model::saying(turns.clone()).await;
    configure(&fixture, settings.clone());
    // With everything else allowed.
    let begun = client.begin(&fixture, &model).args(&["--yolo"]);
    fixture.start(&begun).ended().await;
    assert_eq!(fixture.marks(), ["allowed tool"], "{:?}", model.results());
    assert!(!model.knows("run_shell_command") && model.knows("mcp_countersign_exec"));

    settings["mcpServers"]["countersign"]["trust"] = json!(false);
    let model = Model::saying(turns).await;
    configure(&fixture, settings);
    fixture.start(&client.begin(&fixture, &model)).ended().await;
    assert_eq!(fixture.marks(), ["allowed tool"], "{:?}", model.results());
}
