//! A gateway that says exactly what a test wants said.

use std::sync::atomic::{AtomicU64, Ordering};

use countersign_domain::UnixMillis;
use countersign_protocol::bridge::{ConnectParams, verify_proof};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    WebSocketStream, accept_async,
    tungstenite::{
        Message,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use crate::support::{Members, within};

/// The secret of the nodes of these gateways.
pub(super) const SHARED: &str = "shared-secret-of-the-test";

/// Something that listens like a gateway.
#[derive(Debug)]
pub(super) struct Gateway {
    listener: TcpListener,
    pub(super) port: u16,
}

impl Gateway {
    pub(super) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        Self { listener, port }
    }

    /// The next connection, upgraded.
    pub(super) async fn accept(&self) -> Peer {
        within("a node", async {
            let (stream, _address) = self.listener.accept().await.expect("a connection");
            Peer {
                socket: accept_async(stream).await.expect("a WebSocket"),
                events: Vec::new(),
                closed: None,
            }
        })
        .await
    }

    /// The next connection as it is.
    pub(super) async fn accept_raw(&self) -> TcpStream {
        let (stream, _address) = within("a node", self.listener.accept())
            .await
            .expect("a connection");
        stream
    }

    /// The next connection with a handshake of the present generation.
    pub(super) async fn welcome(&self) -> Peer {
        self.welcome_as(&json!({"protocol": 4})).await
    }

    /// The same with a hello that says this.
    pub(super) async fn welcome_as(&self, over: &Value) -> Peer {
        let mut peer = self.accept().await;
        let connect = peer.challenged().await;
        peer.hello(&connect, over).await;
        peer
    }
}

/// A node at the other end.
#[derive(Debug)]
pub(super) struct Peer {
    socket: WebSocketStream<TcpStream>,
    /// The `node.event`s that came while something else was waited for.
    pub(super) events: Vec<Value>,
    pub(super) closed: Option<(u16, String)>,
}

impl Peer {
    pub(super) async fn send(&mut self, frame: &Value) {
        self.send_text(frame.to_string()).await;
    }

    pub(super) async fn send_text(&mut self, text: String) {
        self.send_message(Message::text(text)).await;
    }

    pub(super) async fn send_message(&mut self, message: Message) {
        // A node that left is what some tests are about.
        drop(self.socket.send(message).await);
    }

