//! What mutes an agent: a deny rule of the approvals document that has an end and is about no command. What the agent would
//! have to be asked about is denied until then, and nothing else changes. Pure; `mutes.rs` makes and ends them.
//!
//! The gate knows nothing of it. What would ask a person looks here last, when neither a rule, a sandbox nor a held text lets
//! the command run without a question.

use std::time::Duration;

use countersign_config::approvals::document::{DenyRule, QUESTIONS};
use countersign_domain::{Actor, EntryId, UnixMillis};

/// A mute is no longer than this: what lasts longer is a setting.
const LONGEST: Duration = Duration::from_hours(30 * 24);
/// What mutes an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mute {
    /// The deny rule that does it.
    pub id: EntryId,
    /// When it ends.
    pub until: UnixMillis,
    /// Who muted it and why, as the rule says it.
    pub reason: Option<String>,
}

/// An agent and what mutes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutedAgent {
    /// Whose questions are denied; `*` for those of all agents.
    pub agent: String,
    /// Until when and why.
    pub mute: Mute,
}

impl Mute {
    pub(crate) fn of(id: &EntryId, rule: &DenyRule) -> Self {
        Self {
            id: id.clone(),
            until: UnixMillis::new(rule.end()),
            reason: rule.reason.clone(),
        }
    }

    /// Until when, who and why, in one line.
    pub(crate) fn words(&self) -> String {
        match &self.reason {
            Some(reason) => format!("the agent is muted until {}: {reason}", self.until),
            None => format!("the agent is muted until {}", self.until),
        }
    }
}

/// Whether a mute that begins now may end then.
pub(crate) fn may_last_until(until: UnixMillis, now: UnixMillis) -> bool {
    let left = until.since(now);
    !left.is_zero() && left <= LONGEST
}

/// The rule that mutes an agent.
pub(crate) fn rule(by: &Actor, until: UnixMillis, why: Option<&str>) -> DenyRule {
    // The name is the record's; what a person said stands in quotes, and nothing else does.
    let said = why.map(|why| format!(": \u{201c}{}\u{201d}", why.replace(char::is_control, " ")));
    DenyRule {
        pattern: QUESTIONS.to_owned(),
        reason: Some(format!("muted by {}{}", by.name, said.unwrap_or_default())),
        questions: Some(true),
        expires_at_ms: Some(until.get().into()),
        ..DenyRule::default()
    }
}
