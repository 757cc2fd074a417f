//! `agents.*.sandbox.*` of one agent, resolved.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;

use countersign_domain::{AgentId, SessionKey};

use super::{
    SandboxMode, SandboxScope, WorkspaceAccess,
    exec_settings::Levels,
    kinds_sandbox::{BindMount, Limit},
    policy_keys::{Level, Said},
};

const HOUR: Duration = Duration::from_hours(1);

/// Which sessions are sandboxed, and what a sandbox sees and may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Which sessions; `None` is unset.
    pub mode: Option<SandboxMode>,
    /// The key that says so, or would say it for every agent.
    pub mode_key: String,
    /// Which calls share one sandbox.
    pub scope: SandboxScope,
    /// What it sees of the workspace.
    pub workspace_access: WorkspaceAccess,
    /// Where sandbox workspaces lie.
    pub workspace_root: PathBuf,
    /// What it is made of.
    pub docker: DockerSettings,
    /// One that was not used for this long is removed; `None` is never.
    pub prune_idle: Option<Duration>,
    /// One that is this old is removed; `None` is never.
    pub prune_age: Option<Duration>,
}

/// `sandbox.docker.*`. The built-in backend takes from it what it can and warns of the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DockerSettings {
    /// Name of the image.
    pub image: String,
    /// Beginning of every container's name.
    pub container_prefix: String,
    /// Where commands start inside, and where the workspace is.
    pub workdir: PathBuf,
    /// Whether the root file system cannot be written.
    pub read_only_root: bool,
    /// Name of the network; `none` is none.
    pub network: String,
    /// Directories in memory, each perhaps with options behind a colon.
    pub tmpfs: Vec<String>,
    /// Capabilities that are taken away.
    pub cap_drop: Vec<String>,
    /// As whom commands run.
    pub user: Option<String>,
    /// Run once, by `sh -lc`, in a new sandbox.
    pub setup_command: Option<String>,
    /// Most processes.
    pub pids_limit: Option<u64>,
    /// Most memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Most memory and swap together, in bytes; -1 is as much as there is.
    pub memory_swap_bytes: Option<i64>,
    /// Most processor time, in billionths of one processor.
    pub nano_cpus: Option<u64>,
    /// Limits by name, such as `nofile`.
    pub ulimits: BTreeMap<String, Limit>,
    /// Path of a seccomp profile, `builtin` for that of the engine, or `unconfined`.
    pub seccomp_profile: Option<String>,
    /// Name of an `AppArmor` profile.
    pub apparmor_profile: Option<String>,
    /// Name servers; empty sets none.
    pub dns: Vec<String>,
    /// Further lines of the hosts file, `name:address`.
    pub extra_hosts: Vec<String>,
    /// Variables of every command.
    pub env: BTreeMap<String, String>,
    /// Mounts of the host: the global ones, then the agent's own unless all agents share the sandbox.
    pub binds: Vec<BindMount>,
}

impl SandboxSettings {
    pub(super) fn resolve(levels: &Levels<'_>) -> Self {
        let scope = scope(levels);
        let hours = |number: u64| {
            (number != 0).then(|| HOUR.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX)))
        };
        // A sandbox that everybody shares cannot be made in two ways.
        let shared = Levels {
            agent: levels.agent.filter(|_| scope != SandboxScope::Shared),
            ..*levels
        };
        let (mode, mode_key) = match levels.said(|level| &level.sandbox_mode) {
            Some(Said { value, source }) => (Some(value), source),
            None => (None, "agents.defaults.sandbox.mode".to_owned()),
        };
        Self {
            mode,
            mode_key,
            scope,
            workspace_access: levels.value(|level| &level.sandbox_workspace_access),
            workspace_root: shared.value(|level| &level.sandbox_workspace_root),
            docker: DockerSettings::resolve(&shared),
            prune_idle: hours(shared.value(|level| &level.sandbox_prune_idle_hours)),
            prune_age: hours(
                shared
                    .value(|level| &level.sandbox_prune_max_age_days)
                    .saturating_mul(24),
            ),
        }
    }

    /// Whether the mode sandboxes a session of an agent. Unset is as `all`.
    pub fn includes(&self, agent: &AgentId, session: &SessionKey) -> bool {
        match self.mode {
            None | Some(SandboxMode::All) => true,
            Some(SandboxMode::NonMain) => *session != SessionKey::main_of(agent),
            Some(SandboxMode::Off) => false,
        }
    }
}

impl DockerSettings {
    fn resolve(levels: &Levels<'_>) -> Self {
        Self {
            image: levels.value(|level| &level.sandbox_docker_image),
            container_prefix: levels.value(|level| &level.sandbox_docker_container_prefix),
            workdir: levels.value(|level| &level.sandbox_docker_workdir),
            read_only_root: levels.value(|level| &level.sandbox_docker_read_only_root),
            network: levels.value(|level| &level.sandbox_docker_network),
            tmpfs: levels.value(|level| &level.sandbox_docker_tmpfs),
            cap_drop: levels.value(|level| &level.sandbox_docker_cap_drop),
            user: maybe(levels, |level| &level.sandbox_docker_user),
            setup_command: maybe(levels, |level| &level.sandbox_docker_setup_command),
            pids_limit: maybe(levels, |level| &level.sandbox_docker_pids_limit).filter(|most| *most != 0),
            memory_bytes: maybe(levels, |level| &level.sandbox_docker_memory),
            memory_swap_bytes: maybe(levels, |level| &level.sandbox_docker_memory_swap),
            nano_cpus: maybe(levels, |level| &level.sandbox_docker_cpus),
            ulimits: maybe(levels, |level| &level.sandbox_docker_ulimits).unwrap_or_default(),
            seccomp_profile: maybe(levels, |level| &level.sandbox_docker_seccomp_profile),
            apparmor_profile: maybe(levels, |level| &level.sandbox_docker_apparmor_profile),
            dns: maybe(levels, |level| &level.sandbox_docker_dns).unwrap_or_default(),
            extra_hosts: maybe(levels, |level| &level.sandbox_docker_extra_hosts).unwrap_or_default(),
            env: levels
                .all(|level| &level.sandbox_docker_env)
                .into_iter()
                .flatten()
                .collect(),
            binds: levels
                .all(|level| &level.sandbox_docker_binds)
                .into_iter()
                .flatten()
                .collect(),
        }
    }

    /// Where the workspace is inside.
    pub fn workdir(&self) -> &Path {
        &self.workdir
    }
}

fn maybe<T: Clone>(levels: &Levels<'_>, of: impl Fn(&Level) -> &Option<Said<T>>) -> Option<T> {
    levels.said(of).map(|said| said.value)
}

fn scope(levels: &Levels<'_>) -> SandboxScope {
    let by_old_name = |level: &Level| {
        let said = level.sandbox_per_session.as_ref()?;
        Some(Said {
            value: SandboxScope::of_per_session(said.value),
            source: said.source.clone(),
        })
    };
    let either = |level: &Level| level.sandbox_scope.clone().or_else(|| by_old_name(level));
    levels
        .spoken(either)
        .pop()
        .map_or(SandboxScope::Agent, |spoken| spoken.value)
}
