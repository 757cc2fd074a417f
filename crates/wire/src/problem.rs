//! The problem document: what every refusal says.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::RunId;

use crate::{approval::ApprovalBody, ruling::RulingBody, words::Scope};

/// A refusal (RFC 9457). Members after `hint` belong to the codes that they name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// `/docs#` and the code.
    pub r#type: String,
    pub title: Cow<'static, str>,
    pub status: u16,
    pub detail: String,
    /// Path of the request.
    pub instance: String,
    pub code: Cow<'static, str>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// The run that records the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// What is wrong with the request, member by member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub fields: Vec<FieldError>,
    /// `internal`: what names the fault in the log of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// `exec-denied`, `stopped`, `decision-not-allowed`, `document-refused`, `invalid-document`, `patch-failed`: why, as
    /// one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// `exec-denied`: who denied it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<RulingBody>,
    /// `exec-denied`: what the person who denied it said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_reason: Option<String>,
    /// `exec-denied`, `stopped`: the refusal as one sentence for a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_message: Option<String>,
    /// The exact command or key that would change the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// `blocked-env`: the variables that can never be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// `preflight-failed`: the line of the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub line: Option<usize>,
    /// `forbidden`: a scope that would open it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_scope: Option<Scope>,
    /// `elevated-unavailable`: the keys of the gates that are closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gates: Option<Vec<String>>,
    /// `node-ambiguous`: the nodes that the name could mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<NodeCandidate>>,
    /// `id-ambiguous`: ids that the part could mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// `node-ambiguous`, `id-ambiguous`: how many more fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<u64>,
    /// `approval-already-resolved`, `approval-expired`, `approval-cancelled`: the approval as it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<ApprovalBody>>,
    /// `document-refused`, `invalid-document`, `unknown-field`: where in the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// `base-hash-mismatch`, `base-hash-required`, `document-refused`: the hash of what is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_hash: Option<String>,
    /// `patch-failed`: the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `patch-failed`: the hunk of the file, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub hunk: Option<usize>,
    /// `patch-failed`: files that could not be put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_restored: Option<Vec<String>>,
    /// `body-too-large`: most bytes that are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// `body-too-large`: how many were sent, where the request said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// `not-found` of `POST /tools/invoke`: the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// One member of the request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Path of the member in the body, or the name of a parameter or header.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

/// A node that a name could mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCandidate {
    pub node_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}
