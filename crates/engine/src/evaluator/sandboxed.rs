//! Calls that run in a sandbox: whether there is one for them, which, and what a run in it is bound to.
//!
//! No command is analysed and nobody is asked here: what a command may do is what its sandbox lets it. Tool policy
//! counts as everywhere.

use std::{path::Path, sync::Arc};

use countersign_config::settings::{Settings, WorkspaceAccess};
use countersign_domain::{
    AgentId, Backend, Bound, Command, Host, HostChoice, Isolation, OnMiss, Run, SessionKey,
};
use countersign_hosts::{
    run_path,
    sandbox::{
        Placement, Unusable,
        assignment::{self, CwdError, WorkspaceNames},
    },
    workdir::Workdir,
};
use countersign_policy::{
    combine::Effective,
    gate::{GateInput, Verdict},
    host,
};

use super::{
    Evaluation, Evaluator, Mode, PlaceRule,
    asked::Asked,
    call::{Call, Requested},
    judgement::Judgement,
    place::{Destination, Making, Places, named_directory},
    policy_now::PolicyNow,
    preflight,
    sandbox_availability::{SandboxAvailability, mode_leaves_out},
};
use crate::{hint::hint, reply::ExecError, warnings};

/// What becomes of a miss that may run in the sandbox instead of being asked about.
#[derive(Debug)]
pub(crate) enum Diversion {
    /// Nobody said that it may.
    Unwanted,
    /// It may, and cannot; why, in words.
    Impossible(String),
    Into(Box<Call>),
}

