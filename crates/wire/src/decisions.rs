//! Many answers in one request, and what became of each.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{ApprovalDecision, ApprovalId, vocabulary};
use countersign_protocol::ByName;

use crate::{
    approval::{DecidedBody, GrantChoiceBody},
    problem::ProblemBody,
};

/// So many answers fit into one request.
pub const MAX_DECISIONS: usize = 100;

vocabulary! {
    /// An answer that can be one of many. `allow-always` says itself what it stores (`grant`).
    #[derive(ToSchema)]
    #[schema(rename_all = "kebab-case")]
    pub enum PlainDecision("allow-once, allow-always or deny") {
        AllowOnce = "allow-once",
        AllowAlways = "allow-always",
        Deny = "deny",
    }
}

impl From<PlainDecision> for ApprovalDecision {
    fn from(decision: PlainDecision) -> Self {
        match decision {
            PlainDecision::AllowOnce => Self::AllowOnce,
            PlainDecision::AllowAlways => Self::AllowAlways,
            PlainDecision::Deny => Self::Deny,
        }
    }
}

/// Answers to several questions. Each counts by itself: they are not applied together or not at all.
#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Decisions)]
pub struct DecisionsBody {
    /// At most one for each id.
    #[schema(value_type = Vec<DecisionOnBody>, min_items = 1, max_items = 100)]
    pub decisions: Vec<ByName<DecisionOnBody>>,
}

/// A person's answer to one of several questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DecisionOn)]
pub struct DecisionOnBody {
    /// The full id of the question.
    pub id: ApprovalId,
    pub decision: PlainDecision,
    /// `boundTo.digest` of the question that was shown. Every answer but `deny` needs it. The answer counts for no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub binding_digest: Option<String>,
    /// Why, in their words.
    #[schema(max_length = 2000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With `allow-always`, which needs it: one of the proposals, and what limits it further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<GrantChoiceBody>, required = false)]
    pub grant: Option<ByName<GrantChoiceBody>>,
}

/// What became of each answer, in the order of the request.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DecisionsResult)]
pub struct DecisionsResultBody {
    pub results: Vec<DecidedOnBody>,
}

/// What became of one of several answers: what `POST /v1/approvals/{id}/decision` would have answered. It has either
/// `decided` or `problem`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DecidedOn)]
pub struct DecidedOnBody {
    pub id: ApprovalId,
    /// The status of that answer.
    pub status: u16,
    /// Its body, of a status 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<Box<DecidedBody>>,
    /// Its refusal, of any other status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Box<ProblemBody>>,
}
