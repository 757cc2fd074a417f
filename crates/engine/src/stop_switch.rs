//! Whether everything is stopped, as everything that begins something asks.
//!
//! The ledger has the one value and looks at it wherever a permit or a question is made. What changes something without
//! one, such as a write to a command that runs, goes through [`StopSwitch::while_going`]. Ending and reading go on.

use std::{future::Future, pin::pin, sync::Arc};

use tokio::sync::RwLock;

use countersign_domain::Stop;
use countersign_ledger::{Ledger, StopStanding};
use countersign_sys::hooks;

/// What lets something pass while no stop is in effect.
#[derive(Debug)]
pub struct StopSwitch {
    ledger: Ledger,
    /// Held shared by what passes; a stop takes it once.
    under_way: RwLock<()>,
}

impl StopSwitch {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            under_way: RwLock::default(),
        }
    }

    /// The stop that is in force.
    pub fn stopped(&self) -> Option<Arc<StopStanding>> {
        self.ledger.stopped()
    }

    /// Refuses while everything is stopped.
    ///
    /// # Errors
    /// The stop.
    pub fn expect_going(&self) -> Result<(), Arc<Stop>> {
        match self.stopped() {
            Some(standing) if !hooks::promise_dropped("stop") => Err(Arc::clone(&standing.stop)),
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until the emergency stop is in effect.
    pub(crate) async fn until_stopped(&self) -> Arc<Stop> {
        let mut standings = self.ledger.watch_stop();
        loop {
            if let Some(standing) = &*standings.borrow_and_update() {
                return Arc::clone(&standing.stop);
            }
            if standings.changed().await.is_err() {
                // Its sender lives as long as the ledger.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Does something that may only happen while nothing is stopped. A stop cuts it off, and answers when it is.
    pub(crate) async fn while_going<T>(&self, work: impl Future<Output = T>) -> Result<T, Arc<Stop>> {
        let _passage = self.under_way.read().await;
        tokio::select! {
            biased;
            stop = self.until_stopped() => Err(stop),
            done = work => Ok(done),
        }
    }

    /// Begins something that may only begin while nothing is stopped, and waits for it however that goes on. What its
    /// first poll does decides.
    ///
    /// # Errors
    /// The stop; then it was not begun.
    pub async fn begin_while_going<T>(&self, work: impl Future<Output = T>) -> Result<T, Arc<Stop>> {
        let mut work = pin!(work);
        let begun = self
            .while_going(async { futures_util::poll!(work.as_mut()) })
            .await?;
        match begun {
            std::task::Poll::Ready(done) => Ok(done),
            std::task::Poll::Pending => Ok(work.await),
        }
    }

    /// Waits until what was let through before has ended or is cut off.
    pub(crate) async fn cut_off(&self) {
        drop(self.under_way.write().await);
    }

    /// Whether a stop is in effect that kills what runs.
    pub(crate) fn kills(&self) -> bool {
        self.stopped()
            .is_some_and(|standing| standing.killed_by.is_some())
    }
}
