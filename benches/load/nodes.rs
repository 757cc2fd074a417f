//! Many nodes that are connected: what a call of one costs beside an echo over a WebSocket, and what each one takes.
//!
//! The same client makes both: connections that answer whatever comes, and callers that send and wait. Through the
//! server a call goes from the caller to the server to the node and back; the bare server gives every frame back to whoever
//! sent it, so a call is compared with two echoes, one for each connection that it goes over.

#![expect(clippy::indexing_slicing, reason = "a harness may panic")]

use std::{sync::Arc, time::Duration};

use countersign_protocol::bridge::{DeviceKey, ProofInput, ProofVersion};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinSet, time::Instant};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use super::{
    options::Options,
    samples::{Samples, ratio},
    servers::{Policy, Server},
};

/// Callers at once.
const CALLERS: usize = 8;
/// Nodes that connect or are approved at once.
const AT_ONCE: usize = 16;
/// The command that nodes serve: it passes no gate and starts nothing.
const COMMAND: &str = "system.which";

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub(crate) async fn measure(options: &Options) {
    let Options { nodes, rounds, .. } = options;
    println!("\nnodes: {nodes} connected, {CALLERS} callers, {rounds} calls each");
    let bare = Server::reference();
    let server = Server::countersign(Policy::Full);
    let fleet = Fleet::of(*nodes, server.bridge_token());

    let mut idle = Vec::new();
    for _ in 0..*nodes {
        idle.push(connect(&bare.web_socket("/ws")).await);
    }
    let before = server.resident_kib();
    let begun = Instant::now();
    fleet.pair(&server).await;
    println!("  paired in {:?}", begun.elapsed());
    let paired = server.resident_kib();
    let begun = Instant::now();
    let serving = fleet.serve(&server).await;
    let connected = server.resident_kib();
    println!(
        "  connected in {:?}; RSS {} KiB with none, {} KiB with all paired, {} KiB with all connected: {:.1} KiB a node",
        begun.elapsed(),
        before,
        paired,
        connected,
        f64::from(u32::try_from(connected.saturating_sub(before)).unwrap_or(u32::MAX))
            / f64::from(u32::try_from(*nodes).unwrap_or(u32::MAX))
    );

    // In turns, so that whatever else the machine does falls on both.
    let (mut calls, mut echoes) = (Vec::new(), Vec::new());
    for _turn in 0..4 {
        calls.push(call_all(&server, &fleet, rounds / 4).await);
        echoes.push(echo_all(&bare, rounds / 4).await);
    }
    let (called, took_calls) = sum(calls);
    let (echoed, took_echoes) = sum(echoes);
    let per_second = |count: usize, took: Duration| {
        f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / took.as_secs_f64()
    };
    let (invokes, round_trips) = (
        per_second(called.0.len(), took_calls),
        per_second(echoed.0.len(), took_echoes),
    );
    println!(
        "  calls: {invokes:.0} a second, p50 {:?}, p99 {:?}; echoes: {round_trips:.0} a second, p50 {:?}, p99 {:?}",
        called.p50(),
        called.p99(),
        echoed.p50(),
        echoed.p99()
    );
    println!(
        "  a call takes {:.2} times as long as two echoes; {:.2} of the rate of pairs of echoes",
        ratio(called.p50(), echoed.p50() * 2),
        invokes / (round_trips / 2.0)
    );
    println!("  after the calls: RSS {} KiB", server.resident_kib());
    drop(idle);
    drop(serving);
}

fn sum(turns: Vec<(Samples, Duration)>) -> (Samples, Duration) {
    let took = turns.iter().map(|(_, took)| *took).sum();
    (
        Samples(turns.into_iter().flat_map(|(samples, _)| samples.0).collect()),
        took,
    )
}

async fn connect(address: &str) -> Socket {
    let (socket, _response) = connect_async(address).await.expect("a WebSocket");
    socket
}

