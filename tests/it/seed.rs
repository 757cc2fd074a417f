//! What the two source documents ask for in so many words, as far as no other test shows it (`docs/coverage.md`).

use std::fs;

use serde_json::{Value, json};

use crate::{
    nodes::{ScriptedNode, paired},
    support::{Answer, Members, Scratch, TestServer, eventually, only, write_file, write_file_mode},
};

const MAIN: &str = "agent:main:main";

/// The plan's own document, which names the place of its socket, three defaults, and one agent with one entry.
fn document_of_the_plan() -> Value {
    json!({
        "version": 1,
        "socket": { "path": "~/.openclaw/exec-approvals.sock", "token": "base64-opaque-token" },
        "defaults": { "security": "deny", "ask": "on-miss", "askFallback": "deny" },
        "agents": { "agent-id-1": {
            "security": "allowlist",
            "ask": "on-miss",
            "allowlist": [{
                "pattern": "~/Projects/**/bin/rg",
                "lastUsedAt": 0,
                "lastUsedCommand": "rg -n TODO",
                "lastResolvedPath": "/Users/user/Projects/.../bin/rg",
            }],
        } },
    })
}

#[tokio::test]
async fn the_document_of_the_plan_governs_as_it_stands() {
    let server = TestServer::full().document(&document_of_the_plan()).start().await;
    let home = server.scratch().join("home");
    let covered = home.join("Projects/one/tools/bin/rg");
    let elsewhere = home.join("bin/rg");
    for program in [&covered, &elsewhere] {
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        write_file_mode(program, "#!/bin/sh\necho found\n", 0o700);
    }
    let agent = server.agent();
    let run = |program: &str, agent_id: &str| {
        let body = json!({ "argv": [program, "-n", "FIXED"], "agentId": agent_id });
        agent.exec(body)
    };
    let covered = covered.to_str().unwrap();
    assert_eq!(run(covered, "agent-id-1").await.expect(200)["stdout"], "found\n");
    // A miss is to be asked about, and nobody is there.
    let missed = run(elsewhere.to_str().unwrap(), "agent-id-1").await;
    assert_eq!(missed.problem(403, "exec-denied")["reason"], "no-approver");
    let other = run(covered, "main").await;
    assert_eq!(other.problem(403, "exec-denied")["reason"], "security-deny");
    let noted = || std::future::ready(server.document_on_disk());
    let document = eventually("the use is noted", noted, |document| {
        document["agents"]["agent-id-1"]["allowlist"][0]["lastUsedAt"].as_i64() > Some(0)
    })
    .await;
    let entry = &document["agents"]["agent-id-1"]["allowlist"][0];
    assert_eq!(
        only(entry, &["pattern", "lastUsedCommand", "lastResolvedPath"]),
        json!({ "pattern": "~/Projects/**/bin/rg", "lastUsedCommand": format!("{covered} -n FIXED"),
            "lastResolvedPath": covered })
    );
    for member in ["version", "socket", "defaults"] {
        assert_eq!(document[member], document_of_the_plan()[member], "{member}");
    }
}

#[tokio::test]
async fn the_line_of_the_reference_sets_a_session_and_writes_no_file() {
    let config = json!({
        "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } },
        "commands": { "allowFrom": { "telegram": ["id:42"] } },
    });
    let server = TestServer::full().config(&config).start().await;
    let (_, relay) = server
        .token_with(json!({ "name": "bot", "scopes": ["relay"] }))
        .await;
    let say = |typed: &str| {
        let body = json!({ "text": typed, "sender": { "provider": "telegram", "id": "42" } });
        let relay = relay.clone();
        async move {
            let path = format!("/v1/sessions/{MAIN}/commands");
            relay.posted(&path, body).await
        }
    };
    let settings = server.state().join("openclaw.json");
    let before = fs::read(&settings).unwrap();
    let set = say("/exec host=auto security=allowlist ask=on-miss node=mac-1").await;
    assert_eq!(set["handled"], true, "{set}");
    let path = format!("/v1/sessions/{MAIN}/overrides");
    let overrides = server.operator().read(&path).await;
    assert_has!(overrides, { "host": "auto", "security": "allowlist", "ask": "on-miss", "node": "mac-1" });
    let shown = say("/exec").await.text("reply").to_owned();
    let values = "(session), security=allowlist (session), ask=on-miss (session), node=mac-1 (session)";
    assert!(shown.contains(values), "{shown}");
    assert_eq!(fs::read(&settings).unwrap(), before);
    assert!(!server.document_path().exists());
}

