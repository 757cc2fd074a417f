//! The emergency stop as the engine knows it: pressing it, and letting everything go on. What passes meanwhile:
//! [`crate::stop_switch`]. Entry points: [`Stops::stop`], [`Stops::resume`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use countersign_config::approvals::broker::Broker;
use countersign_domain::{Actor, KillCause, Run, RunStatus, Stop};
use countersign_ledger::{
    Ledger, LedgerError, Page, Pressed, Resume, ResumeOutcome, RunFilter, StopStanding, Takes,
};
use countersign_sys::clock::Clock;

use crate::{
    accepted_policy::AcceptedPolicy,
    lifecycle::Lifecycle,
    live::{LiveRun, LiveRuns},
    reply::StorageTrouble,
    stop_switch::StopSwitch,
};

/// How long killed runs may take to end before the answer says that they still run.
const KILLED_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a stop is written again that the ledger did not take; room on the disk is noticed before.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// Most runs in one answer: far more than may run at once.
const MOST_LISTED: u32 = 1000;

/// What becomes of what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhatRuns {
    /// Nothing new starts; running commands end by themselves.
    GoesOn,
    /// Commands are killed as soon as this server can reach them.
    IsKilled,
}

/// What a stop did.
#[derive(Debug, Clone)]
pub struct Stopped {
    /// The stop that is in force.
    pub standing: Arc<StopStanding>,
    /// Whether everything was stopped before.
    pub pressed: Pressed,
    /// What still runs when the answer is made: at most 1,000 runs, then those that left something running.
    pub running: Vec<Run>,
    /// What was killed and has ended.
    pub killed: Vec<Run>,
}

/// The emergency stop: pressing it, and letting everything go on.
#[derive(Debug)]
pub struct Stops {
    switch: Arc<StopSwitch>,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    accepted_policy: Arc<AcceptedPolicy>,
    live: Arc<LiveRuns>,
    broker: Arc<Broker>,
    /// Wakes the task that ends questions in time.
    deadlines: Arc<Notify>,
    lifecycle: Arc<Lifecycle>,
    /// Whether a stop is being written again and again.
    is_written_again: AtomicBool,
}

/// What a stop reaches, besides the ledger.
pub(crate) struct Stoppable {
    pub(crate) live: Arc<LiveRuns>,
    pub(crate) broker: Arc<Broker>,
    pub(crate) deadlines: Arc<Notify>,
    pub(crate) lifecycle: Arc<Lifecycle>,
}

impl Stops {
    pub(crate) fn new(
        switch: Arc<StopSwitch>,
        ledger: Ledger,
        clock: Arc<dyn Clock>,
        accepted_policy: Arc<AcceptedPolicy>,
        reaches: Stoppable,
    ) -> Self {
        let Stoppable {
            live,
            broker,
            deadlines,
            lifecycle,
        } = reaches;
        Self {
            switch,
            ledger,
            clock,
            accepted_policy,
            live,
            broker,
            deadlines,
            lifecycle,
            is_written_again: AtomicBool::new(false),
        }
    }

