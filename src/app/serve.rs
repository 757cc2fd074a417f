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

use super::{
    Prepared, StartError,
    housekeeping::{self, LiveSettings},
    sight::Sight,
    witness::Witness,
};
use crate::{
    approvals::store::DocumentStore,
    clock::{Clock, Ids},
    domain::{Actor, Isolation, Secret},
    engine::{Engine, EngineParts, PolicyFiles, standing::PolicyHold, tokens::Tokens},
    hosts::{
        gateway::GatewayHost,
        sandbox::{SandboxHost, SandboxOptions},
    },
    http::{self, AppState, Bound, Endpoint, Front, ListenError, ListenOptions, Purpose},
    ledger::{Ledger, LedgerConfig, LedgerThread},
    lifecycle::{self, ServerFile, Signals, Stop},
    runner::Runner,
    settings::{Server, StateDir},
    sys::fs::create_private_file,
    tls::LiveTls,
};

/// How long connections may take to finish once every run is settled. Whoever waits for a background run or a
/// person waits on at the next server.
const CONNECTIONS: Duration = Duration::from_secs(2);
/// How long the engine's own tasks may take after that.
const TASKS: Duration = Duration::from_secs(5);

/// A server that answers.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Where it is found over TCP, with the port that was picked.
    pub endpoint: Endpoint,
    /// The Unix socket.
    pub socket: Option<PathBuf>,
    /// Where metrics are served alone.
    pub metrics: Option<Endpoint>,
    /// As whom and how confined commands run.
    pub isolation: Isolation,
    /// A one-time link that signs a browser in, if [`Invitation`] asked for one.
    pub login_link: Option<Secret>,
}

/// Whether whoever starts a server gets a one-time link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invitation {
    /// They do not.
    None,
    /// They do; they must show it to nobody else.
    LoginLink,
}

impl Ready {
    /// Its URL.
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
    let stop = Stop::default();
    let mut server = Running::start(prepared, clock, ids).await?;
    let closing = CancellationToken::new();
    let state = AppState::new(
        Arc::clone(&server.engine),
        Arc::clone(&server.tokens),
        server.ready.endpoint,
        closing.clone(),
    );
    server.ready.login_link = match invitation {
        Invitation::None => None,
        Invitation::LoginLink => login_link(&state).await,
    };
    let written = server
        .tell_where()
        .map_err(StartError::system("server.json cannot be written"))?;
    on_ready(&server.ready);
    lifecycle::notify(NotifyState::Ready);

