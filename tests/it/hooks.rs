//! Hooks of other agents: what is allowed is replaced, everything else stops the command.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Finished, Invocation, Members, TestServer, assert_says, eventually, lines, write_file};

/// A `PreToolUse` event as Claude Code sends it.
fn event(server: &TestServer, tool: &str, input: &Value) -> Value {
    json!({
        "session_id": "8f1c", "transcript_path": "/home/u/.claude/projects/p/8f1c.jsonl",
        "cwd": server.scratch().path(), "permission_mode": "default", "hook_event_name": "PreToolUse",
        "tool_name": tool, "tool_input": input, "tool_use_id": "toolu_01ABC",
    })
}

fn bash(server: &TestServer, command: &str) -> Value {
    event(
        server,
        "Bash",
        &json!({"command": command, "description": "d", "timeout": 5000}),
    )
}

async fn hook(server: &TestServer, arguments: &[&str], input: &Value) -> Finished {
    let line = ["hook"].iter().chain(arguments).copied().collect::<Vec<_>>();
    TestServer::finish(server.invocation(&line).input(input.to_string())).await
}

/// The hook of Claude Code, which goes on asking meanwhile.
fn asking(server: &TestServer, input: &Value) -> JoinHandle<Finished> {
    let invocation = server.invocation(&["hook", "claude-code"]);
    tokio::spawn(TestServer::finish(invocation.input(input.to_string())))
}

#[track_caller]
fn decision(done: &Finished) -> Value {
    assert_eq!(done.code, Some(0), "{done:?}");
    let output: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!(output["hookSpecificOutput"]["hookEventName"], "PreToolUse");
    output["hookSpecificOutput"].clone()
}

/// Runs what the agent would run: the replaced text, by a real shell, with the agent's environment.
async fn run_replaced(server: &TestServer, decision: &Value) -> Finished {
    assert_eq!(decision["permissionDecision"], "allow", "{decision}");
    let text = decision["updatedInput"].text("command");
    // Elsewhere: what this shell did itself would show here.
    let shell = Invocation::new("sh")
        .args(&["-c", text])
        .cwd(&server.scratch().dir("agent"))
        .env("HOME", server.scratch().join("home"))
        .env("OPENCLAW_STATE_DIR", server.state());
    TestServer::finish(shell).await
}

#[tokio::test]
async fn an_allowed_command_is_replaced_and_runs_once_with_a_record() {
    let server = TestServer::full().start().await;
    let file = server.scratch().join("lines");
    let command = format!("echo ran >> {}; pwd; exit 3", file.display());
    let decided = decision(&hook(&server, &["claude-code"], &bash(&server, &command)).await);
    assert_eq!(lines(&file), Vec::<String>::new(), "judging runs nothing");
    assert_has!(decided["updatedInput"], {"description": "d", "timeout": 5000});
    let done = run_replaced(&server, &decided).await;
    assert_eq!(done.code, Some(3), "{done:?}");
    assert_eq!(done.stdout.trim_end(), server.scratch().path().to_string_lossy());
    let runs = server.agent().read("/v1/runs").await;
    assert_has!(runs["items"][0], { "justification": "d" });
    // The same replacement once more joins the run that was.
    run_replaced(&server, &decided).await;
    assert_eq!(lines(&file), ["ran"]);
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(1));
    assert_has!(runs["items"][0], {"command": command, "sessionKey": "claude-code:8f1c", "status": "failed"});
}

#[tokio::test]
async fn hostile_text_reaches_the_server_exactly_as_the_agent_wrote_it() {
    let server = TestServer::asking().start().await;
    for text in [
        "it's",
        "'; touch pwned; '",
        "\"$(touch pwned)\" `touch pwned` $HOME",
        "a\nb\\\n\tc",
        "--help",
        "-c x",
        "\u{1b}[2J \u{202e} é 👩‍👩‍👧 \\ ! # ~ * ? [a] {b,c} %s",
        "''''''",
        "\\'\\''",
    ] {
        let command = format!("echo {text}");
        let input = bash(&server, &command);
        let asked = asking(&server, &input);
        let pending = server.operator().waiting().await;
        assert_eq!(pending[0]["command"], command);
        let id = pending[0].text("id");
        server.operator().decided(id, "allow-once").await;
        let decided = decision(&asked.await.expect("the hook's end"));
        let run = server.agent().finished(pending[0].text("runId")).await;
        let done = run_replaced(&server, &decided).await;
        // The bytes as they were: the text of a run has control characters taken out.
        let path = format!("/v1/runs/{}/output?stream=stdout", run.text("runId"));
        let written = server.agent().get_bytes(&path, None).await.text();
        assert_eq!(
            (done.code.map(i64::from), done.stdout),
            (run["exitCode"].as_i64(), written),
            "{text:?}"
        );
        assert!(!server.scratch().join("agent/pwned").exists(), "{text:?}");
    }
    // One run for each: the replacement never was a call of its own.
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(9));
}

