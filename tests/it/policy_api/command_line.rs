//! `config`, `policy set`, `policy preset` and `denylist`.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};

use serde_json::{Value, json};

use crate::support::{
    Finished, Invocation, Members, Scratch, TestServer, countersign, run_program, way_of_pieces,
};

#[track_caller]
fn json_of(done: &Finished) -> Value {
    assert_eq!(done.code, Some(0), "{done:#?}");
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:#?}"))
}

fn alone(scratch: &Scratch, arguments: &[&str]) -> Invocation {
    countersign()
        .args(arguments)
        .env("HOME", scratch.path())
        .env("OPENCLAW_STATE_DIR", scratch.path().join("state"))
}

#[test]
fn config_needs_no_server() {
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| run_program(&alone(&scratch, arguments));
    let path = scratch.join("state/openclaw.json");
    let on_disk = || -> Value { serde_json::from_slice(&fs::read(&path).unwrap()).unwrap() };

    assert_eq!(run(&["config", "get", "tools.exec.ask"]).stdout, "on-miss\n");
    assert!(!path.exists(), "reading makes nothing");
    let set = run(&["config", "set", "tools.exec.ask", "always"]);
    assert_eq!(
        (set.code, set.stdout.as_str()),
        (Some(0), "tools.exec.ask: changed\n"),
        "{set:?}"
    );
    assert_eq!(run(&["config", "get", "tools.exec.ask"]).stdout, "always\n");
    assert_eq!(
        json_of(&run(&["config", "get", "tools.exec.ask", "--json"])),
        json!({ "path": "tools.exec.ask", "value": "always", "source": "openclaw.json", "default": "on-miss",
            "from": "files" })
    );
    for (key, value) in [
        ("tools.exec.timeoutSec", "600"),
        ("tools.exec.node", "7"),
        ("tools.exec.strictInlineEval", "true"),
        ("tools.exec.safeBins", "['cut', 'jq',]"),
        ("commands.allowFrom.\"*\"", "[\"me\"]"),
        ("agents.entries.build.tools.exec.security", "allowlist"),
    ] {
        let done = run(&["config", "set", key, value]);
        assert_eq!(done.code, Some(0), "{key}: {done:?}");
    }
    let again = run(&["config", "set", "tools.exec.node", "7"]);
    assert_eq!(again.stdout, "tools.exec.node: already so\n");
    assert_eq!(
        on_disk(),
        json!({
            "tools": { "exec": { "ask": "always", "timeoutSec": 600, "node": "7", "strictInlineEval": true, "safeBins": ["cut", "jq"] } },
            "commands": { "allowFrom": { "*": ["me"] } },
            "agents": { "entries": { "build": { "tools": { "exec": { "security": "allowlist" } } } } },
        })
    );
    let before = on_disk();
    let unset = run(&["config", "unset", "tools.exec.timeoutSec", "--json"]);
    assert_eq!(
        json_of(&unset),
        json!({ "path": "tools.exec.timeoutSec", "changed": true, "effect": "unknown" })
    );
    assert_eq!(run(&["config", "get", "tools.exec.timeoutSec"]).stdout, "1800\n");
    let kept: Value =
        serde_json::from_slice(&fs::read(scratch.join("state/openclaw.json.bak")).unwrap()).unwrap();
    assert_eq!(kept, before);
    let all = json_of(&run(&["config", "get", "--json"]));
    assert!(all.list("items").len() > 30);
    assert!(
        run(&["config", "get"])
            .stdout
            .contains("agents.entries.build.tools.exec.security")
    );
    let unset = run(&["config", "get", "tools.exec.mode"]);
    assert_eq!(
        (unset.code, unset.stdout.as_str(), unset.stderr.as_str()),
        (
            Some(0),
            "",
            "from files: no server runs on this state directory\nnot set\n"
        )
    );
}

