//! A connection to an engine, and its errors in words for the operator.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bollard::{API_DEFAULT_VERSION, Docker, errors::Error, models::ExecConfig};
use tokio::{
    io::AsyncReadExt as _,
    net::UnixStream,
    time::{sleep, timeout},
};

use super::{
    super::Unusable,
    attach::{self, AttachError, Attached},
    supervision::{self, Blow},
};

/// How long the engine may take for its first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// How long it may take for any other. Creating a container on a busy machine takes a while.
const ANSWER_SECONDS: u64 = 60;

/// How long one sweep inside a container may take.
const SWEEP: Duration = Duration::from_secs(10);

/// How often a run is struck inside before its container is stopped.
const SWEEPS: usize = 3;

/// Most bytes kept of what a process of our own writes inside.
const MAX_OUTPUT: usize = 8 * 1024;

/// How often the end of a process is asked for, which the engine announces nowhere: soon at first, then doubling to this.
const END_INTERVAL: Duration = Duration::from_millis(20);
const FIRST_END_INTERVAL: Duration = Duration::from_millis(1);

/// How long after its stream closed a process may take to be reported as ended.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// An engine that answered.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    pub(super) api: Docker,
    pub(super) socket: PathBuf,
}

/// A process that ran inside to its end.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) code: i64,
    /// The last it wrote.
    pub(super) output: String,
}

impl Engine {
    /// Connects, and negotiates a version of the API that both know.
    pub(super) async fn connect(socket: &Path) -> Result<Self, Unusable> {
        let unusable = |words: String| Unusable(format!("no Docker engine at {}: {words}", socket.display()));
        let opened = timeout(FIRST_ANSWER, UnixStream::connect(socket)).await;
        match opened {
            Ok(Ok(_answers)) => {}
            Ok(Err(error)) => return Err(unusable(words_of_connecting(&error))),
            Err(_late) => return Err(unusable("it does not answer".to_owned())),
        }
        let path = socket
            .to_str()
            .ok_or_else(|| unusable("its path is not UTF-8".to_owned()))?;
        let connected = Docker::connect_with_unix(path, ANSWER_SECONDS, API_DEFAULT_VERSION);
        let negotiate = async { connected?.negotiate_version().await };
        match timeout(FIRST_ANSWER, negotiate).await {
            Ok(Ok(api)) => Ok(Self {
                api,
                socket: socket.to_owned(),
            }),
            Ok(Err(error)) => Err(unusable(words(&error))),
            Err(_late) => Err(unusable("it does not answer".to_owned())),
        }
    }

    /// Creates an exec in a container; it is not started.
    pub(super) async fn create(&self, container: &str, config: ExecConfig) -> Result<String, Error> {
        self.api
            .create_exec(container, config)
            .await
            .map(|created| created.id)
    }

    pub(super) async fn start(&self, exec: &str, has_terminal: bool) -> Result<Attached, AttachError> {
        attach::start(&self.socket, &self.api.client_version(), exec, has_terminal).await
    }

    /// The exit code of an exec whose stream was closed. `None` when the engine does not know it any more.
    pub(super) async fn code(&self, exec: &str) -> Option<i64> {
        let ask = async {
            let mut pause = FIRST_END_INTERVAL;
            loop {
                let state = self.api.inspect_exec(exec).await.ok()?;
                if state.running != Some(true) {
                    return state.exit_code;
                }
                sleep(pause).await;
                pause = (pause * 2).min(END_INTERVAL);
            }
        };
        timeout(END_TIMEOUT, ask).await.ok()?
    }

    /// Whether an exec has ended. False when that cannot be found out.
    pub(super) async fn has_ended(&self, exec: &str) -> bool {
        let state = self.api.inspect_exec(exec).await;
        // Right after its start it is neither running nor does it have a code.
        state.is_ok_and(|state| state.running == Some(false) && state.exit_code.is_some())
    }

