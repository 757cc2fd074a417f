//! From a request to a call that can be judged: where it would run, in which directory, with which
//! overrides. Anything that cannot be meant is refused here, before policy is looked at.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use countersign_config::settings::{IsolationChoice, Settings, Tool};
use countersign_domain::{
    Actor, AgentId, Binding, CallWishes, Command, CommandInput, EnvOverrides, ExecRequest, Host, HostChoice,
    Isolation, Principal, Run, RunId, SessionKey,
};
use countersign_hosts::{
    peer_fs::Files,
    sandbox::Placement,
    workdir::{self, Workdir, WorkdirError},
};
use countersign_ledger::NewRun;
use countersign_policy::{
    combine::{Wanted, Wishes},
    command::env_policy,
    gate::Verdict,
    host::{self, HostLayers, HostRefusal, ResolvedHost},
};

use crate::{
    Engine,
    delivery_terms::Answers,
    hint::hint,
    judgement::Judgement,
    node::OnNode,
    policy_now::PolicyNow,
    reply::ExecError,
    sandbox_availability::{SandboxAvailability, no_sandbox},
    session::Asked,
};

/// Finds the directory of a call that names none, or makes it.
pub(super) type Workspace = fn(&Path, &Files) -> Result<Workdir, WorkdirError>;

/// A call on the gateway host, in a sandbox or on a node, ready to be judged.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, not the states of one machine"
)]
pub(super) struct Call {
    pub(super) agent: AgentId,
    pub(super) session: SessionKey,
    pub(super) requested_by: Actor,
    pub(super) command: Command,
    /// In a sandbox as it is called inside.
    pub(super) workdir: Workdir,
    /// Whether the caller named it.
    pub(super) workdir_named: bool,
    /// Where it runs when that is not the gateway host.
    pub(super) sandbox: Option<Arc<Placement>>,
    /// The node that it runs on, when it is one; then `workdir` is as the node calls it, and `.` where nobody named it.
    pub(super) node: Option<Arc<OnNode>>,
    /// Runs there instead of being asked about.
    pub(super) diverted: bool,
    pub(super) env: EnvOverrides,
    /// What its session puts on top of the configuration, and being elevated.
    pub(super) asked: Asked,
    pub(super) wanted: Wanted,
    /// What it said itself, where people of this server answer and it can be judged again from that.
    pub(super) named: Option<CallWishes>,
    pub(super) timeout: Option<Duration>,
    /// How long the caller waits for the run; `None` for as long as it takes.
    pub(super) yield_after: Option<Duration>,
    pub(super) approval_wait: Duration,
    /// Asked for in the background from the start.
    pub(super) background: bool,
    pub(super) pty: bool,
    /// What is wanted to be written to it once it runs, wherever that is.
    pub(super) input: CommandInput,
    /// Who would answer a question about it.
    pub(super) answers: Answers,
    /// Its scripts are bound also where nothing that policy says depends on them.
    pub(super) pins_scripts: bool,
}

impl Call {
    /// The call behind something that was bound earlier, to judge it again. Environment values are not known
    /// any more, and no deny rule looks at them.
    pub(super) fn of_binding(binding: &Binding, workdir: Workdir) -> Self {
        Self {
            agent: binding.agent.clone(),
            session: binding.session.clone(),
            requested_by: Actor::system(),
            command: binding.command.clone(),
            workdir,
            workdir_named: true,
            sandbox: None,
            node: None,
            diverted: false,
            env: EnvOverrides::default(),
            asked: Asked::default(),
            wanted: Wanted::default(),
            named: None,
            timeout: (binding.timeout_ms != 0).then(|| Duration::from_millis(binding.timeout_ms)),
            yield_after: None,
            approval_wait: Duration::ZERO,
            background: true,
            pty: binding.pty,
            input: binding.input,
            answers: Answers::Approvers,
            pins_scripts: false,
        }
    }

    /// The call behind a command that is judged and nothing else.
    pub(super) fn of_command(
        agent: AgentId,
        command: Command,
        workdir: Workdir,
        env: EnvOverrides,
        input: CommandInput,
    ) -> Self {
        Self {
            session: SessionKey::main_of(&agent),
            agent,
            requested_by: Actor::system(),
            command,
            workdir,
            workdir_named: true,
            sandbox: None,
            node: None,
            diverted: false,
            env,
            asked: Asked::default(),
            wanted: Wanted::default(),
            named: None,
            timeout: None,
            yield_after: None,
            approval_wait: Duration::ZERO,
            background: true,
            pty: input.is_terminal(),
            input,
            answers: Answers::Approvers,
            pins_scripts: false,
        }
    }

