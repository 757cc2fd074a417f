//! What the ledger is told when it is opened, and what it asks while it runs.

use std::{fmt::Debug, path::PathBuf, time::Duration};

/// Where the ledger lies and how it is kept.
#[derive(Debug, Clone)]
pub struct LedgerConfig {
    /// The database file; made with mode 0600 when it is missing.
    pub path: PathBuf,
    /// The key of the audit chain; made with mode 0600 when it is missing.
    pub audit_key: PathBuf,
    /// The sealed head of the audit chain.
    pub audit_head: PathBuf,
    /// Identity of this boot of the machine (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Connections for reading, at least 1.
    pub readers: usize,
    /// What may change while it runs.
    pub tuning: Tuning,
}

/// What may be changed while the ledger runs ([`super::Ledger::tune`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// `[database] durability`: how safe launches are that consume nothing.
    pub durability: Durability,
    /// What is kept how long.
    pub retention: Retention,
}

/// How safe a launch is against loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Survives the end of the process; a power loss may undo what consumed nothing.
    Normal,
    /// Synced to disk before it is answered.
    Full,
}

/// What is kept how long; `None` means for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// `[events] keep_count`: at most so many events, the newest.
    pub events_count: u64,
    /// `[events] keep_days`; the newest event stays all the same.
    pub events_age: Option<Duration>,
    /// `[database] keep_runs_days`; approvals go with their run, never before 30 days.
    pub runs_age: Option<Duration>,
    /// `[database] keep_audit_days`; a sealed anchor stands for what was removed.
    pub audit_age: Option<Duration>,
}

const DAY: Duration = Duration::from_hours(24);

impl Default for Retention {
    /// The defaults of `docs/spec/settings.md#2-countersigntoml`.
    fn default() -> Self {
        Self {
            events_count: 100_000,
            events_age: Some(DAY * 7),
            runs_age: Some(DAY * 90),
            audit_age: None,
        }
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            durability: Durability::Normal,
            retention: Retention::default(),
        }
    }
}

/// Under which policy something was judged. A launch is refused when it is not the present one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyStamp {
    /// Hash of the approvals document.
    pub document_hash: String,
    /// Generation of the settings.
    pub settings_generation: u64,
}

/// Says which policy is in force now; asked just before launches.
pub trait PolicyWatch: Debug + Send + Sync {
    /// The present stamp. Called while the ledger is locked: a few stats at most, never a wait.
    fn stamp(&self) -> PolicyStamp;
}