#[tokio::test]
async fn a_notice_after_zero_milliseconds_is_none() {
    let exec =
        json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "approvalRunningNoticeMs": 0 });
    let server = TestServer::asking().exec(&exec).start().await;
    let agent = server.agent();
    let gate = server.scratch().join("gate");
    let command = format!(
        "while [ ! -e {} ]; do sleep 0.02; done; echo through",
        gate.display()
    );
    let asked = agent.accepted(json!({ "command": command })).await;
    let run = asked.text("runId").to_owned();
    server
        .operator()
        .decided(asked.text("approvalId"), "allow-once")
        .await;
    eventually("running", || agent.run(&run), |run| run["status"] == "running").await;
    write_file(&gate, "");
    agent.finished(&run).await;
    let path = format!("/v1/sessions/{MAIN}/system-events");
    let told = || async {
        let events = agent.read(&path).await["items"].clone();
        let events = events.as_array().cloned().expect("items");
        events
            .iter()
            .map(|event| event.text("text").to_owned())
            .collect::<Vec<_>>()
    };
    let is_over = |texts: &Vec<String>| texts.iter().any(|text| text.starts_with("Exec finished"));
    assert_eq!(
        eventually("told of the end", told, is_over).await,
        [
            format!("Exec started (gateway, id={run})"),
            format!("Exec finished (gateway, id={run}, code=0)\nthrough"),
        ]
    );
}

#[tokio::test]
async fn the_mark_of_the_tool_is_on_a_terminal_too() {
    let server = TestServer::full().start().await;
    let call = json!({ "command": "test -t 1 && echo $OPENCLAW_SHELL", "pty": true });
    assert_eq!(server.ran(call).await["stdout"], "exec\r\n");
}

#[tokio::test]
async fn the_mark_of_the_tool_is_on_a_terminal_in_the_sandbox_too() {
    let server = TestServer::full()
        .exec(&json!({ "host": "sandbox" }))
        .toml("[sandbox]\nbackend = \"builtin\"\n")
        .start()
        .await;
    let policy = server.operator().read("/v1/policy/effective").await;
    or_skip!(
        policy["sandbox"]["active"] == true,
        &format!("no sandbox here: {}", policy["sandbox"]["detail"])
    );
    let call = json!({ "command": "test -t 1 && echo $OPENCLAW_SHELL", "pty": true });
    let answer = server.ran(call).await;
    assert_has!(answer, { "host": "sandbox", "stdout": "exec\r\n" });
}

#[tokio::test]
async fn the_time_limit_of_the_settings_holds_unless_the_call_has_its_own() {
    let exec = json!({ "host": "gateway", "security": "full", "ask": "off", "timeoutSec": 1 });
    let server = TestServer::full().exec(&exec).start().await;
    let agent = server.agent();
    // Waited for, in the background from the beginning, and put there while it runs.
    for how in [
        json!({ "yieldMs": 120_000 }),
        json!({ "background": true }),
        json!({ "yieldMs": 10 }),
    ] {
        let mut body = json!({ "command": "sleep 300" });
        for (name, value) in how.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = agent.exec(body).await.json();
        let run = agent.finished(answer.text("runId")).await;
        assert_eq!(
            only(&run, &["status", "reason", "timedOut", "timeoutMs"]),
            json!({ "status": "failed", "reason": "timeout", "timedOut": true, "timeoutMs": 1000 }),
            "{how}"
        );
    }
    for (timeout, limit) in [(json!(0), Value::Null), (json!(30), json!(30_000))] {
        let body = json!({ "argv": ["/bin/true"], "timeout": timeout });
        let run = agent.ran(body).await.text("runId").to_owned();
        assert_eq!(agent.run(&run).await["timeoutMs"], limit, "{timeout}");
    }
}

