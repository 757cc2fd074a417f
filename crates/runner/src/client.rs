//! The server's end of the warm runner.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::fs::{Mode, OFlags};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::timeout,
};

use countersign_sys::{
    account::Identity,
    hooks,
    process::{self, InheritedLimits, Pid, Spawn, SpawnedProcess},
    readiness, socket,
};

use super::{
    KillLevel,
    cgroup::Home,
    command_line::{self, RunnerPlace},
    confine::Confinement,
    launcher::PrivilegedLauncher,
    launcher_protocol::LaunchedProcess,
    limits::IDLE_INTERVAL,
    run_file::Fence,
    tree,
    unit_link::RunnerUnit,
    wire::Sweep,
};

/// How long supervisors may take to kill what is left of a run, after which it is reported as it is.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest pause before a runner that keeps dying is started again.
const MAX_RESTART_PAUSE: Duration = Duration::from_secs(5);

/// How the runner is started.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// The program that has the runner in it: this one.
    pub program: PathBuf,
    /// Where run files are. A runner of a separate user never sees it: the server opens its files.
    pub runs: PathBuf,
    /// Where spools are. As `runs`.
    pub output: PathBuf,
    /// What commands get back of what the server was started with.
    pub limits: InheritedLimits,
    /// Most commands at a time; more wait for a supervisor.
    pub max_running: usize,
    /// Where confined commands run; without it none can.
    pub confinement: Option<Arc<Confinement>>,
    /// Environment of the runner itself; commands never see it.
    pub environment: Vec<(OsString, OsString)>,
    /// Under whom it runs, when that is not the server's own account.
    pub separate_user: Option<SeparateUser>,
}

/// A runner under another account than the server.
#[derive(Debug, Clone)]
pub struct SeparateUser {
    /// Who starts something under it.
    pub launched_by: LaunchedBy,
    /// The directory where supervisors wait for a server. Reached by descriptor only: `account` must be allowed to make
    /// something in it, and may be unable to get there.
    pub attach: PathBuf,
}

/// Who starts what runs under another account than the server.
#[derive(Debug, Clone)]
pub enum LaunchedBy {
    /// The privileged launcher, a process that keeps root, for a server that is about to give it up.
    PrivilegedLauncher {
        /// The account of the commands.
        account: Identity,
        /// The account that the server is going to have.
        server: u32,
    },
    /// A unit that runs under that account.
    Unit(Arc<RunnerUnit>),
}

impl RunnerOptions {
    /// The runner inside the running program, even when its file was replaced meanwhile.
    pub fn of_this_program(
        runs: PathBuf,
        output: PathBuf,
        limits: InheritedLimits,
        max_running: usize,
    ) -> Self {
        // Nothing of the server's environment may show in /proc/PID/environ of the runner; what a
        // test build is told is handed on by name.
        let environment = hooks::handed_on().into_iter().chain(hooks::left_away());
        Self {
            program: PathBuf::from("/proc/self/exe"),
            runs,
            output,
            limits,
            max_running,
            confinement: None,
            environment: environment.collect(),
            separate_user: None,
        }
    }
}

/// The runner cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A directory that it needs cannot be opened.
    #[error("cannot open {path}")]
    Directory {
        /// Directory of the options, such as `runs`.
        path: PathBuf,
        /// What opening it said.
        #[source]
        source: io::Error,
    },
    /// No socket or no process.
    #[error("cannot start the runner")]
    Start(#[source] io::Error),
}

/// A started runner, not watched yet. Make it before the async runtime exists.
#[derive(Debug)]
pub struct Runner {
    origin: RunnerSpawner,
    socket: OwnedFd,
    process: RunnerProcess,
}

/// What makes one runner after the other.
#[derive(Debug)]
enum RunnerSpawner {
    /// This process, which the runner is a child of.
    Here(Box<Recipe>),
    /// The privileged launcher, which may start it under another account.
    PrivilegedLauncher(Arc<PrivilegedLauncher>),
    /// A unit of another account.
    Unit(UnitSpawner),
}

/// What a unit must be told, again when there is another one.
#[derive(Debug, Clone)]
struct UnitSpawner {
    unit: Arc<RunnerUnit>,
    attach: Arc<OwnedFd>,
    max_running: usize,
}

/// What a runner is made from, again and again.
#[derive(Debug)]
struct Recipe {
    options: RunnerOptions,
    /// The supervisors' end. Kept, so that frames that wait when a runner dies reach the next one.
    supervisors_end: OwnedFd,
    runs: OwnedFd,
    output: OwnedFd,
    home: Option<Arc<Home>>,
}

