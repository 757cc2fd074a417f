//! Counts, which do not drift: system calls of the server for each run, what is read of the program that is started, and
//! what is written to the ledger. `strace` counts them.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
    sync::mpsc,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{
    super::servers::{Level, Server, program_named},
    Report,
    interval::Interval,
};

/// Runs that counts are divided by.
const RUNS: u32 = 1000;
/// Runs whose every process is watched, which is slower.
const WATCHED_RUNS: u32 = 200;
/// Runs before anything counts.
const WARM_UP: u32 = 50;
const PROGRAM: &str = "/bin/true";

pub(super) async fn measure(report: &mut Report<'_>) {
    let server = match Server::at(Level::SameUser) {
        Ok(server) => server,
        Err(why) => return report.skip("calls/", why),
    };
    for (name, call) in [
        ("argv", json!({ "argv": [PROGRAM], "workdir": "/" })),
        ("text", json!({ "command": PROGRAM, "workdir": "/" })),
    ] {
        if let Err(why) = one(report, &server, name, &call).await {
            report.skip(format!("calls/{name}"), why);
        }
    }
}

async fn one(report: &mut Report<'_>, server: &Server, name: &str, call: &Value) -> Result<(), String> {
    run(server, call, WARM_UP).await;
    let trace = Trace::attach(&[server.pid()], &["-c", "-U", "calls,name"])?;
    run(server, call, RUNS).await;
    let mut kinds: BTreeMap<Kind, (u64, Vec<String>)> = BTreeMap::new();
    for (calls, system_call) in counted(&trace.end()?) {
        let (sum, parts) = kinds.entry(Kind::of(&system_call)).or_default();
        *sum += calls;
        parts.push(format!("{system_call} {}", per_run(calls, RUNS)));
    }
    for (kind, (calls, parts)) in kinds {
        let parts = parts.join(", ");
        match kind {
            // How often a thread waits, is made or grows the heap depends on how the others are scheduled.
            Kind::Memory | Kind::Processes | Kind::Waits => println!("  (not judged: {parts})"),
            Kind::Files | Kind::Ledger | Kind::Messages | Kind::Other => report.add(
                format!("calls/{name}/{}", kind.name()),
                per_run_exact(calls, RUNS),
                parts,
            ),
        }
    }

    let program = fs::canonicalize(PROGRAM).map_err(|error| format!("{PROGRAM}: {error}"))?;
    let size = fs::metadata(&program)
        .map_err(|error| format!("{PROGRAM}: {error}"))?
        .len();
    let trace = Trace::attach(
        &server.family(),
        &[
            "-s",
            "0",
            "-e",
            "trace=open,openat,openat2,read,pread64,readv",
            "-P",
            text(&program)?,
        ],
    )?;
    run(server, call, WATCHED_RUNS).await;
    let (mut opens, mut bytes) = (0, 0);
    for (system_call, result) in returned(&trace.end()?) {
        if system_call.starts_with("open") {
            opens += 1;
        } else {
            bytes += result;
        }
    }
    report.add(
        format!("calls/{name}/program-opens"),
        per_run_exact(opens, WATCHED_RUNS),
        "opens of the program's file, by all processes",
    );
    report.add(
        format!("calls/{name}/program-readings"),
        per_run_exact(bytes / size.max(1), WATCHED_RUNS),
        format!("how often its {size} bytes are read"),
    );

    let [ledger, log] = server.ledger_files();
    let trace = Trace::attach(
        &[server.pid()],
        &[
            "-s",
            "0",
            "-e",
            "trace=write,pwrite64,writev,pwritev",
            "-P",
            text(&ledger)?,
            "-P",
            text(&log)?,
        ],
    )?;
    run(server, call, RUNS).await;
    let written = returned(&trace.end()?).map(|(_, bytes)| bytes).sum();
    report.add(
        format!("calls/{name}/ledger-bytes"),
        per_run_exact(written, RUNS),
        "written to the ledger and its log",
    );
    Ok(())
}

/// One after the other over one connection, without an idempotency key.
async fn run(server: &Server, call: &Value, times: u32) {
    let caller = server.agent();
    let request = caller.request("POST", "/v1/exec", Some(call));
    let mut connection = caller.connect().await;
    for _ in 0..times {
        connection.ask(&request).await.expect_completed();
    }
}

/// What a system call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Finding, opening, asking about and changing files.
    Files,
    /// Reading and writing at a place of a file, locks and syncs: the ledger.
    Ledger,
    /// Sockets, pipes and what is written to or read from any descriptor.
    Messages,
    Memory,
    Processes,
    Other,
    /// Waiting for other threads and for descriptors.
    Waits,
}

