//! From a request to a call that can be judged: where it would run, in which directory, with which
//! overrides. Anything that cannot be meant is refused here, before policy is looked at.

use std::{path::Path, sync::Arc, time::Duration};

use countersign_config::{
    approvals::binding,
    settings::{Settings, Tool},
};
use countersign_domain::{
    Actor, AgentId, AgentNote, Binding, Bound, CallWishes, Command, CommandInput, Confinement, EnvOverrides,
    ExecRequest, Host, Isolation, Joining, Principal, Run, RunId, SessionKey,
};
use countersign_hosts::{peer_fs::Files, sandbox::Placement, workdir::Workdir};
use countersign_ledger::NewRun;
use countersign_policy::{
    combine::{Wanted, Wishes},
    gate::Verdict,
};

use super::{asked::Asked, judgement::Judgement};
use crate::{delivery_terms::Answers, node::OnNode, question_terms::AskRequest};

/// A call on the gateway host, in a sandbox or on a node, ready to be judged.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, not the states of one machine"
)]
pub(crate) struct Call {
    pub(crate) agent: AgentId,
    pub(crate) session: SessionKey,
    pub(crate) requested_by: Actor,
    /// What it says about itself.
    pub(crate) note: AgentNote,
    pub(crate) command: Command,
    /// In a sandbox as it is called inside.
    pub(crate) workdir: Workdir,
    /// Whether the caller named it.
    pub(crate) workdir_named: bool,
    /// Where it runs when that is not the gateway host.
    pub(crate) sandbox: Option<Arc<Placement>>,
    /// The node that it runs on, when it is one; then `workdir` is as the node calls it, and `.` where nobody named it.
    pub(crate) node: Option<Arc<OnNode>>,
    /// Who starts it, where that is not this server; then `workdir` is as they call it.
    pub(crate) asker: Option<Arc<AskRequest>>,
    /// Runs there instead of being asked about.
    pub(crate) diverted: bool,
    pub(crate) env: EnvOverrides,
    /// What its session puts on top of the configuration, and being elevated.
    pub(crate) asked: Asked,
    pub(crate) wanted: Wanted,
    /// What it said itself, where people of this server answer and it can be judged again from that.
    pub(crate) named: Option<CallWishes>,
    pub(crate) timeout: Option<Duration>,
    /// How long the caller waits for the run; `None` for as long as it takes.
    pub(crate) yield_after: Option<Duration>,
    pub(crate) approval_wait: Duration,
    /// Whether it may wait for the answer to the same question.
    pub(crate) joining: Joining,
    /// Asked for in the background from the start.
    pub(crate) background: bool,
    pub(crate) pty: bool,
    /// What is wanted to be written to it once it runs, wherever that is.
    pub(crate) input: CommandInput,
    /// Who would answer a question about it.
    pub(crate) answers: Answers,
    /// Its scripts are bound also where nothing that policy says depends on them.
    pub(crate) pins_scripts: bool,
}

impl Call {
    /// A call of nobody, with nothing but a command and its place.
    fn new(agent: AgentId, session: SessionKey, command: Command, workdir: Workdir) -> Self {
        Self {
            agent,
            session,
            requested_by: Actor::system(),
            note: AgentNote::default(),
            command,
            workdir,
            workdir_named: true,
            sandbox: None,
            node: None,
            asker: None,
            diverted: false,
            env: EnvOverrides::default(),
            asked: Asked::default(),
            wanted: Wanted::default(),
            named: None,
            timeout: None,
            yield_after: None,
            approval_wait: Duration::ZERO,
            joining: Joining::Never,
            background: true,
            pty: false,
            input: CommandInput::Closed,
            answers: Answers::Approvers,
            pins_scripts: false,
        }
    }

