//! Calls that run in a sandbox: whether there is one for them, which, and what a run in it is bound to.
//!
//! No command is analysed and nobody is asked here: what a command may do is what its sandbox lets it. Tool policy
//! counts as everywhere.

use std::{path::Path, sync::Arc};

use countersign_config::{
    approvals::binding,
    settings::{Settings, WorkspaceAccess},
};
use countersign_domain::{
    AgentId, Backend, Binding, Bound, Command, EnvOverrides, ExecRequest, Host, HostChoice, Isolation,
    OnMiss, Principal, Run, SessionKey,
};
use countersign_hosts::{
    run_path,
    sandbox::{
        Inside, InsideCommand, Placement, Unusable,
        assignment::{self, CwdError, WorkspaceNames},
    },
    workdir::Workdir,
};
use countersign_ledger::launch::Permit;
use countersign_policy::{
    combine::Effective,
    command::env_policy,
    gate::{self, GateInput, Verdict},
    host,
};

use crate::{
    Engine,
    call::{Call, Workspace},
    environment::TERMINAL_KIND,
    hint::hint,
    judgement::Judgement,
    policy_now::PolicyNow,
    reply::ExecError,
    sandbox_availability::{SandboxAvailability, mode_leaves_out},
    session::Asked,
    warnings,
};

/// What becomes of a miss that may run in the sandbox instead of being asked about.
#[derive(Debug)]
pub(super) enum Diversion {
    /// Nobody said that it may.
    Unwanted,
    /// It may, and cannot; why, in words.
    Impossible(String),
    Into(Box<Call>),
}

/// Whether all that a sandbox needs is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Making {
    /// So that the command can start at once.
    Everything,
    /// The caller only wants to know.
    Nothing,
}

impl Engine {
    /// Looks whether there is a sandbox, if that can matter for what an agent calls.
    pub(super) async fn evaluate_sandbox(
        &self,
        agent: &AgentId,
        asked: &Asked,
        now: &PolicyNow,
    ) -> SandboxAvailability {
        let matters = now.views().any(|view| {
            let policy = &view.settings.policy;
            host::depends_on_sandbox(&policy.host(agent), asked.host(policy, agent))
        });
        if !matters {
            return SandboxAvailability::Unseen;
        }
        self.sandbox_availability(agent, now.settings()).await
    }

    /// Looks whether there is a sandbox for an agent.
    pub(super) async fn sandbox_availability(
        &self,
        agent: &AgentId,
        settings: &Settings,
    ) -> SandboxAvailability {
        let image = &settings.policy.sandbox(agent).docker.image;
        match self.sandbox.backend(image).await {
            Ok(backend) => SandboxAvailability::Usable(backend),
            Err(unusable) => SandboxAvailability::Unusable(unusable),
        }
    }

    /// The sandbox of a session.
    fn placement(
        agent: &AgentId,
        session: &SessionKey,
        settings: &Settings,
        backend: Backend,
        workspace: &Path,
    ) -> Result<Placement, Unusable> {
        let sandbox = settings.policy.sandbox(agent);
        let enclosure = assignment::enclosure(sandbox, agent, session, workspace)?;
        let place = Placement::new(backend, enclosure)?;
        Ok(place.pruned_after(sandbox.prune_idle, sandbox.prune_age))
    }

    /// The real path of an agent's workspace. Where the sandbox does not see it, nobody needs it to be there.
    fn shown_workspace(
        &self,
        agent: &AgentId,
        settings: &Settings,
        configured: &Path,
        workspace: Workspace,
    ) -> Result<std::path::PathBuf, ExecError> {
        let files = self.gateway.files();
        match settings.policy.sandbox(agent).workspace_access {
            WorkspaceAccess::None => Ok(Workdir::future_workspace(configured, files)
                .map_or_else(|_unseen| configured.to_owned(), |found| found.path)),
            WorkspaceAccess::Ro | WorkspaceAccess::Rw => Ok(workspace(configured, files)?.path),
        }
    }

    /// Puts a call into its sandbox.
    pub(super) fn resolve_in_sandbox(
        &self,
        caller: &Principal,
        request: ExecRequest,
        backend: Backend,
        workspace: Workspace,
        settings: &Settings,
    ) -> Result<Call, ExecError> {
        let env = env_policy::check_inside_overrides(&request.env)
            .map_err(|blocked| ExecError::BlockedEnv { names: blocked.names })?;
        self.resolve_in_sandbox_with(caller, request, env, backend, workspace, settings)
    }

