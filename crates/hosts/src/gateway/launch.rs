//! Starting a run: the last checks, the run file, the start frame.

use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{Mode, OFlags};

use countersign_domain::{Bound, Isolation, RunId};
use countersign_ledger::{FoundRun, launch::Permit};
use countersign_runner::{
    RunnerHandle,
    run_file::{self, Inspected, Voided},
    wire::MAX_FRAME_BYTES,
};
use countersign_sys::{clock, faults, fs::sealed, hooks, socket};

use crate::{
    Attempt, Host, RunTerms,
    confined::Hidden,
    peer_fs::{FileAccessError, Files},
};

use super::{
    error::{Mismatch, StartError},
    launch_spec::{Counts, LaunchSpec},
    line::Line,
    plan::{self, Opened},
    rulesets::Rulesets,
    run_files::{MadeSpool, RunFiles, most},
    spent_files::SpentFiles,
    supervised::Supervised,
    turns::Turns,
};

/// Room in a start frame for everything but the plan.
const FRAME_HEAD_BYTES: usize = 512;

/// The output of a run that lies in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSpool {
    /// The run that wrote it, from the name of the file.
    pub run_id: RunId,
    /// Length of the file; under another account at most what one run may keep.
    pub bytes: u64,
    /// When it was written to last, in Unix milliseconds.
    pub written_ms: i64,
}

/// This machine as a host.
#[derive(Debug, Clone)]
pub struct GatewayHost {
    runner: RunnerHandle,
    runs: PathBuf,
    output: PathBuf,
    /// What confined commands do not see, if there can be any.
    hidden: Option<Arc<Hidden>>,
    /// The files that commands see.
    files: Files,
    /// Under whom commands run, when that is not the server's own account.
    separate_user: Option<Arc<SeparateUser>>,
    /// Who starts clients of container engines, where the commands' account is another one: it must never reach an engine.
    clients: Option<Arc<Self>>,
    /// Files of ended runs.
    spent: Arc<SpentFiles>,
    /// What the kernel was told of programs before.
    rulesets: Arc<Rulesets>,
    /// Setup commands of sandboxes.
    pub(super) setups: Turns,
}

/// The account that commands run under, as far as the server has to do with it. What that account can write is never
/// believed beyond its own runs.
#[derive(Debug)]
struct SeparateUser {
    uid: u32,
    /// Where its supervisors wait for a server.
    attach: PathBuf,
    /// Most bytes of output that any of its runs may keep.
    max_run_bytes: u64,
}

impl GatewayHost {
    /// A host that keeps run files in `runs` and spools in `output`, the directories that the runner has too.
    pub fn new(runner: RunnerHandle, runs: PathBuf, output: PathBuf) -> Self {
        Self {
            runner,
            runs,
            output,
            hidden: None,
            files: Files::Direct,
            separate_user: None,
            clients: None,
            spent: Arc::default(),
            rulesets: Arc::default(),
            setups: Turns::default(),
        }
    }

    /// The same where the runner has another account than the server: this one has the server's, for clients of container
    /// engines.
    #[must_use]
    pub fn with_clients(self, runner: RunnerHandle) -> Self {
        let clients = Self::new(runner, self.runs.clone(), self.output.clone());
        Self {
            clients: Some(Arc::new(clients)),
            ..self
        }
    }

    /// The host whose runner has the server's own account. `None` where there is none, as commands have another one.
    pub(super) fn own_account(&self) -> Option<&Self> {
        match (&self.clients, &self.separate_user) {
            (Some(clients), _) => Some(clients),
            (None, None) => Some(self),
            (None, Some(_)) => None,
        }
    }

    /// The same for a runner under another account, whose supervisors wait for a server in the directory `attach`. No
    /// run of it keeps more than `max_run_bytes` of output, however much it writes.
    #[must_use]
    pub fn with_account(self, uid: u32, attach: PathBuf, max_run_bytes: u64) -> Self {
        Self {
            separate_user: Some(Arc::new(SeparateUser {
                uid,
                attach,
                max_run_bytes,
            })),
            ..self
        }
    }

    /// The same for a runner under another account, whose files these are.
    #[must_use]
    pub fn with_files(self, files: Files) -> Self {
        Self { files, ..self }
    }

    /// The same for a runner that was given a confinement, which hides this.
    #[must_use]
    pub fn with_confinement(self, hidden: Hidden) -> Self {
        Self {
            hidden: Some(Arc::new(hidden)),
            ..self
        }
    }

