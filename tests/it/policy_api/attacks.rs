//! Bodies, paths and places that are meant to do more than they say.

use std::fs;

use reqwest::{Method, header::CONTENT_TYPE};
use serde_json::{Value, json};

use super::{patch, put, tag_of};
use crate::support::{Answer, Api, Scratch, SmallDisk, TestServer};

const DOCUMENT: &str = "/v1/policy/document";
const CONFIG: &str = "/v1/config";

async fn send_text(
    api: &Api,
    method: Method,
    path: &str,
    tag: &str,
    text: impl Into<reqwest::Body>,
) -> Answer {
    let request = api
        .request(method, path)
        .header("If-Match", tag)
        .header(CONTENT_TYPE, "application/json")
        .body(text);
    api.send(request).await
}

#[tokio::test]
async fn hostile_documents_change_nothing() {
    let server = TestServer::full().agents(&json!({})).start().await;
    let operator = server.operator();
    let tag = tag_of(&operator, DOCUMENT).await;
    let deep = format!(
        "{{\"version\":1,\"x\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let cases: Vec<(Vec<u8>, &str, &str)> = vec![
        (
            br#"{"version":1,"defaults":{"security":"deny","security":"full"}}"#.to_vec(),
            "duplicate-key",
            "security",
        ),
        (deep.into_bytes(), "json", ""),
        (br#"{"version":1,"x":NaN}"#.to_vec(), "json", ""),
        (br#"{"version":1,"x":1e999}"#.to_vec(), "number-range", "/x"),
        (b"\xef\xbb\xbf{\"version\":1}".to_vec(), "bom", ""),
        (b"{\"version\":1,\"x\":\"\xff\"}".to_vec(), "not-utf8", ""),
        (b"".to_vec(), "empty", ""),
        (b"[]".to_vec(), "not-object", ""),
        (br#"{"version":2}"#.to_vec(), "version", "/version"),
        (br#"{"version":1}{}"#.to_vec(), "json", ""),
        (
            br#"{"version":1,// }
        }"#
            .to_vec(),
            "json",
            "",
        ),
        (
            br#"{"version":1,"defaults":{"security":null}}"#.to_vec(),
            "type",
            "/defaults/security",
        ),
        (
            br#"{"version":1,"defaults":{"security":"fulll"}}"#.to_vec(),
            "value",
            "/defaults/security",
        ),
        (
            br#"{"version":1,"agents":{"__proto__":{"security":"full"}}}"#.to_vec(),
            "value",
            "/agents/__proto__",
        ),
        (
            br#"{"version":1,"agents":{"a":{"allowlist":[{"pattern":" "}]}}}"#.to_vec(),
            "blank-pattern",
            "/agents/a/allowlist/0/pattern",
        ),
    ];
    for (body, reason, pointer) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let problem = send_text(&operator, Method::PUT, DOCUMENT, &tag, body)
            .await
            .problem(422, "invalid-document");
        assert_has!(problem, { "reason": reason, "pointer": pointer }, "{shown}: {problem}");
    }
    for (body, pointer) in [
        (json!({ "version": 1, "defualts": {} }), "/defualts"),
        (
            json!({ "version": 1, "defaults": { "secuirty": "deny" } }),
            "/defaults/secuirty",
        ),
        (json!({ "version": 1, "socket": { "tokn": "x" } }), "/socket/tokn"),
        (
            json!({ "version": 1, "agents": { "a/b": { "denylist": [{ "pattern": "x", "why": 1 }] } } }),
            "/agents/a~1b/denylist/0/why",
        ),
        (
            json!({ "version": 1, "__proto__": { "security": "full" } }),
            "/__proto__",
        ),
    ] {
        let problem = put(&operator, DOCUMENT, Some(&tag), &body)
            .await
            .problem(422, "unknown-field");
        assert_eq!(problem["pointer"], pointer, "{problem}");
        assert_eq!(problem["fields"][0]["path"], pointer, "{problem}");
    }
    let large = format!("{{\"version\":1,\"x\":\"{}\"}}", "x".repeat(16 * 1024 * 1024));
    send_text(&operator, Method::PUT, DOCUMENT, &tag, large)
        .await
        .problem(413, "body-too-large");
    let request = operator
        .request(Method::PUT, DOCUMENT)
        .header("If-Match", &tag)
        .header(CONTENT_TYPE, "text/plain")
        .body("{\"version\":1}");
    operator
        .send(request)
        .await
        .problem(415, "unsupported-media-type");
    assert_eq!(tag_of(&operator, DOCUMENT).await, tag);
    assert_eq!(server.document_on_disk(), json!({ "version": 1, "agents": {} }));
}

#[tokio::test]
async fn a_sent_token_replaces_the_socket_token_and_is_never_shown() {
    let document =
        json!({ "version": 1, "socket": { "path": "/s", "token": "old-token-value" }, "agents": {} });
    let server = TestServer::full().document(&document).start().await;
    let operator = server.operator();
    let tag = tag_of(&operator, DOCUMENT).await;
    let sent = json!({ "version": 1, "socket": { "token": "new-token-value" }, "agents": {} });
    let answer = put(&operator, DOCUMENT, Some(&tag), &sent).await;
    assert_eq!(answer.expect(200)["socket"], json!({ "path": "/s" }));
    assert!(!answer.text().contains("token-value"));
    assert_has!(server.document_on_disk(), { "socket": { "path": "/s", "token": "new-token-value" } });
    let audit = operator.get("/v1/audit?limit=500").await.text();
    assert!(!audit.contains("token-value") && !server.log().contains("token-value"));
}

#[tokio::test]
async fn paths_of_agents_lead_nowhere_else() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    for agent in [
        "..%2f..%2fetc",
        "%2e%2e",
        "a%2fb",
        "__proto__",
        "a%00",
        "-a",
        "%2a%2a",
        "x%0ay",
    ] {
        for resource in ["policy", "denylist", "allowlist"] {
            let path = format!("/v1/agents/{agent}/{resource}");
            let answer = operator.get(&path).await;
            assert!(
                matches!(answer.status, 400 | 404),
                "{path}: {} {}",
                answer.status,
                answer.text()
            );
        }
        put(
            &operator,
            &format!("/v1/agents/{agent}/policy"),
            None,
            &json!({ "security": "full" }),
        )
        .await;
    }
    assert!(!server.document_path().exists(), "nothing was written");
}

#[tokio::test]
async fn keys_that_are_not_ours_are_out_of_reach() {
    let config = json!({
        "gateway": { "auth": { "token": "product-secret" } },
        "tools": { "web": { "a": 1 }, "exec": { "host": "gateway", "reviewer": { "model": "m" } } },
        "agents": { "list": [ { "id": "a", "model": "m" } ], "defaults": { "model": "m" } },
    });
    let server = TestServer::full().config(&config).start().await;
    let operator = server.operator();
    let shown = operator.get(CONFIG).await;
    assert!(
        !shown.text().contains("product-secret"),
        "only our keys are shown"
    );
    let tag = shown.header("etag").unwrap().to_owned();
    for path in [
        "gateway.auth.token",
        "gateway",
        "tools",
        "tools.web",
        "tools.exec",
        "tools.exec.reviewer",
        "tools.exec.reviewer.model",
        "agents",
        "agents.list",
        "agents.list[0]",
        "agents.list[0].model",
        "agents.defaults",
        "agents.defaults.model",
        "http.listen",
        "auth.failures_per_minute",
        "__proto__.polluted",
        "constructor.prototype.x",
        "agents.entries.__proto__.workspace",
        "commands.allowFrom.__proto__",
        "agents.list[99999999999].id",
    ] {
        for body in [json!({ "set": { path: "x" } }), json!({ "unset": [path] })] {
            // What is not there and could be ours is nothing to take away.
            if body.get("unset").is_some() && (path.contains("allowFrom") || path.ends_with("workspace")) {
                continue;
            }
            let answer = patch(&operator, CONFIG, Some(&tag), &body).await;
            if answer.status == 200 {
                assert!(
                    body.get("unset").is_some() && path.contains("[99999999999]"),
                    "{body}"
                );
                continue;
            }
            answer.problem(400, "invalid-request");
        }
    }
    patch(
        &operator,
        CONFIG,
        Some(&tag),
        &json!({ "set": { "commands.allowFrom": { "__proto__": ["x"] } } }),
    )
    .await
    .problem(400, "invalid-request");
    let on_disk: Value =
        serde_json::from_slice(&fs::read(server.state().join("openclaw.json")).unwrap()).unwrap();
    assert_eq!(on_disk, config);
}

#[tokio::test]
async fn hostile_changes_of_the_configuration_change_nothing() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let tag = tag_of(&operator, CONFIG).await;
    let deep = format!(
        "{{\"set\":{{\"commands.allowFrom\":{}1{}}}}}",
        "{\"a\":".repeat(200),
        "}".repeat(200)
    );
    for body in [
        r#"{"set":{"tools.exec.ask":"always","tools.exec.ask":"off"}}"#.to_owned(),
        r#"{"set":{"commands.allowFrom":{"a":["x"],"a":[]}}}"#.to_owned(),
        r#"{"set":{},"set":{"tools.exec.ask":"off"}}"#.to_owned(),
        r#"{"sets":{}}"#.to_owned(),
        r#"{"set":[]}"#.to_owned(),
        r#"{"unset":{"tools.exec.ask":1}}"#.to_owned(),
        r#"{"set":{"tools.exec.timeoutSec":NaN}}"#.to_owned(),
        deep,
        format!("{{\"unset\":[{}\"x\"]}}", "\"tools.exec.ask\",".repeat(1001)),
    ] {
        let answer = send_text(&operator, Method::PATCH, CONFIG, &tag, body.clone()).await;
        assert_eq!(
            answer.status,
            400,
            "{}: {}",
            &body[..body.len().min(80)],
            answer.text()
        );
    }
    let answer = operator.get(CONFIG).await;
    assert_eq!(answer.header("etag"), Some(tag.as_str()));
}

