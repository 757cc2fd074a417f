//! What the command line says: whether a change is in force, which exit code a wrong word gets, times and labels, what a stop
//! did, and the words of lists.

use serde_json::{Value, json};

use crate::support::{Finished, Members, TestServer, assert_says, soon, write_file};

#[track_caller]
fn document(done: &Finished) -> Value {
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// A server where one agent may run anything that openclaw.json lets it, and a command that is still running.
async fn with_a_running_command() -> (TestServer, Value) {
    let server = TestServer::asking()
        .agents(&json!({
            "main": { "allowlist": [{ "pattern": "/bin/sleep" }] },
            "build": { "security": "full", "ask": "off" },
        }))
        .start()
        .await;
    let run = server
        .agent()
        .exec(json!({ "argv": ["/bin/sleep", "600"], "background": true }))
        .await
        .json();
    (server, run)
}

#[tokio::test]
async fn a_change_of_the_configuration_is_in_force_or_held() {
    let (server, run) = with_a_running_command().await;
    let tighter = server.cli(&["config", "set", "tools.exec.ask", "always"]).await;
    assert_eq!(
        (tighter.code, tighter.stdout.as_str(), tighter.stderr.as_str()),
        (Some(0), "tools.exec.ask: changed, in force\n", "")
    );
    // What the operator does is in force, whatever a command that runs could have written: the server knows who did it.
    for value in ["on-miss", "always", "on-miss"] {
        let back = server.cli(&["config", "set", "tools.exec.ask", value]).await;
        assert_eq!(back.stdout, "tools.exec.ask: changed, in force\n", "{back:?}");
    }
    let history = server.cli(&["policy", "history"]).await;
    assert_eq!(history.stdout.matches("operator").count(), 4, "{history:?}");
    assert!(!history.stdout.contains("its file was edited"), "{history:?}");
    // An editor's change may be that of the command.
    server.edit_config(r#"{"tools": {"exec": {"host": "gateway", "security": "full", "ask": "on-miss"}}}"#);
    let again = server
        .cli(&["config", "set", "tools.exec.security", "full", "--json"])
        .await;
    assert_eq!(
        document(&again),
        json!({ "path": "tools.exec.security", "changed": false, "effect": "held" })
    );
    let shown = server
        .cli(&["config", "set", "tools.exec.security", "full"])
        .await;
    assert_eq!(
        shown.stdout,
        "tools.exec.security: already so, held, since it would allow more\n"
    );
    assert_says(&shown.stderr, "hint: countersign policy accept   (");
    let accepted = server.cli(&["policy", "accept"]).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let again = server
        .cli(&["config", "set", "tools.exec.security", "full", "--json"])
        .await;
    assert_has!(document(&again), { "changed": false, "effect": "in-force" });
    // One that takes a key away says the same.
    let gone = server
        .cli(&["config", "unset", "tools.exec.security", "--json"])
        .await;
    assert_has!(document(&gone), { "changed": true });
    let path = format!("/v1/runs/{}/cancel", run.text("runId"));
    server.operator().post(&path, json!({})).await.expect(200);
}

#[tokio::test]
async fn without_a_server_nothing_is_said_of_one() {
    let mut server = TestServer::asking().start().await;
    server.stop().await;
    let done = server.cli(&["config", "set", "tools.exec.ask", "always"]).await;
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "tools.exec.ask: changed\n"),
        "{done:?}"
    );
}

