//! `/v1/policy/document`.

use std::fs;

use serde_json::{Value, json};

use super::{actions, policy_events, put, tag_of};
use crate::support::{Api, Members, TestServer, eventually};

const PATH: &str = "/v1/policy/document";
const MISSING: &str = "missing:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn names(server: &TestServer) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(server.state())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("exec-approvals") || name.starts_with(".exec-approvals"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_missing_document_can_be_read_and_made() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let answer = operator.get(PATH).await;
    assert_eq!(answer.expect(200), json!({ "version": 1 }));
    assert_eq!(answer.header("etag"), Some(format!("\"{MISSING}\"").as_str()));
    let new = json!({ "version": 1, "defaults": { "security": "deny" } });
    let without = put(&operator, PATH, None, &new).await;
    assert_eq!(without.problem(428, "base-hash-required")["currentHash"], MISSING);
    let made = put(&operator, PATH, Some(&format!("\"{MISSING}\"")), &new).await;
    assert_eq!(
        made.expect(200),
        json!({ "version": 1, "defaults": { "security": "deny" }, "agents": {} })
    );
    assert_eq!(made.header("etag"), Some(tag_of(&operator, PATH).await.as_str()));
    let token = server.document_on_disk()["socket"]["token"].clone();
    assert!(token.as_str().is_some_and(|token| token.len() == 32), "{token}");
    let denied = server.agent().exec(json!({ "argv": ["/bin/date"] })).await;
    assert_eq!(denied.problem(403, "exec-denied")["reason"], "security-deny");
    // The older form of the hash of nothing, which clients of the product send.
    fs::remove_file(server.document_path()).unwrap();
    let plain = MISSING.strip_prefix("missing:").unwrap();
    put(&operator, PATH, Some(&format!("\"{plain}\"")), &new)
        .await
        .expect(200);
}

#[tokio::test]
async fn what_was_read_can_be_sent_back_and_loses_nothing() {
    let document = json!({
        "version": 1,
        "socket": { "path": "~/a.sock", "token": "s3cret-token", "x-socket": 1 },
        "defaults": { "security": "full", "x-defaults": { "a": 1.50 } },
        "agents": {
            "main": { "ask": "off", "x-agent": [1], "allowlist": [
                { "id": "2f0a4a4e-0000-4000-8000-000000000001", "pattern": "/bin/a" },
                { "id": "2f0a4a4e-0000-4000-8000-000000000002", "pattern": "/bin/b", "x-entry": 1e3, "lastUsedAt": 1.5 },
            ] },
        },
        "x-root": null,
    });
    let server = TestServer::full().document(&document).start().await;
    let operator = server.operator();
    let answer = operator.get(PATH).await;
    let tag = answer.header("etag").unwrap().to_owned();
    assert!(!answer.text().contains("s3cret-token"), "{}", answer.text());
    let mut shown = answer.expect(200);
    assert_eq!(shown["socket"], json!({ "path": "~/a.sock" }));
    assert_eq!(shown["x-root"], json!(null));

    // One entry less: what is unknown in the other one is still no typing error.
    shown["agents"]["main"]["allowlist"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    let replaced = put(&operator, PATH, Some(&tag), &shown).await;
    assert!(!replaced.text().contains("s3cret-token"), "{}", replaced.text());
    replaced.expect(200);
    let on_disk = server.document_on_disk();
    assert_eq!(on_disk["socket"], document["socket"]);
    assert_eq!(on_disk["defaults"], document["defaults"]);
    assert_eq!(on_disk["x-root"], document["x-root"]);
    let entries = on_disk["agents"]["main"].list("allowlist");
    assert_eq!(entries.len(), 1);
    assert_has!(entries[0], { "pattern": "/bin/b", "x-entry": 1000.0 });

    // What the sender leaves out and cannot have typed is carried over.
    let tag = tag_of(&operator, PATH).await;
    let plain = json!({ "version": 1, "agents": { "main": { "ask": "always" } } });
    put(&operator, PATH, Some(&tag), &plain).await.expect(200);
    let on_disk = server.document_on_disk();
    assert_has!(on_disk, { "agents/main": { "ask": "always", "x-agent": [1] } });
    assert_eq!(on_disk["socket"]["token"], "s3cret-token");
    assert_eq!(on_disk["defaults"], json!({ "x-defaults": { "a": 1.50 } }));
}

#[tokio::test]
async fn of_two_writers_who_saw_the_same_one_is_refused() {
    let server = TestServer::full().agents(&json!({})).start().await;
    let operator = server.operator();
    let tag = tag_of(&operator, PATH).await;
    let write = |agent: &'static str| {
        let (operator, tag) = (operator.clone(), tag.clone());
        async move {
            let new = json!({ "version": 1, "agents": { agent: { "security": "deny" } } });
            put(&operator, PATH, Some(&tag), &new).await
        }
    };
    let (one, other) = tokio::join!(write("a"), write("b"));
    let (won, lost) = if one.status == 200 {
        (one, other)
    } else {
        (other, one)
    };
    won.expect(200);
    let problem = lost.problem(412, "base-hash-mismatch");
    let current = problem.text("currentHash");
    assert_eq!(won.header("etag"), Some(format!("\"{current}\"").as_str()));
    assert_eq!(server.document_on_disk()["agents"], won.json()["agents"]);
}

