//! What a signed-in browser may do, how it shows, and how it ends.

use reqwest::Method;
use serde_json::{Value, json};

use super::browser::{Browser, code, set_cookie};
use crate::support::{EventStream, Members, TestServer, only, within};

async fn events(browser: &Browser) -> EventStream {
    let request = browser
        .request(Method::GET, "/v1/events")
        .header("accept", "text/event-stream");
    let response = within("the stream", request.send()).await.expect("the stream");
    assert_eq!(response.status().as_u16(), 200);
    EventStream::new(response)
}

#[tokio::test]
async fn a_decision_at_a_browser_is_the_sessions() {
    let server = TestServer::asking().start().await;
    let browser = Browser::by_link(&server).await;
    let pending = server.accepted(json!({ "argv": ["/bin/echo", "hi"] })).await;
    let approval = pending.text("approvalId");
    let path = format!("/v1/approvals/{approval}/decision");
    let decided = browser
        .post(&path, json!({ "decision": "allow-once" }))
        .await
        .expect(200);
    let by = &decided["approval"]["resolvedBy"];
    assert_eq!(
        only(by, &["kind", "name"]),
        json!({ "kind": "session", "name": "operator" })
    );
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "completed");
    let query = "/v1/audit?action=exec.approval.resolved";
    let record = server.operator().read(query).await["items"][0].clone();
    assert_eq!(record["actor"]["id"], by["id"]);
    assert_eq!(record["actor"]["kind"], "session");
}

#[tokio::test]
async fn an_approver_at_a_browser_can_be_reached_while_it_listens() {
    let server = TestServer::asking()
        .without_toml()
        .toml("[exec]\nlogin_path = false\n")
        .start()
        .await;
    let call = json!({ "argv": ["/bin/echo", "hi"] });
    server.denied(call.clone()).await;
    let browser = Browser::by_link(&server).await;
    let mut stream = events(&browser).await;
    let pending = server.accepted(call).await;
    let asked = stream.next_of("exec.approval.requested").await;
    assert_eq!(asked.data["approvalId"], pending["approvalId"]);
}

#[tokio::test]
async fn signing_out_ends_this_session_and_no_other() {
    let server = TestServer::full().start().await;
    let (one, other) = (Browser::by_link(&server).await, Browser::by_link(&server).await);
    let answer = one.post("/auth/logout", json!({})).await;
    answer.expect(204);
    let (cookie, attributes) = set_cookie(&answer.headers);
    assert_eq!(
        (cookie.as_str(), attributes.as_str()),
        ("", "Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
    );
    one.session().await.problem(401, "unauthorized");
    one.get("/v1/runs").await.problem(401, "unauthorized");
    other.session().await.expect(200);
    // Whoever is signed out stays so.
    one.post("/auth/logout", json!({})).await.expect(204);
    server
        .anonymous()
        .post("/auth/logout", json!({}))
        .await
        .expect(204);
}

#[tokio::test]
async fn a_stream_sends_nothing_more_once_its_session_has_ended() {
    let server = TestServer::full().start().await;
    let browser = Browser::by_link(&server).await;
    let mut stream = events(&browser).await;
    let exec = || async { server.ran(json!({ "argv": ["/bin/true"] })).await };
    exec().await;
    stream.next_of("exec.finished").await;
    browser.post("/auth/logout", json!({})).await.expect(204);
    exec().await;
    assert_eq!(stream.next_or_end().await, None);
}

#[tokio::test]
async fn signing_in_again_ends_the_session_before() {
    let server = TestServer::full().start().await;
    let before = Browser::by_link(&server).await;
    let again = before
        .request(Method::POST, "/auth/login")
        .json(&json!({ "code": code(&server).await }));
    let after = Browser::of(before.api.clone(), &before.api.send(again).await);
    assert_ne!(after.cookie, before.cookie);
    after.session().await.expect(200);
    before.session().await.problem(401, "unauthorized");
}

#[tokio::test]
async fn the_session_is_for_browsers_and_not_for_tokens() {
    let server = TestServer::full().start().await;
    server
        .operator()
        .get("/auth/session")
        .await
        .problem(401, "unauthorized");
    server
        .anonymous()
        .get("/auth/session")
        .await
        .problem(401, "unauthorized");
}

#[tokio::test]
async fn a_browser_that_stands_for_an_agents_token_sees_what_that_token_asked_for() {
    let server = TestServer::full().start().await;
    let browser = Browser::by_token(&server, &server.gateway_token()).await;
    assert_eq!(browser.login["scopes"], json!(["exec"]));
    let by_token = server.ran(json!({ "argv": ["/bin/echo", "a"] })).await;
    let call = |key: &str| {
        browser
            .request(Method::POST, "/v1/exec")
            .header("Idempotency-Key", key)
            .json(&json!({ "argv": ["/bin/echo", "b"] }))
    };
    let by_browser = browser.api.send(call("k")).await.expect(200);
    assert_eq!(
        browser.api.send(call("k")).await.expect(200)["runId"],
        by_browser["runId"]
    );

    let (_, other) = server
        .token_with(json!({ "name": "other", "scopes": ["exec"] }))
        .await;
    let other_run = other.ran(json!({ "argv": ["/bin/echo", "c"] })).await;
    let ids = |list: Value| -> Vec<String> {
        let runs = list.list("items").iter();
        runs.map(|run| run.text("runId").to_owned()).collect()
    };
    let expected = [&by_browser, &by_token].map(|run| run.text("runId").to_owned());
    assert_eq!(ids(browser.get("/v1/runs").await.expect(200)), expected);
    assert_eq!(ids(server.agent().read("/v1/runs").await), expected);
    let path = format!("/v1/runs/{}", other_run.text("runId"));
    browser.get(&path).await.problem(404, "not-found");
    let page = browser
        .get("/v1/events?types=exec.finished&after=0")
        .await
        .expect(200);
    assert_eq!(page.list("items").len(), 2);
    let run = browser
        .get(&format!("/v1/runs/{}", expected[0]))
        .await
        .expect(200);
    assert_eq!(run["requestedBy"]["kind"], "session");
}
