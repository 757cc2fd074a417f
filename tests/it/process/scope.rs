//! Who sees which session.

use serde_json::json;

use super::{act, start, start_with};
use crate::support::{Api, Members, TestServer};

async fn of_agent(api: &Api, agent: &str, action: &str, session: &str) -> crate::support::Answer {
    act(api, action, session, json!({ "agentId": agent })).await
}

#[tokio::test]
async fn an_agent_sees_only_its_own() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let mine = start(&api, "sleep 1000").await;
    let body = json!({ "command": "sleep 1000", "background": true, "agentId": "build" });
    let theirs = start_with(&api, body).await;
    for action in ["poll", "log", "kill", "clear", "remove", "submit"] {
        act(&api, action, &theirs, json!({}))
            .await
            .problem(404, "not-found");
        of_agent(&api, "build", action, &mine)
            .await
            .problem(404, "not-found");
    }
    for path in [
        format!("/v1/process/{theirs}"),
        format!("/v1/process/{mine}?agentId=build"),
    ] {
        api.get(&path).await.problem(404, "not-found");
    }
    let stream = api.request(reqwest::Method::GET, &format!("/v1/process/{theirs}/stream"));
    api.send(stream).await.problem(404, "not-found");
    let listed = api.read("/v1/process").await;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["items"][0]["sessionId"], mine.as_str());
    of_agent(&api, "build", "remove", &theirs).await.expect(200);
    act(&api, "remove", &mine, json!({})).await.expect(200);
}

#[tokio::test]
async fn a_token_of_other_agents_sees_nothing() {
    let server = TestServer::full().start().await;
    let mine = start(&server.agent(), "sleep 1000").await;
    let (_, bound) = server
        .token_with(json!({ "name": "bound", "scopes": ["exec"], "agents": ["build"] }))
        .await;
    act(&bound, "poll", &mine, json!({}))
        .await
        .problem(403, "forbidden");
    bound.get("/v1/process").await.problem(403, "forbidden");
    bound
        .get(&format!("/v1/process/{mine}"))
        .await
        .problem(403, "forbidden");
    of_agent(&bound, "build", "poll", &mine)
        .await
        .problem(404, "not-found");
    bound.read("/v1/process?agentId=build").await;
    act(&server.agent(), "remove", &mine, json!({})).await.expect(200);
}

#[tokio::test]
async fn readers_see_everybodys_and_filter_and_page() {
    let server = TestServer::full().start().await;
    let (agent, reader) = (server.agent(), server.operator());
    let mut ids = Vec::new();
    for agent_id in ["a", "b", "a"] {
        let body = json!({ "command": "sleep 1000", "background": true, "agentId": agent_id });
        ids.push(start_with(&agent, body).await);
    }
    of_agent(&agent, "a", "kill", &ids[0]).await.expect(200);
    let listed = |query: &'static str| {
        let reader = reader.clone();
        async move {
            let page = reader.read(&format!("/v1/process{query}")).await;
            let items = page["items"].as_array().cloned().expect("items");
            let ids: Vec<String> = items.iter().map(|one| one.text("sessionId").to_owned()).collect();
            (ids, page["nextCursor"].as_str().map(str::to_owned))
        }
    };
    let newest_first: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!(listed("").await.0, newest_first);
    assert_eq!(listed("?agentId=b").await.0, [ids[1].clone()]);
    assert_eq!(listed("?status=cancelled").await.0, [ids[0].clone()]);
    assert_eq!(listed("?status=running&agentId=a").await.0, [ids[2].clone()]);
    let (first, cursor) = listed("?limit=2").await;
    assert_eq!(first, newest_first[..2]);
    let rest = reader
        .read(&format!(
            "/v1/process?limit=2&cursor={}",
            cursor.expect("a cursor")
        ))
        .await;
    assert_eq!(rest["items"][0]["sessionId"], ids[0].as_str());
    reader
        .get("/v1/process?status=odd")
        .await
        .problem(400, "invalid-request");
    reader.read(&format!("/v1/process/{}", ids[1])).await;
    reader
        .get(&format!("/v1/process/{}?agentId=a", ids[1]))
        .await
        .problem(404, "not-found");
    // Reading is not acting.
    act(&reader, "kill", &ids[1], json!({}))
        .await
        .problem(403, "forbidden");
    of_agent(&agent, "b", "remove", &ids[1]).await.expect(200);
    of_agent(&agent, "a", "remove", &ids[2]).await.expect(200);
}

#[tokio::test]
async fn tool_policy_denies_the_tool_and_makes_runs_wait() {
    let config = json!({ "tools": {
        "exec": { "host": "gateway", "security": "full", "ask": "off" }, "deny": ["process"],
    } });
    let server = TestServer::full().config(&config).start().await;
    let api = server.agent();
    let problem = api.post("/v1/process", json!({ "action": "list" })).await;
    let problem = problem.problem(403, "tool-denied");
    problem.says("hint", "tools.deny");
    api.get("/v1/process").await.problem(403, "tool-denied");
    api.get("/v1/process/a-b-1").await.problem(403, "tool-denied");
    let ran = api.exec(json!({ "command": "echo waited", "background": true, "yieldMs": 10 }));
    assert_eq!(ran.await.expect(200)["stdout"], "waited\n");
    server.operator().read("/v1/process").await;
}