#[tokio::test]
async fn what_is_unique_is_named_by_what_people_call_it() {
    let server = TestServer::asking().start().await;
    for line in [
        "denylist add shutdown",
        "denylist add dd --agent build",
        "denylist add git --arg-pattern ^push --reason no-pushes",
        "denylist add git --arg-pattern ^fetch",
        "allowlist add /usr/bin/cal",
        "token create phone --scope read",
        "token create ci --scope read",
        "token create ci --scope approve",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(server.cli(&words).await.code, Some(0), "{line}");
    }
    for (line, done) in [
        ("denylist show shutdown", "every agent"),
        (
            "denylist rm shutdown",
            "(shutdown) from the deny rules of every agent",
        ),
        ("denylist rm dd", "(dd) from the deny rules of agent build"),
        ("allowlist rm /usr/bin/cal", "removed "),
        ("token rm phone", "revoked "),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = server.cli(&words).await;
        assert_eq!(said.code, Some(0), "{line}: {said:?}");
        said.says(done);
    }
    for (line, parts) in [
        (
            "denylist rm git",
            &[
                "git names several\n  ",
                "  git ^push (no-pushes)\n",
                "  git ^fetch\n",
            ][..],
        ),
        (
            "token rm ci",
            &["ci names several\n  ", "  ci: read\n", "  ci: approve\n"],
        ),
        ("denylist rm nothing", &["with the id or pattern nothing"]),
        ("token rm phone", &["there is no token phone"]),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = server.cli(&words).await;
        assert_eq!(said.code, Some(1), "{line}: {said:?}");
        for part in parts {
            said.complains(part);
        }
    }
    let problem = server.cli(&["token", "rm", "ci", "--json"]).await;
    let problem: Value = serde_json::from_str(&problem.stderr).expect("a problem");
    assert_eq!(problem.list("ids").len(), 2, "{problem}");
}

#[tokio::test]
async fn an_answer_is_given_below_approvals_too() {
    let server = TestServer::asking().start().await;
    for (verb, status) in [
        ("allow", "allow-once"),
        ("approve", "allow-once"),
        ("deny", "deny"),
    ] {
        let pending = server
            .asked(json!({ "argv": ["/bin/date"], "join": false }))
            .await;
        let done = server.cli(&["approvals", verb, pending.text("approvalId")]).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        done.says(format!("is answered: {status}"));
    }
    let help = server.cli(&["approvals", "--help"]).await;
    assert!(!help.stdout.contains("  allow "), "{help:?}");
    // Who waits is told both addresses.
    let waits = server.cli(&["exec", "--no-wait", "--", "/bin/date"]).await;
    assert_eq!(waits.code, Some(75), "{waits:?}");
    let link = waits
        .stderr
        .lines()
        .find(|line| line.starts_with("http"))
        .expect("a link");
    let status = waits
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("status: "))
        .expect("a status");
    assert!(link.contains("/a/") && status.contains("/v1/runs/"), "{waits:?}");
}

#[tokio::test]
async fn no_error_has_words_of_a_library() {
    let server = TestServer::asking().start().await;
    let place = server.scratch().path().join("file");
    write_file(&place, "");
    let below = place.join("below");
    let below = below.to_str().expect("UTF-8");
    for line in [
        &["man", "/proc/foo"][..],
        &["man", below],
        &["apply-patch", below],
        &["audit", "verify", "--witness", below],
        &["policy", "test", below],
        &["exec", "--workdir", below, "--", "/bin/date"],
        &["--state-dir", below, "status"],
    ] {
        let done = server.cli(line).await;
        assert_ne!(done.code, Some(0), "{line:?}: {done:?}");
        assert!(done.stderr.starts_with("error["), "{line:?}: {done:?}");
        assert!(!done.stderr.contains("os error"), "{line:?}: {done:?}");
    }
    let gateway = server.cli(&["check-gateway", "foo"]).await;
    assert_eq!(gateway.code, Some(64), "{gateway:?}");
    gateway.complains("hint: countersign check-gateway http://foo ");
}

