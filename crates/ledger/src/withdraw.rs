//! The questions of a token end with it: nobody is asked for a token that opens nothing any more, and nothing of it
//! starts. Entry points: [`of_token`] when one is revoked, [`of_gone_asker`] wherever a question would go on,
//! [`why_gone`] where a run would start.

use countersign_domain::{
    Actor, Approval, ApprovalId, ApprovalState, ApprovalStatus, Reason, RunId, TerminalReason, TokenId,
};

use super::{
    approval_end,
    approvals::{self, StoredApproval},
    error::Fault,
    rows::Columns,
    run_end,
    sql::list,
    token_rows,
    tx::Tx,
};

/// Why nothing is asked or started for the token that asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum AskerGone {
    #[error("the token that asked was revoked")]
    Revoked,
    #[error("the token that asked has expired")]
    Expired,
}

/// Withdraws what a token asked and what still waits, also by browsers that stand for it. Returns the runs that were
/// denied by that.
pub(super) fn of_token(tx: &mut Tx<'_>, token: &TokenId, by: &Actor) -> Result<Vec<RunId>, Fault> {
    let asked: Vec<ApprovalId> = list(
        tx.connection,
        "SELECT id FROM approvals WHERE status = 'pending' AND asked_by_kind IN ('token', 'session') \
         AND substr(asked_by_id, 1, length(?1)) = ?1 ORDER BY seq",
        (token.as_str(),),
        |row| Columns::of("approvals", row).word(),
    )?;
    let mut denied = Vec::new();
    for id in asked {
        let stored = approvals::fetch_stored(tx.connection, &id)?;
        // Another id may begin in the same way.
        let own = stored.filter(|stored| stored.approval.requested_by.token().as_ref() == Some(token));
        if let Some(stored) = own {
            denied.push(withdraw(tx, &stored, AskerGone::Revoked, by)?.run_id);
        }
    }
    Ok(denied)
}

/// Withdraws a question that waits if the token that asked was revoked or has expired. `None` when it was not withdrawn.
pub(super) fn of_gone_asker(
    tx: &mut Tx<'_>,
    stored: &StoredApproval,
) -> Result<Option<Box<Approval>>, Fault> {
    if stored.approval.state.status() != ApprovalStatus::Pending {
        return Ok(None);
    }
    let Some(why) = why_gone(tx, &stored.approval.requested_by)? else {
        return Ok(None);
    };
    withdraw(tx, stored, why, &Actor::system()).map(|approval| Some(Box::new(approval)))
}

/// Why nothing is asked or started for this asker any more; `None` while its token is live, or if it has none.
pub(super) fn why_gone(tx: &mut Tx<'_>, asker: &Actor) -> Result<Option<AskerGone>, Fault> {
    let token = match asker.token() {
        Some(token) => token_rows::fetch_token(tx.connection, &token)?,
        None => None,
    };
    let now = tx.now();
    Ok(token
        .filter(|token| !token.is_live(now))
        .map(|token| match token.revoked_at {
            Some(_) => AskerGone::Revoked,
            None => AskerGone::Expired,
        }))
}

fn withdraw(tx: &mut Tx<'_>, stored: &StoredApproval, why: AskerGone, by: &Actor) -> Result<Approval, Fault> {
    let state = ApprovalState::Cancelled {
        by: by.clone(),
        at: tx.now(),
    };
    let approval = approval_end::end_undecided(tx, stored, state, Some(by), TerminalReason::RunAborted)?;
    let (reason, detail) = (Reason::ApprovalCancelled, Some(why.to_string()));
    run_end::deny_run(tx, &approval.run_id, reason, detail, None, by)?;
    Ok(approval)
}