    /// The call behind a run of an earlier server, if it had no environment overrides and its directory is
    /// still there.
    pub(super) fn of_run(run: &Run, files: &Files) -> Option<Self> {
        run.env_names
            .is_empty()
            .then(|| Self::of_record(run, files))
            .flatten()
    }

    /// The call behind a run but for its environment overrides, if its directory is still there.
    pub(super) fn of_record(run: &Run, files: &Files) -> Option<Self> {
        let workdir = Workdir::at(Path::new(&run.cwd), files).ok()?;
        Some(Self::of_record_at(run, workdir))
    }

    /// The same in a directory that is known to be it.
    pub(super) fn of_record_at(run: &Run, workdir: Workdir) -> Self {
        Self {
            agent: run.agent.clone(),
            session: run.session.clone(),
            requested_by: run.requested_by.clone(),
            command: run.command.clone(),
            workdir,
            workdir_named: true,
            sandbox: None,
            node: None,
            diverted: false,
            env: EnvOverrides::default(),
            asked: Asked::default(),
            wanted: Wanted {
                security: Some(run.security),
                ask: Some(run.ask),
            },
            named: None,
            timeout: run.timeout,
            yield_after: None,
            approval_wait: Duration::ZERO,
            background: run.background,
            pty: run.pty,
            input: run.input,
            answers: Answers::Approvers,
            pins_scripts: false,
        }
    }

    /// What is wanted of security and ask besides the configuration.
    pub(super) fn wishes(&self) -> Wishes {
        self.asked.wishes(self.wanted)
    }

    /// The time limit as a binding has it: 0 is none.
    pub(super) fn timeout_ms(&self) -> u64 {
        self.timeout
            .map_or(0, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) const fn host(&self) -> Host {
        match (&self.sandbox, &self.node) {
            (Some(_), _) => Host::Sandbox,
            (None, Some(_)) => Host::Node,
            (None, None) => Host::Gateway,
        }
    }

    /// What is wanted to be written to it once it runs. Nothing can be written to a command on a node,
    /// and a patch reads nothing.
    pub(super) const fn input(&self) -> CommandInput {
        match (self.host(), &self.command) {
            (Host::Gateway | Host::Sandbox, Command::Shell(_) | Command::Argv(_)) => self.input,
            (Host::Gateway | Host::Sandbox, Command::Patch(_)) | (Host::Node, _) => CommandInput::Closed,
        }
    }

    /// The run that this call becomes.
    pub(super) fn to_new_run(&self, id: RunId, judged: &Judgement, isolation: Isolation) -> NewRun {
        NewRun {
            id,
            host: self.host(),
            node_id: self.node.as_ref().map(|node| node.info.node_id.clone()),
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
            timeout: self.timeout,
        }
    }
}

impl Engine {
    /// The level at which an agent's commands run: the best there is, unless the agent was taken out of it. Nobody is
    /// taken out of another account: the server has no rights of its own to give.
    pub(super) fn isolation_of(&self, agent: &AgentId, settings: &Settings) -> Isolation {
        let taken_out = settings.policy.exec(agent).isolation;
        let reached = self.gateway.isolation();
        if reached == Isolation::SeparateUser {
            return reached;
        }
        taken_out.map_or(reached, |level| level.min(reached))
    }

    /// Settles everything about a call that is not a question of permission.
    pub(super) fn prepare(
        &self,
        caller: &Principal,
        request: ExecRequest,
        asked: Asked,
        now: &PolicyNow,
        availability: &SandboxAvailability,
    ) -> Result<Call, ExecError> {
        let host = Self::resolve_place_now(caller, &request, &asked, now, availability)?;
        let call = if let (Host::Sandbox, SandboxAvailability::Usable(backend)) = (host.value, availability) {
            self.resolve_in_sandbox(caller, request, *backend, Workdir::workspace, now.settings())?
        } else if host.value == Host::Node {
            self.resolve_on_node(caller, request, &asked, now)?
        } else {
            let env = env_policy::check_overrides(&request.env)
                .map_err(|blocked| ExecError::BlockedEnv { names: blocked.names })?;
            self.resolve_on_gateway(caller, request, env, Workdir::workspace, now.settings())?
        };
        Ok(Call { asked, ..call })
    }

