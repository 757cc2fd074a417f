//! How an approval ends that nobody answered, and how the end of any is told.

use countersign_domain::{Actor, Approval, ApprovalState, TerminalReason, stored_words};

use crate::events::{Event, EventKind, Resolution};

use super::{approvals::StoredApproval, error::Fault, run_rows, sql::exactly_one, tx::Tx};

/// Tells that an approval ended.
pub(super) fn tell_resolved(
    tx: &mut Tx<'_>,
    approval: &Approval,
    by: Option<&Actor>,
    reason: Option<String>,
    why: TerminalReason,
) -> Result<(), Fault> {
    let kind = EventKind::ApprovalResolved(Resolution {
        status: approval.state.status(),
        decision: approval.state.decision(),
        resolved_by: by.cloned(),
        reason,
        terminal_reason: Some(why),
        grant: Some(stored_words(&approval.chosen_patterns)).filter(|words| !words.is_empty()),
    });
    let system = Actor::system();
    tell(tx, approval, kind, by.unwrap_or(&system))
}

/// Tells everyone who may see the run of an approval.
pub(super) fn tell(tx: &mut Tx<'_>, approval: &Approval, kind: EventKind, by: &Actor) -> Result<(), Fault> {
    let subject = run_rows::brief(tx.connection, &approval.run_id)?
        .map(|run| run.subject)
        .unwrap_or_default();
    tx.log(Event { subject, kind }, by)
}

/// Ends an approval that nobody answered; the caller has checked that it is pending.
pub(super) fn end_undecided(
    tx: &mut Tx<'_>,
    stored: &StoredApproval,
    state: ApprovalState,
    by: Option<&Actor>,
    why: TerminalReason,
) -> Result<Approval, Fault> {
    let now = tx.now().get();
    let reason = match &state {
        ApprovalState::Denied { reason, .. } => reason.clone(),
        ApprovalState::Pending
        | ApprovalState::Allowed { .. }
        | ApprovalState::Expired { .. }
        | ApprovalState::Cancelled { .. } => None,
    };
    let changed = tx.execute(
        "UPDATE approvals SET status = ?2, resolved_ms = ?3, resolved_kind = ?4, resolved_id = ?5, \
         resolved_name = ?6, terminal_reason = ?7, reason = ?8, env_sealed = NULL \
         WHERE id = ?1 AND status = 'pending'",
        (
            stored.approval.id.as_str(),
            state.status().as_str(),
            now,
            by.map(|by| by.kind.as_str()),
            by.map(|by| &by.id),
            by.map(|by| &by.name),
            why.as_str(),
            &reason,
        ),
    )?;
    exactly_one(changed)?;
    tx.note_end_of_question(&stored.approval);
    let approval = Approval {
        state,
        ..stored.approval.clone()
    };
    tell_resolved(tx, &approval, by, reason, why)?;
    Ok(approval)
}
