//! The bare server: the same work by the shortest way. No authentication, policy, record or supervision.

mod approvals;
mod events;
mod exec;

use std::{fs::File, sync::Arc};

use axum::{
    Json, Router,
    extract::{
        State,
        ws::{Message, WebSocketUpgrade},
    },
    response::Response,
    routing::{get, post},
};
use serde_json::Value;

use approvals::Approvals;
use events::Broadcast;

/// The argument that makes this program the bare server; a file may follow, which decisions are written to.
pub(crate) const MODE: &str = "serve-reference";

/// What the handlers share.
#[derive(Debug)]
struct Shared {
    broadcast: Broadcast,
    approvals: Approvals,
}

/// Serves until it is killed; prints its address when ready, as countersign does.
pub(crate) fn serve(record: Option<String>) {
    let record = record.map(|path| File::create(path).expect("the file of decisions"));
    let shared = Arc::new(Shared {
        broadcast: Broadcast::default(),
        approvals: Approvals::new(record),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("an address");
        println!("ready http://{}", listener.local_addr().expect("an address"));
        let router = Router::new()
            .route("/v1/exec", post(exec::exec))
            .route("/v1/approvals/{id}/decision", post(approvals::decide))
            .route("/v1/events", get(events::events))
            .route("/publish", post(events::publish))
            .route("/echo", post(echo))
            .route("/record", post(recorded))
            .route("/ws", get(echo_frames))
            .with_state(shared);
        axum::serve(listener, router).await.expect("serving");
    });
}

/// Gives the request back once a line is synced.
async fn recorded(State(shared): State<Arc<Shared>>, Json(body): Json<Value>) -> Json<Value> {
    shared.approvals.record("decision\n").await;
    Json(body)
}

async fn echo(Json(body): Json<Value>) -> Json<Value> {
    Json(body)
}

/// Gives every frame back.
async fn echo_frames(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |mut socket| {
        while let Some(Ok(message)) = socket.recv().await {
            if !matches!(message, Message::Text(_)) {
                continue;
            }
            if socket.send(message).await.is_err() {
                return;
            }
        }
    })
}
