//! What a call comes to at this moment.

use countersign_domain::Reason;
use countersign_policy::gate::AskWhy;

/// What would happen to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It would start without a question, or by the fallback since no approver can be reached.
    Run,
    /// A person would be asked.
    Ask(AskWhy),
    /// It would be refused by decision.
    Deny(Reason),
    /// It would be refused as a bad request, because of its command.
    BadCommand,
    /// It would be refused as a bad request, because of its environment overrides.
    BlockedEnv,
}