#[test]
fn config_shows_what_is_in_force_under_the_name_of_its_key() {
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| run_program(&alone(&scratch, arguments));
    let get = |path: &str| json_of(&run(&["config", "get", "--json", path]));
    for (key, value) in [
        ("tools.exec.timeoutSeconds", "700"),
        ("agents.defaults.sandbox.perSession", "true"),
        ("agents.list[0].id", "build"),
        ("agents.list[0].tools.exec.timeoutSeconds", "5"),
        ("agents.list[0].sandbox.perSession", "false"),
    ] {
        let done = run(&["config", "set", key, value]);
        assert_eq!(done.code, Some(0), "{key}: {done:?}");
    }
    let of_file = |path: &str, value: Value, default: Value| {
        let expected = json!({
            "path": path, "value": value, "source": "openclaw.json", "default": default, "from": "files",
        });
        assert_eq!(get(path), expected);
    };
    of_file("tools.exec.timeoutSec", json!(700), json!(1800));
    of_file("agents.defaults.sandbox.scope", json!("session"), json!("agent"));
    of_file("agents.list[0].tools.exec.timeoutSec", json!(5), json!(700));
    of_file("agents.list[0].sandbox.scope", json!("shared"), json!("session"));
    of_file("agents.list[0].id", json!("build"), Value::Null);
    assert_eq!(get("tools.exec.timeoutSeconds"), get("tools.exec.timeoutSec"));
    assert_eq!(run(&["config", "get", "agents.list[0].id"]).stdout, "build\n");

    let doctor = run(&["doctor", "--json"]);
    let doctor: Value = serde_json::from_str(&doctor.stdout).expect("one document");
    let rows = doctor.list("settings").iter();
    let about =
        |part: &'static str| move |row: &&Value| row["key"].as_str().is_some_and(|key| key.contains(part));
    let timeouts: Vec<_> = rows.clone().filter(about("tools.exec.timeoutSec")).collect();
    assert_eq!(timeouts.len(), 2, "{timeouts:?}");
    assert!(!rows.clone().any(|row| about("perSession")(&row)), "{doctor}");

    // All of a group, for everybody and for one agent.
    let group = get("tools.exec.applyPatch");
    let paths = |group: &Value| -> Vec<String> {
        let items = group.list("items").iter();
        items.map(|item| item.text("path").to_owned()).collect()
    };
    assert_eq!(
        paths(&group),
        ["enabled", "workspaceOnly", "allowModels"].map(|key| format!("tools.exec.applyPatch.{key}"))
    );
    let own = get("agents.list[0].tools.exec");
    assert!(
        paths(&own).contains(&"agents.list[0].tools.exec.ask".to_owned()),
        "{own}"
    );
    let shown = run(&["config", "get", "tools.exec"]).stdout;
    assert!(
        shown
            .lines()
            .any(|line| line.contains("tools.exec.timeoutSec") && line.contains("700")),
        "{shown}"
    );
}

#[test]
fn what_cannot_be_set_says_why() {
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| run_program(&alone(&scratch, arguments));
    let check = |arguments: &[&str], code: i32, said: &str| {
        let done = run(arguments);
        assert_eq!(done.code, Some(code), "{done:?}");
        assert!(done.stderr.starts_with("error["), "{done:?}");
        assert!(done.stderr.contains(said), "{said} in {done:?}");
    };
    check(
        &["config", "get", "tools.exec.aks"],
        64,
        "hint: countersign config get tools.exec.ask",
    );
    check(
        &["config", "set", "tools.exec.aks", "off"],
        64,
        "hint: countersign config set tools.exec.ask off",
    );
    check(
        &["config", "set", "tools.exec.ask", "maybe"],
        64,
        "expected off, on-miss or always",
    );
    check(
        &["config", "set", "tools.exec.timeoutSec", "soon"],
        64,
        "tools.exec.timeoutSec",
    );
    check(&["config", "set", "tools.exec.ask", "null"], 64, "null");
    check(&["config", "set", "a..b", "1"], 64, "expected a path");
    check(&["config", "unset", "gateway.auth.token"], 64, "no such key");
    // What looks a little like it may allow more.
    check(
        &["config", "set", "nodes.enabled", "true"],
        64,
        "hint: countersign config list",
    );
    check(
        &["config", "set", "commands.allowFrom.__proto__", "['x']"],
        64,
        "__proto__",
    );
    assert!(!scratch.join("state/openclaw.json").exists());
    let inside = run_program(
        &alone(&scratch, &["config", "set", "tools.exec.ask", "off"]).env("OPENCLAW_SHELL", "exec"),
    );
    assert_eq!(inside.code, Some(77), "{inside:?}");
    assert!(inside.stderr.contains("error[operator-refused]"), "{inside:?}");
}

#[tokio::test]
async fn a_server_follows_what_config_sets() {
    let server = TestServer::full().start().await;
    assert_eq!(
        server.agent().exec(json!({ "argv": ["/bin/true"] })).await.status,
        200
    );
    let done = server
        .cli(&["config", "set", "tools.exec.security", "deny"])
        .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    server.denied(json!({ "argv": ["/bin/true"] })).await;
}

