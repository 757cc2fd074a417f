//! A server from its first to its last moment.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sd_notify::NotifyState;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use countersign_config::{
    settings::{Server, SettingsStore, StateDir},
    tls::LiveTls,
};
use countersign_domain::{Actor, Isolation, Secret};
use countersign_engine::{
    Engine, Unstarted,
    tokens::{TokenFileError, Tokens},
};
use countersign_hosts::node::NodeLink;
use countersign_http::{AppState, Bound, Endpoint, HttpService, ListenError, ListenOptions, Purpose, Routes};
use countersign_ledger::auth::SharedSecret;
use countersign_nodes::bridge::{Bridge, BridgeParts, NodeHub};
use countersign_sys::{
    clock::{Clock, Ids},
    fs::create_private_file,
};

use super::{
    Prepared, StartError,
    diagnosis::Diagnosis,
    engine_room::{EngineRoom, Opened},
    housekeeping::{self, LiveSettings},
    socket,
    story::Story,
    witness::Witness,
};

use crate::lifecycle::{self, ServerFile, Signals, Stop};

/// How long connections may take to finish once every run has ended. A client that waits for a background run or a
/// person waits on at the next server.
const CONNECTIONS: Duration = Duration::from_secs(2);

/// A server that answers.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Where it is found over TCP, with the port that was picked.
    pub endpoint: Endpoint,
    /// Path of the API's Unix socket; `None` when the settings switch it off.
    pub socket: Option<PathBuf>,
    /// Where metrics are served alone.
    pub metrics: Option<Endpoint>,
    /// As whom and how confined commands run.
    pub isolation: Isolation,
    /// A one-time link that signs a browser in, if [`Invitation`] asked for one.
    pub login_link: Option<Secret>,
}

/// Whether the operator who starts a server gets a one-time link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invitation {
    /// They get none: no person reads what the server prints.
    None,
    /// They do; they must show it to nobody else.
    LoginLink,
}

impl Ready {
    /// URL of the API over TCP, without a slash at the end.
    pub fn url(&self) -> String {
        self.endpoint.url()
    }
}

/// Serves until it is told to stop, and stops in order. `on_ready` is called once everything answers.
///
/// # Errors
/// [`StartError`] when it could not start; stopping is no error.
pub async fn serve(
    prepared: Prepared,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    invitation: Invitation,
    on_ready: impl FnOnce(&Ready),
) -> Result<(), StartError> {
    let signals = Signals::catch().map_err(StartError::system("signals cannot be caught"))?;
    // Nothing of the server waits for a reader of the log. It goes last, with the last lines.
    let _log_thread = (prepared.log.write_aside())
        .map_err(StartError::system("the thread of the log cannot be started"))?;
    let stop = Stop::default();
    let routes = tokio::task::spawn_blocking(Routes::make);
    let doctor_clock = Arc::clone(&clock);
    let mut server = Running::start(prepared, clock, ids).await?;
    let closing = CancellationToken::new();
    let doctor = Diagnosis::new(
        Arc::clone(&server.engine_room.engine),
        server.state_dir.clone(),
        Arc::clone(&server.engine_room.settings),
        doctor_clock,
        server.ready.isolation,
    );
    let state = AppState::new(
        Arc::clone(&server.bridge),
        server.ready.endpoint,
        Arc::new(doctor),
        closing.clone(),
    );
    server.ready.login_link = match invitation {
        Invitation::None => None,
        Invitation::LoginLink => login_link(&state).await,
    };
    let routes = routes
        .await
        .map_err(std::io::Error::other)
        .map_err(StartError::system("the routes cannot be made"))?;
    let service = HttpService::new(&state, routes);
    let written = server
        .tell_where()
        .map_err(StartError::system("server.json cannot be written"))?;
    on_ready(&server.ready);
    lifecycle::notify(NotifyState::Ready);

    let Running {
        engine_room,
        bridge,
        listeners,
        metrics_listener,
        socket,
        mut story,
        ready: _,
        started_at: _,
        state_dir: _,
    } = server;
    let engine = Arc::clone(&engine_room.engine);
    let abort = stop.abort.clone();
    // Not `abort` itself: a connection that goes takes its foreground run along as if the client had left.
    let hang_up = CancellationToken::new();
    let served = listeners.serve(service, closing.clone(), hang_up.clone());
    let metrics = metrics_listener
        .map(|listener| listener.serve(HttpService::of_metrics(&state), closing.clone(), hang_up.clone()));
    let connections = tokio::spawn(async move {
        match metrics {
            None => served.await,
            Some(metrics) => {
                tokio::join!(served, metrics);
            }
        }
    });
    let asked = tokio::spawn(socket::serve(Arc::clone(&engine), socket, closing.clone()));
    tokio::spawn(follow_signals(
        signals,
        stop.clone(),
        Arc::clone(&engine),
        Arc::clone(&engine_room.live_settings),
    ));
    let mut witness = Witness::new(engine_room.ledger.watch_sealed_head());
    let forget = || state.forget();
    let beside = async {
        tokio::join!(
            witness.follow(),
            story.follow(),
            engine_room.keep(&forget),
            housekeeping::prune_sandboxes(&engine_room.sandbox),
            lifecycle::feed_watchdog(),
        )
    };
    let work = async {
        stop.drain.cancelled().await;
        lifecycle::notify(NotifyState::Stopping);
        tokio::select! {
            () = engine.drain() => {}
            () = abort.cancelled() => engine.kill_all().await,
        }
    };
    tokio::select! {
        () = work => {}
        never = beside => match never.0 {},
    }

    closing.cancel();
    tokio::join!(
        bridge.shut_down(),
        finish_connections(connections, &hang_up, &abort)
    );
    if asked.await.is_err() {
        tracing::error!("the approvals socket had panicked");
    }
    drop(engine);
    story.finish();
    drop(story);
    engine_room.close().await;
    witness.tell();
    drop(written);
    tracing::info!("stopped");
    Ok(())
}

