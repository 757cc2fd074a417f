//! One question to a person: what is shown, and what became of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    Actor, AgentNote, ApprovalDecision, ApprovalId, ApprovalStanding, ApprovalState, Ask, Ballot, Binding,
    Bound, EnvOverrides, HostChoice, Pattern, Quorum, RunId, Security, TerminalReason, UnixMillis, Vote,
    approval_votes,
};

/// Why a person is asked: which layer and rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// Where the rule stands (`tools.exec.ask`, `exec-approvals.json#/agents/main/ask`, `default`, …).
    pub layer: String,
    /// The rule: `ask-always`, `allowlist-miss`, `needs-person`, `revised`; `asked` by other programs.
    pub rule: String,
    /// The reason in words for people; where another program asked, in its words.
    pub detail: String,
    /// Byte offsets of the command it points at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub span: Option<(u32, u32)>,
}

/// The unchanging part of an approval: what the person is shown and what the answer is bound to.
///
/// What is stored and compared is the command as sent; what is shown is a second member.
/// (`docs/spec/command-analysis.md#v6`)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the members of a record")]
pub struct ApprovalCard {
    /// What the answer covers. A launch whose binding has another digest is refused.
    pub binding: Binding,
    /// Effective security when it was asked.
    pub security: Security,
    /// Effective ask when it was asked.
    pub ask: Ask,
    /// What happens if nobody answers, already clamped to `security`.
    pub ask_fallback: Security,
    /// Whether the allowlist covers the command (what an `allowlist` fallback needs).
    pub satisfied: bool,
    /// Whether only a person may answer; then a fallback never allows.
    pub needs_person: bool,
    /// Why it is asked.
    pub why: Why,
    /// Which answers are open.
    pub allowed_decisions: Vec<ApprovalDecision>,
    /// What `allow-always` would store.
    pub proposed_patterns: Vec<Pattern>,
    /// Path of the first executable, if it resolved.
    pub resolved_path: Option<String>,
    /// The analysed segments as the API shows them.
    pub segments: serde_json::Value,
    /// Whether all of the command was read, and nothing in it may run more than is seen. `false` in records of versions
    /// that did not say it.
    #[serde(skip_serializing_if = "is_false", default)]
    pub is_understood: bool,
    /// The environment overrides as a person is shown them. Records of earlier versions do not have it.
    #[serde(skip_serializing_if = "ShownEnv::is_empty", default)]
    pub env: ShownEnv,
    /// Hash of the approvals document it was judged under.
    pub document_hash: String,
    /// Whether the call was elevated; whether it still may be is looked at again before it starts.
    #[serde(skip_serializing_if = "is_false", default)]
    pub elevated: bool,
    /// How many people it takes to allow it, and whose.
    #[serde(skip_serializing_if = "Quorum::is_default", default)]
    pub quorum: Quorum,
    /// What the call said itself, so that it can be judged again. Records of before do not have it. Neither has a
    /// question about a command that another program starts. Without it only people allow the command.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wishes: Option<CallWishes>,
    /// Whether it runs outside of the workspace that the settings name for the agent. `false` in records of versions that
    /// did not say it.
    #[serde(skip_serializing_if = "is_false", default)]
    pub outside_workspace: bool,
    /// What the agent said about it. Not a part of what the answer covers.
    #[serde(skip_serializing_if = "AgentNote::is_empty", default)]
    pub note: AgentNote,
}

impl ApprovalCard {
    /// Whether only people may allow it, no matter what the policy says later.
    pub fn is_for_people(&self) -> bool {
        self.needs_person || self.quorum.is_for_more() || self.wishes.is_none()
    }
}

/// What a call said itself about how and where it is to run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallWishes {
    /// The security that it named; `None` if it named none. It may only tighten.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub security: Option<Security>,
    /// The ask that it named; `None` if it named none. It may only tighten.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask: Option<Ask>,
    /// The host that it named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<HostChoice>,
    /// The node that it named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node: Option<String>,
}

/// Environment overrides as a person is shown them. Values are never here: what the command gets is sealed apart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShownEnv {
    /// Their names, sorted, with nothing in them hidden.
    pub names: Vec<String>,
    /// So many more are not shown at all.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub omitted: usize,
}

impl ShownEnv {
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty() && self.omitted == 0
    }

    /// Whether every override is named; else nobody can say yes to it.
    pub const fn is_whole(&self) -> bool {
        self.omitted == 0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_zero(value: &usize) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The record of one approval (`docs/spec/http-api.md#approval-object`).
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// A version 4 UUID when this server made it.
    pub id: ApprovalId,
    /// The run that waits for it.
    pub run_id: RunId,
    /// What is shown and bound.
    pub card: ApprovalCard,
    /// The values of the environment overrides, where they were asked for and the question waits; empty otherwise. They are
    /// part of no record.
    pub waiting_env: EnvOverrides,
    /// Who asked; never the one who may answer.
    pub requested_by: Actor,
    /// As stored: one past its deadline stays pending until that is settled.
    pub state: ApprovalState,
    /// The patterns a person chose with `allow-always`.
    pub chosen_patterns: Vec<Pattern>,
    /// Who said what, where it takes several people; in the order of their answers.
    pub votes: Vec<Vote>,
    /// When it was asked.
    pub created_at: UnixMillis,
    /// The deadline; at that instant it is expired.
    pub expires_at: UnixMillis,
    /// The approval whose place it took, with a command that an approver changed.
    pub revises: Option<ApprovalId>,
    /// The approval that took its place.
    pub revised_by: Option<ApprovalId>,
}

impl Approval {
    /// Whether only the answer was wanted: the asker starts the command, this server never does.
    pub const fn is_run_elsewhere(&self) -> bool {
        matches!(self.card.binding.bound, Bound::Elsewhere { .. })
    }

    /// Whether the deadline has come.
    pub fn is_due(&self, now: UnixMillis) -> bool {
        now >= self.expires_at
    }

    /// Until when its run is held back, so that the answer can be taken back; `None` where it is not.
    pub fn starts_at(&self) -> Option<UnixMillis> {
        let delay = self.card.quorum.start_delay();
        match &self.state {
            ApprovalState::Allowed {
                at,
                why: TerminalReason::User,
                consumed_at: None,
                ..
            } if !delay.is_zero() => Some(*at + delay),
            ApprovalState::Pending
            | ApprovalState::Allowed { .. }
            | ApprovalState::Denied { .. }
            | ApprovalState::Expired { .. }
            | ApprovalState::Cancelled { .. } => None,
        }
    }

    /// What of it is in effect at this moment.
    pub fn standing(&self, now: UnixMillis) -> ApprovalStanding {
        ApprovalStanding::of(&self.state, self.is_due(now))
    }

    /// How many different people have allowed it so far.
    pub fn votes_to_allow(&self) -> usize {
        self.votes.iter().filter(|vote| vote.allows()).count()
    }

    /// What a vote is beside those that are there; `groups` are those of the approver who casts it.
    pub fn ballot(&self, vote: &Vote, groups: &BTreeSet<String>) -> Ballot {
        self.card.quorum.ballot(&self.votes, vote, groups)
    }

    /// Adds a vote. A person has one: a new one takes the place of theirs.
    pub fn cast(&mut self, vote: Vote) {
        approval_votes::cast(&mut self.votes, vote);
    }

    /// What the votes come to together: what everybody said, or the least that all of them allow.
    pub fn together(&self) -> (ApprovalDecision, Vec<Pattern>) {
        approval_votes::together(&self.votes)
    }
}
