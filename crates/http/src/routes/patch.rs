//! `POST /v1/apply-patch`: change files by a patch.

use axum::extract::State;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use countersign_domain::{AgentId, AgentNote, ContextUrl, HostChoice, Justification, SessionKey};
use countersign_engine::{
    Engine, IdempotencyKey, OnDisconnect,
    patch::PatchRequest,
    reply::{AppliedPatch, ExecError, PatchReply},
};
use countersign_protocol::patch::FileChange;
use countersign_wire::{
    exec::Started,
    patch::{Applied, ChangeBody},
};

use super::exec;

use crate::{
    caller::{AgentCaller, Exec},
    extract::{IdempotencyHeader, QueryOf, RawJson},
    links::Links,
    problem::Problem,
    route_table::{RouteTable, routes},
    state::AppState,
};

/// Longer than the name of any model.
const MAX_MODEL_CHARS: usize = 256;

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(apply_patch))
}

/// A patch to apply.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PatchRequest)]
pub(in crate::routes) struct PatchBody {
    /// From `*** Begin Patch` to `*** End Patch`.
    #[schema(max_length = 1_048_576)]
    input: String,
    /// Directory that its paths begin in, absolute or beginning with `~/`; the agent's workspace unless given.
    #[schema(pattern = r"^(/|~/)[^\x00]*$")]
    workdir: Option<String>,
    /// Who asks; `main` unless given or told by `sessionKey`.
    agent_id: Option<AgentId>,
    /// In which session; `agent:<agentId>:main` unless given.
    session_key: Option<SessionKey>,
    /// `auto`, `sandbox` or `gateway`.
    #[schema(value_type = Option<HostChoice>)]
    host: Option<String>,
    /// The model that wrote it, where only some may.
    #[schema(max_length = 256)]
    model: Option<String>,
    /// Why the agent wants it, for the person who answers.
    justification: Option<Justification>,
    /// Where that person can read more.
    context_url: Option<ContextUrl>,
    /// How long to wait in milliseconds for a person's decision.
    #[schema(maximum = 600_000)]
    approval_wait_ms: Option<u64>,
}

impl PatchBody {
    /// Checks what can be checked without knowing settings or files.
    pub(in crate::routes) fn into_request(self) -> Result<PatchRequest, Problem> {
        let (agent, session) = exec::identity(self.agent_id, self.session_key)?;
        if let Some(model) = &self.model
            && (model.chars().count() > MAX_MODEL_CHARS || model.contains(char::is_control))
        {
            return Err(Problem::field(
                "model",
                "expected up to 256 characters without control characters",
            ));
        }
        Ok(PatchRequest {
            input: self.input,
            workdir: exec::workdir(self.workdir)?,
            host: self.host.as_deref().map(exec::host).transpose()?,
            agent,
            session,
            model: self.model,
            note: AgentNote {
                justification: self.justification,
                context_url: self.context_url,
            },
            approval_wait: exec::approval_wait(self.approval_wait_ms)?,
        })
    }
}

pub(in crate::routes) type PatchAnswer = exec::CallAnswer<Applied>;

impl PatchAnswer {
    /// Turns the engine's reply into the wire form.
    pub(in crate::routes) async fn of_patch(
        engine: &Engine,
        links: &Links,
        reply: Result<PatchReply, ExecError>,
    ) -> Result<Self, Problem> {
        Ok(match reply {
            Ok(PatchReply::Applied(applied)) => Self::Done(Box::new(self::applied(*applied))),
            Ok(PatchReply::Running(running)) => Self::running(*running, links),
            Ok(PatchReply::Pending(pending)) => Self::pending(*pending, links),
            Err(error) => return Err(exec::refused(engine, error).await),
        })
    }
}

fn applied(AppliedPatch { run, patch }: AppliedPatch) -> Applied {
    Applied {
        run_id: run.id,
        host: run.host.into(),
        cwd: run.cwd,
        changed: patch.changes().map(change).collect(),
        summary: patch.summary(),
        approval_id: run.approval_id,
    }
}

fn change(FileChange { path, kind, from }: FileChange<'_>) -> ChangeBody {
    ChangeBody {
        path: path.as_str().to_owned(),
        kind: kind.into(),
        from: from.map(|from| from.as_str().to_owned()),
    }
}

/// Applies a patch to files of the workspace: all of it, or nothing.
///
/// 200 when it was applied, 202 when a person is asked first. With `patch-failed` no file was changed, and `path` and `hunk`
/// say what does not fit. The format is described in `docs/apply-patch.md`.
#[utoipa::path(
    post, path = "/v1/apply-patch", tag = "exec",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$",
        description = "The same key with the same body within 24 h gives the first answer again and changes nothing.")),
    request_body = PatchBody,
    responses(
        (status = OK, body = Applied),
        (status = ACCEPTED, body = Started, headers(
            ("Location" = String, description = "The run."),
            ("Link" = String, description = "`rel=\"status\"`: the run; `rel=\"approval\"`: where a person answers, if one is asked."),
            ("Retry-After" = u64, description = "Seconds until it is worth asking again."),
        )),
        (status = BAD_REQUEST, description = "invalid-request, config-conflict, workdir-unavailable"),
        (status = FORBIDDEN, description = "forbidden, exec-denied, tool-denied, patch-not-allowed, host-not-allowed"),
        (status = CONFLICT, description = "patch-failed"),
        (status = UNPROCESSABLE_ENTITY, description = "idempotency-mismatch"),
        (status = SERVICE_UNAVAILABLE, description = "sandbox-unavailable, node-unavailable, overloaded, shutting-down, storage-unavailable"),
    ),
    security(("token" = ["exec"])),
)]
async fn apply_patch(
    caller: AgentCaller<Exec>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    IdempotencyHeader(key): IdempotencyHeader,
    RawJson { value: body, bytes }: RawJson<PatchBody>,
) -> Result<PatchAnswer, Problem> {
    let request = body.into_request()?;
    let key = key.map(|key| IdempotencyKey {
        key,
        body_sha256: Sha256::digest(&bytes).into(),
        on_disconnect: OnDisconnect::Detach,
        is_named: true,
    });
    let engine = state.engine();
    let reply = engine.patches().apply(&caller, request, key).await;
    PatchAnswer::of_patch(engine, state.links(), reply).await
}