    /// Where a call goes under the policy of this moment; every policy that has to let it through must lead to the same
    /// place.
    pub(super) fn resolve_place_now(
        caller: &Principal,
        request: &ExecRequest,
        asked: &Asked,
        now: &PolicyNow,
        availability: &SandboxAvailability,
    ) -> Result<ResolvedHost, ExecError> {
        let place = Self::resolve_place(caller, request, asked, now.settings(), availability)?;
        for view in now.views().skip(1) {
            let other = Self::resolve_place(caller, request, asked, &view.settings, availability)?;
            if other.value != place.value {
                return Err(ExecError::ConfigConflict {
                    detail: format!(
                        "an edit of openclaw.json that is held would run this on host {}, and what was accepted runs it on \
                         host {}; accept the edit with countersign policy accept, or take it back",
                        other.value, place.value
                    ),
                });
            }
        }
        Ok(place)
    }

    /// Where a call goes, and whether its caller may make it there at all.
    fn resolve_place(
        caller: &Principal,
        request: &ExecRequest,
        asked: &Asked,
        settings: &Settings,
        availability: &SandboxAvailability,
    ) -> Result<ResolvedHost, ExecError> {
        let ExecRequest {
            command,
            pty,
            host,
            node,
            agent,
            session,
            ..
        } = request;
        if !caller.may_act_for(agent) {
            return Err(ExecError::AgentNotAllowed);
        }
        refuse_terminal_on_node(*pty, agent, asked, *host, settings)?;
        refuse_chat_commands(command)?;
        let place = Self::resolve_host(
            agent,
            session,
            asked,
            *host,
            node.as_deref(),
            settings,
            availability,
        )?;
        if place.value == Host::Gateway {
            refuse_less_than_demanded(agent, settings)?;
        }
        Ok(place)
    }

    /// Puts a call on the gateway host together from what was found to be acceptable. `workspace` finds the directory of
    /// a call that names none.
    pub(super) fn resolve_on_gateway(
        &self,
        caller: &Principal,
        request: ExecRequest,
        env: EnvOverrides,
        workspace: Workspace,
        settings: &Settings,
    ) -> Result<Call, ExecError> {
        let files = self.gateway.files();
        let agent = &request.agent;
        let workdir = match &request.workdir {
            Some(text) => Workdir::named(text, &self.home, files)?,
            None => match workspace(&self.workspace(agent, settings), files) {
                // An account without a home of its own, which has no other place either.
                Err(WorkdirError::Missing(_)) if self.has_default_workspace_elsewhere(agent, settings) => {
                    Workdir::at(Path::new("/"), files)?
                }
                found => found?,
            },
        };
        Ok(Self::assemble(caller, request, env, workdir, None, settings))
    }

    /// A call in a place that was found for it.
    pub(super) fn assemble(
        caller: &Principal,
        request: ExecRequest,
        env: EnvOverrides,
        workdir: Workdir,
        sandbox: Option<Arc<Placement>>,
        settings: &Settings,
    ) -> Call {
        let ExecRequest {
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
            approval_wait,
        } = request;
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
            command,
            workdir,
            workdir_named: named.is_some(),
            sandbox,
            node: None,
            diverted: false,
            env,
            asked: Asked::default(),
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
            background: background_now,
            pty,
            input: CommandInput::wanted(background_now, pty),
            answers: Answers::Approvers,
            pins_scripts: false,
            agent,
            session,
        }
    }

    /// Whether an agent starts in the home of the account that commands run as.
    fn has_default_workspace_elsewhere(&self, agent: &AgentId, settings: &Settings) -> bool {
        settings.policy.named_workspace(agent).is_none() && self.gateway.files().account_home().is_some()
    }

    /// Where a call of an agent starts that names no directory.
    pub(super) fn workspace(&self, agent: &AgentId, settings: &Settings) -> PathBuf {
        match settings.policy.named_workspace(agent) {
            Some(workspace) => workspace.to_owned(),
            None => workdir::default_workspace(
                settings.policy.workspace(agent),
                self.gateway.files().account_home(),
            ),
        }
    }

