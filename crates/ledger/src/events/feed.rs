//! The ring that carries events to everybody who listens now.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use tokio::sync::broadcast;

use countersign_domain::UnixMillis;

use super::{EventFilter, EventLog, EventType, OutputChunk, Publication, Start, Subject, Subscription};

/// Events that a slow subscriber may lag behind before it goes back to the log.
const RING: usize = 4096;

/// Pieces of output that a slow subscriber may lag behind before it misses some; output is not kept.
const OUTPUT_RING: usize = 1024;

/// What of a `system.event` a session is told.
#[derive(serde::Deserialize)]
struct SessionNotice {
    ts: i64,
    text: String,
}

/// Who keeps what sessions are told. Called by the ledger's writer, in the order of the commits and before anybody is
/// answered, so it must return at once.
pub trait SessionNotifier: std::fmt::Debug + Send + Sync {
    /// A session was told something.
    fn notify(&self, subject: &Subject, at: UnixMillis, text: &str);
}

/// Where committed events are published, in the order of their numbers.
#[derive(Debug)]
pub struct Feed {
    ring: broadcast::Sender<Arc<Publication>>,
    output: broadcast::Sender<Arc<Publication>>,
    head: AtomicI64,
    catch_ups: Arc<AtomicU64>,
    session_notifier: OnceLock<Arc<dyn SessionNotifier>>,
}

impl Feed {
    /// A feed whose last stored event has the number `head`, 0 for none.
    pub(crate) fn starting_after(head: i64) -> Arc<Self> {
        Arc::new(Self {
            ring: broadcast::Sender::new(RING),
            output: broadcast::Sender::new(OUTPUT_RING),
            head: AtomicI64::new(head),
            catch_ups: Arc::default(),
            session_notifier: OnceLock::new(),
        })
    }

    /// Number of the last published event, 0 for none.
    pub fn head(&self) -> i64 {
        self.head.load(Ordering::Acquire)
    }

    /// Publishes a committed event. Only the ledger's writer calls this, with rising numbers.
    pub fn publish(&self, publication: Arc<Publication>) {
        if let Some(seq) = publication.seq {
            self.head.store(seq, Ordering::Release);
        }
        self.notify_sessions(&publication);
        // An error only says that nobody listens.
        drop(self.ring.send(publication));
    }

    /// Names who keeps what sessions are told from now on; the first one stays.
    pub fn set_session_notifier(&self, notifier: Arc<dyn SessionNotifier>) {
        self.session_notifier.get_or_init(|| notifier);
    }

    fn notify_sessions(&self, publication: &Publication) {
        if publication.event_type != EventType::SystemEvent {
            return;
        }
        let Some(notifier) = self.session_notifier.get() else {
            return;
        };
        let notice: SessionNotice = match serde_json::from_str(&publication.data) {
            Ok(notice) => notice,
            Err(error) => {
                tracing::error!(%error, "what a session is told does not read as it was written");
                return;
            }
        };
        notifier.notify(&publication.subject, UnixMillis::new(notice.ts), &notice.text);
    }

    /// Publishes a piece of output to those who listen now; costs nothing when nobody does.
    pub fn publish_output(&self, chunk: &OutputChunk) {
        if self.output.receiver_count() == 0 {
            return;
        }
        let publication = Publication {
            seq: None,
            event_type: EventType::ExecOutput,
            subject: chunk.subject.clone(),
            data: chunk.data_json().into(),
        };
        drop(self.output.send(Arc::new(publication)));
    }

    /// How often a subscriber fell so far behind that it went back to the log.
    pub fn catch_ups(&self) -> u64 {
        self.catch_ups.load(Ordering::Relaxed)
    }

    /// How many follow output as it comes.
    pub fn output_subscribers(&self) -> usize {
        self.output.receiver_count()
    }

    /// Follows the events from `start` on, those of `filter` only.
    pub fn subscribe(&self, log: Arc<dyn EventLog>, filter: EventFilter, start: Start) -> Subscription {
        // Read before the ring is joined: an event published in between has a higher number and is
        // kept, none can be skipped as already seen.
        let head = self.head();
        let ring = self.ring.subscribe();
        let output = filter.output.then(|| self.output.subscribe());
        Subscription::new(log, filter, ring, output, start, head).counting(Arc::clone(&self.catch_ups))
    }
}
