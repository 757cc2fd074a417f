//! What a list of approvals answers.

use serde::Serialize;
use utoipa::ToSchema;

use countersign_domain::{Approval, ApprovalId, ApprovalStatus, Principal};
use countersign_ledger::{ApprovalFilter, ApprovalRow, Listing, Page};
use countersign_policy::command::question::Line;
use countersign_wire::approval::{ApprovalBody, ApprovalBriefBody, ApprovalView};

use crate::{listed::ApprovalJson, problem::Problem, state::AppState};

/// An approval on a list: whole, or what a list shows of it (`view`).
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum ListedApproval {
    Full(Box<ApprovalBody>),
    Brief(Box<ApprovalBriefBody>),
}

/// The approvals that the caller may see. What a list showed before is not made again.
pub(super) async fn listed(
    caller: &Principal,
    state: &AppState,
    view: ApprovalView,
    filter: ApprovalFilter,
    page: Page,
) -> Result<Listing<ApprovalJson>, Problem> {
    let records = state.engine().records();
    let Listing { items: rows, next } = records.approval_rows(caller, filter, page).await?;
    let known = state.listed_approvals().of(view, &rows);
    let unknown = rows.iter().zip(&known).filter(|(_, json)| json.is_none());
    let unknown: Vec<ApprovalId> = unknown.map(|(row, _)| row.id.clone()).collect();
    let read = if unknown.is_empty() {
        Vec::new()
    } else {
        records.approvals_by_ids(caller, unknown).await?
    };
    let mut read = read.into_iter().peekable();
    let mut items = Vec::with_capacity(rows.len());
    for (row, known) in rows.into_iter().zip(known) {
        match (known, read.next_if(|approval| approval.id == row.id)) {
            (Some(json), _) => items.push(json),
            (None, Some(approval)) => items.push(made(state, view, row, approval)?),
            // Its record went meanwhile.
            (None, None) => {}
        }
    }
    Ok(Listing { items, next })
}

/// Makes the JSON, and keeps it where the row decides all of it that can change.
fn made(
    state: &AppState,
    view: ApprovalView,
    row: ApprovalRow,
    approval: Approval,
) -> Result<ApprovalJson, Problem> {
    let (is_kept, body) = match view {
        ApprovalView::Full => (is_decided_by(&row, &approval), full(approval)),
        ApprovalView::Brief => (true, brief(&row, &approval)),
    };
    let json = ApprovalJson::of(&body).map_err(|error| {
        tracing::error!(%error, approval.id = %row.id, "an approval could not be written as JSON");
        Problem::internal()
    })?;
    if is_kept {
        state.listed_approvals().keep(view, row, json.clone());
    }
    Ok(json)
}

/// Whether all of the approval that can change is in the row: it waits, as it did when the row was read, and shows nobody the
/// values of its environment, which only those see who may answer.
fn is_decided_by(row: &ApprovalRow, approval: &Approval) -> bool {
    let waits = [row.status, approval.state.status()] == [ApprovalStatus::Pending; 2];
    waits && row.votes == approval.votes && approval.card.binding.env_hash.is_none()
}

fn full(approval: Approval) -> ListedApproval {
    ListedApproval::Full(Box::new(approval.into()))
}

fn brief(row: &ApprovalRow, approval: &Approval) -> ListedApproval {
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
    } = row.clone();
    let card = &approval.card;
    let line = Line::of(card);
    ListedApproval::Brief(Box::new(ApprovalBriefBody {
        id,
        run_id,
        status: status.into(),
        agent_id: agent,
        session_key: session,
        host: card.binding.host.into(),
        line: line.text.to_string(),
        truncated: line.is_cut,
        created_at_ms: created_at,
        expires_at_ms: expires_at,
        votes: votes.iter().filter(|vote| vote.allows()).count(),
        approvals_required: card.quorum.required,
        binding_digest,
    }))
}
