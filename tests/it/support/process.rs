//! The one place of the tests that starts programs, and what they look at of processes.

use std::{
    ffi::OsString,
    fmt::Debug,
    fs,
    io::{Read, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

use super::wait::TIMEOUT;

/// A program with its arguments, a clean environment but for PATH, and a place to run.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
    input: Vec<u8>,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// It printed this among other things.
    #[track_caller]
    pub(crate) fn says(&self, part: impl AsRef<str>) {
        assert!(self.stdout.contains(part.as_ref()), "{self:#?}");
    }

    /// It complained of this among other things.
    #[track_caller]
    pub(crate) fn complains(&self, part: impl AsRef<str>) {
        assert!(self.stderr.contains(part.as_ref()), "{self:#?}");
    }
}

impl Invocation {
    pub(crate) fn new(program: impl Into<OsString>) -> Self {
        let env = INHERITED
            .iter()
            .filter_map(|name| Some((OsString::from(name), inherited(name)?)))
            .collect();
        Self {
            program: program.into(),
            args: Vec::new(),
            env,
            cwd: None,
            input: Vec::new(),
        }
    }

    pub(crate) fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.args.push(argument.into());
        self
    }

    pub(crate) fn args<A: AsRef<str>>(mut self, arguments: &[A]) -> Self {
        self.args
            .extend(arguments.iter().map(|argument| OsString::from(argument.as_ref())));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// The same program at a terminal of its own, which its input and output are.
    pub(crate) fn at_a_terminal(self) -> Self {
        let quoted = |word: &OsString| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
        let words: Vec<String> = std::iter::once(&self.program)
            .chain(&self.args)
            .map(quoted)
            .collect();
        let args = ["-q", "-f", "-e", "-c", &words.join(" "), "/dev/null"];
        Self {
            program: "script".into(),
            args: args.iter().map(OsString::from).collect(),
            ..self
        }
    }

    pub(crate) fn cwd(mut self, directory: &Path) -> Self {
        self.cwd = Some(directory.to_owned());
        self
    }

    /// What it reads from standard input; nothing otherwise.
    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// The same under another account, which root alone can choose.
    pub(crate) fn run_as(self, account: u32) -> Self {
        let user = format!("--reuid={account}");
        let group = format!("--regid={account}");
        self.behind("setpriv", &[&user, &group, "--clear-groups"])
    }

    /// The same behind another program, which starts it.
    pub(crate) fn behind<A: AsRef<str>>(self, program: &str, arguments: &[A]) -> Self {
        let arguments = arguments.iter().map(AsRef::as_ref);
        let mut args: Vec<OsString> = arguments.map(OsString::from).collect();
        args.push(self.program);
        args.extend(self.args);
        Self {
            program: program.into(),
            args,
            ..self
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place of the tests that starts programs"
    )]
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.cwd {
            command.current_dir(directory);
        }
        command
    }

    /// Starts it with pipes for its input and all its output.
    pub(crate) fn start_interactive(&self) -> Child {
        self.command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program.display()))
    }

    /// Starts it with its output where the caller wants it.
    pub(crate) fn start_logged(&self, stdout: Stdio, stderr: Stdio) -> Child {
        self.command()
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program.display()))
    }

    /// Starts it with pipes for its output; `stderr` goes to a file when one is given.
    pub(crate) fn start(&self, stderr: Stdio) -> Child {
        self.command()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program.display()))
    }
}

/// The countersign program under test.
pub(crate) fn countersign() -> Invocation {
    Invocation::new(env!("CARGO_BIN_EXE_countersign"))
}

/// The program as people get it: the optimised one where `COUNTERSIGN_TEST_RELEASE` names it, else the one under test.
/// For tests that switch nothing on in it.
pub(crate) fn released() -> PathBuf {
    inherited("COUNTERSIGN_TEST_RELEASE")
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_countersign").into())
        .into()
}

/// Runs a program to its end; kills it and fails when it never ends.
#[track_caller]
pub(crate) fn run_program(invocation: &Invocation) -> Finished {
    run_long_program(invocation, TIMEOUT)
}