    /// The same with overrides that were looked at.
    pub(super) fn resolve_in_sandbox_with(
        &self,
        caller: &Principal,
        request: ExecRequest,
        env: EnvOverrides,
        backend: Backend,
        workspace: Workspace,
        settings: &Settings,
    ) -> Result<Call, ExecError> {
        let agent = &request.agent;
        let configured = self.workspace(agent, settings);
        let real = self.shown_workspace(agent, settings, &configured, workspace)?;
        let place = Self::placement(agent, &request.session, settings, backend, &real)
            .map_err(|unusable| unusable_sandbox(&unusable))?;
        let names = WorkspaceNames {
            configured: &configured,
            real: &real,
        };
        let cwd = match &request.workdir {
            None => Ok(place.enclosure.settings.workdir.clone()),
            Some(named) => place.enclosure.cwd(named, &self.home, names),
        };
        let cwd = cwd.map_err(|error: CwdError| ExecError::WorkdirUnavailable {
            detail: error.to_string(),
        })?;
        // A patch is applied from outside, where a link below the workdir would mean something else than inside.
        if matches!(request.command, Command::Patch(_)) && cwd != place.enclosure.settings.workdir {
            return Err(ExecError::WorkdirUnavailable {
                detail: format!(
                    "a patch of a sandbox is applied to {}; leave workdir out",
                    place.enclosure.settings.workdir.display()
                ),
            });
        }
        Ok(Self::assemble(
            caller,
            request,
            env,
            Workdir::inside(cwd),
            Some(Arc::new(place)),
            settings,
        ))
    }

    /// Moves a call from the gateway host into the sandbox, if it is a miss that may run there.
    pub(super) async fn divert(
        &self,
        call: &Call,
        judged: &Judgement,
        now: &PolicyNow,
        making: Making,
    ) -> Diversion {
        let may = |settings: &Settings| settings.policy.exec(&call.agent).on_miss.value == OnMiss::Sandbox;
        // The files of the sandbox are others.
        let is_patch = matches!(call.command, Command::Patch(_));
        // Who is elevated wants out of there.
        let stays_out = call.host() != Host::Gateway || call.asked.is_elevated();
        if !judged.is_miss() || is_patch || stays_out || !now.views().all(|view| may(&view.settings)) {
            return Diversion::Unwanted;
        }
        match self.diverted(call, now.settings(), making).await {
            Ok(call) => Diversion::Into(Box::new(call)),
            Err(why) => Diversion::Impossible(why),
        }
    }

    async fn diverted(&self, call: &Call, settings: &Settings, making: Making) -> Result<Call, String> {
        let Call { agent, session, .. } = call;
        let backend = match self.sandbox_availability(agent, settings).await {
            SandboxAvailability::Usable(backend) => backend,
            SandboxAvailability::Unseen => return Err("nobody looked whether there is a sandbox".to_owned()),
            SandboxAvailability::Unusable(unusable) => return Err(unusable.to_string()),
        };
        if let Some(why) = mode_leaves_out(agent, session, settings) {
            return Err(why);
        }
        let configured = self.workspace(agent, settings);
        let made = match making {
            Making::Everything => Workdir::workspace,
            Making::Nothing => Workdir::future_workspace,
        };
        let real = self
            .shown_workspace(agent, settings, &configured, made)
            .map_err(|error| error.to_string())?;
        let place = Self::placement(agent, session, settings, backend, &real)
            .map_err(|unusable| unusable.to_string())?;
        let names = WorkspaceNames {
            configured: &configured,
            real: &real,
        };
        let cwd = if call.workdir_named {
            place
                .enclosure
                .seen_at(&call.workdir.path, names)
                .ok_or_else(|| {
                    format!(
                        "the sandbox does not see the working directory {}",
                        call.workdir.path.display()
                    )
                })?
        } else {
            place.enclosure.settings.workdir.clone()
        };
        if making == Making::Everything {
            self.sandbox
                .prepare(&place)
                .await
                .map_err(|unusable| unusable.to_string())?;
        }
        Ok(Call {
            workdir: Workdir::inside(cwd),
            sandbox: Some(Arc::new(place)),
            diverted: true,
            ..call.clone()
        })
    }

    /// Makes the sandbox of a call ready, if it runs in one. One that was diverted is ready.
    pub(super) async fn make_ready(&self, call: &Call) -> Result<(), ExecError> {
        match &call.sandbox {
            Some(place) if !call.diverted => self
                .sandbox
                .prepare(place)
                .await
                .map_err(|unusable| unusable_sandbox(&unusable)),
            Some(_) | None => Ok(()),
        }
    }

