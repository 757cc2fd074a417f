//! The HTTP client of the tests.

use bytes::Bytes;
use reqwest::{
    Method, RequestBuilder,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, RANGE},
};
use serde_json::{Value, json};

use super::{EventStream, Invocation, eventually, run_program, within};

/// The API as one caller sees it.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

/// One answer, whole.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Api {
    pub(crate) fn new(base: &str, token: Option<String>) -> Self {
        countersign_config::tls::install_provider();
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client without TLS");
        Self {
            http,
            base: base.to_owned(),
            token,
        }
    }

    /// The same server with another token, or none.
    pub(crate) fn with_token(&self, token: Option<&str>) -> Self {
        Self {
            token: token.map(str::to_owned),
            ..self.clone()
        }
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The same server and token by way of another client.
    pub(crate) fn by_way_of(&self, http: reqwest::Client) -> Self {
        Self { http, ..self.clone() }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request and reads the answer; panics when none comes.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        within("an answer", Self::try_send(request))
            .await
            .expect("an answer")
    }

    /// Sends a request to a server that may die over it.
    pub(crate) async fn try_send(request: RequestBuilder) -> Result<Answer, reqwest::Error> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer {
            status,
            headers,
            bytes: response.bytes().await?,
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path).header(ACCEPT, "application/json"))
            .await
    }

    /// Bytes as they are, or a range of them.
    pub(crate) async fn get_bytes(&self, path: &str, range: Option<&str>) -> Answer {
        let request = self.request(Method::GET, path);
        self.send(match range {
            Some(range) => request.header(RANGE, range),
            None => request,
        })
        .await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::PATCH, path).json(&body)).await
    }

    /// Replaces what has this tag, or anything with `*`.
    pub(crate) async fn put_matching(&self, path: &str, tag: &str, body: &Value) -> Answer {
        let request = self.request(Method::PUT, path).header("If-Match", tag);
        self.send(request.json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn exec(&self, body: Value) -> Answer {
        self.post("/v1/exec", body).await
    }

    pub(crate) async fn exec_with_key(&self, key: &str, body: Value) -> Answer {
        self.send(
            self.request(Method::POST, "/v1/exec")
                .header("Idempotency-Key", key)
                .json(&body),
        )
        .await
    }

    pub(crate) async fn decide(&self, approval: &str, decision: &str) -> Answer {
        self.post(
            &format!("/v1/approvals/{approval}/decision"),
            json!({ "decision": decision }),
        )
        .await
    }

    pub(crate) async fn run(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}")).await.expect(200)
    }

    /// Waits until a run is final and returns it.
    pub(crate) async fn finished(&self, run: &str) -> Value {
        let is_final = |run: &Value| {
            matches!(
                run["status"].as_str(),
                Some("completed" | "failed" | "denied" | "cancelled" | "lost")
            )
        };
        eventually("final", || self.run(run), is_final).await
    }

    /// All pending approvals.
    pub(crate) async fn pending(&self) -> Vec<Value> {
        let list = self.get("/v1/approvals").await.expect(200);
        list["items"].as_array().cloned().expect("items of approvals")
    }

    /// Opens the event stream; `query` begins with `?` or is empty.
    pub(crate) async fn events(&self, query: &str, last_event_id: Option<u64>) -> EventStream {
        let mut request = self
            .request(Method::GET, &format!("/v1/events{query}"))
            .header(ACCEPT, "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("Last-Event-ID", id.to_string());
        }
        let response = within("the event stream", request.send())
            .await
            .expect("the event stream");
        assert_eq!(response.status().as_u16(), 200, "event stream: {response:?}");
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        assert_eq!(
            kind.as_ref().and_then(|kind| kind.to_str().ok()),
            Some("text/event-stream")
        );
        EventStream::new(response)
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// The problem document of an answer that must be this problem, in the form that all have.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.json();
        assert_eq!(
            (self.status, problem["code"].as_str()),
            (status, Some(code)),
            "wanted {status} {code}, got {} {}",
            self.status,
            self.text()
        );
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["type"], format!("/docs#{code}"), "{problem}");
        assert!(problem["retryable"].is_boolean(), "{problem}");
        for member in ["title", "detail", "instance"] {
            assert!(
                problem[member].as_str().is_some_and(|text| !text.is_empty()),
                "{member} in {problem}"
            );
        }
        expect_hint(&problem["hint"]);
        problem
    }
}

/// The object without some members: those that differ from run to run.
#[track_caller]
pub(crate) fn without(object: &Value, members: &[&str]) -> Value {
    let mut object = object
        .as_object()
        .unwrap_or_else(|| panic!("an object: {object}"))
        .clone();
    for member in members {
        assert!(
            object.shift_remove(*member).is_some(),
            "{member} is missing in {object:?}"
        );
    }
    Value::Object(object)
}

/// The object's named members only, null where one is missing.
pub(crate) fn only(object: &Value, members: &[&str]) -> Value {
    members
        .iter()
        .map(|member| ((*member).to_owned(), object[*member].clone()))
        .collect()
}

/// A hint, where there is one, is a command of the program and nothing else.
#[track_caller]
pub(crate) fn expect_hint(hint: &Value) {
    if hint.is_null() {
        return;
    }
    let hint = hint.as_str().expect("a hint is text");
    // A shell takes it apart, as it does when a person pastes it.
    let print = format!("printf '%s\\0' {hint}");
    let words = run_program(&Invocation::new("/bin/sh").args(&["-c", &print])).stdout;
    let words: Vec<String> = words.split_terminator('\0').map(str::to_owned).collect();
    assert_eq!(words.first().map(String::as_str), Some("countersign"), "{hint}");
    if let Err(wrong) = countersign::cli::expect_usage(&words[1..]) {
        panic!("{hint}: {wrong}");
    }
}
