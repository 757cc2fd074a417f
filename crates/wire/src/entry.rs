//! Allowlist entries, grants and deny rules.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{EntryId, SessionKey, UnixMillis, vocabulary};

use crate::words::Word;

vocabulary! {
    /// What an entry is: without limits, or a grant with them.
    #[derive(ToSchema)]
    #[schema(rename_all = "kebab-case")]
    pub enum EntryKind("entry or grant") {
        Entry = "entry",
        Grant = "grant",
    }
}

vocabulary! {
    /// Whether an entry can still match.
    #[derive(ToSchema)]
    #[schema(rename_all = "kebab-case")]
    pub enum EntryState("active, inert, expired or used-up") {
        Active = "active",
        Inert = "inert",
        Expired = "expired",
        UsedUp = "used-up",
    }
}

/// An allowlist entry or grant.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AllowlistEntry)]
pub struct EntryBody {
    pub id: EntryId,
    #[schema(value_type = EntryKind)]
    pub kind: Word<EntryKind>,
    pub pattern: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arg_pattern: Option<String>,
    /// `allow-always` for what a decision made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// It covers commands whose input stays open; absent for no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub input: bool,
    /// Their terminals keep pagers and editors that take commands; absent for no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub unguarded: bool,
    /// What its program may do: `starts`, `writes` and `connects`, as written. With anything else in it the entry covers
    /// nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, required = false)]
    pub confine: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub last_used_at_ms: Option<i64>,
    /// The same as `lastUsedAtMs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(deprecated)]
    pub last_used_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_resolved_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// It covers calls of this session alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub session_key: Option<SessionKey>,
    /// It covers programs that start in this directory or below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub directory: Option<String>,
    #[schema(value_type = EntryState)]
    pub state: Word<EntryState>,
    pub warnings: Vec<EntryWarningBody>,
}

impl EntryBody {
    /// When it last covered a command; `None` where it never did. An entry that a person adds has the time of its making in
    /// `lastUsedAtMs`, as the product writes it, and neither a command nor a path.
    pub fn last_use(&self) -> Option<UnixMillis> {
        let is_used = self.last_used_command.is_some()
            || self.last_resolved_path.is_some()
            || self.source.is_some()
            || self.uses.is_some_and(|uses| uses > 0);
        self.last_used_at_ms.filter(|_| is_used).map(UnixMillis::new)
    }
}

/// What a list shows of an allowlist entry or grant. All of it: `GET /v1/agents/{agentId}/allowlist/{entryId}`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AllowlistEntryBrief)]
pub struct EntryBriefBody {
    pub id: EntryId,
    #[schema(value_type = EntryKind)]
    pub kind: Word<EntryKind>,
    pub pattern: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arg_pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    #[schema(value_type = EntryState)]
    pub state: Word<EntryState>,
}

impl From<EntryBody> for EntryBriefBody {
    fn from(entry: EntryBody) -> Self {
        Self {
            id: entry.id,
            kind: entry.kind,
            pattern: entry.pattern,
            arg_pattern: entry.arg_pattern,
            source: entry.source,
            last_used_at_ms: entry.last_used_at_ms,
            expires_at_ms: entry.expires_at_ms,
            state: entry.state,
        }
    }
}

/// Something that is odd about an entry.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AllowlistWarning)]
pub struct EntryWarningBody {
    pub code: Cow<'static, str>,
    pub message: String,
}

/// A deny rule.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DenyRule)]
pub struct RuleBody {
    pub id: EntryId,
    pub pattern: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arg_pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// No program of a run at the level `confined` can start or read a match either; absent for no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub children: bool,
    /// It is about one exact text, which has this digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub command_sha256: Option<String>,
    /// It mutes the agent: it denies what the agent would have to be asked about, and nothing else; absent for no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub questions: bool,
    /// It ends at this instant; only of an exact text, or of questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub expires_at_ms: Option<i64>,
    /// What is odd about it; only told where it is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub warnings: Vec<EntryWarningBody>,
}
