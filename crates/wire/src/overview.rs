//! Figures of a stretch of time.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{AgentId, ApprovalId, UnixMillis};

use crate::words::{Reason, RunStatusName};

/// What was asked and answered since a moment, what asks most, how runs ended, and what is going on now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Overview)]
pub struct OverviewBody {
    /// The stretch begins here.
    pub since_ms: UnixMillis,
    /// And ends here, at the time of this answer.
    pub until_ms: UnixMillis,
    /// Each part of the stretch is so long: whole hours.
    pub part_ms: i64,
    /// When each part begins.
    pub begins_ms: Vec<i64>,
    pub questions: QuestionsBody,
    /// Those who ask most come first; the last is all others together where it has no `agentId`.
    pub agents: Vec<AgentQuestionsBody>,
    /// What asks most, by agent, program and why.
    pub rules: Vec<AskingRuleBody>,
    /// Runs that began in the stretch, by how they stand.
    pub runs: Vec<RunCountBody>,
    /// Why runs were denied or failed, most often first.
    pub reasons: Vec<ReasonCountBody>,
    pub now: NowBody,
    /// There was more than is looked at: the newest 10,000 questions and 50,000 runs are counted.
    pub partial: bool,
}

/// Questions, counted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QuestionCounts)]
pub struct QuestionsBody {
    pub asked: u64,
    /// By a person.
    pub allowed: u64,
    /// By a person, those included who took an allowance back.
    pub denied: u64,
    /// By a rule, a change of policy or the emergency stop.
    pub settled: u64,
    pub expired: u64,
    pub cancelled: u64,
    pub waiting: u64,
    /// Half of the answers of people came within this time. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub median_answer_ms: Option<u64>,
}

/// The questions of one agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentQuestions)]
pub struct AgentQuestionsBody {
    /// Absent for all others together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub agent_id: Option<AgentId>,
    pub questions: QuestionsBody,
    /// How many were asked in each part of the stretch.
    pub parts: Vec<u64>,
}

/// What had an agent ask.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AskingRule)]
pub struct AskingRuleBody {
    pub agent_id: AgentId,
    /// The first program, by its path where one was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub program: Option<String>,
    /// As `why.rule` of an approval.
    pub why: String,
    pub questions: QuestionsBody,
    /// The latest of them.
    pub approval_id: ApprovalId,
    /// What the latest proposes to remember, in words, from the narrowest to the widest; empty where nothing can be.
    pub would_stop: Vec<String>,
}

/// Runs in one state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = RunCount)]
pub struct RunCountBody {
    #[schema(value_type = RunStatusName)]
    pub status: Cow<'static, str>,
    pub count: u64,
}

/// Runs that were denied or failed for one reason.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ReasonCount)]
pub struct ReasonCountBody {
    pub reason: Reason,
    pub count: u64,
}

/// What is going on now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LoadNow)]
pub struct NowBody {
    /// Runs that have a place.
    pub running: u64,
    /// Calls that wait for one.
    pub queued: u64,
    /// Questions that wait.
    pub waiting: u64,
    /// Approvers that are connected.
    pub approvers: u64,
    /// Changes of the record that wait for its writer.
    pub ledger_queue: u64,
}