/// As [`run_program`], for one that has so much to do that a busy disk holds it up for longer.
#[track_caller]
pub(crate) fn run_long_program(invocation: &Invocation, patience: Duration) -> Finished {
    let mut child = invocation
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", invocation.program.display()));
    feed(
        child.stdin.take().expect("stdin is piped"),
        invocation.input.clone(),
    );
    let stdout = drain(child.stdout.take().expect("stdout is piped"));
    let stderr = drain(child.stderr.take().expect("stderr is piped"));
    let ended = ProcessHandle::open(pid_of(&child)).is_none_or(|handle| handle.wait(patience));
    if !ended {
        child.kill().expect("killing a program that hangs");
    }
    let status = child.wait().expect("waiting for a program");
    let finished = Finished {
        code: status.code(),
        stdout: stdout.join().expect("the reader of stdout"),
        stderr: stderr.join().expect("the reader of stderr"),
    };
    assert!(ended, "{invocation:?} never ended: {finished:#?}");
    finished
}

/// Writes beside the program, which may read late or never, and closes.
fn feed(mut pipe: impl Write + Send + 'static, input: Vec<u8>) {
    thread::spawn(move || drop(pipe.write_all(&input)));
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("reading a program's output");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What a program needs of our environment to start at all.
const INHERITED: [&str; 3] = ["PATH", "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE"];

#[expect(
    clippy::disallowed_methods,
    reason = "the environment of the test run, handed on by name"
)]
fn inherited(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    pub(crate) pid: i32,
    pidfd: OwnedFd,
}

impl ProcessHandle {
    /// `None` when there is no such process any more.
    pub(crate) fn open(pid: i32) -> Option<Self> {
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, pidfd })
    }

    /// Waits for its end; false when it still runs after `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let timeout = Timespec::try_from(patience).expect("a short time");
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).expect("polling a pidfd") > 0
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.wait(Duration::ZERO)
    }
}

pub(crate) fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).expect("a process id")
}

/// Whether a process exists and has not ended.
pub(crate) fn is_alive(pid: i32) -> bool {
    ProcessHandle::open(pid).is_some_and(|handle| !handle.has_ended())
}

/// Kills one process by its number; fine when it is gone.
pub(crate) fn kill_hard(pid: i32) {
    signal(pid, Signal::KILL);
}

/// Asks one process to end, by its number.
pub(crate) fn terminate(pid: i32) {
    signal(pid, Signal::TERM);
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        match kill_process(pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => panic!("signal to {pid:?}: {error}"),
        }
    }
}

/// Every process that belongs to a test: below `root` in the process tree, or whose home, working directory
/// or an open file lies in the test's directory (what outlived its parent is found by that).
pub(crate) fn processes_of(root: Option<i32>, directory: &Path) -> Vec<ProcessHandle> {
    let table = process_table();
    let mut found: Vec<i32> = root.into_iter().collect();
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(table.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    let ourselves = i32::try_from(std::process::id()).expect("a process id");
    for (pid, _) in table {
        if pid != ourselves && !found.contains(&pid) && touches(pid, directory) {
            found.push(pid);
        }
    }
    found
        .into_iter()
        .filter_map(ProcessHandle::open)
        .filter(|handle| !handle.has_ended())
        .collect()
}

/// What a process is, for a failure message.
pub(crate) fn describe(pid: i32) -> String {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
    let state = String::from_utf8_lossy(&read("stat")).into_owned();
    format!("{pid}: {command}({})", state.trim_end())
}

fn process_table() -> Vec<(i32, i32)> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name of the program may hold anything; what follows its last bracket does not.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect()
}

fn touches(pid: i32, directory: &Path) -> bool {
    let inside = |link: PathBuf| fs::read_link(link).is_ok_and(|target| target.starts_with(directory));
    let proc = PathBuf::from(format!("/proc/{pid}"));
    if inside(proc.join("cwd")) {
        return true;
    }
    let home = [
        b"HOME=",
        std::os::unix::ffi::OsStrExt::as_bytes(directory.as_os_str()),
    ]
    .concat();
    let environment = fs::read(proc.join("environ")).unwrap_or_default();
    if environment
        .split(|byte| *byte == 0)
        .any(|variable| variable.starts_with(&home))
    {
        return true;
    }
    fs::read_dir(proc.join("fd")).is_ok_and(|fds| fds.flatten().any(|fd| inside(fd.path())))
}

/// PATH of the test run.
pub(crate) fn inherited_path() -> String {
    inherited("PATH")
        .and_then(|path| path.into_string().ok())
        .unwrap_or_default()
}

/// A variable that tests hand to test processes of their own.
pub(crate) fn own_variable(name: &str) -> Option<String> {
    inherited(name).and_then(|value| value.into_string().ok())
}
