//! What an agent types into a program that the allowlist covers (`docs/process.md`, "Input").

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Answer, Members, ServerBuilder, TestServer, eventually, needed, program, write_file};

/// A program that runs a command which is typed into it.
struct Typed {
    program: &'static str,
    command: &'static str,
    on_terminal: bool,
    keys: &'static str,
}

const fn on_terminal(program: &'static str, command: &'static str, keys: &'static str) -> Typed {
    Typed {
        program,
        command,
        on_terminal: true,
        keys,
    }
}

const fn on_pipe(program: &'static str, command: &'static str, keys: &'static str) -> Typed {
    Typed {
        program,
        command,
        on_terminal: false,
        keys,
    }
}

const TYPED: &[Typed] = &[
    on_terminal("git", "git log -p", "!touch marker\n"),
    on_terminal("git", "git commit --allow-empty", ":!touch marker\r"),
    on_terminal("man", "man ./page.1", "!touch marker\n"),
    // No key of it shows the help, which would push a refusal out of sight.
    on_terminal("less", "less long.txt", "!>marker\n"),
    on_terminal("vim", "vim -N note.txt", ":!touch marker\r"),
    on_pipe("vim", "vim -N", ":!touch marker\n\n"),
    on_pipe("ed", "ed", "!touch marker\n"),
    on_pipe("sqlite3", "sqlite3 :memory:", ".shell touch marker\n"),
];

/// A directory in which every command of [`TYPED`] has something to do.
fn workdir(server: &TestServer) -> PathBuf {
    let work = server.scratch().git_checkout();
    let config =
        std::fs::read_to_string(work.join(".git/config")).expect("the configuration of the checkout");
    let identity = "[user]\n\tname = Tester\n\temail = tester@example.test\n";
    write_file(&work.join(".git/config"), config + identity);
    write_file(&work.join("long.txt"), "line\n".repeat(200));
    write_file(
        &work.join("page.1"),
        ".TH PAGE 1\n.SH NAME\npage\n".to_owned() + &".PP\nword\n".repeat(200),
    );
    work
}

/// A server whose allowlist has every program of [`TYPED`], each entry with these members too.
async fn server_with(members: Value) -> TestServer {
    let entries: Vec<Value> = ["git", "man", "less", "vim", "ed", "sqlite3", "cat"]
        .iter()
        .map(|name| {
            let mut entry = json!({ "pattern": format!("/**/{name}") });
            for (name, value) in members.as_object().expect("members") {
                entry[name] = value.clone();
            }
            entry
        })
        .chain(
            [
                json!({ "pattern": "/**/vim*" }),
                json!({ "pattern": "/**/less*" }),
            ]
            .map(|mut entry| {
                for (name, value) in members.as_object().expect("members") {
                    entry[name] = value.clone();
                }
                entry
            }),
        )
        .collect();
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": entries } } });
    TestServer::allowlist_only().document(&document).start().await
}

async fn start(server: &TestServer, typed: &Typed) -> Answer {
    let call = json!({
        "command": typed.command, "workdir": workdir(server), "background": true, "pty": typed.on_terminal,
    });
    server.agent().exec(call).await
}

async fn write(server: &TestServer, session: &str, data: &str) -> Answer {
    let body = json!({ "action": "write", "sessionId": session, "data": data });
    server.agent().post("/v1/process", body).await
}

/// Waits until a session shows something, or has ended.
async fn shown(server: &TestServer, session: &str) -> Value {
    let api = server.agent();
    eventually(
        "a screen",
        || async { api.read(&format!("/v1/process/{session}")).await },
        |session| session["outputBytes"] != 0 || session["status"] != "running",
    )
    .await
}

/// Types what a row says, and returns whether it ran.
async fn runs_what_is_typed(server: &TestServer, session: &str, typed: &Typed) -> bool {
    let marker = server.scratch().join("checkout/marker");
    if typed.on_terminal {
        shown(server, session).await;
    }
    write(server, session, typed.keys).await.expect(200);
    let api = server.agent();
    let (ran, _) = eventually(
        "the typed command, or the end",
        || async {
            let shown = api.read(&format!("/v1/process/{session}")).await;
            let seen = (marker.exists(), shown["status"] != "running");
            if typed.on_terminal && seen == (false, false) {
                // A pager throws away what was typed before it took the terminal.
                drop(write(server, session, typed.keys).await);
            }
            seen
        },
        |(ran, has_ended)| *ran || *has_ended,
    )
    .await;
    let end = json!({ "action": "kill", "sessionId": session });
    api.post("/v1/process", end).await;
    ran
}

fn is_here(typed: &Typed) -> bool {
    let is_here = program(typed.program).is_some();
    needed(is_here, &format!("{} is not installed", typed.program));
    is_here
}