/// The tag that a change is sent with is that of the document, in which every run notes when its entry was used.
#[tokio::test]
async fn policy_set_overwrites_nothing_and_is_kept_from_nothing() {
    const BUILD: &str = "/v1/agents/build/policy";
    let server = TestServer::full().start().await;
    let changed = |body: &Value, path: &'static str, method: reqwest::Method| {
        let (operator, body) = (server.operator(), body.clone());
        let left = Arc::new(AtomicU32::new(2));
        way_of_pieces(&server, move |piece| {
            let (operator, body, method) = (operator.clone(), body.clone(), method.clone());
            let is_put = piece.starts_with(b"PUT ");
            let is_first = is_put
                && left
                    .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
                    .is_ok();
            async move {
                if is_first {
                    let request = operator.request(method, path).json(&body);
                    operator.send(request).await;
                }
                true
            }
        })
    };
    let set = async |way: &str| {
        let token = server.operator_token();
        let arguments = [
            "policy", "set", "--agent", "build", "--ask", "always", "--url", way, "--token", &token,
        ];
        server.cli(&arguments).await
    };
    let entry = json!({ "pattern": "/bin/true" });
    let way = changed(&entry, "/v1/agents/main/allowlist", reqwest::Method::POST).await;
    let done = set(&way).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(server.operator().read(BUILD).await, json!({ "ask": "always" }));
    assert_has!(server.document_on_disk(), { "agents/main/allowlist/0/pattern": "/bin/true" });

    let theirs = json!({ "ask": "off", "security": "deny" });
    let way = changed(&theirs, BUILD, reqwest::Method::PUT).await;
    let done = set(&way).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    done.complains("error[base-hash-mismatch]");
    assert_eq!(server.operator().read(BUILD).await, theirs);
}

#[tokio::test]
async fn policy_set_and_preset_say_what_they_change() {
    let server = TestServer::full().start().await;
    let set = server
        .cli(&[
            "policy",
            "set",
            "--agent",
            "build",
            "--security",
            "allowlist",
            "--auto-allow-skills",
            "true",
        ])
        .await;
    assert_eq!(set.code, Some(0), "{set:?}");
    set.says("agents.build.security");
    set.says("allowlist");
    let inherit = server
        .cli(&[
            "policy",
            "set",
            "--agent",
            "build",
            "--security",
            "inherit",
            "--ask",
            "always",
            "--json",
        ])
        .await;
    assert_eq!(
        json_of(&inherit),
        json!({ "autoAllowSkills": true, "ask": "always" })
    );
    assert_has!(server.document_on_disk(), { "agents/build": { "ask": "always", "autoAllowSkills": true } });
    let nothing = server.cli(&["policy", "set"]).await;
    assert_eq!(nothing.code, Some(64), "{nothing:?}");

    let before = server.document_on_disk();
    let dry = server.cli(&["policy", "preset", "cautious", "--dry-run"]).await;
    assert_eq!(dry.code, Some(0), "{dry:?}");
    for line in ["tools.exec.security", "defaults.security", "defaults.askFallback"] {
        assert!(dry.stdout.contains(line), "{line} in {dry:?}");
    }
    assert_eq!(server.document_on_disk(), before);
    let applied = server.cli(&["policy", "preset", "cautious", "--json"]).await;
    let applied = json_of(&applied);
    assert_eq!(applied["applied"], true);
    assert_eq!(
        applied["changes"][0],
        json!({ "file": "openclaw.json", "key": "tools.exec.security", "is": "full", "becomes": "allowlist" })
    );
    assert_eq!(server.document_on_disk()["defaults"]["security"], "allowlist");
    let again = server.cli(&["policy", "preset", "cautious"]).await;
    // Nothing changes, and the agent that kept a key of its own is named again.
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stderr.starts_with("it is so already\n"), "{again:?}");
    let own = again.stdout.lines().last().unwrap_or_default();
    assert_eq!(
        own.split_whitespace().collect::<Vec<_>>(),
        [
            "build",
            "allowlist",
            "always",
            "exec-approvals.json#/agents/build/ask"
        ],
        "{again:?}"
    );
    let unknown = server.cli(&["policy", "preset", "reckless"]).await;
    assert_eq!(unknown.code, Some(64), "{unknown:?}");
}

