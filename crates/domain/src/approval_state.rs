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
        /// It was allowed, and a person took that back before it started.
        TakenBack = "taken-back",
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

/// An approval's state with the data only that state has. Nothing leaves a terminal state, but that an allowance which no
/// launch used up can be taken back.
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
        /// `user`, or `rule` when a change of the policy allowed it.
        why: TerminalReason,
        /// When a launch used it up.
        consumed_at: Option<UnixMillis>,
        /// How far the chosen patterns are stored; `none` when there are none to store.
        persist: Persist,
    },
    /// A person denied it, or stopped everything; or the policy denies it by now.
    Denied {
        /// The approver, the actor that stopped everything, or the author of the rule.
        by: Actor,
        /// When the denial was stored.
        at: UnixMillis,
        /// Why, in their words.
        reason: Option<String>,
        /// `user`, `stopped`, `rule` or `taken-back`.
        why: TerminalReason,
    },
    /// Nobody answered until the deadline, or nobody could be reached.
    Expired {
        /// When that was settled.
        at: UnixMillis,
        /// `timeout` or `no-route`.
        why: TerminalReason,
    },
    /// The run was cancelled before an answer, or the asker's token ended.
    Cancelled {
        /// Who cancelled the run or revoked the token; the system for an expired token.
        by: Actor,
        /// When it was withdrawn.
        at: UnixMillis,
    },
}

impl ApprovalState {
    /// The name of the state, without its data.
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