#[tokio::test]
async fn a_wrong_word_is_a_wrong_call() {
    let server = TestServer::asking().start().await;
    for (line, hint) in [
        ("config set tools.exec.ask sometimes", ""),
        (
            "config set tools.exec.aks always",
            "hint: countersign config set tools.exec.ask always\n",
        ),
        (
            "config unset tools.exec.aks",
            "hint: countersign config unset tools.exec.ask\n",
        ),
        (
            "config get tools.exec.aks",
            "hint: countersign config get tools.exec.ask\n",
        ),
        ("config set log.level debug", ""),
        ("denylist add ./relative", ""),
        ("allowlist add ./relative", ""),
        ("token create x --scope exec,admin", ""),
        ("runs list --limit 0", "hint: countersign runs list --help\n"),
        ("events --limit 0", "hint: countersign events --help\n"),
        ("audit list --limit 0", "hint: countersign audit list --help\n"),
        (
            "approvals list --limit 0",
            "hint: countersign approvals list --help\n",
        ),
        (
            "policy history --limit 0",
            "hint: countersign policy history --help\n",
        ),
        (
            "runs list --since yesterday",
            "hint: countersign runs list --help\n",
        ),
        ("runs lst", "hint: countersign "),
        (
            "allowlist add /bin/ls --expires tomorrow",
            "expected how long from now (10m, 2h, 7d), a date such as 2026-11-23",
        ),
        (
            "policy backtest --since yesterday",
            "expected how long ago (30s, 10m, 2h, 7d), a date such as 2026-11-23",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let done = server.cli(&words).await;
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(64), ""),
            "{line}: {done:?}"
        );
        assert_says(&done.stderr, hint);
    }
    // What is wrong with a file is no fault of the call.
    server.edit_config("{ tools: { exec: { ask: 'sometimes' } } }");
    let done = server
        .cli(&["config", "set", "tools.exec.security", "deny"])
        .await;
    assert_eq!(done.code, Some(78), "{done:?}");
}