    let Running {
        engine,
        gateway,
        sandbox,
        live_settings,
        sight,
        listeners,
        metrics_listener,
        ledger,
        ledger_thread,
        tokens: _,
        ready: _,
        started_at: _,
        state_dir: _,
    } = server;
    let abort = stop.abort.clone();
    // Not `abort` itself: a connection that goes takes its foreground run along as if the client had left.
    let hang_up = CancellationToken::new();
    let served = listeners.serve(Front::new(&state), closing.clone(), hang_up.clone());
    let metrics = metrics_listener
        .map(|listener| listener.serve(Front::of_metrics(&state), closing.clone(), hang_up.clone()));
    let connections = tokio::spawn(async move {
        match metrics {
            None => served.await,
            Some(metrics) => {
                tokio::join!(served, metrics);
            }
        }
    });
    tokio::spawn(follow_signals(
        signals,
        stop.clone(),
        Arc::clone(&engine),
        Arc::clone(&live_settings),
    ));
    let mut witness = Witness::new(ledger.watch_sealed_head());
    let beside = async {
        tokio::join!(
            witness.follow(),
            live_settings.follow(&engine),
            async {
                match &sight {
                    Some(sight) => sight.keep().await,
                    None => std::future::pending().await,
                }
            },
            housekeeping::prune(&ledger, &gateway, engine.settings(), &**engine.clock()),
            housekeeping::prune_sandboxes(&sandbox),
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
    settle_connections(connections, &hang_up, &abort).await;
    if timeout(TASKS, engine.finish_tasks()).await.is_err() {
        tracing::warn!("some tasks did not end in time; the next start settles what they left");
    }
    drop(engine);
    stop_ledger(ledger_thread).await;
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
        engine.look_at_policy();
        live_settings.apply();
    };
    signals.follow(&stop, reload).await;
}

/// Everything of a server that answers.
struct Running {
    engine: Arc<Engine>,
    gateway: GatewayHost,
    sandbox: SandboxHost,
    live_settings: Arc<LiveSettings>,
    sight: Option<Sight>,
    listeners: Bound,
    metrics_listener: Option<Bound>,
    ledger: Ledger,
    ledger_thread: LedgerThread,
    tokens: Arc<Tokens>,
    ready: Ready,
    started_at: i64,
    state_dir: StateDir,
}

impl Running {
    async fn start(prepared: Prepared, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Self, StartError> {
        let Prepared {
            state_dir,
            settings,
            log,
            tls,
            runner,
            clients,
            hidden,
            account,
            sight,
            shell,
            environment,
            boot_id,
            own_binary,
        } = prepared;
        let started_at = clock.now().get();
        let current = settings.current();
        let server = &current.server;
        let home = state_dir.home().unwrap_or_else(|| Path::new("/")).to_path_buf();
        let documents = DocumentStore::open(
            state_dir.document(server),
            home.clone(),
            Arc::clone(&clock),
            Arc::clone(&ids),
        );
        let documents = Arc::new(documents);
        let policy_hold = Arc::new(PolicyHold::open(
            Arc::clone(&settings),
            Arc::clone(&documents),
            Arc::clone(&clock),
            &state_dir,
        ));
        let policy = Arc::new(PolicyFiles::new(Arc::clone(&policy_hold)));
        let config = ledger_config(&state_dir, server, boot_id.clone());
        let (ledger, ledger_thread) = Ledger::open(config, Arc::clone(&clock), Arc::clone(&ids), policy)?;
        // From here on the directory is ours: the ledger holds its lock.
        let listeners = http::bind(&listen_options(&state_dir, server, tls.clone())).await?;
        let metrics_listener = bind_metrics(server).await?;
        let tokens = Arc::new(Tokens::new(ledger.clone(), Arc::clone(&clock), Arc::clone(&ids)));
        tokens
            .ensure_files(&state_dir.operator_token(), &state_dir.gateway_token())
            .await?;
        ensure_bridge_token(&state_dir.bridge_token(), &*ids)
            .map_err(StartError::system("bridge.token cannot be written"))?;
        let runner = runner
            .watch()
            .map_err(StartError::system("the runner cannot be watched"))?;
        let gateway = GatewayHost::new(runner, state_dir.runs(), state_dir.output())
            .with_files(sight.as_ref().map(Sight::files).unwrap_or_default());
        let gateway = match (account, hidden) {
            (Some(account), _) => gateway.with_account(
                account.identity.uid,
                state_dir.attach(),
                server.output.max_run_bytes,
            ),
            (None, Some(hidden)) => gateway.with_confinement(hidden),
            (None, None) => gateway,
        };
        let clients = clients
            .map(Runner::watch)
            .transpose()
            .map_err(StartError::system("the runner of clients cannot be watched"))?;
        let gateway = match clients {
            Some(clients) => gateway.with_clients(clients),
            None => gateway,
        };
        let options = SandboxOptions::new(&state_dir, server, settings.server_file(), settings.environment());
        let sandbox = SandboxHost::new(options, gateway.clone());
        let live_settings = Arc::new(LiveSettings::new(Arc::clone(&settings), ledger.clone(), log, tls));
        let engine = Engine::new(EngineParts {
            clock,
            ids,
            state_dir: state_dir.clone(),
            home,
            settings,
            documents,
            policy_hold,
            ledger: ledger.clone(),
            gateway: gateway.clone(),
            sandbox: sandbox.clone(),
            shell,
            environment,
            boot_id,
            own_binary,
        });
        engine.recover().await?;
        engine.begin();
        // What the policy is from the start; whatever differs from it later is told of.
        drop(engine.look_at_policy());
        let ready = Ready {
            endpoint: listeners.endpoint(),
            socket: listeners.unix_socket().map(Path::to_path_buf),
            isolation: gateway.isolation(),
            metrics: metrics_listener.as_ref().map(Bound::endpoint),
            login_link: None,
        };
        Ok(Self {
            engine,
            gateway,
            sandbox,
            live_settings,
            sight,
            listeners,
            metrics_listener,
            ledger,
            ledger_thread,
            tokens,
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

/// The secret with which nodes pair (`http-api.md`, node objects): made once, kept for ever.
fn ensure_bridge_token(path: &Path, ids: &dyn Ids) -> std::io::Result<()> {
    let mut secret = Zeroizing::new([0; 32]);
    ids.secret_bytes(&mut *secret);
    let line = Zeroizing::new(format!("{}\n", BASE64_URL_SAFE_NO_PAD.encode(*secret)));
    match create_private_file(path, line.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

fn ledger_config(state_dir: &StateDir, server: &Server, boot_id: String) -> LedgerConfig {
    LedgerConfig {
        path: state_dir.ledger(server),
        audit_key: state_dir.audit_key(),
        audit_head: state_dir.audit_head(),
        boot_id,
        readers: server.database.max_connections,
        tuning: housekeeping::tuning(server),
    }
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
    http::bind(&options).await.map(Some)
}

/// Lets answers that are under way leave, and hangs up on who takes too long; at once at a second signal.
async fn settle_connections(
    mut connections: tokio::task::JoinHandle<()>,
    hang_up: &CancellationToken,
    abort: &CancellationToken,
) {
    let is_hurried = abort.is_cancelled();
    tokio::select! {
        settled = timeout(CONNECTIONS, &mut connections) => {
            if settled.is_ok() {
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

/// Writes what is queued and seals the audit head.
async fn stop_ledger(thread: LedgerThread) {
    if tokio::task::spawn_blocking(move || thread.stop()).await.is_err() {
        tracing::error!("the ledger could not be stopped in order");
    }
}
