//! `POST /v1/exec/explain` says what `POST /v1/exec` does, and does nothing itself.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Members, ServerBuilder, TestServer, only};

/// What a call comes to: `run`, `ask` or `deny`, and why.
pub(crate) type Outcome = (String, Option<String>);

pub(crate) async fn ask_to_explain(api: &Api, body: &Value) -> Answer {
    api.post("/v1/exec/explain", body.clone()).await
}

async fn explain(api: &Api, body: Value) -> Value {
    ask_to_explain(api, &body).await.expect(200)
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("a text: {value}"))
        .to_owned()
}

pub(crate) fn what_explain_says(answer: &Answer) -> Outcome {
    let body = answer.json();
    match answer.status {
        200 => (text(&body["outcome"]), body["reason"].as_str().map(str::to_owned)),
        400 => ("deny".to_owned(), Some(text(&body["code"]))),
        other => panic!("{other}: {body}"),
    }
}

/// What came of the call itself, in the words of an explanation. A question is withdrawn.
pub(crate) async fn what_exec_does(server: &TestServer, body: &Value) -> Outcome {
    let answer = server.agent().exec(body.clone()).await;
    let done = answer.json();
    match answer.status {
        200 => ("run".to_owned(), None),
        202 if done["status"] == "approval-pending" => {
            let approval = format!("/v1/approvals/{}", text(&done["approvalId"]));
            let approval = server.operator().read(&approval).await;
            let cancel = format!("/v1/runs/{}/cancel", text(&done["runId"]));
            server.agent().posted(&cancel, json!({})).await;
            ("ask".to_owned(), Some(text(&approval["why"]["rule"])))
        }
        400 => ("deny".to_owned(), Some(text(&done["code"]))),
        403 => ("deny".to_owned(), Some(text(&done["reason"]))),
        other => panic!("{other}: {done}"),
    }
}

/// Programs that do nothing but print, so that the commands that are covered may really run.
fn harmless() -> Value {
    let entry = |name: &str| json!({ "pattern": format!("/usr/bin/{name}") });
    let allowlist = ["echo", "printf", "true", "wc", "head", "env"].map(entry);
    json!({ "version": 1, "agents": { "main": {
        "allowlist": allowlist,
        "denylist": [{ "pattern": "/usr/bin/rm" }, { "pattern": "curl", "reason": "no downloads" }],
    } } })
}

fn config(exec: &Value) -> Value {
    json!({ "tools": { "exec": exec } })
}

/// Every command of the corpus, explained and then called.
async fn agrees_over_the_corpus(server: ServerBuilder) {
    let server = server.document(&harmless()).start().await;
    let mut seen: Vec<String> = Vec::new();
    for line in include_str!("../data/corpus/commands.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut body = json!({ "command": case["command"] });
        if !case["env"].is_null() {
            body["env"] = case["env"].clone();
        }
        let explained = what_explain_says(&ask_to_explain(&server.agent(), &body).await);
        let done = what_exec_does(&server, &body).await;
        assert_eq!(explained, done, "{line}");
        seen.push(done.0);
    }
    assert!(seen.contains(&"deny".to_owned()), "the corpus has bad requests");
}

#[tokio::test]
async fn explain_and_exec_agree_where_people_are_asked() {
    agrees_over_the_corpus(TestServer::asking()).await;
}

#[tokio::test]
async fn explain_and_exec_agree_where_nobody_is_asked() {
    agrees_over_the_corpus(TestServer::allowlist_only()).await;
}

#[tokio::test]
async fn explain_and_exec_agree_where_nobody_can_be_reached() {
    let exec =
        json!({ "host": "gateway", "security": "allowlist", "ask": "always", "strictInlineEval": true });
    agrees_over_the_corpus(TestServer::full().config(&config(&exec))).await;
}

#[tokio::test]
async fn explain_and_exec_agree_where_nothing_runs() {
    let exec = json!({ "host": "gateway", "security": "deny" });
    agrees_over_the_corpus(TestServer::full().config(&config(&exec))).await;
}

