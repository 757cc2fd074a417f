//! Stopping: no new runs, foreground ones get their time, background ones go on without us.

use std::{sync::Arc, time::Duration};

use countersign_config::settings::BackgroundRuns;
use countersign_domain::{Actor, ApprovalId, KillCause, Principal, Reason, Run, RunId, Scope};
use countersign_ledger::{
    CancelOutcome, LedgerError,
    events::{Event, EventKind},
};

use crate::{Engine, approve::Expiry, records, reply::CancelError, watch::tell};

/// The longest sleep towards a deadline: a clock that was set meanwhile is noticed that soon.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// How many questions are ended side by side when their deadlines have come.
const DUE_AT_ONCE: u32 = 64;
/// Pause before the next ones, so that a ledger that cannot be written is not asked without end.
const BETWEEN_PAGES: Duration = Duration::from_millis(50);
/// How long killed runs may take to be recorded before the server stops anyway.
const KILLED_TIMEOUT: Duration = Duration::from_secs(10);

impl Engine {
    /// Begins what goes on beside the requests. Call it once, after [`Engine::recover`].
    pub fn begin(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        self.lifecycle.spawn(async move { engine.expire_in_time().await });
        let engine = Arc::clone(self);
        self.lifecycle.spawn(async move { engine.write_notes().await });
        let engine = Arc::clone(self);
        self.lifecycle
            .spawn(async move { engine.judge_again_in_time().await });
        // The policy may have changed while there was no server, or just before the last one went.
        self.again.wake();
    }

    /// Takes nothing new, tells all listeners, and then ends the streams.
    async fn stop_taking(&self) {
        self.lifecycle.take_nothing_new();
        let grace = self.settings.current().server.shutdown.grace;
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        tell(
            &self.ledger,
            Event::general(EventKind::ServerShutdown { grace_ms }),
            Actor::system(),
        )
        .await;
        self.lifecycle.begin_to_stop();
    }

    /// Takes nothing new, waits up to the configured grace for foreground runs, ends the rest, and leaves
    /// background runs to their supervisors (or ends them too, as configured).
    ///
    /// # Cancel safety
    /// Dropped, it leaves runs as they are; call [`Engine::kill_all`] then.
    pub async fn drain(&self) {
        let shutdown = self.settings.current().server.shutdown.clone();
        self.stop_taking().await;
        if tokio::time::timeout(shutdown.grace, self.lifecycle.await_launches())
            .await
            .is_err()
        {
            tracing::error!("some runs were still being started");
        }
        if shutdown.background_runs == BackgroundRuns::Kill {
            self.kill_where(|background| background);
        }
        let calm = self.wait_for_runs(shutdown.background_runs);
        if tokio::time::timeout(shutdown.grace, calm).await.is_err() {
            self.kill_where(|background| !background);
            let calm = self.wait_for_runs(shutdown.background_runs);
            if tokio::time::timeout(KILLED_TIMEOUT, calm).await.is_err() {
                tracing::error!("runs did not end in time; the next start settles them");
            }
        }
    }

    /// Ends every run, background ones too, and waits until that is recorded.
    pub async fn kill_all(&self) {
        self.lifecycle.begin_to_stop();
        self.kill_where(|_background| true);
        let ended = async {
            self.lifecycle.await_launches().await;
            self.kill_where(|_background| true);
            self.wait_for_runs(BackgroundRuns::Kill).await;
        };
        if tokio::time::timeout(KILLED_TIMEOUT, ended).await.is_err() {
            tracing::error!("runs did not end in time; the next start settles them");
        }
    }

    /// Waits for the engine's own tasks, but for those that only hold background runs.
    pub async fn finish_tasks(&self) {
        self.lifecycle.close();
        let runs = self.live.all().len();
        if runs == 0 {
            self.lifecycle.finish().await;
        }
    }

    fn kill_where(&self, wanted: impl Fn(bool) -> bool) {
        for live in self.live.all() {
            if wanted(live.outlives_caller()) {
                live.kill(KillCause::Shutdown);
            }
        }
    }

