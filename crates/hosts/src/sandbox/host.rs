//! The sandbox host itself: which backend there is, a sandbox made ready, a command started in it.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use countersign_config::settings::{Environment, Sandbox, SandboxBackend, Server, StateDir};
use countersign_domain::{Backend, Bound, RunId, hex};
use countersign_ledger::launch::Permit;

use crate::{
    RunTerms,
    gateway::{GatewayHost, Mismatch, StartError, Supervised},
};

use super::{
    Enclosure, Inside, Unusable, builtin,
    docker::{DockerBackend, DockerOptions, PruneLimits},
};

/// How long an answer about a backend is taken as it is.
const FRESH: Duration = Duration::from_secs(10);
/// How long a backend that was there is used while it is looked at again.
const STALE: Duration = Duration::from_mins(5);
/// How long looking at a backend may take.
const PROBE: Duration = Duration::from_secs(10);
/// Hexadecimal digits of an owner.
const OWNER_DIGITS: usize = 32;
/// Most images that answers are kept for.
const MAX_KNOWN: usize = 64;

/// What a sandbox host is made from.
#[derive(Debug, Clone)]
pub struct SandboxOptions {
    /// Which backend is wanted.
    pub choice: SandboxBackend,
    /// The socket of the Docker engine, or why there is none.
    pub docker_socket: Result<PathBuf, Unusable>,
    /// How long a sandbox may take until commands can run in it.
    pub start_timeout: Duration,
    /// Tells the sandboxes of this state directory from those of others.
    pub owner: String,
    /// Files and directories of the server itself, which no sandbox is shown.
    pub guarded: Vec<PathBuf>,
}

impl SandboxOptions {
    /// What the settings of a server say.
    pub fn new(
        state_dir: &StateDir,
        server: &Server,
        server_file: &Path,
        environment: &dyn Environment,
    ) -> Self {
        let Sandbox {
            backend,
            docker_socket,
            start_timeout,
        } = &server.sandbox;
        Self {
            choice: *backend,
            docker_socket: Self::docker_socket(
                docker_socket.as_deref(),
                environment.get("DOCKER_HOST").as_deref(),
            ),
            start_timeout: *start_timeout,
            owner: Self::owner_of(state_dir.root()),
            guarded: vec![
                state_dir.countersign(),
                state_dir.config(),
                state_dir.document(server),
                state_dir.ledger(server),
                server_file.to_owned(),
            ],
        }
    }

    /// What tells the sandboxes of one state directory from those of another.
    fn owner_of(state_dir: &Path) -> String {
        use std::os::unix::ffi::OsStrExt as _;
        let real = fs::canonicalize(state_dir).unwrap_or_else(|_unseen| state_dir.to_owned());
        let mut digest = hex(&Sha256::digest(real.as_os_str().as_bytes()));
        digest.truncate(OWNER_DIGITS);
        digest
    }

    /// The socket of the Docker engine: the one that the settings name, else the one of `DOCKER_HOST`, else the usual.
    ///
    /// # Errors
    /// [`Unusable`] when `DOCKER_HOST` names an engine that is not reached by a socket of this machine.
    fn docker_socket(named: Option<&Path>, docker_host: Option<&str>) -> Result<PathBuf, Unusable> {
        if let Some(named) = named {
            return Ok(named.to_owned());
        }
        match docker_host.filter(|host| !host.is_empty()) {
            None => Ok(PathBuf::from("/var/run/docker.sock")),
            Some(host) => host
                .strip_prefix("unix://")
                .filter(|path| path.starts_with('/'))
                .map(PathBuf::from)
                .ok_or_else(|| {
                    Unusable(
                        "DOCKER_HOST names an engine that is not a Unix socket, and no other is used; name the socket \
                         with [sandbox] docker_socket"
                            .to_owned(),
                    )
                }),
        }
    }
}

/// The backends that are wanted, as far as they can be.
#[derive(Debug)]
pub struct Backends {
    choice: SandboxBackend,
    docker: Result<DockerBackend, Unusable>,
}

impl Backends {
    /// Backends that have not been asked anything yet.
    pub fn new(options: &SandboxOptions) -> Self {
        let SandboxOptions {
            choice,
            docker_socket,
            start_timeout,
            owner,
            guarded,
        } = options;
        let docker = docker_socket.clone().map(|socket| {
            DockerBackend::new(DockerOptions {
                socket,
                start_timeout: *start_timeout,
                owner: owner.clone(),
            })
            .never_mounting(guarded.clone())
        });
        Self {
            choice: *choice,
            docker,
        }
    }