/// Lets a node run whatever it is asked to.
fn runs_everything(node: &ScriptedNode) {
    node.answers(|command, params| match command {
        "system.execApprovals.get" => {
            Ok(json!({ "path": "/x", "exists": true, "hash": "h", "file": { "version": 1 } }))
        }
        "system.which" => Ok(json!({ "bins": { "echo": "/bin/echo" } })),
        "system.run.prepare" => Ok(json!({ "plan": {
            "argv": params["command"], "cwd": "/", "commandText": "x", "agentId": params["agentId"],
            "sessionKey": params["sessionKey"],
        } })),
        "system.run" => Ok(json!({
            "exitCode": 0, "timedOut": false, "success": true, "stdout": "ran\n", "stderr": "", "error": null,
        })),
        _ => Err(("INVALID_REQUEST", "not here")),
    });
}

#[tokio::test]
async fn an_agent_is_bound_to_a_node_by_its_place_in_the_list() {
    const COMMANDS: &[&str] = &[
        "system.execApprovals.get",
        "system.run",
        "system.run.prepare",
        "system.which",
    ];
    let config = json!({
        "tools": { "exec": { "host": "node", "security": "full", "ask": "off" } },
        "agents": { "list": [{ "id": "main" }, { "id": "other" }] },
    });
    let server = TestServer::full().config(&config).start().await;
    let mill = paired(&server, "mill", COMMANDS).await;
    let attic = paired(&server, "attic", COMMANDS).await;
    runs_everything(&mill);
    runs_everything(&attic);
    let run = |agent: &str, node: Option<&str>| {
        let mut body = json!({ "argv": ["echo", "hi"], "agentId": agent });
        if let Some(node) = node {
            body["node"] = json!(node);
        }
        let api = server.agent();
        async move { api.exec(body).await }
    };
    run("main", None).await.problem(409, "node-ambiguous");
    let key = "agents.list[0].tools.exec.node";
    let set = server.cli(&["config", "set", key, "attic"]).await;
    assert_eq!(set.code, Some(0), "{set:?}");
    assert_eq!(server.cli(&["config", "get", key]).await.stdout, "attic\n");
    let bound = |answer: Answer| answer.expect(200)["nodeId"].clone();
    assert_eq!(bound(run("main", None).await), attic.id());
    assert_eq!(bound(run("main", Some("attic")).await), attic.id());
    run("main", Some("mill")).await.problem(400, "config-conflict");
    // The next one of the list is as free as before.
    run("other", None).await.problem(409, "node-ambiguous");
    assert_eq!(bound(run("other", Some("mill")).await), mill.id());
}

#[tokio::test]
async fn the_path_of_the_login_shell_comes_before_the_servers_own() {
    let exec =
        json!({ "host": "gateway", "security": "full", "ask": "off", "pathPrepend": ["/opt/of-settings"] });
    let mut server = TestServer::full().exec(&exec).without_toml().prepare();
    write_file(
        &server.scratch().join("home/.profile"),
        "PATH=/opt/of-login:$PATH\n",
    );
    server.start().await;
    let answer = server.agent().exec(json!({ "command": "echo $PATH" })).await;
    let answer = answer.expect(200);
    let directories: Vec<&str> = answer.text("stdout").trim().split(':').collect();
    assert_eq!(
        directories[..2],
        ["/opt/of-settings", "/opt/of-login"],
        "{answer}"
    );
    for fixed in ["/usr/local/bin", "/usr/bin", "/bin"] {
        assert!(directories.contains(&fixed), "{fixed} in {directories:?}");
    }
}

#[tokio::test]
async fn a_safe_bin_needs_a_trusted_directory_and_one_of_ours_a_profile() {
    let scratch = Scratch::new();
    let bin = scratch.dir("bin");
    for name in ["wc", "tac"] {
        fs::copy(format!("/usr/bin/{name}"), bin.join(name)).unwrap();
    }
    let trusted = json!({ "safeBinTrustedDirs": [bin] });
    let profiled = json!({ "safeBinTrustedDirs": [bin], "safeBinProfiles": {
        "tac": { "maxPositional": 0, "allowedValueFlags": ["-s"], "deniedFlags": ["-r"] },
    } });
    let file = "/etc/passwd";
    let rows: [(Value, &[(&str, bool)]); 3] = [
        // First in PATH is not trusted by that.
        (json!({}), &[("wc -c", false), ("tac", false)]),
        // Nothing is known of the arguments of the one that is not built in.
        (trusted, &[("wc -c", true), ("tac", false)]),
        (
            profiled,
            &[
                ("wc -c", true),
                ("tac", true),
                ("tac -s x", true),
                ("tac -r", false),
            ],
        ),
    ];
    for (more, commands) in rows {
        let mut exec = json!({ "host": "gateway", "security": "allowlist", "ask": "off",
            "safeBins": ["wc", "tac"], "pathPrepend": [bin] });
        for (name, value) in more.as_object().unwrap() {
            exec[name] = value.clone();
        }
        let config = json!({ "tools": { "exec": exec } });
        let server = TestServer::full().config(&config).start().await;
        for (command, runs) in commands {
            let status = if *runs { 200 } else { 403 };
            for (command, status) in [
                ((*command).to_owned(), status),
                // They read their input and no file.
                (format!("{command} {file}"), 403),
            ] {
                let answer = server.agent().exec(json!({ "command": command })).await;
                assert_eq!(answer.status, status, "{command} with {more}: {}", answer.text());
            }
        }
    }
}