#[tokio::test]
async fn an_explanation_holds_the_whole_decision() {
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [
        { "id": "6f2f1a52-9c35-4f3f-9a63-0c2a4f5ad001", "pattern": "/usr/bin/echo" },
    ] } } });
    let server = TestServer::asking().document(&document).start().await;
    let body = json!({ "command": "echo hi | env FOO=1 /usr/bin/wc -c", "env": { "TZ": "UTC" } });
    let explained = explain(&server.operator(), body.clone()).await;
    assert_has!(explained, { "outcome": "ask", "reason": "allowlist-miss", "env": { "blocked": [], "passed": ["TZ"] },
    "needsPerson": false, "approverReachable": true });
    assert_eq!(
        explained["host"],
        json!({ "value": "gateway", "source": "tools.exec.host", "alternatives": [],
            "layers": [{ "layer": "default", "value": "sandbox" },
                { "layer": "global", "source": "tools.exec.host", "value": "gateway" }] })
    );
    for rule in ["security", "ask", "askFallback"] {
        assert!(explained[rule]["layers"].is_array(), "{rule} in {explained}");
    }
    let analysis = &explained["analysis"];
    assert_eq!(
        only(analysis, &["ok", "verdict"]),
        json!({ "ok": true, "verdict": "ask" })
    );
    assert_eq!(analysis["findings"][0]["code"], analysis["reason"]);
    let segments = analysis.list("segments");
    assert_eq!(segments[0]["span"], json!([0, 7]));
    assert_eq!(
        segments[0]["match"],
        json!({ "kind": "allowlist", "entryId": "6f2f1a52-9c35-4f3f-9a63-0c2a4f5ad001", "pattern": "/usr/bin/echo" })
    );
    assert_eq!(segments[1]["operator"], "|");
    assert_eq!(segments[1]["match"]["kind"], "none");

    let covered = explain(&server.agent(), json!({ "argv": ["echo", "hi"] })).await;
    assert_has!(covered, { "outcome": "run", "reason": null, "wouldPersist": [] });
    let missed = explain(&server.agent(), json!({ "argv": ["/usr/bin/date", "-u"] })).await;
    let stored = missed.list("wouldPersist");
    let defaults: Vec<&Value> = stored
        .iter()
        .filter(|pattern| pattern["default"] == true)
        .collect();
    assert_eq!(defaults.len(), 1, "{stored:?}");
    assert_eq!(defaults[0]["width"], "exact");
}

#[tokio::test]
async fn a_call_tightens_its_explanation_too() {
    let server = TestServer::full().start().await;
    let plain = explain(&server.agent(), json!({ "argv": ["date"] })).await;
    assert_eq!(plain["outcome"], "run");
    assert!(
        plain["analysis"]["segments"][0]["resolvedPath"].is_string(),
        "analysed under full as well: {plain}"
    );
    let tightened = explain(
        &server.agent(),
        json!({ "argv": ["date"], "security": "allowlist" }),
    )
    .await;
    assert_has!(tightened, { "outcome": "deny", "reason": "allowlist-miss" });
    assert_eq!(tightened["security"]["source"], "call");
}

#[tokio::test]
async fn what_is_rejected_is_explained() {
    let server = TestServer::full().start().await;
    let long = "x".repeat(200_000);
    for (body, code, reason, blocked) in [
        (
            json!({ "command": "echo a\0b" }),
            "nul",
            "invalid-request",
            json!([]),
        ),
        (
            json!({ "argv": ["echo", "\0"] }),
            "nul",
            "invalid-request",
            json!([]),
        ),
        (
            json!({ "command": long }),
            "too-long",
            "invalid-request",
            json!([]),
        ),
        (
            json!({ "command": "echo hi", "env": { "ld_preload": "x", "TZ": "UTC", "PATH": "/" } }),
            "env-blocked",
            "blocked-env",
            json!(["LD_PRELOAD", "PATH"]),
        ),
        (
            json!({ "command": "echo hi", "env": { "A-B": "x", "TZ": "UTC" } }),
            "env-invalid",
            "blocked-env",
            json!(["A-B"]),
        ),
    ] {
        let explained = explain(&server.agent(), body).await;
        assert_has!(explained, { "outcome": "deny", "reason": reason, "needsPerson": false,
        "env": { "blocked": blocked, "passed": [] }, "wouldPersist": [] });
        assert_has!(explained["analysis"], { "verdict": "reject", "reason": code });
    }
    let mixed = json!({ "command": "echo hi", "env": { "A-B": "x", "LD_PRELOAD": "x" } });
    let problem = server.agent().exec(mixed).await.problem(400, "blocked-env");
    assert_eq!(
        problem["detail"],
        "these variables can never be set: LD_PRELOAD; these are no names of variables: A-B"
    );
    let refused = [
        (json!({ "command": " " }), 400, "blank-command"),
        (json!({ "command": "ls", "argv": ["ls"] }), 400, "invalid-request"),
        (
            json!({ "command": "ls", "secuirty": "deny" }),
            400,
            "invalid-request",
        ),
        (
            json!({ "command": "ls", "workdir": "/nowhere/at/all" }),
            400,
            "workdir-unavailable",
        ),
        (
            json!({ "command": "ls", "host": "node" }),
            403,
            "host-not-allowed",
        ),
        (
            json!({ "command": "ls", "elevated": true }),
            403,
            "elevated-unavailable",
        ),
    ];
    for (body, status, code) in refused {
        ask_to_explain(&server.agent(), &body).await.problem(status, code);
        server.agent().exec(body).await.problem(status, code);
    }
}

