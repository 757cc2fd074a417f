//! The isolation level `separate-user`: root starts a server that becomes one account and runs commands under
//! another.
//!
//! Neither account has an entry in the table of accounts, and no two tests share one, so nothing of the machine is
//! changed. What an attack reaches at the level `same-user` shows that it is real.

mod accounts;
mod attacks;
mod containers;
mod lifetime;
mod start;
mod terminal;
mod unit;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::support::{
    Members, Scratch, ServerBuilder, TestServer, assert_says, is_root, needed, processes_of, soon,
};

const BAD_SETTINGS: i32 = 78;

/// How a shell starts the program that starts commands: they have its umask and its limit of open files, too.
const STARTED: &str = "umask 027; ulimit -S -n 777; exec \"$@\"";

/// What every test of the level needs; `None` where it is missing.
fn possible() -> Option<()> {
    needed(
        is_root(),
        "starting a server that runs commands under another account needs root",
    )
}

/// The accounts of one test, and a directory that both reach.
struct AccountsFixture {
    scratch: Scratch,
    server: u32,
    commands: u32,
}

impl AccountsFixture {
    /// `None` where the level cannot be had.
    fn new() -> Option<Self> {
        possible()?;
        let scratch = Scratch::new();
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // Every test is a process of its own.
        let base = 1_000_000 + 10 * std::process::id();
        let accounts = Self {
            scratch,
            server: base,
            commands: base + 1,
        };
        let workspace = accounts.workspace();
        fs::create_dir(&workspace).unwrap();
        chown(&workspace, Some(accounts.commands), Some(accounts.commands)).unwrap();
        Some(accounts)
    }

    fn workspace(&self) -> PathBuf {
        self.scratch.join("workspace")
    }

    fn state(&self) -> PathBuf {
        self.scratch.join("state")
    }

    /// Everything runs under the account of the commands.
    fn builder(&self) -> ServerBuilder {
        self.as_account(&self.commands.to_string())
    }

    fn as_account(&self, account: &str) -> ServerBuilder {
        self.with_exec(&json!({ "host": "gateway", "security": "full", "ask": "off" }))
            .argument("--run-as")
            .argument(account)
    }

    /// The state directory is the server's, and no account is named yet.
    fn with_exec(&self, exec: &Value) -> ServerBuilder {
        TestServer::full()
            .config(&json!({
                "tools": { "exec": exec },
                "agents": { "defaults": { "workspace": self.workspace() } },
            }))
            .state_dir(&self.state())
            .owned_by(self.server)
    }
}

/// Runs shell text to its end.
async fn run(server: &TestServer, text: &str) -> Value {
    let call = json!({ "command": text, "yieldMs": 120_000, "timeout": 60 });
    server.ran(call).await
}

/// What shell text that succeeds prints.
async fn printed(server: &TestServer, text: &str) -> String {
    let answer = run(server, text).await;
    assert_eq!(answer["exitCode"], 0, "{text}\n{answer:#}");
    answer.text("stdout").to_owned()
}

/// Commands of a server that was started as [`STARTED`] says have their account and what they need, and no more.
async fn have_their_account_and_nothing_else(server: &TestServer, accounts: &AccountsFixture) {
    assert_says(server.ready_line(), "isolation=separate-user");
    let account = accounts.commands;
    let id = printed(server, "id -u; id -g; id -G; id -ur; umask; ulimit -S -n; pwd").await;
    let workspace = accounts.workspace();
    let expect = format!(
        "{account}\n{account}\n{account}\n{account}\n0027\n777\n{}\n",
        workspace.display()
    );
    assert_eq!(id, expect);
    let mut environment: Vec<_> = printed(server, "env").await.lines().map(str::to_owned).collect();
    environment.sort();
    assert_eq!(
        environment,
        [
            "HOME=/".to_owned(),
            "OPENCLAW_SHELL=exec".to_owned(),
            "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
            format!("PWD={}", workspace.display()),
            "SHELL=/bin/sh".to_owned(),
        ]
    );
    assert_eq!(
        printed(server, "ls /proc/self/fd | tr '\\n' ' '").await,
        "0 1 2 3 "
    );
}

/// Starts shell text in the background; returns the run.
async fn background(server: &TestServer, text: &str) -> String {
    let call = json!({ "command": text, "background": true });
    let answer = server.agent().exec(call).await;
    assert!(matches!(answer.status, 200 | 202), "{}", answer.text());
    answer.json().text("runId").to_owned()
}

/// The processes of a server in this mode.
fn processes(server: &TestServer, mode: &str) -> Vec<i32> {
    let is_mode = |pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(mode.as_bytes())
    };
    let all = processes_of(Some(server.pid()), &server.scratch().path());
    all.iter().map(|handle| handle.pid).filter(is_mode).collect()
}

/// The runner: the process of its mode whose parent is the launcher.
fn runner(server: &TestServer) -> i32 {
    *runners(server).first().expect("a runner")
}

/// The same while there may be none.
fn runners(server: &TestServer) -> Vec<i32> {
    let launcher = launcher(server);
    let mut runners = processes(server, "__runner");
    runners.retain(|pid| field(*pid, "PPid") == launcher.to_string());
    runners
}

fn launcher(server: &TestServer) -> i32 {
    let launchers = processes(server, "__keeper");
    // What it is about to start looks like itself for a moment.
    let is_first = |pid: &&i32| {
        let parent = field(**pid, "PPid");
        !launchers.iter().any(|other| other.to_string() == parent)
    };
    let first: Vec<_> = launchers.iter().filter(is_first).collect();
    let [launcher] = first[..] else {
        panic!("one launcher: {launchers:?}")
    };
    *launcher
}

/// A line of `/proc/PID/status`; empty for a process that is gone.
fn field(pid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let words: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
    words.join(" ")
}

/// Waits for something that a command makes; a file is there once a line was written into it.
async fn until_there(path: &Path) {
    soon(
        "there",
        || fs::metadata(path).is_ok_and(|found| !found.is_file() || found.len() > 0),
        |is_there| *is_there,
    )
    .await;
}