    /// Resolves the host of a call.
    pub(super) fn resolve_host(
        agent: &AgentId,
        session: &SessionKey,
        asked: &Asked,
        call: Option<HostChoice>,
        node: Option<&str>,
        settings: &Settings,
        availability: &SandboxAvailability,
    ) -> Result<ResolvedHost, ExecError> {
        let resolved = host::resolve_host(HostLayers {
            configured: &settings.policy.host(agent),
            session: asked.host(&settings.policy, agent),
            call,
            sandbox: availability.of_session(agent, session, settings),
            elevation: asked.elevation(),
        });
        let host = resolved.map_err(|refusal| match &refusal {
            HostRefusal::NotAllowed {
                requested,
                configured,
                key,
            } => ExecError::HostNotAllowed {
                detail: refusal.to_string(),
                hint: match (configured, key.as_str()) {
                    (_, "session") => hint(&["session", "clear", session.as_str()]),
                    // Only its sandbox keeps the gateway from such a call.
                    (HostChoice::Auto, _) => hint(&["config", "set", "agents.defaults.sandbox.mode", "off"]),
                    (HostChoice::Sandbox | HostChoice::Gateway | HostChoice::Node, key) => {
                        hint(&["config", "set", key, requested.as_str()])
                    }
                },
            },
            HostRefusal::SandboxUnavailable { key } => {
                no_sandbox(key, agent, session, settings, availability)
            }
        })?;
        if node.is_some() && host.value != Host::Node {
            return Err(ExecError::ConfigConflict {
                detail: "node can be named only where the host is node".to_owned(),
            });
        }
        Ok(host)
    }
}

/// An agent that is taken out of a level runs nothing where every run must have it.
pub(super) fn refuse_less_than_demanded(agent: &AgentId, settings: &Settings) -> Result<(), ExecError> {
    let demanded = settings.server.exec.isolation;
    let is_demanded = match demanded {
        IsolationChoice::Confined | IsolationChoice::SeparateUser => true,
        IsolationChoice::Auto | IsolationChoice::SameUser => false,
    };
    if is_demanded && settings.policy.exec(agent).isolation == Some(Isolation::SameUser) {
        return Err(ExecError::ConfigConflict {
            detail: format!(
                "tools.exec.isolation takes {agent} out of the isolation that [exec] isolation = \"{demanded}\" demands"
            ),
        });
    }
    Ok(())
}

/// A node tells what a command wrote once it has ended (`docs/spec/exec-tool.md#1-parameters-of-one-exec-call`).
fn refuse_terminal_on_node(
    pty: bool,
    agent: &AgentId,
    asked: &Asked,
    call: Option<HostChoice>,
    settings: &Settings,
) -> Result<(), ExecError> {
    let configured = settings.policy.host(agent);
    let resolved = host::resolve_host(HostLayers {
        configured: &configured,
        session: asked.host(&settings.policy, agent),
        call,
        sandbox: host::Sandbox::Inactive,
        elevation: asked.elevation(),
    });
    if pty && resolved.is_ok_and(|resolved| resolved.value == Host::Node) {
        return Err(ExecError::InvalidRequest {
            path: "pty",
            message: "a command on a node cannot have a pseudo-terminal".to_owned(),
        });
    }
    Ok(())
}

/// Two texts that are no commands but belong into a chat or a terminal
/// (`docs/spec/exec-tool.md#6-environment-and-shell-gateway-host`).
pub(super) fn refuse_chat_commands(command: &Command) -> Result<(), ExecError> {
    let text = command.to_text();
    let mut words = text.split_whitespace();
    let message = match (words.next(), words.next(), words.next()) {
        (Some("/approve"), _, _) => {
            "/approve is no command; answer with: countersign approvals resolve ID DECISION"
        }
        (Some("openclaw"), Some("channels"), Some("login")) => {
            "openclaw channels login is interactive; run it in a terminal on the gateway host"
        }
        _ => return Ok(()),
    };
    Err(ExecError::InvalidRequest {
        path: "command",
        message: message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_texts_are_refused_and_their_look_alikes_are_not() {
        let refused = |text: &str| refuse_chat_commands(&Command::shell(text.to_owned()).unwrap()).is_err();
        for text in [
            "/approve abc allow-once",
            "  /approve",
            "openclaw  channels login",
        ] {
            assert!(refused(text), "{text}");
        }
        for text in ["/approved", "openclaw channels list", "echo /approve"] {
            assert!(!refused(text), "{text}");
        }
    }
}