/// A start without one is a start all the same.
async fn login_link(state: &AppState) -> Option<Secret> {
    match state.make_login_link(&Actor::system()).await {
        Ok((url, _expires_at)) => Some(url),
        Err(error) => {
            tracing::warn!(%error, "there is no login link");
            None
        }
    }
}

/// Until the process ends: a second signal counts while connections are being closed, too.
async fn follow_signals(signals: Signals, stop: Stop, engine: Arc<Engine>, live_settings: Arc<LiveSettings>) {
    let reload = || {
        engine.refresh_policy();
        live_settings.apply();
    };
    signals.follow(&stop, reload).await;
}

/// Everything of a server that answers.
struct Running {
    engine_room: EngineRoom,
    bridge: Arc<Bridge>,
    listeners: Bound,
    metrics_listener: Option<Bound>,
    socket: socket::SocketMembership,
    story: Story,
    ready: Ready,
    started_at: i64,
    state_dir: StateDir,
}

impl Running {
    async fn start(
        mut prepared: Prepared,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, StartError> {
        let listener = prepared.listener.take();
        let started_at = clock.now().get();
        let tls = prepared.tls.clone();
        let state_dir = prepared.state_dir.clone();
        let settings = Arc::clone(&prepared.settings);
        let current = settings.current();
        let server = &current.server;
        let opened = Opened::new(prepared, Arc::clone(&clock), Arc::clone(&ids))?;
        let ledger = &opened.ledger;
        // From here on the directory is ours: the ledger holds its lock.
        let listeners =
            countersign_http::bind(&listen_options(&state_dir, server, tls.clone()), listener).await?;
        let metrics_listener = bind_metrics(server).await?;
        let tokens = Arc::clone(&opened.tokens);
        let bridge_token = tokio::task::spawn_blocking({
            let (path, ids) = (state_dir.bridge_token(), Arc::clone(&ids));
            move || ensure_bridge_token(&path, &*ids)
        });
        tokens
            .ensure_files(&state_dir.operator_token(), &state_dir.gateway_token())
            .await?;
        tokens
            .take_offers_of(&state_dir.token_offers())
            .await
            .map_err(TokenFileError::from)?;
        expect_two_owners(&settings, &tokens)?;
        bridge_token
            .await
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(StartError::system("bridge.token cannot be written"))?;
        let secret = bridge_secret(&state_dir.bridge_token(), server)
            .map_err(StartError::system("bridge.token cannot be read"))?;
        let hub = NodeHub::load(ledger.clone(), settings, Arc::clone(&clock)).await?;
        let nodes: Arc<dyn NodeLink> = Arc::<NodeHub>::clone(&hub);
        // Before recovery, whose ends it tells.
        let story = Story::new(&opened.ledger);
        let engine_room = opened.into_engine_room(nodes, Unstarted::StartAgain).await?;
        let engine = &engine_room.engine;
        hub.set_sink(engine.node_sink());
        let socket = socket::join(engine, server.ipc.role, &state_dir, &state_dir.document(server)).await;
        let bridge = Bridge::new(BridgeParts {
            hub,
            engine: Arc::clone(engine),
            tokens,
            secret,
            ids,
        });
        let ready = Ready {
            endpoint: listeners.endpoint(),
            socket: listeners.unix_socket().map(Path::to_path_buf),
            isolation: engine_room.gateway.isolation(),
            metrics: metrics_listener.as_ref().map(Bound::endpoint),
            login_link: None,
        };
        Ok(Self {
            engine_room,
            bridge,
            listeners,
            metrics_listener,
            socket,
            story,
            ready,
            started_at,
            state_dir,
        })
    }

    fn tell_where(&self) -> std::io::Result<lifecycle::WrittenServerFile> {
        let file = ServerFile {
            url: self.ready.url(),
            socket: self.ready.socket.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_ms: self.started_at,
        };
        file.write(&self.state_dir.server_json())
    }
}

/// The secret with which nodes pair (`docs/spec/http-api.md#node-and-pairing-objects`): made once, kept for ever.
fn ensure_bridge_token(path: &Path, ids: &dyn Ids) -> std::io::Result<()> {
    let mut secret = Zeroizing::new([0; 32]);
    ids.secret_bytes(&mut *secret);
    let line = Zeroizing::new(format!("{}\n", BASE64_URL_SAFE_NO_PAD.encode(*secret)));
    match create_private_file(path, line.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// Refuses to start where it takes two people to widen the policy and there is one owner; a later edit of the settings is
/// held against the same.
fn expect_two_owners(settings: &SettingsStore, tokens: &Arc<Tokens>) -> Result<(), StartError> {
    let tokens = Arc::clone(tokens);
    // What cannot be read is no second owner.
    let has_two = move || tokens.admin_owners().is_ok_and(|owners| owners.len() > 1);
    settings.look_for_owners(has_two).map_err(StartError::Settings)
}

/// The shared secret: the setting, else the file. An empty file opens nothing.
fn bridge_secret(path: &Path, server: &Server) -> std::io::Result<Option<SharedSecret>> {
    let secret = match &server.bridge.token {
        Some(token) => SharedSecret::of(token.expose()),
        None => SharedSecret::of(&Zeroizing::new(std::fs::read_to_string(path)?)),
    };
    if secret.is_none() {
        tracing::warn!("the shared secret of the Bridge is empty: no new node can ask to be let in");
    }
    Ok(secret)
}

fn listen_options(state_dir: &StateDir, server: &Server, tls: Option<Arc<LiveTls>>) -> ListenOptions {
    ListenOptions {
        purpose: Purpose::Api,
        address: server.http.listen,
        unix_socket: state_dir.api_socket(server),
        max_connections: server.limits.max_connections,
        header_timeout: server.limits.header_timeout,
        tls,
    }
}

/// Metrics are asked for by few.
const METRICS_CONNECTIONS: usize = 64;

async fn bind_metrics(server: &Server) -> Result<Option<Bound>, ListenError> {
    let Some(address) = server.telemetry.metrics_listen else {
        return Ok(None);
    };
    let options = ListenOptions {
        purpose: Purpose::Metrics,
        address,
        unix_socket: None,
        max_connections: METRICS_CONNECTIONS,
        header_timeout: server.limits.header_timeout,
        tls: None,
    };
    countersign_http::bind(&options, None).await.map(Some)
}

/// Lets answers that are under way leave, and hangs up on who takes too long; at once at a second signal.
async fn finish_connections(
    mut connections: tokio::task::JoinHandle<()>,
    hang_up: &CancellationToken,
    abort: &CancellationToken,
) {
    let is_hurried = abort.is_cancelled();
    tokio::select! {
        finished = timeout(CONNECTIONS, &mut connections) => {
            if finished.is_ok() {
                return;
            }
        }
        // One that came before has ended the runs already; what is left are their answers.
        () = abort.cancelled(), if !is_hurried => {}
    }
    hang_up.cancel();
    if connections.await.is_err() {
        tracing::error!("the listeners had panicked");
    }
}