#[tokio::test]
async fn explaining_leaves_nothing_behind() {
    let server = TestServer::asking().document(&harmless()).start().await;
    let operator = server.operator();
    let trail = || async {
        let audit = operator.read("/v1/audit?limit=500").await;
        let events = operator.read("/v1/events?limit=500").await;
        json!([audit["items"], events["items"]])
    };
    let before = trail().await;
    for command in ["echo hi", "git push", "rm -rf x", "a\0b"] {
        explain(&server.agent(), json!({ "command": command })).await;
    }
    assert_eq!(trail().await, before);
    assert_eq!(operator.read("/v1/runs").await["items"], json!([]));
    assert_has!(operator.read("/v1/approvals?status=all").await, { "items": [] });
    assert_eq!(server.document_on_disk(), harmless());
    assert!(
        !server.state().join("workspace").exists(),
        "no workspace was made"
    );
}

#[tokio::test]
async fn a_grant_that_is_used_up_explains_as_a_miss() {
    let document = json!({ "version": 1, "agents": { "main": { "grants": [
        { "id": "6f2f1a52-9c35-4f3f-9a63-0c2a4f5ad002", "pattern": "/usr/bin/echo", "maxUses": 1 },
    ] } } });
    let server = TestServer::allowlist_only().document(&document).start().await;
    let body = json!({ "argv": ["/usr/bin/echo"] });
    for _ in 0..2 {
        assert_eq!(explain(&server.agent(), body.clone()).await["outcome"], "run");
    }
    server.ran(body.clone()).await;
    assert_has!(explain(&server.agent(), body.clone()).await, { "reason": "allowlist-miss" });
    server.denied(body).await;
}

#[tokio::test]
async fn only_readers_and_askers_get_explanations_and_askers_for_their_agents_alone() {
    let server = TestServer::full().start().await;
    let body = json!({ "argv": ["date"], "agentId": "other" });
    ask_to_explain(&server.anonymous(), &body)
        .await
        .problem(401, "unauthorized");
    let (_, approver) = server
        .token_with(json!({ "name": "a", "scopes": ["approve"] }))
        .await;
    ask_to_explain(&approver, &body).await.problem(403, "forbidden");
    let (_, bound) = server
        .token_with(json!({ "name": "b", "scopes": ["exec"], "agents": ["mine"] }))
        .await;
    ask_to_explain(&bound, &body).await.problem(403, "forbidden");
    explain(&bound, json!({ "argv": ["date"], "agentId": "mine" })).await;
    let (_, reader) = server
        .token_with(json!({ "name": "r", "scopes": ["read"] }))
        .await;
    explain(&reader, body.clone()).await;
    explain(&server.agent(), body).await;
}

/// Where nothing runs, a call tells its caller nothing about files, so its explanation must not either.
#[tokio::test]
async fn under_deny_an_explanation_is_no_oracle_for_files() {
    let exec = json!({ "host": "gateway", "security": "deny" });
    let server = TestServer::full().config(&config(&exec)).start().await;
    let secret = server.scratch().join("secret");
    crate::support::write_file_mode(&secret, "#!/bin/sh\n", 0o755);
    let there = secret.to_str().unwrap().to_owned();
    let absent = there.replace("secret", "nobody");
    let seen = |api: Api, path: String| async move {
        let explained = explain(&api, json!({ "command": format!("{path} x && ls") })).await;
        explained.to_string().replace(&path, "PATH")
    };
    assert_eq!(
        seen(server.agent(), there.clone()).await,
        seen(server.agent(), absent.clone()).await
    );
    assert_ne!(
        seen(server.operator(), there.clone()).await,
        seen(server.operator(), absent).await,
        "a reader sees the file"
    );
    let named = explain(&server.agent(), json!({ "command": "ls" })).await;
    let segment = &named["analysis"]["segments"][0];
    assert!(
        segment["resolvedPath"]
            .as_str()
            .is_some_and(|path| path.ends_with("/ls")),
        "{segment}"
    );
}

#[tokio::test]
async fn the_command_line_shows_which_rule_decided_and_where() {
    let server = TestServer::asking().document(&harmless()).start().await;
    let shown = server
        .cli(&["policy", "explain", "-c", "echo hi && git push"])
        .await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for part in [
        "a person would be asked: allowlist-miss",
        "security = allowlist, set by tools.exec.security (global)",
        "\n  echo hi && git push\n             ^",
        "/usr/bin/echo",
    ] {
        assert!(shown.stdout.contains(part), "{part:?} in {}", shown.stdout);
    }
    let json = server
        .cli(&["exec", "--explain", "--json", "--", "echo", "hi"])
        .await;
    let explained: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(explained["outcome"], "run");
    let hostile = server
        .cli(&["exec", "--explain", "-c", "echo \u{1b}[2J\u{202e}x"])
        .await;
    assert!(!hostile.stdout.contains(['\u{1b}', '\u{202e}']), "{hostile:?}");
    assert_eq!(server.operator().read("/v1/runs").await["items"], json!([]));
}
