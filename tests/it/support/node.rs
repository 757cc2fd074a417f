//! A node of the tests: a device of its own that speaks as either of the product's generations or as ours, does what a
//! test says, and can say anything else, too.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use countersign_protocol::bridge::{DeviceKey, ProofInput, ProofVersion};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

use super::{TestServer, eventually, within};

/// Whom a node speaks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// The product's first generation.
    First,
    /// The product's present one.
    Present,
    /// Ours.
    Ours,
}

/// A device, and what it says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) key: DeviceKey,
    pub(crate) speaks: Speaks,
    pub(crate) name: String,
    pub(crate) commands: Vec<String>,
    pub(crate) caps: Vec<String>,
    /// What it shows: the members of `auth`.
    pub(crate) auth: Value,
}

static DEVICES: AtomicU64 = AtomicU64::new(1);

impl Device {
    /// A new device that shows the shared secret of a server.
    pub(crate) fn new(server: &TestServer, speaks: Speaks) -> Self {
        let mut seed = [7; 32];
        seed[..8].copy_from_slice(&DEVICES.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        let mut commands = vec![
            "system.run",
            "system.which",
            "system.execApprovals.get",
            "system.execApprovals.set",
        ];
        match speaks {
            Speaks::First => {}
            Speaks::Present => commands.push("system.run.prepare"),
            Speaks::Ours => commands.extend(["system.run.prepare", "countersign.run.status"]),
        }
        Self {
            key: DeviceKey::from_seed(&seed),
            speaks,
            name: "box".to_owned(),
            commands: commands.into_iter().map(str::to_owned).collect(),
            caps: vec!["system".to_owned()],
            auth: json!({ "token": server.bridge_token() }),
        }
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The same device with another seed: somebody else.
    pub(crate) fn with_seed(mut self, seed: u8) -> Self {
        self.key = DeviceKey::from_seed(&[seed; 32]);
        self
    }

    /// Shows something else, the members of `auth`.
    pub(crate) fn showing(mut self, auth: Value) -> Self {
        self.auth = auth;
        self
    }

    /// Shows a token of its own, where its generation puts it.
    pub(crate) fn with_token(self, token: &str) -> Self {
        let auth = match self.speaks {
            Speaks::First => json!({ "token": token }),
            Speaks::Present | Speaks::Ours => json!({ "deviceToken": token }),
        };
        self.showing(auth)
    }

    pub(crate) fn declaring(mut self, commands: &[&str]) -> Self {
        self.commands = commands.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    pub(crate) fn id(&self) -> String {
        self.key.device_id().into()
    }

    /// The parameters of its `connect`, signed for a challenge.
    pub(crate) fn connect_params(&self, nonce: &str, ts: i64) -> Value {
        let mut params = json!({
            "minProtocol": 4,
            "maxProtocol": 4,
            "client": {
                "id": "node-host",
                "displayName": self.name,
                "version": "1.2.3",
                "platform": "linux",
                "deviceFamily": "Linux",
                "mode": "node",
                "instanceId": "37ceb419-d351-4d5f-bb13-7492b43d9472",
            },
            "caps": self.caps,
            "commands": self.commands,
            "pathEnv": "/usr/local/bin:/usr/bin:/bin",
            "auth": self.auth,
            "role": "node",
            "scopes": [],
        });
        match self.speaks {
            Speaks::First => {
                params["minProtocol"] = json!(3);
                params["maxProtocol"] = json!(3);
                params["client"]
                    .as_object_mut()
                    .expect("an object")
                    .shift_remove("deviceFamily");
            }
            Speaks::Present => {}
            Speaks::Ours => params["userAgent"] = json!("countersign/0.1.0"),
        }
        self.sign(&mut params, nonce, ts);
        params
    }

    /// Signs parameters as they are now.
    pub(crate) fn sign(&self, params: &mut Value, nonce: &str, ts: i64) {
        let version = match self.speaks {
            Speaks::First => ProofVersion::V2,
            Speaks::Present | Speaks::Ours => ProofVersion::V3,
        };
        let text = |pointer: &str| {
            params
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let scopes: Vec<String> = serde_json::from_value(params["scopes"].clone()).unwrap_or_default();
        let token = ["/auth/token", "/auth/deviceToken", "/auth/bootstrapToken"]
            .into_iter()
            .map(text)
            .find(|token| !token.is_empty())
            .unwrap_or_default();
        let id = self.id();
        let input = ProofInput {
            device_id: &id,
            client_id: &text("/client/id"),
            client_mode: &text("/client/mode"),
            role: &text("/role"),
            scopes: &scopes,
            signed_at_ms: ts,
            token: &token,
            nonce,
            platform: &text("/client/platform"),
            device_family: &text("/client/deviceFamily"),
        };
        let signature = input.sign(&self.key, version);
        params["device"] = json!({
            "id": id,
            "publicKey": self.key.public().to_text(),
            "signature": signature,
            "signedAt": ts,
            "nonce": nonce,
        });
    }
}

/// What came over a connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Received {
    Frame(Value),
    Closed {
        code: u16,
        reason: String,
    },
    /// The connection ended without a close.
    Gone,
}

impl Received {
    /// The frame; panics when it is none.
    #[track_caller]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    pub(crate) fn frame(self) -> Value {
        match self {
            Self::Frame(frame) => frame,
            other => panic!("no frame but {other:?}"),
        }
    }

    /// Code and reason of a close; panics when it is none.
    #[track_caller]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    pub(crate) fn close(self) -> (u16, String) {
        match self {
            Self::Closed { code, reason } => (code, reason),
            other => panic!("no close but {other:?}"),
        }
    }
}

/// A WebSocket to a server, with nothing said yet.
#[derive(Debug)]
pub(crate) struct Line {
    socket: WebSocketStream<TcpStream>,
    /// The nonce of the challenge.
    pub(crate) nonce: String,
    /// The server's time in the challenge.
    pub(crate) ts: i64,
    next: u64,
}

impl Line {
    /// Connects to `/` and reads the challenge.
    pub(crate) async fn open(server: &TestServer) -> Self {
        Self::open_at(server, "/").await
    }

