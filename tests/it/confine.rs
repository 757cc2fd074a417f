//! What entries let their programs do (`docs/confine.md`): where it is said, and where it does not count.

use serde_json::{Value, json};

use crate::support::{Api, Members, ServerBuilder, TestServer, assert_says, skip};

fn entry(confine: &Value) -> Value {
    json!([{ "pattern": "/**/git", "confine": confine }])
}

async fn explained(server: &TestServer, command: &str) -> Value {
    let body = json!({ "command": command });
    server.agent().post("/v1/exec/explain", body).await.expect(200)
}

fn asking(confine: &Value) -> ServerBuilder {
    TestServer::asking().allowlist(&entry(confine))
}

/// Whether the kernel of the test keeps everything.
fn keeps_all() -> bool {
    let version = countersign_sys::landlock::version();
    if version < countersign_sys::landlock::PORTS_SINCE {
        skip("a kernel with Landlock 4");
        return false;
    }
    true
}

#[tokio::test]
async fn an_explanation_says_what_would_be_kept() {
    if !keeps_all() {
        return;
    }
    let confine = json!({ "starts": ["/usr/bin/env"], "writes": ["workspace", "tmp"], "connects": [22] });
    let server = asking(&confine).start().await;
    let explained = explained(&server, "git --version").await;
    assert_has!(explained, { "outcome": "run" });
    assert_eq!(
        explained["confined"],
        "git may start: env; may write: workspace, tmp; may connect to: 22"
    );
    let program = &explained["confinement"]["programs"][0];
    assert_has!(program, { "program": "git", "writes": ["workspace", "tmp"], "connects": [22] });
    assert_eq!(program["starts"].as_array().map(Vec::len), Some(1));
    let run = server.ran(json!({ "command": "git --version" })).await;
    let run = server
        .operator()
        .read(&format!("/v1/runs/{}", run.text("runId")))
        .await;
    assert_eq!(run["confined"], explained["confined"]);
    assert_eq!(run["confinement"], explained["confinement"]);
}

#[tokio::test]
async fn an_entry_whose_confine_cannot_be_kept_does_not_cover() {
    if !keeps_all() {
        return;
    }
    let members = [
        ("starts", json!([]), 1),
        ("writes", json!(["workspace"]), 3),
        ("connects", json!([22]), 4),
    ];
    for version in [0, 1, 3, 4, 6] {
        for (name, value, since) in &members {
            let confine = json!({ *name: value });
            let off = format!("landlock-{version}");
            let server = asking(&confine)
                .env("COUNTERSIGN_TEST_PROTECTION_OFF", &off)
                .start()
                .await;
            let explained = explained(&server, "git --version").await;
            let found = &explained["analysis"]["findings"][0]["code"];
            if version >= *since {
                assert_has!(explained, { "outcome": "run" }, "{name} under {off}");
            } else {
                assert_has!(explained, { "outcome": "ask" }, "{name} under {off}");
                assert_eq!(found, "confine-unavailable", "{name} under {off}");
                assert_eq!(explained["wouldPersist"], json!([]));
            }
        }
    }
}

#[tokio::test]
async fn the_text_counts_alone_where_the_settings_say_so() {
    let server = asking(&json!({ "starts": [] }))
        .exec(&json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "confineFallback": "text" }))
        .env("COUNTERSIGN_TEST_PROTECTION_OFF", "landlock-0")
        .start()
        .await;
    let covered = explained(&server, "git --version").await;
    assert_has!(covered, { "outcome": "run", "confined": "not held: the kernel cannot" });
    let asked = explained(&server, "git -c alias.x=!id x").await;
    assert_has!(asked, { "outcome": "ask" }, "the rule about arguments is in effect");
}

#[tokio::test]
async fn what_is_not_understood_is_kept_and_covers_nothing() {
    let server = asking(&json!({ "starts": [], "reads": ["/etc"] })).start().await;
    let asked = explained(&server, "git --version").await;
    assert_has!(asked, { "outcome": "ask" });
    assert_eq!(asked["analysis"]["findings"][0]["code"], "confine-unavailable");
    let list = "/v1/agents/main/allowlist";
    let listed = server.operator().read(list).await;
    let shown = &listed["items"][0];
    assert_eq!(shown["confine"], json!({ "starts": [], "reads": ["/etc"] }));
    let id = shown.text("id");
    // Another change of the entry leaves it as it is.
    let changed = server
        .operator()
        .patch(&format!("{list}/{id}"), json!({ "note": "kept" }))
        .await
        .expect(200);
    assert_eq!(changed["confine"], shown["confine"]);
    let on_disk = server.document_on_disk();
    let written = &on_disk["agents"]["main"]["allowlist"][0];
    assert_eq!(written["confine"], shown["confine"]);
}

/// A run of `find` with these words.
async fn found(server: &TestServer, words: &[&str]) -> Value {
    let argv = [&["find", ".", "-maxdepth", "0"], words].concat();
    let ran = server.ran(json!({ "argv": argv })).await;
    server
        .operator()
        .read(&format!("/v1/runs/{}", ran.text("runId")))
        .await
}

