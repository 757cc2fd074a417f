//! What must be done while the process has one thread.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use countersign_config::{
    settings::{
        Environment, IsolationChoice, LogFormat, MapEnvironment, SandboxBackend, Server, SettingsStore,
        StartOptions, StateDir, named_account, wanted_account,
    },
    tls::{LiveTls, TlsFiles},
};
use countersign_engine::environment::HostEnvironment;
use countersign_hosts::{
    confined::{Confined, Hidden},
    login_path,
    shell::HostShell,
};
use countersign_runner::{
    LaunchedBy, LoginAs, LoginShell, Runner, RunnerOptions, RunnerUnit, SeparateUser, UnitPlace,
};
use countersign_sys::{
    account::Account,
    fs::{PRIVATE_FILE, replace_file},
    hooks,
    namespace::has_scopes,
    process::{InheritedLimits, boot_id, forbid_dumping, leave_session_keyring},
};

use super::{
    AccountProblem, StartError,
    accounts::{self, Accounts},
    file_broker::FileBroker,
};

use crate::telemetry::{Log, Notes};

/// `[limits] max_running = 0` switches the limit off; the runner still wants a number.
const MANY_RUNS: usize = 1_000_000;

/// Where the sockets of runners' units are.
const UNIT_SOCKETS: &str = "/run/countersign";

/// A server that has its directory, its settings and its runner, but no thread yet.
#[derive(Debug)]
pub struct Prepared {
    pub(super) state_dir: StateDir,
    pub(super) settings: Arc<SettingsStore>,
    pub(super) log: Log,
    pub(super) tls: Option<Arc<LiveTls>>,
    pub(super) runner: Runner,
    /// Starts clients of container engines, where the runner has another account, which must never reach an engine.
    pub(super) clients: Option<Runner>,
    /// What confined commands do not see, if there can be any.
    pub(super) hidden: Option<Hidden>,
    /// Under whom commands run, when that is not the server's own account.
    pub(super) account: Option<Account>,
    /// Who looks at files as that account.
    pub(super) file_broker: Option<FileBroker>,
    pub(super) shell: HostShell,
    pub(super) environment: HostEnvironment,
    pub(super) boot_id: String,
    pub(super) own_binary: Option<PathBuf>,
    /// A socket that listens already.
    pub(super) listener: Option<TcpListener>,
}

impl Prepared {
    /// Checks the state directory, reads the settings, starts the log and the runner. With another account for
    /// commands, this process is one of the server's account afterwards, and not of root any more.
    ///
    /// # Errors
    /// [`StartError`] says what has to change; nothing is left running.
    pub fn new(options: &StartOptions, environment: &Arc<dyn Environment>) -> Result<Self, StartError> {
        Self::of_role(Role::Server, options, environment)
    }