async fn receive(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await? {
            Ok(Message::Text(text)) => return serde_json::from_str(&text).ok(),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
        }
    }
}

async fn send(socket: &mut Socket, frame: &Value) {
    socket
        .send(Message::text(frame.to_string()))
        .await
        .expect("a frame that is taken");
}

/// The nodes: a key of each.
struct Fleet {
    keys: Vec<Arc<DeviceKey>>,
    token: String,
}

impl Fleet {
    fn of(nodes: usize, token: String) -> Self {
        let key = |number: usize| {
            let mut seed = [7; 32];
            for (byte, of) in seed.iter_mut().zip(number.to_le_bytes()) {
                *byte = of;
            }
            Arc::new(DeviceKey::from_seed(&seed))
        };
        Self {
            keys: (0..nodes).map(key).collect(),
            token,
        }
    }

    /// Lets every node ask, and approves them all, some at a time: only so many may wait.
    async fn pair(&self, server: &Server) {
        for keys in self.keys.chunks(AT_ONCE) {
            let asking: JoinSet<()> = keys
                .iter()
                .map(|key| {
                    let (key, token, address) = (Arc::clone(key), self.token.clone(), server.web_socket("/"));
                    async move {
                        // It is not taken yet, but it has asked.
                        drop(hello(&address, &key, &token).await);
                    }
                })
                .collect();
            asking.join_all().await;
            self.approve_all(server).await;
        }
    }

    async fn approve_all(&self, server: &Server) {
        let operator = server.operator();
        let mut connection = operator.connect().await;
        loop {
            let list = operator.request("GET", "/v1/nodes/pairings", None);
            let list = connection.ask(&list).await.json(200);
            let items = list["items"].as_array().cloned().unwrap_or_default();
            if items.is_empty() {
                return;
            }
            for item in items {
                let id = item["requestId"].as_str().expect("an id");
                let path = format!("/v1/nodes/pairings/{id}/decision");
                let decision = json!({ "decision": "approve" });
                let request = operator.request("POST", &path, Some(&decision));
                connection.ask(&request).await.expect(200);
            }
        }
    }

    /// Connects them all; each answers until the set is dropped.
    async fn serve(&self, server: &Server) -> JoinSet<()> {
        let mut serving = JoinSet::new();
        for key in &self.keys {
            let (socket, _hello) = hello(&server.web_socket("/"), key, &self.token)
                .await
                .expect("a paired node is taken");
            serving.spawn(answer(socket, key.device_id().as_str().to_owned()));
        }
        serving
    }
}

/// Connects as a node; `None` when it is not taken.
async fn hello(address: &str, key: &DeviceKey, token: &str) -> Option<(Socket, Value)> {
    let mut socket = connect(address).await;
    let challenge = receive(&mut socket).await?;
    let nonce = challenge["payload"]["nonce"].as_str()?;
    let signed_at_ms = challenge["payload"]["ts"].as_i64()?;
    let device_id = key.device_id();
    let signature = ProofInput {
        device_id: device_id.as_str(),
        client_id: "node-host",
        client_mode: "node",
        role: "node",
        scopes: &[],
        signed_at_ms,
        token,
        nonce,
        platform: "linux",
        device_family: "Linux",
    }
    .sign(key, ProofVersion::V3);
    let connect = json!({
        "type": "req", "id": "connect", "method": "connect", "params": {
            "minProtocol": 4, "maxProtocol": 4, "role": "node", "scopes": [], "caps": ["system"], "commands": [COMMAND],
            "client": {
                "id": "node-host", "mode": "node", "version": "1", "platform": "linux", "deviceFamily": "Linux",
                "displayName": format!("node {}", device_id.as_str().get(..8).unwrap_or_default()),
            },
            "auth": { "token": token },
            "device": {
                "id": device_id.as_str(), "publicKey": key.public().to_text(), "signature": signature,
                "signedAt": signed_at_ms, "nonce": nonce,
            },
        },
    });
    send(&mut socket, &connect).await;
    let answer = receive(&mut socket).await?;
    (answer["ok"] == true).then_some((socket, answer))
}