    /// Looks which backend can make sandboxes of an image.
    ///
    /// # Errors
    /// [`Unusable`] says what is missing.
    #[crate::compiled_once]
    pub async fn probe(&self, image: &str) -> Result<Backend, Unusable> {
        match self.choice {
            SandboxBackend::Off => Err(Unusable("[sandbox] backend is \"off\"".to_owned())),
            SandboxBackend::Docker => self.probe_docker(image).await.map(|()| Backend::Docker),
            SandboxBackend::Builtin => probe_builtin().await.map(|()| Backend::Builtin),
            SandboxBackend::Auto => {
                let Err(of_docker) = self.probe_docker(image).await else {
                    return Ok(Backend::Docker);
                };
                match probe_builtin().await {
                    Ok(()) => Ok(Backend::Builtin),
                    Err(of_builtin) => Err(Unusable(format!(
                        "Docker: {of_docker}; the built-in one: {of_builtin}"
                    ))),
                }
            }
        }
    }

    async fn probe_docker(&self, image: &str) -> Result<(), Unusable> {
        let docker = self.docker.as_ref().map_err(Clone::clone)?;
        match timeout(PROBE, docker.probe(image)).await {
            Ok(answer) => answer,
            Err(_late) => Err(Unusable("the Docker engine does not answer in time".to_owned())),
        }
    }

    /// The Docker engine, where sandboxes of it may be left.
    fn docker_if_wanted(&self) -> Option<&DockerBackend> {
        match self.choice {
            SandboxBackend::Auto | SandboxBackend::Docker => self.docker.as_ref().ok(),
            SandboxBackend::Builtin | SandboxBackend::Off => None,
        }
    }
}

/// The sandbox of a call, with what makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Which backend makes it.
    pub backend: Backend,
    /// Who shares it, what it sees and what it may use.
    pub enclosure: Enclosure,
    /// Lower-case hex SHA-256 of both: what a run is bound to.
    pub digest: String,
    /// When it goes, unless it is used.
    pub prune: PruneLimits,
}

impl Placement {
    /// A sandbox by a backend.
    ///
    /// # Errors
    /// [`Unusable`] when a path of it cannot be written down.
    pub fn new(backend: Backend, enclosure: Enclosure) -> Result<Self, Unusable> {
        let text = serde_json::to_vec(&(backend.as_str(), &enclosure))
            .map_err(|_not_text| Unusable("a path of the sandbox is not valid UTF-8".to_owned()))?;
        Ok(Self {
            backend,
            enclosure,
            digest: hex(&Sha256::digest(&text)),
            prune: PruneLimits::default(),
        })
    }

    /// The same, which goes when it was not used for so long, or at this age.
    #[must_use]
    pub fn pruned_after(self, idle: Option<Duration>, age: Option<Duration>) -> Self {
        let prune = PruneLimits { idle, age };
        Self { prune, ..self }
    }
}

/// The sandboxes of this machine.
#[derive(Debug, Clone)]
pub struct SandboxHost(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    backends: Backends,
    gateway: GatewayHost,
    start_timeout: Duration,
    guarded: Vec<PathBuf>,
    /// What was found about backends, by image.
    known: Mutex<HashMap<String, Known>>,
    /// One look at a time: they all see the same.
    turn: tokio::sync::Mutex<()>,
    evaluations: TaskTracker,
}

#[derive(Debug, Clone)]
struct Known {
    answer: Result<Backend, Unusable>,
    at: Instant,
    /// A task looks again.
    looking: bool,
}

impl SandboxHost {
    /// A host whose runs the supervisors of `gateway` hold. Nothing is looked at yet.
    pub fn new(options: SandboxOptions, gateway: GatewayHost) -> Self {
        let backends = Backends::new(&options);
        Self(Arc::new(Inner {
            backends,
            gateway,
            start_timeout: options.start_timeout,
            guarded: options.guarded.into_iter().flat_map(both_names).collect(),
            known: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            evaluations: TaskTracker::new(),
        }))
    }

