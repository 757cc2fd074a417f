//! A bare broadcast: what is published goes to everybody who listens, and is kept nowhere.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json,
    extract::{Query, State},
    http::{HeaderMap, header},
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_stream::{StreamExt, wrappers::BroadcastStream};

use super::Shared;

/// Events that a slow listener may lag behind before it loses some; as many as countersign's ring holds.
const RING: usize = 4096;

/// One event, rendered once.
type Published = (u64, &'static str, Arc<str>);

/// Numbers events and hands them to everybody.
#[derive(Debug)]
pub(super) struct Broadcast {
    seq: Mutex<u64>,
    sender: broadcast::Sender<Published>,
}

impl Default for Broadcast {
    fn default() -> Self {
        Self {
            seq: Mutex::default(),
            sender: broadcast::Sender::new(RING),
        }
    }
}

impl Broadcast {
    pub(super) fn publish(&self, make: impl FnOnce(u64) -> (&'static str, Value)) {
        let mut seq = self.seq.lock().unwrap_or_else(PoisonError::into_inner);
        *seq += 1;
        let (kind, data) = make(*seq);
        // An error only says that nobody listens.
        drop(self.sender.send((*seq, kind, data.to_string().into())));
    }

    fn newest(&self) -> u64 {
        *self.seq.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    after: u64,
}

/// A stream, or, for who asks for JSON, the numbers after one.
pub(super) async fn events(
    State(shared): State<Arc<Shared>>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Response {
    if headers.contains_key(header::ACCEPT) {
        let numbers = wanted.after + 1..=shared.broadcast.newest();
        let items: Vec<Value> = numbers.take(500).map(|seq| json!({ "seq": seq })).collect();
        return Json(json!({ "items": items })).into_response();
    }
    let stream = BroadcastStream::new(shared.broadcast.sender.subscribe());
    // Whoever lags behind the ring misses what left it.
    let stream = stream.filter_map(Result::ok).map(|(seq, kind, data)| {
        Ok::<_, Infallible>(Event::default().id(seq.to_string()).event(kind).data(&data))
    });
    Sse::new(stream).into_response()
}

/// Publishes an event of about the size that countersign's have.
pub(super) async fn publish(State(shared): State<Arc<Shared>>, Json(body): Json<Value>) -> Json<Value> {
    shared.broadcast.publish(|seq| {
        let data = json!({
            "seq": seq, "ts": 1_700_000_000_000_u64 + seq, "type": "exec.requested",
            "runId": "run-019a0000-0000-7000-8000-000000000000", "agentId": "main", "sessionKey": "agent:main:main",
            "host": "gateway", "command": body, "cwd": "/tmp/countersign-load-000000/workspace",
            "requestedBy": { "kind": "token", "id": "tok-019a0000-0000-7000-8000-000000000000", "name": "gateway" },
            "verdict": "deny",
        });
        ("exec.requested", data)
    });
    Json(json!({}))
}