#[tokio::test]
async fn deny_rules_from_the_command_line() {
    let server = TestServer::full().start().await;
    let add = server
        .cli(&[
            "denylist",
            "add",
            "true",
            "--agent",
            "*",
            "--arg-pattern",
            "^x",
            "--reason",
            "no",
            "--json",
        ])
        .await;
    let rule = json_of(&add);
    assert_eq!(rule["argPattern"], "^x");
    let id = rule.text("id");
    let list = server.cli(&["denylist", "list", "--agent", "*", "--json"]).await;
    assert_eq!(json_of(&list), json!({ "items": [rule] }));
    let denied = server.cli(&["exec", "--", "/bin/true", "x"]).await;
    assert_eq!(denied.code, Some(77), "{denied:?}");
    let show = server.cli(&["denylist", "show", &id[..8], "--agent", "*"]).await;
    assert!(show.stdout.contains("^x"), "{show:?}");
    let remove = server
        .cli(&["denylist", "remove", &id[..8], "--agent", "*"])
        .await;
    assert_eq!(remove.code, Some(0), "{remove:?}");
    assert_eq!(server.cli(&["exec", "--", "/bin/true", "x"]).await.code, Some(0));
    let gone = server.cli(&["denylist", "remove", id]).await;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.stderr.contains("error[not-found]"), "{gone:?}");
}

#[tokio::test]
async fn a_deny_rule_binds_every_agent_unless_one_is_named() {
    let server = TestServer::full().start().await;
    let all = server.cli(&["denylist", "add", "true"]).await;
    assert!(all.stdout.contains("every agent"), "{all:?}");
    let one = server.cli(&["denylist", "add", "false", "--agent", "main"]).await;
    assert!(one.stdout.contains("agent main"), "{one:?}");
    let run = |agent: &'static str, program: &'static str| {
        let api = server.agent();
        async move {
            api.exec(json!({ "argv": [program], "agentId": agent }))
                .await
                .status
        }
    };
    assert_eq!(
        (run("main", "/bin/true").await, run("other", "/bin/true").await),
        (403, 403)
    );
    assert_eq!(
        (run("main", "/bin/false").await, run("other", "/bin/false").await),
        (403, 200)
    );
    let masking = server
        .cli(&["denylist", "add", "zq-none", "--children", "--json"])
        .await;
    assert_eq!(json_of(&masking)["children"], true, "{masking:?}");
    let odd = server
        .cli(&["denylist", "add", "zq-none", "--children", "--arg-pattern", "x"])
        .await;
    assert_eq!(odd.code, Some(64), "{odd:?}");
    let listed = server.cli(&["denylist", "list"]).await;
    assert!(
        listed.stdout.contains("true") && !listed.stdout.contains("false"),
        "{listed:?}"
    );
    let entry = server.cli(&["allowlist", "add", "/bin/echo"]).await;
    assert!(entry.stdout.contains("agent main"), "{entry:?}");
}

#[tokio::test]
async fn a_rule_that_can_never_match_is_refused_with_the_way_of_pieces_say_it() {
    let server = TestServer::full().start().await;
    for list in ["denylist", "allowlist"] {
        for pattern in ["curl *", "rm -rf"] {
            let refused = server.cli(&[list, "add", pattern]).await;
            assert_eq!(refused.code, Some(64), "{refused:?}");
            refused.complains("error[invalid-pattern]");
            refused.complains("--arg-pattern");
        }
    }
    let added = server.cli(&["denylist", "add", "**/tru*"]).await;
    assert_eq!(added.code, Some(0), "{added:?}");
    assert_eq!(server.cli(&["exec", "--", "/bin/true"]).await.code, Some(77));
    assert_eq!(server.cli(&["exec", "--", "/bin/echo", "x"]).await.code, Some(0));
}

#[tokio::test]
async fn allowlist_flags_make_grants() {
    let server = TestServer::allowlist_only().start().await;
    let tool = server.scratch().join("tool");
    crate::support::write_file_mode(&tool, "#!/bin/sh\necho ran\n", 0o755);
    let tool = tool.display().to_string();
    let add = server
        .cli(&[
            "allowlist",
            "add",
            &tool,
            "--arg-pattern",
            "^$",
            "--expires",
            "2h",
            "--max-uses",
            "3",
            "--pin-digest",
            "--note",
            "pinned",
            "--json",
        ])
        .await;
    let grant = json_of(&add);
    assert_has!(grant, { "kind": "grant", "maxUses": 3, "note": "pinned" });
    assert_eq!(server.cli(&["exec", "--", &tool]).await.stdout, "ran\n");
    let show = server.cli(&["allowlist", "show", grant.text("id")]).await;
    show.says("sha256");
    show.says("expires");
}
