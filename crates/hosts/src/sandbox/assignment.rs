//! What a call's sandbox is, and where the call starts in it. Pure: nothing is looked at or made here.

use std::path::{Path, PathBuf};

use countersign_config::settings::{SandboxSettings, WorkspaceAccess};
use countersign_domain::{AgentId, SessionKey};
use countersign_policy::command::paths;

use super::{AgentWorkspace, Enclosure, Scope, Unusable};

/// Where an agent's workspace is inside of a sandbox that may only read it.
pub(crate) const AGENT_WORKSPACE: &str = "/agent";

/// The sandbox of a call. `workspace` is the agent's, by its real path.
///
/// # Errors
/// [`Unusable`] when the settings want what cannot be.
pub fn enclosure(
    settings: &SandboxSettings,
    agent: &AgentId,
    session: &SessionKey,
    workspace: &Path,
) -> Result<Enclosure, Unusable> {
    let docker = &settings.docker;
    let workdir = normalised(&docker.workdir)?;
    if workdir == Path::new("/") {
        return Err(Unusable(
            "sandbox.docker.workdir is /, where nothing can be mounted".to_owned(),
        ));
    }
    let access = settings.workspace_access;
    let mounted = match access {
        WorkspaceAccess::None => None,
        WorkspaceAccess::Ro | WorkspaceAccess::Rw => Some(workspace),
    };
    let root = &settings.workspace_root;
    if mounted.is_some_and(|mounted| root.starts_with(mounted) || mounted.starts_with(root)) {
        return Err(Unusable(
            "the agent's workspace and sandbox.workspaceRoot lie in one another, so the sandbox would see those of others"
                .to_owned(),
        ));
    }
    let Scope { key, name } = Scope::of(settings, agent, session, mounted);
    let own = settings.workspace_root.join(&name);
    let agent_workspace = (access == WorkspaceAccess::Ro).then(|| AgentWorkspace {
        host: workspace.to_owned(),
        inside: PathBuf::from(AGENT_WORKSPACE),
    });
    if agent_workspace.is_some() && (workdir.starts_with(AGENT_WORKSPACE) || is_above(&workdir)) {
        return Err(Unusable(format!(
            "sandbox.docker.workdir lies where the agent's workspace is seen with workspaceAccess ro: {AGENT_WORKSPACE}"
        )));
    }
    let mut docker = docker.clone();
    docker.workdir = workdir;
    Ok(Enclosure {
        scope_key: key,
        name,
        workspace: match access {
            WorkspaceAccess::None | WorkspaceAccess::Ro => own,
            WorkspaceAccess::Rw => workspace.to_owned(),
        },
        workspace_writable: true,
        agent_workspace,
        settings: docker,
    })
}

fn is_above(workdir: &Path) -> bool {
    Path::new(AGENT_WORKSPACE).starts_with(workdir)
}

/// A directory of the host that no command in a sandbox sees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CwdError {
    /// Neither absolute nor below the home directory.
    #[error("the working directory must be absolute or begin with ~/")]
    Relative,
    /// It lies in a place of the host that this sandbox does not see.
    #[error(
        "{0} is a directory of this machine that the sandbox does not see; agents.defaults.sandbox.workspaceAccess = \"ro\" \
         or \"rw\" shows it the agent's workspace"
    )]
    NotSeen(PathBuf),
}

/// The names under which an agent's workspace may be called.
#[derive(Debug, Clone, Copy)]
pub struct WorkspaceNames<'a> {
    /// As it is configured.
    pub configured: &'a Path,
    /// By its real path.
    pub real: &'a Path,
}