#[tokio::test]
async fn a_full_disk_leaves_both_files_whole() {
    let place = Scratch::new();
    let disk_at = place.dir("disk");
    let disk = or_skip!(SmallDisk::mount(&disk_at));
    // The ledger and the configuration lie elsewhere and have all the room they need.
    let path = disk_at.join("exec-approvals.json");
    let server = TestServer::asking_with(&format!("path = {path:?}")).start().await;
    let operator = server.operator();
    operator
        .made("/v1/agents/main/allowlist", json!({ "pattern": "/bin/true" }))
        .await;
    let document = fs::read(&path).unwrap();
    let config = fs::read(server.state().join("openclaw.json")).unwrap();
    let tag = tag_of(&operator, DOCUMENT).await;
    disk.fill();
    let new = json!({ "version": 1, "defaults": { "security": "full" }, "agents": {} });
    put(&operator, DOCUMENT, Some(&tag), &new)
        .await
        .problem(507, "storage-full");
    operator
        .post("/v1/policy/preset", json!({ "name": "yolo" }))
        .await
        .problem(507, "storage-full");
    assert_eq!(fs::read(&path).unwrap(), document);
    assert_eq!(fs::read(server.state().join("openclaw.json")).unwrap(), config);
    assert!(!server.state().join("countersign/preset.json").exists());
    disk.make_room();
    operator
        .posted("/v1/policy/preset", json!({ "name": "deny-all" }))
        .await;
    drop(server);
    drop(disk);
}
