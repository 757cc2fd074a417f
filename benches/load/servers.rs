//! Starting and ending the servers that are compared.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use super::{connection::Caller, explain, reference};

/// What countersign is to do with what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Everything runs, nobody is asked.
    Full,
    /// A person is asked about everything.
    Ask,
    /// Nothing runs.
    Deny,
    /// What the allowlist covers runs; it has this many entries.
    Allowlist { entries: usize },
    /// The same, and nobody is asked about the rest.
    Covered { entries: usize },
    /// What the kernel keeps of `true` and `git` is as it is by default for the agent `main`, and nothing for the agent `open`.
    Kept,
    /// Everything runs in the built-in sandbox.
    Sandboxed,
    /// Everything runs in a container of the engine that `DOCKER_HOST` names.
    Contained,
}

/// As whom, and how confined, commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    SameUser,
    Confined,
    SeparateUser,
}

/// Accounts that every system has: of the server, and of its commands where they have one of their own.
const SERVER_ACCOUNT: u32 = 2;
const COMMAND_ACCOUNT: u32 = 1;

impl Level {
    /// The one that others are compared with comes first.
    pub(crate) const ALL: [Self; 3] = [Self::SameUser, Self::Confined, Self::SeparateUser];

    const fn name(self) -> &'static str {
        match self {
            Self::SameUser => "same-user",
            Self::Confined => "confined",
            Self::SeparateUser => "separate-user",
        }
    }

    /// The command line of a server at this level, or why there is none.
    fn command(self, state: &Path) -> Result<Command, String> {
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            give(state, SERVER_ACCOUNT);
        }
        let (mut command, isolation) = match self {
            // Root is never confined.
            Self::SameUser | Self::Confined if is_root => {
                let mut command = program_named(Path::new("setpriv"));
                let [user, group] = [
                    format!("--reuid={SERVER_ACCOUNT}"),
                    format!("--regid={SERVER_ACCOUNT}"),
                ];
                command.args([&user, &group, "--clear-groups"]);
                command.arg(SERVER).args(SERVE).arg(state).env("SHELL", SHELL);
                (
                    command,
                    if self == Self::SameUser {
                        "same-user"
                    } else {
                        "auto"
                    },
                )
            }
            Self::SameUser => (countersign(state), "same-user"),
            Self::Confined => (countersign(state), "auto"),
            Self::SeparateUser if !is_root => return Err("it takes root to start".to_owned()),
            Self::SeparateUser => {
                let mut command = countersign(state);
                command.args(["--run-as", &format!("{COMMAND_ACCOUNT}:{COMMAND_ACCOUNT}")]);
                (command, "auto")
            }
        };
        command
            .env("HOME", state)
            .env("COUNTERSIGN_EXEC__ISOLATION", isolation);
        Ok(command)
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Gives a directory and everything in it to an account.
fn give(path: &Path, account: u32) {
    std::os::unix::fs::chown(path, Some(account), Some(account)).expect("giving a file away");
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a directory") {
            give(&entry.expect("an entry").path(), account);
        }
    }
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: String,
    gateway: Option<String>,
    operator: Option<String>,
    start_time: Duration,
    /// The state directory, removed with it.
    state: Option<TempDir>,
}

impl Server {
    /// The bare server, from this very program.
    pub(crate) fn reference() -> Self {
        Self::bare(None)
    }

    /// The bare server, which syncs its decisions to a file as countersign does.
    pub(crate) fn synced_reference() -> Self {
        Self::bare(Some(state_directory(Policy::Full)))
    }

