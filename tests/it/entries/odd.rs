//! Odd rules are told where they are written, and by doctor.

use reqwest::Method;
use serde_json::{Value, json};

use super::findings;
use crate::support::{Members, TestServer};

fn codes(entry: &Value) -> Vec<String> {
    let warnings = entry.list("warnings");
    for warning in warnings {
        assert!(!warning.text("message").is_empty());
    }
    let code = |warning: &Value| warning.text("code").to_owned();
    warnings.iter().map(code).collect()
}

#[tokio::test]
async fn whoever_writes_a_rule_is_told_what_is_odd_about_it() {
    let server = TestServer::allowlist_only().start().await;
    let operator = server.operator();
    let list = "/v1/agents/main/allowlist";
    for (body, expect) in [
        (json!({ "pattern": "/usr/bin/true" }), vec![]),
        (json!({ "pattern": "/usr/bin/python3" }), vec!["interpreter"]),
        (json!({ "pattern": "/usr/bin/sh" }), vec!["needs-arguments"]),
        (json!({ "pattern": "/usr/bin/env" }), vec!["never-matches"]),
        (
            json!({ "pattern": "/tmp/**" }),
            vec!["too-broad", "writable-directory"],
        ),
        (json!({ "pattern": "/no/such/program" }), vec!["missing-file"]),
        (json!({ "pattern": "/usr/bin/tru*" }), vec![]),
        (
            json!({ "pattern": "/usr/bin/true", "argPattern": "^x$" }),
            vec!["shadowed"],
        ),
        (json!({ "pattern": "*" }), vec!["too-broad"]),
        (json!({ "pattern": "date" }), vec!["shadowed"]),
        (
            json!({ "pattern": "/usr/bin/id", "maxUses": 3 }),
            vec!["shadowed"],
        ),
    ] {
        let entry = operator.made(list, body.clone()).await;
        assert_eq!(codes(&entry), expect, "{body}");
        let path = format!("{list}/{}", entry.text("id"));
        assert_eq!(operator.read(&path).await["warnings"], entry["warnings"]);
    }
    let over = json!({ "pattern": "/usr/bin/id", "expiresAtMs": 1 });
    let over = operator.made(list, over).await;
    assert_eq!(codes(&over), ["expired", "shadowed"]);
    // The list says the same of each, page by page.
    let mut next = format!("{list}?limit=5");
    let mut listed = 0;
    loop {
        let page = operator.read(&next).await;
        for item in page.list("items") {
            let path = format!("{list}/{}", item.text("id"));
            assert_eq!(*item, operator.read(&path).await);
            listed += 1;
        }
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        next = format!("{list}?limit=5&cursor={cursor}");
    }
    assert_eq!(listed, 12);
    let deny = "/v1/agents/*/denylist";
    let rule = operator.made(deny, json!({ "pattern": "rm" })).await;
    assert!(rule.get("warnings").is_none(), "{rule}");
    let rule = operator.made(deny, json!({ "pattern": "*" })).await;
    assert_eq!(codes(&rule), ["too-broad"]);
    let entry = operator.made(list, json!({ "pattern": "/usr/bin/wc" })).await;
    assert_eq!(codes(&entry), ["shadowed", "denied"]);
}

#[tokio::test]
async fn a_document_and_a_preset_are_answered_with_what_is_odd() {
    let server = TestServer::allowlist_only().start().await;
    let operator = server.operator();
    let path = "/v1/policy/document";
    let put = async |document: Value| {
        let tag = operator.get(path).await.header("etag").unwrap().to_owned();
        let request = operator
            .request(Method::PUT, path)
            .json(&document)
            .header("If-Match", tag);
        operator.send(request).await
    };
    let sound =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/usr/bin/true" }] } } });
    let answer = put(sound).await;
    answer.expect(200);
    assert_eq!(answer.header("countersign-warnings"), None);
    let odd = json!({ "version": 1, "agents": {
        "*": { "allowlist": [{ "pattern": "*" }] },
        "main": { "allowlist": [{ "pattern": "/usr/bin/../x" }], "grants": [
            { "pattern": "/usr/bin/true", "expiresAtMs": 1 },
        ] },
    } });
    let answer = put(odd).await;
    answer.expect(200);
    assert_eq!(
        answer.header("countersign-warnings"),
        Some("never-matches, shadowed, too-broad, expired")
    );
    let preset = operator
        .posted("/v1/policy/preset", json!({ "name": "cautious" }))
        .await;
    assert_eq!(
        codes(&preset),
        ["never-matches", "shadowed", "too-broad", "expired"]
    );

    let broad = findings(&server, "rule-too-broad").await;
    assert_has!(broad[0], { "severity": "warning", "fixable": false });
    broad[0].says("explanation", "\"*\" of agent \"*\"");
    for id in ["rule-never-matches", "rule-shadowed", "grant-expired"] {
        assert_eq!(findings(&server, id).await.len(), 1, "{id}");
    }
}

#[tokio::test]
async fn the_command_line_shows_the_warnings() {
    let server = TestServer::allowlist_only().start().await;
    let added = server.cli(&["allowlist", "add", "*"]).await;
    added.says("it covers every program there is");
    let denied = server.cli(&["denylist", "add", "*"]).await;
    assert!(denied.stdout.contains("it denies every command"), "{denied:?}");
}

#[tokio::test]
async fn doctor_names_safe_bins_that_are_none() {
    let exec = json!({ "host": "gateway", "security": "allowlist", "safeBins": ["cut", "jq", "column"] });
    let server = TestServer::allowlist_only().exec(&exec).start().await;
    assert_eq!(findings(&server, "safe-bin-refused").await.len(), 1);
    assert_eq!(findings(&server, "safe-bin-without-profile").await.len(), 1);
}
