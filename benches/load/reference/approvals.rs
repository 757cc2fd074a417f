//! Approvals in memory.

use std::{
    collections::HashMap,
    fs::File,
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json,
    extract::{Path, State},
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Shared, events::Broadcast};

/// Who waits, and the file that keeps decisions, if one does.
#[derive(Debug)]
pub(super) struct Approvals {
    waiting: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    record: Option<Arc<Mutex<File>>>,
}

impl Approvals {
    pub(super) fn new(record: Option<File>) -> Self {
        Self {
            waiting: Mutex::default(),
            record: record.map(|file| Arc::new(Mutex::new(file))),
        }
    }

    /// Tells everybody and waits until somebody answers.
    pub(super) async fn ask(&self, broadcast: &Broadcast) {
        let (answer, answered) = oneshot::channel();
        broadcast.publish(|seq| {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.insert(seq, answer);
            (
                "exec.approval.requested",
                json!({ "approvalId": seq.to_string() }),
            )
        });
        answered.await.expect("an answer");
    }

    /// Writes a line to the file of decisions and syncs it.
    pub(super) async fn record(&self, what: &'static str) {
        let Some(record) = self.record.clone() else { return };
        let written = tokio::task::spawn_blocking(move || {
            let mut file = record.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(what.as_bytes()).and_then(|()| file.sync_data())
        });
        written.await.expect("the writer").expect("writing a decision");
    }
}

pub(super) async fn decide(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<u64>,
    Json(_): Json<Value>,
) -> Json<Value> {
    let answer = {
        let mut waiting = shared
            .approvals
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&id).expect("somebody waits")
    };
    shared.approvals.record("decision").await;
    answer.send(()).expect("somebody waits");
    Json(json!({ "applied": true }))
}