#[tokio::test]
async fn nothing_can_be_typed_into_a_program_whose_entry_does_not_include_it() {
    for typed in TYPED.iter().filter(|typed| is_here(typed)) {
        let server = server_with(json!({})).await;
        let answer = start(&server, typed).await;
        if typed.on_terminal {
            let denied = answer.problem(403, "exec-denied");
            assert_eq!(denied["reason"], "allowlist-miss", "{denied:#}");
            let hint = denied["hint"].as_str().unwrap_or_default();
            assert!(hint.contains("allowlist add --input"), "{denied:#}");
            continue;
        }
        let running = answer.expect(202);
        assert_eq!(running["inputClosed"], true, "{running:#}");
        let session = running.text("sessionId");
        let refused = write(&server, session, typed.keys).await;
        // It may have come to the end of its input by now.
        if refused.json()["code"] != "session-ended" {
            let refused = refused.problem(409, "input-closed");
            let hint = refused["hint"].as_str().unwrap_or_default();
            assert!(hint.contains("allowlist add --input"), "{refused:#}");
        }
        // Not every program leaves by itself at the end of its input.
        let end = json!({ "action": "kill", "sessionId": session });
        server.agent().post("/v1/process", end).await;
        let run = server.agent().finished(running.text("runId")).await;
        assert_eq!(run["input"], "withheld", "{run:#}");
        assert!(
            !server.scratch().join("checkout/marker").exists(),
            "{}",
            typed.command
        );
    }
}

#[tokio::test]
async fn what_is_typed_runs_where_every_entry_includes_it_and_nothing_guards_the_terminal() {
    for typed in TYPED.iter().filter(|typed| is_here(typed)) {
        let server = server_with(json!({ "input": true, "unguarded": true })).await;
        let running = start(&server, typed).await.expect(202);
        assert_eq!(running.get("inputClosed"), None, "{running:#}");
        let session = running.text("sessionId");
        assert!(
            runs_what_is_typed(&server, session, typed).await,
            "{}",
            typed.command
        );
    }
}

#[tokio::test]
async fn a_guarded_terminal_has_no_pager_and_no_editor_to_type_a_command_into() {
    let guarded = TYPED
        .iter()
        .filter(|typed| ["git", "man", "less"].contains(&typed.program));
    for typed in guarded.filter(|typed| is_here(typed)) {
        let server = server_with(json!({ "input": true })).await;
        let running = start(&server, typed).await.expect(202);
        let session = running.text("sessionId");
        shown(&server, session).await;
        // Only the pager itself stays, and refuses. It throws away what was typed before it took the terminal.
        let api = server.agent();
        let typing = json!({ "action": "write", "sessionId": session, "data": typed.keys });
        let session = eventually(
            "the end, or a refusal",
            || async {
                drop(api.post("/v1/process", typing.clone()).await);
                api.read(&format!("/v1/process/{session}")).await
            },
            |session| session["status"] != "running" || session["tail"].to_string().contains("not available"),
        )
        .await;
        let end = json!({ "action": "kill", "sessionId": session["sessionId"] });
        api.post("/v1/process", end).await;
        let run = api.finished(running.text("runId")).await;
        assert_eq!(run["input"], "guarded-terminal", "{run:#}");
        assert!(
            !server.scratch().join("checkout/marker").exists(),
            "{}",
            typed.command
        );
    }
}

fn codes(card: &Value) -> Vec<&str> {
    let warnings = card["display"].list("warnings");
    warnings
        .iter()
        .filter_map(|warning| warning["code"].as_str())
        .collect()
}

/// The question that a call is asked as.
async fn card(server: &TestServer, pending: &Value) -> Value {
    let id = pending.text("approvalId");
    server.operator().approval(id).await
}

#[tokio::test]
async fn a_person_is_shown_that_the_input_stays_open_and_cannot_allow_that_for_good() {
    let server = TestServer::asking().start().await;
    let work = server.scratch().dir("work");
    for (members, input) in [
        (json!({ "pty": true, "background": true }), "terminal"),
        (json!({ "pty": true }), "terminal"),
        (json!({ "background": true }), "pipe"),
    ] {
        let mut call = json!({ "command": "cat", "workdir": work });
        for (name, value) in members.as_object().expect("members") {
            call[name] = value.clone();
        }
        let pending = server.asked(call).await;
        let card = card(&server, &pending).await;
        assert_eq!(card["input"], input, "{card:#}");
        assert_eq!(card["allowedDecisions"], json!(["allow-once", "deny"]));
        assert_eq!(card["proposedPatterns"], json!([]));
        assert_eq!(codes(&card), ["input-open"]);
        let id = pending.text("approvalId");
        let shown = server.cli(&["approvals", "show", id]).await;
        shown.says(input);
        shown.says("unseen by you");
        server
            .operator()
            .decide(id, "allow-always")
            .await
            .problem(422, "decision-not-allowed");
    }
    // The same call with its input closed is another question.
    let pending = server.asked(json!({ "command": "cat", "workdir": work })).await;
    let closed = card(&server, &pending).await;
    assert_eq!((closed.get("input"), codes(&closed)), (None, vec![]));
    assert_has!(closed, { "allowedDecisions": ["allow-once", "allow-always", "deny"] });
    server.answered(&pending, "allow-always").await;
    server.ran(json!({ "command": "cat", "workdir": work })).await;
    server
        .asked(json!({ "command": "cat", "workdir": work, "pty": true }))
        .await;
}