#[tokio::test]
async fn inline_code_is_asked_about_each_time_where_the_settings_say_so() {
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [
        { "pattern": "/**/python3*", "argPattern": "." },
    ] } } });
    let call = json!({ "command": "python3 -c 'print(6 * 7)'" });
    for strict in [false, true] {
        let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "strictInlineEval": strict });
        let server = TestServer::asking().exec(&exec).document(&document).start().await;
        let agent = server.agent();
        if !strict {
            assert_eq!(agent.ran(call.clone()).await["stdout"], "42\n");
            continue;
        }
        for _ in 0..2 {
            let asked = agent.accepted(call.clone()).await;
            let approval = server.operator().pending().await.remove(0);
            assert_eq!(approval["allowedDecisions"], json!(["allow-once", "deny"]));
            server
                .operator()
                .decided(asked.text("approvalId"), "allow-once")
                .await;
            let run = agent.finished(asked.text("runId")).await;
            assert_eq!(run["stdout"], "42\n", "{run}");
        }
        let script = server.scratch().join("script.py");
        write_file(&script, "print('a script')\n");
        let of_file = json!({ "argv": ["python3", script] });
        assert_eq!(agent.ran(of_file).await["stdout"], "a script\n");
    }
}

/// What a terminal is sent, by the calls of the reference.
const KEYS: [(&str, &str, &[u8]); 5] = [
    ("send-keys", r#"{ "keys": ["Enter"] }"#, b"\r"),
    ("send-keys", r#"{ "keys": ["C-c"] }"#, b"\x03"),
    (
        "send-keys",
        r#"{ "keys": ["Up", "Up", "Enter"] }"#,
        b"\x1b[A\x1b[A\r",
    ),
    ("submit", "{}", b"\r"),
    (
        "paste",
        r#"{ "text": "line1\nline2\n" }"#,
        b"\x1b[200~line1\nline2\n\x1b[201~",
    ),
];

#[tokio::test]
async fn keys_submits_and_pastes_reach_a_terminal_as_the_reference_has_them() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let bytes = KEYS.map(|(_action, _members, bytes)| bytes).concat();
    let command = format!(
        "stty raw -echo; printf 'ready '; head -c {} | od -An -v -tx1",
        bytes.len()
    );
    let started = agent
        .accepted(json!({ "command": command, "pty": true, "background": true }))
        .await;
    let session = started.text("sessionId").to_owned();
    let path = format!("/v1/process/{session}");
    let shown = || async { agent.read(&path).await };
    eventually("ready", shown, |session| session["tail"] == "ready ").await;
    for (action, members, _bytes) in KEYS {
        let mut body: Value = serde_json::from_str(members).unwrap();
        body["action"] = json!(action);
        body["sessionId"] = json!(session);
        let answer = agent.posted("/v1/process", body).await;
        assert_eq!(answer["warnings"], json!([]), "{action} {members}");
    }
    eventually("ended", shown, |session| session["status"] != "running").await;
    let log = json!({ "action": "log", "sessionId": session });
    let log = agent.posted("/v1/process", log).await;
    let seen: Vec<&str> = log.text("text").split_whitespace().collect();
    let sent = bytes.iter().map(|byte| format!("{byte:02x}"));
    let expected: Vec<String> = std::iter::once("ready".to_owned()).chain(sent).collect();
    assert_eq!(seen, expected);
}
