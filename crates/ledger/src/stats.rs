//! What the ledger counts of what it records, for metrics. Only what was committed counts, and every label is a
//! word of a closed vocabulary: never a name, an id or free text.

use std::time::Duration;

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};

use countersign_domain::{ApprovalDecision, ApprovalStatus, Reason, RunStatus, RunVerdict};

use crate::{
    events::{EventKind, EventType, PolicyPart},
    waiting::QuestionLimit,
};

/// A counter for each word of one vocabulary.
pub(crate) type CountBy = Family<[(&'static str, &'static str); 1], Counter>;

/// A counter for each pair of words.
pub(crate) type CountByTwo = Family<[(&'static str, &'static str); 2], Counter>;

/// Upper bounds of a commit, in seconds: from a caller's own thread to a disk that is busy.
const COMMIT_SECONDS: [f64; 13] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
];

/// Upper bounds of a command's duration, in seconds.
const RUN_SECONDS: [f64; 12] = [
    0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0, 7200.0,
];

/// The ledger's own figures; cheap to clone, always of the same ledger.
#[derive(Debug, Clone)]
pub struct LedgerStats {
    /// From the beginning of a transaction to its commit.
    pub commit_seconds: Histogram,
    /// Events, by type.
    pub events: CountBy,
    /// Runs that were admitted, by what the gate said.
    pub requests: CountBy,
    /// Runs that ended, by how.
    pub ended: CountBy,
    /// Runs that will never start, by why.
    pub denied: CountBy,
    /// How long those that started took.
    pub run_seconds: Histogram,
    /// Approvals that ended, by state and decision.
    pub resolved: CountByTwo,
    /// Approvals that wait now.
    pub pending: Gauge,
    /// Questions that were not asked because there were too many, by the limit.
    pub questions_refused: CountBy,
    /// Changes of the policy, by part.
    pub policy_changes: CountBy,
}

impl Default for LedgerStats {
    fn default() -> Self {
        Self {
            commit_seconds: Histogram::new(COMMIT_SECONDS),
            events: Family::default(),
            requests: Family::default(),
            ended: Family::default(),
            denied: Family::default(),
            run_seconds: Histogram::new(RUN_SECONDS),
            resolved: Family::default(),
            pending: Gauge::default(),
            questions_refused: Family::default(),
            policy_changes: Family::default(),
        }
    }
}

/// What of an event is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tally {
    event_type: Option<EventType>,
    fact: Option<Fact>,
}

#[derive(Debug, Clone, Copy)]
enum Fact {
    Requested(RunVerdict),
    Ended { status: RunStatus, duration: Duration },
    Denied(Reason),
    Resolved(ApprovalStatus, Option<ApprovalDecision>),
    PolicyChanged(PolicyPart),
    QuestionRefused(QuestionLimit),
}

impl Tally {
    pub(super) fn of(event: &EventKind) -> Self {
        let fact = match event {
            EventKind::ExecRequested { verdict, .. } => Some(Fact::Requested(*verdict)),
            EventKind::ExecFinished(summary) => Some(Fact::Ended {
                status: summary.status,
                duration: Duration::from_millis(u64::try_from(summary.duration_ms).unwrap_or(0)),
            }),
            EventKind::ExecDenied { reason, .. } => Some(Fact::Denied(*reason)),
            EventKind::ApprovalResolved(resolution) => {
                Some(Fact::Resolved(resolution.status, resolution.decision))
            }
            EventKind::PolicyChanged { what, .. } => Some(Fact::PolicyChanged(*what)),
            EventKind::ExecStarted { .. }
            | EventKind::ExecRunning { .. }
            | EventKind::ApprovalRequested { .. }
            | EventKind::ApprovalVoted(_)
            | EventKind::AllowlistChanged { .. }
            | EventKind::ConfigRejected { .. }
            | EventKind::ConfigRestartNeeded { .. }
            | EventKind::DocumentRefused { .. }
            | EventKind::DocumentHeld { .. }
            | EventKind::SessionChanged { .. }
            | EventKind::SystemEvent { .. }
            | EventKind::SessionWake { .. }
            | EventKind::NodeConnected { .. }
            | EventKind::NodeDisconnected { .. }
            | EventKind::NodePairingRequested(_)
            | EventKind::NodePairingResolved { .. }
            | EventKind::ExecStopped { .. }
            | EventKind::ExecResumed { .. }
            | EventKind::ServerShutdown { .. } => None,
        };
        Self {
            event_type: Some(event.event_type()),
            fact,
        }
    }

    /// Of a question that was not asked: no event tells of it.
    pub(super) const fn of_refused_question(limit: QuestionLimit) -> Self {
        Self {
            event_type: None,
            fact: Some(Fact::QuestionRefused(limit)),
        }
    }
}

impl LedgerStats {
    /// Counts what is on record now.
    pub(super) fn committed(&self, took: Duration, tallies: &[Tally], pending: u64) {
        self.commit_seconds.observe(took.as_secs_f64());
        self.pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
        for Tally { event_type, fact } in tallies {
            if let Some(event_type) = event_type {
                count(&self.events, "type", event_type.as_str());
            }
            match fact {
                None => {}
                Some(Fact::Requested(verdict)) => count(&self.requests, "verdict", verdict.as_str()),
                Some(Fact::Ended { status, duration }) => {
                    count(&self.ended, "status", status.as_str());
                    self.run_seconds.observe(duration.as_secs_f64());
                }
                Some(Fact::Denied(reason)) => count(&self.denied, "reason", reason.as_str()),
                Some(Fact::Resolved(status, decision)) => {
                    let decision = decision.map_or("none", ApprovalDecision::as_str);
                    self.resolved
                        .get_or_create(&[("status", status.as_str()), ("decision", decision)])
                        .inc();
                }
                Some(Fact::QuestionRefused(limit)) => {
                    count(&self.questions_refused, "limit", limit.as_str());
                }
                Some(Fact::PolicyChanged(part)) => count(&self.policy_changes, "what", part.as_str()),
            }
        }
    }
}

fn count(family: &CountBy, label: &'static str, word: &'static str) {
    family.get_or_create(&[(label, word)]).inc();
}
