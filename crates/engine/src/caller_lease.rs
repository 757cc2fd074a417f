//! Caller leases: what a caller started under a lease ends with the caller, however the caller ends.
//!
//! A killed caller says nothing, and an answered call has no connection that could break. So the caller calls again and again
//! under its idempotency key, each time for some minutes. When a call breaks off, or was answered with something that goes on,
//! the next one has to come within [`COME_BACK`]; else the question is withdrawn or the run is killed. A lease must never end
//! what anybody still waits for, and a server that stops ends nothing here. The command line's side: `cli/caller_lease.rs`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use countersign_config::approvals::broker::Broker;
use countersign_domain::{Reason, Run, RunId, RunStatus};
use countersign_ledger::{CancelOutcome, Ledger};

use crate::{base::Base, cancel::Cancels, lifecycle::Lifecycle, reply::CancelError};

/// How long the caller of a lease may be away: longer than the pause before the command line tries a broken connection again.
const COME_BACK: Duration = Duration::from_secs(3);

/// What ends with its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndsWithCaller {
    /// The question to a person. What they allowed goes on.
    Question,
    /// The question, and the run as well.
    Run,
}

/// A lease: what ends with its caller, and for how long this call keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerLease {
    /// What ends with the caller.
    pub held: EndsWithCaller,
    /// How long the call waits for a person, and, where the run ends with the caller, for its end.
    pub wait: Duration,
}

/// The leased runs whose caller is away, each with the number of the time that counts.
#[derive(Debug, Default)]
struct CallerLeases(Mutex<Away>);

#[derive(Debug, Default)]
struct Away {
    last: u64,
    since: HashMap<RunId, u64>,
}

impl CallerLeases {
    /// The caller is away from now on.
    fn leave(&self, run_id: &RunId) -> u64 {
        let mut away = self.lock();
        away.last += 1;
        let number = away.last;
        away.since.insert(run_id.clone(), number);
        number
    }

    /// The caller of the run is back.
    fn come_back(&self, run_id: &RunId) {
        self.lock().since.remove(run_id);
    }

    /// Whether nobody came back since; it is forgotten then.
    fn is_over(&self, run_id: &RunId, number: u64) -> bool {
        let mut away = self.lock();
        let is_over = away.since.get(run_id) == Some(&number);
        if is_over {
            away.since.remove(run_id);
        }
        is_over
    }

    fn lock(&self) -> MutexGuard<'_, Away> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends what its caller does not come back for.
#[derive(Debug)]
pub(crate) struct Leases {
    away: CallerLeases,
    ledger: Ledger,
    broker: Arc<Broker>,
    cancels: Arc<Cancels>,
    lifecycle: Arc<Lifecycle>,
}

impl Leases {
    pub(crate) fn new(base: &Base, cancels: Arc<Cancels>) -> Self {
        Self {
            away: CallerLeases::default(),
            ledger: base.ledger.clone(),
            broker: Arc::clone(&base.broker),
            cancels,
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// The caller of the run is back.
    pub(crate) fn come_back(&self, run_id: &RunId) {
        self.away.come_back(run_id);
    }

    /// Begins the time within which the caller of a leased run has to come back.
    pub(crate) fn lapse(self: &Arc<Self>, run_id: &RunId, held: EndsWithCaller) {
        let number = self.away.leave(run_id);
        let (leases, run_id) = (Arc::clone(self), run_id.clone());
        self.lifecycle.spawn(async move {
            tokio::select! {
                () = leases.lifecycle.stopping() => return,
                () = tokio::time::sleep(COME_BACK) => {}
            }
            if leases.away.is_over(&run_id, number)
                && !leases.broker.is_awaited(&run_id)
                && let Err(error) = leases.end_abandoned(&run_id, held).await
            {
                tracing::error!(run.id = %run_id, error = &error as &dyn std::error::Error, "a run whose caller is gone was not ended");
            }
        });
    }

    async fn end_abandoned(&self, run_id: &RunId, held: EndsWithCaller) -> Result<(), CancelError> {
        let run = self.ledger.run(run_id).await?.ok_or(CancelError::NotFound)?;
        if run.status.is_final() {
            return Ok(());
        }
        match held {
            EndsWithCaller::Run => match self.cancels.cancel_for(run_id, &run.requested_by).await {
                Ok(_) | Err(CancelError::Ended(_)) => Ok(()),
                Err(error @ (CancelError::NotFound | CancelError::Storage(_))) => Err(error),
            },
            EndsWithCaller::Question => self.withdraw(&run).await,
        }
    }

    /// Withdraws a question, unless it was answered.
    async fn withdraw(&self, run: &Run) -> Result<(), CancelError> {
        if run.status != RunStatus::Asking {
            return Ok(());
        }
        let by = run.requested_by.clone();
        match self.ledger.cancel(run.id.clone(), Reason::Cancelled, by).await? {
            CancelOutcome::Cancelled(_approval) => self.broker.touch(&run.id),
            CancelOutcome::NotFound | CancelOutcome::Ended(_) | CancelOutcome::Started(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_leave_counts_and_coming_back_ends_it() {
        let leases = CallerLeases::default();
        let run = RunId::parse("r1").unwrap();
        let first = leases.leave(&run);
        let second = leases.leave(&run);
        assert!(!leases.is_over(&run, first));
        assert!(leases.is_over(&run, second));
        assert!(!leases.is_over(&run, second));
        let third = leases.leave(&run);
        leases.come_back(&run);
        assert!(!leases.is_over(&run, third));
        assert!(leases.lock().since.is_empty());
    }
}