async fn answer(mut socket: Socket, node: String) {
    while let Some(frame) = receive(&mut socket).await {
        if frame["event"] == "node.invoke.request" {
            let id = frame["payload"]["id"].as_str().unwrap_or_default();
            let result = json!({
                "type": "req", "id": id, "method": "node.invoke.result",
                "params": { "id": id, "nodeId": node, "ok": true, "payloadJSON": "{\"bins\":{}}" },
            });
            send(&mut socket, &result).await;
        }
    }
}

/// Callers that each call one node after the other.
async fn call_all(server: &Server, fleet: &Fleet, rounds: u32) -> (Samples, Duration) {
    let mut callers = Vec::new();
    for number in 0..CALLERS {
        callers.push((number, operator(server).await));
    }
    let nodes: Arc<Vec<String>> = Arc::new(
        fleet
            .keys
            .iter()
            .map(|key| key.device_id().as_str().to_owned())
            .collect(),
    );
    let begun = Instant::now();
    let tasks: JoinSet<Samples> = callers
        .into_iter()
        .map(|(number, mut socket)| {
            let nodes = Arc::clone(&nodes);
            async move {
                let mut times = Samples(Vec::new());
                for (round, node) in (0..rounds).zip(nodes.iter().cycle().skip(number * 61)) {
                    let id = format!("{number}-{round}");
                    let call = json!({
                        "type": "req", "id": id, "method": "node.invoke", "params": {
                            "nodeId": node, "command": COMMAND, "params": { "bins": ["sh"] }, "idempotencyKey": id,
                        },
                    });
                    let begun = Instant::now();
                    send(&mut socket, &call).await;
                    loop {
                        let frame = receive(&mut socket).await.expect("an answer");
                        if frame["type"] == "res" && frame["id"] == id.as_str() {
                            assert_eq!(frame["ok"], true, "{frame}");
                            break;
                        }
                    }
                    times.add(begun.elapsed());
                }
                times
            }
        })
        .collect();
    gather(tasks, begun).await
}

async fn operator(server: &Server) -> Socket {
    let mut socket = connect(&server.web_socket("/")).await;
    receive(&mut socket).await.expect("a challenge");
    let connect = json!({
        "type": "req", "id": "connect", "method": "connect", "params": {
            "minProtocol": 4, "maxProtocol": 4, "role": "operator", "scopes": ["operator.admin", "operator.write"],
            "client": { "id": "cli", "mode": "cli", "version": "1", "platform": "linux" },
            "auth": { "token": server.operator().token },
        },
    });
    send(&mut socket, &connect).await;
    let hello = receive(&mut socket).await.expect("an answer");
    assert_eq!(hello["ok"], true, "{hello}");
    socket
}

/// The same callers, each with a connection whose frames come back.
async fn echo_all(bare: &Server, rounds: u32) -> (Samples, Duration) {
    let mut sockets = Vec::new();
    for _ in 0..CALLERS {
        sockets.push(connect(&bare.web_socket("/ws")).await);
    }
    let begun = Instant::now();
    let tasks: JoinSet<Samples> = sockets
        .into_iter()
        .map(|mut socket| async move {
            let mut times = Samples(Vec::new());
            for round in 0..rounds {
                let frame =
                    json!({ "type": "req", "id": round, "method": "echo", "params": { "bins": ["sh"] } });
                let begun = Instant::now();
                send(&mut socket, &frame).await;
                receive(&mut socket).await.expect("an echo");
                times.add(begun.elapsed());
            }
            times
        })
        .collect();
    gather(tasks, begun).await
}

async fn gather(tasks: JoinSet<Samples>, begun: Instant) -> (Samples, Duration) {
    let times = tasks.join_all().await.into_iter().flat_map(|samples| samples.0);
    (Samples(times.collect()), begun.elapsed())
}