    /// The call behind something that was bound earlier, to judge it again. Environment values are not known
    /// any more, and no deny rule looks at them.
    pub(crate) fn of_binding(binding: &Binding, workdir: Workdir) -> Self {
        let Binding {
            agent,
            session,
            command,
            ..
        } = binding.clone();
        Self {
            timeout: (binding.timeout_ms != 0).then(|| Duration::from_millis(binding.timeout_ms)),
            pty: binding.pty,
            input: binding.input,
            ..Self::new(agent, session, command, workdir)
        }
    }

    /// The call behind a command that is judged and nothing else.
    pub(crate) fn of_command(
        agent: AgentId,
        command: Command,
        workdir: Workdir,
        env: EnvOverrides,
        input: CommandInput,
    ) -> Self {
        let session = SessionKey::main_of(&agent);
        Self {
            env,
            pty: input.is_terminal(),
            input,
            ..Self::new(agent, session, command, workdir)
        }
    }

    /// The call that its asker starts.
    pub(crate) fn elsewhere(asker: &Arc<AskRequest>) -> Self {
        // Not looked at: it may be on another machine.
        let workdir = Workdir::inside(asker.cwd.clone().unwrap_or_default().into());
        Self {
            requested_by: asker.asked_by.actor.clone(),
            env: asker.env.clone(),
            asker: Some(Arc::clone(asker)),
            ..Self::new(
                asker.agent.clone(),
                asker.session.clone(),
                asker.command.clone(),
                workdir,
            )
        }
    }

    /// The call behind a run of an earlier server, if it had no environment overrides and its directory is
    /// still there.
    pub(crate) fn of_run(run: &Run, files: &Files) -> Option<Self> {
        run.env_names
            .is_empty()
            .then(|| Self::of_record(run, files))
            .flatten()
    }

    /// The call behind a run but for its environment overrides, if its directory is still there.
    pub(crate) fn of_record(run: &Run, files: &Files) -> Option<Self> {
        let workdir = Workdir::at(Path::new(&run.cwd), files).ok()?;
        Some(Self::of_record_at(run, workdir))
    }

    /// The same in a directory that is known to be it.
    pub(crate) fn of_record_at(run: &Run, workdir: Workdir) -> Self {
        Self {
            requested_by: run.requested_by.clone(),
            wanted: Wanted {
                security: Some(run.security),
                ask: Some(run.ask),
            },
            timeout: run.timeout,
            background: run.background,
            pty: run.pty,
            input: run.input,
            ..Self::new(
                run.agent.clone(),
                run.session.clone(),
                run.command.clone(),
                workdir,
            )
        }
    }

    /// What it is bound to where `bound` is started with `env`. The files behind that are added where they are seen.
    pub(crate) fn bind(&self, bound: Bound, env: &EnvOverrides) -> Binding {
        Binding {
            host: self.host(),
            node_id: self.node_id(),
            agent: self.agent.clone(),
            session: self.session.clone(),
            command: self.command.clone(),
            bound,
            cwd: self.workdir.path.to_string_lossy().into_owned(),
            cwd_dev: self.workdir.dev,
            cwd_ino: self.workdir.ino,
            env_hash: binding::env_hash(env),
            executables: Vec::new(),
            executable_sha256: None,
            script: None,
            scripts: Vec::new(),
            held: None,
            confinement: Confinement::default(),
            denied_children: Vec::new(),
            pty: self.pty && self.node.is_none(),
            input: self.input(),
            timeout_ms: self.timeout_ms(),
        }
    }

    /// What is wanted of security and ask besides the configuration.
    pub(crate) fn wishes(&self) -> Wishes {
        self.asked.wishes(self.wanted)
    }