    /// The best level that commands reach here.
    pub const fn isolation(&self) -> Isolation {
        match (&self.separate_user, &self.hidden) {
            (Some(_), _) => Isolation::SeparateUser,
            (None, Some(_)) => Isolation::Confined,
            (None, None) => Isolation::SameUser,
        }
    }

    /// What confined commands do not see, if there can be any.
    pub fn hidden(&self) -> Option<&Hidden> {
        self.hidden.as_deref()
    }

    /// The files that commands see.
    pub const fn files(&self) -> &Files {
        &self.files
    }

    /// The runner behind it.
    pub const fn runner(&self) -> &RunnerHandle {
        &self.runner
    }

    /// Where the file of a run is.
    pub fn run_file(&self, run_id: &RunId) -> PathBuf {
        self.runs.join(run_id.as_str())
    }

    /// Where the spool of a run is, if it has one.
    pub fn spool(&self, run_id: &RunId) -> PathBuf {
        self.output.join(run_id.as_str())
    }

    /// All spools, oldest first.
    ///
    /// # Errors
    /// When their directory cannot be read.
    pub fn spools(&self) -> io::Result<Vec<StoredSpool>> {
        use std::os::unix::fs::MetadataExt as _;
        let longest = self
            .separate_user
            .as_ref()
            .map_or(u64::MAX, |separate_user| most(separate_user.max_run_bytes));
        let mut spools = Vec::new();
        for FileOfRun { run_id, metadata } in files_of_runs(&self.output)? {
            spools.push(StoredSpool {
                run_id,
                // While it is written to, its length is the word of the account that runs commands.
                bytes: metadata.len().min(longest),
                written_ms: metadata.mtime().saturating_mul(1000) + metadata.mtime_nsec() / 1_000_000,
            });
        }
        spools.sort_by_key(|spool| spool.written_ms);
        Ok(spools)
    }

    /// The runs that have a file. What is not named by an id of ours is none: setup commands have files, too.
    ///
    /// # Errors
    /// When their directory cannot be read.
    pub fn found_runs(&self) -> io::Result<Vec<FoundRun>> {
        let files = files_of_runs(&self.runs)?.into_iter();
        let found = files.filter_map(|FileOfRun { run_id, .. }| {
            let made_at = clock::made_at(&run_id)?;
            Some(FoundRun { run_id, made_at })
        });
        Ok(found.collect())
    }

    /// The socket of a run's supervisor while that has no server, and the account that it must be of.
    pub(super) fn attach_socket(&self, run_id: &RunId) -> (PathBuf, u32) {
        let name = format!("{run_id}.s");
        let own = self.runs.join(&name);
        match &self.separate_user {
            // Nobody but the server makes anything there: that of a client waits beside the run files.
            Some(separate_user) if self.clients.is_none() || fs::symlink_metadata(&own).is_err() => {
                (separate_user.attach.join(name), separate_user.uid)
            }
            None | Some(_) => (own, rustix::process::geteuid().as_raw()),
        }
    }

    /// Where the exact output of a run goes, for the caller that follows the run.
    pub(super) fn run_files(&self, run_id: &RunId) -> RunFiles {
        RunFiles {
            run_file: self.run_file(run_id),
            made_spool: self.separate_user.as_ref().map(|separate_user| MadeSpool {
                path: self.spool(run_id),
                most: most(separate_user.max_run_bytes),
            }),
            sweeper: self.runner.sweeper(),
        }
    }

    /// Takes away everything that is kept of a run.
    pub fn forget(&self, run_id: &RunId) {
        for path in [
            self.spool(run_id),
            self.run_file(run_id),
            self.attach_socket(run_id).0,
        ] {
            remove(&path);
        }
    }

    /// The end of a run is on record, and nothing of it goes on: a later run may have its file.
    pub fn release(&self, run_id: &RunId) {
        // Under another account a process of commands may have the file open, and would write to it again.
        if self.separate_user.is_none() {
            self.spent.add(run_id.clone());
        }
    }

    /// Takes away the exact output of a run.
    pub fn forget_output(&self, run_id: &RunId) {
        remove(&self.spool(run_id));
    }

