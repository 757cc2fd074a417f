//! Edits of policy from outside: what a command could have written does not count until an admin accepts it.

use std::{fs, os::unix::fs::PermissionsExt as _};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Api, Members, OnTheWay, TestServer, eventually, lines, way, write_file_mode};

const ACCEPT: &str = "/v1/policy/document/accept";
const REJECT: &str = "/v1/policy/document/reject";
const EFFECTIVE: &str = "/v1/policy/effective";

fn document(patterns: &[&str]) -> Value {
    let entries: Vec<Value> = patterns
        .iter()
        .map(|pattern| json!({ "pattern": pattern }))
        .collect();
    json!({ "version": 1, "agents": { "main": { "allowlist": entries } } })
}

/// A server whose agent may run `date`, and has done so.
async fn server_with_a_run() -> TestServer {
    let server = TestServer::allowlist_only()
        .document(&document(&["/**/date"]))
        .start()
        .await;
    runs(&server, "date").await;
    server
}

async fn runs(server: &TestServer, program: &str) {
    server.ran(json!({ "argv": [program] })).await;
}

async fn is_denied(server: &TestServer, program: &str) -> Value {
    let answer = server.agent().exec(json!({ "argv": [program] })).await;
    answer.problem(403, "exec-denied")["reason"].clone()
}

async fn held(api: &Api) -> Value {
    api.read(EFFECTIVE).await["document"]["held"].clone()
}

#[tokio::test]
async fn an_edit_that_widens_waits_for_an_admin() {
    let server = server_with_a_run().await;
    let operator = server.operator();
    let before = operator.read(EFFECTIVE).await["document"]["hash"].clone();
    let mut events = operator.events("?types=document", None).await;
    server.edit_document(&document(&["/**/date", "/**/id"]).to_string());
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    runs(&server, "date").await;

    let effective = operator.read(EFFECTIVE).await;
    let held = &effective["document"]["held"];
    let hash = held.text("hash");
    assert_has!(effective, { "document/hash": before }, "the accepted document is in effect");
    assert!(held["sinceMs"].as_i64().is_some_and(|since| since > 0), "{held}");
    assert_eq!(held["allows"], json!(["agent \"main\": \"/**/id\" is allowed"]));
    let event = events.next().await;
    assert_eq!(
        (event.kind.as_str(), event.data["hash"].as_str()),
        ("document.held", Some(hash))
    );
    let ready = server.anonymous().read("/readyz").await;
    assert_eq!(ready["degraded"], true);
    assert_eq!(ready["checks"]["document"]["ok"], false);
    let shown = operator.get("/v1/policy/document").await;
    assert_eq!(shown.header("countersign-policy"), Some("held"));
    assert_eq!(shown.header("etag"), Some(format!("\"{hash}\"").as_str()));

    for stale in [before.as_str().unwrap(), "0000"] {
        let problem = operator.post(ACCEPT, json!({ "hash": stale })).await;
        assert_eq!(problem.problem(412, "base-hash-mismatch")["currentHash"], hash);
    }
    server
        .agent()
        .post(ACCEPT, json!({ "hash": hash }))
        .await
        .problem(403, "forbidden");
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    let accepted = operator.posted(ACCEPT, json!({ "hash": hash })).await;
    assert_has!(accepted, { "hash": hash, "held": null });
    runs(&server, "id").await;
    let shown = operator.get("/v1/policy/document").await;
    assert_eq!(shown.header("countersign-policy"), Some("in-force"));
    let records = operator.read("/v1/audit?action=document.held&limit=500").await;
    let records: Vec<Value> = records
        .list("items")
        .iter()
        .map(|record| {
            json!([
                record["actor"]["kind"],
                record["outcome"],
                record["detail"]["accepted"]
            ])
        })
        .collect();
    assert_eq!(
        records,
        [json!(["system", "denied", null]), json!(["token", "ok", true])],
        "when it was held, and who accepted it"
    );
    assert_eq!(operator.read("/v1/audit/verify").await["ok"], true);
}

