//! What is shown of the settings is what is in force: in the API, the probes, the events and on the command line.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Finished, Members, TestServer, eventually};

const SETTINGS: &str = "/v1/settings";
const SECRET: &str = "a-secret-of-the-bridge-0123456789abcdef";
const LATER_SECRET: &str = "another-secret-of-the-bridge-0123456789";
/// What every server of a test has in its file.
const BASE: &str = "[exec]\nlogin_path = false\n";

fn item(settings: &Value, path: &str) -> Value {
    let items = settings.list("items");
    let found = items.iter().find(|item| item["path"] == path);
    found.unwrap_or_else(|| panic!("{path} is missing")).clone()
}

async fn setting(server: &TestServer, path: &str) -> Value {
    item(&server.operator().read(SETTINGS).await, path)
}

async fn ready(server: &TestServer) -> Value {
    server.anonymous().read("/readyz").await
}

fn document(done: &Finished) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// The keys that the server's events named, in order.
async fn restart_needed_events(server: &TestServer) -> Vec<Value> {
    let page = server
        .operator()
        .read("/v1/events?types=config.restart-needed")
        .await;
    let events = page.list("items");
    events.iter().map(|event| event["paths"].clone()).collect()
}

#[tokio::test]
async fn every_setting_is_listed_with_its_value_and_its_origin() {
    let server = TestServer::full()
        .toml("[output]\ntail_chars = 7\n")
        .env("COUNTERSIGN_LIMITS__MAX_QUEUED", "9")
        .start()
        .await;
    for (path, value, source) in [
        ("http.listen", json!("127.0.0.1:0"), "--listen"),
        ("output.tail_chars", json!(7), "countersign.toml"),
        ("limits.max_queued", json!(9), "COUNTERSIGN_LIMITS__MAX_QUEUED"),
        ("limits.max_running", json!(1024), "default"),
        ("tools.exec.security", json!("full"), "openclaw.json"),
        ("tools.exec.timeoutSec", json!(1800), "default"),
    ] {
        let found = setting(&server, path).await;
        assert_eq!(
            (&found["value"], &found["source"], found.get("waiting")),
            (&value, &json!(source), None),
            "{path}"
        );
    }
    assert_eq!(ready(&server).await["restartNeeded"], false);
    // A test of the command line holds that page against the keys.
    let documented = include_str!("../../docs/defaults.md").lines();
    let documented = documented.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<&str> = documented.filter(|word| word.contains('.')).collect();
    let settings = server.operator().read("/v1/settings").await;
    let listed = settings.list("items").iter().map(|setting| setting.text("path"));
    assert_eq!(listed.collect::<BTreeSet<_>>(), documented);
}

#[tokio::test]
async fn a_changed_setting_waits_for_a_restart_and_everything_says_so() {
    let mut server = TestServer::full()
        .toml("[output]\ntail_chars = 7\n")
        .start()
        .await;
    let mut stream = server
        .operator()
        .events("?types=config.restart-needed", None)
        .await;
    server.edit_toml(&format!(
        "{BASE}[output]\ntail_chars = 8\n[limits]\nmax_queued = 5\n"
    ));
    let waits = setting(&server, "output.tail_chars").await;
    assert_has!(waits, { "value": 7, "waiting": 8, "waitsFor": "restart" });
    // What needs no restart is in force, and waits for nothing.
    let live = setting(&server, "limits.max_queued").await;
    assert_eq!((&live["value"], live.get("waiting")), (&json!(5), None));
    let event = stream.next_of("config.restart-needed").await;
    assert_eq!(event.data["paths"], json!(["output.tail_chars"]));

    let probe = ready(&server).await;
    assert_has!(probe, { "restartNeeded": true, "degraded": false });
    assert!(!probe.to_string().contains("tail_chars"), "{probe}");
    let check = server.cli(&["doctor", "--ready"]).await;
    assert_eq!((check.code, check.stdout.as_str()), (Some(0), "ready\n"));
    assert!(check.stderr.contains("waits for a restart"), "{check:?}");

    for command in [&["doctor", "--json"][..], &["security", "audit", "--json"]] {
        let report = document(&server.cli(command).await);
        assert_eq!(report["from"], "server", "{command:?}");
        let findings = report.list("findings");
        let finding = findings
            .iter()
            .find(|finding| finding["id"] == "setting-waits-for-restart")
            .unwrap_or_else(|| panic!("{command:?}: {report:#}"));
        assert_eq!(finding["key"], "output.tail_chars");
        let explanation = finding.text("explanation");
        assert!(
            explanation.contains('7') && explanation.contains('8'),
            "{explanation}"
        );
    }
    let shown = server.cli(&["doctor"]).await.stdout;
    assert!(
        shown.contains("\nsettings in force, from the server\n"),
        "{shown}"
    );
    assert!(shown.contains("after a restart: 8"), "{shown}");
    let one = server.cli(&["config", "get", "output.tail_chars"]).await;
    assert_eq!(
        (one.stdout.as_str(), one.stderr.as_str()),
        ("7\n", "after a restart: 8\n")
    );

    assert_eq!(server.stop().await, Some(0));
    server.start().await;
    let after = setting(&server, "output.tail_chars").await;
    assert_eq!((&after["value"], after.get("waiting")), (&json!(8), None));
    assert_eq!(ready(&server).await["restartNeeded"], false);
}

