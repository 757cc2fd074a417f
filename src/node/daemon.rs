//! A node host from its first to its last moment.

use std::{path::Path, sync::Arc, time::Duration};

use sd_notify::NotifyState;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    address::GatewayAddress,
    approach::{CLOCK_TOLERANCE_MS, Credential, Introduction, Refused},
    backoff::Backoff,
    connection::{self, Ended, Greeting, Shaken},
    host::{Companion, Host, HostParts},
    identity::{DeviceIdentity, DeviceTokens, IdentityError, NodeFile},
    socket,
    status_file::{NodeEvent, NodeState, NodeStatusFile, PolicyNews, started_ticks},
    uplink::Uplink,
};
use crate::{
    app::{EngineRoom, Opened, Prepared, StartError},
    approvals::store::DocumentStatus,
    clock::{Clock, Ids},
    domain::{Actor, AgentId, Secret},
    engine::{Unstarted, preset::PresetError, prompter::Prompter},
    hosts::node::NoNodes,
    ipc::OtherUi,
    lifecycle::{self, Signals, Stop},
    policy::{layers::Layer, preset::PresetReach},
    protocol::bridge::{HelloOk, Protocol, RESTART},
    settings::{IpcRole, StateDir},
};

/// How long answers may take to leave when the node stops.
const GOODBYE: Duration = Duration::from_secs(10);
/// The pause after a gateway that restarts.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// What a node is told.
#[derive(Debug)]
pub struct NodeOptions {
    /// Where the gateway is.
    pub address: GatewayAddress,
    /// Its name for people.
    pub display_name: String,
    /// The random id of this installation.
    pub instance_id: String,
    /// The secret of all nodes, for the first connection.
    pub shared_token: Option<Secret>,
    /// What it serves; [`commands`] has everything.
    pub commands: Vec<String>,
    /// The PATH that it tells.
    pub path_env: Option<String>,
    /// Whether a companion app has to be there.
    pub companion: Companion,
}

/// Everything that a node can serve.
pub fn commands() -> impl Iterator<Item = &'static str> {
    super::host::COMMANDS.iter().copied()
}

/// A node does not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The engine behind it does not.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The policy that was chosen for this machine cannot be set.
    #[error("the policy of this machine cannot be set")]
    Policy(#[from] PresetError),
}