    async fn wait_for_runs(&self, background: BackgroundRuns) {
        for live in self.live.all() {
            if background == BackgroundRuns::Kill {
                // Leftovers, too.
                self.live.is_gone(&live.run_id).await;
            } else if !live.outlives_caller() {
                live.ended().await;
            }
        }
    }

    /// Cancels a run: withdraws its question, or kills it (`docs/spec/http-api.md#resources`, `POST
    /// /v1/runs/{runId}/cancel`).
    ///
    /// # Errors
    /// [`CancelError`] when there is no such run for this caller, or it has ended.
    pub async fn cancel(self: &Arc<Self>, caller: &Principal, id: &RunId) -> Result<Run, CancelError> {
        let run = self.ledger.run(id).await?.ok_or(CancelError::NotFound)?;
        let by_scope = caller.has(Scope::Admin) || records::is_own(caller, &run);
        if !by_scope || !caller.may_act_for(&run.agent) {
            return Err(CancelError::NotFound);
        }
        if run.status.is_final() {
            return Err(CancelError::Ended(Box::new(run)));
        }
        self.cancel_for(id, &caller.actor).await
    }

    /// Cancels a run in the name of an actor who may.
    pub(super) async fn cancel_for(self: &Arc<Self>, id: &RunId, by: &Actor) -> Result<Run, CancelError> {
        let mut changes = self.broker.subscribe(id);
        loop {
            match self
                .ledger
                .cancel(id.clone(), Reason::Cancelled, by.clone())
                .await?
            {
                CancelOutcome::Cancelled(_approval) => {
                    self.broker.touch(id);
                    break;
                }
                CancelOutcome::NotFound => return Err(CancelError::NotFound),
                CancelOutcome::Ended(_status) => {
                    let run = self.ledger.run(id).await?.ok_or(CancelError::NotFound)?;
                    return Err(CancelError::Ended(Box::new(run)));
                }
                CancelOutcome::Started(_status) => {
                    if let Some(live) = self.live.get(id) {
                        live.kill(KillCause::Cancelled);
                        live.ended().await;
                        break;
                    }
                    // Between its permission and its supervisor; that change wakes us.
                    changes.changed().await;
                }
            }
        }
        self.ledger.run(id).await?.ok_or(CancelError::NotFound)
    }

    /// Ends questions when their deadline comes, until the server stops.
    async fn expire_in_time(self: Arc<Self>) {
        loop {
            let sleep = match self.expire_due().await {
                Ok(sleep) => sleep,
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "deadlines cannot be read"
                    );
                    Duration::from_secs(1)
                }
            };
            tokio::select! {
                () = self.lifecycle.stopping() => return,
                () = self.deadlines.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Ends what is due and returns how long nothing else will be.
    async fn expire_due(self: &Arc<Self>) -> Result<Duration, LedgerError> {
        let deadlines = self.ledger.pending_deadlines(DUE_AT_ONCE).await?;
        let now = self.clock.now();
        let due = deadlines.iter().filter(|deadline| now >= deadline.expires_at);
        // Side by side: one whose fallback waits for a place to run in must not hold up the others.
        let expiries = due.map(|deadline| self.expire_one(&deadline.approval));
        for expired in futures_util::future::join_all(expiries).await {
            expired?;
        }
        let next = deadlines.iter().find(|deadline| now < deadline.expires_at);
        Ok(match next {
            Some(next) => next.expires_at.since(self.clock.now()).min(LONGEST_SLEEP),
            // There may be more of them.
            None if deadlines.len() == DUE_AT_ONCE as usize => BETWEEN_PAGES,
            None => LONGEST_SLEEP,
        })
    }

    async fn expire_one(self: &Arc<Self>, id: &ApprovalId) -> Result<(), LedgerError> {
        if let Some(approval) = self.ledger.approval(id).await? {
            let expiry = self.expire(&approval, Expiry::Live);
            self.lifecycle.track_launch(expiry).await;
        }
        Ok(())
    }
}
