//! Component tests: the service, the admission, the extractors and the listeners together, over routes of their own
//! and a real ledger.
//!
//! A test here must never run a command, listen on a fixed port or sleep: it waits for conditions. Read on:
//! [`TestService`] is a service without a listener; `service.rs` has the order of checks, `listen.rs` connections,
//! `stream.rs` event streams.

mod listen;
mod service;
mod stream;

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU32,
    path::Path,
    sync::Arc,
};

use axum::{
    Extension, Router,
    body::Body,
    extract::FromRef,
    http::{Request, StatusCode, header},
    response::Response,
    routing::{get, post},
};
use http_body_util::BodyExt as _;
use serde_json::Value;

use countersign_domain::{Actor, Scope, UnixMillis};
use countersign_engine::tokens::{TokenRequest, Tokens};
use countersign_ledger::{
    Ledger, LedgerConfig, LedgerThread, PolicyStamp, PolicyWatch, Tuning,
    auth::{Rate, Throttle, ThrottleRates},
};
use countersign_sys::clock::{Clock, Ids, ManualClock, SystemIds};

use crate::{
    HttpService, Peer, Transport,
    admission::{AdmissionMiddleware, AdmissionRules, RequestSource},
    caller::{Admin, Approve, Caller, Exec},
    extract::{BodyLimit, JsonBody},
    host_header::HostNames,
    problem::Problem,
    reply::JsonReply,
    routes,
    web_origin::WebOrigins,
};

#[derive(Debug)]
struct AnyPolicy;

impl PolicyWatch for AnyPolicy {
    fn stamp(&self) -> PolicyStamp {
        PolicyStamp::default()
    }
}

#[derive(Clone)]
struct TestState {
    throttle: Arc<Throttle>,
}

impl FromRef<TestState> for Arc<Throttle> {
    fn from_ref(state: &TestState) -> Self {
        Self::clone(&state.throttle)
    }
}

impl FromRef<TestState> for BodyLimit {
    fn from_ref(_state: &TestState) -> Self {
        Self::new(64)
    }
}

/// A server without listener, with a ledger of its own.
struct TestService {
    service: HttpService,
    tokens: Arc<Tokens>,
    clock: Arc<ManualClock>,
    thread: Option<LedgerThread>,
    _directory: tempfile::TempDir,
}

impl Drop for TestService {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.stop();
        }
    }
}

impl TestService {
    fn new() -> Self {
        Self::with(|_ledger| Router::new())
    }

    /// A service with routes of the test besides its own.
    fn with(more: impl FnOnce(&Ledger) -> Router<TestState>) -> Self {
        Self::with_web(WebOrigins::default(), more)
    }

    /// A service that lets pages of this origin call.
    fn listing(origin: &str) -> Self {
        Self::with_web(WebOrigins::new(None, [&origin.to_owned()]), |_ledger| {
            Router::new()
        })
    }

    fn with_web(web: WebOrigins, more: impl FnOnce(&Ledger) -> Router<TestState>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(UnixMillis::new(1_000_000)));
        let (ledger, thread) = open_ledger(directory.path(), Arc::clone(&clock) as Arc<dyn Clock>);
        let ids: Arc<dyn Ids> = Arc::new(SystemIds);
        let more = more(&ledger);
        let tokens = Arc::new(Tokens::new(
            ledger,
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::clone(&ids),
        ));
        let rates = ThrottleRates {
            failures_per_minute: NonZeroU32::new(3),
            token: Rate::new(1, 20),
            anonymous: Rate::new(1, 10),
        };
        let rules = Arc::new(AdmissionRules {
            generation: 0,
            hosts: HostNames::new(["gate.example"]),
            web,
            transport: Transport::Plain,
            rates,
            is_trusted_proxy: Box::new(|_| false),
        });
        let state = TestState {
            throttle: Arc::new(Throttle::new(rates)),
        };
        let admission =
            AdmissionMiddleware::new(Arc::clone(&tokens), Arc::clone(&state.throttle), ids, move || {
                Arc::clone(&rules)
            });
        Self {
            service: HttpService::over(admission, routes_of_the_test().merge(more).with_state(state)),
            tokens,
            clock,
            thread: Some(thread),
            _directory: directory,
        }
    }

    async fn token(&self, scopes: &[Scope]) -> String {
        self.token_until(scopes, None).await
    }

    async fn token_until(&self, scopes: &[Scope], expires_at: Option<UnixMillis>) -> String {
        let request = TokenRequest {
            name: "test".to_owned(),
            owner: None,
            scopes: scopes.iter().copied().collect(),
            agents: None,
            groups: BTreeSet::new(),
            expires_at,
        };
        let (_token, secret) = self
            .tokens
            .create(
                &Actor::system(),
                request,
                countersign_config::settings::Widening::Apply,
            )
            .await
            .unwrap();
        secret.expose().to_owned()
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let peer = Peer::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000)));
        Answer::of(self.service.answer(peer, request).await).await
    }

    async fn get(&self, path: &str, token: Option<&str>) -> Answer {
        self.send(request("GET", path, token).body(Body::empty()).unwrap())
            .await
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: header::HeaderMap,
    body: Value,
}

impl Answer {
    async fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        }
    }

    fn code(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or("-"))
    }

    /// Status, headers by name, and the body if it is JSON.
    fn whole(&self) -> String {
        let mut lines: Vec<String> = self
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        format!("{}\n{}\n\n{}", self.status, lines.join("\n"), self.body)
    }
}

fn request(method: &str, path: &str, token: Option<&str>) -> axum::http::request::Builder {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "127.0.0.1:1");
    match token {
        Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
        None => request,
    }
}

fn open_ledger(directory: &Path, clock: Arc<dyn Clock>) -> (Ledger, LedgerThread) {
    let config = LedgerConfig {
        path: directory.join("countersign.db"),
        audit_key: directory.join("audit.key"),
        audit_head: directory.join("audit.head"),
        boot_id: "test".to_owned(),
        readers: 2,
        tuning: Tuning::default(),
    };
    Ledger::open(config, clock, Arc::new(SystemIds), Arc::new(AnyPolicy)).unwrap()
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Sum {
    numbers: Vec<u32>,
}

fn routes_of_the_test() -> Router<TestState> {
    Router::new()
        .route("/open", get(|| async { JsonReply("open") }))
        .route("/page", get(|| async { axum::response::Html("<p>hello") }))
        .route(
            "/transport",
            get(|Extension(origin): Extension<RequestSource>| async move { format!("{:?}", origin.transport) }),
        )
        .route(
            "/v1/approve",
            get(|_: Caller<Approve>| async { JsonReply("approved") }),
        )
        .route(
            "/v1/admin",
            get(|_: Caller<Admin>| async { JsonReply("changed") }),
        )
        .route("/v1/panic", get(panics))
        .route("/v1/sum", post(sum))
        .fallback(routes::unknown_path)
        .method_not_allowed_fallback(routes::unknown_method)
}

async fn panics(_: Caller<Exec>) -> StatusCode {
    panic!("a bug")
}

async fn sum(_: Caller<Exec>, JsonBody(Sum { numbers }): JsonBody<Sum>) -> Result<JsonReply<u32>, Problem> {
    Ok(JsonReply(numbers.into_iter().sum()))
}
