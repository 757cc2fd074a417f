//! The handle that everybody holds.

use std::{sync::Arc, thread::JoinHandle};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use countersign_domain::{Actor, Approval, ApprovalId, EnvOverrides, Persist, Reason, RunId};
use countersign_sys::clock::Clock;

use crate::events::{Event, Feed};

use super::{
    admit::{Denial, DirectLaunch},
    ask::{AskOutcome, Asking, NoRoute, NoRouteOutcome},
    audit,
    by_rule::{SettleByRule, SettleOutcome},
    config::Tuning,
    decide::{Decide, DecideOutcome, SettlePersist},
    elsewhere::UseAnswer,
    error::LedgerError,
    expire::{Expire, ExpireOutcome},
    finish::{Cancel, CancelOutcome, Deny, Finish, Finished},
    health::Health,
    idempotency::{Admission, IdempotencyKey, KeepAnswer},
    keys::Keys,
    launch::{ApprovedLaunch, ApprovedOutcome, LaunchOutcome, Relaunch, RelaunchOutcome},
    ledger_file::Files,
    notes::Started,
    progress::Background,
    queue::Queue,
    readers::Readers,
    record::{AuditedChange, Record},
    retention::{Prune, Pruned},
    revise::{Revise, ReviseOutcome, WaitingEnv},
    run_end::EndOutcome,
    stats::LedgerStats,
    stop_switch::StopSwitch,
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
    pub(super) stop: Arc<StopSwitch>,
    pub(super) epoch: i64,
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
    /// Counts the openings of this ledger; launches of smaller epochs belong to servers that are gone.
    pub const fn epoch(&self) -> i64 {
        self.epoch
    }

    /// What was wrong with the end of the audit record when the ledger was opened.
    pub fn broken_record(&self) -> Option<audit::ProblemKind> {
        self.record
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

    /// Times that a slow subscriber went back to the log.
    pub fn catch_ups(&self) -> u64 {
        self.feed.catch_ups()
    }

    /// Changes durability and retention from now on.
    pub fn tune(&self, tuning: Tuning) {
        self.tuning.store(Arc::new(tuning));
    }

    /// Admits a run that the policy lets start, and launches it.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn admit_and_launch(
        &self,
        launch: DirectLaunch,
    ) -> Result<Admission<LaunchOutcome>, LedgerError> {
        self.queue.submit(launch).await
    }

    /// Admits a run that the policy denies.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn admit_denied(&self, denial: Denial) -> Result<Admission<()>, LedgerError> {
        self.queue.submit(denial).await
    }

    /// Admits a run that waits for a person.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn admit_asking(&self, asking: Asking) -> Result<Admission<AskOutcome>, LedgerError> {
        self.queue.submit(asking).await
    }

    /// Admits a run that nobody can be asked about.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn admit_no_route(&self, no_route: NoRoute) -> Result<Admission<NoRouteOutcome>, LedgerError> {
        self.queue.submit(no_route).await
    }

    /// Keeps the answer of a keyed call that got no run.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn keep_answer(
        &self,
        key: IdempotencyKey,
        status: u16,
        body: String,
    ) -> Result<Admission<()>, LedgerError> {
        self.queue.submit(KeepAnswer { key, status, body }).await
    }

    /// Decides an approval; of any number of decisions one counts.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn decide(&self, decide: Decide) -> Result<DecideOutcome, LedgerError> {
        self.queue.submit(decide).await
    }

    /// Ends an approval and asks about a changed command in its place, both or neither.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn revise(&self, revise: Revise) -> Result<ReviseOutcome, LedgerError> {
        self.queue.submit(revise).await
    }

    /// The values of the environment overrides that a pending approval holds; `None` when there is no such approval,
    /// or it holds them no more.
    ///
    /// # Errors
    /// When the ledger cannot be used.
    pub async fn waiting_env(&self, approval: &ApprovalId) -> Result<Option<EnvOverrides>, LedgerError> {
        self.queue.submit(WaitingEnv(approval.clone())).await
    }

    /// Ends an approval whose deadline has come, with its fallback.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn expire(&self, expire: Expire) -> Result<ExpireOutcome, LedgerError> {
        self.queue.submit(expire).await
    }

    /// Settles a question that waits by what the policy says now.
    ///
    /// # Errors
    /// When the ledger cannot be written, or everything is stopped; then nothing was.
    pub async fn settle_by_rule(&self, settle: SettleByRule) -> Result<SettleOutcome, LedgerError> {
        self.queue.submit(settle).await
    }

    /// Consumes an allowed approval and launches its run.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn launch(&self, launch: ApprovedLaunch) -> Result<ApprovedOutcome, LedgerError> {
        self.queue.submit(launch).await
    }

    /// Launches again, under its old launch id, what an earlier server never started. The caller holds its fence.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn relaunch(&self, relaunch: Relaunch) -> Result<RelaunchOutcome, LedgerError> {
        self.queue.submit(relaunch).await
    }

    /// Notes that a run started. Returns at once; it is written with the next batch, within some 20 ms, and always
    /// before a [`Self::finish`] that is called later.
    pub fn started(&self, started: Started) {
        self.queue.note_started(started);
    }

    /// Notes that a run went to the background as this process session. `false` when it had ended.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn background(&self, run_id: RunId, session_id: String) -> Result<bool, LedgerError> {
        let session_id = Some(session_id);
        self.queue.submit(Background { run_id, session_id }).await
    }

    /// Notes that nobody waits for a run which has not started yet: it will be a process session.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn outlives_caller(&self, run_id: RunId) -> Result<(), LedgerError> {
        let session_id = None;
        self.queue.submit(Background { run_id, session_id }).await?;
        Ok(())
    }

    /// Ends a run, and says how it then stood.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was, and it must be tried again.
    pub async fn finish(&self, finish: Finish) -> Result<Finished, LedgerError> {
        self.queue.submit(finish).await
    }

    /// Denies a run that was admitted and then must not start after all.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn deny(
        &self,
        run_id: RunId,
        reason: Reason,
        detail: Option<String>,
    ) -> Result<EndOutcome, LedgerError> {
        self.queue
            .submit(Deny {
                run_id,
                reason,
                detail,
            })
            .await
    }

    /// Cancels a run that has not started, and its pending approval. `reason`: `cancelled` or `shutdown`.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    pub async fn cancel(
        &self,
        run_id: RunId,
        reason: Reason,
        by: Actor,
    ) -> Result<CancelOutcome, LedgerError> {
        self.queue.submit(Cancel { run_id, reason, by }).await
    }

    /// Uses up an allowing answer about a command that another program starts; `None` when there is none.
    ///
    /// # Errors
    /// When the ledger cannot be written; then it was not used.
    pub async fn use_answer(&self, answer: UseAnswer) -> Result<Option<Approval>, LedgerError> {
        self.queue.submit(answer).await
    }

    /// The entries of an `allow-always` are in the approvals document. `false` when that was settled before.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn persist_done(&self, approval: ApprovalId) -> Result<bool, LedgerError> {
        self.queue
            .submit(SettlePersist {
                approval,
                to: Persist::Done,
                warning: None,
            })
            .await
    }

    /// The entries of an `allow-always` are given up, which its run and the audit tell by the code of a warning. `false`
    /// when that was settled before.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn persist_dropped(&self, approval: ApprovalId, warning: String) -> Result<bool, LedgerError> {
        self.queue
            .submit(SettlePersist {
                approval,
                to: Persist::Dropped,
                warning: Some(warning),
            })
            .await
    }

    /// Logs and publishes an event that is not part of another change.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn record(&self, event: Event, by: Actor) -> Result<(), LedgerError> {
        self.queue.submit(Record { event, by }).await
    }

    /// Appends an audit record, and logs and publishes the event of the same change.
    ///
    /// # Errors
    /// When the ledger cannot be written; then neither was.
    pub async fn record_change(
        &self,
        audit: audit::Entry,
        event: Event,
        by: Actor,
    ) -> Result<(), LedgerError> {
        self.queue.submit(AuditedChange { audit, event, by }).await
    }

    /// Removes one step's worth of what is too old; call again while it says `more`.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn prune(&self) -> Result<Pruned, LedgerError> {
        let retention = self.tuning.load().retention;
        self.queue.submit(Prune { retention }).await
    }
}
