//! An operator of a gateway of the product, as far as a test has to be one: it approves our node and calls it.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use super::{Generation, patiently};

/// A connection with the operator role.
#[derive(Debug)]
pub(super) struct Operator {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    requests: u64,
}

impl Operator {
    /// Connects as soon as the gateway listens; on the loopback address its shared token is enough.
    pub(super) async fn connect(generation: Generation, port: u16, token: &str) -> Self {
        patiently(
            "an operator of the gateway",
            || Self::try_connect(generation, port, token),
            |connected| connected.as_ref().ok().map(|_connected| ()),
        )
        .await;
        Self::try_connect(generation, port, token)
            .await
            .expect("it connected before")
    }

    async fn try_connect(generation: Generation, port: u16, token: &str) -> Result<Self, String> {
        let (socket, _response) = connect_async(format!("ws://127.0.0.1:{port}"))
            .await
            .map_err(|error| error.to_string())?;
        let mut operator = Self { socket, requests: 0 };
        let protocol = match generation {
            Generation::First => 3,
            Generation::Present => 4,
        };
        let challenge = operator.next().await?;
        if challenge["event"] != "connect.challenge" {
            return Err(challenge.to_string());
        }
        let hello = operator
            .call(
                "connect",
                json!({
                    "minProtocol": protocol, "maxProtocol": protocol, "role": "operator",
                    "client": { "id": "cli", "mode": "cli", "version": "1", "platform": "linux" },
                    "scopes": ["operator.admin", "operator.pairing", "operator.read", "operator.write", "operator.approvals"],
                    "auth": { "token": token },
                }),
            )
            .await;
        hello.map(|_hello| operator).map_err(|error| error.to_string())
    }

    async fn next(&mut self) -> Result<Value, String> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    return serde_json::from_str(&text).map_err(|error| error.to_string());
                }
                Some(Ok(Message::Close(frame))) => return Err(format!("closed: {frame:?}")),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("the end of the stream".to_owned()),
            }
        }
    }

    /// Calls a method; its error as the gateway gave it.
    pub(super) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.requests += 1;
        let id = format!("request-{}", self.requests);
        let frame = json!({ "type": "req", "id": id, "method": method, "params": params });
        self.socket
            .send(Message::text(frame.to_string()))
            .await
            .map_err(|error| json!(error.to_string()))?;
        loop {
            let frame = self.next().await.map_err(Value::from)?;
            if frame["type"] == "res" && frame["id"] == id.as_str() {
                return if frame["ok"] == true {
                    Ok(frame["payload"].clone())
                } else {
                    Err(frame["error"].clone())
                };
            }
        }
    }
}