    /// The same for the node host of the state directory, which has files of its own there and listens nowhere.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn for_node_host(
        options: &StartOptions,
        environment: &Arc<dyn Environment>,
    ) -> Result<Self, StartError> {
        Self::of_role(Role::NodeHost, options, environment)
    }

    /// Has the server listen at a socket that the service manager opened for it. Starting fails if `[http] listen` is
    /// elsewhere.
    #[must_use]
    pub fn listening_at(mut self, listener: Option<TcpListener>) -> Self {
        self.listener = listener;
        self
    }

    /// The state directory as this role sees it: a node host has files of its own there.
    pub const fn state_dir(&self) -> &StateDir {
        &self.state_dir
    }

    /// What is said on the standard streams beside the log.
    pub fn notes(&self, format: LogFormat) -> Notes {
        Notes::beside(&self.log, format)
    }

    fn of_role(
        role: Role,
        options: &StartOptions,
        environment: &Arc<dyn Environment>,
    ) -> Result<Self, StartError> {
        // First of all: what commands get back, before anything here changes it.
        let limits = InheritedLimits::of_this_process();
        forbid_dumping().map_err(StartError::system(
            "this process cannot be protected from being read",
        ))?;
        match (Deployment::find(options, environment.as_ref())?, role) {
            (Deployment::Beside(state_dir), role) => {
                Self::beside(role, role.in_directory(state_dir), limits, options, environment)
            }
            (Deployment::Launcher(state_dir, accounts), Role::Server) => {
                Self::by_launcher(&state_dir, &accounts, limits, options, environment)
            }
            (Deployment::Launcher(..), Role::NodeHost) => Err(StartError::NodeHostOfRoot),
            (Deployment::Unit(state_dir, wanted), role) => {
                let state_dir = role.in_directory(state_dir);
                Self::by_unit(role, &state_dir, &wanted, limits, options, environment)
            }
        }
    }

    /// Commands run under the server's own account.
    fn beside(
        role: Role,
        state_dir: StateDir,
        limits: InheritedLimits,
        options: &StartOptions,
        environment: &Arc<dyn Environment>,
    ) -> Result<Self, StartError> {
        let loaded = Loaded::new(role, &state_dir, options, environment)?;
        let current = loaded.settings.current();
        let server = &current.server;
        if server.exec.run_as.is_some() {
            return Err(AccountProblem::Changed.into());
        }
        forget_account(&state_dir);
        let server_file = loaded.settings.server_file();
        let confined = confine(&state_dir, server, server_file, environment.as_ref())?;
        let own_path = environment.get("PATH");
        let (shell, environment) =
            shell_and_environment(server, environment.as_ref(), own_path.as_deref(), LoginAs::Own)?;
        let mut options = runner_options(&state_dir, server, limits);
        let hidden = confined.map(
            |Confined {
                 confinement, hidden, ..
             }| {
                options.confinement = Some(Arc::new(confinement));
                hidden
            },
        );
        raise_open_files()?;
        let runner = Runner::start(options)?;
        let runners = (runner, None);
        Self::join(state_dir, loaded, runners, hidden, None, shell, environment)
    }

    /// Commands run under an account of their own, by way of a process that keeps root. The files are the server's from
    /// the first look at them on: they are read with its rights, not with root's.
    fn by_launcher(
        state_dir: &StateDir,
        accounts: &Accounts,
        limits: InheritedLimits,
        options: &StartOptions,
        environment: &Arc<dyn Environment>,
    ) -> Result<Self, StartError> {
        let Accounts {
            commands,
            server,
            wanted,
        } = accounts;
        let own = accounts.server_identity()?;
        // `~` is the home of the account that runs what is configured with it.
        let state_dir = state_dir.clone().with_home(commands.home.clone());
        let loaded = own
            .act_as(|| {
                let loaded = Loaded::new(Role::Server, &state_dir, options, environment)?;
                accounts::make_attach(&state_dir)?;
                Ok::<_, StartError>(loaded)
            })
            .map_err(AccountProblem::Change)??;
        let current = loaded.settings.current();
        if current.server.exec.run_as.as_deref() != Some(wanted.as_str()) {
            return Err(AccountProblem::Changed.into());
        }
        if server.is_none() {
            tracing::warn!(
                "the server stays root: there is no account for it; `useradd --system --user-group --home-dir \
                 /var/lib/countersign --shell /usr/sbin/nologin countersign` makes one"
            );
        }
        let of_commands = environment_of(commands);
        let login_as = LoginAs::Account(&commands.identity);
        let (shell, environment) = shell_and_environment(&current.server, &of_commands, None, login_as)?;
        let mut options = runner_options(&state_dir, &current.server, limits);
        options.separate_user = Some(SeparateUser {
            launched_by: LaunchedBy::PrivilegedLauncher {
                account: commands.identity.clone(),
                server: own.uid,
            },
            attach: state_dir.attach(),
        });
        raise_open_files()?;
        let runner = Runner::start(options)?;
        let file_broker = FileBroker::of(&runner, commands).map_err(StartError::system(
            "the file broker of the account of the commands cannot be started",
        ))?;
        if server.is_some() {
            own.assume_without_privileges().map_err(AccountProblem::Change)?;
            // With the server's own rights this time, the real ones.
            state_dir.prepare()?;
        }
        // Under the server's account: this process has no other by now.
        let clients = uses_docker(&current.server)
            .then(|| Runner::start(client_options(&state_dir, &current.server, limits)))
            .transpose()?;
        remember_account(&state_dir, commands)?;
        Self::join(
            state_dir,
            loaded,
            (runner, clients),
            None,
            Some((commands.clone(), file_broker)),
            shell,
            environment,
        )
    }

    /// Commands run under an account of their own, by way of a unit of that account: nothing of this server is or was
    /// root.
    fn by_unit(
        role: Role,
        state_dir: &StateDir,
        wanted: &str,
        limits: InheritedLimits,
        options: &StartOptions,
        environment: &Arc<dyn Environment>,
    ) -> Result<Self, StartError> {
        let commands = accounts::other_account(wanted)?;
        // `~` is the home of the account that runs what is configured with it.
        let state_dir = state_dir.clone().with_home(commands.home.clone());
        let loaded = Loaded::new(role, &state_dir, options, environment)?;
        let current = loaded.settings.current();
        let exec = &current.server.exec;
        if exec.run_as.as_deref() != Some(wanted) {
            return Err(AccountProblem::Changed.into());
        }
        accounts::make_attach(&state_dir)?;
        // As where root is given up: this process gains nothing ever again, and has nobody's keys.
        rustix::thread::set_no_new_privs(true)
            .map_err(std::io::Error::from)
            .and_then(|()| leave_session_keyring())
            .map_err(AccountProblem::Change)?;
        let place = UnitPlace {
            socket: exec
                .runner_socket
                .clone()
                .unwrap_or_else(|| unit_socket(&commands)),
            account: commands.identity.uid,
        };
        let unit = RunnerUnit::connect(place).map_err(|source| AccountProblem::NoUnit {
            account: commands.to_string(),
            source: Box::new(source),
        })?;
        let of_commands = environment_of(&commands);
        let (shell, environment) =
            shell_and_environment(&current.server, &of_commands, None, LoginAs::Unit(&unit))?;
        let mut options = runner_options(&state_dir, &current.server, limits);
        options.separate_user = Some(SeparateUser {
            launched_by: LaunchedBy::Unit(Arc::new(unit)),
            attach: state_dir.attach(),
        });
        raise_open_files()?;
        let runner = Runner::start(options)?;
        let file_broker = FileBroker::of(&runner, &commands).map_err(StartError::system(
            "the file broker of the account of the commands cannot be started",
        ))?;
        let clients = uses_docker(&current.server)
            .then(|| Runner::start(client_options(&state_dir, &current.server, limits)))
            .transpose()?;
        remember_account(&state_dir, &commands)?;
        Self::join(
            state_dir,
            loaded,
            (runner, clients),
            None,
            Some((commands, file_broker)),
            shell,
            environment,
        )
    }

    fn join(
        state_dir: StateDir,
        loaded: Loaded,
        (runner, clients): (Runner, Option<Runner>),
        hidden: Option<Hidden>,
        separate_user: Option<(Account, FileBroker)>,
        shell: HostShell,
        environment: HostEnvironment,
    ) -> Result<Self, StartError> {
        let Loaded { settings, log, tls } = loaded;
        let (account, file_broker) = separate_user.unzip();
        Ok(Self {
            runner,
            clients,
            hidden,
            file_broker,
            account,
            boot_id: boot_id().map_err(StartError::system("this boot of the machine has no identity"))?,
            own_binary: std::env::current_exe().ok(),
            listener: None,
            state_dir,
            settings,
            log,
            tls,
            shell,
            environment,
        })
    }
}