#[tokio::test]
async fn a_run_tells_which_programs_were_started_and_refused() {
    if !keeps_all() {
        return;
    }
    // It tries to start `touch`, `touch` again, and `id`.
    let starting = ["touch", "touch", "id"]
        .map(|name| ["-exec", name, "marker", ";"])
        .concat();
    let started_with = async |observe: bool, confine: &Value, words: &[&str]| {
        let allowlist = json!([{ "pattern": "/**/find", "confine": confine }]);
        let exec =
            json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "observe": observe });
        let server = TestServer::asking()
            .exec(&exec)
            .allowlist(&allowlist)
            .start()
            .await;
        let run = found(&server, words).await;
        (server, run)
    };
    let (server, run) = started_with(true, &json!({ "starts": ["touch"] }), &starting).await;
    let names = |list: &Value| -> Vec<String> {
        let paths = list.as_array().expect("a list").iter();
        let name = |path: &Value| {
            path.as_str()
                .and_then(|path| path.rsplit('/').next())
                .map(str::to_owned)
        };
        paths.filter_map(name).collect()
    };
    assert_eq!(names(&run["observed"]["started"]), ["touch"], "{run}");
    assert_eq!(names(&run["observed"]["refused"]), ["id"], "{run}");
    let shown = server.invocation(&["runs", "show", run.text("runId")]);
    let shown = TestServer::finish(shown).await;
    assert_says(&shown.stdout, run["observed"].text("line"));
    // What was not observed is not told, whether it was refused or not.
    let (_server, run) = started_with(false, &json!({ "starts": ["touch"] }), &starting).await;
    assert_eq!(run["observed"], Value::Null);
    // Where no starts are limited there is nothing to observe.
    let (_server, run) = started_with(true, &json!({ "starts": "any", "writes": ["workspace"] }), &[]).await;
    assert_eq!(run["observed"], Value::Null, "{run}");
}

/// The server that is started again does not know what the kernel lets the run start, so it tells nothing of it.
#[tokio::test]
async fn of_a_run_that_outlives_the_server_nothing_is_told_to_be_refused() {
    if !keeps_all() {
        return;
    }
    let confine = json!({ "starts": ["head", "touch"] });
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "observe": true });
    let mut server = TestServer::asking()
        .exec(&exec)
        .allowlist(&json!([{ "pattern": "/**/find", "confine": confine, "input": true }]))
        .start()
        .await;
    let argv = json!([
        "find",
        ".",
        "-maxdepth",
        "0",
        "-exec",
        "head",
        "-n1",
        ";",
        "-exec",
        "touch",
        "marker",
        ";"
    ]);
    let started = server.accepted(json!({ "argv": argv, "background": true })).await;
    server.crash_and_restart().await;
    let line = json!({ "action": "write", "sessionId": started.text("sessionId"), "data": "on\n" });
    server.agent().posted("/v1/process", line).await;
    let ended = server.agent().finished(started.text("runId")).await;
    assert_has!(ended, { "status": "completed", "exitCode": 0, "stdout": "on\n" });
    assert_eq!(ended["observed"], Value::Null, "{ended}");
}

async fn add(api: &Api, confine: Value) -> Value {
    let body = json!({ "pattern": "/**/git", "confine": confine });
    api.post("/v1/agents/main/allowlist", body).await.json()
}

#[tokio::test]
async fn the_api_takes_what_it_understands() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let added = add(
        &operator,
        json!({ "starts": ["judged", "ssh"], "connects": [22] }),
    )
    .await;
    assert_eq!(
        added["confine"],
        json!({ "starts": ["judged", "ssh"], "connects": [22] })
    );
    for confine in [
        json!({ "reads": [] }),
        json!({ "starts": ["a/b"] }),
        json!({ "connects": [0] }),
    ] {
        let refused = add(&operator, confine.clone()).await;
        assert_eq!(refused["code"], "invalid-request", "{confine}: {refused}");
    }
    let entry = format!("/v1/agents/main/allowlist/{}", added.text("id"));
    let changed = operator
        .patch(&entry, json!({ "confine": { "starts": [] } }))
        .await
        .expect(200);
    assert_eq!(changed["confine"], json!({ "starts": [] }));
    let removed = operator
        .patch(&entry, json!({ "confine": null }))
        .await
        .expect(200);
    assert_eq!(removed["confine"], Value::Null);
    let cli = server
        .cli(&[
            "allowlist",
            "add",
            "/usr/bin/git",
            "--starts",
            "judged,ssh",
            "--writes",
            "workspace",
            "--json",
        ])
        .await;
    assert!(cli.stdout.contains("\"judged\""), "{cli:?}");
}

#[tokio::test]
async fn an_approval_does_not_cover_another_confine() {
    if !keeps_all() {
        return;
    }
    let server = TestServer::asking()
        .exec(&json!({ "host": "gateway", "security": "allowlist", "ask": "always" }))
        .allowlist(&entry(&json!({ "connects": [22] })))
        .start()
        .await;
    let pending = server.asked(json!({ "command": "git --version" })).await;
    let approval = format!("/v1/approvals/{}", pending.text("approvalId"));
    let card = server.operator().read(&approval).await;
    assert!(card.text("confined").contains("may connect to: 22"), "{card}");
    let listed = server.operator().read("/v1/agents/main/allowlist").await;
    let path = format!("/v1/agents/main/allowlist/{}", listed["items"][0].text("id"));
    let narrower = json!({ "confine": { "connects": [] } });
    server.operator().patch(&path, narrower).await.expect(200);
    let after = server.answered_beside_an_edit(&pending, "allow-once").await;
    assert_has!(after, { "status": "denied", "reason": "binding-mismatch" });
}