    pub(crate) async fn open_at(server: &TestServer, path: &str) -> Self {
        let address = server.address();
        let mut socket = within("the upgrade", Self::upgrade(address, path)).await;
        let challenge = match within("the challenge", socket.next()).await {
            Some(Ok(Message::Text(text))) => serde_json::from_str::<Value>(&text).expect("a frame"),
            other => panic!("no challenge but {other:?}"),
        };
        assert_eq!(challenge["event"], "connect.challenge", "{challenge}");
        Self {
            socket,
            nonce: challenge["payload"]["nonce"]
                .as_str()
                .expect("a nonce")
                .to_owned(),
            ts: challenge["payload"]["ts"].as_i64().expect("a time"),
            next: 1,
        }
    }

    async fn upgrade(address: SocketAddr, path: &str) -> WebSocketStream<TcpStream> {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (socket, _answer) = client_async(format!("ws://{address}{path}"), stream)
            .await
            .expect("the upgrade");
        socket
    }

    pub(crate) async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Sends a text. A server that has gone is no matter: what it said last counts.
    pub(crate) async fn send_text(&mut self, text: &str) {
        self.send_message(Message::text(text)).await;
    }

    pub(crate) async fn send_message(&mut self, message: Message) {
        drop(within("sending", self.socket.send(message)).await);
    }