/// Runs a node until it is told to stop, and stops it in order: what runs is killed and reported. `tell` hears of
/// everything that people may want to know.
///
/// # Errors
/// [`NodeError`] when it could not start; stopping is no error.
pub async fn run(
    prepared: Prepared,
    options: NodeOptions,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    tell: impl Fn(&NodeEvent) + Send + Sync,
) -> Result<(), NodeError> {
    let signals = Signals::catch().map_err(|source| StartError::System {
        what: "signals cannot be caught",
        source,
    })?;
    let stop = Stop::default();
    let state_dir = prepared.state_dir().clone();
    // First the ledger: its lock says that no other node runs in this directory.
    let opened = Opened::new(prepared, Arc::clone(&clock), Arc::clone(&ids))?;
    let identity = DeviceIdentity::ensure(&state_dir, &*clock, &*ids)?;
    let tokens = DeviceTokens::of(&state_dir, identity.id());
    let has_token = tokens.load()?.is_some();
    let room = opened
        .into_engine_room(Arc::new(NoNodes), Unstarted::Void)
        .await?;
    let policy = apply_chosen_policy(&room, &state_dir).await?;
    let uplink = Arc::new(Uplink::new());
    let host = Host::new(HostParts {
        engine: Arc::clone(&room.engine),
        clock: Arc::clone(&clock),
        uplink: Arc::clone(&uplink),
        node_id: identity.id(),
        gateway: options.address.to_string(),
        commands: options.commands.clone(),
        prompter: prompter(&room, &state_dir),
        companion: options.companion,
    });
    let teller = Teller::new(&state_dir, &identity, &options, has_token, &*clock, &tell);
    let hang_up = CancellationToken::new();
    let node = Node {
        options: &options,
        identity: &identity,
        tokens: &tokens,
        clock: &*clock,
        ids: &ids,
        host: &host,
        uplink: &uplink,
        teller: &teller,
        hang_up: &hang_up,
    };
    teller.tell(&NodeEvent::Started);
    if let Some(news) = policy {
        teller.tell(&NodeEvent::Policy(news));
    }
    lifecycle::notify(NotifyState::Ready);
    let room = serve(node, room, signals, &stop).await;
    teller.tell(&NodeEvent::Stopping);
    drop(host);
    room.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Sets the policy that was chosen for this machine, where it has none; the choice is done with then. What there is to say.
async fn apply_chosen_policy(
    room: &EngineRoom,
    state_dir: &StateDir,
) -> Result<Option<PolicyNews>, NodeError> {
    let file = NodeFile::load(state_dir)?;
    let chosen = file.as_ref().and_then(|file| file.policy);
    let news = match (chosen, has_policy(room)) {
        (Some(preset), false) => {
            let owner = Actor::state_directory();
            room.engine
                .apply_preset(&owner, preset, PresetReach::Defaults)
                .await?;
            PolicyNews::Set(preset)
        }
        (Some(preset), true) => PolicyNews::Kept(preset),
        (None, false) => PolicyNews::Missing,
        (None, true) => return Ok(None),
    };
    if let Some(mut file) = file.filter(|_file| chosen.is_some()) {
        file.policy = None;
        file.save(state_dir)?;
    }
    Ok(Some(news))
}

/// Whether anything says what may run on this machine: its approvals document, or a key of its configuration.
fn has_policy(room: &EngineRoom) -> bool {
    let document = room.engine.document_view().status;
    let settings = room.settings.current();
    let agent = AgentId::main();
    let (security, ask) = (settings.policy.security(&agent), settings.policy.ask(&agent));
    let layers = security.iter().map(|said| said.layer);
    let is_configured = layers
        .chain(ask.iter().map(|said| said.layer))
        .any(|layer| layer != Layer::Default);
    is_configured || !matches!(document, DocumentStatus::Missing)
}

/// The way to a person at this machine: the approvals socket that another process hosts, a server of ours for one. A
/// node never hosts it.
fn prompter(room: &EngineRoom, state_dir: &StateDir) -> Option<Arc<dyn Prompter>> {
    match room.settings.current().server.ipc.role {
        IpcRole::Off => None,
        IpcRole::Auto | IpcRole::Host | IpcRole::Client => Some(Arc::new(OtherUi::new(
            &room.engine,
            room.engine.documents().path().to_path_buf(),
            state_dir.home().map(Path::to_path_buf),
        ))),
    }
}

async fn serve(node: Node<'_>, room: EngineRoom, signals: Signals, stop: &Stop) -> EngineRoom {
    let (host, hang_up) = (node.host, node.hang_up);
    let work = async {
        stop.drain.cancelled().await;
        lifecycle::notify(NotifyState::Stopping);
        host.withdraw_questions();
        room.engine.kill_all().await;
        // The connection stands until everything is answered that was asked.
        if timeout(GOODBYE, host.finish()).await.is_err() {
            tracing::warn!("not everything could be reported; the gateway may ask at the next start");
        }
        hang_up.cancel();
    };
    let beside = async {
        tokio::join!(
            room.keep(),
            signals.follow(stop, || room.reload()),
            lifecycle::feed_watchdog()
        )
    };
    let both = async { tokio::join!(node.keep_connected(), work) };
    tokio::select! {
        ((), ()) = both => {}
        // A second signal: the node leaves unsaid what it still has to say.
        () = stop.abort.cancelled() => {}
        (never, (), _) = beside => match never {},
    }
    room
}

/// Hands events to the caller, and writes them to the status file.
struct Teller<'a, T> {
    path: std::path::PathBuf,
    status: std::sync::Mutex<NodeStatusFile>,
    clock: &'a dyn Clock,
    tell: T,
}

impl<'a, T: Fn(&NodeEvent)> Teller<'a, T> {
    fn new(
        state_dir: &StateDir,
        identity: &DeviceIdentity,
        options: &NodeOptions,
        paired: bool,
        clock: &'a dyn Clock,
        tell: T,
    ) -> Self {
        let pid = std::process::id();
        Self {
            path: state_dir.node_status(),
            status: std::sync::Mutex::new(NodeStatusFile {
                pid,
                started_ticks: started_ticks(pid),
                node_id: identity.id(),
                gateway: options.address.to_string(),
                state: NodeState::Connecting,
                since_ms: clock.now().get(),
                paired,
                request_id: None,
                detail: None,
            }),
            clock,
            tell,
        }
    }
}

