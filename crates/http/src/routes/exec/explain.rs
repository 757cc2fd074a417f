//! `POST /v1/exec/explain`: what an exec call would come to, and why.

use std::collections::BTreeSet;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use countersign_config::settings::{SandboxScope, WorkspaceAccess};
use countersign_domain::{Ask, CommandInput, Host, HostChoice, Pinning, ScriptHold, Security};
use countersign_engine::explain::{Explanation, Outcome, SandboxView};
use countersign_policy::{allowlist::Analysis, combine::Effective};
use countersign_wire::{analysis::AnalysisBody, approval::PatternBody, stop::StopBody};

use super::request::ExecBody;

use crate::{
    caller::{AgentCaller, ReadOrOwn},
    extract::{JsonBody, QueryOf},
    problem::{Code, Problem},
    reply::JsonReply,
    routes::policy::{NodeBody, ValueBody},
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
    let explanation = state.engine().explain(&caller, request).await?;
    Ok(JsonReply(explanation.into()))
}

/// The whole decision about a call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Explanation)]
pub(crate) struct ExplanationBody {
    host: HostBody,
    security: ValueBody<Security>,
    ask: ValueBody<Ask>,
    ask_fallback: ValueBody<Security>,
    #[schema(value_type = AnalysisBody)]
    analysis: Analysis,
    env: EnvBody,
    /// `run`, `ask` or `deny`.
    #[schema(value_type = String)]
    pub(crate) outcome: &'static str,
    /// Why it is asked about (`ask-always`, `allowlist-miss`, `needs-person`) or denied (a reason of a denied run; the
    /// problem code of a bad request); absent when it would run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) reason: Option<&'static str>,
    /// Whether nobody but a person may allow it.
    needs_person: bool,
    /// Whether an approver could be asked now; where not, the fallback has decided already.
    approver_reachable: bool,
    /// How many different people would have to allow it, whether or not they could be asked now; absent where policy
    /// alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    approvals_required: Option<u64>,
    /// They would have to be in one of these groups; absent for any approver.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    groups: Option<BTreeSet<String>>,
    /// What `allow-always` could store.
    would_persist: Vec<PatternBody>,
    /// How firmly the run would be what was judged: `exact`, `path` or `text`; absent where it would not start.
    #[serde(skip_serializing_if = "Option::is_none")]
    binding: Option<Pinning>,
    /// Why it is that.
    #[serde(skip_serializing_if = "Option::is_none")]
    binding_detail: Option<&'static str>,
    /// Whether the scripts of the command would be read as they were judged: `held`, or `not held` with the reason. Absent
    /// without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    scripts: Option<ScriptHold>,
    /// What could be written to it once it ran: `pipe`, `terminal`, `guarded-terminal`, or `withheld` where the call wants
    /// that and what covers the command does not include it. Absent for a command that reads end of file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    input: Option<CommandInput>,
    /// The node that it would run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    /// How much of the policy of that node is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeBody>,
    /// The sandbox that it would run in.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<SandboxBody>,
    /// Whether it would run there instead of being asked about (`tools.exec.onMiss`).
    diverted: bool,
    /// Why it would be asked about although the settings let a miss run in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_diverted: Option<String>,
    /// Who stopped everything, when and why; absent while nothing is stopped. During a stop nothing starts, no
    /// matter what the rest says.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<StopBody>,
}

/// The sandbox of a call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExplainedSandbox)]
struct SandboxBody {
    /// What makes it: `docker` or `builtin`.
    #[schema(value_type = String)]
    backend: &'static str,
    /// Who shares it: `session`, `agent` or `shared`.
    #[schema(value_type = String)]
    scope: SandboxScope,
    /// Its name.
    name: String,
    /// What it sees of the agent's workspace: `none`, `ro` or `rw`.
    #[schema(value_type = String)]
    workspace_access: WorkspaceAccess,
    /// Where the command would start, as it is called inside.
    cwd: String,
}

impl From<SandboxView> for SandboxBody {
    fn from(view: SandboxView) -> Self {
        let SandboxView {
            backend,
            scope,
            name,
            workspace_access,
            cwd,
        } = view;
        Self {
            backend: backend.as_str(),
            scope,
            name,
            workspace_access,
            cwd,
        }
    }
}

/// Where it would run.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedHost)]
struct HostBody {
    #[serde(flatten)]
    value: ValueBody<Host, HostChoice>,
    /// The other hosts that the call could name.
    alternatives: Vec<Host>,
}

/// What becomes of the environment overrides.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedEnv)]
struct EnvBody {
    /// Names that are never accepted, sorted, upper case.
    blocked: Vec<String>,
    /// Names that would reach the command.
    passed: Vec<String>,
}

impl From<Explanation> for ExplanationBody {
    fn from(explanation: Explanation) -> Self {
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
            scripts,
            input,
            node,
            sandbox,
            diverted,
            not_diverted,
            stopped,
        } = explanation;
        let (outcome, reason) = match outcome {
            Outcome::Run => ("run", None),
            Outcome::Ask(why) => ("ask", Some(why.as_str())),
            Outcome::Deny(reason) => ("deny", Some(reason.as_str())),
            Outcome::BadCommand => ("deny", Some(Code::InvalidRequest.as_str())),
            Outcome::BlockedEnv => ("deny", Some(Code::BlockedEnv.as_str())),
        };
        Self {
            host: HostBody {
                value: host.into(),
                alternatives,
            },
            security: security.into(),
            ask: ask.into(),
            ask_fallback: ask_fallback.into(),
            analysis,
            env: EnvBody {
                blocked: blocked_env,
                passed: passed_env,
            },
            outcome,
            reason,
            needs_person,
            approver_reachable,
            approvals_required: quorum.as_ref().map(|quorum| quorum.required),
            groups: quorum.and_then(|quorum| quorum.groups),
            would_persist: PatternBody::all(would_persist, scripts.is_some()),
            binding: pinned.map(|pinned| pinned.pinning),
            binding_detail: pinned.map(|pinned| pinned.detail),
            scripts: scripts.filter(|_| pinned.is_some()),
            input: input.noteworthy(),
            node_id: node.as_ref().and_then(|node| node.node_id.clone()),
            node: node.map(NodeBody::from),
            sandbox: sandbox.map(SandboxBody::from),
            diverted,
            not_diverted,
            stopped: stopped.as_deref().map(StopBody::from),
        }
    }
}