    /// The backend for sandboxes of an image. What was found lately is not looked for again.
    ///
    /// # Errors
    /// [`Unusable`] says what is missing.
    ///
    /// # Cancel safety
    /// Nothing is lost but the probe.
    #[crate::compiled_once]
    pub async fn backend(&self, image: &str) -> Result<Backend, Unusable> {
        if let Some(known) = self.0.remembered(image) {
            return known;
        }
        self.evaluate(image).await
    }

    async fn evaluate(&self, image: &str) -> Result<Backend, Unusable> {
        let inner = &self.0;
        let _turn = inner.turn.lock().await;
        // Another task may have looked while this one waited.
        if let Some(known) = inner.fresh(image) {
            return known;
        }
        let answer = inner.backends.probe(image).await;
        inner.remember(image, answer.clone());
        answer
    }

    /// What was found about an image last, if anything was.
    pub fn last_answer(&self, image: &str) -> Option<Result<Backend, Unusable>> {
        let known = self.0.lock();
        known.get(image).map(|known| known.answer.clone())
    }

    /// Makes a sandbox ready for commands.
    ///
    /// # Errors
    /// [`Unusable`] says why it is not. Whether there is a backend is looked at anew for the next call then.
    #[crate::compiled_once]
    pub async fn prepare(&self, place: &Placement) -> Result<(), Unusable> {
        let Placement {
            backend,
            enclosure,
            digest: _,
            prune,
        } = place;
        self.0.check_shown(enclosure)?;
        make_own_directory(enclosure)?;
        let made = match (backend, &self.0.backends.docker) {
            (Backend::Builtin, _) => return Ok(()),
            (Backend::Docker, Ok(docker)) => {
                let docker = docker.clone().with_limits(*prune);
                match timeout(self.0.start_timeout, Box::pin(docker.prepare(enclosure))).await {
                    Ok(made) => made,
                    Err(_late) => Err(Unusable(
                        "the container was not ready within [sandbox] start_timeout_ms".to_owned(),
                    )),
                }
            }
            (Backend::Docker, Err(unusable)) => Err(unusable.clone()),
        };
        if made.is_err() {
            self.0.lock().remove(&enclosure.settings.image);
        }
        made
    }

    /// Starts what the permit allows in the sandbox that it is bound to, and uses it up.
    ///
    /// # Errors
    /// [`StartError`]; then nothing was started.
    #[crate::compiled_once]
    pub async fn run(
        &self,
        permit: Permit,
        terms: RunTerms,
        place: &Placement,
        inside: Option<&Inside>,
    ) -> Result<Supervised, StartError> {
        let Placement {
            backend,
            enclosure,
            digest,
            prune: _,
        } = place;
        if !matches!(&permit.binding().bound, Bound::Inside { sandbox, .. } if sandbox == digest) {
            return Err(StartError::BindingMismatch {
                what: Mismatch::Sandbox,
                path: PathBuf::from(&enclosure.name),
            });
        }
        let Some(inside) = inside else {
            return self.0.gateway.run_patch(permit, terms, enclosure).await;
        };
        let started = match (backend, &self.0.backends.docker) {
            (Backend::Builtin, _) => {
                self.0
                    .gateway
                    .run_enclosed(permit, terms, enclosure, inside)
                    .await
            }
            (Backend::Docker, Ok(docker)) => {
                let client = docker.client(enclosure, inside, permit.run_id(), terms.terminal);
                self.0.gateway.run_client(permit, terms, client).await
            }
            (Backend::Docker, Err(unusable)) => Err(unusable.clone().into()),
        };
        if let Err(StartError::Sandbox(_)) = &started {
            self.0.lock().remove(&enclosure.settings.image);
        }
        started
    }

    /// Ends what a run may have left inside when its supervisor could not say that nothing is.
    #[crate::compiled_once]
    pub async fn sweep(&self, run_id: &RunId) {
        if let Some(docker) = self.0.backends.docker_if_wanted() {
            docker.sweep(run_id).await;
        }
    }

    /// Takes away sandboxes that were not used for too long.
    #[crate::compiled_once]
    pub async fn prune(&self) {
        if let Some(docker) = self.0.backends.docker_if_wanted() {
            docker.prune().await;
        }
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self, image: &str) -> Option<Result<Backend, Unusable>> {
        let known = self.lock();
        let known = known.get(image)?;
        (known.at.elapsed() < FRESH).then(|| known.answer.clone())
    }