trait Tell: Sync {
    fn tell(&self, event: &NodeEvent);
    fn paired(&self, paired: bool);
}

impl<T: Fn(&NodeEvent) + Sync> Tell for Teller<'_, T> {
    fn tell(&self, event: &NodeEvent) {
        let mut status = self
            .status
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        status.apply(event, self.clock.now().get());
        status.save(&self.path);
        (self.tell)(event);
    }

    fn paired(&self, paired: bool) {
        let mut status = self
            .status
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        status.paired = paired;
    }
}

#[derive(Clone, Copy)]
struct Node<'a> {
    options: &'a NodeOptions,
    identity: &'a DeviceIdentity,
    tokens: &'a DeviceTokens,
    clock: &'a dyn Clock,
    ids: &'a Arc<dyn Ids>,
    host: &'a Arc<Host>,
    uplink: &'a Uplink,
    teller: &'a dyn Tell,
    hang_up: &'a CancellationToken,
}

/// What is remembered from one attempt to the next.
#[derive(Debug)]
struct Course {
    protocol: Protocol,
    backoff: Backoff,
    /// The device's own token was refused: the shared one is tried.
    without_device_token: bool,
    /// What was told last, so that the same is not told at every attempt.
    reported: Option<NodeEvent>,
    skew_reported: bool,
}

/// When the next attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Now,
    After(Duration),
    Backoff,
}

