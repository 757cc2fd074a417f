//! Where a call goes, and that it goes nowhere else when there is no sandbox.

use serde_json::{Value, json};

use super::{BUILTIN, possible, sandboxed};
use crate::{
    explain::{ask_to_explain, what_exec_does, what_explain_says},
    support::{Members, TestServer, assert_says, only},
};

const HOSTS: [Option<&str>; 5] = [None, Some("auto"), Some("sandbox"), Some("gateway"), Some("node")];
const MODES: [Option<&str>; 4] = [None, Some("all"), Some("non-main"), Some("off")];

/// An agent for each configured host and mode.
fn agents() -> Vec<(String, Option<&'static str>, Option<&'static str>)> {
    let word = |word: Option<&'static str>| word.unwrap_or("unset");
    HOSTS
        .iter()
        .flat_map(|host| MODES.iter().map(move |mode| (*host, *mode)))
        .map(|(host, mode)| (format!("{}.{}", word(host), word(mode)), host, mode))
        .collect()
}

fn config_of_agents() -> Value {
    let list: Vec<Value> = agents()
        .into_iter()
        .map(|(id, host, mode)| {
            let mut agent = json!({ "id": id });
            if let Some(host) = host {
                agent["tools"] = json!({ "exec": { "host": host } });
            }
            if let Some(mode) = mode {
                agent["sandbox"] = json!({ "mode": mode });
            }
            agent
        })
        .collect();
    json!({ "tools": { "exec": { "security": "full", "ask": "off" } }, "agents": { "list": list } })
}

/// What `docs/spec/exec-tool.md#2-where-it-runs` says: a host, or the code of a refusal.
fn expected(configured: Option<&str>, call: Option<&str>, is_active: bool) -> &'static str {
    let configured = configured.unwrap_or("sandbox");
    let of_sandbox = if is_active {
        "sandbox"
    } else {
        "sandbox-unavailable"
    };
    match (configured, call.unwrap_or(configured)) {
        ("auto", "auto") if is_active => "sandbox",
        ("auto" | "sandbox", "sandbox") => of_sandbox,
        ("auto", "gateway") if is_active => "host-not-allowed",
        ("auto", "auto") | ("auto" | "gateway", "gateway") => "gateway",
        ("auto" | "node", "node") => "node-unavailable",
        _ => "host-not-allowed",
    }
}