    /// What was found lately. A backend that was there is used while a task looks whether it still is. One that was not
    /// there may be by now, so a caller that wants it waits.
    fn remembered(self: &Arc<Self>, image: &str) -> Option<Result<Backend, Unusable>> {
        let mut all = self.lock();
        let known = all.get_mut(image)?;
        let age = known.at.elapsed();
        if age < FRESH {
            return Some(known.answer.clone());
        }
        let backend = known.answer.as_ref().ok().filter(|_| age < STALE).copied()?;
        if !known.looking {
            known.looking = true;
            let (host, image) = (SandboxHost(Arc::clone(self)), image.to_owned());
            self.evaluations
                .spawn(async move { host.evaluate(&image).await.is_ok() });
        }
        Some(Ok(backend))
    }

    fn remember(&self, image: &str, answer: Result<Backend, Unusable>) {
        let mut known = self.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        let at = Instant::now();
        known.insert(
            image.to_owned(),
            Known {
                answer,
                at,
                looking: false,
            },
        );
    }

    /// No sandbox is shown the files of the server or the workspaces of others, no matter what the settings mount.
    fn check_shown(&self, enclosure: &Enclosure) -> Result<(), Unusable> {
        let workspaces = enclosure
            .workspaces()
            .map(|(path, _writable)| ("the workspace", path));
        let binds = enclosure.settings.binds.iter();
        let binds = binds.map(|bind| ("sandbox.docker.binds", bind.host.as_path()));
        for (what, path) in workspaces.chain(binds) {
            // The sandbox's own directory lies among the guarded ones.
            let is_own = path == enclosure.workspace && path.ends_with(&enclosure.name);
            for shown in both_names(path.to_owned()) {
                let holds = self.guarded.iter().any(|guarded| guarded.starts_with(&shown));
                let lies_in = self.guarded.iter().any(|guarded| shown.starts_with(guarded));
                if holds || (lies_in && !is_own) {
                    return Err(Unusable(format!(
                        "{what} would show {} to the sandbox, where the server's own files or other sandboxes lie",
                        path.display()
                    )));
                }
            }
        }
        Ok(())
    }
}

async fn probe_builtin() -> Result<(), Unusable> {
    match tokio::task::spawn_blocking(builtin::probe).await {
        Ok(answer) => answer,
        Err(_panicked) => Err(Unusable(
            "it could not be found out whether sandboxes can be made".to_owned(),
        )),
    }
}

/// A path as it is written and as it is.
fn both_names(path: PathBuf) -> Vec<PathBuf> {
    let real = fs::canonicalize(&path).ok().filter(|real| *real != path);
    [Some(path), real].into_iter().flatten().collect()
}

/// Makes the directory that a sandbox has for itself. What lies there under its name must be a directory and no link:
/// a command on the gateway host may have put one there.
fn make_own_directory(enclosure: &Enclosure) -> Result<(), Unusable> {
    let path = &enclosure.workspace;
    if !path.ends_with(&enclosure.name) {
        return Ok(());
    }
    let unusable = |error: io::Error| {
        Unusable(format!(
            "the directory of the sandbox, {}, cannot be made: {error}",
            path.display()
        ))
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(unusable)?;
    let found = fs::symlink_metadata(path).map_err(unusable)?;
    if found.is_dir() {
        Ok(())
    } else {
        Err(unusable(io::ErrorKind::NotADirectory.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_is_found_by_settings_variable_or_habit() {
        let socket = |named: Option<&str>, host| {
            SandboxOptions::docker_socket(named.map(Path::new), host)
                .ok()
                .map(|path| path.to_string_lossy().into_owned())
        };
        let some = |path: &str| Some(path.to_owned());
        assert_eq!(socket(None, None), some("/var/run/docker.sock"));
        assert_eq!(socket(None, Some("")), some("/var/run/docker.sock"));
        assert_eq!(socket(None, Some("unix:///x/d.sock")), some("/x/d.sock"));
        assert_eq!(socket(Some("/y"), Some("tcp://a:1")), some("/y"));
        for other in [
            "tcp://127.0.0.1:2375",
            "ssh://host",
            "unix://relative",
            "/x/d.sock",
        ] {
            assert_eq!(socket(None, Some(other)), None, "{other}");
        }
    }
}