    fn bare(state: Option<TempDir>) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = program_named(&program);
        command.arg(reference::MODE);
        command.args(state.as_ref().map(|state| state.path().join("decisions")));
        let begun = Instant::now();
        let (child, address) = start(&mut command);
        Self {
            child,
            address,
            gateway: None,
            operator: None,
            start_time: begun.elapsed(),
            state,
        }
    }

    /// countersign with a policy.
    pub(crate) fn countersign(policy: Policy) -> Self {
        let state = state_directory(policy);
        let begun = Instant::now();
        let (child, address) = start(&mut countersign(state.path()));
        Self::with_tokens(child, address, state, begun.elapsed())
    }

    /// countersign that runs everything, at one level of isolation; or why it cannot be had.
    pub(crate) fn at(level: Level) -> Result<Self, String> {
        let state = state_directory(Policy::Full);
        let begun = Instant::now();
        let (mut child, ready) = start_to_line(&mut level.command(state.path())?);
        let reached = format!("isolation={level}");
        if ready.split_whitespace().any(|word| word == reached) {
            let address = address_in(&ready);
            return Ok(Self::with_tokens(child, address, state, begun.elapsed()));
        }
        child.kill().expect("ending a server");
        child.wait().expect("the end of a server");
        Err(match ready.trim_end() {
            "" => "the server does not start, and said above why".to_owned(),
            ready => format!("the server says: {ready}"),
        })
    }

    fn with_tokens(child: Child, address: String, state: TempDir, start_time: Duration) -> Self {
        let token = |name: &str| {
            let path = state.path().join("countersign").join(name);
            let token = fs::read_to_string(path).expect("a token");
            Some(token.trim().to_owned())
        };
        Self {
            child,
            address,
            gateway: token("gateway.token"),
            operator: token("operator.token"),
            start_time,
            state: Some(state),
        }
    }

    /// Whoever asks for commands.
    pub(crate) fn agent(&self) -> Caller {
        self.caller(self.gateway.as_ref())
    }

    /// Whoever reads and decides.
    pub(crate) fn operator(&self) -> Caller {
        self.caller(self.operator.as_ref())
    }

    /// An agent's gateway with a token of its own.
    pub(crate) async fn other_gateway(&self) -> Caller {
        let operator = self.operator();
        let body = json!({ "name": "other", "scopes": ["exec"] });
        let request = operator.request("POST", "/v1/tokens", Some(&body));
        let made = operator.connect().await.ask(&request).await.json(201);
        let token = made.get("secret").and_then(serde_json::Value::as_str);
        self.caller(Some(&token.expect("a token").to_owned()))
    }

    fn caller(&self, token: Option<&String>) -> Caller {
        Caller {
            address: self.address.clone(),
            token: token.cloned(),
        }
    }

    /// Where its web sockets are.
    pub(crate) fn web_socket(&self, path: &str) -> String {
        format!("ws://{}{path}", self.address)
    }

    /// What a node presents at first.
    pub(crate) fn bridge_token(&self) -> String {
        let state = self.state.as_ref().expect("a server with a state directory");
        let token = fs::read_to_string(state.path().join("countersign/bridge.token"))
            .expect("the token of the Bridge");
        token.trim().to_owned()
    }

    /// From starting the program to its ready line.
    pub(crate) const fn start_time(&self) -> Duration {
        self.start_time
    }

    /// The process of the server itself.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The ledger, and its write-ahead log.
    pub(crate) fn ledger_files(&self) -> [PathBuf; 2] {
        let state = self.state.as_ref().expect("a server with a state directory");
        ["countersign.db", "countersign.db-wal"].map(|name| state.path().join("countersign").join(name))
    }

    /// Bytes of the largest file of output that it keeps.
    pub(crate) fn largest_output(&self) -> u64 {
        let state = self.state.as_ref().expect("a server with a state directory");
        let kept = fs::read_dir(state.path().join("countersign/output")).expect("the outputs");
        let sizes = kept.map(|file| file.and_then(|file| file.metadata()).expect("an output").len());
        sizes.max().expect("there is one")
    }

    /// Resident memory of the server.
    pub(crate) fn resident_kib(&self) -> u64 {
        kib(self.child.id(), "VmRSS:")
    }

    /// The most that ever was resident.
    pub(crate) fn peak_kib(&self) -> u64 {
        kib(self.child.id(), "VmHWM:")
    }

    /// How many descriptors the server has open.
    pub(crate) fn open_files(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        open.map_or(0, Iterator::count)
    }

    /// How many processes there are of it, itself included.
    pub(crate) fn processes(&self) -> usize {
        self.family().len()
    }

    /// How many files its state directory keeps of runs and their output.
    pub(crate) fn run_files(&self) -> (usize, usize) {
        let count = |name: &str| {
            let folder = self
                .state
                .as_ref()
                .map(|state| state.path().join("countersign").join(name));
            folder
                .and_then(|folder| fs::read_dir(folder).ok())
                .map_or(0, Iterator::count)
        };
        (count("runs"), count("output"))
    }

    /// The server, and every process below it.
    pub(crate) fn family(&self) -> Vec<u32> {
        let mut family = vec![self.child.id()];
        let mut at = 0;
        while let Some(&parent) = family.get(at) {
            family.extend(children(parent));
            at += 1;
        }
        family
    }

    /// Resident memory of the server, and of all its processes together.
    pub(crate) fn memory(&self) -> String {
        let family = self.family();
        let total: u64 = family.iter().map(|pid| kib(*pid, "VmRSS:")).sum();
        let all = family.len();
        format!(
            "server {} KiB; all {all} processes together {total} KiB",
            self.resident_kib()
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("ending a server");
        self.child.wait().expect("the end of a server");
    }
}

/// A state directory with which servers are started one after the other.
#[derive(Debug)]
pub(crate) struct Restarts(TempDir);

impl Restarts {
    pub(crate) fn new() -> Self {
        Self(state_directory(Policy::Full))
    }

    /// From starting the program to its ready line; the server is ended then.
    pub(crate) fn once(&self) -> Duration {
        let begun = Instant::now();
        let (mut child, _) = start(&mut countersign(self.0.path()));
        let elapsed = begun.elapsed();
        child.kill().expect("ending a server");
        child.wait().expect("the end of a server");
        elapsed
    }
}

