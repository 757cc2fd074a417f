//! Runs that ended while the ledger cannot be written: who waits for one is told so, and the recording goes on.

use std::{collections::HashMap, time::Duration};

use tokio::sync::watch;

use countersign_domain::RunId;

use crate::reply::StorageTrouble;

/// How long those who wait for a run wait for its end to be recorded, before they are told that it is not.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// How much longer they wait while the ledger works on it and nothing failed. Together it is less than the 5 seconds by which a call
/// may outlive its deadline.
pub(crate) const LONGER: Duration = Duration::from_millis(1500);

/// The same where the command ended by itself, before any limit of the call. A machine that compiles can keep a disk busy for so long.
pub(crate) const LONGER_WITHIN_ITS_TIME: Duration = Duration::from_secs(12);

/// The ends that are not on record yet, for longer than anybody waits for that, and why.
#[derive(Debug, Default)]
pub(crate) struct Unrecorded(watch::Sender<HashMap<RunId, StorageTrouble>>);

impl Unrecorded {
    /// Tells all who wait for a run, now and later.
    pub(crate) fn note(&self, run_id: &RunId, trouble: StorageTrouble) {
        self.0.send_modify(|ends| {
            ends.insert(run_id.clone(), trouble);
        });
    }

    /// It is on record now, or nobody tries any more.
    pub(crate) fn forget(&self, run_id: &RunId) {
        self.0.send_if_modified(|ends| ends.remove(run_id).is_some());
    }

    /// Waits until the end of a run could not be recorded in time.
    pub(crate) async fn noted(&self, run_id: &RunId) -> StorageTrouble {
        let mut ends = self.0.subscribe();
        // `self` holds the sender, so it cannot close.
        let found = ends.wait_for(|ends| ends.contains_key(run_id)).await;
        let trouble = found.ok().and_then(|ends| ends.get(run_id).copied());
        trouble.unwrap_or(StorageTrouble::Unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_who_waits_for_that_run_is_told() {
        let ends = Unrecorded::default();
        let [run, other] = ["r1", "r2"].map(|id| RunId::parse(id).unwrap());
        ends.note(&run, StorageTrouble::Full);
        assert_eq!(ends.noted(&run).await, StorageTrouble::Full);
        let waited = tokio::time::timeout(PATIENCE, ends.noted(&other)).await;
        assert!(waited.is_err());
        ends.forget(&run);
        let waited = tokio::time::timeout(PATIENCE, ends.noted(&run)).await;
        assert!(waited.is_err());
    }
}
