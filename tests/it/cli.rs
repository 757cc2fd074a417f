//! The command line against a running server, and what needs none.

use serde_json::{Value, json};

use crate::support::{
    Finished, Invocation, Members, Scratch, TestServer, assert_says, countersign, eventually, released,
    run_program,
};

#[track_caller]
fn json_of(done: &Finished) -> Value {
    assert_eq!(done.code, Some(0), "{done:#?}");
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:#?}"))
}

#[tokio::test]
async fn exec_passes_output_and_exit_code_on() {
    let server = TestServer::full().start().await;
    let done = server
        .cli(&["exec", "-c", "echo out; echo err >&2; exit 3"])
        .await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(3), "out\n"), "{done:?}");
    assert!(done.stderr.contains("err\n"), "{done:?}");
    let done = server.cli(&["exec", "--", "/bin/echo", "a b", "--flag"]).await;
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "a b --flag\n"),
        "{done:?}"
    );
    let done = server.cli(&["exec", "-c", "kill -TERM $$"]).await;
    assert_eq!(done.code, Some(128 + 15), "{done:?}");
    let done = server
        .cli(&["exec", "--timeout", "1s", "--", "sleep", "300"])
        .await;
    assert_eq!(done.code, Some(124), "{done:?}");
    let done = server
        .cli(&["exec", "--env", "TZ=UTC", "--workdir", "/", "-c", "echo $TZ; pwd"])
        .await;
    assert_eq!(done.stdout, "UTC\n/\n", "{done:?}");
    let done = server
        .cli(&["exec", "--background", "--json", "-c", "exit 0"])
        .await;
    assert!(matches!(done.code, Some(0 | 75)), "{done:?}");
}

#[tokio::test]
async fn refusals_have_their_own_exit_codes_and_a_hint() {
    let server = TestServer::allowlist_only().start().await;
    let denied = server.cli(&["exec", "--", "/bin/date"]).await;
    assert_eq!(denied.code, Some(77), "{denied:?}");
    assert!(denied.stderr.starts_with("error[exec-denied]: "), "{denied:?}");
    assert_says(
        &denied.stderr,
        "\nto allow it: countersign allowlist add --agent main ",
    );
    let usage = server.cli(&["exec", "--no-such-flag"]).await;
    assert_eq!(usage.code, Some(64), "{usage:?}");
    let nothing = server.cli(&["exec"]).await;
    assert_eq!(nothing.code, Some(64), "{nothing:?}");
    let scratch = Scratch::new();
    let unavailable = run_program(
        &countersign()
            .args(&["exec", "--", "/bin/date"])
            .env("HOME", scratch.path())
            .env("OPENCLAW_STATE_DIR", scratch.path()),
    );
    assert_eq!(unavailable.code, Some(69), "{unavailable:?}");
}

#[tokio::test]
async fn an_error_is_one_line_whatever_was_typed() {
    let server = TestServer::allowlist_only().start().await;
    let odd = "a\n\u{1b}[31mx";
    let shown = r"\u{1B}[31mx";
    for words in [
        &["allowlist", "show", odd][..],
        &["allowlist", "remove", odd],
        &["denylist", "show", odd],
        &["apply-patch", odd],
        &["policy", "test", odd],
        &["config", "get", odd],
        &["audit", "verify", "--witness", odd],
        &["exec", "--workdir", odd, "--", "/bin/echo"],
        &["runs", "list", "--url", odd],
        &["node", "run", "--url", "ws://127.0.0.1:9", "--token-file", odd],
    ] {
        let done = server.cli(words).await;
        let said = done.stderr.trim_end();
        let (error, hint) = said.split_once('\n').unwrap_or((said, ""));
        assert!(
            error.starts_with("error[") && error.contains(shown) && !error.contains(char::is_control),
            "{words:?}: {done:?}"
        );
        let is_hint = hint.starts_with("hint: ") && !hint.contains(char::is_control);
        assert!(hint.is_empty() || is_hint, "{words:?}: {done:?}");
        assert_ne!(done.code, Some(0), "{words:?}: {done:?}");
    }
}

