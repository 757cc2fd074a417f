//! Sessions: what they override, and what became of a text in them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{SessionKey, UnixMillis};

use crate::words::{ActorKind, Ask, ElevatedLevel, HostChoice, Security};

/// What a session overrides, as it was set. The result is under `/v1/policy/effective`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SessionOverrides)]
pub struct OverridesBody {
    pub session_key: SessionKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `off` also where nobody chose a level.
    pub elevated: ElevatedLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<SetByBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_at_ms: Option<UnixMillis>,
}

/// Who changed the overrides last.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = OverrideAuthor)]
pub struct SetByBody {
    pub kind: ActorKind,
    pub id: String,
    pub name: String,
    /// The sender that a relay vouched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<ShownSender>,
}

/// A sender, as far as it is shown.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RelayedSender)]
pub struct ShownSender {
    pub provider: String,
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What became of a text.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SessionCommandAnswer)]
pub struct CommandedBody {
    /// Whether a directive of an authorised sender was found.
    pub handled: bool,
    /// What the sender should read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// The text without the directives that were handled.
    pub cleaned_text: String,
}