    /// Judges a call in a sandbox: only tool policy speaks about it, and the look at a script.
    pub(super) fn judge_inside(call: &Call, place: &Placement, now: &PolicyNow) -> Judgement {
        let input = GateInput::without_approvals(now.is_tool_denied(&call.agent, &call.command));
        let exec = now.settings().policy.exec(&call.agent);
        let of_call = call.env.iter().find(|(name, _value)| *name == PATH);
        let directories = (!exec.path_prepend.is_empty())
            .then(|| run_path::join(&exec.path_prepend).to_string_lossy().into_owned());
        let prepended: Vec<String> = of_call
            .map(|(_name, value)| value.to_owned())
            .into_iter()
            .chain(directories)
            .filter(|part| !part.is_empty())
            .collect();
        let binding = Binding {
            host: Host::Sandbox,
            node_id: None,
            agent: call.agent.clone(),
            session: call.session.clone(),
            command: call.command.clone(),
            bound: Bound::Inside {
                sandbox: place.digest.clone(),
                path_prepend: (!prepended.is_empty()).then(|| prepended.join(":")),
            },
            cwd: call.workdir.path.to_string_lossy().into_owned(),
            cwd_dev: call.workdir.dev,
            cwd_ino: call.workdir.ino,
            env_hash: binding::env_hash(&call.env),
            executables: Vec::new(),
            executable_sha256: None,
            script: None,
            scripts: Vec::new(),
            held: None,
            pty: call.pty,
            input: call.input(),
            timeout_ms: call.timeout_ms(),
        };
        let verdict = gate::gate(&input);
        let judged = Judgement::without_analysis(
            Effective::without_approvals(),
            input,
            verdict,
            binding,
            now.stamp(),
            call.env.clone(),
        );
        let leftover = (verdict == Verdict::Run)
            .then(|| Self::preflight_inside(&call.command, &call.workdir.path, &place.enclosure))
            .flatten();
        match leftover {
            Some(leftover) => judged.refused_by_preflight(leftover),
            None => judged,
        }
    }

    /// The call behind a run of an earlier server in a sandbox, if it would go into the same one now.
    pub(super) async fn call_of_inside_run(&self, run: &Run, now: &PolicyNow) -> Option<Call> {
        // Where a diverted one was called is not recorded, so it cannot be judged again.
        if run.diverted || !run.env_names.is_empty() {
            return None;
        }
        let availability = self.sandbox_availability(&run.agent, now.settings()).await;
        let wanted = Some(HostChoice::Sandbox);
        for view in now.views() {
            let asked = Asked::default();
            let resolved = Self::resolve_host(
                &run.agent,
                &run.session,
                &asked,
                wanted,
                None,
                &view.settings,
                &availability,
            )
            .ok()?;
            if resolved.value != Host::Sandbox {
                return None;
            }
        }
        let SandboxAvailability::Usable(backend) = availability else {
            return None;
        };
        let settings = now.settings();
        let configured = self.workspace(&run.agent, settings);
        let real = self
            .shown_workspace(&run.agent, settings, &configured, Workdir::workspace)
            .ok()?;
        let place = Self::placement(&run.agent, &run.session, settings, backend, &real).ok()?;
        self.sandbox.prepare(&place).await.ok()?;
        Some(Call {
            sandbox: Some(Arc::new(place)),
            ..Call::of_record_at(run, Workdir::inside(run.cwd.clone().into()))
        })
    }

    /// At which level a call runs.
    pub(super) fn isolation_of_call(&self, call: &Call, settings: &Settings) -> Isolation {
        match call.host() {
            Host::Sandbox => Isolation::Sandbox,
            Host::Node => Isolation::Node,
            Host::Gateway => self.isolation_of(&call.agent, settings),
        }
    }
}

/// The variable that the sandbox has a value of its own for, which a call's comes before.
const PATH: &str = "PATH";
const TERM: &str = "TERM";

/// What a permit lets run in its sandbox; `None` for a patch, which no program applies.
pub(super) fn inside_of(permit: &Permit) -> Option<Inside> {
    let binding = permit.binding();
    let command = match &binding.command {
        Command::Shell(text) => InsideCommand::Shell(text.clone()),
        Command::Argv(argv) => InsideCommand::Argv(argv.clone()),
        Command::Patch(_) => return None,
    };
    let path_prepend = match &binding.bound {
        Bound::Inside { path_prepend, .. } => path_prepend.clone(),
        Bound::Exec { .. }
        | Bound::Plan { .. }
        | Bound::Rendered { .. }
        | Bound::Text { .. }
        | Bound::OnNode { .. }
        | Bound::Patch { .. }
        | Bound::Elsewhere { .. } => None,
    };
    let env = permit.env().iter().filter(|(name, _value)| *name != PATH);
    let has_term = permit.env().iter().any(|(name, _value)| name == TERM);
    let term = (binding.pty && !has_term).then_some((TERM, TERMINAL_KIND));
    Some(Inside {
        command,
        cwd: binding.cwd.clone().into(),
        env: env
            .chain(term)
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        path_prepend,
    })
}

/// Why the sandbox of a call cannot be used, and how that changes.
pub(super) fn unusable_sandbox(unusable: &Unusable) -> ExecError {
    ExecError::SandboxUnavailable {
        detail: format!("the sandbox cannot be used: {unusable}; tools.exec.host gateway does without one"),
        hint: hint(&["doctor"]),
    }
}

/// What a caller is told whose miss was asked about although it might have run in the sandbox.
pub(super) fn not_diverted(why: &str) -> crate::reply::Warning {
    crate::reply::Warning {
        code: warnings::NOT_DIVERTED,
        message: format!("tools.exec.onMiss is sandbox, but the command could not run there: {why}"),
    }
}