    /// What the file of a run says.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn inspect(&self, run_id: &RunId) -> io::Result<Inspected> {
        run_file::inspect(&self.run_file(run_id))
    }

    /// Makes a run that did not start impossible to start.
    ///
    /// # Errors
    /// When its file cannot be written.
    pub fn void(&self, run_id: &RunId) -> io::Result<Voided> {
        let voided = run_file::void(&self.run_file(run_id))?;
        if voided == Voided::Done {
            self.run_files(run_id).tidy();
        }
        Ok(voided)
    }

    /// Starts a run without a permit, for tests of the runner, which have no ledger. No other build has this.
    ///
    /// # Errors
    /// As [`Host::run`].
    #[cfg(feature = "test-hooks")]
    #[crate::compiled_once]
    pub async fn start(&self, spec: LaunchSpec) -> Result<Supervised, StartError> {
        self.launch(spec).await
    }

    async fn launch(&self, spec: LaunchSpec) -> Result<Supervised, StartError> {
        self.check_isolation(&spec)?;
        hooks::pause("host.begun");
        let directory = open_directory(&self.files, &spec)?;
        hooks::pause("host.directory-open");
        if matches!(spec.bound, Bound::Held { .. }) {
            return self.launch_held(&spec).await;
        }
        let (opened, plan) = plan::prepare(
            &spec,
            &self.files,
            &self.rulesets,
            directory.as_fd(),
            self.hidden(),
        )?;
        self.dispatch(&spec, &directory, &opened, plan).await
    }

    /// Whether the supervisors have another account than the server.
    pub(super) const fn is_separate_user(&self) -> bool {
        self.separate_user.is_some()
    }

    /// The directory that is the server's alone.
    pub(super) fn own_directory(&self) -> &Path {
        self.runs.parent().unwrap_or(&self.runs)
    }

    /// Hands a run to a supervisor.
    pub(super) async fn dispatch(
        &self,
        spec: &LaunchSpec,
        directory: &OwnedFd,
        opened: &Opened,
        plan: Vec<u8>,
    ) -> Result<Supervised, StartError> {
        let (ours, theirs) = socket::stream_pair().map_err(StartError::Runner)?;
        let line = Line::watch(ours).map_err(StartError::Runner)?;
        let run_file = self.create_run_file(spec)?;
        let spool = self.create_spool(spec)?;

        let Opened {
            programs,
            rulesets,
            scripts,
        } = opened;
        let mut descriptors = vec![run_file.as_fd(), theirs.as_fd(), directory.as_fd()];
        descriptors.extend(programs.iter().map(AsFd::as_fd));
        descriptors.extend(rulesets.iter().map(|ruleset| ruleset.as_fd()));
        let count =
            |descriptors: usize| u8::try_from(descriptors).map_err(|_too_many| StartError::NotPassable);
        let counts = Counts {
            executables: count(programs.len())?,
            rulesets: count(rulesets.len())?,
        };
        let mut order = spec.order(counts, spool.as_ref(), scripts.as_ref());
        let memory_file;
        if plan.len() <= MAX_FRAME_BYTES - FRAME_HEAD_BYTES {
            order.plan = Some(plan);
        } else {
            memory_file = sealed(c"countersign-plan", &plan).map_err(|error| self.withdraw(spec, error))?;
            descriptors.push(memory_file.as_fd());
        }
        descriptors.extend(spool.as_ref().map(AsFd::as_fd));
        descriptors.extend(scripts.as_ref().map(AsFd::as_fd));
        self.runner
            .send(&order.encode(), &descriptors)
            .await
            .map_err(|error| self.withdraw(spec, error))?;
        // The supervisor's lock lasts as long as any copy of this descriptor; ours is closed here.
        drop(run_file);
        let starts = if order.observes {
            rulesets
                .iter()
                .map(|ruleset| Arc::clone(ruleset.starts()))
                .collect()
        } else {
            Vec::new()
        };
        Ok(Supervised::new(
            line,
            spec.run_id.clone(),
            self.run_files(&spec.run_id),
            spec.terms.keep_when_orphaned,
            spec.terms.max_run_bytes,
        )
        .observing(starts))
    }

    /// A run is never started with more rights than its record says, nor is one recorded with fewer than it had.
    fn check_isolation(&self, spec: &LaunchSpec) -> Result<(), StartError> {
        if self.separate_user.is_some() {
            return match spec.isolation {
                Isolation::SeparateUser => Ok(()),
                Isolation::Confined | Isolation::SameUser | Isolation::Sandbox | Isolation::Node => {
                    Err(StartError::Isolation {
                        recorded: spec.isolation,
                        now: Isolation::SeparateUser,
                    })
                }
            };
        }
        match (spec.isolation, &self.hidden) {
            (Isolation::Confined, Some(hidden)) if hidden.hides(&spec.cwd) => {
                Err(StartError::HiddenDirectory(spec.cwd.clone()))
            }
            (Isolation::Confined, Some(hidden)) => match hidden.replaced(&spec.cwd) {
                Some(path) => Err(StartError::ReplacedDirectory(path.to_path_buf())),
                None => Ok(()),
            },
            (Isolation::SameUser, _) => Ok(()),
            (Isolation::Confined | Isolation::SeparateUser | Isolation::Sandbox | Isolation::Node, _) => {
                Err(StartError::Isolation {
                    recorded: spec.isolation,
                    now: self.isolation(),
                })
            }
        }
    }

    fn create_run_file(&self, spec: &LaunchSpec) -> Result<OwnedFd, StartError> {
        let exclusive = match spec.terms.attempt {
            Attempt::First => {
                if let Some(file) = self.spent.reuse(&self.runs, &spec.run_id) {
                    return Ok(file);
                }
                OFlags::EXCL
            }
            Attempt::Again => OFlags::empty(),
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | exclusive;
        let path = self.run_file(&spec.run_id);
        faults::fail_at("run-file.create")
            .and_then(|()| rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR))
            .map_err(|error| match error {
                rustix::io::Errno::EXIST => StartError::AttemptedBefore(spec.run_id.clone()),
                error => StartError::RunFile {
                    run_id: spec.run_id.clone(),
                    source: error.into(),
                },
            })
    }

    /// The spool, opened for a supervisor that cannot reach it. Empty ones are taken away when the run has ended.
    fn create_spool(&self, spec: &LaunchSpec) -> Result<Option<OwnedFd>, StartError> {
        if self.separate_user.is_none() {
            return Ok(None);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = rustix::fs::open(self.spool(&spec.run_id), flags, Mode::RUSR | Mode::WUSR);
        opened
            .map(Some)
            .map_err(|error| self.withdraw(spec, error.into()))
    }

    /// Takes the run file of a first attempt away again: nothing was sent.
    fn withdraw(&self, spec: &LaunchSpec, error: io::Error) -> StartError {
        if spec.terms.attempt == Attempt::First
            && let Err(error) = fs::remove_file(self.run_file(&spec.run_id))
        {
            tracing::warn!(run.id = %spec.run_id, error = %error, "an unused run file stays");
        }
        self.run_files(&spec.run_id).tidy();
        StartError::Runner(error)
    }
}