#[tokio::test]
async fn preconditions_are_those_of_the_standard() {
    let server = TestServer::full().agents(&json!({})).start().await;
    let operator = server.operator();
    let body = |ask: &str| json!({ "version": 1, "defaults": { "ask": ask }, "agents": {} });
    let tag = tag_of(&operator, PATH).await;
    for (if_match, status, code) in [
        (format!("W/{tag}"), 412, "base-hash-mismatch"),
        ("\"00\"".to_owned(), 412, "base-hash-mismatch"),
        ("\"00\", W/\"11\"".to_owned(), 412, "base-hash-mismatch"),
        (format!("{tag}x"), 400, "invalid-request"),
        (format!("*, {tag}"), 400, "invalid-request"),
        (String::new(), 400, "invalid-request"),
    ] {
        put(&operator, PATH, Some(&if_match), &body("always"))
            .await
            .problem(status, code);
    }
    assert_eq!(tag_of(&operator, PATH).await, tag);
    put(&operator, PATH, Some(&format!("\"00\", {tag}")), &body("always"))
        .await
        .expect(200);
    put(&operator, PATH, Some("*"), &body("off")).await.expect(200);
    let bare = tag_of(&operator, PATH).await.replace('"', "");
    put(&operator, PATH, Some(&bare), &body("on-miss"))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_replacement_is_recorded_and_told_of_once() {
    let server = TestServer::full().agents(&json!({})).start().await;
    let operator = server.operator();
    let tag = tag_of(&operator, PATH).await;
    let new = json!({ "version": 1, "defaults": { "security": "deny" }, "agents": {} });
    let replaced = put(&operator, PATH, Some(&tag), &new).await;
    let hash = replaced.header("etag").unwrap().replace('"', "");
    let same = put(&operator, PATH, Some(&format!("\"{hash}\"")), &new).await;
    same.expect(200);
    // Looking at the policy would tell of a change that was not told of before.
    server.denied(json!({ "argv": ["/bin/date"] })).await;
    let events = policy_events(&operator).await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_has!(events[0], { "what": "document", "hash": hash });
    assert_eq!(events[0]["by"]["kind"], "token");
    let records = operator.read("/v1/audit?action=document.replaced").await;
    let record = &records["items"][0];
    assert_eq!(record["target"], json!({ "kind": "policy", "id": "document" }));
    assert_eq!(
        record["detail"],
        json!({ "previousHash": tag.replace('"', ""), "hash": hash, "forced": false })
    );
    assert_eq!(record["actor"]["kind"], "token");
    assert_eq!(
        actions(&operator)
            .await
            .iter()
            .filter(|action| *action == "document.replaced")
            .count(),
        1
    );
    assert_eq!(operator.read("/v1/audit/verify").await["ok"], true);
}

#[tokio::test]
async fn a_refused_document_stays_until_it_is_replaced_by_force() {
    let broken = r#"{ "version": 1, "agents": { "main": { "security": "fulll" } } }"#;
    let server = TestServer::full().document_text(broken).start().await;
    let operator = server.operator();
    let problem = operator.get(PATH).await.problem(409, "document-refused");
    assert_has!(problem, { "reason": "value", "pointer": "/agents/main/security" });
    let tag = format!("\"{}\"", problem.text("currentHash"));
    let new = json!({ "version": 1, "agents": { "main": { "security": "allowlist" } } });
    put(&operator, PATH, None, &new)
        .await
        .problem(428, "base-hash-required");
    put(&operator, PATH, Some(&tag), &new)
        .await
        .problem(409, "document-refused");
    let forced = "/v1/policy/document?force=true";
    put(&operator, forced, None, &new)
        .await
        .problem(428, "base-hash-required");
    put(&operator, forced, Some("\"00\""), &new)
        .await
        .problem(412, "base-hash-mismatch");
    // Nobody can have seen it, so `*` does not name it.
    put(&operator, forced, Some("*"), &new)
        .await
        .problem(412, "base-hash-mismatch");
    let typo = json!({ "version": 1, "agnets": {} });
    put(&operator, forced, Some(&tag), &typo)
        .await
        .problem(422, "unknown-field");
    assert_eq!(fs::read_to_string(server.document_path()).unwrap(), broken);
    assert_eq!(names(&server), ["exec-approvals.json"]);

    put(&operator, forced, Some(&tag), &new).await.expect(200);
    assert_eq!(server.document_on_disk()["agents"], new["agents"]);
    let kept = names(&server);
    let kept: Vec<_> = kept.iter().filter(|name| name.contains(".refused-")).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::read_to_string(server.state().join(kept[0])).unwrap(), broken);
    let records = operator.read("/v1/audit?action=document.replaced").await;
    assert_eq!(records["items"][0]["detail"]["forced"], true);
    // With nothing to force it is an ordinary replacement, and as careful.
    put(&operator, forced, Some(&tag), &new)
        .await
        .problem(412, "base-hash-mismatch");
    let tag = tag_of(&operator, PATH).await;
    put(&operator, forced, Some(&tag), &new).await.expect(200);
    operator
        .get("/v1/policy/document?force=maybe")
        .await
        .problem(400, "invalid-request");
    put(&operator, "/v1/policy/document?force=1", Some(&tag), &new)
        .await
        .problem(400, "invalid-request");
}