    /// Stops everything. It is in force from the first moment on; the answer comes when nothing begins any more, nothing
    /// is written to what runs, and the ledger has it or could not take it. Then it is written again until it can.
    #[crate::compiled_once]
    pub async fn stop<'a>(
        self: &'a Arc<Self>,
        by: &'a Actor,
        reason: String,
        what_runs: WhatRuns,
    ) -> Stopped {
        let stop = Stop {
            by: by.clone(),
            at: self.clock.now(),
            reason,
        };
        let kills = what_runs == WhatRuns::IsKilled;
        let (first, pressed) = self.ledger.press_stop(stop, kills).await;
        // What was let through before has ended or is cut off.
        self.switch.cut_off().await;
        tracing::warn!(by = %by.id, kills, "everything is stopped");
        let killed = if kills { self.kill_everything() } else { Vec::new() };
        self.write_stop().await;
        wait_for_ends(self, &killed).await;
        let running = self.still_running().await;
        let killed = self.ended_of(&killed, &running).await;
        Stopped {
            standing: self.switch.stopped().unwrap_or(first),
            pressed,
            running,
            killed,
        }
    }

    /// Lets everything go on, or proposes it where that takes two owners.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written; then everything stays stopped.
    #[crate::compiled_once]
    pub async fn resume(&self, by: &Actor, reason: String) -> Result<ResumeOutcome, StorageTrouble> {
        if self.switch.stopped().is_some_and(|standing| !standing.is_durable) {
            // A caller who waits for a question that this ends is told, too.
            self.try_write_stop().await?;
        }
        let resume = Resume {
            by: by.clone(),
            reason,
            takes: if self.accepted_policy.takes_two() {
                Takes::Two
            } else {
                Takes::One
            },
        };
        let outcome = self.ledger.resume(resume).await?;
        if matches!(outcome, ResumeOutcome::Resumed { .. }) {
            tracing::warn!(by = %by.id, "everything goes on");
            self.deadlines.notify_one();
        }
        Ok(outcome)
    }

    /// Signals the end to everything that this server has a line to. What was permitted and has none yet is killed when it
    /// comes.
    fn kill_everything(&self) -> Vec<Arc<LiveRun>> {
        let live = self.live.all();
        for run in &live {
            run.kill(KillCause::Stopped);
        }
        live
    }

    async fn write_stop(self: &Arc<Self>) {
        if let Err(error) = self.try_write_stop().await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "everything is stopped, and the ledger did not take that yet"
            );
            self.write_stop_again();
        }
    }

    async fn try_write_stop(&self) -> Result<(), LedgerError> {
        for run in self.ledger.record_stop().await? {
            self.broker.touch(&run);
        }
        Ok(())
    }

    /// Writes it until the ledger has it, nothing is stopped any more, or the server stops. One task at a time.
    fn write_stop_again(self: &Arc<Self>) {
        if self.is_written_again.swap(true, Ordering::SeqCst) {
            return;
        }
        let stops = Arc::clone(self);
        self.lifecycle.spawn(async move {
            let mut health = stops.ledger.watch_health();
            while stops.switch.stopped().is_some() && !stops.lifecycle.is_stopping() {
                tokio::select! {
                    () = tokio::time::sleep(WRITE_AGAIN) => {}
                    // A ledger that is closed is not written again.
                    changed = health.changed() => if changed.is_err() { break },
                    () = stops.lifecycle.stopping() => {}
                }
                if stops.try_write_stop().await.is_ok() {
                    tracing::info!("the stop is on record");
                    break;
                }
            }
            stops.is_written_again.store(false, Ordering::SeqCst);
        });
    }

    /// Everything that has permission and has not ended, and what ended commands left running.
    async fn still_running(&self) -> Vec<Run> {
        let filter = RunFilter {
            statuses: vec![RunStatus::Launching, RunStatus::Running],
            ..RunFilter::default()
        };
        let runs = self.ledger.runs(filter, Page::first(MOST_LISTED)).await;
        let leftovers = self.ledger.running_leftovers().await;
        let mut running = runs.map_or_else(unread, |listing| listing.items);
        let leftovers = leftovers.unwrap_or_else(unread);
        running.extend(leftovers.into_iter().map(|session| session.run));
        running
    }

    /// Those of the killed ones that have ended, as they are on record.
    async fn ended_of(&self, killed: &[Arc<LiveRun>], running: &[Run]) -> Vec<Run> {
        let mut ended = Vec::with_capacity(killed.len());
        for live in killed {
            if running.iter().any(|run| run.id == live.run_id) {
                continue;
            }
            if let Ok(Some(run)) = self.ledger.run(&live.run_id).await {
                ended.push(run);
            }
        }
        ended
    }
}

/// Waits until killed runs have ended on record, but not for ever: a disk may take nothing.
async fn wait_for_ends(stops: &Stops, killed: &[Arc<LiveRun>]) {
    let ended = futures_util::future::join_all(killed.iter().map(|live| stops.live.is_gone(&live.run_id)));
    if tokio::time::timeout(KILLED_TIMEOUT, ended).await.is_err() {
        tracing::warn!("runs that were killed have not all ended yet");
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what `unwrap_or_else` hands over")]
fn unread<T>(error: LedgerError) -> Vec<T> {
    tracing::error!(
        error = &error as &dyn std::error::Error,
        "what still runs cannot be listed"
    );
    Vec::new()
}