impl Kind {
    fn of(system_call: &str) -> Self {
        match system_call {
            "access" | "close" | "dup" | "faccessat" | "faccessat2" | "fchmod" | "fgetxattr" | "fstat"
            | "fstatfs" | "getcwd" | "getdents64" | "getxattr" | "ioctl" | "linkat" | "lstat"
            | "memfd_create" | "mkdir" | "mkdirat" | "newfstatat" | "open" | "openat" | "openat2"
            | "readlink" | "readlinkat" | "rename" | "renameat" | "renameat2" | "stat" | "statfs"
            | "statx" | "unlink" | "unlinkat" | "utimensat" => Self::Files,
            "fcntl" | "fdatasync" | "flock" | "fsync" | "ftruncate" | "lseek" | "pread64" | "pwrite64"
            | "pwritev" => Self::Ledger,
            "accept4" | "epoll_ctl" | "eventfd2" | "getpeername" | "getsockname" | "getsockopt" | "pipe2"
            | "read" | "readv" | "recvfrom" | "recvmsg" | "sendmsg" | "sendto" | "setsockopt"
            | "shutdown" | "socket" | "socketpair" | "splice" | "write" | "writev" => Self::Messages,
            "brk" | "madvise" | "mmap" | "mprotect" | "mremap" | "munmap" => Self::Memory,
            "clone" | "clone3" | "execve" | "exit" | "kill" | "pidfd_open" | "pidfd_send_signal"
            | "prctl" | "rt_sigaction" | "rt_sigprocmask" | "set_robust_list" | "sigaltstack" | "tgkill"
            | "wait4" | "waitid" => Self::Processes,
            "clock_nanosleep" | "epoll_pwait" | "epoll_pwait2" | "epoll_wait" | "futex" | "nanosleep"
            | "poll" | "ppoll" | "restart_syscall" | "sched_yield" => Self::Waits,
            _ => Self::Other,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Ledger => "ledger",
            Self::Messages => "messages",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Other => "other",
            Self::Waits => "waits",
        }
    }
}

/// A tracer of some processes, of all their threads and of the children that they make.
struct Trace {
    child: Child,
    output: NamedTempFile,
}

impl Trace {
    /// Returns when every process is traced; an error says why that cannot be.
    fn attach(pids: &[u32], arguments: &[&str]) -> Result<Self, String> {
        let output = NamedTempFile::new().map_err(|error| format!("a file for strace: {error}"))?;
        let mut command = program_named(Path::new("strace"));
        command.arg("-f").args(arguments).arg("-o").arg(output.path());
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        let spawned = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("strace: {error}"))?;
        let said = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let (line, lines) = mpsc::channel();
        // It says something for each process that begins; nobody may leave that unread.
        std::thread::spawn(move || {
            said.lines()
                .map_while(Result::ok)
                .for_each(|said| drop(line.send(said)));
        });
        let mut left: Vec<String> = pids.iter().map(|pid| format!("Process {pid} attached")).collect();
        while !left.is_empty() {
            let Ok(said) = lines.recv() else {
                child.wait().expect("the end of strace");
                return Err("strace may not trace the server here".to_owned());
            };
            left.retain(|wanted| !said.contains(wanted.as_str()));
        }
        // What it says from now on is dropped by the thread, whose channel is closed.
        Ok(Self { child, output })
    }

    /// Leaves the processes alone and returns what was seen.
    fn end(mut self) -> Result<String, String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), Signal::INT).map_err(|error| format!("strace: {error}"))?;
        self.child.wait().map_err(|error| format!("strace: {error}"))?;
        fs::read_to_string(self.output.path()).map_err(|error| format!("what strace wrote: {error}"))
    }
}

/// The lines of a summary: how often, and which.
fn counted(summary: &str) -> Vec<(u64, String)> {
    let lines = summary.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (calls, name) = (words.next()?.parse().ok()?, words.next()?);
        (name != "total").then(|| (calls, name.to_owned()))
    });
    lines.collect()
}

/// System calls that succeeded, with what they returned.
fn returned(log: &str) -> impl Iterator<Item = (&str, u64)> {
    log.lines().filter_map(|line| {
        let (before, result) = line.rsplit_once(" = ")?;
        let result = result.split_whitespace().next()?.parse().ok()?;
        // `PID name(…`, or `PID <... name resumed>…` where another thread came between.
        let (_pid, call) = before.trim_start().split_once(' ')?;
        let call = call.trim_start();
        let call = call.strip_prefix("<... ").unwrap_or(call);
        let name = call.split(['(', ' ']).next()?;
        Some((name, result))
    })
}

fn per_run(count: u64, runs: u32) -> String {
    format!("{:.2}", per_run_exact(count, runs).figure)
}

fn per_run_exact(count: u64, runs: u32) -> Interval {
    let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    Interval::exact(count / f64::from(runs))
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str()
        .ok_or_else(|| format!("{} is no text", path.display()))
}
