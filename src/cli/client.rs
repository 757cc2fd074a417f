//! Talks to the server over HTTP, on its Unix socket or a URL.

use std::{ops::Deref, path::PathBuf, time::Duration};

use reqwest::{Method, Url, header};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _, IgnoredAny},
};
use serde_json::Value;
use tokio::time::Instant;

use countersign_domain::Secret;
use countersign_wire::page::Page;

use super::{failure::Failure, short_id, sse::EventStream};

/// An answer that says "wait" is at most ten minutes away (`approvalWaitMs`, `yieldMs`); everything else is quick.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const LONG_ANSWER_TIMEOUT: Duration = Duration::from_mins(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that restarts is back within this time; a pending approval survives that.
pub(super) const SERVER_RETURN: Duration = Duration::from_secs(30);

/// Decides whether a call with a key is sent again: what a server took goes on without its caller, and the same key joins
/// it, on the next server too.
#[derive(Debug, Default)]
pub(super) struct Resending {
    broke_at: Option<Instant>,
}

impl Resending {
    /// Whether to send the call again after this failure.
    pub(super) fn may_join(&mut self, failure: &Failure) -> bool {
        // Before a connection broke nothing was taken: there is no server, or one that stops.
        let was_taken = self.broke_at.is_some() || failure.code == "connection-lost";
        was_taken
            && failure.is_no_connection()
            && self.broke_at.get_or_insert_with(Instant::now).elapsed() <= SERVER_RETURN
    }
}

/// What makes a certificate trusted.
const TRUST: &str = "a private authority is trusted with SSL_CERT_FILE=/path/to/ca.pem; otherwise the URL must have \
                     the name in the certificate";

/// A query of names and values.
pub(crate) type Query = Vec<(&'static str, String)>;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A Unix socket that was checked.
    Socket(PathBuf),
    Url(String),
}

/// A server and the token it is shown.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<Secret>,
    place: String,
}

/// How long an answer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    /// The server answers at once.
    Quick,
    /// The server waits for a command or a person.
    Long,
}

/// What ends with its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndsWithCaller {
    /// The question to a person. What they allowed goes on.
    Question,
    /// The question, and the run as well.
    Run,
}

impl EndsWithCaller {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Run => "run",
        }
    }
}

impl Client {
    /// A client for one address. Nothing is sent yet.
    pub(crate) fn new(address: &Address, token: Secret) -> Result<Self, Failure> {
        let anonymous = Self::anonymous(address)?;
        Ok(Self {
            token: Some(token),
            ..anonymous
        })
    }

