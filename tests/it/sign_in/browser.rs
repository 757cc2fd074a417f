//! A browser as these tests need it: it keeps one cookie and one second secret.

use reqwest::{
    Method, RequestBuilder,
    header::{COOKIE, HeaderMap, ORIGIN},
};
use serde_json::{Value, json};

use crate::support::{Answer, Api, Members, TestServer};

/// A signed-in browser.
#[derive(Debug, Clone)]
pub(super) struct Browser {
    pub(super) api: Api,
    /// The value of the cookie.
    pub(super) cookie: String,
    /// The second secret.
    pub(super) csrf: String,
    /// What the login answered.
    pub(super) login: Value,
}

/// A new code, as `POST /v1/login-links` gives it to the operator.
pub(super) async fn code(server: &TestServer) -> String {
    let link = server.operator().made("/v1/login-links", json!({})).await;
    code_of(link.text("url"))
}

/// The code in a link.
pub(super) fn code_of(url: &str) -> String {
    url.split_once("/login#code=")
        .expect("a code behind the #")
        .1
        .to_owned()
}

/// The sign-in cookie that an answer sets, with its attributes.
pub(super) fn set_cookie(headers: &HeaderMap) -> (String, String) {
    let mut values = headers.get_all("set-cookie").into_iter();
    let text = values.next().expect("Set-Cookie").to_str().expect("ASCII");
    assert!(values.next().is_none(), "one cookie only");
    let (pair, attributes) = text.split_once("; ").expect("attributes");
    let (name, value) = pair.split_once('=').expect("a name and a value");
    assert_eq!(name, "countersign_session");
    (value.to_owned(), attributes.to_owned())
}

impl Browser {
    /// Signs in with a link.
    pub(super) async fn by_link(server: &TestServer) -> Self {
        let body = json!({ "code": code(server).await });
        Self::sign_in(server, body).await
    }

    /// Signs in with the code of this link.
    pub(super) async fn by_url(server: &TestServer, url: &str) -> Self {
        Self::sign_in(server, json!({ "code": code_of(url) })).await
    }

    /// Signs in with a token.
    pub(super) async fn by_token(server: &TestServer, token: &str) -> Self {
        Self::sign_in(server, json!({ "token": token })).await
    }

    async fn sign_in(server: &TestServer, body: Value) -> Self {
        let api = server.anonymous();
        let answer = api.post("/auth/login", body).await;
        Self::of(api, &answer)
    }

    pub(super) fn of(api: Api, answer: &Answer) -> Self {
        let login = answer.expect(200);
        let (cookie, _attributes) = set_cookie(&answer.headers);
        Self {
            api,
            cookie,
            csrf: login.text("csrfToken").to_owned(),
            login,
        }
    }

    /// A request with the cookie alone.
    pub(super) fn cookie_only(&self, method: Method, path: &str) -> RequestBuilder {
        self.api
            .request(method, path)
            .header(COOKIE, format!("countersign_session={}", self.cookie))
    }

    /// A request of our page.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.cookie_only(method, path)
            .header(ORIGIN, self.api.base())
            .header("X-CSRF-Token", &self.csrf)
            .header("accept", "application/json")
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.api.send(self.request(Method::GET, path)).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Answer {
        self.api.send(self.request(Method::POST, path).json(&body)).await
    }

    pub(super) async fn session(&self) -> Answer {
        self.get("/auth/session").await
    }
}
