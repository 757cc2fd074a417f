//! Event streams: what goes over the wire, the heartbeat, and the end.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use countersign_domain::Actor;
use countersign_ledger::{
    Ledger, LedgerThread,
    events::{Event, EventFilter, EventKind, PolicyPart, Start},
};
use countersign_sys::clock::SystemClock;

use super::open_ledger;

use crate::{
    event_frames::Frames,
    links::Links,
    peer::{Endpoint, Transport},
    sse,
};

struct Streamed {
    ledger: Ledger,
    thread: Option<LedgerThread>,
    stop: CancellationToken,
    _directory: tempfile::TempDir,
}

impl Drop for Streamed {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.stop();
        }
    }
}

impl Streamed {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (ledger, thread) = open_ledger(directory.path(), Arc::new(SystemClock));
        Self {
            ledger,
            thread: Some(thread),
            stop: CancellationToken::new(),
            _directory: directory,
        }
    }

    async fn happen(&self, kind: EventKind) {
        self.ledger
            .record(Event::general(kind), Actor::system())
            .await
            .unwrap();
    }

    fn stream(&self, start: Start) -> Lines {
        let subscription = self.ledger.subscribe(EventFilter::default(), start);
        let endpoint = Endpoint {
            address: ([127, 0, 0, 1], 1).into(),
            transport: Transport::Plain,
        };
        Lines::of(sse::response(
            (subscription, Arc::new(Frames::new(Links::new(None, endpoint)))),
            Arc::new(SystemClock),
            self.stop.clone(),
            Box::new(|| true),
            Vec::new(),
        ))
    }
}

/// Reads a stream frame by frame.
struct Lines(axum::body::BodyDataStream);

impl Lines {
    fn of(response: Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self(response.into_body().into_data_stream())
    }

    async fn next(&mut self) -> Option<String> {
        let frame = self.0.next().await?.unwrap();
        Some(String::from_utf8(frame.to_vec()).unwrap())
    }
}

fn changed() -> EventKind {
    EventKind::PolicyChanged {
        what: PolicyPart::Config,
        hash: None,
        by: None,
    }
}

/// The lines of a frame up to the data, whose time is not known here.
fn head(frame: &str) -> &str {
    frame.split_once("data: ").map_or(frame, |(head, _)| head)
}

#[tokio::test]
async fn a_stream_resumes_after_the_event_it_is_told() {
    let server = Streamed::new();
    for _ in 0..3 {
        server.happen(changed()).await;
    }
    let mut stream = server.stream(Start::After(1));
    assert_eq!(stream.next().await.unwrap(), ": countersign\n\n");
    let second = stream.next().await.unwrap();
    assert_eq!(head(&second), "id: 2\nevent: policy.changed\n");
    assert!(
        second.contains("\"seq\":2,") && second.ends_with("}\n\n"),
        "{second}"
    );
    assert_eq!(
        head(&stream.next().await.unwrap()),
        "id: 3\nevent: policy.changed\n"
    );
    server.happen(changed()).await;
    assert_eq!(
        head(&stream.next().await.unwrap()),
        "id: 4\nevent: policy.changed\n"
    );
}

#[tokio::test]
async fn a_stop_still_delivers_the_shutdown_and_then_ends() {
    let server = Streamed::new();
    let mut stream = server.stream(Start::Now);
    assert_eq!(stream.next().await.unwrap(), ": countersign\n\n");
    server.happen(changed()).await;
    server.happen(EventKind::ServerShutdown { grace_ms: 5 }).await;
    server.stop.cancel();
    assert_eq!(
        head(&stream.next().await.unwrap()),
        "id: 1\nevent: policy.changed\n"
    );
    let last = stream.next().await.unwrap();
    assert!(
        last.contains("event: server.shutdown\n") && last.contains("\"graceMs\":5"),
        "{last}"
    );
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_quiet_stream_ends_when_the_server_stops() {
    let server = Streamed::new();
    let mut stream = server.stream(Start::Now);
    assert_eq!(stream.next().await.unwrap(), ": countersign\n\n");
    server.stop.cancel();
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_quiet_stream_has_a_heartbeat_every_15_seconds() {
    let server = Streamed::new();
    let mut stream = server.stream(Start::Now);
    assert_eq!(stream.next().await.unwrap(), ": countersign\n\n");
    tokio::time::pause();
    let before = tokio::time::Instant::now();
    assert_eq!(stream.next().await.unwrap(), ": \n\n");
    assert_eq!(stream.next().await.unwrap(), ": \n\n");
    let passed = before.elapsed();
    assert!(
        (Duration::from_secs(15)..=Duration::from_secs(31)).contains(&passed),
        "{passed:?}"
    );
}
