//! The states of a run, and the only ways between them.

use super::vocabulary;

vocabulary! {
    /// Where a run stands (`docs/decisions/0009-exactly-once.md`). The spelling is the ledger's; the API has its own.
    pub enum RunStatus("a run state") {
        /// Admitted, nothing decided yet that lets it start.
        Requested = "requested",
        /// A person is asked.
        Asking = "asking",
        /// Permission to start was given and consumed; the fence decides the rest.
        Launching = "launching",
        /// Started.
        Running = "running",
        /// Ended with exit code 0.
        Completed = "completed",
        /// Ended otherwise, or could not be started.
        Failed = "failed",
        /// Never started, by decision.
        Denied = "denied",
        /// Cancelled before or while it ran.
        Cancelled = "cancelled",
        /// Started, outcome unknown; never run again by itself.
        Lost = "lost",
    }
}

/// A run cannot go from one state to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a run cannot go from {from} to {to}")]
pub struct StatusChangeError {
    /// The state it has.
    pub from: RunStatus,
    /// The state it was to get.
    pub to: RunStatus,
}

impl RunStatus {
    /// Whether nothing follows this state (but for `lost`, which a late node result may end once).
    pub const fn is_final(self) -> bool {
        match self {
            Self::Requested | Self::Asking | Self::Launching | Self::Running => false,
            Self::Completed | Self::Failed | Self::Denied | Self::Cancelled | Self::Lost => true,
        }
    }

    /// The state after `self`, when that step exists.
    ///
    /// # Errors
    /// [`StatusChangeError`] when it does not.
    pub const fn advance(self, to: Self) -> Result<Self, StatusChangeError> {
        if self.can_become(to) {
            Ok(to)
        } else {
            Err(StatusChangeError { from: self, to })
        }
    }

    const fn can_become(self, to: Self) -> bool {
        match self {
            Self::Requested => matches!(
                to,
                Self::Asking | Self::Launching | Self::Denied | Self::Cancelled | Self::Failed
            ),
            // A person's yes queues the run; the launch comes after. Where only the answer was wanted there is no
            // launch: the asker runs the command, and its outcome is not known here (`Reason::RunElsewhere`).
            Self::Asking => matches!(
                to,
                Self::Requested
                    | Self::Launching
                    | Self::Denied
                    | Self::Cancelled
                    | Self::Failed
                    | Self::Lost
            ),
            // Denied: what was judged is no longer what the host found when it was about to start it.
            Self::Launching => matches!(
                to,
                Self::Running | Self::Completed | Self::Failed | Self::Denied | Self::Cancelled | Self::Lost
            ),
            Self::Running => {
                matches!(to, Self::Completed | Self::Failed | Self::Cancelled | Self::Lost)
            }
            // Once, and only by a late result of the same node and invocation.
            Self::Lost => matches!(to, Self::Completed | Self::Failed),
            Self::Completed | Self::Failed | Self::Denied | Self::Cancelled => false,
        }
    }

    /// The status word of the HTTP API (`docs/spec/http-api.md#run-object`).
    pub const fn api_name(self) -> &'static str {
        match self {
            Self::Requested | Self::Launching => "queued",
            Self::Asking => "approval-pending",
            Self::Running | Self::Completed | Self::Failed | Self::Denied | Self::Cancelled | Self::Lost => {
                self.as_str()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_states_stay_except_a_late_node_result() {
        for from in RunStatus::ALL.iter().filter(|s| s.is_final()) {
            for to in RunStatus::ALL {
                let late = *from == RunStatus::Lost && matches!(to, RunStatus::Completed | RunStatus::Failed);
                assert_eq!(from.advance(*to).is_ok(), late, "{from} -> {to}");
            }
        }
    }

    #[test]
    fn nothing_runs_without_launching_first() {
        let before = |to: RunStatus| -> Vec<RunStatus> {
            let all = RunStatus::ALL.iter().copied();
            all.filter(|from| from.advance(to).is_ok()).collect()
        };
        assert_eq!(before(RunStatus::Running), [RunStatus::Launching]);
        assert_eq!(
            before(RunStatus::Launching),
            [RunStatus::Requested, RunStatus::Asking]
        );
    }
}
