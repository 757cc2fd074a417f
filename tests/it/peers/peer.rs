//! Programs of the product: where they are, and how they start with everything of their own in a directory that goes.

use std::{
    fmt::Debug,
    fs::{self, File},
    future::Future,
    panic::Location,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::support::{
    Finished, Invocation, Scratch, inherited_path, installed, kill_hard, node_compile_cache, pid_of,
    processes_of, run_long_program, skip, write_file_mode,
};

/// A gateway of the product needs fourteen seconds on an idle machine, and this one is not idle.
const TIMEOUT: Duration = Duration::from_mins(4);

/// Which product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    /// `clawdbot`, protocol 3.
    First,
    /// `openclaw`, protocol 4.
    Present,
}

impl Generation {
    const fn prefix(self) -> &'static str {
        match self {
            Self::First => "CLAWDBOT",
            Self::Present => "OPENCLAW",
        }
    }

    const fn config_file(self) -> &'static str {
        match self {
            Self::First => "clawdbot.json",
            Self::Present => "openclaw.json",
        }
    }
}

/// Where the product is.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    node: PathBuf,
    root: PathBuf,
    generation: Generation,
}

impl Peers {
    /// `None`, and a line that says so, where it is not installed.
    pub(super) fn find(generation: Generation) -> Option<Self> {
        let root = installed("peers");
        let found = root.and_then(|root| {
            let found = Self {
                node: root.join("node/bin/node"),
                root,
                generation,
            };
            (found.node.is_file() && found.package().join("../../countersign-tools").is_file())
                .then_some(found)
        });
        if found.is_none() {
            skip(&format!(
                "the product ({generation:?}) is not installed (dev/peers installs it)"
            ));
        }
        found
    }

    /// The folder of its package.
    pub(super) fn package(&self) -> PathBuf {
        self.root.join(match self.generation {
            Generation::First => "clawdbot/node_modules/clawdbot",
            Generation::Present => "openclaw/node_modules/openclaw",
        })
    }

    /// Its JavaScript runtime.
    pub(super) fn runtime(&self) -> Invocation {
        let bin = self.node.parent().expect("a folder of programs");
        Invocation::new(&self.node)
            .env("PATH", format!("{}:{}", bin.display(), inherited_path()))
            .env("NODE_COMPILE_CACHE", node_compile_cache())
    }

    /// Its command line, with a state directory and a home of its own.
    pub(super) fn program(&self, directory: &Path) -> Invocation {
        let entry = match self.generation {
            Generation::First => "dist/entry.js",
            Generation::Present => "openclaw.mjs",
        };
        let prefix = self.generation.prefix();
        self.runtime()
            .arg(self.package().join(entry))
            .env("HOME", directory)
            .env("TMPDIR", directory)
            .env(&format!("{prefix}_STATE_DIR"), directory.join("state"))
            .env(&format!("{prefix}_SKIP_CHANNELS"), "1")
            .env(&format!("{prefix}_SKIP_PROVIDERS"), "1")
            .env(&format!("{prefix}_DISABLE_BONJOUR"), "1")
            .cwd(directory)
    }

    /// Its node host, which calls `port` of this machine.
    pub(super) fn node_host(&self, port: u16, name: &str, token: &str) -> Peer {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.join("state")).expect("a state directory");
        let invocation = self
            .program(&scratch.path())
            .env(&format!("{}_GATEWAY_TOKEN", self.generation.prefix()), token)
            .args(&["node", "run", "--host", "127.0.0.1", "--port", &port.to_string()])
            .args(&["--display-name", name]);
        Peer::start(invocation, scratch)
    }

    /// Its gateway, which listens on `port` of this machine and asks before it takes a node.
    pub(super) fn gateway(&self, port: u16, token: &str) -> Peer {
        let scratch = Scratch::new();
        let mut config = serde_json::json!({
            "gateway": { "mode": "local", "port": port, "bind": "loopback", "auth": { "mode": "token", "token": token } },
            // Its agents would answer events with calls of a model.
            "agents": { "defaults": { "heartbeat": { "every": "0m" } } },
        });
        if self.generation == Generation::Present {
            config["gateway"]["nodes"] = serde_json::json!({ "pairing": { "autoApproveLocal": false } });
            config["discovery"] = serde_json::json!({ "mdns": { "mode": "off" } });
        }
        let state = scratch.join("state");
        fs::create_dir_all(&state).expect("a state directory");
        write_file_mode(
            &state.join(self.generation.config_file()),
            config.to_string(),
            0o600,
        );
        let invocation = self.program(&scratch.path()).args(&["gateway", "run"]);
        Peer::start(invocation, scratch)
    }

    /// Runs a command of its command line to the end.
    pub(super) async fn cli(&self, directory: &Path, arguments: &[&str]) -> Finished {
        let invocation = self.program(directory).args(arguments);
        tokio::task::spawn_blocking(move || run_long_program(&invocation, TIMEOUT))
            .await
            .expect("the end of a command")
    }
}

/// A program of the product that runs until this is dropped.
#[derive(Debug)]
pub(super) struct Peer {
    invocation: Invocation,
    scratch: Scratch,
    child: Child,
}

impl Peer {
    fn start(invocation: Invocation, scratch: Scratch) -> Self {
        let child = Self::spawn(&invocation, &scratch);
        Self {
            invocation,
            scratch,
            child,
        }
    }

    fn spawn(invocation: &Invocation, scratch: &Scratch) -> Child {
        let log = File::options()
            .create(true)
            .append(true)
            .open(scratch.join("peer.log"))
            .expect("a log file");
        invocation.start_logged(
            Stdio::from(log.try_clone().expect("a descriptor")),
            Stdio::from(log),
        )
    }

    /// Where its state, its home and its log are.
    pub(super) fn directory(&self) -> PathBuf {
        self.scratch.path()
    }

    /// What it said so far, for the message of a failure.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.scratch.join("peer.log")).unwrap_or_default()
    }

    /// Waits until it has ended by itself.
    pub(super) async fn ended(&mut self) -> Option<i32> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("the state of a child") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it never ended:\n{}", self.log());
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts it again after it ended.
    pub(super) fn restart(&mut self) {
        self.child = Self::spawn(&self.invocation, &self.scratch);
    }

    /// Kills it and all that it started.
    pub(super) fn kill(&mut self) {
        for process in processes_of(Some(pid_of(&self.child)), &self.scratch.path()) {
            kill_hard(process.pid);
            process.wait(Duration::from_secs(20));
        }
        drop(self.child.wait());
    }
}

impl Drop for Peer {
    #[expect(
        clippy::print_stderr,
        reason = "what the other side said belongs to the failure"
    )]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// As `eventually`, with the patience that the product needs, and an answer instead of a condition.
#[track_caller]
pub(super) fn patiently<S: Debug, T, F: Future<Output = S>>(
    what: &str,
    mut state: impl FnMut() -> F,
    mut answer: impl FnMut(&S) -> Option<T>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let current = state().await;
            if let Some(answer) = answer(&current) {
                return answer;
            }
            assert!(
                Instant::now() < deadline,
                "{caller}: never {what}; last state: {current:#?}"
            );
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// The items of a list answer.
pub(super) fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}
