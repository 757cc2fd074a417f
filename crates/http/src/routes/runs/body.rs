//! The run object.

use serde::Serialize;
use utoipa::ToSchema;

use countersign_domain::quoting;
use countersign_domain::{
    AgentId, ApprovalId, Ask, Backend, Command, CommandInput, DecidedBy, Host, Isolation, Pinning, Reason,
    Run, RunDecision, RunId, RunStatus, RunVerdict, ScriptHold, Security, SessionKey, UnixMillis,
};
use countersign_policy::command::redaction;
use countersign_runner::output::Captured;
use countersign_wire::actor::ActorBody;

use crate::{problem::Problem, schema::RunStatusName};

/// A run (`docs/spec/http-api.md#run-object`).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Run)]
#[expect(clippy::struct_excessive_bools, reason = "the members of the contract")]
pub(crate) struct RunBody {
    run_id: RunId,
    #[schema(value_type = RunStatusName)]
    status: &'static str,
    host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    agent_id: AgentId,
    session_key: SessionKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    argv: Option<Vec<String>>,
    /// `apply_patch` where `command` is a patch; absent for commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    tool: Option<&'static str>,
    /// The command as one line for people, with what looks like a secret masked. The exact text is `command` or `argv`.
    display_text: String,
    cwd: String,
    env_names: Vec<String>,
    requested_by: ActorBody,
    security: Security,
    ask: Ask,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<DecisionBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<ApprovalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    pty: bool,
    background: bool,
    /// What can be written to it: `pipe`, `terminal`, `guarded-terminal`, or `withheld` where the call wanted that and
    /// what covers the command does not include it. Absent for a command that reads end of file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    input: Option<CommandInput>,
    diverted: bool,
    isolation: Isolation,
    /// What makes its sandbox: `docker` or `builtin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    sandbox: Option<Backend>,
    /// How firmly it is what was judged: `exact`, `path` or `text`. Absent for what was denied at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    binding: Option<Pinning>,
    /// Whether the scripts that it was judged with are read as they were: `held`, or `not held` with the reason. Absent
    /// without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    scripts: Option<ScriptHold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    created_at_ms: UnixMillis,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_signal: Option<String>,
    timed_out: bool,
    truncated: bool,
    output_bytes: u64,
    tail: String,
}

/// What was decided about a run, and by whom.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunDecision)]
pub(crate) struct DecisionBody {
    verdict: RunVerdict,
    by: DecidedBy,
}

/// A run with its output as text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunWithOutput)]
pub(crate) struct RunDetail {
    #[serde(flatten)]
    run: RunBody,
    aggregated: String,
    stdout: String,
    stderr: String,
}

impl RunDetail {
    pub(super) fn new(run: Run, output: Captured) -> Self {
        Self {
            run: run.into(),
            aggregated: output.aggregated,
            stdout: output.stdout,
            stderr: output.stderr,
        }
    }
}

impl RunBody {
    /// A run among others: a patch is named by its files.
    pub(super) fn listed(mut run: Run) -> Self {
        let short = matches!(run.command, Command::Patch(_)).then(|| run.command.to_short_text());
        if let Some(short) = short {
            run.command = Command::Patch(short);
        }
        run.into()
    }
}

impl From<Run> for RunBody {
    fn from(run: Run) -> Self {
        let duration_ms = duration_ms(&run);
        let display_text = redaction::masked(&quoting::line(&run.command));
        let (command, argv, tool) = match run.command {
            Command::Shell(text) => (Some(text), None, None),
            Command::Argv(argv) => (None, Some(argv), None),
            Command::Patch(text) => (Some(text), None, Some("apply_patch")),
        };
        Self {
            run_id: run.id,
            status: run.status.api_name(),
            host: run.host,
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
            security: run.security,
            ask: run.ask,
            decision: run
                .decision
                .map(|RunDecision { verdict, by }| DecisionBody { verdict, by }),
            reason: run.reason,
            detail: run.detail,
            approval_id: run.approval_id,
            session_id: run.session_id,
            pid: run.pid,
            pty: run.pty,
            background: run.background,
            input: run.input.noteworthy(),
            diverted: run.diverted,
            isolation: run.isolation,
            sandbox: run.sandbox,
            binding: run.binding,
            scripts: run.scripts,
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
pub(crate) fn duration_ms(run: &Run) -> Option<u64> {
    let duration = run.ended_at?.since(run.started_at?);
    Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// The ledger's states behind a status word of the API.
pub(super) fn statuses_named(name: &str) -> Result<Vec<RunStatus>, Problem> {
    let statuses: Vec<_> = RunStatus::ALL
        .iter()
        .copied()
        .filter(|status| status.api_name() == name)
        .collect();
    if statuses.is_empty() {
        return Err(Problem::field(
            "status",
            "expected queued, approval-pending, running, completed, failed, denied, cancelled or lost",
        ));
    }
    Ok(statuses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_be_asked_for_by_its_word() {
        for status in RunStatus::ALL {
            assert!(
                statuses_named(status.api_name()).unwrap().contains(status),
                "{status}"
            );
        }
        assert_eq!(
            statuses_named("queued").unwrap(),
            vec![RunStatus::Requested, RunStatus::Launching]
        );
        assert!(statuses_named("launching").is_err());
    }
}