#[tokio::test]
async fn exec_waits_for_the_person_and_approvals_answer() {
    let server = TestServer::asking().start().await;
    let pending = server.cli(&["exec", "--no-wait", "--", "/bin/echo", "one"]).await;
    assert_eq!(pending.code, Some(75), "{pending:?}");

    let waiting = tokio::spawn(TestServer::finish(server.invocation(&[
        "exec",
        "--",
        "/bin/echo",
        "two",
    ])));
    let pending = eventually(
        "asked",
        || async { server.operator().pending().await },
        |all| all.len() == 2,
    )
    .await;
    let list = server.cli(&["approvals", "list", "--json"]).await;
    assert_eq!(json_of(&list).list("items").len(), 2);
    let two = pending
        .iter()
        .find(|approval| approval["command"] == "/bin/echo two")
        .unwrap();
    let slug = two.text("slug");
    let shown = server.cli(&["approvals", "show", slug, "--json"]).await;
    assert_eq!(json_of(&shown)["id"], two["id"]);
    let resolved = server
        .cli(&["approvals", "resolve", slug, "allow-once", "--reason", "fine"])
        .await;
    assert_eq!(resolved.code, Some(0), "{resolved:?}");
    let done = waiting.await.unwrap();
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "two\n"), "{done:?}");
    let approval = server.operator().approval(two.text("id")).await;
    assert_eq!(approval["reason"], "fine");
    let again = server.cli(&["approvals", "resolve", slug, "deny"]).await;
    assert_ne!(again.code, Some(0), "{again:?}");
    assert!(
        again.stderr.starts_with("error[approval-already-resolved]: "),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_command_cannot_use_the_operators_credentials() {
    let server = TestServer::asking().start().await;
    server.accepted(json!({ "argv": ["/bin/date"] })).await;
    let slug = server.operator().pending().await[0].text("slug").to_owned();
    let inside = server
        .invocation(&["approvals", "resolve", &slug, "allow-once"])
        .env("OPENCLAW_SHELL", "exec");
    let done = TestServer::finish(inside).await;
    assert_ne!(done.code, Some(0), "{done:?}");
    assert_eq!(server.operator().pending().await.len(), 1, "nothing was answered");
}

#[tokio::test]
async fn the_allowlist_is_edited_and_shown() {
    let server = TestServer::allowlist_only().start().await;
    assert_eq!(server.cli(&["exec", "--", "/bin/date"]).await.code, Some(77));
    let added = server
        .cli(&["allowlist", "add", "/bin/date", "--note", "the clock"])
        .await;
    assert_eq!(added.code, Some(0), "{added:?}");
    assert_eq!(server.cli(&["exec", "--", "/bin/date"]).await.code, Some(0));
    let list = json_of(&server.cli(&["allowlist", "list", "--json"]).await);
    assert_has!(list["items"][0], { "pattern": "/bin/date", "note": "the clock", "kind": "entry" });
    let id = list["items"][0].text("id");
    let shown = json_of(&server.cli(&["allowlist", "show", id, "--json"]).await);
    assert_eq!(shown["id"], id);
    let removed = server.cli(&["allowlist", "remove", id]).await;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert_eq!(server.cli(&["exec", "--", "/bin/date"]).await.code, Some(77));
    let grant = server
        .cli(&[
            "allowlist",
            "add",
            "/bin/date",
            "--max-uses",
            "1",
            "--expires",
            "2h",
        ])
        .await;
    assert_eq!(grant.code, Some(0), "{grant:?}");
    assert_eq!(server.cli(&["exec", "--", "/bin/date"]).await.code, Some(0));
    assert_eq!(
        server.cli(&["exec", "--", "/bin/date"]).await.code,
        Some(77),
        "used up"
    );
}

#[tokio::test]
async fn policy_runs_events_and_tokens_are_shown() {
    let server = TestServer::full().start().await;
    server.cli(&["exec", "--", "/bin/echo", "shown"]).await;
    let policy = json_of(&server.cli(&["policy", "show", "--json"]).await);
    assert_eq!(policy["security"]["value"], "full");
    let runs = json_of(&server.cli(&["runs", "list", "--json"]).await);
    let run = runs["items"][0].text("runId");
    let shown = json_of(&server.cli(&["runs", "show", run, "--json"]).await);
    assert_has!(shown, { "runId": run, "status": "completed" });
    let output = server.cli(&["runs", "output", run]).await;
    assert_eq!(output.stdout, "shown\n", "{output:?}");
    let events = server.cli(&["events", "--json"]).await;
    assert!(
        events.stdout.lines().any(|line| line.contains("exec.finished")),
        "{events:?}"
    );
    let created = json_of(
        &server
            .cli(&["token", "create", "reader", "--scope", "read", "--json"])
            .await,
    );
    assert!(
        created["secret"]
            .as_str()
            .is_some_and(|secret| secret.starts_with("cst_")),
        "{created}"
    );
    let id = created.text("id");
    assert_eq!(server.cli(&["token", "revoke", id]).await.code, Some(0));
    let tokens = json_of(&server.cli(&["token", "list", "--json"]).await);
    assert!(tokens.to_string().contains("revokedAtMs"), "{tokens}");
    let table = server.cli(&["runs", "list"]).await;
    assert!(
        table.stdout.contains("completed") && !table.stdout.contains('\u{1b}'),
        "{table:?}"
    );
}

#[tokio::test]
async fn runs_can_be_cancelled() {
    let server = TestServer::full().start().await;
    let started = server
        .accepted(json!({ "command": "sleep 300", "background": true }))
        .await;
    let run = started.text("runId");
    let done = server.cli(&["runs", "cancel", run]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(server.agent().finished(run).await["status"], "cancelled");
}

#[tokio::test]
async fn init_writes_a_working_installation_once() {
    let scratch = Scratch::new();
    let state = scratch.join("state");
    let init = |preset: &str| {
        run_program(
            &countersign()
                .args(&["init", "--preset", preset])
                .env("HOME", scratch.path())
                .env("OPENCLAW_STATE_DIR", &state),
        )
    };
    let done = init("cautious");
    assert_eq!(done.code, Some(0), "{done:?}");
    let document: Value =
        serde_json::from_slice(&std::fs::read(state.join("exec-approvals.json")).unwrap()).unwrap();
    assert_eq!(document["version"], 1, "{document}");
    let toml = std::fs::read_to_string(state.join("countersign/countersign.toml")).unwrap();
    assert!(toml.contains("always_reachable = true"), "{toml}");
    let config = std::fs::read(state.join("openclaw.json")).unwrap();
    let again = init("yolo");
    assert_eq!(
        std::fs::read(state.join("openclaw.json")).unwrap(),
        config,
        "never overwritten: {again:?}"
    );

    let without_preset = run_program(
        &countersign()
            .args(&["init"])
            .env("HOME", scratch.path())
            .env("OPENCLAW_STATE_DIR", scratch.join("other")),
    );
    assert_eq!(without_preset.code, Some(64), "{without_preset:?}");
    assert!(!scratch.join("other/openclaw.json").exists());
}

#[tokio::test]
async fn after_init_the_first_command_meets_a_person() {
    let scratch = Scratch::new();
    let state = scratch.join("state");
    let init = countersign()
        .args(&["init", "--preset", "cautious"])
        .env("HOME", scratch.path());
    assert_eq!(run_program(&init.env("OPENCLAW_STATE_DIR", &state)).code, Some(0));
    let mut server = TestServer::full()
        .without_config()
        .without_toml()
        .state_dir(&state)
        .prepare();
    server.start().await;
    let pending = server.cli(&["exec", "--no-wait", "--", "git", "status"]).await;
    assert_eq!(pending.code, Some(75), "{pending:?}");
    assert_eq!(server.operator().pending().await.len(), 1);
}

#[test]
fn demo_shows_the_main_job_and_ends_well() {
    let scratch = Scratch::new();
    let done = run_program(
        &Invocation::new(released())
            .args(&["demo", "--approve"])
            .env("HOME", scratch.path())
            // It is about a server of its own, whatever the caller has set.
            .env("COUNTERSIGN_URL", "http://127.0.0.1:1")
            .env("COUNTERSIGN_TOKEN", "x")
            .env("OPENCLAW_SHELL", "exec"),
    );
    assert_eq!(done.code, Some(0), "{done:#?}");
    assert!(
        !scratch.join(".openclaw").exists(),
        "the demo leaves nothing in the real place"
    );
}

#[tokio::test]
async fn doctor_tells_what_is_wrong_and_where_values_come_from() {
    let server = TestServer::full().document_text("{ not json").start().await;
    let sick = server.cli(&["doctor", "--json"]).await;
    assert_eq!(sick.code, Some(1), "{sick:?}");
    assert!(sick.stdout.contains("exec-approvals.json"), "{sick:?}");
    server.edit_document(r#"{ "version": 1, "agents": {} }"#);
    let values = server.cli(&["doctor", "--json"]).await;
    assert!(
        values.stdout.contains("exec.login_path"),
        "every value with its origin: {values:?}"
    );
}

#[tokio::test]
async fn the_contract_in_the_repository_is_the_one_served() {
    let server = TestServer::full().start().await;
    let printed = server.cli(&["openapi"]).await;
    let checked_in =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json")).unwrap();
    let stale =
        "openapi/openapi.json is stale: `cargo run --features test-hooks -- openapi > openapi/openapi.json`";
    assert!(printed.stdout == checked_in, "{stale}");
    let served = server.anonymous().read("/openapi.json").await;
    assert_eq!(served, serde_json::from_str::<Value>(&checked_in).unwrap());
}

#[tokio::test]
async fn two_terminals_adding_entries_lose_none() {
    let server = TestServer::allowlist_only().start().await;
    let add = |name: &'static str| {
        let invocations: Vec<_> = (0..20)
            .map(|n| server.invocation(&["allowlist", "add", &format!("/opt/{name}/{n}")]))
            .collect();
        tokio::task::spawn_blocking(move || {
            for invocation in invocations {
                let done = run_program(&invocation);
                assert_eq!(done.code, Some(0), "{done:?}");
            }
        })
    };
    let (one, two) = (add("one"), add("two"));
    one.await.unwrap();
    two.await.unwrap();
    let document = server.document_on_disk();
    let mut patterns: Vec<&str> = document["agents"]["main"]
        .list("allowlist")
        .iter()
        .map(|entry| entry.text("pattern"))
        .collect();
    patterns.sort_unstable();
    patterns.dedup();
    assert_eq!(patterns.len(), 40);
}

#[tokio::test]
async fn a_stopped_server_leaves_no_address_behind() {
    let mut server = TestServer::full().start().await;
    let address = server.state().join("countersign/server.json");
    let told: Value = serde_json::from_slice(&std::fs::read(&address).unwrap()).unwrap();
    assert_has!(told, {
        "url": server.operator().base(), "pid": server.pid(), "version": env!("CARGO_PKG_VERSION"),
    });
    assert_eq!(server.stop().await, Some(0));
    assert!(!address.exists());
}
