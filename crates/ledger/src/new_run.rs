//! Inserting a run.

use std::time::Duration;

use rusqlite::params;

use countersign_domain::{
    Actor, AgentId, AgentNote, ApprovalId, Ask, Backend, Command, CommandInput, Confinement, DecidedBy,
    EnvOverrides, Host, Isolation, Pinning, Reason, RunDecision, RunId, RunStatus, RunVerdict, ScriptHold,
    Security, SessionKey, TextStart,
};

use crate::events::{Event, EventKind, Subject};

use super::{
    error::Fault,
    launch::Ready,
    run_order, run_rows,
    sql::{json, millis},
    tx::Tx,
};

/// A run on its way into the ledger; time and state are the ledger's to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// A new id; an insert under one that exists is refused.
    pub id: RunId,
    /// Where it would run.
    pub host: Host,
    /// The node, when `host` is one.
    pub node_id: Option<String>,
    /// The agent that the call is for.
    pub agent: AgentId,
    /// The session of the call; system events about the run go to it.
    pub session: SessionKey,
    /// What it would run.
    pub command: Command,
    /// The working directory, absolute.
    pub cwd: String,
    /// The accepted environment overrides. Their names are stored; values only sealed, while it waits.
    pub env: EnvOverrides,
    /// The asker, who can never answer the approval of this run.
    pub requested_by: Actor,
    /// Effective security when it was judged.
    pub security: Security,
    /// Effective ask when it was judged.
    pub ask: Ask,
    /// Whether it has a pseudo-terminal.
    pub pty: bool,
    /// Whether it outlives its caller.
    pub background: bool,
    /// What can be written to it once it runs.
    pub input: CommandInput,
    /// Whether a miss is run in the sandbox instead of being asked.
    pub diverted: bool,
    /// As whom and how confined it runs.
    pub isolation: Isolation,
    /// What makes its sandbox, where it runs in one.
    pub sandbox: Option<Backend>,
    /// How firmly it is what was judged; `None` where nothing may start.
    pub binding: Option<Pinning>,
    /// Whether its scripts are read as they were judged; `None` without any.
    pub scripts: Option<ScriptHold>,
    /// What the kernel keeps of its programs.
    pub confinement: Confinement,
    /// How its text is to be started; `None` where no host shell of this machine would read one.
    pub start: Option<TextStart>,
    /// Its time limit; `None` for none.
    pub timeout: Option<Duration>,
    /// What the agent said about it.
    pub note: AgentNote,
}

/// With what a run enters the ledger.
pub(super) struct Entrance<'a> {
    pub(super) status: RunStatus,
    /// What the gate said, as `exec.requested` tells it.
    pub(super) verdict: RunVerdict,
    /// What stands in the record.
    pub(super) decision: RunDecision,
    pub(super) reason: Option<Reason>,
    pub(super) detail: Option<&'a str>,
    pub(super) approval: Option<&'a ApprovalId>,
    pub(super) keyed: bool,
    pub(super) launch: Option<&'a Ready>,
}

impl Entrance<'_> {
    pub(super) const fn asked(approval: &ApprovalId, keyed: bool) -> Entrance<'_> {
        Entrance {
            status: RunStatus::Asking,
            verdict: RunVerdict::Ask,
            decision: RunDecision {
                verdict: RunVerdict::Ask,
                by: DecidedBy::Policy,
            },
            reason: None,
            detail: None,
            approval: Some(approval),
            keyed,
            launch: None,
        }
    }
}

impl NewRun {
    /// The common members of its events.
    pub(super) fn subject(&self) -> Subject {
        Subject {
            run_id: Some(self.id.clone()),
            approval_id: None,
            agent: Some(self.agent.clone()),
            session: Some(self.session.clone()),
            host: Some(self.host),
            node_id: self.node_id.clone(),
            owner: self.requested_by.token(),
        }
    }

    /// Inserts the run and tells of it.
    pub(super) fn insert(&self, tx: &mut Tx<'_>, entrance: &Entrance<'_>) -> Result<(), Fault> {
        self.insert_by(tx, entrance, &self.requested_by)
    }

    /// The same, as the deed of an actor who may be another than the asker.
    pub(super) fn insert_by(
        &self,
        tx: &mut Tx<'_>,
        entrance: &Entrance<'_>,
        by: &Actor,
    ) -> Result<(), Fault> {
        let now = tx.now().get();
        let Entrance {
            status,
            verdict,
            decision,
            reason,
            detail,
            approval,
            keyed,
            launch,
        } = entrance;
        let argv = match &self.command {
            Command::Shell(_) | Command::Patch(_) => None,
            Command::Argv(argv) => Some(json(argv)),
        };
        let tool = match &self.command {
            Command::Shell(_) | Command::Argv(_) => run_rows::EXEC,
            Command::Patch(_) => run_rows::APPLY_PATCH,
        };
        let ready = *launch;
        let launch = launch.map(Ready::columns);
        tx.execute(
            "INSERT INTO runs (run_id, status, host, node_id, agent_id, session_key, command, argv_json, cwd, \
             env_names, asked_by_kind, asked_by_id, asked_by_name, security, ask, verdict, verdict_by, reason, \
             detail, approval_id, pty, background, keyed, diverted, isolation, timeout_ms, created_ms, ended_ms, \
             launch_id, epoch, boot_id, launched_ms, not_after_ms, binding_digest, binding, input, sandbox, \
             tool, scripts, start, confinement, note) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
             ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42)",
            params![
                self.id.as_str(),
                status.as_str(),
                self.host.as_str(),
                self.node_id,
                self.agent.as_str(),
                self.session.as_str(),
                self.command.to_text(),
                argv,
                self.cwd,
                json(&self.env.names()),
                self.requested_by.kind.as_str(),
                self.requested_by.id,
                self.requested_by.name,
                self.security.as_str(),
                self.ask.as_str(),
                decision.verdict.as_str(),
                decision.by.as_str(),
                reason.map(Reason::as_str),
                detail,
                approval.map(ApprovalId::as_str),
                self.pty,
                self.background,
                keyed,
                self.diverted,
                self.isolation.as_str(),
                self.timeout.map(millis),
                now,
                status.is_final().then_some(now),
                launch.map(|launch| launch.launch_id.as_str()),
                launch.map(|launch| launch.epoch),
                launch.map(|_| &tx.context.boot_id),
                launch.map(|launch| launch.launched_at.get()),
                launch.map(|launch| launch.not_after.get()),
                launch.and_then(|launch| launch.binding_digest.as_deref()),
                self.binding.map(Pinning::as_str),
                self.input.as_str(),
                self.sandbox.map(Backend::as_str),
                tool,
                self.scripts.map(ScriptHold::as_str),
                self.start.map(TextStart::as_str),
                (!self.confinement.is_open()).then(|| json(&self.confinement)),
                (!self.note.is_empty()).then(|| json(&self.note)),
            ],
        )?;
        run_order::admitted(tx)?;
        if let Some(ready) = ready {
            ready.note_node(tx, &self.id)?;
        }
        let kind = EventKind::ExecRequested {
            command: self.command.to_short_text(),
            cwd: self.cwd.clone(),
            requested_by: self.requested_by.clone(),
            verdict: *verdict,
            binding: self.binding,
            scripts: self.scripts,
            confined: self.confinement.to_noteworthy_line(),
            input: self.input,
            note: self.note.clone(),
        };
        tx.log(
            Event {
                subject: self.subject(),
                kind,
            },
            by,
        )
    }
}