    /// The time limit as a binding has it: 0 is none.
    fn timeout_ms(&self) -> u64 {
        self.timeout
            .map_or(0, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn host(&self) -> Host {
        match (&self.asker, &self.sandbox, &self.node) {
            (Some(asker), _, _) => asker.host,
            (None, Some(_), _) => Host::Sandbox,
            (None, None, Some(_)) => Host::Node,
            (None, None, None) => Host::Gateway,
        }
    }

    fn node_id(&self) -> Option<String> {
        match &self.asker {
            Some(asker) => asker.node_id.clone(),
            None => self.node.as_ref().map(|node| node.info.node_id.clone()),
        }
    }

    /// What is wanted to be written to it once it runs. Nothing can be written to a command on a node,
    /// and a patch reads nothing.
    pub(crate) fn input(&self) -> CommandInput {
        match (self.host(), &self.command) {
            (Host::Gateway | Host::Sandbox, Command::Shell(_) | Command::Argv(_)) => self.input,
            (Host::Gateway | Host::Sandbox, Command::Patch(_)) | (Host::Node, _) => CommandInput::Closed,
        }
    }

    /// The run that this call becomes.
    pub(crate) fn to_new_run(&self, id: RunId, judged: &Judgement, isolation: Isolation) -> NewRun {
        NewRun {
            id,
            host: self.host(),
            node_id: self.node_id(),
            agent: self.agent.clone(),
            session: self.session.clone(),
            command: self.command.clone(),
            cwd: self.workdir.path.to_string_lossy().into_owned(),
            env: judged.env.clone(),
            requested_by: self.requested_by.clone(),
            security: judged.effective.security.value,
            ask: judged.effective.ask.value,
            pty: self.pty,
            background: self.background,
            input: judged.binding.input,
            diverted: self.diverted,
            isolation,
            sandbox: self.sandbox.as_ref().map(|place| place.backend),
            binding: match judged.verdict {
                Verdict::Run | Verdict::Ask(_) => Some(judged.pinned.pinning),
                Verdict::Deny(_) => None,
            },
            scripts: match judged.verdict {
                Verdict::Run | Verdict::Ask(_) => judged.binding.held,
                Verdict::Deny(_) => None,
            },
            confinement: match judged.verdict {
                Verdict::Run | Verdict::Ask(_) => judged.binding.confinement.clone(),
                Verdict::Deny(_) => Confinement::default(),
            },
            start: match judged.verdict {
                Verdict::Run | Verdict::Ask(_) => judged.start.as_ref().map(|start| start.way),
                Verdict::Deny(_) => None,
            },
            timeout: self.timeout,
            note: self.note.clone(),
        }
    }
}

/// A request whose place is known, with what its session and its elevation put on top, and the overrides that were
/// accepted.
pub(crate) struct Requested<'a> {
    pub(crate) caller: &'a Principal,
    pub(crate) request: ExecRequest,
    pub(crate) asked: Asked,
    pub(crate) env: EnvOverrides,
}

impl Requested<'_> {
    /// The call on the gateway host, in a directory of it.
    pub(crate) fn call_in(self, workdir: Workdir, settings: &Settings) -> Call {
        let Self {
            caller,
            request:
                ExecRequest {
                    command,
                    workdir: named,
                    env: _,
                    yield_after,
                    background,
                    timeout,
                    pty,
                    host,
                    security,
                    ask,
                    node,
                    elevated: _,
                    agent,
                    session,
                    note,
                    approval_wait,
                    joining,
                },
            asked,
            env,
        } = self;
        let exec = settings.policy.exec(&agent);
        let may_background = settings
            .policy
            .tool_policy(&agent)
            .denied_by(Tool::Process)
            .is_none();
        let background_now = background && may_background;
        let yield_after = may_background.then(|| {
            if background {
                Duration::ZERO
            } else {
                yield_after.unwrap_or(exec.background_after)
            }
        });
        Call {
            requested_by: caller.actor.clone(),
            note,
            workdir_named: named.is_some(),
            env,
            asked,
            wanted: Wanted { security, ask },
            named: Some(CallWishes {
                security,
                ask,
                host,
                node,
            }),
            timeout: timeout.map_or(exec.timeout, |limit| (!limit.is_zero()).then_some(limit)),
            yield_after,
            approval_wait,
            joining,
            background: background_now,
            pty,
            input: CommandInput::wanted(background_now, pty),
            ..Call::new(agent, session, command, workdir)
        }
    }
}