/// How long a shell takes for a text.
pub(crate) fn time_shell(text: &str) -> Duration {
    let begun = Instant::now();
    let status = program_named(Path::new(SHELL))
        .args(["-c", text])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("a shell");
    assert!(status.success(), "{text}: {status}");
    begun.elapsed()
}

/// The program.
pub(crate) const SERVER: &str = env!("CARGO_BIN_EXE_countersign");

/// The shell of servers and of the bare server.
pub(crate) const SHELL: &str = "/bin/bash";

/// Its arguments, before the state directory.
const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--state-dir"];

fn countersign(state: &Path) -> Command {
    let mut command = program_named(Path::new(SERVER));
    command.args(SERVE).arg(state).env("HOME", state);
    // The shell of an account decides how texts are started, so the figures of two machines would not be of one thing.
    command.env("SHELL", SHELL);
    // Everything here comes from one address.
    command.env("COUNTERSIGN_LIMITS__ANONYMOUS_PER_SECOND", "0");
    command
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the harness that starts programs"
)]
pub(crate) fn program_named(program: &Path) -> Command {
    Command::new(program)
}

/// Lets the file system put each directory that is made in this one into a place of its own, where it can.
///
/// ext4 without a journal looks past every file that was deleted lately near a new one, which takes up to a quarter of a
/// millisecond where many were: after a run of the tests, a server beside their remains would be measured as slower than
/// the same server elsewhere.
fn spread(directory: &Path) {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let set = || {
        let directory = fs::File::open(directory)?;
        let flags = ioctl_getflags(&directory)? | IFlags::TOPDIR;
        std::io::Result::Ok(ioctl_setflags(&directory, flags)?)
    };
    // Other file systems have no such flag, and do not need it.
    let _not_ext4 = set();
}

fn state_directory(policy: Policy) -> TempDir {
    let state = tempfile::Builder::new()
        .prefix("countersign-load-")
        .tempdir()
        .expect("a directory");
    spread(state.path());
    let write = |name: &str, text: &str| {
        let path = state.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        let mut file = fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .expect("a file");
        file.write_all(text.as_bytes()).expect("a file");
    };
    let (security, ask) = match policy {
        Policy::Full | Policy::Sandboxed | Policy::Contained => ("full", "off"),
        Policy::Ask => ("full", "always"),
        Policy::Deny => ("deny", "off"),
        Policy::Allowlist { .. } => ("allowlist", "on-miss"),
        Policy::Covered { .. } | Policy::Kept => ("allowlist", "off"),
    };
    let (host, backend) = match policy {
        Policy::Sandboxed => ("sandbox", "builtin"),
        Policy::Contained => ("sandbox", "docker"),
        Policy::Full
        | Policy::Ask
        | Policy::Deny
        | Policy::Allowlist { .. }
        | Policy::Covered { .. }
        | Policy::Kept => ("gateway", "off"),
    };
    let exec = json!({ "host": host, "security": security, "ask": ask });
    write("openclaw.json", &json!({ "tools": { "exec": exec } }).to_string());
    if let Policy::Allowlist { entries } | Policy::Covered { entries } = policy {
        write("exec-approvals.json", &explain::document(entries).to_string());
    }
    if policy == Policy::Kept {
        let any = json!({ "starts": "any" });
        let document = json!({ "version": 1, "agents": {
            "main": { "allowlist": [{ "pattern": "/usr/bin/true" }, { "pattern": "/usr/bin/git" }] },
            "open": { "allowlist": [
                { "pattern": "/usr/bin/true", "confine": any }, { "pattern": "/usr/bin/git", "confine": any },
            ] },
        } });
        write("exec-approvals.json", &document.to_string());
    }
    // Thousands of requests a second from one token are what is measured, not what is refused.
    let settings = format!(
        "[exec]\nlogin_path = false\n[limits]\nrequests_per_second = 0\n[telemetry]\nlog_filter = \"error\"\n\
         [approvals]\nalways_reachable = true\n[sandbox]\nbackend = \"{backend}\"\n"
    );
    write("countersign/countersign.toml", &settings);
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(state.path().join("countersign"), private).expect("a private directory");
    state
}

fn start(command: &mut Command) -> (Child, String) {
    let (child, ready) = start_to_line(command);
    (child, address_in(&ready))
}

/// Starts a server and returns its first line, empty if it ended without one.
fn start_to_line(command: &mut Command) -> (Child, String) {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a server starts");
    let mut ready = String::new();
    let stdout = child.stdout.as_mut().expect("stdout is piped");
    BufReader::new(stdout)
        .read_line(&mut ready)
        .expect("the ready line");
    (child, ready)
}

fn address_in(ready: &str) -> String {
    let address = ready
        .split_whitespace()
        .find_map(|word| word.strip_prefix("http://"));
    address
        .unwrap_or_else(|| panic!("no address in {ready:?}"))
        .trim_end_matches(['/', ','])
        .to_owned()
}

fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A line of the state that the system keeps of a process.
fn kib(pid: u32, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let size = status.lines().find_map(|other| other.strip_prefix(line));
    size.and_then(|size| size.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
