//! What the server uses: is there an engine, is the container there, who runs the command, what can go.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout};

use countersign_docker::{Container, Engine, Error, is_conflict, is_missing, words};
use countersign_domain::{RunId, TerminalSize};

use super::{
    super::{Enclosure, Inside, Unusable},
    container::{Labels, OWNER, PruneLimits, Wanted},
    instructions::Instructions,
    mounts::Forbidden,
    process,
    supervision::{self, text_of},
    sweep,
};

/// What is behind the name of a container that is not set up yet.
const UNFINISHED: &str = "-new";

/// A caller that prepared a container this recently is about to use it, though nothing runs in it yet.
const ABOUT_TO: Duration = Duration::from_secs(5);

/// Nothing that was used this recently is removed for its age.
const RECENTLY: Duration = Duration::from_mins(1);

/// How often another client of the engine may be faster.
const ATTEMPTS: usize = 5;

/// Most bytes of the output of a failed setup that are told.
const MAX_TOLD: usize = 400;

/// Where the engine is and whose containers these are.
#[derive(Debug, Clone)]
pub struct DockerOptions {
    /// The Unix socket of the engine.
    pub socket: PathBuf,
    /// How long a container may take until commands can run in it.
    pub start_timeout: Duration,
    /// Tells the containers of this state directory from those of others, as a label.
    pub owner: String,
}

/// A Docker engine. Copies share what they know.
#[derive(Debug, Clone)]
pub struct DockerBackend {
    options: DockerOptions,
    limits: PruneLimits,
    never_mounted: Vec<PathBuf>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// One at a time makes the container of a name.
    making: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// When a container was used last, or seen first.
    used: Mutex<BTreeMap<String, Instant>>,
    /// Since when a container is known to be another than the settings say.
    outdated: Mutex<BTreeMap<String, Instant>>,
}

/// What a supervisor starts to run one command in a container.
#[derive(Debug)]
pub struct Client {
    /// Arguments of this program, without its name.
    pub arguments: Vec<OsString>,
    /// The whole environment of the client, which says what to run.
    pub environment: Vec<(OsString, OsString)>,
}

impl DockerBackend {
    /// A backend that has not been asked anything yet.
    pub fn new(options: DockerOptions) -> Self {
        Self {
            options,
            limits: PruneLimits::default(),
            never_mounted: Vec::new(),
            shared: Arc::default(),
        }
    }

