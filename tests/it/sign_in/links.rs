//! Signing in: by a one-time link, by a token, and how it ends.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::browser::{Browser, code, code_of, set_cookie};
use crate::support::{TestServer, eventually, only};

#[tokio::test]
async fn a_link_signs_one_browser_in_with_the_rights_of_the_operator() {
    let server = TestServer::asking().start().await;
    let made = server.operator().post("/v1/login-links", json!({})).await;
    let link = made.expect(201);
    let url = link["url"].as_str().unwrap();
    assert!(
        url.starts_with(&format!("{}/login#code=", server.operator().base())),
        "{url}"
    );
    assert!(link["expiresAtMs"].is_i64());

    let answer = server
        .anonymous()
        .post("/auth/login", json!({ "code": code_of(url) }))
        .await;
    let (cookie, attributes) = set_cookie(&answer.headers);
    assert!(!cookie.is_empty());
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Strict; Max-Age=43200");
    let browser = Browser::of(server.anonymous(), &answer);
    let scopes = json!(["read", "approve", "admin"]);
    assert_eq!(
        only(&browser.login, &["name", "scopes"]),
        json!({ "name": "operator", "scopes": scopes })
    );
    let session = browser.session().await.expect(200);
    assert_eq!(
        session,
        only(&browser.login, &["name", "scopes", "expiresAtMs"]),
        "the second secret is shown once"
    );
    browser.get("/v1/approvals").await.expect(200);
    browser.get("/v1/tokens").await.expect(200);

    let again = server
        .anonymous()
        .post("/auth/login", json!({ "code": code_of(url) }))
        .await;
    again.problem(401, "unauthorized");
    assert!(!again.headers.contains_key("set-cookie"));
}