#[tokio::test]
async fn what_an_edit_takes_away_is_gone_at_once() {
    let server = server_with_a_run().await;
    server.edit_document(&document(&["/**/id"]).to_string());
    assert_eq!(is_denied(&server, "date").await, "allowlist-miss");
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    server.edit_document(&document(&["/**/date"]).to_string());
    runs(&server, "date").await;
    assert_eq!(
        held(&server.operator()).await,
        Value::Null,
        "the edit was taken back"
    );
    server.edit_document(&document(&[]).to_string());
    assert_eq!(is_denied(&server, "date").await, "allowlist-miss");
    assert_eq!(
        held(&server.operator()).await,
        Value::Null,
        "narrowing is not held"
    );
    server.edit_document(&document(&["/**/date"]).to_string());
    assert_eq!(is_denied(&server, "date").await, "allowlist-miss");
}

#[tokio::test]
async fn without_a_run_since_the_last_accepted_content_an_edit_counts() {
    let server = TestServer::allowlist_only()
        .document(&document(&[]))
        .start()
        .await;
    let operator = server.operator();
    is_denied(&server, "date").await;
    server.edit_document(&document(&["/**/date"]).to_string());
    runs(&server, "date").await;
    server.edit_document(&document(&["/**/date", "/**/id"]).to_string());
    let hash = held(&operator).await["hash"].clone();
    operator.posted(ACCEPT, json!({ "hash": hash })).await;
    server.edit_document(&document(&["/**/date", "/**/id", "/**/uname"]).to_string());
    runs(&server, "uname").await;
    // Removing the file takes the agent's deny rules with it.
    fs::remove_file(server.document_path()).unwrap();
    assert_eq!(is_denied(&server, "uname").await, "allowlist-miss");
}

#[tokio::test]
async fn a_restart_accepts_nothing() {
    let mut server = server_with_a_run().await;
    server.edit_document(&document(&["/**/date", "/**/id"]).to_string());
    is_denied(&server, "id").await;
    server.stop().await;
    server.start().await;
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    runs(&server, "date").await;
    assert_ne!(held(&server.operator()).await, Value::Null);
    // Nor does an edit count that was made while no server looked.
    server.edit_document(&document(&["/**/date"]).to_string());
    runs(&server, "date").await;
    server.stop().await;
    server.edit_document(&document(&["/**/date", "/**/uname"]).to_string());
    server.start().await;
    assert_eq!(is_denied(&server, "uname").await, "allowlist-miss");
    let copy = server.state().join("countersign/accepted-document.json");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    // A copy that says nothing lets nothing run.
    server.stop().await;
    write_file_mode(&copy, "{", 0o600);
    server.start().await;
    for program in ["uname", "date"] {
        is_denied(&server, program).await;
    }
    let hash = held(&server.operator()).await["hash"].clone();
    server.operator().posted(ACCEPT, json!({ "hash": hash })).await;
    runs(&server, "uname").await;
}

#[tokio::test]
async fn changes_of_ours_count_while_an_edit_is_held_and_accept_nothing_of_it() {
    let server = server_with_a_run().await;
    let operator = server.operator();
    server.edit_document(&document(&["/**/date", "/**/id"]).to_string());
    is_denied(&server, "id").await;
    let entry = json!({ "pattern": "/**/uname" });
    operator.made("/v1/agents/main/allowlist", entry).await;
    runs(&server, "uname").await;
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    let rule = json!({ "pattern": "date" });
    operator.made("/v1/agents/main/denylist", rule).await;
    assert_eq!(is_denied(&server, "date").await, "denylist");
    let held = held(&operator).await;
    assert_eq!(held["allows"], json!(["agent \"main\": \"/**/id\" is allowed"]));
    // Whoever sends the whole document answers for the whole document.
    let shown = operator.get("/v1/policy/document").await;
    let tag = shown.header("etag").unwrap().to_owned();
    operator
        .put_matching("/v1/policy/document", &tag, &shown.json())
        .await
        .expect(200);
    runs(&server, "id").await;
    assert_eq!(is_denied(&server, "date").await, "denylist");
}

