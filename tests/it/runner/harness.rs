//! A gateway host with its own directories and its own runner, inside the test process.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use countersign_domain::{
    Bound, Confinement, Exit, FileIdentity, Isolation, LaunchId, Leftovers, OutputStream, RunId,
};
use countersign_hosts::{
    Attempt, RunTerms,
    gateway::{EndedRun, GatewayHost, KeptOutput, LaunchSpec, RunControl, Supervised, SupervisorEvent},
};
use countersign_runner::{
    RunLimits, Runner, RunnerOptions,
    output::spool::{self, Selection, SpoolReader},
};
use countersign_sys::{
    clock::{Ids, SystemIds},
    hooks,
    process::{InheritedLimits, inspect, list},
};
use tempfile::TempDir;

/// Longer than anything here takes, on a machine that is busy with other things too.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Directories of one server after the other.
pub(crate) struct RunnerDirs {
    directory: TempDir,
    /// In the environment of every run that is started here, so that what is left of any can be found.
    pub(crate) mark: String,
}

impl RunnerDirs {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("runs")).unwrap();
        fs::create_dir(directory.path().join("output")).unwrap();
        Self {
            directory,
            mark: SystemIds.random().to_string(),
        }
    }

    /// The directories of another process's server.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn server(&self) -> Server {
        Server::at(self.path(), &self.mark, None)
    }

    pub(crate) fn server_that_dies_at(&self, point: &str) -> Server {
        Server::at(self.path(), &self.mark, Some(point))
    }

    /// The processes of all runs that were started here and are alive.
    pub(crate) fn alive(&self) -> Vec<i32> {
        let mark = format!("MARK={}", self.mark);
        let is_marked = |pid: &i32| {
            fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
                environ
                    .split(|byte| *byte == 0)
                    .any(|variable| variable == mark.as_bytes())
            })
        };
        let is_alive = |pid: &i32| inspect(*pid).is_some_and(|process| !process.is_zombie);
        list()
            .unwrap()
            .into_iter()
            .filter(is_marked)
            .filter(is_alive)
            .collect()
    }

    #[track_caller]
    pub(crate) fn assert_nothing_is_alive(&self) {
        assert_eq!(self.alive(), Vec::<i32>::new(), "processes of the run are left");
    }

    pub(crate) async fn until_nothing_is_alive(&self) {
        until("nothing of the run is alive", || self.alive().is_empty()).await;
    }
}

/// Waits for something that cannot be awaited.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(
        tokio::time::timeout(TIMEOUT, wait).await.is_ok(),
        "never happened: {what}"
    );
}

pub(crate) struct Server {
    pub(crate) host: GatewayHost,
    pub(crate) path: PathBuf,
    mark: String,
}

impl Server {
    pub(crate) fn at(path: &Path, mark: &str, kill_point: Option<&str>) -> Self {
        let (runs, output) = (path.join("runs"), path.join("output"));
        let limits = InheritedLimits {
            open_files: Some(1000),
            umask: 0o027,
            nice: 0,
        };
        let environment =
            kill_point.map(|point| (OsString::from(hooks::KILL_VARIABLE), OsString::from(point)));
        let options = RunnerOptions {
            program: PathBuf::from(env!("CARGO_BIN_EXE_countersign")),
            environment: environment.into_iter().collect(),
            ..RunnerOptions::of_this_program(runs.clone(), output.clone(), limits, 64)
        };
        let runner = Runner::start(options).unwrap().watch().unwrap();
        Self {
            host: GatewayHost::new(runner, runs, output),
            path: path.to_owned(),
            mark: mark.to_owned(),
        }
    }

    /// A run of a shell script in the server's own directory.
    pub(crate) fn script(&self, script: &str) -> LaunchSpec {
        self.spec(Bound::Text {
            shell: "/bin/sh".to_owned(),
            text: script.to_owned(),
        })
    }

    pub(crate) fn argv(&self, argv: &[&str]) -> LaunchSpec {
        let argv: Vec<_> = argv.iter().map(|word| (*word).to_owned()).collect();
        self.spec(Bound::Exec {
            path: argv[0].clone(),
            argv,
            identity: None,
        })
    }

    pub(crate) fn spec(&self, bound: Bound) -> LaunchSpec {
        let directory = fs::metadata(&self.path).unwrap();
        let variable = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        LaunchSpec {
            run_id: RunId::parse(SystemIds.random().to_string()).unwrap(),
            launch_id: LaunchId::parse(SystemIds.random().to_string()).unwrap(),
            isolation: Isolation::SameUser,
            bound,
            start: None,
            cwd: self.path.clone(),
            cwd_dev: directory.dev(),
            cwd_ino: directory.ino(),
            executables: vec![],
            scripts: vec![],
            confinement: Confinement::default(),
            held: false,
            denied_children: Vec::new(),
            answered: false,
            timeout: None,
            terms: RunTerms {
                shell: None,
                attempt: Attempt::First,
                least_isolation: Isolation::SameUser,
                env: vec![
                    variable("PATH", "/usr/local/bin:/usr/bin:/bin"),
                    variable("MARK", &self.mark),
                ],
                kill_grace: Duration::ZERO,
                leftovers: Leftovers::Kill,
                keep_when_orphaned: false,
                stdin_open: false,
                terminal: None,
                max_run_bytes: 1 << 30,
                limits: RunLimits::default(),
                record_input: false,
                observe: false,
            },
        }
    }