#[tokio::test]
async fn fewer_runs_at_once_are_in_effect_at_once_and_more_after_a_restart() {
    let mut server = TestServer::full()
        .toml("[limits]\nmax_running = 8\n")
        .start()
        .await;
    server.edit_toml(&format!("{BASE}[limits]\nmax_running = 1\n"));
    let lowered = setting(&server, "limits.max_running").await;
    assert_eq!((&lowered["value"], lowered.get("waiting")), (&json!(1), None));
    let agent = server.agent();
    let long = agent
        .accepted(json!({ "argv": ["/bin/sleep", "600"], "background": true }))
        .await;
    let call = tokio::spawn({
        let agent = agent.clone();
        async move { agent.exec(json!({ "argv": ["/bin/true"] })).await }
    });
    let metrics = || async { server.operator().get("/metrics").await.text() };
    let waits = |text: &String| text.contains("countersign_runs_queued 1\n");
    eventually("waiting for the one place", metrics, waits).await;

    // The runner was told at its start how many it may have.
    server.edit_toml(&format!("{BASE}[limits]\nmax_running = 9\n"));
    let raised = setting(&server, "limits.max_running").await;
    assert_has!(raised, { "value": 1, "waiting": 9, "waitsFor": "restart" });
    agent.cancel(long.text("runId")).await;
    assert_eq!(call.await.unwrap().expect(200)["exitCode"], 0);
    assert_eq!(server.stop().await, Some(0));
    server.start().await;
    let after = setting(&server, "limits.max_running").await;
    assert_eq!((&after["value"], after.get("waiting")), (&json!(9), None));
}

#[tokio::test]
async fn the_same_settings_that_wait_are_told_of_once() {
    let server = TestServer::full().start().await;
    let one = format!("{BASE}[output]\ntail_chars = 8\n");
    for text in [
        one.clone(),
        // Something else changes.
        format!("{one}[limits]\nmax_queued = 5\n"),
        // Another value, another key, nothing, and the first again.
        format!("{BASE}[output]\ntail_chars = 9\n"),
        format!("{BASE}[output]\ntail_chars = 9\nmax_chars = 9\n"),
        BASE.to_owned(),
        one,
    ] {
        server.edit_toml(&text);
        ready(&server).await;
    }
    // A break in the file is told of after what came before it.
    let mut stream = server.operator().events("?types=config.", Some(0)).await;
    server.edit_toml("[output]\ntail_chars = \"x\"\n");
    ready(&server).await;
    stream.next_of("config.rejected").await;
    let tail = json!(["output.tail_chars"]);
    let both = json!(["output.max_chars", "output.tail_chars"]);
    assert_eq!(
        restart_needed_events(&server).await,
        [tail.clone(), tail.clone(), both, tail]
    );
    // What is broken brings nothing; what waited before goes on waiting.
    assert_eq!(setting(&server, "output.tail_chars").await["waiting"], 8);
}