impl Host for GatewayHost {
    /// # Cancel safety
    /// Cancelled while the runner's queue is full, it has started nothing, but the empty run file stays.
    async fn run(&self, permit: Permit, terms: RunTerms) -> Result<Supervised, StartError> {
        self.launch(LaunchSpec::new(permit, terms)?).await
    }
}

/// A file that is named like a run.
struct FileOfRun {
    run_id: RunId,
    metadata: fs::Metadata,
}

fn files_of_runs(directory: &Path) -> io::Result<Vec<FileOfRun>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok();
        match (name.and_then(|name| RunId::parse(name).ok()), entry.metadata()) {
            (Some(run_id), Ok(metadata)) if metadata.is_file() => files.push(FileOfRun { run_id, metadata }),
            // It went meanwhile, or is none of ours.
            (Some(_) | None, Ok(_) | Err(_)) => {}
        }
    }
    Ok(files)
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "a file of a run that is gone stays");
        }
        Ok(()) | Err(_) => {}
    }
}

fn open_directory(files: &Files, spec: &LaunchSpec) -> Result<OwnedFd, StartError> {
    use rustix::io::Errno;
    let mismatch = || StartError::BindingMismatch {
        what: Mismatch::WorkingDirectory,
        path: spec.cwd.clone(),
    };
    let failure = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => mismatch(),
        Some(_) | None => StartError::WorkingDirectory {
            path: spec.cwd.clone(),
            source: error,
        },
    };
    let directory = files.open_directory(&spec.cwd).map_err(|error| match error {
        FileAccessError::Refused(error) => failure(error),
        FileAccessError::Blind(blind) => blind.into(),
    })?;
    let stat = rustix::fs::fstat(&directory).map_err(|error| failure(error.into()))?;
    if (stat.st_dev, stat.st_ino) == (spec.cwd_dev, spec.cwd_ino) {
        Ok(directory)
    } else {
        Err(mismatch())
    }
}
