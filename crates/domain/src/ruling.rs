//! Who decided about a run, and what they said.

use super::{Approval, ApprovalState, DecidedBy, Run, RunVerdict, TerminalReason};

/// Who decided about a run. Nobody has while a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ruling {
    /// What decided.
    pub by: Option<DecidedBy>,
    /// The person who answered, or whose rule settled the question, as the record names them.
    pub name: Option<String>,
    /// What the person who answered said.
    pub reason: Option<String>,
}

impl Ruling {
    /// The ruling on a run and on its question, if it has one.
    pub fn on(run: &Run, question: Option<&Approval>) -> Self {
        match question.map(|approval| &approval.state) {
            Some(
                ApprovalState::Allowed { by, reason, why, .. }
                | ApprovalState::Denied { by, reason, why, .. },
            ) => Self {
                by: Some(match why {
                    TerminalReason::Rule => DecidedBy::Policy,
                    TerminalReason::User
                    | TerminalReason::TakenBack
                    | TerminalReason::Stopped
                    | TerminalReason::Timeout
                    | TerminalReason::NoRoute
                    | TerminalReason::RunAborted => DecidedBy::Person,
                }),
                name: Some(by.name.clone()),
                reason: reason.clone(),
            },
            Some(ApprovalState::Expired { .. }) => Self {
                by: Some(DecidedBy::Fallback),
                ..Self::default()
            },
            Some(ApprovalState::Pending | ApprovalState::Cancelled { .. }) => Self::default(),
            None => Self {
                by: run
                    .decision
                    .filter(|decision| decision.verdict != RunVerdict::Ask)
                    .map(|decision| decision.by),
                ..Self::default()
            },
        }
    }
}