    /// The next frame; `None` when the node left.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            match within("a frame of the node", self.socket.next()).await {
                Some(Ok(Message::Text(text))) => {
                    return Some(serde_json::from_str(&text).expect("a node sends JSON"));
                }
                Some(Ok(Message::Close(close))) => {
                    let close = close.map(|close| (u16::from(close.code), close.reason.to_string()));
                    self.closed = close.or(Some((1005, String::new())));
                    return None;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    // No close code of the protocol.
                    self.closed = Some((1006, error.to_string()));
                    return None;
                }
                None => return None,
            }
        }
    }

    pub(super) async fn close(mut self, code: u16, reason: &str) {
        let close = CloseFrame {
            code: CloseCode::from(code),
            reason: reason.to_owned().into(),
        };
        self.send_message(Message::Close(Some(close))).await;
    }

    /// Sends a challenge with a time of its own, and waits for the `connect`. Its proof is checked.
    pub(super) async fn challenged(&mut self) -> Value {
        self.challenged_at(Some(1_795_000_000_000)).await
    }

    pub(super) async fn challenged_at(&mut self, ts: Option<i64>) -> Value {
        static NONCE: AtomicU64 = AtomicU64::new(0);
        let nonce = format!("nonce-{}", NONCE.fetch_add(1, Ordering::Relaxed));
        self.send(
            &json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": nonce, "ts": ts}}),
        )
        .await;
        let connect = self.next().await.expect("a connect");
        assert_eq!(connect["method"], "connect", "{connect}");
        let params = ConnectParams::parse(connect["params"].clone()).expect("params of either generation");
        let device = params.device.clone().expect("a device");
        if let Some(ts) = ts {
            let input = params.proof_input(&device);
            verify_proof(&device, input, &nonce, UnixMillis::new(ts)).expect("a proof that counts");
        }
        connect
    }

    /// Takes the node; `over` replaces members of the hello.
    pub(super) async fn hello(&mut self, connect: &Value, over: &Value) {
        let mut hello = json!({
            "type": "hello-ok", "protocol": 4,
            "server": {"version": "test", "connId": "c"},
            "features": {"methods": [], "events": []},
            "snapshot": {"presence": [], "health": {}, "stateVersion": {"presence": 0, "health": 0}, "uptimeMs": 1},
            "auth": {"role": "node", "scopes": [], "deviceToken": "device-token-of-the-test"},
            "policy": {"maxPayload": 26_214_400, "maxBufferedBytes": 52_428_800, "tickIntervalMs": 600_000},
        });
        for (name, value) in over.as_object().expect("members") {
            hello[name] = value.clone();
        }
        self.send(&json!({"type": "res", "id": connect["id"], "ok": true, "payload": hello}))
            .await;
    }

    /// Refuses the node and closes.
    pub(super) async fn refuse(mut self, connect: &Value, error: &Value, code: u16) {
        self.send(&json!({"type": "res", "id": connect["id"], "ok": false, "error": error}))
            .await;
        let reason = error.text("message").to_owned();
        self.close(code, &reason).await;
    }

    /// Calls the node.
    pub(super) async fn invoke(&mut self, connect_or_node: &str, id: &str, command: &str, params: &Value) {
        let payload = json!({"id": id, "nodeId": connect_or_node, "command": command,
            "paramsJSON": params.to_string(), "timeoutMs": 30_000, "idempotencyKey": id});
        self.send(&json!({"type": "event", "event": "node.invoke.request", "payload": payload}))
            .await;
    }

    pub(super) async fn cancel(&mut self, node: &str, id: &str) {
        let payload = json!({"invokeId": id, "nodeId": node});
        self.send(&json!({"type": "event", "event": "node.invoke.cancel", "payload": payload}))
            .await;
    }

    /// Waits for the result of a call and answers whatever else the node asks. Events are kept.
    pub(super) async fn result(&mut self, id: &str) -> Outcome {
        loop {
            let frame = self.next().await.expect("a node that stays");
            if let Some(outcome) = self.take(&frame, id).await {
                return outcome;
            }
        }
    }

    /// Waits for the results of two calls, which come in any order.
    pub(super) async fn results(&mut self, ids: [&str; 2]) -> [Outcome; 2] {
        let mut found = [None, None];
        loop {
            let frame = self.next().await.expect("a node that stays");
            let id = frame["params"]["id"].as_str().unwrap_or_default().to_owned();
            if let Some(outcome) = self.take(&frame, &id).await {
                let at = ids.iter().position(|wanted| *wanted == id);
                found[at.expect("a call that was made")] = Some(outcome);
            }
            if let [Some(one), Some(two)] = &found {
                return [one.clone(), two.clone()];
            }
        }
    }

    /// Waits for an event of the node.
    pub(super) async fn event(&mut self, name: &str) -> Value {
        loop {
            if let Some(at) = self.events.iter().position(|event| event["event"] == name) {
                return self.events.remove(at);
            }
            let frame = self.next().await.expect("a node that stays");
            assert_eq!(self.take(&frame, "").await, None, "a result nobody waits for");
        }
    }

    async fn take(&mut self, frame: &Value, id: &str) -> Option<Outcome> {
        assert_eq!(frame["type"], "req", "{frame}");
        self.send(&json!({"type": "res", "id": frame["id"], "ok": true, "payload": {"ok": true}}))
            .await;
        let params = &frame["params"];
        match frame.text("method") {
            "node.event" => {
                let payload = params.text("payloadJSON");
                let payload: Value = serde_json::from_str(payload).expect("JSON");
                self.events
                    .push(json!({"event": params["event"], "payload": payload}));
                None
            }
            "node.invoke.result" => {
                assert_eq!(params["id"], id, "{params}");
                Some(Outcome::of(params))
            }
            other => panic!("a node does not ask for {other}"),
        }
    }
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) ok: bool,
    pub(super) payload: Value,
    /// Code and message.
    pub(super) error: (String, String),
    /// What a node says besides, to gateways of its own make.
    pub(super) rule: Value,
}

impl Outcome {
    fn of(params: &Value) -> Self {
        let payload = params["payloadJSON"]
            .as_str()
            .map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"));
        let text = |name: &str| params["error"][name].as_str().unwrap_or_default().to_owned();
        Self {
            ok: params["ok"].as_bool().expect("ok"),
            payload,
            error: (text("code"), text("message")),
            rule: params["error"]["countersign"].clone(),
        }
    }

    /// The payload of a call that was done.
    #[track_caller]
    pub(super) fn done(self) -> Value {
        assert!(self.ok, "{self:?}");
        self.payload
    }

    /// Code and message of one that was not.
    #[track_caller]
    pub(super) fn failed(self) -> (String, String) {
        assert!(!self.ok, "{self:?}");
        self.error
    }
}
