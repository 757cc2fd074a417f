//! The server of the demo: a state directory of its own and a real server on it, both gone afterwards.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path, sync::Arc, time::Duration};

use rustix::{
    event::{PollFd, PollFlags},
    process::Signal,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use countersign_config::settings::{MapEnvironment, StateDir};
use countersign_sys::{
    fs::create_private_file,
    process::{self, Spawn, SpawnedProcess},
};

use crate::cli::{client::Client, context::Context, context::ServerFlags, discover::Role, failure::Failure};

/// A server that is not ready by then never will be.
const START: Duration = Duration::from_secs(30);
/// Longer than the server gives what still runs.
const STOP: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// How long the demo waits for a person.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_mins(2);

/// The agent whose policy never asks, to show a refusal.
pub(super) const STRICT_AGENT: &str = "strict";

/// The agent whose commands go to the sandbox.
pub(super) const BOXED_AGENT: &str = "boxed";

/// A running server on a throw-away state directory.
#[derive(Debug)]
pub(super) struct DemoServer {
    folder: TempDir,
    server: Option<SpawnedProcess>,
    context: Context,
}

impl DemoServer {
    /// Writes the settings and starts the server.
    pub(super) async fn open(context: &Context) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("countersign-demo-").tempdir()?;
        let flags = ServerFlags {
            state_dir: Some(folder.path().to_path_buf()),
            ..ServerFlags::default()
        };
        // What names another server, or says that an agent calls, is not about this one.
        let environment = context.environment.all().into_iter();
        let environment = environment.filter(|(name, _)| !is_ours(OsStr::new(name)));
        let context = Context {
            server: flags,
            environment: Arc::new(MapEnvironment::new(environment)),
            ..context.clone()
        };
        write_settings(&context.state_dir()?)?;
        let mut demo = Self {
            server: None,
            folder,
            context,
        };
        demo.server = Some(start(demo.folder.path(), &demo.context)?);
        demo.until_ready().await?;
        Ok(demo)
    }

    /// The state directory, for the commands that a person types.
    pub(super) fn state_dir(&self) -> &Path {
        self.folder.path()
    }

    /// A client with the token of this role, found the way every command finds it.
    pub(super) fn client(&self, role: Role) -> Result<Client, Failure> {
        self.context.client(role)
    }

    async fn until_ready(&self) -> Result<(), Failure> {
        let server_json = self.context.state_dir()?.server_json();
        let ready = async {
            while !server_json.exists() && !self.has_ended() {
                sleep(LOOK).await;
            }
        };
        drop(timeout(START, ready).await);
        if server_json.exists() {
            return Ok(());
        }
        Err(Failure::unavailable("the server of the demo did not start")
            .hint("countersign --state-dir NEW-DIRECTORY serve   (shows why)"))
    }

    fn has_ended(&self) -> bool {
        self.server.as_ref().is_none_or(is_over)
    }

    /// Stops the server as an operator would and removes everything.
    pub(super) async fn close(mut self) -> Result<(), Failure> {
        if let Some(server) = &self.server {
            process::signal_process(server.pid(), Signal::TERM);
        }
        let over = async {
            while !self.has_ended() {
                sleep(LOOK).await;
            }
        };
        drop(timeout(STOP, over).await);
        self.end_server();
        Ok(())
    }

    fn end_server(&mut self) {
        if let Some(server) = self.server.take() {
            if !is_over(&server) {
                process::signal_process(server.pid(), Signal::KILL);
            }
            drop(server.wait());
        }
    }
}

/// Ctrl-C and failures leave no server behind.
impl Drop for DemoServer {
    fn drop(&mut self) {
        self.end_server();
    }
}

fn is_over(server: &SpawnedProcess) -> bool {
    let mut end = [PollFd::from_borrowed_fd(server.pidfd(), PollFlags::IN)];
    let looked = process::poll(&mut end, Some(Duration::ZERO));
    let [end] = &end;
    looked.is_ok() && !end.revents().is_empty()
}

fn write_settings(state_dir: &StateDir) -> Result<(), Failure> {
    state_dir
        .prepare()
        .map_err(|error| Failure::new("state-dir", error.to_string()))?;
    let config = json!({
        "tools": {"exec": {"host": "gateway", "security": "allowlist", "ask": "on-miss"}},
        "agents": {"list": [
            {"id": STRICT_AGENT, "tools": {"exec": {"ask": "off"}}},
            {"id": BOXED_AGENT, "tools": {"exec": {"host": "sandbox"}}},
        ]},
    });
    let document = json!({
        "version": 1,
        "defaults": {"security": "allowlist", "ask": "on-miss", "askFallback": "deny"},
        "agents": {STRICT_AGENT: {"ask": "off"}},
    });
    let server = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[approvals]\nalways_reachable = true\ntimeout_ms = {}\n",
        ANSWER_WITHIN.as_millis()
    );
    create_private_file(&state_dir.config(), config.to_string().as_bytes())?;
    create_private_file(
        &state_dir.root().join("exec-approvals.json"),
        document.to_string().as_bytes(),
    )?;
    create_private_file(&state_dir.server_config(), server.as_bytes())?;
    Ok(())
}

/// The same program, as an operator would start it. Our own settings variables stay here: the demo is not about
/// the server that the caller has.
fn start(state_dir: &Path, context: &Context) -> Result<SpawnedProcess, Failure> {
    let program = std::env::current_exe()?;
    let arguments = [
        OsStr::new("countersign"),
        OsStr::new("--state-dir"),
        state_dir.as_os_str(),
        OsStr::new("serve"),
    ];
    let inherited = context.environment.inherited();
    let environment: Vec<(&OsStr, &OsStr)> = inherited
        .iter()
        .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
        .filter(|(name, _value)| !is_ours(name))
        .collect();
    Ok(process::spawn(&Spawn {
        program: &program,
        arguments: &arguments,
        environment: &environment,
        output: None,
        descriptors: &[],
    })?)
}

fn is_ours(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"COUNTERSIGN_") || name.starts_with(b"OPENCLAW_") || name == b"NOTIFY_SOCKET"
}