/// What is being prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    NodeHost,
}

impl Role {
    fn in_directory(self, state_dir: StateDir) -> StateDir {
        match self {
            Self::Server => state_dir,
            Self::NodeHost => state_dir.of_node_host(),
        }
    }
}

/// What is read of the state directory before anything is started.
struct Loaded {
    settings: Arc<SettingsStore>,
    log: Log,
    tls: Option<Arc<LiveTls>>,
}

impl Loaded {
    fn new(
        role: Role,
        state_dir: &StateDir,
        options: &StartOptions,
        environment: &Arc<dyn Environment>,
    ) -> Result<Self, StartError> {
        state_dir.prepare()?;
        let settings = SettingsStore::load(state_dir.clone(), options, Arc::clone(environment))
            .map_err(StartError::Settings)?;
        let settings = Arc::new(settings);
        let current = settings.current();
        let log = Log::start(&current.server.telemetry, &**environment)?;
        // A node host listens nowhere, so nothing of the server's certificate concerns it.
        let tls = TlsFiles::of(state_dir, &current.server)
            .filter(|_files| role == Role::Server)
            .map(|files| LiveTls::load(files).map(Arc::new))
            .transpose()?;
        Ok(Self { settings, log, tls })
    }
}

/// Where the state is, and who starts commands.
enum Deployment {
    Beside(StateDir),
    /// A process that keeps root, under another account.
    Launcher(StateDir, Box<Accounts>),
    /// A unit of the account that has this name.
    Unit(StateDir, String),
}

impl Deployment {
    fn find(options: &StartOptions, environment: &dyn Environment) -> Result<Self, StartError> {
        let flag = options.state_dir.as_deref();
        let is_root = rustix::process::geteuid().is_root();
        let named = named_account(options, environment);
        let state_dir = match named {
            Some(_) if is_root => {
                StateDir::resolve_or(flag, environment, Path::new(accounts::DEFAULT_STATE_DIR))?
            }
            Some(_) | None => StateDir::resolve(flag, environment)?,
        };
        let wanted = named.or_else(|| wanted_account(&state_dir, options, environment));
        Ok(match wanted {
            None => Self::Beside(state_dir),
            Some(wanted) if is_root => {
                let accounts = Accounts::resolve(&wanted, &state_dir)?;
                Self::Launcher(state_dir, Box::new(accounts))
            }
            Some(wanted) => Self::Unit(state_dir, wanted),
        })
    }
}