#[tokio::test]
async fn a_person_is_waited_for_and_their_no_is_passed_on() {
    let server = TestServer::asking().start().await;
    let asked = asking(&server, &bash(&server, "id"));
    let pending = server.operator().waiting().await;
    let body = json!({"decision": "deny", "reason": "not today"});
    let path = format!("/v1/approvals/{}/decision", pending[0].text("id"));
    server.operator().posted(&path, body).await;
    let decided = decision(&asked.await.expect("the hook's end"));
    assert_eq!(decided["permissionDecision"], "deny");
    let reason = decided.text("permissionDecisionReason");
    assert!(reason.contains("user-denied"), "{reason}");
    assert!(decided.get("updatedInput").is_none());
}

#[tokio::test]
async fn nobody_answers_in_time_means_no_and_the_question_is_withdrawn() {
    let server = TestServer::asking().start().await;
    let decided = decision(
        &hook(
            &server,
            &["claude-code", "--timeout", "500ms"],
            &bash(&server, "id"),
        )
        .await,
    );
    assert_eq!(decided["permissionDecision"], "deny", "{decided}");
    assert_eq!(server.operator().pending().await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_agent_that_ends_its_hook_withdraws_the_question() {
    let server = TestServer::asking().start().await;
    let mut child = server.invocation(&["hook", "claude-code"]).start_interactive();
    let mut stdin = child.stdin.take().expect("stdin is piped");
    std::io::Write::write_all(&mut stdin, bash(&server, "id").to_string().as_bytes()).expect("writing");
    drop(stdin);
    server.operator().waiting().await;
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    let status = tokio::task::spawn_blocking(move || child.wait().expect("its end"))
        .await
        .expect("its end");
    assert_eq!(status.code(), Some(2));
    assert_eq!(server.operator().pending().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_question_ends_with_a_hook_that_is_killed() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::HUP] {
        let mut child = server
            .invocation(&["hook", "codex", "--mode", "rewrite"])
            .start_interactive();
        let mut stdin = child.stdin.take().expect("stdin is piped");
        std::io::Write::write_all(&mut stdin, bash(&server, "id").to_string().as_bytes()).expect("writing");
        drop(stdin);
        let asked = operator.waiting().await;
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).expect("a signal");
        tokio::task::spawn_blocking(move || child.wait().expect("its end"))
            .await
            .expect("its end");
        eventually("withdrawn", || operator.pending(), Vec::is_empty).await;
        let late = operator.decide(asked[0].text("id"), "allow-once").await;
        late.problem(410, "approval-cancelled");
    }
}

#[tokio::test]
async fn a_question_ends_with_an_agent_that_leaves_its_hook_behind() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let mut child = server.invocation(&["hook", "gemini"]).start_interactive();
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let mut input = bash(&server, "id");
    input["hook_event_name"] = json!("BeforeTool");
    input["tool_name"] = json!("run_shell_command");
    std::io::Write::write_all(&mut stdin, input.to_string().as_bytes()).expect("writing");
    drop(stdin);
    operator.waiting().await;
    // The agent is gone; its hook lives.
    drop(child.stdout.take());
    eventually("withdrawn", || operator.pending(), Vec::is_empty).await;
    let status = tokio::task::spawn_blocking(move || child.wait().expect("its end"));
    assert_eq!(status.await.expect("its end").code(), Some(2));
}

/// Settings of Claude Code with these rules.
fn settings(file: &Path, rules: &Value) {
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
    write_file(file, json!({ "permissions": rules }).to_string());
}

