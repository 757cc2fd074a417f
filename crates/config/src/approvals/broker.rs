//! Wakes those who wait for a person's answer, and knows whether anybody is there to answer.
//!
//! The ledger alone decides; a wake-up is a hint to look there again. A caller that waits subscribes first and
//! reads afterwards, so that no change falls between the two.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::watch;

use countersign_domain::RunId;

/// The waiting ones and the present approvers.
#[derive(Debug, Default)]
pub struct Broker {
    waiting: Mutex<HashMap<RunId, watch::Sender<u64>>>,
    approvers: AtomicUsize,
}

/// A wait for changes of one run; the first [`Subscription::changed`] covers everything since it was made.
#[derive(Debug)]
pub struct Subscription {
    broker: Arc<Broker>,
    run_id: RunId,
    /// There until it is dropped.
    changes: Option<watch::Receiver<u64>>,
}

/// Held while an approver is connected.
#[derive(Debug)]
#[must_use]
pub struct ApproverGuard(Arc<Broker>);

impl Broker {
    /// Begins to wait for changes of a run.
    pub fn subscribe(self: &Arc<Self>, run_id: &RunId) -> Subscription {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = waiting
            .entry(run_id.clone())
            .or_insert_with(|| watch::channel(0).0);
        Subscription {
            broker: Arc::clone(self),
            run_id: run_id.clone(),
            changes: Some(sender.subscribe()),
        }
    }

    /// Wakes every caller that waits for a run.
    pub fn touch(&self, run_id: &RunId) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = waiting.get(run_id) {
            sender.send_modify(|count| *count += 1);
        }
    }

    /// Whether a caller waits inline for a run.
    pub fn is_awaited(&self, run_id: &RunId) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.contains_key(run_id)
    }

    /// Counts an approver for as long as the guard lives.
    pub fn approver_connected(self: &Arc<Self>) -> ApproverGuard {
        self.approvers.fetch_add(1, Ordering::AcqRel);
        ApproverGuard(Arc::clone(self))
    }

    /// How many approvers are connected.
    pub fn approvers(&self) -> usize {
        self.approvers.load(Ordering::Acquire)
    }

    /// Whether an approver is connected.
    pub fn has_approver(&self) -> bool {
        self.approvers() > 0
    }
}

impl Subscription {
    /// Waits for the next change.
    ///
    /// # Cancel safety
    /// A change that came while nobody polled is seen by the next call.
    #[crate::compiled_once]
    pub async fn changed(&mut self) {
        // The sender lives in the broker's map for as long as this subscription does.
        let is_open = match &mut self.changes {
            Some(changes) => changes.changed().await.is_ok(),
            None => false,
        };
        if !is_open {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut waiting = self.broker.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: of two that leave at once, the second must see that the first is gone.
        drop(self.changes.take());
        if let Entry::Occupied(entry) = waiting.entry(self.run_id.clone())
            && entry.get().receiver_count() == 0
        {
            entry.remove();
        }
    }
}

impl Drop for ApproverGuard {
    fn drop(&mut self) {
        self.0.approvers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_between_subscribing_and_waiting_is_not_lost() {
        let broker = Arc::new(Broker::default());
        let run = RunId::parse("r1").unwrap();
        let mut subscription = broker.subscribe(&run);
        broker.touch(&run);
        subscription.changed().await;
        drop(subscription);
        assert!(!broker.is_awaited(&run));
    }

    #[test]
    fn nobody_waits_any_more_when_two_left_at_once() {
        let broker = Arc::new(Broker::default());
        let run = RunId::parse("r1").unwrap();
        for _ in 0..2_000 {
            let barrier = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                for subscription in [broker.subscribe(&run), broker.subscribe(&run)] {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        drop(subscription);
                    });
                }
            });
            assert!(!broker.is_awaited(&run));
        }
    }

    #[test]
    fn approvers_are_counted_while_they_are_connected() {
        let broker = Arc::new(Broker::default());
        let first = broker.approver_connected();
        let second = broker.approver_connected();
        drop(first);
        assert!(broker.has_approver());
        drop(second);
        assert!(!broker.has_approver());
    }
}
