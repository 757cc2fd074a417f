//! A connection to an engine, and its errors in words for the operator.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bollard::{
    API_DEFAULT_VERSION, Docker,
    errors::Error,
    exec::ResizeExecOptions,
    models::{ContainerCreateBody, ExecConfig},
    query_parameters::{
        CreateContainerOptions, ListContainersOptions, RemoveContainerOptions, RenameContainerOptions,
    },
};
use tokio::{
    io::AsyncReadExt as _,
    net::UnixStream,
    time::{sleep, timeout},
};

use crate::attach::{self, AttachError, Attached};

/// How long the engine may take for its first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// How long it may take for any other. Creating a container on a busy machine takes a while.
const ANSWER_SECONDS: u64 = 60;

/// Most bytes kept of what a process of our own writes inside.
const MAX_OUTPUT: usize = 8 * 1024;

/// How often the end of a process is asked for, which the engine announces nowhere: soon at first, then doubling to this.
const END_INTERVAL: Duration = Duration::from_millis(20);
const FIRST_END_INTERVAL: Duration = Duration::from_millis(1);

/// How long after its stream closed a process may take to be reported as ended.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// An engine that answered.
#[derive(Debug, Clone)]
pub struct Engine {
    api: Docker,
    socket: PathBuf,
}

/// There is no engine that can be used, and why, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(String);

/// A container as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its labels, by name.
    pub labels: HashMap<String, String>,
    /// Whether it runs; true for a paused one, too.
    pub is_running: bool,
    /// Whether it is paused.
    pub is_paused: bool,
    /// The ids of what was started in it and has not ended.
    pub execs: Vec<String>,
}

/// A container on a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Its name, without a slash.
    pub name: String,
    /// When it was created: Unix seconds, by the engine's clock.
    pub created: Option<i64>,
    /// Its labels, by name.
    pub labels: HashMap<String, String>,
}

/// A process that ran inside to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code; from 129 on, a signal.
    pub code: i64,
    /// The last it wrote.
    pub output: String,
}

