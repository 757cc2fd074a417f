//! What became of a patch.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{ApprovalId, RunId};

use crate::words::{ChangeKind, Host};

/// A patch that was applied.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PatchApplied)]
pub struct Applied {
    pub run_id: RunId,
    pub host: Host,
    /// The directory that its paths begin in.
    pub cwd: String,
    /// What became of each file, in the order of the patch.
    pub changed: Vec<ChangeBody>,
    /// The same in a few words.
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
}

/// What became of one file.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PatchChange)]
pub struct ChangeBody {
    /// Its path, as the patch calls it.
    pub path: String,
    pub kind: ChangeKind,
    /// Where it was before it was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}