#[tokio::test]
async fn the_history_of_the_policy_is_in_sentences() {
    let server = TestServer::asking().start().await;
    server
        .operator()
        .made("/v1/agents/build/denylist", json!({ "pattern": "whoami" }))
        .await;
    let cautious = server.cli(&["policy", "preset", "cautious"]).await;
    assert_eq!(cautious.code, Some(0), "{cautious:?}");
    let preset = server.cli(&["policy", "preset", "deny-all"]).await;
    assert_says(
        &preset.stderr,
        "hint: countersign policy preset cautious   (undoes it)\n",
    );
    let shown = server.cli(&["policy", "history"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert!(lines[0].starts_with("SEQ"), "{shown:?}");
    assert!(
        lines[1].ends_with("operator  changed the policy by a preset"),
        "{shown:?}"
    );
    assert_says(&shown.stdout, " of build\n");
    assert!(!shown.stdout.contains('{'), "{shown:?}");
    let records = document(&server.cli(&["policy", "history", "--json"]).await);
    assert_eq!(records["items"][0]["action"], "policy.changed");
    let today = server
        .cli(&["policy", "history", "--since", "2020-01-31", "--json"])
        .await;
    assert_eq!(document(&today), records);
    let none = server
        .cli(&["policy", "history", "--until", "2020-01-31", "--json"])
        .await;
    assert_eq!(document(&none)["items"], json!([]));
}

#[tokio::test]
async fn a_stop_says_what_it_denied_and_killed() {
    let (server, _run) = with_a_running_command().await;
    for word in ["1", "2"] {
        server.asked(json!({ "argv": ["/bin/date", word] })).await;
    }
    let done = server.cli(&["stop", "--kill", "--reason", "keys leaked"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_says(&done.stdout, "denied 2 questions:\n");
    assert_says(&done.stdout, "  main: /bin/date 1\n");
    assert_says(&done.stdout, "killed 1 run:\n");
    assert_says(&done.stdout, "  main: /bin/sleep 600\n");
    assert_says(&done.stdout, "nothing runs\n");
    assert_says(&done.stderr, "hint: countersign resume --reason TEXT   (");
    // Nothing was denied by the second one.
    let again = server.cli(&["stop", "--reason", "once more"]).await;
    assert!(!again.stdout.contains("denied"), "{again:?}");
}

#[tokio::test]
async fn labels_are_words() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/sh", "-c", "exit 3"] })).await;
    let shown = server
        .cli(&["approvals", "show", pending.text("approvalId")])
        .await;
    assert_says(&shown.stdout, "\nif nobody answers  deny\n");
    let ended = server.answered(&pending, "allow-once").await;
    let run = server.cli(&["runs", "show", ended.text("runId")]).await;
    assert_says(&run.stdout, "\nexit code ");
    for line in shown.stdout.lines().skip(1).chain(run.stdout.lines()) {
        let label = line.split("  ").next().unwrap_or_default();
        assert!(!label.contains(char::is_uppercase), "{line}");
    }
}

#[tokio::test]
async fn a_sign_in_link_fits_on_a_line() {
    let server = TestServer::asking().start().await;
    let link = server.cli(&["login-link"]).await;
    assert_eq!(link.code, Some(0), "{link:?}");
    let columns = link.stdout.trim_end().chars().count();
    // With the longest port there is.
    let port = server.address().port().to_string();
    assert!(columns + "65535".len() - port.len() <= 80, "{link:?}");
}

#[tokio::test]
async fn tokens_of_old_links_are_left_out_and_counted() {
    let server = TestServer::asking().start().await;
    for _ in 0..3 {
        let link = server.cli(&["login-link", "--as", "ann"]).await;
        assert_eq!(link.code, Some(0), "{link:?}");
    }
    let gone = server
        .cli(&["token", "create", "gone", "--scope", "read", "--json"])
        .await;
    let gone = document(&gone).text("id").to_owned();
    server.cli(&["token", "revoke", &gone]).await;
    let named = |done: &Finished, name: &str| done.stdout.matches(&format!("  {name}  ")).count();
    let shown = server.cli(&["token", "list"]).await;
    assert_eq!((named(&shown, "ann"), named(&shown, "gone")), (1, 0), "{shown:?}");
    assert_says(&shown.stderr, "left out: 1 revoked or expired; 2 older of ");
    assert_says(&shown.stderr, "hint: countersign token list --all\n");
    let all = server.cli(&["token", "list", "--all"]).await;
    assert_eq!((named(&all, "ann"), named(&all, "gone")), (3, 1), "{all:?}");
    assert_eq!(all.stderr, "");
    let items = document(&server.cli(&["token", "list", "--json"]).await);
    assert_eq!(items.list("items").len(), 6, "{items}");
}

#[tokio::test]
async fn the_log_says_who_changed_what() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    operator
        .made("/v1/agents/*/denylist", json!({ "pattern": "whoami" }))
        .await;
    server.cli(&["policy", "preset", "deny-all"]).await;
    let hostile = "x\u{202e} actor.name=\"root\"";
    let (id, _api) = server
        .token_with(json!({ "name": hostile, "scopes": ["read"] }))
        .await;
    server.cli(&["token", "revoke", &id]).await;
    server.cli(&["login-link"]).await;
    let log = soon(
        "logged",
        || server.log(),
        |log| log.contains("a sign-in link was made") && log.contains("by a preset"),
    )
    .await;
    for line in [
        "operator added deny rule ",
        "operator changed the policy by a preset",
        "a token was made",
        "a token was revoked",
        "a sign-in link was made actor.name=\"operator\"",
    ] {
        assert_says(&log, line);
    }
    // A name cannot pass for another field.
    assert!(
        !log.contains('\u{202e}') && !log.contains(" actor.name=\"root\""),
        "{log}"
    );
    assert!(!log.contains("csl_") && !log.contains("cst_"), "{log}");
}

#[tokio::test]
async fn a_mute_is_told_as_a_mute() {
    let server = TestServer::asking().start().await;
    server
        .asked(json!({ "argv": ["/bin/date"], "agentId": "build" }))
        .await;
    let muted = server.cli(&["agents", "mute", "build", "--for", "30m"]).await;
    assert_eq!(muted.code, Some(0), "{muted:?}");
    // Muted, the agent waits no more, and only then is it let speak again.
    crate::support::eventually(
        "the end of the question",
        async || server.operator().pending().await,
        Vec::is_empty,
    )
    .await;
    server.cli(&["agents", "unmute", "build"]).await;
    let told = server.cli(&["events"]).await.stdout;
    assert_says(&told, " operator muted build\n");
    assert_says(&told, " operator unmuted build\n");
    // The rule says it once, and the denial does not say it again.
    let line = told
        .lines()
        .find(|line| line.contains("/bin/date"))
        .expect("a line");
    assert_says(line, " denied by a rule: ");
    assert_eq!(line.matches("the agent is muted until").count(), 1, "{line}");
}