    /// The same, for containers that are removed after these times. Which they are is written on each when it is made.
    #[must_use]
    pub fn with_limits(self, limits: PruneLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same, which mounts none of these places, nothing in them and nothing above them: the state directory. The
    /// workspace of an enclosure may be in them.
    #[must_use]
    pub(crate) fn never_mounting(self, places: Vec<PathBuf>) -> Self {
        Self {
            never_mounted: places,
            ..self
        }
    }

    /// Asks whether the engine answers and has the image.
    ///
    /// # Errors
    /// [`Unusable`] says what is missing.
    #[crate::compiled_once]
    pub async fn probe(&self, image: &str) -> Result<(), Unusable> {
        let ask = async {
            let engine = self.connect().await?;
            let found = engine.find_image(image).await;
            found.map_err(|error| image_error(image, &error))
        };
        self.in_time(ask).await
    }

    /// Makes sure that the container of an enclosure runs as described.
    ///
    /// # Errors
    /// [`Unusable`] says why it does not.
    #[crate::compiled_once]
    pub async fn prepare(&self, enclosure: &Enclosure) -> Result<(), Unusable> {
        let name = &enclosure.name;
        let own = Arc::clone(self.shared.making().entry(name.clone()).or_default());
        let prepare = async {
            let _alone = own.lock().await;
            Box::pin(self.prepare_alone(enclosure)).await
        };
        let prepared = self.in_time(prepare).await;
        if prepared.is_ok() {
            self.shared.use_now(name);
        }
        prepared
    }

    /// The client of one run.
    pub fn client(
        &self,
        enclosure: &Enclosure,
        inside: &Inside,
        run_id: &RunId,
        terminal: Option<TerminalSize>,
    ) -> Client {
        self.shared.use_now(&enclosure.name);
        let instructions = Instructions {
            socket: self.options.socket.clone(),
            container: enclosure.name.clone(),
            run: run_id.to_string(),
            argv: supervision::words(inside),
            cwd: text_of(&inside.cwd),
            env: supervision::environment(inside, run_id),
            terminal: terminal.map(|size| (size.rows(), size.cols())),
        };
        Client {
            arguments: vec![process::MODE.into()],
            environment: instructions.variables(),
        }
    }

    /// Kills what is left inside of a run whose client died, if anything is.
    #[crate::compiled_once]
    pub async fn sweep(&self, run_id: &RunId) {
        let Ok(engine) = self.connect().await else {
            // The containers of an engine that is gone are gone with it, or the process that finds them sweeps them.
            return;
        };
        for container in self.containers(&engine, true).await.unwrap_or_default() {
            sweep::sweep(&engine, &container.id, run_id.as_str()).await;
        }
    }

    /// Removes containers that were not used for too long, or are too old, as their labels say. One in which something
    /// runs stays.
    #[crate::compiled_once]
    pub async fn prune(&self) {
        let Ok(engine) = self.connect().await else { return };
        let Ok(containers) = self.containers(&engine, false).await else {
            return;
        };
        let now = engine_now(&engine).await;
        for container in containers {
            let Found {
                id,
                name,
                created,
                labels,
            } = container;
            let own = Arc::clone(self.shared.making().entry(name.clone()).or_default());
            let _alone = own.lock().await;
            let unused = self.shared.unused(&name);
            let age = now
                .and_then(|now| u64::try_from(now - created?).ok())
                .map(Duration::from_secs);
            let is_idle = labels.limits.idle.is_some_and(|limit| unused >= limit);
            let is_old = labels
                .limits
                .age
                .zip(age)
                .is_some_and(|(limit, age)| age >= limit)
                && (unused >= RECENTLY || labels.limits.age == Some(Duration::ZERO));
            if !is_idle && !is_old {
                continue;
            }
            match engine.container(&id).await {
                Ok(state) if !is_busy(&state) => {}
                Ok(_) | Err(_) => continue,
            }
            match engine.remove_container(&id).await {
                Ok(()) => {
                    tracing::info!(container.name = %name, "a sandbox container was not needed any more and is removed");
                    self.shared.forget(&name);
                }
                Err(error) => {
                    tracing::warn!(container.name = %name, error = %words(&error), "a sandbox container cannot be removed");
                }
            }
        }
    }

    async fn connect(&self) -> Result<Engine, Unusable> {
        let connected = Engine::connect(&self.options.socket).await;
        connected.map_err(|error| Unusable(error.to_string()))
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Unusable>>) -> Result<T, Unusable> {
        let limit = self.options.start_timeout;
        timeout(limit, work).await.unwrap_or_else(|_late| {
            Err(Unusable(format!(
                "the Docker engine at {} did not do it within {} ms (`[sandbox] start_timeout_ms`)",
                self.options.socket.display(),
                limit.as_millis()
            )))
        })
    }

    async fn prepare_alone(&self, enclosure: &Enclosure) -> Result<(), Unusable> {
        let never = self.never_mounted.iter().cloned();
        let forbidden = Forbidden::new(never.chain([self.options.socket.clone()]));
        let wanted = Wanted::of(enclosure, &self.options.owner, self.limits, &forbidden)?;
        let engine = self.connect().await?;
        for _attempt in 0..ATTEMPTS {
            match engine.container(&enclosure.name).await {
                Ok(state) => match self.check_container(enclosure, &wanted, &state)? {
                    ContainerCheck::Usable => return start(&engine, enclosure, &state).await,
                    ContainerCheck::Outdated => engine
                        .remove_container(&enclosure.name)
                        .await
                        .map_err(|error| failed(enclosure, "be removed", &error))?,
                },
                Err(error) if is_missing(&error) => match self.make(&engine, enclosure, &wanted).await? {
                    Made::Done => return Ok(()),
                    Made::SomebodyElse => {}
                },
                Err(error) => return Err(failed(enclosure, "be looked at", &error)),
            }
        }
        Err(Unusable(format!(
            "the container {} is made and removed by another program all the time",
            enclosure.name
        )))
    }

    /// Whether a container that exists can be used.
    fn check_container(
        &self,
        enclosure: &Enclosure,
        wanted: &Wanted,
        state: &Container,
    ) -> Result<ContainerCheck, Unusable> {
        let name = &enclosure.name;
        let labels = Labels::read(&state.labels);
        if labels.owner != self.options.owner || labels.scope != enclosure.scope_key {
            return Err(Unusable(format!(
                "there is a container {name} that is not this sandbox's; remove it with `docker rm -f {name}`, or set \
                 sandbox.docker.containerPrefix to another beginning"
            )));
        }
        if labels.configuration == wanted.configuration {
            self.shared.is_as_described(name);
            return Ok(ContainerCheck::Usable);
        }
        if is_busy(state) || self.shared.is_about_to_be_used(name) {
            tracing::warn!(
                container.name = %name,
                "the settings of a sandbox changed while its container is in use; it is made anew once it is not"
            );
            return Ok(ContainerCheck::Usable);
        }
        Ok(ContainerCheck::Outdated)
    }

    /// Makes a container and sets it up, under another name as long as that is not done: under its own there is never
    /// a half-made one.
    async fn make(&self, engine: &Engine, enclosure: &Enclosure, wanted: &Wanted) -> Result<Made, Unusable> {
        let unfinished = format!("{}{UNFINISHED}", enclosure.name);
        self.clear(engine, &unfinished).await?;
        let Some(id) = self.create(engine, enclosure, wanted, &unfinished).await? else {
            return Ok(Made::SomebodyElse);
        };
        let made = async {
            set_up(engine, enclosure, &id).await?;
            match engine.rename_container(&id, &enclosure.name).await {
                Ok(()) => Ok(Made::Done),
                Err(error) if is_conflict(&error) => Ok(Made::SomebodyElse),
                Err(error) => Err(failed(enclosure, "be named", &error)),
            }
        };
        let made = made.await;
        if !matches!(made, Ok(Made::Done))
            && let Err(error) = engine.remove_container(&id).await
        {
            tracing::warn!(container.name = %unfinished, error = %words(&error), "a half-made container stays");
        }
        made
    }

    /// Takes away what a process of this owner left half-made.
    async fn clear(&self, engine: &Engine, unfinished: &str) -> Result<(), Unusable> {
        let state = match engine.container(unfinished).await {
            Ok(state) => state,
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(Unusable(words(&error))),
        };
        if Labels::read(&state.labels).owner != self.options.owner {
            return Err(Unusable(format!(
                "there is a container {unfinished} that is not this sandbox's; remove it with `docker rm -f {unfinished}`"
            )));
        }
        engine
            .remove_container(unfinished)
            .await
            .map_err(|error| Unusable(words(&error)))
    }

    /// Creates and starts a container; its number, or `None` when another container has the name.
    async fn create(
        &self,
        engine: &Engine,
        enclosure: &Enclosure,
        wanted: &Wanted,
        name: &str,
    ) -> Result<Option<String>, Unusable> {
        let mut body = wanted.body.clone();
        loop {
            let id = match engine.create_container(name, body.clone()).await {
                Ok(id) => id,
                Err(error) if is_conflict(&error) => return Ok(None),
                Err(error) if is_missing(&error) => {
                    return Err(image_error(&enclosure.settings.image, &error));
                }
                Err(error) => return Err(failed(enclosure, "be made", &error)),
            };
            let error = match engine.start_container(&id).await {
                Ok(()) => return Ok(Some(id)),
                Err(error) => error,
            };
            let failure = failed(enclosure, "be started", &error);
            engine
                .remove_container(&id)
                .await
                .map_err(|error| Unusable(words(&error)))?;
            let init = body.host_config.as_mut().and_then(|config| config.init.as_mut());
            match init {
                // Not every installation has the small init; then the idle process itself is the first one.
                Some(init) if *init && words(&error).contains("docker-init") => *init = false,
                Some(_) | None => return Err(failure),
            }
        }
    }

    async fn containers(&self, engine: &Engine, only_running: bool) -> Result<Vec<Found>, Error> {
        let label = format!("{OWNER}={}", self.options.owner);
        let listed = engine.containers(label, only_running).await?;
        let found = listed.into_iter().map(|container| Found {
            id: container.id,
            name: container.name,
            created: container.created,
            labels: Labels::read(&container.labels),
        });
        // The filter is the engine's; that nothing else is touched is ours.
        Ok(found
            .filter(|found| found.labels.owner == self.options.owner)
            .collect())
    }
}

/// A container of ours.
struct Found {
    id: String,
    name: String,
    /// In Unix seconds, by the engine's clock.
    created: Option<i64>,
    labels: Labels,
}

enum ContainerCheck {
    Usable,
    /// It is not what the settings say any more, and nobody uses it.
    Outdated,
}

enum Made {
    Done,
    SomebodyElse,
}

impl Shared {
    fn making(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<tokio::sync::Mutex<()>>>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn use_now(&self, name: &str) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(name.to_owned(), Instant::now());
    }