impl Places {
    /// Looks whether there is a sandbox, if that can matter for what an agent calls.
    pub(crate) async fn evaluate_sandbox(
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
    pub(crate) async fn sandbox_availability(
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
        making: Making,
    ) -> Result<std::path::PathBuf, ExecError> {
        let files = self.gateway.files();
        match settings.policy.sandbox(agent).workspace_access {
            WorkspaceAccess::None => Ok(Workdir::future_workspace(configured, files)
                .map_or_else(|_unseen| configured.to_owned(), |found| found.path)),
            WorkspaceAccess::Ro | WorkspaceAccess::Rw => {
                let found = making.workspace(configured, files);
                // It lies on this machine, from where the sandbox shows it.
                found
                    .map(|found| found.path)
                    .map_err(|error| named_directory(error, &configured.to_string_lossy(), Host::Gateway))
            }
        }
    }

    /// Puts a call into the sandbox of its session.
    pub(crate) fn settle_in_sandbox(
        &self,
        requested: Requested<'_>,
        backend: Backend,
        making: Making,
        settings: &Settings,
    ) -> Result<Call, ExecError> {
        let request = &requested.request;
        let agent = &request.agent;
        let configured = self.workspace(agent, settings);
        let real = self.shown_workspace(agent, settings, &configured, making)?;
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
            detail: match (&error, &request.workdir) {
                (CwdError::Relative, Some(named)) => format!("{error}: {named} on host sandbox"),
                (CwdError::Relative | CwdError::NotSeen(_), _) => error.to_string(),
            },
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
        Ok(Call {
            sandbox: Some(Arc::new(place)),
            ..requested.call_in(Workdir::inside(cwd), settings)
        })
    }

    pub(super) async fn diverted(
        &self,
        call: &Call,
        settings: &Settings,
        making: Making,
    ) -> Result<Call, String> {
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
        let real = self
            .shown_workspace(agent, settings, &configured, making)
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
    pub(crate) async fn make_ready(&self, call: &Call) -> Result<(), ExecError> {
        match &call.sandbox {
            Some(place) if !call.diverted => self
                .sandbox
                .prepare(place)
                .await
                .map_err(|unusable| unusable_sandbox(&unusable)),
            Some(_) | None => Ok(()),
        }
    }

    /// The call behind a run of an earlier server in a sandbox, if it would go into the same one now.
    pub(crate) async fn call_of_inside_run(&self, run: &Run, now: &PolicyNow) -> Option<Call> {
        // Where a diverted one was called is not recorded, so it cannot be judged again.
        if run.diverted || !run.env_names.is_empty() {
            return None;
        }
        let availability = self.sandbox_availability(&run.agent, now.settings()).await;
        for view in now.views() {
            let destination = Destination {
                agent: &run.agent,
                session: &run.session,
                asked: &Asked::default(),
                host: Some(HostChoice::Sandbox),
                node: None,
            };
            let resolved = destination.resolve(&view.settings, &availability).ok()?;
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
            .shown_workspace(&run.agent, settings, &configured, Making::Everything)
            .ok()?;
        let place = Self::placement(&run.agent, &run.session, settings, backend, &real).ok()?;
        self.sandbox.prepare(&place).await.ok()?;
        Some(Call {
            sandbox: Some(Arc::new(place)),
            ..Call::of_record_at(run, Workdir::inside(run.cwd.clone().into()))
        })
    }

    /// At which level a call runs.
    pub(crate) fn isolation_of_call(&self, call: &Call, settings: &Settings) -> Isolation {
        match call.host() {
            // The least that can be said of a command which another program starts.
            Host::Sandbox | Host::Gateway if call.asker.is_some() => Isolation::SameUser,
            Host::Sandbox => Isolation::Sandbox,
            Host::Node => Isolation::Node,
            Host::Gateway => self.isolation_of(&call.agent, settings),
        }
    }
}

impl Evaluator {
    /// Moves a call from the gateway host into the sandbox, if it is a miss that may run there.
    pub(crate) async fn divert(&self, evaluation: &Evaluation, mode: &Mode<'_>) -> Diversion {
        let Evaluation { call, policy, .. } = evaluation;
        let may = |settings: &Settings| settings.policy.exec(&call.agent).on_miss.value == OnMiss::Sandbox;
        let is_miss = evaluation.judged.as_ref().is_ok_and(Judgement::is_miss);
        // The files of the sandbox are others.
        let is_patch = matches!(call.command, Command::Patch(_));
        // Who is elevated wants out of there.
        let stays_out =
            mode.place != PlaceRule::Resolved || call.host() != Host::Gateway || call.asked.is_elevated();
        if !is_miss || is_patch || stays_out || !policy.views().all(|view| may(&view.settings)) {
            return Diversion::Unwanted;
        }
        match self.places.diverted(call, policy.settings(), mode.making).await {
            Ok(call) => Diversion::Into(Box::new(call)),
            Err(why) => Diversion::Impossible(why),
        }
    }
}

/// Judges a call in a sandbox: only tool policy speaks about it, and the look at a script.
pub(crate) fn judge_inside(call: &Call, place: &Placement, now: &PolicyNow) -> Judgement {
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
    let bound = Bound::Inside {
        sandbox: place.digest.clone(),
        path_prepend: (!prepended.is_empty()).then(|| prepended.join(":")),
    };
    let judged = Judgement::without_analysis(
        Effective::without_approvals(),
        input,
        call.bind(bound, &call.env),
        now.stamp(),
        call.env.clone(),
    );
    let leftover = (judged.verdict == Verdict::Run)
        .then(|| preflight::preflight_inside(&call.command, &call.workdir.path, &place.enclosure))
        .flatten();
    match leftover {
        Some(leftover) => judged.refused_by_preflight(leftover),
        None => judged,
    }
}

/// The variable that the sandbox has a value of its own for, which a call's comes before.
const PATH: &str = "PATH";

/// Why the sandbox of a call cannot be used, and how that changes.
pub(crate) fn unusable_sandbox(unusable: &Unusable) -> ExecError {
    ExecError::SandboxUnavailable {
        detail: format!("the sandbox cannot be used: {unusable}; tools.exec.host gateway does without one"),
        hint: hint(&["doctor"]),
    }
}

/// What a caller is told whose miss was asked about although it might have run in the sandbox.
pub(crate) fn not_diverted(why: &str) -> crate::reply::Warning {
    crate::reply::Warning {
        code: warnings::NOT_DIVERTED,
        message: format!("tools.exec.onMiss is sandbox, but the command could not run there: {why}"),
    }
}
