//! `/v1/agents` and `/v1/agents/{agentId}/policy`.

use serde_json::json;

use super::{policy_events, put, tag_of};
use crate::support::{TestServer, only};

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
        .agent()
        .exec(json!({ "argv": ["/bin/true"], "agentId": "configured" }))
        .await
        .expect(202);
    server
        .agent()
        .exec(json!({ "argv": ["/bin/true"], "agentId": "asker" }))
        .await
        .expect(202);
    let reader = server.operator();
    let page = reader.get("/v1/agents").await.expect(200);
    let items = page["items"].as_array().unwrap();
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
    let first = reader.get("/v1/agents?limit=2").await.expect(200);
    let next = format!(
        "/v1/agents?limit=2&cursor={}",
        first["nextCursor"].as_str().unwrap()
    );
    let second = reader.get(&next).await.expect(200);
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
    assert_eq!(
        only(
            &agent,
            &["ask", "askFallback", "security", "autoAllowSkills", "x-kept"]
        ),
        json!({ "ask": "always", "askFallback": "deny", "security": null, "autoAllowSkills": null, "x-kept": 1 })
    );
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
        operator.get("/v1/agents/*/policy").await.expect(200),
        json!({ "security": "deny" })
    );
    let denied = server.agent().exec(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(denied.problem(403, "exec-denied")["reason"], "security-deny");
    assert_eq!(
        operator.get("/v1/agents/nobody/policy").await.expect(200),
        json!({})
    );
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
