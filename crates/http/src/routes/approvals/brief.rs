//! What a list of approvals answers.

use serde::Serialize;
use utoipa::ToSchema;

use countersign_domain::Approval;
use countersign_engine::ApprovalBrief;
use countersign_ledger::ApprovalRow;
use countersign_wire::approval::{ApprovalBody, ApprovalBriefBody};

/// An approval on a list: whole, or what a list shows of it (`view`).
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum ListedApproval {
    Full(Box<ApprovalBody>),
    Brief(Box<ApprovalBriefBody>),
}

pub(super) fn full(approval: Approval) -> ListedApproval {
    ListedApproval::Full(Box::new(approval.into()))
}

pub(super) fn brief(ApprovalBrief { row, card }: ApprovalBrief) -> ListedApproval {
    let ApprovalRow {
        id,
        run_id,
        agent,
        session,
        status,
        binding_digest,
        created_at,
        expires_at,
        votes,
    } = row;
    ListedApproval::Brief(Box::new(ApprovalBriefBody {
        id,
        run_id,
        status: status.into(),
        agent_id: agent,
        session_key: session,
        host: card.host.into(),
        line: card.line.text.to_string(),
        truncated: card.line.is_cut,
        created_at_ms: created_at,
        expires_at_ms: expires_at,
        votes: votes.iter().filter(|vote| vote.allows()).count(),
        approvals_required: card.required,
        binding_digest,
    }))
}
