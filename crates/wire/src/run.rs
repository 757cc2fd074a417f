//! The run object.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{
    AgentId, ApprovalId, Command, Run, RunDecision, RunId, SessionKey, UnixMillis, quoting,
};
use countersign_policy::command::redaction;

use crate::{
    actor::ActorBody,
    approval::{context_url, justification},
    confined::{ConfinementBody, ObservedBody},
    ruling::RulingBody,
    sentence,
    words::{
        Ask, Backend, CommandInput, DecidedBy, Host, Isolation, Pinning, Reason, RunStatusName, RunVerdict,
        ScriptHold, Security, TextStart,
    },
};

/// A run (`docs/spec/http-api.md#run-object`).
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Run)]
#[expect(clippy::struct_excessive_bools, reason = "the members of the contract")]
pub struct RunBody {
    pub run_id: RunId,
    #[schema(value_type = RunStatusName)]
    pub status: Cow<'static, str>,
    pub host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    pub agent_id: AgentId,
    pub session_key: SessionKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// `apply_patch` where `command` is a patch; absent for commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Cow<'static, str>>,
    /// The command as one line for people, with what looks like a secret masked. The exact text is `command` or `argv`.
    pub display_text: String,
    pub cwd: String,
    pub env_names: Vec<String>,
    pub requested_by: ActorBody,
    pub security: Security,
    pub ask: Ask,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    pub pty: bool,
    pub background: bool,
    /// What can be written to it: `pipe`, `terminal`, `guarded-terminal`, or `withheld` where the call wanted that and
    /// what covers the command does not include it. Absent for a command that reads end of file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub input: Option<CommandInput>,
    pub diverted: bool,
    /// A text that could not be taken apart ran where only listed programs can be executed, instead of being asked about
    /// (`tools.exec.onMiss`). Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub held: bool,
    pub isolation: Isolation,
    /// What makes its sandbox: `docker` or `builtin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub sandbox: Option<Backend>,
    /// How firmly it is what was judged: `exact`, `path`, `text` or `held`. Absent for what was denied at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<Pinning>,
    /// Whether the scripts that it was judged with are read as they were: `held`, or `not held` with the reason. Absent
    /// without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scripts: Option<ScriptHold>,
    /// What the kernel keeps of each program. Absent where it keeps nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confinement: Option<ConfinementBody>,
    /// The same in one line. Absent where nothing is kept and nothing would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
    /// What was seen of the programs that those with limits on their starts started, or tried to start
    /// (`tools.exec.observe`). It decides nothing. Absent where it was not observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedBody>,
    /// Why the agent wanted it, in its own words; nobody checked them. What looks like a secret is masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// Where the agent says that there is more to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_url: Option<String>,
    /// How a text that the host shell would read is started: `direct`, its one program without the shell, or `shell`. Until
    /// the run ends it is what was decided; the shell also starts what could not be started directly. Absent where no
    /// host shell of the server's machine reads a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<TextStart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    pub created_at_ms: UnixMillis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<String>,
    pub timed_out: bool,
    pub truncated: bool,
    pub output_bytes: u64,
    pub tail: String,
}

/// What a list shows of a run. All of it: `GET /v1/runs/{runId}`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunBrief)]
pub struct RunBriefBody {
    pub run_id: RunId,
    #[schema(value_type = RunStatusName)]
    pub status: Cow<'static, str>,
    pub agent_id: AgentId,
    pub session_key: SessionKey,
    pub host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The command on one line with secrets masked: at most 200 characters.
    pub line: String,
    /// Whether something of the command is left out of `line`.
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    pub created_at_ms: UnixMillis,
}

impl From<RunBody> for RunBriefBody {
    fn from(run: RunBody) -> Self {
        let (line, truncated) = sentence::command_line(&run.display_text);
        Self {
            run_id: run.run_id,
            status: run.status,
            agent_id: run.agent_id,
            session_key: run.session_key,
            host: run.host,
            node_id: run.node_id,
            line,
            truncated,
            reason: run.reason,
            exit_code: run.exit_code,
            exit_signal: run.exit_signal,
            duration_ms: run.duration_ms,
            created_at_ms: run.created_at_ms,
        }
    }
}

/// What was decided about a run, and by whom.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RunDecision)]
pub struct DecisionBody {
    pub verdict: RunVerdict,
    pub by: DecidedBy,
}

/// A run with its output as text.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunWithOutput)]
pub struct RunDetail {
    #[serde(flatten)]
    pub run: RunBody,
    pub aggregated: String,
    pub stdout: String,
    pub stderr: String,
    /// Who decided about it. Absent while a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<RulingBody>,
    /// What the person who answered said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_reason: Option<String>,
    /// How it ended, as one sentence for a model. Absent until it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_message: Option<String>,
}

impl From<Run> for RunBody {
    fn from(run: Run) -> Self {
        let duration_ms = duration_ms(&run);
        let display_text = redaction::masked(&quoting::line(&run.command));
        let (command, argv, tool) = match run.command {
            Command::Shell(text) => (Some(text), None, None),
            Command::Argv(argv) => (None, Some(argv), None),
            Command::Patch(text) => (Some(text), None, Some(Cow::Borrowed("apply_patch"))),
        };
        Self {
            run_id: run.id,
            status: run.status.api_name().into(),
            host: run.host.into(),
            node_id: run.node_id,
            agent_id: run.agent,
            session_key: run.session,
            command,
            argv,
            tool,
            display_text,
            cwd: run.cwd,
            env_names: run.env_names,
            requested_by: run.requested_by.into(),
            security: run.security.into(),
            ask: run.ask.into(),
            decision: run.decision.map(|RunDecision { verdict, by }| DecisionBody {
                verdict: verdict.into(),
                by: by.into(),
            }),
            reason: run.reason.map(Into::into),
            detail: run.detail,
            approval_id: run.approval_id,
            session_id: run.session_id,
            pid: run.pid,
            pty: run.pty,
            background: run.background,
            input: run.input.noteworthy().map(Into::into),
            diverted: run.diverted,
            held: run.binding == Some(countersign_domain::Pinning::Held),
            isolation: run.isolation.into(),
            sandbox: run.sandbox.map(Into::into),
            binding: run.binding.map(Into::into),
            scripts: run.scripts.map(Into::into),
            confined: run.confinement.to_noteworthy_line(),
            observed: run.observed.map(ObservedBody::from),
            justification: justification(&run.note),
            context_url: context_url(&run.note),
            confinement: ConfinementBody::of(&run.confinement),
            start: run.start.map(Into::into),
            timeout_ms: run
                .timeout
                .map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            created_at_ms: run.created_at,
            started_at_ms: run.started_at,
            ended_at_ms: run.ended_at,
            duration_ms,
            exit_code: run.exit_code,
            exit_signal: run.exit_signal,
            timed_out: run.timed_out,
            truncated: run.truncated,
            output_bytes: run.output_bytes,
            tail: run.tail,
        }
    }
}

/// From start to end, for a run that did both.
pub fn duration_ms(run: &Run) -> Option<u64> {
    let duration = run.ended_at?.since(run.started_at?);
    Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