#[tokio::test]
async fn a_document_behind_a_link_is_not_even_forced() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let elsewhere = server.scratch().join("elsewhere.json");
    crate::support::write_file_mode(&elsewhere, r#"{ "version": 1 }"#, 0o600);
    std::os::unix::fs::symlink(&elsewhere, server.document_path()).unwrap();
    let problem = operator.get(PATH).await.problem(409, "document-refused");
    assert_eq!(problem["reason"], "symlink");
    let tag = format!("\"{}\"", problem.text("currentHash"));
    let new = json!({ "version": 1, "defaults": { "security": "full" } });
    put(&operator, "/v1/policy/document?force=true", Some(&tag), &new)
        .await
        .problem(409, "document-refused");
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), r#"{ "version": 1 }"#);
}

#[tokio::test]
async fn accepting_says_what_is_in_force() {
    let server = TestServer::full().agents(&json!({})).start().await;
    let operator = server.operator();
    let hash = tag_of(&operator, PATH).await.replace('"', "");
    let path = "/v1/policy/document/accept";
    let accepted = operator.posted(path, json!({ "hash": hash })).await;
    assert_eq!(accepted, json!({ "status": "ok", "hash": hash, "warnings": [] }));
    let refused = operator.post(path, json!({ "hash": "00" })).await;
    assert_eq!(refused.problem(412, "base-hash-mismatch")["currentHash"], hash);
    operator
        .post(path, json!({}))
        .await
        .problem(400, "invalid-request");
    server.edit_document("{");
    let refused = operator.post(path, json!({ "hash": hash })).await;
    assert_eq!(refused.problem(409, "document-refused")["reason"], "json");
}