#[tokio::test]
async fn what_the_clients_own_rules_deny_is_denied_wherever_they_are() {
    let server = TestServer::full().start().await;
    let project = server.scratch().dir("project");
    let (home, config) = (
        server.scratch().dir("claude-home"),
        server.scratch().dir("claude-config"),
    );
    let marker = project.join("marker");
    let input = |command: &str| {
        let mut event = bash(&server, command);
        event["cwd"] = json!(project.join("sub"));
        event
    };
    std::fs::create_dir(project.join("sub")).expect("a directory");
    std::fs::create_dir(project.join(".git")).expect("a directory");
    let ask = |command: &str, variables: &[(&str, &Path)]| {
        let invocation = server
            .invocation(&["hook", "claude-code"])
            .env("HOME", &home)
            .input(input(command).to_string());
        let invocation = variables.iter().fold(invocation, |invocation, (name, value)| {
            invocation.env(name, value)
        });
        async move { decision(&TestServer::finish(invocation).await) }
    };
    let touch = format!("cd {} && touch {}", project.display(), marker.display());
    assert_eq!(ask(&touch, &[]).await["permissionDecision"], "allow");
    let rules = json!({"deny": ["Read(x)", "Bash(touch:*)"], "allow": ["Bash"]});
    let (project_dir, config_dir) = (("CLAUDE_PROJECT_DIR", &*project), ("CLAUDE_CONFIG_DIR", &*config));
    for (file, variables) in [
        (home.join(".claude/settings.json"), &[][..]),
        (config.join("settings.json"), &[config_dir]),
        (project.join(".claude/settings.json"), &[]),
        (project.join(".claude/settings.local.json"), &[]),
        (project.join("sub/.claude/settings.json"), &[]),
        (project.join(".claude/settings.json"), &[project_dir]),
    ] {
        settings(&file, &rules);
        let denied = ask(&touch, variables).await;
        assert_eq!(denied["permissionDecision"], "deny", "{}", file.display());
        let reason = denied.text("permissionDecisionReason");
        assert_says(reason, "Bash(touch:*)");
        assert_says(reason, &file.display().to_string());
        assert!(denied.get("updatedInput").is_none());
        assert_eq!(ask("ls", variables).await["permissionDecision"], "allow");
        std::fs::remove_file(&file).expect("the file goes");
    }
    assert!(!marker.exists());
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"], json!([]), "what the client forbids is no run");
}

#[tokio::test]
async fn what_the_clients_own_rules_have_asked_is_denied_with_what_to_do() {
    let server = TestServer::full().start().await;
    let home = server.scratch().join("home");
    let file = home.join(".claude/settings.json");
    let ask = |command: &str| {
        let invocation = server
            .invocation(&["hook", "claude-code"])
            .env("HOME", &home)
            .input(bash(&server, command).to_string());
        async move { decision(&TestServer::finish(invocation).await) }
    };
    settings(
        &file,
        &json!({"ask": ["Bash(git push *)"], "deny": ["Bash(git * main)"]}),
    );
    for (command, rule) in [
        ("git push origin x", "Bash(git push *)"),
        ("ls; git push", "Bash(git push *)"),
        ("git push origin main", "Bash(git * main)"),
    ] {
        let denied = ask(command).await;
        assert_eq!(denied["permissionDecision"], "deny", "{command}");
        let reason = denied.text("permissionDecisionReason");
        assert!(reason.contains(rule), "{command}: {reason}");
    }
    assert_eq!(ask("git pull").await["permissionDecision"], "allow");
    for text in [
        "{",
        "[]",
        "{\"permissions\": []}",
        "{\"permissions\": {\"deny\": \"Bash\"}}",
        "{\"permissions\": {\"deny\": [1]}}",
        "{\"permissions\": {\"ask\": [\"Bash(ls\"]}}",
    ] {
        write_file(&file, text);
        let denied = ask("git pull").await;
        assert_eq!(denied["permissionDecision"], "deny", "{text}");
        let reason = denied.text("permissionDecisionReason");
        assert!(reason.contains(&file.display().to_string()), "{text}: {reason}");
    }
    for text in [
        "",
        "{}",
        "{\"permissions\": {\"deny\": [\"Read(x)\"], \"ask\": null}}",
    ] {
        write_file(&file, text);
        assert_eq!(ask("git pull").await["permissionDecision"], "allow", "{text}");
    }
    std::fs::remove_file(&file).expect("the file goes");
    std::fs::create_dir(&file).expect("a directory");
    assert_eq!(ask("git pull").await["permissionDecision"], "deny");
}