    /// The next frame or the end. Pings are answered and not told.
    pub(crate) async fn hear(&mut self) -> Received {
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Received::Frame(serde_json::from_str(&text).expect("a frame is JSON"));
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Close(Some(close)))) => {
                        return Received::Closed {
                            code: close.code.into(),
                            reason: close.reason.to_string(),
                        };
                    }
                    Some(Ok(Message::Close(None) | Message::Binary(_) | Message::Frame(_)) | Err(_))
                    | None => {
                        return Received::Gone;
                    }
                }
            }
        };
        within("a frame", next).await
    }

    /// Waits for a ping.
    pub(crate) async fn hear_ping(&mut self) {
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Ping(_))) => return,
                    Some(Ok(_other)) => {}
                    ended => panic!("no ping but {ended:?}"),
                }
            }
        };
        within("a ping", next).await;
    }

    /// The end of the connection, whatever comes before.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    pub(crate) async fn end(&mut self) -> Received {
        loop {
            match self.hear().await {
                Received::Frame(_) => {}
                end => return end,
            }
        }
    }

    /// Asks, and waits for the answer; events that come before are dropped.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params).await;
        loop {
            let frame = self.hear().await.frame();
            if frame["type"] == "res" && frame["id"] == id {
                return frame;
            }
        }
    }

    /// Asks without waiting; returns the id.
    pub(crate) async fn post(&mut self, method: &str, params: Value) -> String {
        let id = format!("{}:{method}", self.next);
        self.next += 1;
        let frame = json!({ "type": "req", "id": id, "method": method, "params": params });
        self.send(&frame).await;
        id
    }

    /// The next event of that name.
    pub(crate) async fn event(&mut self, name: &str) -> Value {
        loop {
            let frame = self.hear().await.frame();
            if frame["type"] == "event" && frame["event"] == name {
                return frame["payload"].clone();
            }
        }
    }

    /// Connects as a device; the payload of `hello-ok`, or the error.
    pub(crate) async fn connect(&mut self, device: &Device) -> Result<Value, Value> {
        let params = device.connect_params(&self.nonce, self.ts);
        self.connect_with(params).await
    }

    /// Connects with these parameters.
    pub(crate) async fn connect_with(&mut self, params: Value) -> Result<Value, Value> {
        let answer = self.ask("connect", params).await;
        if answer["ok"] == true {
            Ok(answer["payload"].clone())
        } else {
            Err(answer["error"].clone())
        }
    }

    /// Closes in order and waits for the other side.
    pub(crate) async fn close(mut self) {
        drop(self.socket.close(None).await);
        while let Received::Frame(_) = self.hear().await {}
    }
}

/// What a node does with a call: the payload, or code and message.
pub(crate) type Deed = dyn Fn(&Value) -> Option<Result<Value, (String, String)>> + Send + Sync;

/// A node that is connected and serves calls until it is dropped.
#[derive(Debug)]
pub(crate) struct TestNode {
    pub(crate) device: Device,
    /// The payload of its `hello-ok`.
    pub(crate) hello: Value,
    calls: Arc<Mutex<Vec<Value>>>,
    events: Arc<Mutex<Vec<Value>>>,
    say: mpsc::UnboundedSender<Value>,
    task: JoinHandle<Received>,
}

impl TestNode {
    /// Asks to be let in, is let in by the operator, connects, and serves calls: `deed` gets the call with its
    /// `params` read; `None` leaves it unanswered.
    pub(crate) async fn join(
        server: &TestServer,
        device: Device,
        deed: impl Fn(&Value) -> Option<Result<Value, (String, String)>> + Send + Sync + 'static,
    ) -> Self {
        pair(server, &device).await;
        Self::connect(server, device, deed).await
    }

    /// Connects as a device that was let in.
    pub(crate) async fn connect(
        server: &TestServer,
        device: Device,
        deed: impl Fn(&Value) -> Option<Result<Value, (String, String)>> + Send + Sync + 'static,
    ) -> Self {
        let mut line = Line::open(server).await;
        let hello = line
            .connect(&device)
            .await
            .unwrap_or_else(|error| panic!("the node was refused: {error}"));
        let (say, said) = mpsc::unbounded_channel();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let events = Arc::new(Mutex::new(Vec::new()));
        let served = serve(
            line,
            device.id(),
            Arc::clone(&calls),
            Arc::clone(&events),
            said,
            Box::new(deed),
        );
        Self {
            device,
            hello,
            calls,
            events,
            say,
            task: tokio::spawn(served),
        }
    }

    pub(crate) fn id(&self) -> String {
        self.device.id()
    }

    /// The token that it got.
    pub(crate) fn token(&self) -> String {
        self.hello["auth"]["deviceToken"]
            .as_str()
            .expect("a device token")
            .to_owned()
    }

    /// The calls that it got so far, their `params` read.
    pub(crate) fn calls(&self) -> Vec<Value> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it got so many calls.
    pub(crate) async fn called(&self, times: usize) -> Vec<Value> {
        eventually(
            "called",
            || std::future::ready(self.calls()),
            |calls| calls.len() >= times,
        )
        .await
    }