    /// For how long a container was not used, as far as this server knows.
    fn unused(&self, name: &str) -> Duration {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.entry(name.to_owned()).or_insert_with(Instant::now).elapsed()
    }

    /// Whether a caller may have prepared an outdated container a moment ago. One that callers ask for all the time is
    /// made anew nevertheless.
    fn is_about_to_be_used(&self, name: &str) -> bool {
        let mut outdated = self.outdated.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *outdated.entry(name.to_owned()).or_insert_with(Instant::now);
        self.unused(name) < ABOUT_TO && since.elapsed() < ABOUT_TO
    }

    fn is_as_described(&self, name: &str) {
        self.outdated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    fn forget(&self, name: &str) {
        self.is_as_described(name);
        self.used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        self.making().remove(name);
    }
}

/// Whether a run goes on in it.
fn is_busy(state: &Container) -> bool {
    !state.execs.is_empty()
}

/// Starts a container that is set up, unless it runs.
async fn start(engine: &Engine, enclosure: &Enclosure, state: &Container) -> Result<(), Unusable> {
    if state.is_paused {
        let resumed = engine.resume_container(&enclosure.name).await;
        return resumed.map_err(|error| failed(enclosure, "be resumed", &error));
    }
    if state.is_running {
        return Ok(());
    }
    let started = engine.start_container(&enclosure.name).await;
    started.map_err(|error| failed(enclosure, "be started", &error))
}

/// Runs the setup command in a container, or looks at least whether commands can run in it.
async fn set_up(engine: &Engine, enclosure: &Enclosure, id: &str) -> Result<(), Unusable> {
    let command = enclosure.settings.setup_command.as_deref();
    let finished = engine.run(id, supervision::setup(command.unwrap_or(":"))).await;
    match (finished, command) {
        (Ok(finished), _) if finished.code == 0 => Ok(()),
        (Ok(finished), Some(_)) => Err(Unusable(format!(
            "sandbox.docker.setupCommand ended with code {}: {}",
            finished.code,
            last_words(&finished.output)
        ))),
        (Ok(finished), None) => Err(Unusable(format!(
            "no command can run in the image {}, which needs a /bin/sh: {}",
            enclosure.settings.image,
            last_words(&finished.output)
        ))),
        (Err(words), _) => Err(Unusable(format!(
            "the container {} cannot be used: {words}",
            enclosure.name
        ))),
    }
}

/// The end of a text, without what would move a cursor.
fn last_words(output: &str) -> String {
    let text = output.trim();
    let from = text.ceil_char_boundary(text.len().saturating_sub(MAX_TOLD));
    let told = text.get(from..).unwrap_or_default();
    told.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// What the engine's clock says, in Unix seconds. Ages are differences of its own times.
async fn engine_now(engine: &Engine) -> Option<i64> {
    let time = engine.time().await?;
    time.parse::<jiff::Timestamp>()
        .ok()
        .map(jiff::Timestamp::as_second)
}

fn image_error(image: &str, error: &Error) -> Unusable {
    if is_missing(error) {
        Unusable(format!(
            "the Docker engine does not have the image {image}; get it with `docker pull {image}`, build it, or set \
             sandbox.docker.image to another"
        ))
    } else {
        Unusable(format!("the image {image} cannot be looked at: {}", words(error)))
    }
}

fn failed(enclosure: &Enclosure, what: &str, error: &Error) -> Unusable {
    Unusable(format!(
        "the container {} cannot {what}: {}",
        enclosure.name,
        words(error)
    ))
}