#[tokio::test]
async fn gemini_gets_a_replacement_for_its_shell_tool_alone() {
    let server = TestServer::full().start().await;
    let event = |tool: &str, input: &Value| {
        json!({
            "session_id": "g1", "transcript_path": "/t", "cwd": server.scratch().path(),
            "hook_event_name": "BeforeTool", "timestamp": "2026-11-24T00:00:00.000Z",
            "tool_name": tool, "tool_input": input,
        })
    };
    let sub = server.scratch().dir("sub");
    let input = json!({"command": "pwd; exit 3", "description": "d", "dir_path": "sub"});
    let done = hook(&server, &["gemini"], &event("run_shell_command", &input)).await;
    let answer: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!((done.code, &answer["decision"]), (Some(0), &json!("allow")));
    let replaced =
        json!({"permissionDecision": "allow", "updatedInput": answer["hookSpecificOutput"]["tool_input"]});
    let ran = run_replaced(&server, &replaced).await;
    assert_eq!(
        (ran.code, ran.stdout.trim_end()),
        (Some(3), &*sub.to_string_lossy())
    );
    let other = hook(
        &server,
        &["gemini"],
        &event("write_file", &json!({"file_path": "x"})),
    )
    .await;
    assert_eq!((other.code, other.stdout.as_str()), (Some(0), ""));
    let asked = event("run_shell_command", &json!({"command": "ls", "dir_path": "none"}));
    let done = hook(&server, &["gemini"], &asked).await;
    let answer: Value = serde_json::from_str(&done.stdout).expect("an answer");
    assert_eq!((done.code, &answer["decision"]), (Some(0), &json!("deny")));
    answer.says("reason", "workdir-unavailable");
}

#[tokio::test]
async fn a_denial_has_a_record_and_says_why() {
    let server = TestServer::allowlist_only().start().await;
    let decided = decision(&hook(&server, &["claude-code"], &bash(&server, "id")).await);
    assert_eq!(decided["permissionDecision"], "deny");
    let reason = decided.text("permissionDecisionReason");
    assert!(reason.contains("allowlist-miss"), "{reason}");
    let runs = server.operator().read("/v1/runs?status=denied").await;
    assert_eq!(runs["items"][0]["command"], "id");
}

#[tokio::test]
async fn tools_that_run_no_commands_pass_untouched_even_without_a_server() {
    let server = TestServer::full().prepare();
    for tool in ["Edit", "Write", "Read", "WebFetch", "mcp__countersign__exec"] {
        for format in ["claude-code", "codex"] {
            let input = event(&server, tool, &json!({"file_path": "/x", "content": "rm -rf /"}));
            let done = hook(&server, &[format], &input).await;
            assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{tool}");
        }
    }
}

#[tokio::test]
async fn without_a_server_the_answer_is_no_unless_told_otherwise() {
    let server = TestServer::full().prepare();
    let input = bash(&server, "id");
    let decided = decision(&hook(&server, &["claude-code"], &input).await);
    assert_eq!(decided["permissionDecision"], "deny", "{decided}");
    let ask = ["claude-code", "--if-unavailable", "ask"];
    assert_has!(decision(&hook(&server, &ask, &input).await), { "permissionDecision": "ask" });
    let pass = hook(&server, &["claude-code", "--if-unavailable", "pass"], &input).await;
    assert_eq!((pass.code, pass.stdout.as_str()), (Some(0), ""));
    let codex = ["codex", "--mode", "rewrite", "--if-unavailable", "ask"];
    assert_has!(decision(&hook(&server, &codex, &input).await), { "permissionDecision": "deny" });
}

#[tokio::test]
async fn whatever_goes_wrong_stops_the_command() {
    let server = TestServer::full().start().await;
    let large = "x".repeat(4 * 1024 * 1024 + 1);
    for (arguments, input) in [
        (&["claude-code"][..], ""),
        (&["claude-code"], "{"),
        (&["claude-code"], "{\"tool_name\":\"Bash\"}"),
        (&["claude-code"], large.as_str()),
        (&["codex"], "[]"),
        (&["json"], "{\"comand\":\"id\"}"),
        (&["gemini"], "{}"),
        (&["claude-code", "--bogus"], "{}"),
        (&["claude-code", "--timeout", "9"], "{}"),
        (&[], "{}"),
    ] {
        let line = ["hook"].iter().chain(arguments).copied().collect::<Vec<_>>();
        let done = TestServer::finish(server.invocation(&line).input(input)).await;
        assert_eq!(done.code, Some(2), "{arguments:?} {done:?}");
        assert_eq!(done.stdout, "", "{arguments:?}");
        assert!(!done.stderr.is_empty(), "{arguments:?}");
    }
    let wrong_event =
        json!({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "id"}});
    assert_eq!(hook(&server, &["claude-code"], &wrong_event).await.code, Some(2));
}

