//! What the engine measures of its own work, for metrics.

use std::{io, sync::Arc, time::Duration};

use prometheus_client::metrics::histogram::Histogram;

use countersign_config::approvals::broker::Broker;
use countersign_domain::{Approval, ApprovalState};
use countersign_hosts::gateway::GatewayHost;
use countersign_ledger::{Ledger, LedgerStats};

use crate::slots::Slots;

/// Upper bounds of a start, in seconds: from a warm supervisor to a machine that is out of breath.
const START_SECONDS: [f64; 12] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
];

/// Upper bounds of a wait for a place to run, in seconds.
const QUEUE_SECONDS: [f64; 9] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 120.0];

/// Upper bounds of a person's answer, in seconds.
const ANSWER_SECONDS: [f64; 11] = [
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 86_400.0,
];

/// The engine's own figures; cheap to clone, always of the same engine.
#[derive(Debug, Clone)]
pub struct EngineStats {
    /// From the permit to the first process.
    pub start_seconds: Histogram,
    /// How long calls waited for a place to run that was not free at once.
    pub queue_seconds: Histogram,
    /// From a question to the answer of a person.
    pub answer_seconds: Histogram,
}

impl Default for EngineStats {
    fn default() -> Self {
        Self {
            start_seconds: Histogram::new(START_SECONDS),
            queue_seconds: Histogram::new(QUEUE_SECONDS),
            answer_seconds: Histogram::new(ANSWER_SECONDS),
        }
    }
}

impl EngineStats {
    /// Measures how long a person took.
    pub(crate) fn note_answer(&self, approval: &Approval) {
        let answered_at = match &approval.state {
            ApprovalState::Allowed { at, .. } | ApprovalState::Denied { at, .. } => *at,
            ApprovalState::Pending | ApprovalState::Expired { .. } | ApprovalState::Cancelled { .. } => {
                return;
            }
        };
        let millis = answered_at.get().saturating_sub(approval.created_at.get());
        let took = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        self.answer_seconds.observe(took.as_secs_f64());
    }
}

/// What is going on at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Runs that have a place.
    pub running: usize,
    /// Calls that wait for one.
    pub queued: usize,
    /// Approvers that are connected.
    pub approvers: usize,
    /// Changes of the ledger that wait for its writer.
    pub ledger_queue: usize,
    /// Times that a slow event stream went back to the log.
    pub catch_ups: u64,
    /// Times that the runner died and another was started.
    pub runner_restarts: u64,
}

/// What this server measures, for those who watch it.
#[derive(Debug)]
pub struct EngineMetrics {
    stats: EngineStats,
    slots: Arc<Slots>,
    broker: Arc<Broker>,
    ledger: Ledger,
    gateway: GatewayHost,
}

impl EngineMetrics {
    /// Joins them: the engine's histograms, the places to run, who answers, the ledger, and the host of gateway runs.
    pub(super) const fn new(
        stats: EngineStats,
        slots: Arc<Slots>,
        broker: Arc<Broker>,
        ledger: Ledger,
        gateway: GatewayHost,
    ) -> Self {
        Self {
            stats,
            slots,
            broker,
            ledger,
            gateway,
        }
    }

    /// The engine's histograms, to register them with the metrics.
    pub const fn histograms(&self) -> &EngineStats {
        &self.stats
    }

    /// What the ledger counts.
    pub const fn ledger(&self) -> &LedgerStats {
        self.ledger.stats()
    }

    /// Bytes of all spools on this machine. Blocks.
    ///
    /// # Errors
    /// When their directory cannot be read.
    pub fn spool_bytes(&self) -> io::Result<u64> {
        Ok(self.gateway.spools()?.iter().map(|spool| spool.bytes).sum())
    }

    /// What is going on now.
    pub fn load(&self) -> Load {
        let (running, queued) = self.slots.counts();
        Load {
            running,
            queued,
            approvers: self.broker.approvers(),
            ledger_queue: self.ledger.queue_depth(),
            catch_ups: self.ledger.catch_ups(),
            runner_restarts: self.gateway.runner().restarts(),
        }
    }
}
