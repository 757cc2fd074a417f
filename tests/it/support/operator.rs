//! An operator on the Bridge: a client of the product's wire, with an API token.

use std::collections::VecDeque;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, protocol::CloseFrame},
};

use super::{TestServer, within};

/// How somebody wants to be an operator.
#[derive(Debug, Clone)]
pub(crate) struct OperatorClient {
    protocol: i64,
    token: Option<String>,
    scopes: Vec<String>,
    caps: Vec<String>,
    more: Value,
}

impl OperatorClient {
    /// A client of the present generation with a token and the scopes that it asks for.
    pub(crate) fn new(token: &str, scopes: &[&str]) -> Self {
        Self {
            protocol: 4,
            token: Some(token.to_owned()),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            caps: Vec::new(),
            more: json!({}),
        }
    }

    /// One of the first generation.
    pub(crate) fn first_generation(self) -> Self {
        Self { protocol: 3, ..self }
    }

    /// One in which people answer.
    pub(crate) fn answering(self) -> Self {
        Self {
            caps: vec!["approvals".to_owned(), "exec-approvals".to_owned()],
            ..self
        }
    }

    /// The same with other members in its `connect`.
    pub(crate) fn with(self, more: Value) -> Self {
        Self { more, ..self }
    }

    fn params(&self) -> Value {
        let mut params = json!({
            "minProtocol": self.protocol,
            "maxProtocol": self.protocol,
            "client": { "id": "cli", "version": "2026.9.6", "platform": "linux", "mode": "cli" },
            "caps": self.caps,
            "role": "operator",
            "scopes": self.scopes,
        });
        let members = params.as_object_mut().expect("an object");
        if let Some(token) = &self.token {
            members.insert("auth".to_owned(), json!({ "token": token }));
        }
        for (name, value) in self.more.as_object().expect("members") {
            members.insert(name.clone(), value.clone());
        }
        params
    }

    /// Connects; panics when it is refused.
    pub(crate) async fn connect(&self, server: &TestServer) -> OperatorLink {
        let (link, answer) = self.try_connect(server).await;
        assert_eq!(answer["ok"], true, "{answer}");
        link
    }

    /// Connects, and is refused: the error, and the close.
    pub(crate) async fn refused(&self, server: &TestServer) -> (Value, u16) {
        let (mut link, answer) = self.try_connect(server).await;
        assert_eq!(answer["ok"], false, "{answer}");
        let (code, _reason) = link.closed().await;
        (answer["error"].clone(), code)
    }

    async fn try_connect(&self, server: &TestServer) -> (OperatorLink, Value) {
        let url = format!("{}/", server.anonymous().base().replacen("http", "ws", 1));
        let (socket, _response) = within("the upgrade", connect_async(&url))
            .await
            .expect("an upgrade");
        let mut link = OperatorLink {
            socket,
            asked: 0,
            events: VecDeque::new(),
            answers: VecDeque::new(),
            hello: Value::Null,
        };
        link.event("connect.challenge").await;
        let id = link.send("connect", self.params()).await;
        let answer = link.answer(&id).await;
        link.hello = answer["payload"].clone();
        (link, answer)
    }
}

/// A connected operator.
#[derive(Debug)]
pub(crate) struct OperatorLink {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    asked: u32,
    events: VecDeque<Value>,
    answers: VecDeque<Value>,
    /// What it was greeted with.
    pub(crate) hello: Value,
}

impl OperatorLink {
    /// The scopes that it was given.
    pub(crate) fn scopes(&self) -> Vec<&str> {
        let scopes = self.hello["auth"]["scopes"].as_array().expect("scopes");
        scopes.iter().filter_map(Value::as_str).collect()
    }

    /// Sends a question; returns its id.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> String {
        self.asked += 1;
        let id = format!("{}:{method}", self.asked);
        let frame = json!({ "type": "req", "id": id, "method": method, "params": params });
        self.send_text(&frame.to_string()).await;
        id
    }

    /// Sends a text as it is.
    pub(crate) async fn send_text(&mut self, text: &str) {
        let sent = self.socket.send(Message::text(text)).await;
        sent.expect("a frame is sent");
    }

    /// Asks, and waits for the payload of the answer.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> impl Future<Output = Value> {
        let method = method.to_owned();
        async move {
            let answer = self.ask(&method, params).await;
            assert_eq!(answer["ok"], true, "{method}: {answer}");
            answer["payload"].clone()
        }
    }

    /// Asks, and waits for the error of the answer.
    pub(crate) async fn fails(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert_eq!(answer["ok"], false, "{method}: {answer}");
        answer["error"].clone()
    }

    /// Asks, and waits for the answer whole.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(&id).await
    }

    /// The next answer to a question.
    pub(crate) async fn answer(&mut self, id: &str) -> Value {
        loop {
            if let Some(at) = self.answers.iter().position(|answer| answer["id"] == id) {
                return self.answers.remove(at).expect("an answer");
            }
            self.read().await;
        }
    }

    /// The next event of this name; others that came before stay.
    pub(crate) async fn event(&mut self, name: &str) -> Value {
        loop {
            if let Some(at) = self.events.iter().position(|event| event["event"] == name) {
                return self.events.remove(at).expect("an event");
            }
            self.read().await;
        }
    }

    /// All events that came and were not taken.
    pub(crate) fn untaken(&self) -> impl Iterator<Item = &str> {
        self.events.iter().filter_map(|event| event["event"].as_str())
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    async fn read(&mut self) {
        match self.next().await {
            Message::Text(text) => {
                let frame: Value = serde_json::from_str(&text).expect("a frame is JSON");
                match frame["type"].as_str() {
                    Some("res") => self.answers.push_back(frame),
                    Some("event") => self.events.push_back(frame),
                    _other => panic!("an odd frame: {frame}"),
                }
            }
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?} instead of a frame; untaken: {:?}", self.answers),
        }
    }

    async fn next(&mut self) -> Message {
        let next = within("a frame", self.socket.next()).await;
        next.expect("the connection goes on").expect("a frame")
    }

    /// Waits until the server closes; its code and reason.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                Message::Close(Some(CloseFrame { code, reason })) => {
                    return (code.into(), reason.to_string());
                }
                Message::Close(None) => return (1005, String::new()),
                _before => {}
            }
        }
    }
}
