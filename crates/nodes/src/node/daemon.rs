//! A node from its first connection to its last.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use countersign_config::settings::StateDir;
use countersign_domain::Secret;
use countersign_engine::{Engine, prompter::Prompter};
use countersign_protocol::bridge::{HelloOk, Protocol, RESTART};
use countersign_sys::clock::{Clock, Ids};

use super::{
    address::GatewayAddress,
    approach::{CLOCK_TOLERANCE_MS, Credential, Introduction, Refused},
    backoff::Backoff,
    connection::{self, Ended, Greeting, Shaken},
    host::{Companion, Host, HostParts},
    identity::{DeviceIdentity, DeviceTokens, IdentityError},
    socket,
    status_file::{NodeEvent, NodeState, NodeStatusFile, started_ticks},
    uplink::Uplink,
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

/// A node, from its first connection to its last.
///
/// The caller runs [`NodeDaemon::keep_connected`] and, when the node has to stop, [`NodeDaemon::say_goodbye`] beside it.
#[derive(Debug)]
pub struct NodeDaemon {
    options: NodeOptions,
    identity: DeviceIdentity,
    tokens: DeviceTokens,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    host: Arc<Host>,
    uplink: Arc<Uplink>,
    teller: Teller,
    hang_up: CancellationToken,
}

/// What a node is made of.
pub struct NodeParts {
    /// Decides and runs what the gateway asks for.
    pub engine: Arc<Engine>,
    /// Where its identity, its tokens and its status lie.
    pub state_dir: StateDir,
    /// What it was told.
    pub options: NodeOptions,
    /// Who it is.
    pub identity: DeviceIdentity,
    /// The way to a person at this machine, if there is one.
    pub prompter: Option<Arc<dyn Prompter>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where ids and random bytes come from.
    pub ids: Arc<dyn Ids>,
    /// Hears of everything that people may want to know.
    pub tell: TellPeople,
}

impl fmt::Debug for NodeParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeParts")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Tells people about an event of a node.
pub type TellPeople = Box<dyn Fn(&NodeEvent) + Send + Sync>;

/// Hands events to the caller, and writes them to the status file.
struct Teller {
    path: std::path::PathBuf,
    status: std::sync::Mutex<NodeStatusFile>,
    clock: Arc<dyn Clock>,
    tell: TellPeople,
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Teller {
    fn new(
        state_dir: &StateDir,
        identity: &DeviceIdentity,
        options: &NodeOptions,
        paired: bool,
        clock: Arc<dyn Clock>,
        tell: TellPeople,
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

impl NodeDaemon {
    /// Joins a node. Nothing is sent before [`NodeDaemon::keep_connected`].
    ///
    /// # Errors
    /// [`IdentityError`] when the token that a gateway gave cannot be read.
    pub fn new(parts: NodeParts) -> Result<Self, IdentityError> {
        let NodeParts {
            engine,
            state_dir,
            options,
            identity,
            prompter,
            clock,
            ids,
            tell,
        } = parts;
        let tokens = DeviceTokens::of(&state_dir, identity.id());
        let has_token = tokens.load()?.is_some();
        let uplink = Arc::new(Uplink::new());
        let host = Host::new(HostParts {
            engine,
            clock: Arc::clone(&clock),
            uplink: Arc::clone(&uplink),
            node_id: identity.id(),
            gateway: options.address.to_string(),
            commands: options.commands.clone(),
            prompter,
            companion: options.companion,
        });
        let teller = Teller::new(
            &state_dir,
            &identity,
            &options,
            has_token,
            Arc::clone(&clock),
            tell,
        );
        Ok(Self {
            options,
            identity,
            tokens,
            clock,
            ids,
            host,
            uplink,
            teller,
            hang_up: CancellationToken::new(),
        })
    }

    /// Tells people, and the status file.
    pub fn tell_people(&self, event: &NodeEvent) {
        self.teller.tell(event);
    }

    /// Takes back the questions that wait at this machine; nothing more is asked here.
    pub fn withdraw_questions(&self) {
        self.host.withdraw_questions();
    }

    /// Keeps the connection until everything is answered that was asked, for a moment at most, and hangs up.
    #[crate::compiled_once]
    pub async fn say_goodbye(&self) {
        if timeout(GOODBYE, self.host.finish()).await.is_err() {
            tracing::warn!("not everything could be reported; the gateway may ask at the next start");
        }
        self.hang_up.cancel();
    }

    /// Connects again and again until it is told to hang up.
    #[crate::compiled_once]
    pub async fn keep_connected(&self) {
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

    async fn hung_up_without_connection(&self) {
        self.hang_up.cancelled().await;
        // A connection that stands needs a moment for its goodbye.
        sleep(GOODBYE).await;
    }

    fn chance(&self) -> u8 {
        let mut byte = [0];
        self.ids.secret_bytes(&mut byte);
        let [byte] = byte;
        byte
    }

    async fn attempt(&self, course: &mut Course) -> Next {
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
        let introduction = introduction(&self.identity, &self.options);
        let greeting = Greeting {
            introduction: &introduction,
            credential: &credential,
            protocol: course.protocol,
            clock: &*self.clock,
            ids: &*self.ids,
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
    async fn serve(&self, course: &mut Course, shaken: Shaken) -> Next {
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
        let ended = connection::serve(
            shaken,
            &self.host,
            &self.uplink,
            Arc::clone(&self.ids),
            &self.hang_up,
        )
        .await;
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
    fn keep_token(&self, hello: &HelloOk) {
        let Some(token) = &hello.auth.device_token else {
            return;
        };
        let token = Secret::new(token.clone());
        let known = self.tokens.load().ok().flatten();
        if known.is_some_and(|known| known.expose() == token.expose()) {
            return;
        }
        match self.tokens.store(&token, &hello.auth.scopes, &*self.clock) {
            Ok(()) => self.teller.paired(true),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the token of this device cannot be kept"
                );
            }
        }
    }

    fn refused(&self, course: &mut Course, refused: Refused, credential: &Credential, message: &str) -> Next {
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
    fn unauthorized(&self, course: &mut Course, credential: &Credential) -> Next {
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

    fn tell_refused(&self, course: &mut Course, message: &str) {
        self.tell(
            course,
            NodeEvent::Refused {
                message: connection::harmless(message),
            },
        );
    }

    fn disconnected(&self, course: &mut Course, message: String) -> Next {
        self.tell(course, NodeEvent::Disconnected { message });
        Next::Backoff
    }

    /// Tells what is new.
    fn tell(&self, course: &mut Course, event: NodeEvent) {
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
