//! `POST /v1/approvals/{id}/revision`: an approver changes the command.

use axum::{extract::State, http::StatusCode};
use serde::Deserialize;
use utoipa::ToSchema;

use countersign_domain::ApprovalId;
use countersign_wire::approval::ApprovalBody;

use crate::{
    caller::{AgentCaller, Approve},
    extract::{AtPath, JsonBody, QueryOf},
    problem::Problem,
    reply::Located,
    routes::exec,
    short_id,
    state::AppState,
};

/// A changed command. Exactly one of `command` and `argv`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Revision)]
pub(super) struct RevisionBody {
    /// Shell text.
    command: Option<String>,
    /// A program and its arguments, run without any shell. At most 256 KiB in all, one byte counted for the end of each.
    #[serde(default, deserialize_with = "exec::bounded_argv")]
    #[schema(max_items = 4096)]
    argv: Option<Vec<String>>,
}

/// Puts a changed command in the place of a pending one, for the same asker in the same place.
///
/// The old approval ends `denied` with `revisedBy`, and so does its run; the new one waits and is decided like any
/// other. It never runs without an answer, even if the allowlist covers it. A command that policy denies is refused and
/// leaves the old approval pending.
#[utoipa::path(
    post, path = "/v1/approvals/{id}/revision", tag = "approvals", operation_id = "revise_approval",
    params(("id" = ApprovalId, Path)),
    request_body = RevisionBody,
    responses(
        (status = CREATED, body = ApprovalBody, headers(("Location" = String, description = "The new approval."))),
        (status = BAD_REQUEST, description = "invalid-request, blank-command, workdir-unavailable"),
        (status = FORBIDDEN, description = "forbidden, own-request, exec-denied"),
        (status = NOT_FOUND, description = "approval-not-found"),
        (status = CONFLICT, description = "approval-already-resolved, with the approval"),
        (status = GONE, description = "approval-expired, approval-cancelled, with the approval"),
    ),
    security(("token" = ["approve"])),
)]
pub(super) async fn revise(
    caller: AgentCaller<Approve>,
    AtPath(id): AtPath<ApprovalId>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(RevisionBody { command, argv }): JsonBody<RevisionBody>,
) -> Result<Located<ApprovalBody>, Problem> {
    let command = exec::command(command, argv)?;
    let id = short_id::approval(&state, &caller, id).await?;
    let approval = state.engine().revisions().revise(&caller, &id, command).await?;
    Ok(Located {
        status: StatusCode::CREATED,
        location: state.links().place(&format!("/v1/approvals/{}", approval.id)),
        body: approval.into(),
    })
}