#[tokio::test]
async fn a_token_never_stands_in_the_replacement() {
    let server = TestServer::full().start().await;
    let token = server.gateway_token();
    let with_flag = TestServer::finish(
        server
            .invocation(&["hook", "claude-code", "--token", &token])
            .input(bash(&server, "id").to_string()),
    )
    .await;
    assert_eq!(with_flag.code, Some(2), "{with_flag:?}");
    assert!(!with_flag.stderr.contains(&token));
    let with_variable = TestServer::finish(
        server
            .invocation(&["hook", "claude-code", "--url", server.agent().base()])
            .env("COUNTERSIGN_TOKEN", &token)
            .input(bash(&server, "id").to_string()),
    )
    .await;
    let decided = decision(&with_variable);
    let text = decided["updatedInput"].text("command");
    assert!(text.contains(server.agent().base()), "{text}");
    for secret in [token, server.operator_token()] {
        assert!(!with_variable.stdout.contains(&secret));
    }
}

#[tokio::test]
async fn codex_is_pointed_to_the_mcp_tool_or_gets_a_replacement() {
    let server = TestServer::full().start().await;
    let input = bash(&server, "echo hi");
    let redirected = decision(&hook(&server, &["codex"], &input).await);
    assert_eq!(redirected["permissionDecision"], "deny");
    let reason = redirected.text("permissionDecisionReason");
    assert!(reason.contains("MCP"), "{reason}");
    let replaced = decision(&hook(&server, &["codex", "--mode", "rewrite"], &input).await);
    assert_eq!(run_replaced(&server, &replaced).await.stdout, "hi\n");
    let unified = event(&server, "unified_exec", &json!({"command": "id"}));
    let denied = decision(&hook(&server, &["codex", "--mode", "rewrite"], &unified).await);
    assert_eq!(denied["permissionDecision"], "deny");
}

#[tokio::test]
async fn the_generic_form_gives_arguments_and_text_that_do_the_same() {
    let server = TestServer::full().start().await;
    let question = json!({"argv": ["printf", "%s", "it's $HOME"], "agentId": "a", "sessionKey": "agent:a:x",
        "workdir": server.scratch().path()});
    let done = hook(&server, &["json"], &question).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let answer: Value = serde_json::from_str(&done.stdout).expect("an answer");
    assert_eq!(answer["decision"], "replace");
    let argv: Vec<&str> = answer.list("argv").iter().filter_map(Value::as_str).collect();
    let direct = Invocation::new(argv[0])
        .args(&argv[1..])
        .env("HOME", server.scratch().join("home"))
        .env("OPENCLAW_STATE_DIR", server.state());
    let direct = TestServer::finish(direct).await;
    assert_eq!(direct.stdout, "it's $HOME", "{direct:?}");
    let as_text = json!({"permissionDecision": "allow", "updatedInput": {"command": answer["command"]}});
    assert_eq!(run_replaced(&server, &as_text).await.stdout, "it's $HOME");
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(1));

    let refused = hook(
        &server,
        &["json"],
        &json!({"command": "id", "workdir": "/no/such/place"}),
    )
    .await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let answer: Value = serde_json::from_str(&refused.stdout).expect("an answer");
    assert_has!(answer, {"decision": "deny", "code": "workdir-unavailable"});
}

/// Allows the question, and runs what the hook then has the agent run.
async fn is_allowed(server: &TestServer, id: &str, asked: JoinHandle<Finished>) {
    server.operator().decided(id, "allow-once").await;
    let decided = decision(
        &tokio::time::timeout(Duration::from_mins(1), asked)
            .await
            .expect("in time")
            .expect("the hook's end"),
    );
    assert_eq!(run_replaced(server, &decided).await.stdout, "hi\n");
}

/// The question is written; nobody has heard of it yet.
#[tokio::test]
async fn a_server_that_dies_before_it_answers_does_not_lose_the_question() {
    let mut server = TestServer::asking().prepare();
    server
        .start_with(&[("COUNTERSIGN_TEST_KILL", "engine.asked:1")])
        .await;
    let asked = asking(&server, &bash(&server, "echo hi"));
    server.wait_killed().await;
    server.start().await;
    let pending = server.operator().waiting().await;
    assert_eq!(pending.len(), 1, "{pending:?}");
    is_allowed(&server, pending[0].text("id"), asked).await;
}

#[tokio::test]
async fn a_restart_of_the_server_does_not_lose_the_question() {
    let mut server = TestServer::asking().start().await;
    let asked = asking(&server, &bash(&server, "echo hi"));
    let pending = server.operator().waiting().await;
    server.crash_and_restart().await;
    is_allowed(&server, pending[0].text("id"), asked).await;
}