#[tokio::test]
async fn an_edit_that_nobody_looked_at_yet_is_not_accepted_by_building_upon_it() {
    let server = server_with_a_run().await;
    let operator = server.operator();
    for round in 0..5 {
        server.edit_document(&document(&["/**/date", "/**/id"]).to_string());
        let rule = json!({ "pattern": format!("/opt/never-{round}") });
        operator.made("/v1/agents/main/denylist", rule).await;
        assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
        runs(&server, "date").await;
    }
    let allowlist =
        json!({ "tools": { "exec": { "host": "gateway", "security": "allowlist", "ask": "off" } } });
    let full = json!({ "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } } });
    for preset in ["cautious", "yolo"] {
        server.edit_config(&full.to_string());
        let preset = json!({ "name": preset, "agentId": "build" });
        operator.posted("/v1/policy/preset", preset).await;
        assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
        server.edit_config(&allowlist.to_string());
        runs(&server, "date").await;
    }
}

#[tokio::test]
async fn a_whole_document_accepts_no_socket_that_its_sender_cannot_know() {
    let server = server_with_a_run().await;
    let operator = server.operator();
    let mut edited = document(&["/**/date"]);
    edited["socket"] = json!({ "path": "/tmp/theirs.sock", "token": "known" });
    server.edit_document(&edited.to_string());
    operator
        .put_matching("/v1/policy/document", "*", &document(&["/**/date", "/**/id"]))
        .await
        .expect(200);
    runs(&server, "id").await;
    let socket = server.document_on_disk()["socket"].clone();
    assert_eq!(
        (&socket["path"], socket["token"] == "known"),
        (&Value::Null, false)
    );
    assert_eq!(held(&operator).await, Value::Null);
}

#[tokio::test]
async fn the_configuration_is_held_too() {
    let exec = |members: Value| json!({ "tools": { "exec": members } }).to_string();
    let allowlist = json!({ "host": "gateway", "security": "allowlist", "ask": "off" });
    let full = json!({ "host": "gateway", "security": "full", "ask": "off" });
    let mut server = server_with_a_run().await;
    let operator = server.operator();
    server.edit_config(&exec(full.clone()));
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    let effective = operator.read(EFFECTIVE).await;
    assert_eq!(effective["security"]["value"], "allowlist");
    effective.says("configError", "countersign policy accept");
    assert_has!(effective, { "configHeld/allows": ["every agent: tools.exec.security becomes full"] });
    let ready = server.anonymous().read("/readyz").await;
    assert_eq!(ready["checks"]["config"]["ok"], false);
    server.stop().await;
    server.start().await;
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    let operator = server.operator();
    let hash = operator.read(EFFECTIVE).await["configHeld"]["hash"].clone();
    operator.posted(ACCEPT, json!({ "hash": hash })).await;
    runs(&server, "id").await;
    // Back again, which only narrows.
    server.edit_config(&exec(allowlist));
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    // An edit that widens one thing and takes another away.
    let mut other = full;
    other["safeBins"] = json!([]);
    server.edit_config(&json!({ "tools": { "exec": other, "deny": ["exec"] } }).to_string());
    assert_eq!(is_denied(&server, "date").await, "tool-denied");
}

#[tokio::test]
async fn a_rejected_change_is_undone_and_the_other_one_waits_on() {
    let exec = |members: Value| json!({ "tools": { "exec": members } }).to_string();
    let server = server_with_a_run().await;
    let operator = server.operator();
    server.edit_document(&document(&["/**/date", "/**/id"]).to_string());
    server.edit_config(&exec(
        json!({ "host": "gateway", "security": "full", "ask": "off" }),
    ));
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    let effective = operator.read(EFFECTIVE).await;
    let hash = effective["document"]["held"]["hash"].clone();
    let config = effective["configHeld"]["hash"].clone();
    assert!(hash.is_string() && config.is_string(), "{effective}");

    // Nobody else may, and only what waits can be rejected.
    let body = json!({ "hash": hash });
    let (_, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read", "approve"] }))
        .await;
    for caller in [server.agent(), reader] {
        caller.post(REJECT, body.clone()).await.problem(403, "forbidden");
    }
    let stale = operator.post(REJECT, json!({ "hash": "00ff" })).await;
    stale.problem(412, "base-hash-mismatch");
    assert_eq!(held(&operator).await["hash"], hash, "it waits as before");

    // Without a hash the command line takes the only one, and here there are two.
    let which = server.cli(&["policy", "reject"]).await;
    assert_eq!(which.code, Some(64), "{which:?}");
    assert_eq!(held(&operator).await["hash"], hash, "it waits as before");

    let rejected = operator.posted(REJECT, body.clone()).await;
    assert_has!(rejected, { "held": null });
    let kept = server.document_on_disk()["agents"]["main"]["allowlist"].clone();
    assert_eq!(kept.as_array().map(Vec::len), Some(1), "{kept}");
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    runs(&server, "date").await;
    // It lies nowhere any more, so nobody can accept it or reject it again.
    for path in [ACCEPT, REJECT] {
        operator
            .post(path, body.clone())
            .await
            .problem(412, "base-hash-mismatch");
    }
    let records = operator
        .read("/v1/audit?action=document.held&order=newest&limit=1")
        .await;
    assert_has!(records["items"][0], {
        "actor/kind": "token", "target/id": "document", "detail/rejected": true, "detail/previousHash": hash,
    });
    // The other change still waits, and can be accepted.
    assert_eq!(operator.read(EFFECTIVE).await["configHeld"]["hash"], config);
    operator.posted(ACCEPT, json!({ "hash": config })).await;
    let effective = operator.read(EFFECTIVE).await;
    assert_has!(effective, { "security/value": "full", "configHeld": null });
    assert_eq!(operator.read("/v1/audit/verify").await["ok"], true);
}

#[tokio::test]
async fn what_was_taken_away_since_stays_away_when_a_change_is_rejected() {
    let exec = |members: Value| json!({ "tools": { "exec": members } }).to_string();
    let server = server_with_a_run().await;
    let operator = server.operator();
    // Both files wait, and then an operator forbids something in each.
    server.edit_config(&exec(
        json!({ "host": "gateway", "security": "full", "ask": "off" }),
    ));
    server.edit_document(&document(&["/**/date", "/**/id"]).to_string());
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    operator
        .made("/v1/agents/main/denylist", json!({ "pattern": "/**/date" }))
        .await;
    let set = json!({ "set": { "tools.exec.ask": "always" } });
    operator
        .send(
            operator
                .request(Method::PATCH, "/v1/config")
                .header("if-match", "*")
                .json(&set),
        )
        .await
        .expect(200);
    for member in ["/document/held/hash", "/configHeld/hash"] {
        let effective = operator.read(EFFECTIVE).await;
        let hash = effective.pointer(member).cloned();
        let hash = hash.unwrap_or_else(|| panic!("{member}: {effective}"));
        operator.posted(REJECT, json!({ "hash": hash })).await;
    }
    let effective = operator.read(EFFECTIVE).await;
    assert_has!(effective, {
        "security/value": "allowlist", "ask/value": "always", "configHeld": null, "document/held": null,
    });
    assert_eq!(is_denied(&server, "date").await, "denylist");
}

#[tokio::test]
async fn a_change_of_a_file_that_was_not_there_is_rejected() {
    let server = server_with_a_run().await;
    let operator = server.operator();
    let before = fs::read_to_string(server.document_path()).unwrap();
    fs::remove_file(server.document_path()).unwrap();
    assert_eq!(is_denied(&server, "date").await, "allowlist-miss");
    server.edit_document(&document(&["/**/id"]).to_string());
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    let hash = held(&operator).await["hash"].clone();
    let rejected = server.cli(&["policy", "reject"]).await;
    assert_eq!(rejected.code, Some(0), "{rejected:?}");
    rejected.says("rejected: ");
    assert_eq!(held(&operator).await, Value::Null);
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    let again = server.cli(&["policy", "reject", hash.as_str().unwrap()]).await;
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("base-hash-mismatch"), "{again:?}");
    // What it said before everything can be said again.
    operator
        .put_matching(
            "/v1/policy/document",
            "*",
            &serde_json::from_str(&before).unwrap(),
        )
        .await
        .expect(200);
    runs(&server, "date").await;
}

#[tokio::test]
async fn a_command_that_writes_itself_a_policy_gains_nothing() {
    let server = TestServer::allowlist_only().start().await;
    let work = server.scratch().dir("work");
    let (script, marks) = (work.join("build.sh"), server.scratch().join("marks"));
    let wider = work.join("wider.json");
    write_file_mode(&wider, document(&["/**"]).to_string(), 0o600);
    let text = format!(
        "#!/bin/sh\ncp {0} {1}.new\nchmod 600 {1}.new\nmv {1}.new {1}\necho done >> {2}\n",
        wider.display(),
        server.document_path().display(),
        marks.display()
    );
    write_file_mode(&script, text, 0o755);
    server
        .operator()
        .made("/v1/agents/main/allowlist", json!({ "pattern": script }))
        .await;
    let agent = server.agent();
    agent.ran(json!({ "argv": [script] })).await;
    assert_eq!(
        lines(&marks),
        ["done"],
        "the level is same-user: the command reaches the file"
    );
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    assert_ne!(held(&server.operator()).await, Value::Null);
    // Nor by taking the file away and bringing another one, nor by way of a broken one.
    fs::remove_file(server.document_path()).unwrap();
    is_denied(&server, "id").await;
    server.edit_document("{");
    assert_eq!(is_denied(&server, "id").await, "document-refused");
    server.edit_document(&document(&["/**"]).to_string());
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
}

#[tokio::test]
async fn an_allow_always_is_remembered_while_an_edit_is_held() {
    let server = TestServer::asking()
        .document(&document(&["/**/date"]))
        .start()
        .await;
    runs(&server, "date").await;
    server.edit_document(&document(&["/**/date", "/**/id"]).to_string());
    let operator = server.operator();
    let asked = server
        .accepted(json!({ "argv": ["uname"], "approvalWaitMs": 0 }))
        .await;
    operator.decided(asked.text("approvalId"), "allow-always").await;
    server.agent().finished(asked.text("runId")).await;
    eventually(
        "remembered",
        || async { server.document_on_disk()["agents"]["main"]["allowlist"].clone() },
        |entries| entries.as_array().is_some_and(|entries| entries.len() == 3),
    )
    .await;
    runs(&server, "uname").await;
    let asked = server
        .agent()
        .exec(json!({ "argv": ["id"], "approvalWaitMs": 0 }))
        .await;
    asked.expect(202);
    assert_has!(held(&operator).await, { "allows": ["agent \"main\": \"/**/id\" is allowed"] });
}

#[tokio::test]
async fn the_command_line_shows_and_accepts_a_held_edit() {
    let server = server_with_a_run().await;
    let nothing = server.cli(&["policy", "diff"]).await;
    assert_eq!(
        (nothing.code, nothing.stdout.trim()),
        (Some(0), "nothing is held"),
        "{nothing:?}"
    );
    server.edit_document(&document(&["/**/date", "/**/id"]).to_string());
    let diff = server.cli(&["policy", "diff"]).await;
    assert_eq!(diff.code, Some(0), "{diff:?}");
    diff.says("agent \"main\": \"/**/id\" is allowed");
    // As JSON it is what the server says, with what a later one may add.
    let later = way(&server, |path| match path {
        EFFECTIVE => OnTheWay::Changes(|policy| policy["document"]["held"]["later"] = json!({ "word": 1 })),
        _ => OnTheWay::Passes,
    })
    .await;
    let token = server.operator_token();
    let arguments = ["policy", "diff", "--json", "--url", &later, "--token", &token];
    let diff: Value = serde_json::from_str(&server.cli(&arguments).await.stdout).expect("one document");
    let mut edit = diff["exec-approvals.json"].clone();
    let added = edit.as_object_mut().expect("the edit").shift_remove("later");
    assert_eq!(added, Some(json!({ "word": 1 })));
    assert_eq!(edit, held(&server.operator()).await);
    let wrong = server.cli(&["policy", "accept", "00ff"]).await;
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert_eq!(is_denied(&server, "id").await, "allowlist-miss");
    let accepted = server.cli(&["policy", "accept"]).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    runs(&server, "id").await;
    let history = server.cli(&["policy", "history"]).await;
    assert!(
        history.stdout.contains("accepted a change that was held"),
        "{history:?}"
    );
    // Not from within a command.
    let inside = TestServer::finish(
        server
            .invocation(&["policy", "accept"])
            .env("OPENCLAW_SHELL", "exec"),
    )
    .await;
    assert_ne!(inside.code, Some(0), "{inside:?}");
}