/// Launches and replacements race; whatever ran was allowed by the document of its moment.
#[tokio::test]
async fn no_run_starts_under_a_document_that_was_replaced() {
    let server = TestServer::full().agents(&json!({})).start().await;
    let operator = server.operator();
    let deny = json!({ "version": 1, "defaults": { "security": "deny" }, "agents": {} });
    let open = json!({ "version": 1, "agents": {} });
    for _round in 0..5 {
        let tag = tag_of(&operator, PATH).await;
        let runs = async {
            let mut statuses = Vec::new();
            for _ in 0..5 {
                statuses.push(server.agent().exec(json!({ "argv": ["/bin/true"] })).await.status);
            }
            statuses
        };
        let (statuses, replaced) = tokio::join!(runs, put(&operator, PATH, Some(&tag), &deny));
        replaced.expect(200);
        // Once denied, always denied: no launch went by an older document than one before it.
        let first_denied = statuses
            .iter()
            .position(|status| *status == 403)
            .unwrap_or(statuses.len());
        assert!(
            statuses[first_denied..].iter().all(|status| *status == 403),
            "{statuses:?}"
        );
        let after = server.agent().exec(json!({ "argv": ["/bin/true"] })).await;
        after.problem(403, "exec-denied");
        let tag = replaced.header("etag").unwrap();
        put(&operator, PATH, Some(tag), &open).await.expect(200);
        assert_eq!(
            server.agent().exec(json!({ "argv": ["/bin/true"] })).await.status,
            200
        );
    }
}

/// A question that was asked under the old document is decided by the new one.
#[tokio::test]
async fn an_approved_run_does_not_start_when_the_document_became_stricter() {
    let server = TestServer::asking().agents(&json!({})).start().await;
    let operator = server.operator();
    let pending = server.accepted(json!({ "argv": ["/bin/echo", "x"] })).await;
    let tag = tag_of(&operator, PATH).await;
    let deny = json!({ "version": 1, "defaults": { "security": "deny" }, "agents": {} });
    put(&operator, PATH, Some(&tag), &deny).await.expect(200);
    operator.decide(pending.text("approvalId"), "allow-once").await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "denied", "{run}");
}

#[tokio::test]
async fn an_edit_from_outside_is_still_told_of() {
    let server = TestServer::full().agents(&json!({})).start().await;
    let operator = server.operator();
    let tag = tag_of(&operator, PATH).await;
    let new = json!({ "version": 1, "defaults": { "security": "deny" }, "agents": {} });
    put(&operator, PATH, Some(&tag), &new).await.expect(200);
    server.edit_document(r#"{ "version": 1, "agents": {} }"#);
    let told = eventually(
        "told of twice",
        || async {
            server.agent().exec(json!({ "argv": ["/bin/true"] })).await;
            policy_events(&operator).await
        },
        |events: &Vec<Value>| events.len() == 2,
    )
    .await;
    assert!(
        told[0]["by"].is_object() && told[1].get("by").is_none(),
        "{told:#?}"
    );
}

#[tokio::test]
async fn only_an_admin_sees_or_changes_it() {
    let server = TestServer::full().start().await;
    let reader: Api = server
        .token_with(json!({ "name": "r", "scopes": ["read", "approve"] }))
        .await
        .1;
    reader.get(PATH).await.problem(403, "forbidden");
    server.agent().get(PATH).await.problem(403, "forbidden");
    put(&reader, PATH, Some("*"), &json!({ "version": 1 }))
        .await
        .problem(403, "forbidden");
    reader
        .post("/v1/policy/preset", json!({ "name": "yolo" }))
        .await
        .problem(403, "forbidden");
    server.anonymous().get(PATH).await.problem(401, "unauthorized");
}
