//! The states of an approval, and what an answer, a deadline or the policy made of it.

use super::{Actor, UnixMillis, vocabulary};

vocabulary! {
    /// What a person may answer.
    pub enum ApprovalDecision("allow-once, allow-always or deny") {
        /// This run only.
        AllowOnce = "allow-once",
        /// This run, and remember what can be remembered safely.
        AllowAlways = "allow-always",
        /// No.
        Deny = "deny",
    }
}

vocabulary! {
    /// The name of an approval's state.
    pub enum ApprovalStatus("pending, allowed, denied, expired or cancelled") {
        /// Waiting for a person.
        Pending = "pending",
        /// A person allowed it.
        Allowed = "allowed",
        /// A person denied it.
        Denied = "denied",
        /// Its deadline passed, or nobody could be reached.
        Expired = "expired",
        /// The request was withdrawn.
        Cancelled = "cancelled",
    }
}

vocabulary! {
    /// Why an approval left `pending` (`docs/spec/approvals-store.md#11-approval-records`).
    pub enum TerminalReason("a terminal reason") {
        /// A person decided.
        User = "user",
        /// The deadline passed.
        Timeout = "timeout",
        /// Nobody could be reached.
        NoRoute = "no-route",
        /// The run was cancelled.
        RunAborted = "run-aborted",
        /// By the emergency stop.
        Stopped = "stopped",
        /// A change of the policy allowed or forbade what was asked about.
        Rule = "rule",
    }
}

vocabulary! {
    /// How far the entries of an `allow-always` got into the approvals document.
    pub enum Persist("none, todo, done or dropped") {
        /// Nothing is to be stored.
        None = "none",
        /// Still to be written.
        Todo = "todo",
        /// Written.
        Done = "done",
        /// Given up, because the document changed in between.
        Dropped = "dropped",
    }
}

/// An approval's state with the data only that state has. Nothing leaves a terminal state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalState {
    /// Waiting until the approval's deadline.
    Pending,
    /// A person allowed it, or the policy by now; used up at `consumed_at`.
    Allowed {
        /// `allow-once` or `allow-always`.
        decision: ApprovalDecision,
        /// Who.
        by: Actor,
        /// When.
        at: UnixMillis,
        /// Why, in their words.
        reason: Option<String>,
        why: TerminalReason,
        /// When a launch used it up.
        consumed_at: Option<UnixMillis>,
        persist: Persist,
    },
    /// A person denied it, or stopped everything; or the policy denies it by now.
    Denied {
        by: Actor,
        at: UnixMillis,
        /// Why, in their words.
        reason: Option<String>,
        /// `user`, `stopped` or `rule`.
        why: TerminalReason,
    },
    Expired {
        /// When that was settled.
        at: UnixMillis,
        why: TerminalReason,
    },
    Cancelled {
        by: Actor,
        at: UnixMillis,
    },
}

impl ApprovalState {
    pub const fn status(&self) -> ApprovalStatus {
        match self {
            Self::Pending => ApprovalStatus::Pending,
            Self::Allowed { .. } => ApprovalStatus::Allowed,
            Self::Denied { .. } => ApprovalStatus::Denied,
            Self::Expired { .. } => ApprovalStatus::Expired,
            Self::Cancelled { .. } => ApprovalStatus::Cancelled,
        }
    }

    /// The decision that counts: the person's, and deny for every other end.
    pub const fn decision(&self) -> Option<ApprovalDecision> {
        match self {
            Self::Pending => None,
            Self::Allowed { decision, .. } => Some(*decision),
            Self::Denied { .. } | Self::Expired { .. } | Self::Cancelled { .. } => {
                Some(ApprovalDecision::Deny)
            }
        }
    }
}