/// A runner that was started.
#[derive(Debug)]
struct RunnerProcess {
    pid: Pid,
    /// Becomes readable when it ended.
    pidfd: OwnedFd,
    /// `None` for one that another process reaps.
    child: Option<SpawnedProcess>,
    /// The connection to the unit that started it. When that is gone, so is the runner for us.
    line: Option<OwnedFd>,
}

/// Starts file brokers: processes that open files as the account of the commands.
#[derive(Debug, Clone)]
pub struct FileBrokerSource(BrokerOrigin);

#[derive(Debug, Clone)]
enum BrokerOrigin {
    PrivilegedLauncher(Arc<PrivilegedLauncher>),
    Unit(Arc<RunnerUnit>),
}

impl FileBrokerSource {
    /// Starts one and ends the one before it. Returns the server's end of its socket; blocks until it is there.
    ///
    /// # Errors
    /// What the kernel answers; `NotConnected` while there is nobody to start one.
    pub fn start(&self) -> io::Result<OwnedFd> {
        match &self.0 {
            BrokerOrigin::PrivilegedLauncher(launcher) => launcher.file_broker(),
            BrokerOrigin::Unit(unit) => unit.file_broker(),
        }
    }
}

impl Runner {
    /// Starts the runner.
    ///
    /// # Errors
    /// [`RunnerError`].
    pub fn start(options: RunnerOptions) -> Result<Self, RunnerError> {
        let (socket, supervisors_end) = way_to_supervisors().map_err(RunnerError::Start)?;
        let origin = match &options.separate_user {
            None => RunnerSpawner::Here(Box::new(Recipe {
                supervisors_end,
                runs: open_directory(&options.runs)?,
                output: open_directory(&options.output)?,
                home: Home::make().map(Arc::new),
                options,
            })),
            Some(SeparateUser { launched_by, attach }) => {
                let attach = open_directory(attach)?;
                match launched_by {
                    LaunchedBy::PrivilegedLauncher { account, server } => {
                        let ends = [supervisors_end.as_fd(), attach.as_fd()];
                        RunnerSpawner::PrivilegedLauncher(Arc::new(launcher(
                            &options, account, *server, ends,
                        )?))
                    }
                    LaunchedBy::Unit(unit) => {
                        let origin = UnitSpawner {
                            unit: Arc::clone(unit),
                            attach: Arc::new(attach),
                            max_running: options.max_running,
                        };
                        origin.begin(&supervisors_end).map_err(RunnerError::Start)?;
                        RunnerSpawner::Unit(origin)
                    }
                }
            }
        };
        let process = origin.runner().map_err(RunnerError::Start)?;
        Ok(Self {
            origin,
            socket,
            process,
        })
    }

    /// Where processes come from that open files as the account of the commands, when that is another one.
    pub fn file_broker(&self) -> Option<FileBrokerSource> {
        match &self.origin {
            RunnerSpawner::Here(_) => None,
            RunnerSpawner::PrivilegedLauncher(launcher) => Some(FileBrokerSource(
                BrokerOrigin::PrivilegedLauncher(Arc::clone(launcher)),
            )),
            RunnerSpawner::Unit(UnitSpawner { unit, .. }) => {
                Some(FileBrokerSource(BrokerOrigin::Unit(Arc::clone(unit))))
            }
        }
    }

    /// Hands it to the async runtime that runs this, which from then on starts another when it dies.
    ///
    /// # Errors
    /// When the runtime cannot watch its descriptors.
    pub fn watch(self) -> io::Result<RunnerHandle> {
        let Self {
            origin,
            socket,
            process,
        } = self;
        let process = WatchedProcess::new(process)?;
        let state = Arc::new(RunnerState {
            way: Mutex::new(Some(watch_way(socket)?)),
            restarts: AtomicU64::new(0),
            is_missing: AtomicBool::new(false),
        });
        let (kill_level, reach) = match &origin {
            RunnerSpawner::Here(recipe) => {
                let kill_level = match &recipe.home {
                    Some(home) if home.kills() => KillLevel::ControlGroup,
                    Some(_) | None => KillLevel::Subreaper,
                };
                (kill_level, SignalScope::Own(recipe.home.clone()))
            }
            RunnerSpawner::PrivilegedLauncher(_) | RunnerSpawner::Unit(_) => {
                (KillLevel::Subreaper, SignalScope::Supervisors)
            }
        };
        let watcher = tokio::spawn(keep_alive(origin, process, Arc::clone(&state)));
        Ok(RunnerHandle {
            inner: Arc::new(Inner {
                state,
                kill_level,
                reach,
                watcher,
            }),
        })
    }
}