impl Enclosure {
    /// Where a call starts that named a directory: one that is inside by its name there, or one of the host by the name
    /// under which the sandbox sees it. Whether it exists shows when it is entered, inside; so neither `..` nor a link
    /// can lead out.
    ///
    /// # Errors
    /// [`CwdError`].
    pub fn cwd(&self, named: &str, home: &Path, workspace: WorkspaceNames<'_>) -> Result<PathBuf, CwdError> {
        let text = match named.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", home.display()),
            _ => named.to_owned(),
        };
        if !text.starts_with('/') {
            return Err(CwdError::Relative);
        }
        let path = PathBuf::from(paths::normalise(&text));
        let inside = [Some(self.settings.workdir.as_path()), self.agent_inside()];
        if inside.into_iter().flatten().any(|seen| path.starts_with(seen)) {
            return Ok(path);
        }
        if let Some(seen) = self.seen_at(&path, workspace) {
            return Ok(seen);
        }
        let is_of_the_host = named.starts_with('~')
            || path.starts_with(workspace.configured)
            || path.starts_with(workspace.real);
        if is_of_the_host {
            return Err(CwdError::NotSeen(path));
        }
        Ok(path)
    }

    /// Where a directory of the host is inside, if it lies in a workspace that the sandbox sees.
    pub fn seen_at(&self, host: &Path, workspace: WorkspaceNames<'_>) -> Option<PathBuf> {
        let shown = match &self.agent_workspace {
            Some(AgentWorkspace { host, inside }) => Some((host.as_path(), inside.as_path())),
            None if self.workspace == workspace.real => {
                Some((self.workspace.as_path(), self.settings.workdir.as_path()))
            }
            None => None,
        };
        let own = (self.workspace.as_path(), self.settings.workdir.as_path());
        let of_agent = shown
            .into_iter()
            .flat_map(|(real, inside)| [(real, inside), (workspace.configured, inside)]);
        of_agent.chain([own]).find_map(|(outside, inside)| {
            let rest = host.strip_prefix(outside).ok()?;
            // Joined with nothing, a path would end in a slash.
            Some(if rest.as_os_str().is_empty() {
                inside.to_owned()
            } else {
                inside.join(rest)
            })
        })
    }

    /// Where a directory inside is on the host, if it lies in a workspace: that workspace, and the way from there.
    pub fn shown_at(&self, inside: &Path) -> Option<(&Path, PathBuf)> {
        let own = (self.workspace.as_path(), self.settings.workdir.as_path());
        let of_agent = self
            .agent_workspace
            .as_ref()
            .map(|agent| (agent.host.as_path(), agent.inside.as_path()));
        [Some(own), of_agent]
            .into_iter()
            .flatten()
            .find_map(|(host, shown)| {
                let below = inside.strip_prefix(shown).ok()?;
                // Nothing at all is no path to the kernel.
                let below = if below.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    below
                };
                Some((host, below.to_owned()))
            })
    }

    fn agent_inside(&self) -> Option<&Path> {
        self.agent_workspace
            .as_ref()
            .map(|workspace| workspace.inside.as_path())
    }

    /// The directories of the host that are mounted because of what the sandbox is for, with whether commands inside may
    /// write there.
    pub fn workspaces(&self) -> impl Iterator<Item = (&Path, bool)> {
        let of_agent = self
            .agent_workspace
            .iter()
            .map(|workspace| (workspace.host.as_path(), false));
        std::iter::once((self.workspace.as_path(), self.workspace_writable)).chain(of_agent)
    }
}

