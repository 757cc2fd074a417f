//! `POST /v1/exec/explain`: what an exec call would come to, and why.

use axum::extract::State;

use countersign_engine::explain::{Explanation, Outcome, SandboxView};
use countersign_policy::combine::Effective;
use countersign_wire::{
    approval::PatternBody,
    confined::ConfinementBody,
    explain::{EnvBody, ExplanationBody, HostBody, SandboxBody},
    stop::StopBody,
};

use super::request::ExecBody;

use crate::{
    caller::{AgentCaller, ReadOrOwn},
    extract::{JsonBody, QueryOf},
    problem::{Code, Problem},
    reply::JsonReply,
    routes::policy,
    state::AppState,
};

/// Explains a command: exactly what `POST /v1/exec` would do at this moment. Nothing runs and nothing is stored.
///
/// A command that would be rejected is explained with 200, verdict `reject` and outcome `deny`. Calls that go nowhere
/// for another reason are refused as they are by `POST /v1/exec`. A token that is bound to agents explains for
/// these alone.
#[utoipa::path(
    post, path = "/v1/exec/explain", tag = "exec", operation_id = "explain_exec",
    request_body = ExecBody,
    responses(
        (status = OK, body = ExplanationBody),
        (status = BAD_REQUEST, description = "invalid-request, blank-command, config-conflict, workdir-unavailable"),
        (status = FORBIDDEN, description = "forbidden, host-not-allowed, elevated-unavailable"),
        (status = NOT_FOUND, description = "node-not-found"),
        (status = CONFLICT, description = "node-ambiguous"),
        (status = SERVICE_UNAVAILABLE, description = "sandbox-unavailable, node-unavailable, shutting-down, storage-unavailable"),
    ),
    security(("token" = ["exec"]), ("token" = ["read"])),
)]
pub(super) async fn explain(
    caller: AgentCaller<ReadOrOwn>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(body): JsonBody<ExecBody>,
) -> Result<JsonReply<ExplanationBody>, Problem> {
    let request = body.into_explainable()?;
    let explanation = state.engine().explainer().explain(&caller, request).await?;
    Ok(JsonReply(explanation_body(explanation)))
}

fn sandbox_body(view: SandboxView) -> SandboxBody {
    let SandboxView {
        backend,
        scope,
        name,
        workspace_access,
        cwd,
    } = view;
    SandboxBody {
        backend: backend.as_str().into(),
        scope: scope.as_str().into(),
        name,
        workspace_access: workspace_access.as_str().into(),
        cwd,
    }
}

pub(in crate::routes) fn explanation_body(explanation: Explanation) -> ExplanationBody {
    let Explanation {
        host,
        alternatives,
        effective:
            Effective {
                security,
                ask,
                ask_fallback,
                auto_allow_skills: _,
                document_refused: _,
            },
        analysis,
        blocked_env,
        passed_env,
        outcome,
        needs_person,
        approver_reachable,
        quorum,
        would_persist,
        pinned,
        start,
        scripts,
        confinement,
        confined,
        children_not_kept,
        input,
        node,
        sandbox,
        diverted,
        not_diverted,
        held,
        not_held,
        stopped,
    } = explanation;
    let (outcome, reason) = match outcome {
        Outcome::Run => ("run", None),
        Outcome::Ask(why) => ("ask", Some(why.as_str())),
        Outcome::Deny(reason) => ("deny", Some(reason.as_str())),
        Outcome::BadCommand => ("deny", Some(Code::InvalidRequest.as_str())),
        Outcome::BlockedEnv => ("deny", Some(Code::BlockedEnv.as_str())),
    };
    ExplanationBody {
        host: HostBody {
            value: host.into(),
            alternatives: alternatives.into_iter().map(Into::into).collect(),
        },
        security: security.into(),
        ask: ask.into(),
        ask_fallback: ask_fallback.into(),
        analysis: serde_json::to_value(&analysis).expect("an analysis is plain data"),
        env: EnvBody {
            blocked: blocked_env,
            passed: passed_env,
        },
        outcome: outcome.into(),
        reason: reason.map(Into::into),
        needs_person,
        approver_reachable,
        approvals_required: quorum.as_ref().map(|quorum| quorum.required),
        groups: quorum.and_then(|quorum| quorum.groups),
        would_persist: PatternBody::all(would_persist, scripts.is_some()),
        binding: pinned.map(|pinned| pinned.pinning.into()),
        binding_detail: pinned.map(|pinned| pinned.detail.into()),
        start: start.as_ref().map(|start| start.way.into()),
        start_detail: start.map(|start| start.detail),
        scripts: scripts.filter(|_| pinned.is_some()).map(Into::into),
        confinement: pinned.and_then(|_| ConfinementBody::of(&confinement)),
        confined: confined.filter(|_| pinned.is_some()),
        children_not_kept,
        input: input.noteworthy().map(Into::into),
        node_id: node.as_ref().and_then(|node| node.node_id.clone()),
        node: node.map(policy::node),
        sandbox: sandbox.map(sandbox_body),
        diverted,
        not_diverted,
        held: held.is_some(),
        held_programs: held,
        not_held,
        stopped: stopped.as_deref().map(StopBody::from),
    }
}
