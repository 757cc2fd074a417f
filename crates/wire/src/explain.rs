//! What an exec call would come to (`docs/spec/http-api.md#post-v1execexplain-answer`).

use std::{borrow::Cow, collections::BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::AgentId;

use crate::{
    analysis::AnalysisBody,
    approval::PatternBody,
    confined::ConfinementBody,
    mute::AgentMuteBody,
    policy::{NodeBody, ValueBody},
    problem::ProblemBody,
    stop::StopBody,
    words::{Ask, CommandInput, Host, HostChoice, Pinning, ScriptHold, Security, TextStart},
};

/// The full decision about a call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Explanation)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "members of an answer, each by itself"
)]
pub struct ExplanationBody {
    /// Whose call it is.
    pub agent_id: AgentId,
    pub host: HostBody,
    pub security: ValueBody<Security>,
    pub ask: ValueBody<Ask>,
    pub ask_fallback: ValueBody<Security>,
    #[schema(value_type = AnalysisBody)]
    pub analysis: serde_json::Value,
    pub env: EnvBody,
    /// `run`, `ask` or `deny`.
    pub outcome: Cow<'static, str>,
    /// Why it is asked about (`ask-always`, `allowlist-miss`, `needs-person`) or denied (a reason of a denied run; the
    /// problem code of a bad request); absent when it would run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// Whether nobody but a person may allow it.
    pub needs_person: bool,
    /// Whether an approver could be asked now; where not, the fallback has decided already.
    pub approver_reachable: bool,
    /// How many different people would have to allow it, whether or not they could be asked now; absent where policy
    /// alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_required: Option<u64>,
    /// They would have to be in one of these groups; absent for any approver.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub groups: Option<BTreeSet<String>>,
    /// What `allow-always` could store, or, of a call that is denied as `allowlist-miss`, what would cover it.
    pub would_persist: Vec<PatternBody>,
    /// How firmly the run would be what was judged: `exact`, `path`, `text` or `held`; absent where it would not start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<Pinning>,
    /// Why it is that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding_detail: Option<Cow<'static, str>>,
    /// How a text that the host shell would read would be started: `direct`, its one program without the shell, or
    /// `shell`. Absent where no host shell of this machine would read one, and where nothing would start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<TextStart>,
    /// Why it is that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_detail: Option<Cow<'static, str>>,
    /// Whether the scripts of the command would be read as they were judged: `held`, or `not held` with the reason. Absent
    /// without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scripts: Option<ScriptHold>,
    /// What the kernel would keep of each program. Absent where it would keep nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confinement: Option<ConfinementBody>,
    /// The same in one line. Absent where no program of this machine would start by its plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
    /// Patterns of the deny rules with `children` that would not bind what it starts, since its isolation level does not
    /// keep them. Absent for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub children_not_kept: Vec<String>,
    /// What could be written to it once it ran: `pipe`, `terminal`, `guarded-terminal`, or `withheld` where the call wants
    /// that and what covers the command does not include it. Absent for a command that reads end of file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub input: Option<CommandInput>,
    /// The node that it would run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// How much of the policy of that node is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeBody>,
    /// The sandbox that it would run in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxBody>,
    /// Whether it would run there instead of being asked about (`tools.exec.onMiss`).
    pub diverted: bool,
    /// Why it would be asked about although the settings let a miss run in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_diverted: Option<String>,
    /// It would run where only listed programs can be executed, since it cannot be taken apart (`tools.exec.onMiss`).
    /// Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub held: bool,
    /// The real paths of the programs that could be executed, apart from the shell, where it would run held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_programs: Option<Vec<String>>,
    /// Why it would be asked about although the settings let a text that cannot be taken apart run held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_held: Option<String>,
    /// Until when its agent is muted, by whom and why, where it would have been asked about; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub muted: Option<AgentMuteBody>,
    /// The command that would change a denial. Absent where it would not be denied, and where no command changes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The commands that together would let it run unasked. Empty where none can.
    pub to_allow: Vec<String>,
    /// The command that would refuse it for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_refuse: Option<String>,
    /// Who stopped everything, when and why; absent while nothing is stopped. During a stop nothing starts, no
    /// matter what the rest says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopBody>,
}

/// The sandbox of a call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExplainedSandbox)]
pub struct SandboxBody {
    /// What makes it: `docker` or `builtin`.
    pub backend: Cow<'static, str>,
    /// Who shares it: `session`, `agent` or `shared`.
    pub scope: Cow<'static, str>,
    /// Its name.
    pub name: String,
    /// What it sees of the agent's workspace: `none`, `ro` or `rw`.
    pub workspace_access: Cow<'static, str>,
    /// Where the command would start, as it is called inside.
    pub cwd: String,
}

/// Where it would run.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ExplainedHost)]
pub struct HostBody {
    #[serde(flatten)]
    pub value: ValueBody<Host, HostChoice>,
    /// The other hosts that the call could name.
    pub alternatives: Vec<Host>,
}

/// What becomes of the environment overrides.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ExplainedEnv)]
pub struct EnvBody {
    /// Names that are never accepted, sorted, upper case.
    pub blocked: Vec<String>,
    /// Names that would reach the command.
    pub passed: Vec<String>,
}

/// What becomes of each of several commands, in the order of the request.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Explanations)]
pub struct ExplanationsBody {
    pub results: Vec<ExplainedBody>,
}

/// What `POST /v1/exec/explain` would have answered to one of several commands. It has either `explanation` or `problem`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExplainedCommand)]
pub struct ExplainedBody {
    /// The status of that answer.
    pub status: u16,
    /// Its body, of a status 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Box<ExplanationBody>>,
    /// Its refusal, of any other status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Box<ProblemBody>>,
}
