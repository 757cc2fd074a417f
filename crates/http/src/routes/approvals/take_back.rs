//! `POST /v1/approvals/{id}/take-back`: what was allowed is denied, as long as it has not started.

use axum::extract::State;

use countersign_domain::ApprovalId;
use countersign_engine::reply::Decided;
use countersign_wire::approval::{DecidedBody, TakeBackBody};

use super::check_reason;
use crate::{
    caller::{AgentCaller, Approve},
    extract::{AtPath, JsonBody, QueryOf},
    problem::Problem,
    reply::JsonReply,
    short_id,
    state::AppState,
};

/// Takes back what was allowed, unless its run has started: it ends `denied` with `terminalReason` `taken-back`, and nothing
/// of the answer is remembered.
///
/// `start_delay_ms` of `[[approvals.rules]]` gives time for it. Every approver who may answer the approval may take it back, no
/// matter who allowed it. `applied` is false where it was denied before.
#[utoipa::path(
    post, path = "/v1/approvals/{id}/take-back", tag = "approvals", operation_id = "take_back_approval",
    params(("id" = ApprovalId, Path)),
    request_body = TakeBackBody,
    responses(
        (status = OK, body = DecidedBody),
        (status = FORBIDDEN, description = "forbidden, own-request"),
        (status = NOT_FOUND, description = "approval-not-found"),
        (status = CONFLICT, description = "approval-already-resolved (it has started, or ended), with the approval"),
        (status = GONE, description = "approval-expired, approval-cancelled, with the approval"),
        (status = UNPROCESSABLE_ENTITY, description = "decision-not-allowed: nobody has answered yet"),
    ),
    security(("token" = ["approve"])),
)]
pub(super) async fn take_back(
    caller: AgentCaller<Approve>,
    AtPath(id): AtPath<ApprovalId>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(TakeBackBody { reason }): JsonBody<TakeBackBody>,
) -> Result<JsonReply<DecidedBody>, Problem> {
    check_reason(reason.as_deref()).map_err(|expected| Problem::field("reason", expected))?;
    let id = short_id::approval(&state, &caller, id).await?;
    let taken_back = state.engine().approvals().take_back(&caller, &id, reason).await?;
    let Decided {
        applied,
        approval,
        rule: _,
    } = taken_back;
    Ok(JsonReply(DecidedBody {
        applied,
        approval: approval.into(),
        rule: None,
        no_rule: None,
    }))
}