#[tokio::test]
async fn a_demand_that_is_taken_out_of_the_file_waits_for_another_owner() {
    let server = TestServer::allowlist_only().second_owner().start().await;
    server.edit_toml(&format!("{BASE}[approvals]\nwidening = \"ask\"\n"));
    let tightened = setting(&server, "approvals.widening").await;
    assert_eq!(
        (&tightened["value"], tightened.get("waiting")),
        (&json!("ask"), None)
    );
    server.edit_toml(BASE);
    let loosened = setting(&server, "approvals.widening").await;
    assert_has!(loosened, { "value": "ask", "waiting": "apply", "waitsFor": "acceptance" });
    assert_eq!(ready(&server).await["restartNeeded"], false);

    // A wider policy waits for another owner, and is shown as such.
    server.edit_config(r#"{ tools: { exec: { host: "gateway", security: "full", ask: "off" } } }"#);
    let held = setting(&server, "tools.exec.security").await;
    assert_has!(held, { "value": "allowlist", "waiting": "full", "waitsFor": "acceptance" });
    let shown = server
        .cli(&["config", "get", "tools.exec.security", "--json"])
        .await;
    assert_eq!(
        document(&shown),
        json!({ "path": "tools.exec.security", "value": "allowlist", "source": "openclaw.json",
            "default": "deny", "waiting": "full", "waitsFor": "acceptance", "from": "server" })
    );
}

#[tokio::test]
async fn a_secret_is_set_or_unset_and_never_shown() {
    let server = TestServer::full()
        .toml(&format!("[bridge]\ntoken = \"{SECRET}\"\n"))
        .start()
        .await;
    assert_eq!(setting(&server, "bridge.token").await["value"], "(secret)");
    server.edit_toml(&format!("{BASE}[bridge]\ntoken = \"{LATER_SECRET}\"\n"));
    assert_eq!(setting(&server, "bridge.token").await["waiting"], true);
    let mut said = vec![
        server.operator().get(SETTINGS).await.text(),
        server.anonymous().get("/readyz").await.text(),
        server.operator().get("/v1/events").await.text(),
    ];
    for command in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["security", "audit", "--json"],
        &["config", "list"],
        &["config", "get", "bridge.token", "--json"],
    ] {
        let done = server.cli(command).await;
        said.push(format!("{}{}", done.stdout, done.stderr));
    }
    said.push(server.log());
    for text in said {
        assert!(!text.contains(SECRET) && !text.contains(LATER_SECRET), "{text}");
    }
}

#[tokio::test]
async fn a_token_of_an_agent_sees_no_settings() {
    let server = TestServer::full().start().await;
    let bound = server.bound_token(&["read"], "main").await;
    bound.get(SETTINGS).await.problem(403, "forbidden");
}

#[tokio::test]
async fn the_command_line_says_whether_a_server_or_the_files_say_it() {
    let mut server = TestServer::full()
        .toml("[output]\ntail_chars = 7\n")
        .argument("--insecure-bind")
        .start()
        .await;
    let flag = server.cli(&["config", "get", "http.insecure_bind"]).await;
    assert_eq!((flag.stdout.as_str(), flag.stderr.as_str()), ("true\n", ""));
    let list = document(&server.cli(&["config", "list", "--json"]).await);
    assert_eq!(list["from"], "server");
    assert_eq!(item(&list, "http.listen")["source"], "--listen");
    let group = server.cli(&["config", "get", "output"]).await;
    assert_eq!(group.stdout.matches("output.").count(), 5, "{group:?}");

    assert_eq!(server.stop().await, Some(0));
    let flag = server.cli(&["config", "get", "http.insecure_bind"]).await;
    assert_eq!(flag.stdout, "false\n");
    assert!(flag.stderr.starts_with("from files: no server runs"), "{flag:?}");
    let list = document(&server.cli(&["config", "list", "--json"]).await);
    assert_eq!(list["from"], "files");
    assert_eq!(item(&list, "output.tail_chars")["source"], "countersign.toml");
    for command in [&["doctor"][..], &["security", "audit"]] {
        let report = server.cli(command).await;
        assert!(
            report.stdout.contains("\nsettings from files: no server runs"),
            "{report:?}"
        );
    }
    assert_has!(document(&server.cli(&["doctor", "--json"]).await), { "from": "files" });
    let none = server.cli(&["config", "get", "http"]).await;
    assert!(none.stdout.contains("http.listen"), "{none:?}");
    let set = server.cli(&["config", "set", "http.listen", "x"]).await;
    assert!(set.stderr.contains("a setting of countersign.toml"), "{set:?}");
    // The files here say nothing of a server that is named and does not answer.
    let named = server
        .cli(&["config", "list", "--url", "http://127.0.0.1:9", "--token", "x"])
        .await;
    assert_eq!(named.code, Some(69), "{named:?}");
}

#[tokio::test]
async fn an_audit_judges_the_running_server_and_not_its_file() {
    let server = TestServer::full()
        .without_listen()
        .argument("--listen")
        .argument("0.0.0.0:0")
        .argument("--insecure-bind")
        .start()
        .await;
    let report = document(&server.cli(&["security", "audit", "--json"]).await);
    let findings = report.list("findings");
    assert!(
        findings
            .iter()
            .any(|finding| finding["id"] == "listens-to-everybody"),
        "{report:#}"
    );
}