/// Where the packaged unit of an account listens.
fn unit_socket(account: &Account) -> PathBuf {
    let name = account
        .name
        .clone()
        .unwrap_or_else(|| account.identity.uid.to_string());
    Path::new(UNIT_SOCKETS).join(format!("runner-{name}.sock"))
}

/// What commands of an account find in their environment: what is the account's, and nothing of the account that starts
/// the server.
fn environment_of(account: &Account) -> MapEnvironment {
    let shell = account.shell.as_deref().unwrap_or_else(|| Path::new("/bin/sh"));
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let mut variables = vec![("HOME", path(&account.home)), ("SHELL", path(shell))];
    for name in ["USER", "LOGNAME"] {
        variables.extend(account.name.clone().map(|user| (name, user)));
    }
    MapEnvironment::new(variables)
}

fn runner_options(state_dir: &StateDir, server: &Server, limits: InheritedLimits) -> RunnerOptions {
    let max_running = match server.limits.max_running {
        0 => MANY_RUNS,
        limit => limit,
    };
    RunnerOptions::of_this_program(state_dir.runs(), state_dir.output(), limits, max_running)
}

/// Whether runs may need a client of a container engine.
const fn uses_docker(server: &Server) -> bool {
    match server.sandbox.backend {
        SandboxBackend::Auto | SandboxBackend::Docker => true,
        SandboxBackend::Builtin | SandboxBackend::Off => false,
    }
}

/// A second runner beside the one under another account.
fn client_options(state_dir: &StateDir, server: &Server, limits: InheritedLimits) -> RunnerOptions {
    RunnerOptions {
        // A kill point of a test build is for the runner of the commands.
        environment: hooks::left_away().into_iter().collect(),
        ..runner_options(state_dir, server, limits)
    }
}

/// Notes for readers of the state directory, doctor for one, which account commands run under.
fn remember_account(state_dir: &StateDir, account: &Account) -> Result<(), StartError> {
    let line = format!("{} {account}\n", account.identity.uid);
    replace_file(&state_dir.commands_account(), line.as_bytes(), PRIVATE_FILE).map_err(StartError::system(
        "the account of the commands cannot be noted in the state directory",
    ))
}

fn forget_account(state_dir: &StateDir) {
    // None there is the usual case. One that stays is corrected by the next start.
    std::fs::remove_file(state_dir.commands_account()).unwrap_or(());
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

/// What commands would inherit of a server that starts now, in this process's environment and under its account.
///
/// # Errors
/// [`StartError::Shell`] where no shell can be used.
pub fn host_environment(
    server: &Server,
    environment: &dyn Environment,
) -> Result<HostEnvironment, StartError> {
    let own_path = environment.get("PATH");
    let (_shell, inherited) = shell_and_environment(server, environment, own_path.as_deref(), LoginAs::Own)?;
    Ok(inherited)
}

fn shell_and_environment(
    server: &Server,
    environment: &dyn Environment,
    own_path: Option<&str>,
    login_as: LoginAs<'_>,
) -> Result<(HostShell, HostEnvironment), StartError> {
    // The login PATH is what the shell itself says, so the shell is found without it.
    let first_path = HostEnvironment::new(environment, None).run_path(&[]);
    let variable = environment.get("SHELL");
    let shell = HostShell::choose(server.exec.shell.as_deref(), variable.as_deref(), &first_path)?;
    let login = server.exec.login_path.then(|| {
        login_path::ask(
            LoginShell {
                path: shell.path(),
                login_as,
            },
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
    let environment = match login_as {
        LoginAs::Own => HostEnvironment::new(environment, login),
        LoginAs::Account(_) | LoginAs::Unit(_) => HostEnvironment::of_account(environment.inherited(), login),
    };
    Ok((shell, environment))
}

/// A server that waits has some 60 files open; the rest is for a few connections and commands.
const LEAST_OPEN_FILES: u64 = 256;

/// Connections, spools and run files all take descriptors. Commands get the limit that was there before.
fn raise_open_files() -> Result<(), StartError> {
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
    match getrlimit(Resource::Nofile).current {
        Some(may) if may < LEAST_OPEN_FILES => Err(StartError::FewOpenFiles {
            may,
            least: LEAST_OPEN_FILES,
        }),
        Some(_) | None => Ok(()),
    }
}
