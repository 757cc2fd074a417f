//! What must be done while the process has one thread.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::StartError;
use crate::{
    engine::environment::HostEnvironment,
    hosts::{
        confined::{Confined, Hidden},
        eyes::Files,
        login_path,
        shell::HostShell,
    },
    runner::{Runner, RunnerOptions},
    settings::{Environment, IsolationChoice, Server, SettingsStore, StartOptions, StateDir},
    sys::{
        namespace::has_scopes,
        process::{InheritedLimits, boot_id, forbid_dumping},
    },
    telemetry::Log,
    tls::{LiveTls, TlsFiles},
};

/// `[limits] max_running = 0` switches the limit off; the runner still wants a number.
const MANY_RUNS: usize = 1_000_000;

/// A server that has its directory, its settings and its runner, but no thread yet.
#[derive(Debug)]
pub struct Prepared {
    pub(super) state_dir: StateDir,
    pub(super) settings: Arc<SettingsStore>,
    pub(super) log: Log,
    pub(super) tls: Option<Arc<LiveTls>>,
    pub(super) runner: Runner,
    /// What confined commands do not see, if there can be any.
    pub(super) hidden: Option<Hidden>,
    /// The files that commands see.
    pub(super) files: Files,
    pub(super) shell: HostShell,
    pub(super) environment: HostEnvironment,
    pub(super) boot_id: String,
    pub(super) own_binary: Option<PathBuf>,
}

impl Prepared {
    /// Checks the state directory, reads the settings, starts the log and the runner.
    ///
    /// # Errors
    /// [`StartError`] says what has to change; nothing is left running.
    pub fn new(options: &StartOptions, environment: &Arc<dyn Environment>) -> Result<Self, StartError> {
        // First of all: what commands get back, before anything here changes it.
        let limits = InheritedLimits::of_this_process();
        forbid_dumping().map_err(StartError::system(
            "this process cannot be protected from being read",
        ))?;
        let state_dir = StateDir::resolve(options.state_dir.as_deref(), environment.as_ref())?;
        state_dir.prepare()?;
        let settings = SettingsStore::load(state_dir.clone(), options, Arc::clone(environment))
            .map_err(StartError::Settings)?;
        let settings = Arc::new(settings);
        let current = settings.current();
        let server = &current.server;
        let log = Log::start(&server.telemetry)?;
        let tls = TlsFiles::of(&state_dir, server)
            .map(|files| LiveTls::load(files).map(Arc::new))
            .transpose()?;
        let confined = confine(&state_dir, server, settings.server_file(), environment.as_ref())?;
        let own_path = environment.get("PATH");
        let (shell, environment) = shell_and_environment(server, environment.as_ref(), own_path.as_deref())?;
        raise_open_files();
        let max_running = match server.limits.max_running {
            0 => MANY_RUNS,
            limit => limit,
        };
        let mut options =
            RunnerOptions::of_this_program(state_dir.runs(), state_dir.output(), limits, max_running);
        let hidden = confined.map(
            |Confined {
                 confinement, hidden, ..
             }| {
                options.confinement = Some(Arc::new(confinement));
                hidden
            },
        );
        Ok(Self {
            runner: Runner::start(options)?,
            hidden,
            files: Files::Direct,
            boot_id: boot_id().map_err(StartError::system("this boot of the machine has no identity"))?,
            own_binary: std::env::current_exe().ok(),
            state_dir,
            settings,
            log,
            tls,
            shell,
            environment,
        })
    }
}

/// The place where confined commands run; `None` where commands run with the server's own rights, by choice or
/// because there is nothing better.
fn confine(
    state_dir: &StateDir,
    server: &Server,
    server_file: &Path,
    environment: &dyn Environment,
) -> Result<Option<Confined>, StartError> {
    let choice = server.exec.isolation;
    let confined = match choice {
        IsolationChoice::SameUser => return Ok(None),
        IsolationChoice::Auto | IsolationChoice::Confined | IsolationChoice::SeparateUser => {
            Confined::make(state_dir, server, server_file, environment)
        }
    };
    match (confined, choice) {
        (Ok(confined), _) => {
            for socket in &confined.exposed {
                tracing::warn!(
                    path = %socket.display(),
                    "a socket that a variable names stays within reach of commands: its directory holds other things, too"
                );
            }
            if !has_scopes() {
                tracing::warn!(
                    "this kernel cannot keep signals and abstract sockets of confined commands inside (Landlock ABI 6)"
                );
            }
            Ok(Some(confined))
        }
        (Err(error), IsolationChoice::Auto) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "commands cannot be confined: they run with the server's own rights"
            );
            Ok(None)
        }
        (
            Err(error),
            IsolationChoice::Confined | IsolationChoice::SeparateUser | IsolationChoice::SameUser,
        ) => Err(error.into()),
    }
}

fn shell_and_environment(
    server: &Server,
    environment: &dyn Environment,
    own_path: Option<&str>,
) -> Result<(HostShell, HostEnvironment), StartError> {
    // The login PATH is what the shell itself says, so the shell is found without it.
    let first_path = HostEnvironment::new(environment, None).run_path(&[]);
    let variable = environment.get("SHELL");
    let shell = HostShell::choose(server.exec.shell.as_deref(), variable.as_deref(), &first_path)?;
    let login = server.exec.login_path.then(|| {
        login_path::ask(
            &shell,
            &environment.inherited(),
            own_path,
            server.exec.login_path_timeout,
        )
    });
    let login = match login {
        None => None,
        Some(Ok(path)) => Some(path),
        Some(Err(error)) => {
            tracing::warn!(%error, "the login shell did not tell its PATH ([exec] login_path); going on without it");
            None
        }
    };
    Ok((shell, HostEnvironment::new(environment, login)))
}

/// Connections, spools and run files all take descriptors. Commands get the limit that was there before.
fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        )
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}
