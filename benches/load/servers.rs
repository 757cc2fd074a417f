//! Starting and ending the servers that are compared.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tokio::time::Instant;

use super::reference;

/// A running server; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: String,
    token: Option<String>,
    /// The state directory, removed with it.
    _state: Option<TempDir>,
}

impl Server {
    /// The bare server, from this very program.
    pub(crate) fn reference() -> Self {
        let program = std::env::current_exe().expect("this program");
        let (child, address) = start(program_named(&program).arg(reference::MODE));
        Self {
            child,
            address,
            token: None,
            _state: None,
        }
    }

    /// countersign with everything allowed.
    pub(crate) fn countersign() -> Self {
        let state = state_directory();
        let (child, address) = start(&mut countersign(state.path()));
        let token =
            fs::read_to_string(state.path().join("countersign/gateway.token")).expect("the gateway's token");
        Self {
            child,
            address,
            token: Some(token.trim().to_owned()),
            _state: Some(state),
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Resident memory of the server, and of all its processes together.
    pub(crate) fn memory(&self) -> String {
        let server = self.child.id();
        let mut family = vec![server];
        let mut at = 0;
        while let Some(&parent) = family.get(at) {
            family.extend(children(parent));
            at += 1;
        }
        let total: u64 = family.iter().map(|pid| resident_kib(*pid)).sum();
        let all = family.len();
        format!(
            "server {} KiB; all {all} processes together {total} KiB",
            resident_kib(server)
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("ending a server");
        self.child.wait().expect("the end of a server");
    }
}

/// From starting the program to its ready line: first with a fresh state directory, then with the same again.
pub(crate) fn time_starts(times: u32) -> Vec<(Duration, Duration)> {
    let once = |state: &TempDir| {
        let begun = Instant::now();
        let (mut child, _) = start(&mut countersign(state.path()));
        let elapsed = begun.elapsed();
        child.kill().expect("ending a server");
        child.wait().expect("the end of a server");
        elapsed
    };
    (0..times)
        .map(|_| {
            let state = state_directory();
            (once(&state), once(&state))
        })
        .collect()
}

fn countersign(state: &Path) -> Command {
    let mut command = program_named(Path::new(env!("CARGO_BIN_EXE_countersign")));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--state-dir"])
        .arg(state)
        .env("HOME", state);
    command
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the harness that starts programs"
)]
fn program_named(program: &Path) -> Command {
    Command::new(program)
}

fn state_directory() -> TempDir {
    let state = tempfile::Builder::new()
        .prefix("countersign-load-")
        .tempdir()
        .expect("a directory");
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
    write(
        "openclaw.json",
        r#"{ "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } } }"#,
    );
    write(
        "countersign/countersign.toml",
        "[exec]\nlogin_path = false\n[limits]\nrequests_per_second = 0\n[telemetry]\nlog_filter = \"warn\"\n",
    );
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(state.path().join("countersign"), private).expect("a private directory");
    state
}

fn start(command: &mut Command) -> (Child, String) {
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
    let address = ready
        .split_whitespace()
        .find_map(|word| word.strip_prefix("http://"));
    let address = address
        .unwrap_or_else(|| panic!("no address in {ready:?}"))
        .trim_end_matches(['/', ','])
        .to_owned();
    (child, address)
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

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|size| size.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