    /// Runs a process of our own in a container to its end.
    pub(super) async fn run(&self, container: &str, argv: Vec<String>) -> Result<Finished, String> {
        let config = ExecConfig {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            // Not one of a run: it has no mark.
            cmd: Some(argv),
            ..ExecConfig::default()
        };
        let exec = self
            .create(container, config)
            .await
            .map_err(|error| words(&error))?;
        let Attached { mut stream, first } = self
            .start(&exec, false)
            .await
            .map_err(|error| error.to_string())?;
        let mut frames = attach::Frames::default();
        let mut output = Vec::new();
        let mut take = |bytes: &[u8]| {
            for (_, piece) in frames.take(bytes).unwrap_or_default() {
                output.extend_from_slice(piece);
            }
            let surplus = output.len().saturating_sub(MAX_OUTPUT);
            output.drain(..surplus);
        };
        take(&first);
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = stream
                .read(&mut buffer)
                .await
                .map_err(|error| error.to_string())?;
            if read == 0 {
                break;
            }
            take(buffer.get(..read).unwrap_or_default());
        }
        let output = String::from_utf8_lossy(&output).into_owned();
        match self.code(&exec).await {
            Some(code) => Ok(Finished { code, output }),
            None => Err("the engine does not know how it ended".to_owned()),
        }
    }

    /// Asks everything of a run in a container to end. That it does so is not awaited.
    pub(super) async fn ask_to_end(&self, container: &str, run: &str, since: u64) {
        let asked = self.run(container, supervision::sweep(run, since, Blow::Ask));
        // Who does not hear it is killed soon.
        drop(timeout(SWEEP, asked).await);
    }

    /// Kills what is left of a run that may have been in a container. That is stopped only if it was there.
    pub(super) async fn sweep(&self, container: &str, run: &str) {
        let swept = self.run(
            container,
            supervision::sweep(run, supervision::UNKNOWN, Blow::Kill),
        );
        match timeout(SWEEP, swept).await {
            Ok(Ok(finished)) if finished.code == 0 => {}
            Ok(Ok(_) | Err(_)) | Err(_) if self.runs(container, run).await => {
                self.kill_run(container, run, supervision::UNKNOWN).await;
            }
            Ok(Ok(_) | Err(_)) | Err(_) => {}
        }
    }

    /// Whether the first process of a run is in a container.
    async fn runs(&self, container: &str, run: &str) -> bool {
        let state = self.api.inspect_container(container, None).await;
        for exec in state.ok().and_then(|state| state.exec_ids).unwrap_or_default() {
            let process = self
                .api
                .inspect_exec(&exec)
                .await
                .ok()
                .and_then(|state| state.process_config);
            let words = process.and_then(|process| process.arguments).unwrap_or_default();
            if words.iter().any(|word| word == run) {
                return true;
            }
        }
        false
    }

    /// Kills everything of a run in a container. Where nothing can be started in it any more, e.g. since the run used up
    /// its processes, or where something outlives this, the container is stopped.
    pub(super) async fn kill_run(&self, container: &str, run: &str, since: u64) {
        for _attempt in 0..SWEEPS {
            let swept = self.run(container, supervision::sweep(run, since, Blow::Kill));
            match timeout(SWEEP, swept).await {
                Ok(Ok(finished)) if finished.code == 0 => return,
                // It found something that was still dying, or was killed itself.
                Ok(Ok(finished)) if finished.code == 1 => {}
                Ok(Ok(_) | Err(_)) | Err(_) => break,
            }
        }
        self.stop(container).await;
    }

    /// Stops a container at once, with everything in it. The next run starts it again.
    pub(super) async fn stop(&self, container: &str) {
        // One that is gone or does not run is what was wanted.
        drop(self.api.kill_container(container, None).await);
    }
}

/// Whether the engine says that there is no such thing.
pub(super) fn is_missing(error: &Error) -> bool {
    status(error) == Some(404)
}

/// Whether the engine says that there is something of this name already, or that it is being changed.
pub(super) fn is_conflict(error: &Error) -> bool {
    status(error) == Some(409)
}

fn status(error: &Error) -> Option<u16> {
    let Error::DockerResponseServerError { status_code, .. } = error else {
        return None;
    };
    Some(*status_code)
}

/// The engine's own words, or what happened to the connection.
pub(super) fn words(error: &Error) -> String {
    if let Error::DockerResponseServerError { message, .. } = error {
        message.trim().to_owned()
    } else if matches!(error, Error::RequestTimeoutError) {
        "it does not answer in time".to_owned()
    } else {
        error.to_string()
    }
}

fn words_of_connecting(error: &io::Error) -> String {
    let known = [
        (
            io::ErrorKind::NotFound,
            "there is no such socket; install and start Docker, or set `[sandbox] docker_socket`",
        ),
        (
            io::ErrorKind::PermissionDenied,
            "the server's account may not use it; add the account to the group that owns the socket",
        ),
        (
            io::ErrorKind::ConnectionRefused,
            "nobody listens there; start Docker",
        ),
    ];
    known
        .into_iter()
        .find(|(kind, _words)| *kind == error.kind())
        .map_or_else(|| error.to_string(), |(_kind, words)| words.to_owned())
}