    /// Starts a run and stays with it to its end.
    pub(crate) async fn run(&self, spec: LaunchSpec) -> Report {
        let supervised = self.host.start(spec).await.unwrap();
        let Supervised { events, control } = supervised;
        let report = Report::of(Supervised { events, control }).await;
        report.control.stored();
        report
    }

    /// The exact output of a run that has a spool.
    pub(crate) fn spooled(&self, run_id: &RunId, selection: Selection) -> Vec<u8> {
        let file = fs::File::open(self.host.spool(run_id)).unwrap();
        let mut bytes = Vec::new();
        let mut reader = SpoolReader::open(file, selection, 0, u64::MAX).unwrap();
        std::io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
        bytes
    }
}

/// Everything that a supervisor reported.
pub(crate) struct Report {
    pub(crate) control: RunControl,
    pub(crate) pid: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) skipped: u64,
    pub(crate) end: SupervisorEvent,
}

impl Report {
    /// Listens until a run ended one way or the other.
    pub(crate) async fn of(supervised: Supervised) -> Self {
        let Supervised { mut events, control } = supervised;
        let mut report = Self {
            control,
            pid: None,
            stdout: vec![],
            stderr: vec![],
            skipped: 0,
            end: SupervisorEvent::Lost,
        };
        loop {
            let event = tokio::time::timeout(TIMEOUT, events.recv())
                .await
                .expect("the supervisor reports");
            match event.expect("an end is reported") {
                SupervisorEvent::Started { pid } => report.pid = Some(pid),
                SupervisorEvent::Output {
                    stream: OutputStream::Stdout,
                    bytes,
                } => report.stdout.extend(bytes),
                SupervisorEvent::Output {
                    stream: OutputStream::Stderr,
                    bytes,
                } => report.stderr.extend(bytes),
                SupervisorEvent::Skipped { bytes } => report.skipped += bytes,
                end => {
                    report.end = end;
                    return report;
                }
            }
        }
    }

    #[track_caller]
    pub(crate) fn ended(&self) -> &EndedRun {
        match &self.end {
            SupervisorEvent::Exit(ended) => ended,
            other => panic!("not ended: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn exit(&self) -> &Exit {
        &self.ended().exit
    }

    pub(crate) fn out(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// The exact output, when it is small.
    #[track_caller]
    pub(crate) fn inline(&self, selection: Selection) -> Vec<u8> {
        let KeptOutput::Inline(frames) = &self.ended().output else {
            panic!("spooled")
        };
        let mut bytes = Vec::new();
        let frames = std::io::Cursor::new(frames);
        let mut reader = SpoolReader::open(frames, selection, 0, u64::MAX).unwrap();
        std::io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
        bytes
    }
}

/// Waits for the first process of a run, and what it says until then.
pub(crate) async fn started(supervised: &mut Supervised) -> i32 {
    match tokio::time::timeout(TIMEOUT, supervised.events.recv())
        .await
        .expect("the supervisor reports")
    {
        Some(SupervisorEvent::Started { pid }) => pid,
        other => panic!("not started: {other:?}"),
    }
}

pub(crate) fn identity(path: &Path) -> FileIdentity {
    let file = fs::metadata(path).unwrap();
    let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    FileIdentity {
        path: path.to_str().unwrap().to_owned(),
        dev: file.dev(),
        ino: file.ino(),
        size: file.size(),
        mtime_ns: nanoseconds(file.mtime(), file.mtime_nsec()),
        ctime_ns: nanoseconds(file.ctime(), file.ctime_nsec()),
    }
}

/// Writes a file that can be executed.
pub(crate) fn program(path: &Path, text: &str) {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut file = fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o755)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Lengths of a spool.
pub(crate) fn measure(path: &Path) -> u64 {
    spool::measure(fs::File::open(path).unwrap())
        .unwrap()
        .of(Selection::Both)
}

/// The names and values of an environment as [`countersign_sys::process::Spawn`] takes them.
pub(crate) fn os<'a>(pairs: &'a [(&'a str, &'a str)]) -> Vec<(&'a OsStr, &'a OsStr)> {
    pairs
        .iter()
        .map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)))
        .collect()
}
