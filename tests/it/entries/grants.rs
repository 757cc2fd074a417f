//! Limited entries: their limits count, exactly once for each run, and say so when they are over.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Api, Members, TestServer, eventually, lines, within, write_file_mode};

const ID: &str = "6f2f1a52-9c35-4f3f-9a63-0c2a4f5ad0bb";
const ENTRY: &str = "/v1/agents/main/allowlist/6f2f1a52-9c35-4f3f-9a63-0c2a4f5ad0bb";

/// Points around the transaction that counts, and around what follows it.
const POINTS: &[&str] = &[
    "engine.before-launch",
    "engine.launched",
    "engine.before-start",
    "engine.frame-sent",
    "sup.fence-written",
    "sup.child-started",
    "engine.exit-received",
    "engine.finished",
];

/// Asks under a key until somebody answers, starting the server again when it dies over it.
async fn run_with_key(server: &mut TestServer, key: &str, body: &Value) -> u16 {
    loop {
        let request = server
            .agent()
            .request(Method::POST, "/v1/exec")
            .header("Idempotency-Key", key)
            .json(body);
        match within("an answer or the end", Api::try_send(request)).await {
            Ok(answer) => return answer.status,
            Err(_died) => {
                server.wait_killed().await;
                server.start().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_use_is_counted_once_for_each_run_wherever_the_server_dies() {
    for point in POINTS {
        let mut server = TestServer::allowlist_only().prepare();
        let directory = server.scratch().dir("work");
        let (program, file) = (directory.join("program"), directory.join("lines"));
        write_file_mode(&program, "#!/bin/sh\necho ran >> \"$1\"\n", 0o755);
        let document = json!({ "version": 1, "agents": { "main": { "grants": [
            { "id": ID, "pattern": program, "maxUses": 2 },
        ] } } });
        write_file_mode(&server.document_path(), document.to_string(), 0o600);
        let kill = format!("{point}:1");
        server
            .start_with(&[("COUNTERSIGN_TEST_KILL", kill.as_str())])
            .await;
        let body = json!({ "argv": [program, file], "workdir": directory });
        let mut statuses = Vec::new();
        for key in ["one", "two", "three", "four"] {
            statuses.push(run_with_key(&mut server, key, &body).await);
        }
        assert_eq!(&statuses[2..], [403, 403], "{point}: {statuses:?}");
        let entry = server.operator().read(ENTRY).await;
        assert_has!(entry, { "uses": 2, "maxUses": 2, "state": "used-up" }, "{point}");
        assert!(lines(&file).len() <= 2, "{point}: {:?}", lines(&file));
        let runs = server.operator().read("/v1/runs").await;
        let started = runs
            .list("items")
            .iter()
            .filter(|run| run["status"] != "denied")
            .count();
        assert_eq!(started, 2, "{point}: {runs}");
        // The same keys again are the same runs, and use up nothing.
        for key in ["one", "two"] {
            run_with_key(&mut server, key, &body).await;
        }
        assert_eq!(server.operator().read(ENTRY).await["uses"], 2, "{point}");
    }
}

#[tokio::test]
async fn uses_are_copied_into_the_document_for_people() {
    let server = TestServer::allowlist_only()
        .agents(&json!({ "main": { "grants": [
            { "id": ID, "pattern": "/usr/bin/true", "maxUses": 5 },
        ] } }))
        .start()
        .await;
    let mut events = server.operator().events("?types=allowlist.changed", None).await;
    server.ran(json!({ "argv": ["/usr/bin/true"] })).await;
    let noted = || async { server.document_on_disk()["agents"]["main"]["grants"][0]["uses"].clone() };
    eventually("the copy", noted, |uses| *uses == json!(1)).await;
    let told = events.next_of("allowlist.changed").await;
    assert_has!(told.data, { "change": "used", "list": "grants", "entryId": ID, "agentId": "main" });
    assert!(
        server.document_on_disk()["agents"]["main"]
            .get("allowlist")
            .is_none()
    );
}

#[tokio::test]
async fn a_limit_that_is_reached_is_told_and_covers_nothing() {
    let server = TestServer::allowlist_only().prepare();
    let directory = server.scratch().dir("work");
    let pinned = directory.join("pinned");
    write_file_mode(&pinned, "#!/bin/sh\n", 0o755);
    let document = json!({ "version": 1, "agents": { "main": { "grants": [
        { "pattern": "/usr/bin/date", "expiresAtMs": 1 },
        { "pattern": "/usr/bin/id", "maxUses": 1 },
        { "pattern": pinned, "sha256": "00".repeat(32) },
    ] } } });
    write_file_mode(&server.document_path(), document.to_string(), 0o600);
    let mut server = server;
    server.start().await;
    server.ran(json!({ "argv": ["id"] })).await;
    for (argv, why) in [
        (json!(["date"]), "the grant for this has expired"),
        (json!(["id"]), "the grant for this is used up"),
        (
            json!([pinned]),
            "the grant for this is bound to another content of the file",
        ),
    ] {
        let explained = server.agent().explain(json!({ "argv": argv })).await;
        assert_eq!(explained["reason"], "allowlist-miss", "{explained}");
        assert_eq!(explained["analysis"]["findings"][0]["detail"], why);
        let denied = server.agent().exec(json!({ "argv": argv })).await;
        assert_eq!(denied.problem(403, "exec-denied")["detail"], why, "{argv}");
    }
    let listed = server.operator().read("/v1/agents/main/allowlist").await;
    let states: Vec<&Value> = listed.list("items").iter().map(|item| &item["state"]).collect();
    assert_eq!(states, ["expired", "used-up", "active"]);
}
