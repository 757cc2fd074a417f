//! `POST /v1/exec/explain`: what an exec call would come to, and why.

use axum::{
    Extension,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, de::IgnoredAny};
use utoipa::ToSchema;

use countersign_domain::{ExecRequest, Principal};
use countersign_engine::explain::{Explanation, Outcome, SandboxView, WaysOut};
use countersign_policy::combine::Effective;
use countersign_protocol::ByName;
use countersign_wire::{
    approval::PatternBody,
    confined::ConfinementBody,
    explain::{EnvBody, ExplainedBody, ExplanationBody, ExplanationsBody, HostBody, SandboxBody},
    stop::StopBody,
};

use super::request::ExecBody;

use crate::{
    admission::RequestSource,
    caller::{AgentCaller, ReadOrOwn},
    deprecation::DeprecationHeaders,
    extract::{self, JsonBody, QueryOf, RawJson},
    problem::{Code, Problem},
    rate_headers,
    reply::JsonReply,
    routes::{mutes, policy},
    several::counted,
    state::AppState,
};

/// Explains a command: exactly what `POST /v1/exec` would do at this moment. Nothing runs and nothing is stored.
///
/// A command that would be rejected is explained with 200, verdict `reject` and outcome `deny`. Other refusals are those
/// of `POST /v1/exec`. A token that is bound to agents explains for these alone. A body with `commands` is answered as
/// by `POST /v1/exec/explanations`.
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
    Extension(origin): Extension<RequestSource>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    RawJson { value, bytes }: RawJson<Explained>,
) -> Result<Response, Problem> {
    if value.commands.is_some() {
        let several = extract::parse(&bytes)?;
        return several_explained(&state, &caller, &origin, several).await;
    }
    let body: ExecBody = extract::parse(&bytes)?;
    let deprecated = DeprecationHeaders(body.deprecated());
    let request = body.into_explainable()?;
    let explanation = explained(&state, &caller, request).await?;
    Ok((deprecated, JsonReply(explanation)).into_response())
}

/// Whether a body is about several commands. Its other members are read as what it is then.
#[derive(Debug, Deserialize)]
pub(super) struct Explained {
    commands: Option<IgnoredAny>,
}

/// So many commands are explained in one request.
const MOST_COMMANDS: usize = 100;

/// Commands to explain.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ExplainRequests)]
pub(super) struct ExplainSeveralBody {
    #[schema(value_type = Vec<ExecBody>, min_items = 1, max_items = 100)]
    commands: Vec<ByName<ExecBody>>,
}

/// Explains up to 100 commands, each as `POST /v1/exec/explain` would.
///
/// Each counts against the rate of the token; what is over it is `rate-limited` in its result.
#[utoipa::path(
    post, path = "/v1/exec/explanations", tag = "exec", operation_id = "explain_execs",
    request_body = ExplainSeveralBody,
    responses(
        (status = OK, body = ExplanationsBody),
        (status = BAD_REQUEST, description = "invalid-request (also: no command or more than 100); nothing was explained"),
    ),
    security(("token" = ["exec"]), ("token" = ["read"])),
)]
pub(super) async fn explain_several(
    caller: AgentCaller<ReadOrOwn>,
    Extension(origin): Extension<RequestSource>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(body): JsonBody<ExplainSeveralBody>,
) -> Result<Response, Problem> {
    several_explained(&state, &caller, &origin, body).await
}

async fn several_explained(
    state: &AppState,
    caller: &Principal,
    origin: &RequestSource,
    ExplainSeveralBody { commands }: ExplainSeveralBody,
) -> Result<Response, Problem> {
    if commands.is_empty() || commands.len() > MOST_COMMANDS {
        let detail = format!("expected 1 to {MOST_COMMANDS} commands, not {}", commands.len());
        return Err(Problem::field("commands", detail));
    }
    let requests = commands
        .into_iter()
        .enumerate()
        .map(|(index, ByName(command))| requested(index, command));
    let requests: Vec<Requested> = requests.collect::<Result<_, _>>()?;
    let (counted, rate) = counted(requests, || origin.count_one_more(state.throttle()));
    let mut results = Vec::with_capacity(counted.len());
    // One after the other: a caller has one turn to have commands looked through.
    for (requested, limited) in counted {
        let explained = match limited {
            None => match requested {
                Ok(request) => explained(state, caller, *request).await,
                Err(refused) => Err(refused),
            },
            Some(limited) => Err(Problem::limited(limited)),
        };
        results.push(result(explained));
    }
    let mut response = JsonReply(ExplanationsBody { results }).into_response();
    if let Some(rate) = rate {
        rate_headers::write(rate, response.headers_mut());
    }
    Ok(response)
}

/// A command to explain, or why it is refused alone.
type Requested = Result<Box<ExecRequest>, Problem>;

/// Reads one command of several. One that does not have the form of the contract is a fault of the whole request.
fn requested(index: usize, command: ExecBody) -> Result<Requested, Problem> {
    match command.into_explainable() {
        Err(problem) if problem.code() == Code::InvalidRequest => {
            Err(problem.within(&format!("commands[{index}]")))
        }
        requested => Ok(requested.map(Box::new)),
    }
}

async fn explained(
    state: &AppState,
    caller: &Principal,
    request: ExecRequest,
) -> Result<ExplanationBody, Problem> {
    let explanation = state.engine().explainer().explain(caller, request).await?;
    Ok(explanation_body(explanation))
}

fn result(explained: Result<ExplanationBody, Problem>) -> ExplainedBody {
    match explained {
        Ok(explanation) => ExplainedBody {
            status: StatusCode::OK.as_u16(),
            explanation: Some(Box::new(explanation)),
            problem: None,
        },
        Err(problem) => {
            let problem = problem.into_body("/v1/exec/explain");
            ExplainedBody {
                status: problem.status,
                explanation: None,
                problem: Some(Box::new(problem)),
            }
        }
    }
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
        agent,
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
        muted,
        hint,
        ways_out: WaysOut { to_allow, to_refuse },
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
        agent_id: agent,
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
        muted: muted.map(mutes::body),
        hint,
        to_allow,
        to_refuse,
        stopped: stopped.as_deref().map(StopBody::from),
    }
}
