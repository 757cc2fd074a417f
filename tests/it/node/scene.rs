//! A node with a state directory of its own.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::gateway::{Gateway, Peer, SHARED};
use crate::support::{
    Finished, Invocation, Members, ProcessHandle, Scratch, countersign, eventually, kill_hard, pid_of,
    processes_of, run_program, terminate, within, write_file_mode,
};

/// The settings of a node before it starts, and the node once it does.
#[derive(Debug)]
pub(super) struct TestNode {
    pub(super) scratch: Scratch,
    state: PathBuf,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    lines: mpsc::UnboundedReceiver<Value>,
}

impl TestNode {
    /// A node whose policy is what `exec` and the document say; without either everything is denied.
    pub(super) fn new(exec: &Value, document: Option<&Value>) -> Self {
        let scratch = Scratch::new();
        let state = scratch.dir("state");
        fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("a mode");
        let config = json!({"tools": {"exec": exec}}).to_string();
        write_file_mode(&state.join("openclaw.json"), &config, 0o600);
        let own = scratch.dir("state/countersign");
        fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("a mode");
        // What the login shell of the machine says about PATH is not ours to test against.
        write_file_mode(
            &own.join("countersign.toml"),
            "[exec]\nlogin_path = false\n",
            0o600,
        );
        if let Some(document) = document {
            write_file_mode(&state.join("exec-approvals.json"), document.to_string(), 0o600);
        }
        Self::beside(scratch, state)
    }

    /// One whose machine has no policy at all.
    pub(super) fn bare() -> Self {
        let node = Self::new(&json!({}), None);
        fs::remove_file(node.state().join("openclaw.json")).expect("it was there");
        node
    }

    /// A node in a state directory that somebody else made.
    pub(super) fn in_directory(state: &Path) -> Self {
        Self::beside(Scratch::new(), state.to_owned())
    }

    fn beside(scratch: Scratch, state: PathBuf) -> Self {
        Self {
            scratch,
            state,
            arguments: Vec::new(),
            env: vec![("OPENCLAW_GATEWAY_TOKEN".to_owned(), SHARED.to_owned())],
            running: None,
        }
    }

    /// One that runs everything.
    pub(super) fn open() -> Self {
        Self::new(&json!({"security": "full", "ask": "off"}), None)
    }

    pub(super) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.set_env(name, value);
        self
    }

    pub(super) fn set_env(&mut self, name: &str, value: &str) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
    }

    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    pub(super) fn invocation(&self, words: &[&str]) -> Invocation {
        let mut invocation = countersign().env("HOME", self.scratch.path());
        for (name, value) in &self.env {
            invocation = invocation.env(name, value);
        }
        invocation
            .args(&["--state-dir"])
            .arg(self.state())
            .args(words)
            .args(&self.arguments)
    }

    /// Runs another command of the node's command line.
    pub(super) fn command(&self, words: &[&str]) -> Finished {
        run_program(&self.invocation(words))
    }

    /// Runs `node run` where it does not start.
    pub(super) fn does_not_start(&self, port: u16) -> Finished {
        let port = port.to_string();
        self.command(&["node", "run", "--host", "127.0.0.1", "--port", &port])
    }

    /// Starts it against a gateway.
    pub(super) fn start(&mut self, gateway: &Gateway) {
        self.start_at("127.0.0.1", gateway.port);
    }

    pub(super) fn start_at(&mut self, host: &str, port: u16) {
        // It has seen a gateway before: the first contact is no part of what is tried.
        let known = self.state().join("node.json");
        if !known.exists() {
            write_file_mode(&known, r#"{"version":1,"nodeId":"test"}"#, 0o600);
        }
        self.start_as_it_is(host, port);
    }

    /// Starts it for the first time in its life.
    pub(super) fn start_as_it_is(&mut self, host: &str, port: u16) {
        assert!(self.running.is_none(), "it runs");
        let port = port.to_string();
        let words = [
            "--json", "node", "run", "--retry", "--host", host, "--port", &port,
        ];
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.scratch.join("node.log"))
            .expect("a log");
        let mut child = self.invocation(&words).start(Stdio::from(log));
        let stdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                let value = serde_json::from_str(&line).unwrap_or_else(|_| json!({"text": line}));
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        self.running = Some(Running { child, lines });
    }

    /// Starts it, and has it connect to a gateway of the present generation.
    pub(super) async fn connected(&mut self, gateway: &Gateway) -> Peer {
        self.start(gateway);
        let peer = gateway.welcome().await;
        self.line("connected").await;
        peer
    }

    /// Waits for a line with this status.
    pub(super) async fn line(&mut self, status: &str) -> Value {
        let log = self.log_path();
        let running = self.running.as_mut().expect("it runs");
        within(status, async {
            loop {
                let Some(line) = running.lines.recv().await else {
                    panic!(
                        "no line {status:?}; the log: {}",
                        fs::read_to_string(&log).unwrap_or_default()
                    );
                };
                if line["status"] == status {
                    return line;
                }
            }
        })
        .await
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.join("node.log")
    }

    /// What it said on standard error.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The node's id on the wire.
    pub(super) fn id(&self) -> String {
        let text = fs::read_to_string(self.state().join("identity/device.json")).expect("an identity");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        file.text("deviceId").to_owned()
    }

    pub(super) fn pid(&self) -> i32 {
        pid_of(&self.running.as_ref().expect("it runs").child)
    }

    /// Asks it to stop, and waits for its exit code.
    pub(super) async fn stop(&mut self) -> Option<i32> {
        terminate(self.pid());
        self.ended().await
    }

    /// Waits for its end by itself.
    pub(super) async fn ended(&mut self) -> Option<i32> {
        let mut running = self.running.take().expect("it runs");
        let ended = tokio::task::spawn_blocking(move || running.child.wait());
        within("the end of the node", ended)
            .await
            .expect("no panic")
            .expect("waiting")
            .code()
    }

    /// Kills it.
    pub(super) async fn kill(&mut self) {
        kill_hard(self.pid());
        self.ended().await;
    }

    /// Waits until a file of the test has so many lines.
    pub(super) async fn has_lines(&self, name: &str, count: usize) {
        let path = self.scratch.join(name);
        eventually(
            "so many lines",
            || async { fs::read_to_string(&path).unwrap_or_default().lines().count() },
            |lines| *lines == count,
        )
        .await;
    }

    pub(super) fn lines_of(&self, name: &str) -> usize {
        fs::read_to_string(self.scratch.join(name))
            .unwrap_or_default()
            .lines()
            .count()
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            terminate(pid_of(&running.child));
            let ended = ProcessHandle::open(pid_of(&running.child))
                .is_none_or(|handle| handle.wait(std::time::Duration::from_secs(20)));
            if !ended {
                kill_hard(pid_of(&running.child));
            }
            drop(running.child.wait());
        }
        // A test that failed half-way may have left a run to its supervisor.
        for left in processes_of(None, &self.scratch.path()) {
            kill_hard(left.pid);
        }
        if thread::panicking() {
            #[expect(clippy::print_stderr, reason = "why a test failed")]
            {
                eprintln!("the node said:\n{}", self.log());
            }
        }
    }
}