    /// A client for what a server tells anybody.
    pub(crate) fn anonymous(address: &Address) -> Result<Self, Failure> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // A token is for the server, not for a proxy or for where an answer points.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        let (base, place) = match address {
            Address::Socket(path) => {
                builder = builder.unix_socket(path.as_path());
                ("http://localhost/".to_owned(), path.display().to_string())
            }
            Address::Url(url) => (url.clone(), url.clone()),
        };
        let base = Url::parse(&base)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                Failure::usage(format!("{place} is not an http:// or https:// URL"))
                    .hint("countersign --url http://127.0.0.1:18790 status")
            })?;
        if base.scheme() == "http" {
            // Nothing is there to verify, and the authorities of the system need not be read or even be there.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| {
            let cause = root_cause(&error);
            let failure = Failure::new("client", format!("the HTTP client cannot be made: {cause}"));
            if base.scheme() == "https" {
                failure.advice(TRUST)
            } else {
                failure
            }
        })?;
        Ok(Self {
            http,
            base,
            token: None,
            place,
        })
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &Query) -> Result<T, Failure> {
        self.json(self.request(Method::GET, path, query)?, WaitPolicy::Quick)
            .await
    }

    /// Reads a resource with its `ETag`.
    pub(crate) async fn get_tagged<T: DeserializeOwned>(
        &self,
        path: &[&str],
    ) -> Result<(T, Option<String>), Failure> {
        let request = self.request(Method::GET, path, &Vec::new())?;
        let response = self.checked(request.timeout(ANSWER_TIMEOUT)).await?;
        let tag = response.headers().get(header::ETAG);
        let tag = tag.and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        Ok((self.read(&self.body(response).await?)?, tag))
    }

    /// Replaces a resource, if it is still the one with this `ETag`.
    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &Value,
        tag: Option<&str>,
    ) -> Result<T, Failure> {
        let mut request = self.request(Method::PUT, path, &Vec::new())?.json(body);
        if let Some(tag) = tag {
            request = request.header(header::IF_MATCH, tag);
        }
        self.json(request, WaitPolicy::Quick).await
    }

    /// Reads a resource whose status is part of what it says.
    pub(crate) async fn get_any<T: DeserializeOwned>(&self, path: &[&str]) -> Result<(u16, T), Failure> {
        let request = self.request(Method::GET, path, &Vec::new())?;
        let response = self.sent(request.timeout(ANSWER_TIMEOUT)).await?;
        let status = response.status().as_u16();
        Ok((status, self.read(&self.body(response).await?)?))
    }

    /// Reads a page of something that could also be streamed.
    pub(crate) async fn get_page<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query,
    ) -> Result<T, Failure> {
        let request = self
            .request(Method::GET, path, query)?
            .header(header::ACCEPT, "application/json");
        self.json(request, WaitPolicy::Quick).await
    }

    /// Reads every page of a list, `limit` items at most.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query,
        limit: usize,
    ) -> Result<Vec<T>, Failure> {
        const PAGE: usize = 500;
        let mut items: Vec<T> = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < limit {
            let mut page_query = query.clone();
            page_query.push(("limit", (limit - items.len()).min(PAGE).to_string()));
            page_query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let page: Page<T> = self.get_page(path, &page_query).await?;
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        items.truncate(limit);
        Ok(items)
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Failure> {
        self.json(
            self.request(Method::POST, path, &Vec::new())?.json(body),
            WaitPolicy::Quick,
        )
        .await
    }

    /// Sends a body whose answer may take a while.
    pub(crate) async fn post_patiently<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &Value,
    ) -> Result<T, Failure> {
        self.json(
            self.request(Method::POST, path, &Vec::new())?.json(body),
            WaitPolicy::Long,
        )
        .await
    }

    /// Sends a body whose answer may take as long as a command, and which may be sent again under the same key.
    pub(crate) async fn post_once<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &Value,
        key: &str,
    ) -> Result<T, Failure> {
        let request = self
            .request(Method::POST, path, &Vec::new())?
            .header("Idempotency-Key", key)
            .json(body);
        self.json(request, WaitPolicy::Long).await
    }

    /// [`Self::post_once`] of a call that ends, as far as `held` says, when this is dropped and none follows under the
    /// key. It waits so long for a person and for the end.
    pub(crate) async fn post_held<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &Value,
        key: &str,
        (held, wait): (EndsWithCaller, Duration),
    ) -> Result<T, Failure> {
        let query = vec![
            ("held", held.as_str().to_owned()),
            ("holdMs", wait.as_millis().to_string()),
        ];
        let request = self
            .request(Method::POST, path, &query)?
            .header("Idempotency-Key", key)
            .json(body);
        self.json(request, WaitPolicy::Long).await
    }

    /// Calls a tool of the Model Context Protocol by a message that stands for itself. The server ends the call when
    /// this is dropped.
    pub(crate) async fn call_tool(&self, message: &Value, tool: &str) -> Result<Value, Failure> {
        let version = message.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        let request = self
            .request(Method::POST, &["mcp"], &Vec::new())?
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header(
                "MCP-Protocol-Version",
                version.and_then(Value::as_str).unwrap_or_default(),
            )
            .header("Mcp-Method", "tools/call")
            .header("Mcp-Name", tool)
            .json(message);
        self.json(request, WaitPolicy::Long).await
    }

    /// Changes a part of a resource.
    pub(crate) async fn patch<T: DeserializeOwned>(&self, path: &[&str], body: &Value) -> Result<T, Failure> {
        self.json(
            self.request(Method::PATCH, path, &Vec::new())?.json(body),
            WaitPolicy::Quick,
        )
        .await
    }

    /// The same, if it is still the one with this `ETag`.
    pub(crate) async fn patch_tagged(&self, path: &[&str], body: &Value, tag: &str) -> Result<(), Failure> {
        let request = self.request(Method::PATCH, path, &Vec::new())?.json(body);
        let request = request.header(header::IF_MATCH, tag);
        self.json::<IgnoredAny>(request, WaitPolicy::Quick)
            .await
            .map(drop)
    }

    pub(crate) async fn delete(&self, path: &[&str]) -> Result<(), Failure> {
        self.json::<IgnoredAny>(
            self.request(Method::DELETE, path, &Vec::new())?,
            WaitPolicy::Quick,
        )
        .await
        .map(drop)
    }

    /// Changes a resource that a query tells apart from others.
    pub(crate) async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        query: &Query,
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        let mut request = self.request(method, path, query)?;
        if let Some(body) = body {
            request = request.json(body);
        }
        self.json(request, WaitPolicy::Quick).await
    }

    /// Reads a resource as bytes, piece by piece.
    pub(crate) async fn bytes(
        &self,
        path: &[&str],
        query: &Query,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let request = self
            .request(Method::GET, path, query)?
            .timeout(LONG_ANSWER_TIMEOUT);
        let mut response = self.checked(request).await?;
        while let Some(piece) = response.chunk().await.map_err(|error| self.lost(&error))? {
            take(&piece)?;
        }
        Ok(())
    }

    /// Opens the event stream, after the given event or from now on.
    pub(crate) async fn events(&self, query: &Query, after: Option<&str>) -> Result<EventStream, Failure> {
        self.stream(&["v1", "events"], query, after).await
    }

    /// Opens a stream of events, after the given one.
    pub(crate) async fn stream(
        &self,
        path: &[&str],
        query: &Query,
        after: Option<&str>,
    ) -> Result<EventStream, Failure> {
        let mut request = self
            .request(Method::GET, path, query)?
            .header(header::ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after);
        }
        Ok(EventStream::of(self.checked(request).await?.bytes_stream()))
    }

    fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &Query,
    ) -> Result<reqwest::RequestBuilder, Failure> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Failure::usage(format!("{} is not a usable URL", self.place)))?
            .pop_if_empty()
            .extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        })
    }

    async fn json<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
        wait_policy: WaitPolicy,
    ) -> Result<T, Failure> {
        self.read(&self.answer(request, wait_policy).await?)
    }

    async fn answer(
        &self,
        request: reqwest::RequestBuilder,
        wait_policy: WaitPolicy,
    ) -> Result<Vec<u8>, Failure> {
        let timeout = match wait_policy {
            WaitPolicy::Quick => ANSWER_TIMEOUT,
            WaitPolicy::Long => LONG_ANSWER_TIMEOUT,
        };
        let response = self.checked(request.timeout(timeout)).await?;
        self.body(response).await
    }

    async fn body(&self, response: reqwest::Response) -> Result<Vec<u8>, Failure> {
        let body = response.bytes().await.map_err(|error| self.lost(&error))?;
        Ok(body.into())
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Failure> {
        let body = if body.is_empty() { b"null" } else { body };
        countersign_wire::parse(body).map_err(|error| {
            Failure::new(
                "unexpected-answer",
                format!("{} did not answer as expected: {error}", self.place),
            )
        })
    }

    async fn checked(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Failure> {
        let response = self.sent(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.unwrap_or_default();
        let problem = countersign_wire::parse(&body).unwrap_or_default();
        let failure = Failure::of_problem(status.as_u16(), problem);
        if failure.code == "id-ambiguous" {
            return Err(self.told_apart(failure).await);
        }
        Err(failure)
    }

    /// The same failure with what each of the ids is that it names, as far as this token may know.
    async fn told_apart(&self, failure: Failure) -> Failure {
        let instance = failure
            .problem
            .as_ref()
            .and_then(|problem| problem.get("instance"));
        let instance = instance.and_then(Value::as_str).unwrap_or_default();
        // What a filter names is a run.
        let kind = if instance.starts_with("/v1/approvals") {
            "approvals"
        } else {
            "runs"
        };
        let (ids, more) = failure.candidates();
        let mut named = Vec::with_capacity(ids.len());
        for id in ids {
            let what = self.what_it_is(kind, id).await.unwrap_or_default();
            named.push((id.to_owned(), what));
        }
        let candidates = short_id::candidates(named);
        failure.with_candidates(candidates, more)
    }

    /// A run or a question in a few words.
    async fn what_it_is(&self, kind: &str, id: &str) -> Result<String, Failure> {
        let request = self.request(Method::GET, &["v1", kind, id], &Vec::new())?;
        let response = self.sent(request.timeout(ANSWER_TIMEOUT)).await?;
        let known: Value = self.read(&self.body(response).await?)?;
        let text = |pointer: &str| known.pointer(pointer).and_then(Value::as_str);
        let command = text("/displayText").or_else(|| text("/display/text"));
        let (Some(agent), Some(command), Some(status)) = (text("/agentId"), command, text("/status")) else {
            return Ok(String::new());
        };
        Ok(format!("{agent}, {status}: {command}"))
    }

    async fn sent(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Failure> {
        request.send().await.map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &reqwest::Error) -> Failure {
        let place = &self.place;
        let cause = root_cause(error);
        if let Some(error) = tls_error(error) {
            return Failure::unavailable(format!("no secure connection to the server at {place}: {error}"))
                .advice(advice_at(error));
        }
        let failure = if error.is_connect() {
            Failure::unavailable(format!("the server at {place} cannot be reached: {cause}"))
        } else if error.is_timeout() {
            Failure::connection_lost(format!("the server at {place} did not answer in time"))
        } else {
            Failure::connection_lost(format!("the connection to the server at {place} broke: {cause}"))
        };
        failure.hint("countersign serve   (starts one)")
    }
}

/// An answer as this program reads it, and as it came: `--json` shows all of it.
#[derive(Debug, Clone)]
pub(crate) struct Answer<T> {
    pub(crate) body: T,
    pub(crate) raw: Value,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Answer<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(deserializer)?;
        let body = countersign_wire::read(&raw).map_err(D::Error::custom)?;
        Ok(Self { body, raw })
    }
}

impl<T> Serialize for Answer<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<T> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.body
    }
}

/// An answer as this program reads it. What it does not know is left out.
pub(crate) fn read<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer).map_err(|error| {
        Failure::new(
            "unexpected-answer",
            format!("the server did not answer as expected: {error}"),
        )
    })
}

/// The innermost cause says what the operating system said.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// What TLS has against a connection, however deep it lies.
fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // What an I/O error wraps is not among its sources, only the sources of that are.
        let wrapped = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        cause = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

/// How you fix a TLS failure that has an answer.
fn advice_at(error: &rustls::Error) -> &'static str {
    use rustls::{AlertDescription, Error};
    if let Error::InvalidCertificate(_) = error {
        TRUST
    } else if let Error::InvalidMessage(_) = error {
        "does it speak TLS there? try http:// for a server without"
    } else if let Error::AlertReceived(AlertDescription::CertificateRequired) = error {
        "it asks for a client certificate ([tls] client_ca); on its own machine, leave --url out and use its socket"
    } else {
        "see the log of the server, with [telemetry] log_filter = \"debug\""
    }
}
