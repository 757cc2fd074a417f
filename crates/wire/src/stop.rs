//! What stops everything, and lets it go on.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{AgentId, RunId, Stop, UnixMillis};

use crate::{
    actor::ActorBody,
    words::{Host, RunStatusName},
};

/// Who stopped everything, when and why.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Stop)]
pub struct StopBody {
    pub by: ActorBody,
    pub at_ms: UnixMillis,
    pub reason: String,
}

/// Whether everything is stopped.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StopState)]
pub struct StandingBody {
    pub stopped: bool,
    /// Absent while nothing is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<InForce>,
}

/// A stop that is in force.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ActiveStop)]
pub struct InForce {
    pub by: ActorBody,
    pub at_ms: UnixMillis,
    pub reason: String,
    /// Whether the record has it, so that it is in force after a restart. If not, it is written again until it has.
    pub durable: bool,
    /// Who had what ran killed; absent where it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<ActorBody>,
    /// Who proposed to let everything go on; an admin of another owner has to accept that with the same call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_proposed_by: Option<ActorBody>,
}

/// What a stop did.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StopAnswer)]
pub struct StopAnswerBody {
    pub stopped: bool,
    /// Whether everything was stopped before: `stop` is the first one.
    pub already: bool,
    /// Whether the record has the stop. If not, it is written again until it has.
    pub durable: bool,
    pub stop: InForce,
    /// What still runs.
    pub running: Vec<StillRunning>,
    /// What was killed and has ended.
    pub killed: Vec<StillRunning>,
}

/// A run that a stop found under way.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StoppedRun)]
pub struct StillRunning {
    pub run_id: RunId,
    #[schema(value_type = RunStatusName)]
    pub status: Cow<'static, str>,
    pub agent_id: AgentId,
    pub host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<UnixMillis>,
    /// The command as one line for people, with what looks like a secret masked; absent without `read` and `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_text: Option<String>,
}

/// What became of a resume.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ResumeAnswer)]
pub struct ResumeAnswerBody {
    /// Whether everything is still stopped.
    pub stopped: bool,
    /// Whether this call let everything go on.
    pub resumed: bool,
    /// Who proposed it, where that takes two owners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_by: Option<ActorBody>,
}

impl From<&Stop> for StopBody {
    fn from(Stop { by, at, reason }: &Stop) -> Self {
        Self {
            by: by.clone().into(),
            at_ms: *at,
            reason: reason.clone(),
        }
    }
}
