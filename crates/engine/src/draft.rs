//! A call between its evaluation and what comes of it: what every way on from there takes and answers.

use std::sync::Arc;

use countersign_config::{approvals::broker::Subscription, settings::Settings};
use countersign_domain::{EntryId, RunId};
use countersign_ledger::{Admission, StoredOutcome};

use crate::{
    caller_lease::EndsWithCaller,
    evaluator::{call::Call, judgement::Judgement},
    live::LiveRun,
    reply::ExecError,
};

/// A key under which the same call is answered once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// 1 to 255 printable ASCII characters.
    pub key: String,
    /// SHA-256 of the body as it came.
    pub body_sha256: [u8; 32],
    /// What becomes of a foreground run whose caller leaves.
    pub on_disconnect: OnDisconnect,
}

/// What becomes of a run in the foreground when its caller goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisconnect {
    /// It is killed: the caller's absence is its wish.
    Kill,
    /// It goes on: the caller can come back for it.
    Detach,
    /// The caller has to come back for it, soon and again and again, or it ends.
    Lapse(EndsWithCaller),
}

impl OnDisconnect {
    /// What ends when nobody comes back.
    pub(crate) const fn held(self) -> Option<EndsWithCaller> {
        match self {
            Self::Lapse(held) => Some(held),
            Self::Kill | Self::Detach => None,
        }
    }
}

/// A call that was evaluated, on its way to a run, a question or a denial.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) call: Call,
    pub(crate) judged: Judgement,
    pub(crate) settings: Arc<Settings>,
    pub(crate) key: Option<countersign_ledger::IdempotencyKey>,
    /// What becomes of its run when its caller leaves.
    pub(crate) on_disconnect: OnDisconnect,
}

/// What one attempt at a call came to.
#[derive(Debug)]
pub(crate) enum Attempt {
    Started(Arc<LiveRun>),
    /// A person is asked, and the run is waited for from before that.
    Asked(RunId, Subscription),
    /// Its record says how it stands.
    Follow(RunId),
    /// The policy changed; judge again.
    Stale,
    /// A grant has no use left; judge again without it.
    UsedUp(EntryId),
}

/// A new admission, or the run that the key stands for.
pub(crate) enum Admitted<T> {
    New(T),
    Known(RunId),
}

pub(crate) fn admitted<T>(admission: Admission<T>) -> Result<Admitted<T>, ExecError> {
    match admission {
        Admission::New(value) => Ok(Admitted::New(value)),
        Admission::Known(kept) => kept_run(kept).map(Admitted::Known),
        Admission::Mismatch => Err(ExecError::IdempotencyMismatch),
    }
}

pub(crate) fn kept_run(kept: StoredOutcome) -> Result<RunId, ExecError> {
    match kept {
        StoredOutcome::Run { run, hint: _ } => Ok(run),
        // Exec calls keep runs only.
        StoredOutcome::Answer { .. } => Err(ExecError::IdempotencyMismatch),
    }
}