/// Starts the privileged launcher, as long as this process may still start something under another account.
fn launcher(
    options: &RunnerOptions,
    account: &Identity,
    server: u32,
    ends: [BorrowedFd<'_>; 2],
) -> Result<PrivilegedLauncher, RunnerError> {
    let place = RunnerPlace::SeparateUser { server };
    let home = Home::make();
    if let Some(home) = &home {
        home.give_to(account.uid, account.gid);
    }
    let words = command_line::arguments(options.limits, options.max_running, place, home.as_ref());
    PrivilegedLauncher::start(&options.program, account, &words, &options.environment, ends)
        .map_err(RunnerError::Start)
}

/// The server's end and that of all supervisors.
fn way_to_supervisors() -> io::Result<(OwnedFd, OwnedFd)> {
    let (socket, supervisors_end) = socket::frame_pair()?;
    // All supervisors share this socket, so they share its timeout too.
    socket::set_receive_timeout(supervisors_end.as_fd(), Some(IDLE_INTERVAL))?;
    Ok((socket, supervisors_end))
}

fn watch_way(socket: OwnedFd) -> io::Result<Arc<AsyncFd<OwnedFd>>> {
    Ok(Arc::new(readiness::watch(socket, Interest::WRITABLE)?))
}

impl UnitSpawner {
    /// Has runners started for these supervisors from now on.
    fn begin(&self, supervisors_end: &OwnedFd) -> io::Result<()> {
        let ends = [supervisors_end.as_fd(), self.attach.as_fd()];
        self.unit.begin(self.max_running, ends)
    }

    /// A runner of the unit that is connected.
    fn runner(&self) -> io::Result<RunnerProcess> {
        let LaunchedProcess { pid, descriptor } = self.unit.runner()?;
        Ok(RunnerProcess {
            pid,
            pidfd: descriptor,
            child: None,
            line: Some(self.unit.line_end()?),
        })
    }

    /// A runner again. Of a unit that was connected to anew it has a way of its own to its supervisors: the one before
    /// leads to those of a runner that must not take anything any more.
    fn runner_again(&self) -> io::Result<(RunnerProcess, Option<OwnedFd>)> {
        if self.unit.is_connected() {
            return Ok((self.runner()?, None));
        }
        self.unit.connect_again()?;
        let (socket, supervisors_end) = way_to_supervisors()?;
        let runner = self.begin(&supervisors_end).and_then(|()| self.runner());
        match runner {
            Ok(runner) => Ok((runner, Some(socket))),
            Err(error) => {
                // The unit knows supervisors that nothing can be sent to.
                self.unit.disconnect();
                Err(error)
            }
        }
    }
}

impl RunnerSpawner {
    /// Starts a runner. May block for a moment.
    fn runner(&self) -> io::Result<RunnerProcess> {
        match self {
            Self::Here(recipe) => {
                let child = recipe.spawn()?;
                Ok(RunnerProcess {
                    pid: child.pid(),
                    pidfd: child.pidfd().try_clone_to_owned()?,
                    child: Some(child),
                    line: None,
                })
            }
            Self::PrivilegedLauncher(launcher) => {
                let LaunchedProcess { pid, descriptor } = launcher.runner()?;
                Ok(RunnerProcess {
                    pid,
                    pidfd: descriptor,
                    child: None,
                    line: None,
                })
            }
            Self::Unit(unit) => unit.runner(),
        }
    }

    /// The same from the async runtime, with another way to its supervisors if there is one.
    async fn runner_again(&self) -> io::Result<(RunnerProcess, Option<OwnedFd>)> {
        match self {
            Self::Here(_) => Ok((self.runner()?, None)),
            Self::PrivilegedLauncher(launcher) => {
                let asked = Self::PrivilegedLauncher(Arc::clone(launcher));
                let asked = tokio::task::spawn_blocking(move || asked.runner()).await;
                Ok((asked.map_err(io::Error::other)??, None))
            }
            Self::Unit(unit) => {
                let unit = unit.clone();
                let asked = tokio::task::spawn_blocking(move || unit.runner_again()).await;
                asked.map_err(io::Error::other)?
            }
        }
    }
}

impl Recipe {
    fn spawn(&self) -> io::Result<SpawnedProcess> {
        let Self {
            options,
            supervisors_end,
            runs,
            output,
            home,
        } = self;
        let place = options
            .confinement
            .as_ref()
            .map_or(RunnerPlace::Beside, |_| RunnerPlace::Confining);
        let arguments = command_line::arguments(options.limits, options.max_running, place, home.as_deref());
        let arguments: Vec<_> = arguments.iter().map(OsStr::new).collect();
        let environment: Vec<_> = options
            .environment
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .collect();
        let mut descriptors = vec![supervisors_end.as_fd(), runs.as_fd(), output.as_fd()];
        descriptors.extend(options.confinement.iter().flat_map(|place| place.descriptors()));
        process::spawn(&Spawn {
            program: &options.program,
            arguments: &arguments,
            environment: &environment,
            output: None,
            descriptors: &descriptors,
        })
    }
}

/// A way to the supervisors. When the last one is dropped, the runner ends once its last supervisor did.
#[derive(Debug, Clone)]
pub struct RunnerHandle {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Arc<RunnerState>,
    kill_level: KillLevel,
    reach: SignalScope,
    watcher: tokio::task::JoinHandle<()>,
}

/// What the watcher knows.
#[derive(Debug)]
struct RunnerState {
    /// To the supervisors. `None` when those that were there may take nothing more and there are no others yet.
    way: Mutex<Option<Arc<AsyncFd<OwnedFd>>>>,
    restarts: AtomicU64,
    /// The runner died and there is no other yet.
    is_missing: AtomicBool,
}

impl RunnerState {
    fn way(&self) -> MutexGuard<'_, Option<Arc<AsyncFd<OwnedFd>>>> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who can signal the processes of runs.
#[derive(Debug)]
enum SignalScope {
    /// The server itself, and their groups.
    Own(Option<Arc<Home>>),
    /// Only what runs under their account.
    Supervisors,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl RunnerHandle {
    /// Sends a start frame. It is on its way whole when this returns, and not at all on an error.
    ///
    /// # Errors
    /// What the kernel answers.
    ///
    /// # Cancel safety
    /// Cancelled, it has sent nothing.
    #[crate::compiled_once]
    pub async fn send(&self, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.inner.send(frame, descriptors).await
    }

    /// What kills the rest of runs whose supervisors died. Does not keep the runner alive.
    pub fn sweeper(&self) -> Sweeper {
        match &self.inner.reach {
            SignalScope::Own(home) => Sweeper(Broom::Own(home.clone())),
            SignalScope::Supervisors => Sweeper(Broom::Supervisors(Arc::downgrade(&self.inner))),
        }
    }

    /// How far a kill reaches on this machine.
    pub fn kill_level(&self) -> KillLevel {
        self.inner.kill_level
    }

    /// How often a runner died and another was started.
    pub fn restarts(&self) -> u64 {
        self.inner.state.restarts.load(Ordering::Relaxed)
    }

    /// Whether there is a runner at this moment.
    pub fn is_there(&self) -> bool {
        !self.inner.state.is_missing.load(Ordering::Relaxed)
    }
}

impl Inner {
    async fn send(&self, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let way = self.state.way().clone().ok_or(io::ErrorKind::NotConnected)?;
        way.async_io(Interest::WRITABLE, |socket| {
            socket::send_frame(socket.as_fd(), frame, descriptors)
        })
        .await
    }
}

/// Kills what is left of a run whose supervisor died.
#[derive(Debug, Clone)]
pub struct Sweeper(Broom);

#[derive(Debug, Clone)]
enum Broom {
    Own(Option<Arc<Home>>),
    Supervisors(Weak<Inner>),
}

impl Sweeper {
    /// Kills what is left in the session of a run, whose fence must be one of this boot, and returns when that is
    /// done or nobody is there to do it.
    ///
    /// # Cancel safety
    /// Cancelled, it may have done it, and can be done again.
    #[crate::compiled_once]
    pub async fn sweep(&self, fence: &Fence) {
        let runner = match &self.0 {
            Broom::Own(home) => {
                let (home, pid, start_time) = (home.clone(), fence.pid, fence.start_time);
                let swept =
                    tokio::task::spawn_blocking(move || tree::sweep(pid, start_time, home.as_deref()));
                if swept.await.is_err() {
                    tracing::error!("what is left of a run whose supervisor died may not be killed");
                }
                return;
            }
            Broom::Supervisors(runner) => runner.upgrade(),
        };
        let Some(runner) = runner else { return };
        let asked = timeout(SWEEP_TIMEOUT, ask_to_sweep(&runner, fence)).await;
        if let Ok(Err(error)) = asked {
            tracing::error!(%error, "what is left of a run whose supervisor died cannot be killed");
        } else if asked.is_err() {
            tracing::error!("nobody kills what is left of a run whose supervisor died");
        }
    }
}

async fn ask_to_sweep(runner: &Inner, fence: &Fence) -> io::Result<()> {
    let Fence { pid, start_time, .. } = fence;
    let sweep = Sweep {
        pid: *pid,
        start_time: *start_time,
    };
    let (ours, theirs) = socket::stream_pair()?;
    runner.send(&sweep.encode(), &[theirs.as_fd()]).await?;
    drop(theirs);
    // Nothing is ever written to it: it closes when it is done.
    let done = readiness::watch(ours, Interest::READABLE)?;
    drop(done.readable().await?);
    Ok(())
}

fn open_directory(path: &Path) -> Result<OwnedFd, RunnerError> {
    rustix::fs::open(
        path,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|error| RunnerError::Directory {
        path: path.to_owned(),
        source: error.into(),
    })
}

/// A runner whose end the async runtime reports.
struct WatchedProcess {
    end: AsyncFd<OwnedFd>,
    pid: Pid,
    child: Option<SpawnedProcess>,
    line: Option<AsyncFd<OwnedFd>>,
}

/// Why a runner is none any more.
#[derive(Debug)]
enum Loss {
    /// It ended; how, if it is ours to know.
    Ended(Option<process::Ended>),
    /// The unit that started it is gone. It may live on, but takes nothing from us.
    Unit,
}

impl WatchedProcess {
    fn new(process: RunnerProcess) -> io::Result<Self> {
        let RunnerProcess {
            pid,
            pidfd,
            child,
            line,
        } = process;
        let end = readiness::watch(pidfd, Interest::READABLE)?;
        let line = line
            .map(|line| readiness::watch(line, Interest::READABLE))
            .transpose()?;
        Ok(Self {
            end,
            pid,
            child,
            line,
        })
    }

    async fn lost(self) -> io::Result<Loss> {
        tokio::select! {
            ended = self.end.readable() => drop(ended?),
            hung_up = hung_up(self.line.as_ref()) => {
                hung_up?;
                return Ok(Loss::Unit);
            }
        }
        Ok(Loss::Ended(self.child.map(SpawnedProcess::wait).transpose()?))
    }
}

/// Waits until the other end is gone. What it answers is for the caller that asked it something.
async fn hung_up(line: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    let Some(line) = line else {
        return std::future::pending().await;
    };
    loop {
        let mut guard = line.readable().await?;
        if guard.ready().is_read_closed() {
            return Ok(());
        }
        guard.clear_ready();
    }
}

/// Starts another runner whenever one died. Busy supervisors go on meanwhile, and frames that were sent wait.
#[expect(
    clippy::infinite_loop,
    reason = "it ends when the last handle is dropped, which aborts it"
)]
async fn keep_alive(mut origin: RunnerSpawner, mut process: WatchedProcess, state: Arc<RunnerState>) {
    if let RunnerSpawner::Here(recipe) = &mut origin {
        // What a kill point of a test build ended once must come back to life.
        recipe.options.environment = hooks::left_away().into_iter().collect();
    }
    let mut pause = Duration::ZERO;
    loop {
        let began = tokio::time::Instant::now();
        let pid = process.pid;
        let lost = process.lost().await;
        state.is_missing.store(true, Ordering::Relaxed);
        match lost {
            Ok(Loss::Ended(ended)) => {
                tracing::error!(runner.pid = pid, runner.ended = ?ended, "the runner died; starting another");
            }
            Ok(Loss::Unit) => {
                // Its supervisors see that, too, and take nothing more.
                *state.way() = None;
                tracing::error!(
                    runner.pid = pid,
                    "the unit of the runner is gone; connecting again"
                );
            }
            Err(error) => tracing::error!(runner.pid = pid, error = %error, "the runner cannot be watched"),
        }
        // One that lives only moments is not started in a tight loop.
        pause = if began.elapsed() > MAX_RESTART_PAUSE {
            Duration::ZERO
        } else {
            (pause * 2).clamp(Duration::from_millis(20), MAX_RESTART_PAUSE)
        };
        process = loop {
            tokio::time::sleep(pause).await;
            let again = origin.runner_again().await;
            match again.and_then(|again| take_over(again, &state)) {
                Ok(process) => break process,
                Err(error) => {
                    tracing::error!(error = %error, "the runner cannot be started");
                    pause = (pause * 2).clamp(Duration::from_millis(20), MAX_RESTART_PAUSE);
                }
            }
        };
        state.is_missing.store(false, Ordering::Relaxed);
        state.restarts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Watches another runner, and sends what it is to start on the way that leads to it.
fn take_over(again: (RunnerProcess, Option<OwnedFd>), state: &RunnerState) -> io::Result<WatchedProcess> {
    let (process, way) = again;
    if let Some(way) = way {
        *state.way() = Some(watch_way(way)?);
    }
    WatchedProcess::new(process)
}
