//! What the card, the explanation, the record and the log say about how firmly a run is what was judged.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Members, TestServer, assert_says, write_file, write_file_mode};

async fn check(server: &TestServer, body: Value, expected: &str) {
    let explained = server.agent().explain(body.clone()).await;
    assert_eq!(explained["binding"], expected, "{body}: {explained}");
    let pending = server.accepted(body.clone()).await;
    let approval = pending.text("approvalId");
    let card = server.operator().approval(approval).await;
    assert_eq!(card["binding"], expected, "{body}: {card}");
    assert_eq!(card["bindingDetail"], explained["bindingDetail"], "{body}");
    let run = server.agent().run(pending.text("runId")).await;
    assert_eq!(run["binding"], expected, "{body}: {run}");
    server.operator().decided(approval, "deny").await;
}

#[tokio::test]
async fn a_binding_is_called_what_it_is() {
    let config = json!({ "host": "gateway", "security": "allowlist", "ask": "always" });
    let server = TestServer::asking().exec(&config).start().await;
    let directory = server.scratch().dir("work");
    fs::create_dir(directory.join("sub")).unwrap();
    let script = directory.join("tool");
    write_file_mode(&script, "#!/bin/sh\necho\n", 0o755);
    write_file(&directory.join("x.py"), "print()\n");
    let text = |command: &str| json!({ "command": command, "workdir": directory });
    for (body, expected) in [
        (json!({ "argv": ["/usr/bin/wc", "-l"] }), "exact"),
        (text("wc -l"), "exact"),
        (text("LC_ALL=C wc -l"), "exact"),
        (text("cat x.py | wc -l && echo yes || pwd"), "exact"),
        (text("cd sub && pwd && cat x"), "exact"),
        // Found once more, after the check.
        (text("cd nowhere && pwd"), "path"),
        (text("wc x.py; cd sub && pwd"), "path"),
        (text("timeout 5 wc x.py"), "path"),
        (text("cat x.py | nice wc"), "path"),
        (text("sh -c 'wc x.py'"), "path"),
        (text("./tool"), "exact"),
        (text("timeout 5 ./tool"), "path"),
        (text("python3 x.py"), "path"),
        (text("find . -exec wc {} +"), "path"),
        (json!({ "argv": [script] }), "exact"),
        // A shell's to read.
        (text("wc -l > x"), "text"),
        (text("echo $HOME"), "text"),
    ] {
        check(&server, body, expected).await;
    }
}

#[tokio::test]
async fn under_full_a_list_of_arguments_is_exact_and_a_text_is_a_text() {
    let config = json!({ "host": "gateway", "security": "full", "ask": "off" });
    let server = TestServer::asking().exec(&config).start().await;
    let script = server.scratch().join("tool");
    write_file_mode(&script, "#!/bin/sh\n", 0o755);
    for (body, expected) in [
        (json!({ "argv": ["true"] }), "exact"),
        (json!({ "argv": ["timeout", "5", "true"] }), "path"),
        (json!({ "argv": ["python3", "-c", ""] }), "path"),
        (json!({ "argv": [script] }), "path"),
        (json!({ "command": "true" }), "text"),
    ] {
        let run = server.ran(body.clone()).await;
        let record = server.agent().run(run.text("runId")).await;
        assert_eq!(record["binding"], expected, "{body}: {record}");
    }
    let audit = server.operator().read("/v1/audit").await.to_string();
    assert_says(&audit, "\"binding\":\"exact\"");
    assert_says(&audit, "\"binding\":\"text\"");
}

#[tokio::test]
async fn what_was_denied_at_once_pins_nothing() {
    let server = TestServer::allowlist_only().start().await;
    let denied = server
        .agent()
        .exec(json!({ "command": "touch x" }))
        .await
        .expect(403);
    let record = server.agent().run(denied.text("runId")).await;
    assert_eq!(record.get("binding"), None, "{record}");
    let explained = server
        .agent()
        .post("/v1/exec/explain", json!({ "command": "touch x" }))
        .await;
    assert_eq!(explained.expect(200).get("binding"), None);
}
