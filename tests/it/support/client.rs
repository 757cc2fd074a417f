//! The HTTP client of the tests.

use std::panic::Location;

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

    /// What there is at a path.
    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> impl Future<Output = Value> {
        expecting(200, self.get(path))
    }

    /// Posts what is done at once; the answer.
    #[track_caller]
    pub(crate) fn posted(&self, path: &str, body: Value) -> impl Future<Output = Value> {
        expecting(200, self.post(path, body))
    }

    /// Makes something new at a path; the answer.
    #[track_caller]
    pub(crate) fn made(&self, path: &str, body: Value) -> impl Future<Output = Value> {
        expecting(201, self.post(path, body))
    }

    /// Removes what is at a path.
    #[track_caller]
    pub(crate) fn removed(&self, path: &str) -> impl Future<Output = Value> {
        expecting(204, self.delete(path))
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

    /// Has something run to its end; the answer.
    #[track_caller]
    pub(crate) fn ran(&self, body: Value) -> impl Future<Output = Value> {
        expecting(200, self.exec(body))
    }

    /// Asks for something that goes on in the background, or that a person is asked about; the answer.
    #[track_caller]
    pub(crate) fn accepted(&self, body: Value) -> impl Future<Output = Value> {
        expecting(202, self.exec(body))
    }

    /// Asks for something that the policy denies; the problem.
    #[track_caller]
    pub(crate) fn denied(&self, body: Value) -> impl Future<Output = Value> {
        denied(self.exec(body))
    }

    /// What the policy says to a request that is not made.
    #[track_caller]
    pub(crate) fn explain(&self, body: Value) -> impl Future<Output = Value> {
        expecting(200, self.post("/v1/exec/explain", body))
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

    /// Decides what nobody has decided; the answer.
    #[track_caller]
    pub(crate) fn decided(&self, approval: &str, decision: &str) -> impl Future<Output = Value> {
        expecting(200, self.decide(approval, decision))
    }

    #[track_caller]
    pub(crate) fn approval(&self, approval: &str) -> impl Future<Output = Value> {
        let path = format!("/v1/approvals/{approval}");
        expecting(200, async move { self.get(&path).await })
    }

    #[track_caller]
    pub(crate) fn run(&self, run: &str) -> impl Future<Output = Value> {
        let path = format!("/v1/runs/{run}");
        expecting(200, async move { self.get(&path).await })
    }

    #[track_caller]
    pub(crate) fn cancel(&self, run: &str) -> impl Future<Output = Value> {
        let path = format!("/v1/runs/{run}/cancel");
        expecting(200, async move { self.post(&path, json!({})).await })
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

    /// All pending approvals, once there is one.
    #[track_caller]
    pub(crate) fn waiting(&self) -> impl Future<Output = Vec<Value>> {
        eventually("asked", || self.pending(), |pending| !pending.is_empty())
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

/// The body of an answer that must have this status.
#[track_caller]
pub(super) fn expecting(status: u16, answer: impl Future<Output = Answer>) -> impl Future<Output = Value> {
    let caller = Location::caller();
    async move {
        let answer = answer.await;
        assert_eq!(answer.status, status, "{caller}: {}", answer.text());
        answer.json()
    }
}

/// The problem of an answer that must say that the policy denies.
#[track_caller]
pub(super) fn denied(answer: impl Future<Output = Answer>) -> impl Future<Output = Value> {
    let caller = Location::caller();
    async move {
        let answer = answer.await;
        assert_eq!(answer.status, 403, "{caller}: {}", answer.text());
        answer.problem(403, "exec-denied")
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
