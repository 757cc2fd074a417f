//! The audit chain: its records, and whether it is whole.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::UnixMillis;

use crate::words::ActorKind;

/// One record of the chain.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditRecord)]
pub struct AuditBody {
    pub seq: i64,
    /// When; its hash covers this one.
    pub ts: UnixMillis,
    /// The same as `ts`, by the name that times have.
    #[serde(default)]
    #[schema(required = true)]
    pub at_ms: UnixMillis,
    pub actor: AuditActorBody,
    pub action: String,
    pub target: TargetBody,
    pub outcome: Cow<'static, str>,
    #[schema(value_type = Object)]
    pub detail: serde_json::Map<String, serde_json::Value>,
    /// Hash of the record before.
    pub prev_hash: String,
    /// SHA-256 over the canonical JSON of the record without `hash`, `mac` and `atMs`.
    pub hash: String,
    /// HMAC of `hash`.
    pub mac: String,
}

/// What a list shows of a record: what was done to what, and by whom.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditBrief)]
pub struct AuditBriefBody {
    pub seq: i64,
    pub at_ms: UnixMillis,
    /// The same as `atMs`.
    #[schema(deprecated)]
    pub ts: UnixMillis,
    pub actor: AuditActorBody,
    pub action: String,
    pub target: TargetBody,
    pub outcome: Cow<'static, str>,
}

impl From<AuditBody> for AuditBriefBody {
    fn from(record: AuditBody) -> Self {
        Self {
            seq: record.seq,
            at_ms: record.ts,
            ts: record.ts,
            actor: record.actor,
            action: record.action,
            target: record.target,
            outcome: record.outcome,
        }
    }
}

/// Who did it, and from where.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditActor)]
pub struct AuditActorBody {
    pub kind: ActorKind,
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// What it was done to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditTarget)]
pub struct TargetBody {
    pub kind: String,
    pub id: String,
}

/// Whether the chain is intact.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditVerification)]
pub struct VerificationBody {
    pub ok: bool,
    /// How many records were looked at.
    pub records: u64,
    /// Number of the first record; 0 without any.
    pub first_seq: i64,
    /// Number of the last record; 0 without any.
    pub last_seq: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemBody>,
}

/// The head of the chain as it was sealed last.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditHead)]
pub struct HeadBody {
    pub seq: i64,
    pub hash: String,
    pub sealed_at_ms: UnixMillis,
}

/// The first thing that is wrong with the chain.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditProblem)]
pub struct ProblemBody {
    pub seq: i64,
    /// `edited`, `missing`, `reordered`, `truncated` or `forged`
    pub kind: Cow<'static, str>,
    /// The run or approval that is not what its records say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetBody>,
}