impl Node<'_> {
    /// Connects again and again until it is told to hang up.
    async fn keep_connected(self) {
        let mut course = Course {
            protocol: Protocol::Four,
            backoff: Backoff::default(),
            without_device_token: false,
            reported: None,
            skew_reported: false,
        };
        while !self.hang_up.is_cancelled() {
            let next = tokio::select! {
                next = self.attempt(&mut course) => next,
                // Between the connections: one that stands hears of it by itself and says goodbye.
                () = self.hung_up_without_connection() => return,
            };
            let pause = match next {
                Next::Now => continue,
                Next::After(pause) => pause,
                Next::Backoff => course.backoff.next(self.chance()),
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.hang_up.cancelled() => return,
            }
        }
    }

    async fn hung_up_without_connection(self) {
        self.hang_up.cancelled().await;
        // A connection that stands needs a moment for its goodbye.
        sleep(GOODBYE).await;
    }

    fn chance(self) -> u8 {
        let mut byte = [0];
        self.ids.secret_bytes(&mut byte);
        let [byte] = byte;
        byte
    }

    async fn attempt(self, course: &mut Course) -> Next {
        let device = if course.without_device_token {
            None
        } else {
            match self.tokens.load() {
                Ok(token) => token,
                Err(error) => return self.disconnected(course, in_words(&error)),
            }
        };
        let credential = Credential::choose(device, self.options.shared_token.as_ref());
        let opened = tokio::select! {
            opened = socket::open(&self.options.address) => opened,
            () = self.hang_up.cancelled() => return Next::Now,
        };
        let socket = match opened {
            Ok(socket) => socket,
            Err(error) => return self.disconnected(course, in_words(&error)),
        };
        let introduction = introduction(self.identity, self.options);
        let greeting = Greeting {
            introduction: &introduction,
            credential: &credential,
            protocol: course.protocol,
            clock: self.clock,
            ids: &**self.ids,
        };
        match connection::shake_hands(socket, &greeting).await {
            Ok(shaken) => self.serve(course, shaken).await,
            Err(Ended::Refused(error)) => {
                let refused = Refused::of(&error, course.protocol);
                self.refused(course, refused, &credential, &error.message)
            }
            Err(ended) => self.disconnected(course, ended.to_string()),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    async fn serve(self, course: &mut Course, shaken: Shaken) -> Next {
        course.backoff.reset();
        course.without_device_token = false;
        self.keep_token(&shaken.hello);
        let version = connection::harmless(&shaken.hello.server_version);
        let protocol = shaken.hello.protocol;
        if let Some(ahead_ms) = shaken.clock_ahead_ms
            && ahead_ms.saturating_abs() > CLOCK_TOLERANCE_MS
            && !course.skew_reported
        {
            course.skew_reported = true;
            self.teller.tell(&NodeEvent::ClockSkew { ahead_ms });
        }
        self.tell(course, NodeEvent::Connected { version, protocol });
        let ended =
            connection::serve(shaken, self.host, self.uplink, Arc::clone(self.ids), self.hang_up).await;
        match &ended {
            Ended::Stopped => Next::Now,
            Ended::Shutdown => {
                self.tell(
                    course,
                    NodeEvent::Disconnected {
                        message: ended.to_string(),
                    },
                );
                Next::After(RESTART_PAUSE)
            }
            Ended::Closed { code, .. } if *code == RESTART => {
                self.tell(
                    course,
                    NodeEvent::Disconnected {
                        message: ended.to_string(),
                    },
                );
                Next::After(RESTART_PAUSE)
            }
            ended => self.disconnected(course, ended.to_string()),
        }
    }

    /// Keeps the token that the gateway gave this device.
    fn keep_token(self, hello: &HelloOk) {
        let Some(token) = &hello.auth.device_token else {
            return;
        };
        let token = Secret::new(token.clone());
        let known = self.tokens.load().ok().flatten();
        if known.is_some_and(|known| known.expose() == token.expose()) {
            return;
        }
        match self.tokens.store(&token, &hello.auth.scopes, self.clock) {
            Ok(()) => self.teller.paired(true),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the token of this device cannot be kept"
                );
            }
        }
    }

    fn refused(self, course: &mut Course, refused: Refused, credential: &Credential, message: &str) -> Next {
        match refused {
            Refused::OtherProtocol(protocol) if course.protocol == Protocol::Four => {
                course.protocol = protocol;
                return Next::Now;
            }
            Refused::Credential => return self.unauthorized(course, credential),
            Refused::Pairing { request_id } => self.tell(course, NodeEvent::Pairing { request_id }),
            Refused::Later(Some(pause)) => {
                self.tell_refused(course, message);
                return Next::After(pause.max(Duration::from_millis(100)));
            }
            Refused::OtherProtocol(_) | Refused::Clock | Refused::Later(None) | Refused::Other => {
                self.tell_refused(course, message);
            }
        }
        // The gateway may be another one the next time.
        if course.backoff.failures() > 2 {
            course.protocol = Protocol::Four;
        }
        Next::Backoff
    }

    /// A token of its own that does not count is dropped once, if there is another way in.
    fn unauthorized(self, course: &mut Course, credential: &Credential) -> Next {
        let of_device = matches!(credential, Credential::Device(_));
        if of_device && self.options.shared_token.is_some() {
            match self.tokens.forget() {
                Ok(()) => self.teller.paired(false),
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "a token that does not count any more stays"
                    );
                }
            }
            course.without_device_token = true;
            return Next::Now;
        }
        self.tell(course, NodeEvent::Unauthorized { of_device });
        Next::Backoff
    }

    fn tell_refused(self, course: &mut Course, message: &str) {
        self.tell(
            course,
            NodeEvent::Refused {
                message: connection::harmless(message),
            },
        );
    }

    fn disconnected(self, course: &mut Course, message: String) -> Next {
        self.tell(course, NodeEvent::Disconnected { message });
        Next::Backoff
    }

    /// Tells what is new.
    fn tell(self, course: &mut Course, event: NodeEvent) {
        if course.reported.as_ref() != Some(&event) {
            self.teller.tell(&event);
            course.reported = Some(event);
        }
    }
}

/// What a node says of itself.
pub(super) fn introduction<'a>(identity: &'a DeviceIdentity, options: &'a NodeOptions) -> Introduction<'a> {
    Introduction {
        key: &identity.key,
        display_name: &options.display_name,
        instance_id: &options.instance_id,
        commands: &options.commands,
        path_env: options.path_env.as_deref(),
    }
}

/// An error with its causes, in one line.
pub(super) fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    connection::harmless(&text)
}