impl Engine {
    /// Connects, and negotiates a version of the API that both know.
    ///
    /// # Errors
    /// [`Unreachable`] says why there is no answer.
    #[crate::compiled_once]
    pub async fn connect(socket: &Path) -> Result<Self, Unreachable> {
        let unusable =
            |words: String| Unreachable(format!("no Docker engine at {}: {words}", socket.display()));
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

    /// Creates an exec in a container; its id. It is not started.
    ///
    /// # Errors
    /// When the engine refuses.
    #[crate::compiled_once]
    pub async fn create(&self, container: &str, config: ExecConfig) -> Result<String, Error> {
        self.api
            .create_exec(container, config)
            .await
            .map(|created| created.id)
    }

    /// Starts an exec that was created. The engine starts each at most once.
    ///
    /// # Errors
    /// [`AttachError`] says whether it may have been started.
    #[crate::compiled_once]
    pub async fn start(&self, exec: &str, has_terminal: bool) -> Result<Attached, AttachError> {
        attach::start(&self.socket, &self.api.client_version(), exec, has_terminal).await
    }

    /// The exit code of an exec whose stream was closed. `None` when the engine does not know it any more.
    #[crate::compiled_once]
    pub async fn code(&self, exec: &str) -> Option<i64> {
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
    #[crate::compiled_once]
    pub async fn has_ended(&self, exec: &str) -> bool {
        let state = self.api.inspect_exec(exec).await;
        // Right after its start it is neither running nor does it have a code.
        state.is_ok_and(|state| state.running == Some(false) && state.exit_code.is_some())
    }

    /// Runs a process of our own in a container to its end.
    ///
    /// # Errors
    /// Words for the operator, where it does not run or how it ended is not known.
    #[crate::compiled_once]
    pub async fn run(&self, container: &str, argv: Vec<String>) -> Result<Finished, String> {
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

    /// Looks for an image.
    ///
    /// # Errors
    /// [`is_missing`] where it does not.
    #[crate::compiled_once]
    pub async fn find_image(&self, image: &str) -> Result<(), Error> {
        self.api.inspect_image(image).await.map(drop)
    }

    /// Looks at a container, by its name or id.
    ///
    /// # Errors
    /// [`is_missing`] where there is none.
    #[crate::compiled_once]
    pub async fn container(&self, container: &str) -> Result<Container, Error> {
        let found = self.api.inspect_container(container, None).await?;
        let is = |flag: Option<bool>| flag == Some(true);
        let state = found.state.unwrap_or_default();
        Ok(Container {
            labels: found.config.and_then(|config| config.labels).unwrap_or_default(),
            is_running: is(state.running),
            is_paused: is(state.paused),
            execs: found.exec_ids.unwrap_or_default(),
        })
    }

    /// The containers with a label, as `NAME=VALUE`.
    ///
    /// # Errors
    /// When the engine does not say.
    #[crate::compiled_once]
    pub async fn containers(&self, label: String, only_running: bool) -> Result<Vec<Listed>, Error> {
        let options = ListContainersOptions {
            all: !only_running,
            filters: Some(HashMap::from([("label".to_owned(), vec![label])])),
            ..ListContainersOptions::default()
        };
        let listed = self.api.list_containers(Some(options)).await?;
        let found = listed.into_iter().filter_map(|summary| {
            let name = summary.names?.into_iter().next()?;
            Some(Listed {
                id: summary.id?,
                name: name.trim_start_matches('/').to_owned(),
                created: summary.created,
                labels: summary.labels?,
            })
        });
        Ok(found.collect())
    }

    /// Creates a container; its id. It is not started.
    ///
    /// # Errors
    /// [`is_conflict`] where another has the name, [`is_missing`] where the image is not there.
    #[crate::compiled_once]
    pub async fn create_container(&self, name: &str, body: ContainerCreateBody) -> Result<String, Error> {
        let options = CreateContainerOptions {
            name: Some(name.to_owned()),
            ..CreateContainerOptions::default()
        };
        let created = self.api.create_container(Some(options), body).await;
        created.map(|created| created.id)
    }

    /// Starts a container that was created or has ended.
    ///
    /// # Errors
    /// When it does not start.
    #[crate::compiled_once]
    pub async fn start_container(&self, container: &str) -> Result<(), Error> {
        self.api.start_container(container, None).await
    }

    /// Lets a paused container go on.
    ///
    /// # Errors
    /// When it does not.
    #[crate::compiled_once]
    pub async fn resume_container(&self, container: &str) -> Result<(), Error> {
        self.api.unpause_container(container).await
    }

    /// Gives a container another name.
    ///
    /// # Errors
    /// [`is_conflict`] where another has it.
    #[crate::compiled_once]
    pub async fn rename_container(&self, container: &str, name: &str) -> Result<(), Error> {
        let options = RenameContainerOptions {
            name: name.to_owned(),
        };
        self.api.rename_container(container, options).await
    }

    /// Removes a container with its volumes, whatever it does. One that is gone already is removed.
    ///
    /// # Errors
    /// When it stays.
    #[crate::compiled_once]
    pub async fn remove_container(&self, container: &str) -> Result<(), Error> {
        let options = RemoveContainerOptions {
            force: true,
            v: true,
            ..RemoveContainerOptions::default()
        };
        match self.api.remove_container(container, Some(options)).await {
            Err(error) if is_missing(&error) => Ok(()),
            removed => removed,
        }
    }

    /// Stops a container at once, with everything in it. The next run starts it again.
    #[crate::compiled_once]
    pub async fn stop(&self, container: &str) {
        // One that is gone or does not run is what was wanted.
        drop(self.api.kill_container(container, None).await);
    }

    /// Whether the engine says that a process which it started in a container has this argument.
    #[crate::compiled_once]
    pub async fn has_process_with(&self, container: &str, argument: &str) -> bool {
        let state = self.container(container).await;
        for exec in state.map(|state| state.execs).unwrap_or_default() {
            let process = self
                .api
                .inspect_exec(&exec)
                .await
                .ok()
                .and_then(|state| state.process_config);
            let words = process.and_then(|process| process.arguments).unwrap_or_default();
            if words.iter().any(|word| word == argument) {
                return true;
            }
        }
        false
    }

    /// Sets the size of the terminal of a started exec.
    ///
    /// # Errors
    /// When the engine refuses, as it does until the process is there.
    #[crate::compiled_once]
    pub async fn resize(&self, exec: &str, rows: u16, cols: u16) -> Result<(), Error> {
        let options = ResizeExecOptions {
            height: rows,
            width: cols,
        };
        self.api.resize_exec(exec, options).await
    }

    /// What its clock says, as RFC 3339. `None` where it does not say.
    #[crate::compiled_once]
    pub async fn time(&self) -> Option<String> {
        self.api.info().await.ok()?.system_time
    }
}

/// A description as the engine gets it. Its maps have another order each time.
///
/// # Errors
/// When it cannot be written.
pub fn as_json(body: &ContainerCreateBody) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(body)
}

/// Whether the engine says that there is no such thing.
pub fn is_missing(error: &Error) -> bool {
    status(error) == Some(404)
}

/// Whether the engine says that there is something of this name already, or that it is being changed.
pub fn is_conflict(error: &Error) -> bool {
    status(error) == Some(409)
}

fn status(error: &Error) -> Option<u16> {
    let Error::DockerResponseServerError { status_code, .. } = error else {
        return None;
    };
    Some(*status_code)
}

/// The engine's own words, or what happened to the connection.
pub fn words(error: &Error) -> String {
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