#[tokio::test]
async fn an_answer_covers_the_input_that_its_card_showed() {
    let server = TestServer::asking().start().await;
    let pending = server
        .asked(json!({ "command": "cat", "background": true }))
        .await;
    let id = pending.text("approvalId");
    server.operator().decided(id, "allow-once").await;
    let api = server.agent();
    let run_id = pending.text("runId");
    let run = eventually("running", || api.run(run_id), |run| run["status"] == "running").await;
    assert_eq!(run["input"], "pipe", "{run:#}");
    let session = run.text("sessionId");
    let body = json!({ "action": "write", "sessionId": session, "data": "typed\n", "eof": true });
    api.posted("/v1/process", body).await;
    assert_eq!(api.finished(run_id).await["tail"], "typed\n");
}

#[tokio::test]
async fn what_runs_because_nobody_answered_has_the_input_that_the_allowlist_includes() {
    let entries = json!([{ "pattern": "/**/cat" }, { "pattern": "/**/tac", "input": true }]);
    let document = json!({
        "version": 1, "defaults": { "askFallback": "allowlist" }, "agents": { "main": { "allowlist": entries } },
    });
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "always" });
    let server = ServerBuilder::new(&exec).document(&document).start().await;
    let api = server.agent();
    let closed = api
        .accepted(json!({ "command": "cat", "background": true }))
        .await;
    assert_eq!(closed["inputClosed"], true, "{closed:#}");
    assert_eq!(api.finished(closed.text("runId")).await["input"], "withheld");
    let open = api
        .accepted(json!({ "command": "tac", "background": true }))
        .await;
    let session = open.text("sessionId");
    let body = json!({ "action": "write", "sessionId": session, "data": "typed\n", "eof": true });
    api.posted("/v1/process", body).await;
    let run = api.finished(open.text("runId")).await;
    assert_has!(run, { "input": "pipe", "tail": "typed\n" });
}

#[tokio::test]
async fn deny_rules_hold_a_terminal_for_what_runs_the_keys_it_gets() {
    let document = json!({ "version": 1, "agents": { "main": { "denylist": [{ "pattern": "/**/rm" }] } } });
    let server = TestServer::full().document(&document).start().await;
    let work = server.scratch().dir("work");
    write_file(&work.join("long.txt"), "line\n".repeat(200));
    let call = |command: &str, terminal: bool| json!({ "command": command, "workdir": work, "background": true, "pty": terminal });
    for (command, terminal) in [("less long.txt", true), ("sh", false), ("vi long.txt", false)] {
        server.denied(call(command, terminal)).await;
    }
    for (command, terminal) in [("cat", true), ("cat", false), ("less long.txt", false)] {
        let running = server.accepted(call(command, terminal)).await;
        let end = json!({ "action": "kill", "sessionId": running["sessionId"] });
        server.agent().post("/v1/process", end).await;
    }
}

#[tokio::test]
async fn an_entry_says_over_the_api_and_the_command_line_what_it_includes() {
    let mut server = TestServer::allowlist_only().start().await;
    let add = ["allowlist", "add", "/**/cat"];
    let with_input = [&add[..], &["--input"]].concat();
    for arguments in [&add[..], &with_input] {
        let added = server.cli(arguments).await;
        assert_eq!(added.code, Some(0), "{}", added.stderr);
    }
    let entries = server.operator().read("/v1/agents/main/allowlist").await;
    let said: Vec<&Value> = entries
        .list("items")
        .iter()
        .map(|entry| &entry["input"])
        .collect();
    assert_eq!(said, [&Value::Null, &json!(true)], "{entries:#}");
    let written = server.document_on_disk();
    assert_has!(written, { "agents/main/allowlist/1/input": true });
    let call = json!({ "command": "cat", "background": true });
    let explained = server.agent().explain(call.clone()).await;
    assert_has!(explained, { "outcome": "run", "input": "pipe" });
    let id = entries["items"][1].text("id").to_owned();
    let path = format!("/v1/agents/main/allowlist/{id}");
    server
        .operator()
        .patch(&path, json!({ "input": false }))
        .await
        .expect(200);
    let explained = server.agent().explain(call).await;
    assert_eq!(explained["input"], "withheld", "{explained:#}");
    let alone = json!({ "pattern": "/**/tac", "unguarded": true });
    let made = server.operator().post("/v1/agents/main/allowlist", alone).await;
    assert_ne!(
        made.expect(201)["unguarded"],
        true,
        "without input it lifts nothing"
    );
    // An edit that gives an entry what it did not include allows more.
    server.ran(json!({ "command": "cat" })).await;
    let mut edited = server.document_on_disk();
    edited["agents"]["main"]["allowlist"][0]["input"] = json!(true);
    server.edit_document(&edited.to_string());
    let refused = server
        .agent()
        .exec(json!({ "command": "cat", "pty": true }))
        .await;
    refused.problem(403, "exec-denied");
    server.stop().await;
}
