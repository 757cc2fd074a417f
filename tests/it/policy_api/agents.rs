//! `/v1/agents` and `/v1/agents/{agentId}/policy`.

use serde_json::json;

use super::{patch, policy_events, put, tag_of};
use crate::support::{Members, TestServer, only};

#[tokio::test]
async fn agents_are_known_from_config_document_and_history() {
    let config = json!({
        "tools": { "exec": { "host": "gateway", "security": "allowlist", "ask": "on-miss" } },
        "agents": { "list": [ { "id": "configured", "tools": { "exec": { "node": "n1" } } } ] },
    });
    let document =
        json!({ "version": 1, "agents": { "*": {}, "documented": { "ask": "always" }, "no agent": {} } });
    let server = TestServer::full()
        .config(&config)
        .document(&document)
        .toml("[approvals]\nalways_reachable = true\n")
        .start()
        .await;
    server
        .accepted(json!({ "argv": ["/bin/true"], "agentId": "configured" }))
        .await;
    server
        .accepted(json!({ "argv": ["/bin/true"], "agentId": "asker" }))
        .await;
    let reader = server.operator();
    let page = reader.read("/v1/agents").await;
    let items = page.list("items");
    let told: Vec<_> = items
        .iter()
        .map(|agent| only(agent, &["agentId", "sources", "configPath", "node", "pending"]))
        .collect();
    assert_eq!(
        told,
        [
            json!({ "agentId": "asker", "sources": ["history"], "configPath": "agents.entries.asker", "node": null, "pending": 1 }),
            json!({ "agentId": "configured", "sources": ["config", "history"], "configPath": "agents.list[0]", "node": "n1", "pending": 1 }),
            json!({ "agentId": "documented", "sources": ["document"], "configPath": "agents.entries.documented", "node": null, "pending": 0 }),
        ]
    );
    assert!(items[0]["lastSeenAtMs"].is_i64() && items[2].get("lastSeenAtMs").is_none());
    let first = reader.read("/v1/agents?limit=2").await;
    let next = format!("/v1/agents?limit=2&cursor={}", first.text("nextCursor"));
    let second = reader.read(&next).await;
    assert_eq!(second["items"][0]["agentId"], "documented");
    reader.get("/v1/agents?x=1").await.problem(400, "invalid-request");
    server.agent().get("/v1/agents").await.problem(403, "forbidden");
}

#[tokio::test]
async fn an_agents_policy_is_the_four_members_as_written() {
    let document = json!({ "version": 1, "agents": {
        "build": { "security": "full", "autoAllowSkills": true, "x-kept": 1, "allowlist": [{ "pattern": "/bin/true" }] },
    } });
    let server = TestServer::full().document(&document).start().await;
    let operator = server.operator();
    let path = "/v1/agents/build/policy";
    let answer = operator.get(path).await;
    assert_eq!(
        answer.expect(200),
        json!({ "security": "full", "autoAllowSkills": true })
    );
    let tag = answer.header("etag").unwrap().to_owned();
    assert_eq!(tag, tag_of(&operator, "/v1/policy/document").await);

    let set = put(
        &operator,
        path,
        Some(&tag),
        &json!({ "ask": "always", "askFallback": "deny" }),
    )
    .await;
    assert_eq!(set.expect(200), json!({ "ask": "always", "askFallback": "deny" }));
    assert_ne!(set.header("etag"), Some(tag.as_str()));
    let agent = server.document_on_disk()["agents"]["build"].clone();
    assert_has!(agent, {
        "ask": "always", "askFallback": "deny", "security": null, "autoAllowSkills": null, "x-kept": 1,
    });
    assert_eq!(agent["allowlist"][0]["pattern"], "/bin/true");
    put(&operator, path, Some(&tag), &json!({}))
        .await
        .problem(412, "base-hash-mismatch");
    // Without a precondition, and for everybody.
    put(
        &operator,
        "/v1/agents/*/policy",
        None,
        &json!({ "security": "deny" }),
    )
    .await
    .expect(200);
    assert_eq!(
        operator.read("/v1/agents/*/policy").await,
        json!({ "security": "deny" })
    );
    let denied = server.agent().exec(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(denied.problem(403, "exec-denied")["reason"], "security-deny");
    assert_eq!(operator.read("/v1/agents/nobody/policy").await, json!({}));
    let events = policy_events(&operator).await;
    let told: Vec<_> = events
        .iter()
        .map(|event| only(event, &["what", "agentId"]))
        .collect();
    assert_eq!(
        told,
        [
            json!({ "what": "document", "agentId": "build" }),
            json!({ "what": "document", "agentId": null }),
        ]
    );
    for bad in [
        json!({ "security": "fulll" }),
        json!({ "secuirty": "full" }),
        json!({ "autoAllowSkills": "yes" }),
        json!([]),
    ] {
        put(&operator, path, None, &bad)
            .await
            .problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn nothing_is_written_under_the_old_name_of_main() {
    let config =
        json!({ "tools": { "exec": { "host": "gateway", "security": "allowlist", "ask": "on-miss" } } });
    let document = json!({ "version": 1, "agents": { "main": { "ask": "on-miss" } } });
    let server = TestServer::asking()
        .config(&config)
        .document(&document)
        .start()
        .await;
    let operator = server.operator();
    let before = operator.read("/v1/policy/document").await;
    let policy = json!({ "security": "full", "ask": "off" });
    let entry = format!("/v1/agents/default/allowlist/{}", uuid::Uuid::nil());
    let refused = [
        put(&operator, "/v1/agents/default/policy", None, &policy).await,
        put(&operator, "/v1/agents/default/policy", None, &json!({})).await,
        operator
            .post("/v1/agents/default/allowlist", json!({ "pattern": "/bin/date" }))
            .await,
        operator
            .post("/v1/agents/default/denylist", json!({ "pattern": "/bin/date" }))
            .await,
        patch(&operator, &entry, None, &json!({ "note": "mine" })).await,
        operator.delete(&entry).await,
        operator
            .post(
                "/v1/policy/preset",
                json!({ "name": "yolo", "agentId": "default" }),
            )
            .await,
    ];
    for answer in refused {
        let problem = answer.problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], "agentId", "{problem}");
        let detail = problem.text("detail");
        assert!(detail.contains("the old name of main"), "{detail}");
    }
    // An agent may be called so. It asks as itself, and what it is allowed is not remembered for another one.
    let call = json!({ "argv": ["/bin/date", "--version"] });
    server.asked(call.clone()).await;
    let mut named = call;
    named["agentId"] = json!("default");
    let asked = server.asked(named).await;
    let approval = asked.text("approvalId");
    let shown = operator.approval(approval).await;
    assert_has!(shown, {
        "agentId": "default", "allowedDecisions": ["allow-once", "deny"], "proposedPatterns": [],
    });
    operator
        .decide(approval, "allow-always")
        .await
        .problem(422, "decision-not-allowed");
    assert_eq!(
        operator.read("/v1/policy/document").await,
        before,
        "nothing was written"
    );
    let configured: serde_json::Value =
        serde_json::from_slice(&std::fs::read(server.state().join("openclaw.json")).unwrap()).unwrap();
    assert_eq!(configured, config);
}