fn normalised(path: &Path) -> Result<PathBuf, Unusable> {
    let text = path
        .to_str()
        .ok_or_else(|| Unusable("sandbox.docker.workdir is not valid UTF-8".to_owned()))?;
    Ok(PathBuf::from(paths::normalise(text)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use countersign_config::settings::{DockerSettings, SandboxScope};

    fn names() -> WorkspaceNames<'static> {
        WorkspaceNames {
            configured: Path::new("/srv/link"),
            real: Path::new("/data/ws"),
        }
    }

    fn settings(access: WorkspaceAccess) -> SandboxSettings {
        SandboxSettings {
            mode_key: "agents.defaults.sandbox.mode".to_owned(),
            mode: None,
            scope: SandboxScope::Agent,
            workspace_access: access,
            workspace_root: PathBuf::from("/state/sandboxes"),
            docker: DockerSettings {
                image: "image".to_owned(),
                container_prefix: "countersign-sbx-".to_owned(),
                workdir: PathBuf::from("/workspace"),
                read_only_root: true,
                network: "none".to_owned(),
                tmpfs: Vec::new(),
                cap_drop: Vec::new(),
                user: None,
                setup_command: None,
                pids_limit: None,
                memory_bytes: None,
                memory_swap_bytes: None,
                nano_cpus: None,
                ulimits: BTreeMap::new(),
                seccomp_profile: None,
                apparmor_profile: None,
                dns: Vec::new(),
                extra_hosts: Vec::new(),
                env: BTreeMap::new(),
                binds: Vec::new(),
            },
            prune_idle: None,
            prune_age: None,
        }
    }

    fn made(settings: &SandboxSettings) -> Enclosure {
        let agent = AgentId::main();
        enclosure(settings, &agent, &SessionKey::main_of(&agent), names().real).unwrap()
    }

    #[test]
    fn the_modes_mount_what_they_say() {
        let none = made(&settings(WorkspaceAccess::None));
        assert_eq!(none.workspace, Path::new("/state/sandboxes").join(&none.name));
        assert_eq!((none.workspace_writable, &none.agent_workspace), (true, &None));

        let ro = made(&settings(WorkspaceAccess::Ro));
        assert_eq!(ro.workspace, none.workspace);
        let shown = AgentWorkspace {
            host: names().real.to_owned(),
            inside: PathBuf::from("/agent"),
        };
        assert_eq!(ro.agent_workspace, Some(shown));

        let rw = made(&settings(WorkspaceAccess::Rw));
        assert_eq!(rw.workspace, names().real);
        assert_eq!((rw.workspace_writable, &rw.agent_workspace), (true, &None));
    }

    #[test]
    fn agents_that_share_a_sandbox_see_the_same_workspace() {
        let shared = |access, workspace: &str| {
            let mut settings = settings(access);
            settings.scope = SandboxScope::Shared;
            let agent = AgentId::main();
            let session = SessionKey::main_of(&agent);
            enclosure(&settings, &agent, &session, Path::new(workspace))
                .unwrap()
                .name
        };
        let (none, rw) = (WorkspaceAccess::None, WorkspaceAccess::Rw);
        assert_eq!(shared(none, "/a"), shared(none, "/b"));
        assert_eq!(shared(rw, "/a"), shared(rw, "/a"));
        assert_ne!(shared(rw, "/a"), shared(rw, "/b"));
        assert_ne!(shared(rw, "/a"), shared(none, "/a"));
    }

    #[test]
    fn directories_are_meant_inside_or_mapped() {
        let (none, ro, rw) = (
            made(&settings(WorkspaceAccess::None)),
            made(&settings(WorkspaceAccess::Ro)),
            made(&settings(WorkspaceAccess::Rw)),
        );
        let own = format!("/state/sandboxes/{}/x", none.name);
        let not_seen = |path: &str| Err(CwdError::NotSeen(PathBuf::from(path)));
        let at = |path: &str| Ok(PathBuf::from(path));
        for (enclosure, named, expected) in [
            (&none, "/workspace", at("/workspace")),
            (&none, "/workspace/a/", at("/workspace/a")),
            (&none, "/tmp/x", at("/tmp/x")),
            (&none, own.as_str(), at("/workspace/x")),
            (&none, "/data/ws", not_seen("/data/ws")),
            (&none, "/srv/link/a", not_seen("/srv/link/a")),
            (&none, "~", not_seen("/home/u")),
            (&none, "~/a", not_seen("/home/u/a")),
            (&none, "a", Err(CwdError::Relative)),
            (&none, "~other", Err(CwdError::Relative)),
            (&ro, "/agent/a", at("/agent/a")),
            (&ro, "/data/ws", at("/agent")),
            (&ro, "/data/ws/a/b", at("/agent/a/b")),
            (&ro, "/srv/link/a", at("/agent/a")),
            (&rw, "/data/ws/a", at("/workspace/a")),
            (&rw, "/srv/link", at("/workspace")),
            // Names that begin alike are not below.
            (&rw, "/data/wss", at("/data/wss")),
            (&rw, "/workspaces", at("/workspaces")),
            // What leads out of the workspace means what it says, inside.
            (&rw, "/data/ws/../secret", at("/data/secret")),
            (&rw, "/workspace/../etc", at("/etc")),
            (&rw, "/data/ws/a/../../ws/b", at("/workspace/b")),
        ] {
            let found = enclosure.cwd(named, Path::new("/home/u"), names());
            assert_eq!(found, expected, "{named} in {}", enclosure.workspace.display());
        }
    }

    #[test]
    fn only_what_is_mounted_is_mapped() {
        let seen = |access, path: &str| made(&settings(access)).seen_at(Path::new(path), names());
        assert_eq!(seen(WorkspaceAccess::None, "/data/ws/a"), None);
        assert_eq!(seen(WorkspaceAccess::Ro, "/data/ws/a"), Some("/agent/a".into()));
        assert_eq!(
            seen(WorkspaceAccess::Rw, "/data/ws/a"),
            Some("/workspace/a".into())
        );
        for path in ["/", "/data", "/workspace/a", "/tmp"] {
            assert_eq!(seen(WorkspaceAccess::Rw, path), None, "{path}");
        }
    }

    #[test]
    fn nobody_is_shown_the_sandboxes_of_others() {
        let agent = AgentId::main();
        let session = SessionKey::main_of(&agent);
        for (workspace, is_refused) in [
            ("/", true),
            ("/state", true),
            ("/state/sandboxes", true),
            ("/state/sandboxes/other", true),
            ("/state/workspace", false),
            ("/state/sandboxes2", false),
        ] {
            for access in [WorkspaceAccess::Ro, WorkspaceAccess::Rw] {
                let made = enclosure(&settings(access), &agent, &session, Path::new(workspace));
                assert_eq!(made.is_err(), is_refused, "{workspace} {access}");
            }
            let none = enclosure(
                &settings(WorkspaceAccess::None),
                &agent,
                &session,
                Path::new(workspace),
            );
            assert!(none.is_ok(), "{workspace} is not mounted");
        }
    }

    #[test]
    fn a_workdir_that_cannot_be_is_refused() {
        let agent = AgentId::main();
        for (access, workdir, is_refused) in [
            (WorkspaceAccess::None, "/", true),
            (WorkspaceAccess::None, "/a/..", true),
            (WorkspaceAccess::None, "/agent", false),
            (WorkspaceAccess::Ro, "/agent", true),
            (WorkspaceAccess::Ro, "/agent/x", true),
            (WorkspaceAccess::Ro, "/agents", false),
        ] {
            let mut settings = settings(access);
            settings.docker.workdir = PathBuf::from(workdir);
            let made = enclosure(&settings, &agent, &SessionKey::main_of(&agent), names().real);
            assert_eq!(made.is_err(), is_refused, "{workdir} {access}");
        }
    }
}