async fn every_row(backend: &str, is_usable: bool) {
    let server = TestServer::full()
        .config(&config_of_agents())
        .toml(&format!("[sandbox]\nbackend = \"{backend}\"\n"))
        .start()
        .await;
    if is_usable {
        or_skip!(possible(&server).await);
    }
    for (index, (agent, configured, mode)) in agents().into_iter().enumerate() {
        for session in ["main", "other"] {
            let includes = match mode {
                None | Some("all") => true,
                Some("non-main") => session != "main",
                _ => false,
            };
            for call in HOSTS {
                let mut body = json!({
                    "argv": ["true"], "agentId": agent, "sessionKey": format!("agent:{agent}:{session}"),
                });
                if let Some(host) = call {
                    body["host"] = json!(host);
                }
                let row = format!("{agent} {session} {call:?} {backend}");
                let want = expected(configured, call, is_usable && includes);
                let explained = ask_to_explain(&server.agent(), &body).await;
                let said = explained.json();
                if ["sandbox", "gateway"].contains(&want) {
                    assert_eq!(explained.status, 200, "{row}: {said}");
                    assert_eq!(said["host"]["value"], want, "{row}");
                    assert_eq!(said["sandbox"].is_object(), want == "sandbox", "{row}");
                } else {
                    assert_eq!(said["code"], want, "{row}: {said}");
                    if (configured, call) == (Some("auto"), Some("gateway")) {
                        let key = match mode {
                            None => "agents.defaults.sandbox.mode".to_owned(),
                            Some(_) => format!("'agents.list[{index}].sandbox.mode'"),
                        };
                        assert_eq!(said["hint"], format!("countersign config set {key} off"), "{row}");
                    }
                }
                // Starting something takes longer than saying no.
                if call.is_none() || explained.status != 200 {
                    let done = server.agent().exec(body).await;
                    let answer = done.json();
                    if explained.status == 200 {
                        assert_eq!(done.status, 200, "{row}: {answer}");
                        assert_has!(answer, { "host": want, "status": "completed" });
                    } else {
                        assert_eq!(
                            only(&answer, &["status", "code", "detail", "hint"]),
                            only(&said, &["status", "code", "detail", "hint"]),
                            "{row}"
                        );
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn every_row_of_the_table_where_there_is_a_sandbox() {
    every_row("builtin", true).await;
}

#[tokio::test]
async fn every_row_of_the_table_where_there_is_none() {
    every_row("off", false).await;
}

#[tokio::test]
async fn with_nothing_configured_commands_run_in_the_sandbox() {
    let server = TestServer::full().without_config().toml(BUILTIN).start().await;
    or_skip!(possible(&server).await);
    let answer = server
        .ran(json!({ "command": "echo hi; echo no >&2; exit 3", "security": "allowlist" }))
        .await;
    assert_has!(answer, { "status": "failed", "host": "sandbox", "exitCode": 3, "stdout": "hi\n", "stderr": "no\n",
    "cwd": "/workspace", "diverted": false, "warnings": [] });
    let run = server.agent().run(answer.text("runId")).await;
    assert_has!(run, { "host": "sandbox", "isolation": "sandbox", "security": "full", "ask": "off",
    "decision": { "verdict": "run", "by": "policy" }, "binding": "text", "cwd": "/workspace" });
    let policy = server.operator().read("/v1/policy/effective").await;
    assert_has!(policy, { "approvalsApply": false, "isolation": "sandbox", "sandbox": { "active": true,
    "backend": "builtin", "scope": "agent", "workspaceAccess": "none" } });
    // What would hold on the gateway.
    assert_eq!(policy["security"]["value"], "deny");
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let cases = [
        ("[sandbox]\nbackend = \"off\"\n", None, "[sandbox] backend"),
        (
            "[sandbox]\nbackend = \"docker\"\n",
            Some("tcp://127.0.0.1:1"),
            "DOCKER_HOST",
        ),
        (
            "[sandbox]\nbackend = \"docker\"\ndocker_socket = \"/nonexistent/docker.sock\"\n",
            None,
            "/nonexistent/docker.sock",
        ),
    ];
    for (toml, docker_host, named) in cases {
        let mut builder = TestServer::full().without_config().toml(toml);
        if let Some(host) = docker_host {
            builder = builder.env("DOCKER_HOST", host);
        }
        let server = builder.start().await;
        let refused = server
            .agent()
            .exec(json!({ "command": "true" }))
            .await
            .problem(503, "sandbox-unavailable");
        let detail = refused.text("detail");
        assert_says(detail, named);
        assert_says(detail, "tools.exec.host");
        assert!(refused.text("hint").contains("doctor"), "{refused}");
        let mut doctor = server.invocation(&["doctor", "--json"]);
        if let Some(host) = docker_host {
            doctor = doctor.env("DOCKER_HOST", host);
        }
        let told = TestServer::finish(doctor).await;
        let told: Value = serde_json::from_str(&told.stdout).unwrap();
        let finding = told
            .list("findings")
            .iter()
            .find(|finding| finding["id"] == "sandbox-unavailable")
            .unwrap_or_else(|| panic!("{told}"));
        assert!(finding.text("explanation").contains(named), "{finding}");
        assert!(server.operator().read("/v1/runs").await.list("items").is_empty());
    }
}

#[tokio::test]
async fn tool_policy_counts_and_approvals_do_not() {
    let config = json!({
        "tools": { "exec": { "host": "sandbox", "security": "deny", "ask": "always" } },
        "agents": { "list": [{ "id": "without", "tools": { "deny": ["exec"] } }] },
    });
    let server = TestServer::full()
        .config(&config)
        .document_text("{ not json")
        .toml(BUILTIN)
        .start()
        .await;
    or_skip!(possible(&server).await);
    // Text that no analysis understands, and a document that is refused: neither matters here.
    for body in [
        json!({ "command": "f() { echo in; }; f $(true) <<< x 2>/dev/null || echo in" }),
        json!({ "argv": ["echo", "in"], "ask": "always" }),
        json!({ "command": "true", "agentId": "without" }),
        json!({ "command": " /approve x" }),
        json!({ "command": "echo", "env": { "A=B": "x" } }),
        json!({ "command": "echo", "env": { "LD_PRELOAD": "/x.so", "PATH": "/x" } }),
    ] {
        let explained = what_explain_says(&ask_to_explain(&server.agent(), &body).await);
        let done = what_exec_does(&server, &body).await;
        assert_eq!(explained, done, "{body}");
    }
    server
        .denied(json!({ "command": "true", "agentId": "without" }))
        .await;
    server
        .agent()
        .exec(json!({ "command": "true", "env": { "A=B": "x" } }))
        .await
        .problem(400, "invalid-request");
}

#[tokio::test]
async fn the_environment_is_the_sandboxs_own_and_nothing_in_it_is_shell_text() {
    let config = json!({
        "tools": { "exec": { "host": "sandbox", "pathPrepend": ["/opt/first"] } },
        "agents": { "defaults": { "sandbox": { "docker": { "env": { "FROM_SETTINGS": "s", "BOTH": "s" } } } } },
    });
    let server = TestServer::full()
        .config(&config)
        .toml(BUILTIN)
        .env("SECRET_OF_THE_SERVER", "x")
        .start()
        .await;
    or_skip!(possible(&server).await);
    let hostile = "/a$(touch pwned):/b`touch pwned`:/c\"; touch pwned; \"':/d e";
    let env =
        json!({ "PATH": hostile, "BOTH": "c", "QUOTED": "'\"$(touch pwned)\n", "LD_LIBRARY_PATH": "/lib0" });
    for body in [
        json!({ "command": "env; ls -A", "env": env }),
        json!({ "argv": ["sh", "-c", "env; ls -A"], "env": env }),
    ] {
        let answer = server.ran(body.clone()).await;
        let text = answer.text("stdout");
        assert_eq!(answer["status"], "completed", "{answer}");
        for line in [
            "FROM_SETTINGS=s",
            "BOTH=c",
            "LD_LIBRARY_PATH=/lib0",
            "OPENCLAW_SHELL=exec",
            "QUOTED='\"$(touch pwned)",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let path = text.lines().find(|line| line.starts_with("PATH=")).unwrap();
        assert!(
            path.starts_with(&format!("PATH={hostile}:/opt/first:")) && path.contains("/usr/bin"),
            "{path}"
        );
        assert!(!text.lines().any(|line| line == "pwned"), "{text}");
        assert!(!text.contains("SECRET_OF_THE_SERVER"), "{text}");
        let run = server.agent().run(answer.text("runId")).await;
        assert_has!(run, { "envNames": ["BOTH", "LD_LIBRARY_PATH", "PATH", "QUOTED"] });
    }
}

#[tokio::test]
async fn a_call_of_another_host_is_refused_and_nothing_runs() {
    let server = sandboxed(&json!({})).start().await;
    or_skip!(possible(&server).await);
    let refused = server
        .agent()
        .exec(json!({ "command": "true", "host": "gateway" }))
        .await
        .problem(403, "host-not-allowed");
    assert!(refused.text("hint").contains("tools.exec.host"), "{refused}");
    server
        .agent()
        .exec(json!({ "command": "true", "node": "n" }))
        .await
        .problem(400, "config-conflict");
}
