//! The server's end of the warm runner.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::fs::{Mode, OFlags};
use tokio::io::{Interest, unix::AsyncFd};

use crate::sys::{
    hooks,
    process::{self, InheritedLimits, Spawn, SpawnedProcess},
    readiness, socket,
};

use super::{
    KillLevel,
    cgroup::Home,
    confine::Confinement,
    limits::IDLE_INTERVAL,
    pool::{self, Namespaces},
};

/// The longest pause before a runner that keeps dying is started again.
const MAX_RESTART_PAUSE: Duration = Duration::from_secs(5);

/// How the runner is started.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// The program that has the runner in it: this one.
    pub program: PathBuf,
    /// Where run files are.
    pub runs: PathBuf,
    /// Where spools are.
    pub output: PathBuf,
    /// What commands inherit.
    pub limits: InheritedLimits,
    /// Most commands at a time; more wait for a supervisor.
    pub max_running: usize,
    /// Where confined commands run; without it none can.
    pub confinement: Option<Arc<Confinement>>,
    /// Environment of the runner itself; commands never see it.
    pub environment: Vec<(OsString, OsString)>,
}

impl RunnerOptions {
    /// The runner inside the running program, even when its file was replaced meanwhile.
    pub fn of_this_program(
        runs: PathBuf,
        output: PathBuf,
        limits: InheritedLimits,
        max_running: usize,
    ) -> Self {
        // Nothing of the server's environment may show in /proc/PID/environ of the runner; a kill point of a
        // test build is handed on by name.
        let environment = hooks::handed_on();
        Self {
            program: PathBuf::from("/proc/self/exe"),
            runs,
            output,
            limits,
            max_running,
            confinement: None,
            environment,
        }
    }
}

/// The runner cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A directory that it needs cannot be opened.
    #[error("cannot open {path}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
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
    origin: Origin,
    socket: OwnedFd,
    process: SpawnedProcess,
}

/// What a runner is made from, again and again.
#[derive(Debug)]
struct Origin {
    options: RunnerOptions,
    /// The supervisors' end. Kept, so that frames that wait when a runner dies reach the next one.
    supervisors_end: OwnedFd,
    runs: OwnedFd,
    output: OwnedFd,
    home: Option<Home>,
}

impl Runner {
    /// Starts the runner.
    ///
    /// # Errors
    /// [`RunnerError`].
    pub fn start(options: RunnerOptions) -> Result<Self, RunnerError> {
        let runs = open_directory(&options.runs)?;
        let output = open_directory(&options.output)?;
        let (socket, supervisors_end) = socket::frame_pair().map_err(RunnerError::Start)?;
        // All supervisors share this socket, so they share its patience too.
        socket::set_receive_timeout(supervisors_end.as_fd(), Some(IDLE_INTERVAL))
            .map_err(RunnerError::Start)?;
        let origin = Origin {
            options,
            supervisors_end,
            runs,
            output,
            home: Home::make(),
        };
        let process = origin.spawn().map_err(RunnerError::Start)?;
        Ok(Self {
            origin,
            socket,
            process,
        })
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
        let socket = readiness::watch(socket, Interest::WRITABLE)?;
        let restarts = Arc::new(AtomicU64::new(0));
        let kill_level = match origin.home {
            Some(_) => KillLevel::ControlGroup,
            None => KillLevel::Subreaper,
        };
        let watcher = tokio::spawn(keep_alive(origin, process, Arc::clone(&restarts)));
        Ok(RunnerHandle {
            inner: Arc::new(Inner {
                socket,
                restarts,
                kill_level,
                watcher,
            }),
        })
    }
}

impl Origin {
    fn spawn(&self) -> io::Result<SpawnedProcess> {
        let Self {
            options,
            supervisors_end,
            runs,
            output,
            home,
        } = self;
        let namespaces = options
            .confinement
            .as_ref()
            .map_or(Namespaces::None, |_| Namespaces::Given);
        let arguments = pool::arguments(options.limits, options.max_running, namespaces, home.as_ref());
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
    socket: AsyncFd<OwnedFd>,
    restarts: Arc<AtomicU64>,
    kill_level: KillLevel,
    watcher: tokio::task::JoinHandle<()>,
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
    pub(crate) async fn send(&self, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.inner
            .socket
            .async_io(Interest::WRITABLE, |socket| {
                socket::send_frame(socket.as_fd(), frame, descriptors)
            })
            .await
    }

    /// How far a kill reaches on this machine.
    pub fn kill_level(&self) -> KillLevel {
        self.inner.kill_level
    }

    /// How often a runner died and another was started.
    pub fn restarts(&self) -> u64 {
        self.inner.restarts.load(Ordering::Relaxed)
    }
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

/// A child whose end the async runtime reports.
struct WatchedProcess {
    end: AsyncFd<OwnedFd>,
    process: SpawnedProcess,
}

impl WatchedProcess {
    fn new(process: SpawnedProcess) -> io::Result<Self> {
        let end = readiness::watch(process.pidfd().try_clone_to_owned()?, Interest::READABLE)?;
        Ok(Self { end, process })
    }

    async fn ended(self) -> io::Result<process::Ended> {
        drop(self.end.readable().await?);
        self.process.wait()
    }
}

/// Starts another runner whenever one died. Busy supervisors go on meanwhile, and frames that were sent wait.
#[expect(
    clippy::infinite_loop,
    reason = "it ends when the last handle is dropped, which aborts it"
)]
async fn keep_alive(mut origin: Origin, mut process: WatchedProcess, restarts: Arc<AtomicU64>) {
    // What a kill point of a test build ended once must come back to life.
    origin.options.environment.clear();
    let mut pause = Duration::ZERO;
    loop {
        let began = tokio::time::Instant::now();
        let pid = process.process.pid();
        match process.ended().await {
            Ok(ended) => {
                tracing::error!(runner.pid = pid, runner.ended = ?ended, "the runner died; starting another");
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
            match origin.spawn().and_then(WatchedProcess::new) {
                Ok(process) => break process,
                Err(error) => {
                    tracing::error!(error = %error, "the runner cannot be started");
                    pause = (pause * 2).clamp(Duration::from_millis(20), MAX_RESTART_PAUSE);
                }
            }
        };
        restarts.fetch_add(1, Ordering::Relaxed);
    }
}
