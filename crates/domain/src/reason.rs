//! The closed set of reasons for which a run did not happen or did not end well.

use super::{RunStatus, vocabulary};

vocabulary! {
    /// Why a run ended as it did; the same word in events, runs, problems and audit
    /// (`docs/spec/exec-tool.md#10-system-events`).
    pub enum Reason("a reason of the closed set") {
        /// Effective security is `deny`.
        SecurityDeny = "security-deny",
        /// The approvals document cannot be read, so security is `deny`.
        DocumentRefused = "document-refused",
        /// Tool policy forbids `exec` for the agent.
        ToolDenied = "tool-denied",
        /// A deny rule matched.
        Denylist = "denylist",
        /// Not covered by the allowlist, and nobody is to be asked.
        AllowlistMiss = "allowlist-miss",
        /// A person said no.
        UserDenied = "user-denied",
        /// A person muted the agent for a while, and the command takes an answer.
        AgentMuted = "agent-muted",
        /// Nobody answered in time.
        ApprovalTimeout = "approval-timeout",
        /// Nobody could be reached.
        NoApprover = "no-approver",
        /// The request was withdrawn before it was answered.
        ApprovalCancelled = "approval-cancelled",
        /// The approval could not be created or awaited.
        ApprovalRequestFailed = "approval-request-failed",
        /// What was approved is no longer what would run.
        BindingMismatch = "binding-mismatch",
        /// A node's own policy wants an approval that the call did not carry.
        ApprovalRequired = "approval-required",
        /// A node refused for another reason.
        NodeRefused = "node-refused",
        /// A script looked like shell text in the wrong language (`docs/spec/exec-tool.md#7-script-preflight`).
        Preflight = "preflight",
        /// The first program is not on the PATH of its host, so that nobody is asked.
        ProgramNotFound = "program-not-found",
        /// A limit on runs or prompts.
        RateLimited = "rate-limited",
        /// The program could not be started.
        SpawnFailed = "spawn-failed",
        /// Killed by its time limit.
        Timeout = "timeout",
        /// Allowed, but its start-by passed first.
        NotStarted = "not-started",
        /// A node answered with an error.
        InvokeFailed = "invoke-failed",
        /// The link to the node broke; the outcome is unknown.
        NodeDisconnected = "node-disconnected",
        /// The server died; the outcome is unknown.
        ServerRestart = "server-restart",
        /// The supervisor died; the outcome is unknown.
        RunnerLost = "runner-lost",
        /// Allowed, and the asker runs it: what became of it is not known here.
        RunElsewhere = "run-elsewhere",
        /// Cancelled over the API or because the client left.
        Cancelled = "cancelled",
        /// The server shut down.
        Shutdown = "shutdown",
        /// By the emergency stop it did not start, or it was killed and is `cancelled`.
        Stopped = "stopped",
    }
}

/// What kind of reason it is, which is as far as most who are told of it can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasonClass {
    /// Nothing runs there.
    Closed,
    /// A rule forbids it.
    Rule,
    /// Nothing covers it, and nobody is asked.
    Miss,
    /// A person said no to it, or to everything.
    Person,
    /// It takes an answer, and none came.
    Unanswered,
    /// It is no longer what was approved.
    Changed,
    /// It was not taken.
    Refused,
    /// It was to start, and did not do well.
    Failed,
    /// Permission was given and used up, and no outcome will be heard of.
    Lost,
    /// It was called off.
    Cancelled,
}

impl Reason {
    /// What kind of reason it is.
    pub const fn class(self) -> ReasonClass {
        match self {
            Self::SecurityDeny | Self::DocumentRefused => ReasonClass::Closed,
            Self::ToolDenied | Self::Denylist => ReasonClass::Rule,
            Self::AllowlistMiss | Self::ProgramNotFound => ReasonClass::Miss,
            Self::UserDenied | Self::AgentMuted | Self::Stopped => ReasonClass::Person,
            Self::ApprovalRequired
            | Self::ApprovalTimeout
            | Self::NoApprover
            | Self::ApprovalCancelled
            | Self::ApprovalRequestFailed => ReasonClass::Unanswered,
            Self::BindingMismatch => ReasonClass::Changed,
            Self::NodeRefused | Self::Preflight | Self::RateLimited => ReasonClass::Refused,
            Self::SpawnFailed | Self::Timeout | Self::NotStarted | Self::InvokeFailed => ReasonClass::Failed,
            Self::NodeDisconnected | Self::ServerRestart | Self::RunnerLost | Self::RunElsewhere => {
                ReasonClass::Lost
            }
            Self::Cancelled | Self::Shutdown => ReasonClass::Cancelled,
        }
    }

    /// The final state that a run with this reason has. One that started and was killed by a stop is `cancelled`.
    pub const fn run_status(self) -> RunStatus {
        match self.class() {
            ReasonClass::Closed
            | ReasonClass::Rule
            | ReasonClass::Miss
            | ReasonClass::Person
            | ReasonClass::Unanswered
            | ReasonClass::Changed
            | ReasonClass::Refused => RunStatus::Denied,
            ReasonClass::Failed => RunStatus::Failed,
            // Neither `completed` (nobody saw it end) nor `cancelled` (it was allowed) would be true.
            ReasonClass::Lost => RunStatus::Lost,
            ReasonClass::Cancelled => RunStatus::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_ends_in_a_state_that_is_final() {
        for reason in Reason::ALL {
            assert!(reason.run_status().is_final(), "{reason}");
        }
    }
}
