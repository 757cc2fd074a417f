//! The handle that everybody holds. The methods that change or read something lie beside what they work with, each in
//! its own file.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use countersign_domain::RunId;
use countersign_sys::clock::Clock;

use crate::events::Feed;

use super::{
    audit,
    config::Tuning,
    health::Health,
    keys::Keys,
    ledger_file::Files,
    queue::Queue,
    readers::Readers,
    stats::LedgerStats,
    stop_switch::StopSwitch,
    waiting::{Leaving, Waiting},
};

/// The ledger, as everybody but its writer sees it. Cheap to clone.
///
/// Every change is done once it is sent, even if its future is dropped; what must not get lost with the caller
/// (a launch above all) belongs in a task of its own.
#[derive(Debug, Clone)]
pub struct Ledger {
    pub(super) queue: Arc<Queue>,
    pub(super) readers: Arc<Readers>,
    pub(super) keys: Arc<Keys>,
    pub(super) feed: Arc<Feed>,
    pub(super) stats: LedgerStats,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tuning: Arc<ArcSwap<Tuning>>,
    pub(super) health: watch::Receiver<Health>,
    pub(super) sealed: watch::Receiver<audit::SealedHead>,
    pub(super) files: Arc<Files>,
    pub(super) record: Option<audit::ProblemKind>,
    /// Whether runs were found since that it had forgotten.
    pub(super) forgot: Arc<AtomicBool>,
    pub(super) stop: Arc<StopSwitch>,
    pub(super) waiting: Arc<Waiting>,
}

/// The writer's thread. Stop it after everybody who writes has ended.
#[derive(Debug)]
pub struct LedgerThread {
    pub(super) queue: Arc<Queue>,
    pub(super) thread: JoinHandle<()>,
}

impl LedgerThread {
    /// Does what is queued, seals the audit head and ends. Blocks; call it where blocking is allowed.
    pub fn stop(self) {
        self.queue.stop();
        if self.thread.join().is_err() {
            tracing::error!("the ledger's writer had panicked");
        }
    }
}

impl Ledger {
    /// A caller of a run goes away: what that means for others who joined it.
    pub fn leave_run(&self, run: &RunId) -> Leaving {
        self.waiting.leave(run)
    }

    /// A caller of a run is there again.
    pub fn come_back_to(&self, run: &RunId) {
        self.waiting.come_back(run);
    }

    /// Whether calls joined a run, and not all of its callers went away.
    pub fn is_shared(&self, run: &RunId) -> bool {
        self.waiting.is_shared(run)
    }

    /// What was wrong with the end of the audit record when the ledger was opened, or what was found since.
    pub fn broken_record(&self) -> Option<audit::ProblemKind> {
        let forgot = self.forgot.load(Ordering::Relaxed);
        self.record
            .or_else(|| forgot.then_some(audit::ProblemKind::Forgotten))
    }

    /// Whether the newest records were gone when the ledger was opened.
    pub fn was_cut(&self) -> bool {
        self.record == Some(audit::ProblemKind::Truncated)
    }

    /// Whether the ledger can be written now.
    pub fn health(&self) -> Health {
        if !self.files.ledger_file.is_there() {
            return Health::Gone;
        }
        // Its sender lives as long as anything is written.
        if self.health.has_changed().is_err() {
            Health::Unavailable
        } else {
            *self.health.borrow()
        }
    }

    /// Follows [`Self::health`].
    pub fn watch_health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// The head of the audit chain as it was sealed last, and those that follow.
    pub fn watch_sealed_head(&self) -> watch::Receiver<audit::SealedHead> {
        self.sealed.clone()
    }

    /// What it counts, for metrics.
    pub const fn stats(&self) -> &LedgerStats {
        &self.stats
    }

    /// Changes that wait for the writer now.
    pub fn queue_depth(&self) -> usize {
        self.queue.depth()
    }

    /// Has idle connections forget the pages that they hold. The next reading takes them from the system again.
    pub fn release_memory(&self) {
        self.readers.shrink();
    }

    /// Times that a slow subscriber went back to the log.
    pub fn catch_ups(&self) -> u64 {
        self.feed.catch_ups()
    }

    /// Changes durability and retention from now on.
    pub fn tune(&self, tuning: Tuning) {
        self.tuning.store(Arc::new(tuning));
    }
}
