//! How long sessions that have ended are kept.

use serde_json::json;

use super::{act, ended, list, one, start};
use crate::support::{Members, TestServer};

#[tokio::test]
async fn fifty_that_ended_are_kept_and_the_running_ones_besides() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let running = start(&api, "sleep 1000").await;
    let mut ids = Vec::new();
    for _ in 0..53 {
        let id = start(&api, "true").await;
        ended(&api, &id).await;
        ids.push(id);
    }
    let listed: Vec<String> = list(&api)
        .await
        .iter()
        .map(|one| one.text("sessionId").to_owned())
        .collect();
    assert_eq!(listed.len(), 51);
    assert!(listed.contains(&running));
    for old in &ids[..3] {
        act(&api, "log", old, json!({})).await.problem(404, "not-found");
    }
    // What was forgotten to make room does not come back when there is room.
    act(&api, "clear", &ids[52], json!({})).await.expect(200);
    assert_eq!(list(&api).await.len(), 50);
    act(&api, "poll", &ids[2], json!({}))
        .await
        .problem(404, "not-found");
    act(&api, "remove", &running, json!({})).await.expect(200);
}

#[tokio::test]
async fn two_million_characters_are_kept_and_the_newest_whatever_it_wrote() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let mut ids = Vec::new();
    for _ in 0..11 {
        let id = start(&api, "head -c 300000 /dev/zero | tr '\\0' x").await;
        ended(&api, &id).await;
        ids.push(id);
    }
    let listed: Vec<String> = list(&api)
        .await
        .iter()
        .map(|one| one.text("sessionId").to_owned())
        .collect();
    let kept: Vec<String> = ids[1..].iter().rev().cloned().collect();
    assert_eq!(listed, kept, "ten with 200,000 characters each");
}

#[tokio::test]
async fn sessions_go_after_their_time() {
    let config = json!({ "tools": { "exec": {
        "host": "gateway", "security": "full", "ask": "off", "cleanupMs": 60_000,
    } } });
    let mut server = TestServer::full().config(&config).start().await;
    let id = start(&server.agent(), "echo here").await;
    ended(&server.agent(), &id).await;
    assert_eq!(server.stop().await, Some(0));
    server.start().await;
    assert_eq!(one(&server.agent(), &id).await["tail"], "here\n");
    assert_eq!(server.stop().await, Some(0));
    server.start_with(&[("COUNTERSIGN_TEST_DAYS_AHEAD", "1")]).await;
    act(&server.agent(), "log", &id, json!({}))
        .await
        .problem(404, "not-found");
    assert!(list(&server.agent()).await.is_empty());
}