    /// Waits until it heard an event of that name, and returns its payload.
    pub(crate) async fn receive(&self, name: &str) -> Value {
        let all = eventually(
            "heard",
            || std::future::ready(self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            |events: &Vec<Value>| events.iter().any(|event| event["event"] == name),
        )
        .await;
        let found = all.iter().find(|event| event["event"] == name);
        found.expect("it was there")["payload"].clone()
    }

    /// Says a request of its own; the answer is read and dropped.
    #[expect(clippy::needless_pass_by_value, reason = "reads better so")]
    pub(crate) fn say(&self, method: &str, params: Value) {
        let frame = json!({
            "type": "req", "id": format!("said:{}", DEVICES.fetch_add(1, Ordering::Relaxed)), "method": method,
            "params": params,
        });
        self.say.send(frame).expect("the node runs");
    }

    /// Answers a call by id, as the node's own late word.
    pub(crate) fn answer(&self, invoke_id: &str, outcome: Result<Value, (String, String)>) {
        self.say(
            "node.invoke.result",
            answer_params(invoke_id, &self.id(), outcome),
        );
    }

    /// Waits for the end of the connection.
    pub(crate) async fn ended(self) -> Received {
        let Self { task, say: _kept, .. } = self;
        within("the end of the node", task)
            .await
            .expect("the node's task")
    }

    /// Goes away without a word.
    pub(crate) fn vanish(self) {
        self.task.abort();
    }
}

/// The parameters of `node.invoke.result`.
pub(crate) fn answer_params(
    invoke_id: &str,
    node_id: &str,
    outcome: Result<Value, (String, String)>,
) -> Value {
    match outcome {
        Ok(payload) => {
            json!({ "id": invoke_id, "nodeId": node_id, "ok": true, "payloadJSON": payload.to_string() })
        }
        Err((code, message)) => json!({
            "id": invoke_id, "nodeId": node_id, "ok": false, "error": { "code": code, "message": message },
        }),
    }
}

async fn serve(
    mut line: Line,
    node_id: String,
    calls: Arc<Mutex<Vec<Value>>>,
    events: Arc<Mutex<Vec<Value>>>,
    mut said: mpsc::UnboundedReceiver<Value>,
    deed: Box<Deed>,
) -> Received {
    loop {
        let frame = tokio::select! {
            frame = said.recv() => match frame {
                Some(frame) => { line.send(&frame).await; continue }
                // Whoever held it has gone.
                None => return Received::Gone,
            },
            message = line.socket.next() => match message {
                Some(Ok(Message::Text(text))) => serde_json::from_str::<Value>(&text).expect("a frame is JSON"),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Close(Some(close)))) => {
                    return Received::Closed { code: close.code.into(), reason: close.reason.to_string() };
                }
                Some(Ok(Message::Close(None) | Message::Binary(_) | Message::Frame(_)) | Err(_)) | None => {
                    return Received::Gone;
                }
            },
        };
        if frame["type"] != "event" {
            continue;
        }
        events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(frame.clone());
        if frame["event"] != "node.invoke.request" {
            continue;
        }
        let mut call = frame["payload"].clone();
        if let Some(text) = call["paramsJSON"].as_str() {
            call["params"] = serde_json::from_str(text).expect("paramsJSON is JSON");
        }
        calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call.clone());
        if let Some(outcome) = deed(&call) {
            let id = call["id"].as_str().expect("an id");
            let params = answer_params(id, &node_id, outcome);
            line.post("node.invoke.result", params).await;
        }
    }
}

/// Has a device let in by the operator: it asks, a person says yes.
pub(crate) async fn pair(server: &TestServer, device: &Device) {
    let mut line = Line::open(server).await;
    let error = line
        .connect(device)
        .await
        .expect_err("nobody becomes a node without a person");
    assert_eq!(error["details"]["code"], "PAIRING_REQUIRED", "{error}");
    let request = error["details"]["requestId"]
        .as_str()
        .expect("a request")
        .to_owned();
    assert_eq!(line.end().await.close().0, 1008);
    decide(server, &request, "approve").await;
}

/// Decides a pairing request as the operator.
pub(crate) async fn decide(server: &TestServer, request: &str, decision: &str) -> Value {
    server
        .operator()
        .post(
            &format!("/v1/nodes/pairings/{request}/decision"),
            json!({ "decision": decision }),
        )
        .await
        .expect(200)
}
