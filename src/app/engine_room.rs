//! What every process has that runs commands by the engine: settings, ledger, hosts, and the engine that joins them.
//!
//! The server puts its listeners around it, the node host its connection.

use std::{convert::Infallible, path::Path, sync::Arc, time::Duration};

use tokio::time::timeout;

use countersign_config::{
    approvals::store::DocumentStore,
    settings::{Server, SettingsStore, StateDir},
};
use countersign_engine::{
    Engine, EngineParts, PolicyFiles, Unstarted, accepted_policy::AcceptedPolicy, tokens::Tokens,
};
use countersign_hosts::{
    gateway::GatewayHost,
    node::NodeLink,
    sandbox::{SandboxHost, SandboxOptions},
};
use countersign_ledger::{Ledger, LedgerConfig, LedgerThread};
use countersign_runner::Runner;
use countersign_sys::clock::{Clock, Ids};

use super::{
    Prepared, StartError,
    file_broker::FileBroker,
    housekeeping::{self, LiveSettings},
    memory,
};

/// How long the engine's own tasks may take once nothing runs any more.
const TASKS: Duration = Duration::from_secs(5);

/// A process whose ledger is open: from here on the files are its own.
pub struct Opened {
    prepared: Prepared,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    documents: Arc<DocumentStore>,
    accepted_policy: Arc<AcceptedPolicy>,
    pub(super) tokens: Arc<Tokens>,
    pub(super) ledger: Ledger,
    ledger_thread: LedgerThread,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

impl Opened {
    /// Opens the approvals document and the ledger.
    ///
    /// # Errors
    /// [`StartError`], above all when another process uses the ledger.
    pub fn new(prepared: Prepared, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Self, StartError> {
        let state_dir = &prepared.state_dir;
        let current = prepared.settings.current();
        let documents = DocumentStore::open(
            state_dir.document(&current.server),
            home_of(state_dir).to_path_buf(),
            Arc::clone(&clock),
            Arc::clone(&ids),
        );
        let documents = Arc::new(documents);
        let accepted_policy = Arc::new(AcceptedPolicy::open(
            Arc::clone(&prepared.settings),
            Arc::clone(&documents),
            Arc::clone(&clock),
            state_dir,
        ));
        let policy = Arc::new(PolicyFiles::new(Arc::clone(&accepted_policy)));
        let config = ledger_config(state_dir, &current.server, prepared.boot_id.clone());
        let (ledger, ledger_thread) = Ledger::open(config, Arc::clone(&clock), Arc::clone(&ids), policy)?;
        let tokens = Arc::new(Tokens::new(ledger.clone(), Arc::clone(&clock), Arc::clone(&ids)));
        Ok(Self {
            prepared,
            clock,
            ids,
            documents,
            accepted_policy,
            tokens,
            ledger,
            ledger_thread,
        })
    }

    /// Joins the engine, recovers what an earlier process left, and begins. `nodes` is the way to other machines.
    ///
    /// # Errors
    /// [`StartError`] says what has to change.
    pub async fn into_engine_room(
        self,
        nodes: Arc<dyn NodeLink>,
        unstarted: Unstarted,
    ) -> Result<EngineRoom, StartError> {
        let Self {
            prepared,
            clock,
            ids,
            documents,
            accepted_policy,
            tokens,
            ledger,
            ledger_thread,
        } = self;
        let Prepared {
            state_dir,
            settings,
            log,
            tls,
            runner,
            clients,
            hidden,
            account,
            file_broker,
            shell,
            environment,
            boot_id,
            own_binary,
            listener: _,
        } = prepared;
        let current = settings.current();
        let server = &current.server;
        let runner = runner
            .watch()
            .map_err(StartError::system("the runner cannot be watched"))?;
        let gateway = GatewayHost::new(runner, state_dir.runs(), state_dir.output())
            .with_files(file_broker.as_ref().map(FileBroker::files).unwrap_or_default());
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
            state_dir,
            settings: Arc::clone(&settings),
            documents,
            accepted_policy,
            ledger: ledger.clone(),
            tokens,
            gateway: gateway.clone(),
            sandbox: sandbox.clone(),
            nodes,
            shell,
            environment,
            boot_id,
            own_binary,
        });
        engine.recover(unstarted).await?;
        engine.begin();
        // What the policy is from the start; any later difference is told of.
        drop(engine.refresh_policy());
        Ok(EngineRoom {
            engine,
            settings,
            gateway,
            sandbox,
            live_settings,
            file_broker,
            ledger,
            ledger_thread,
        })
    }
}

/// An engine that runs commands, with all that it needs.
pub struct EngineRoom {
    pub(super) engine: Arc<Engine>,
    pub(super) settings: Arc<SettingsStore>,
    pub(super) gateway: GatewayHost,
    pub(super) sandbox: SandboxHost,
    pub(super) live_settings: Arc<LiveSettings>,
    file_broker: Option<FileBroker>,
    pub(super) ledger: Ledger,
    ledger_thread: LedgerThread,
}

impl std::fmt::Debug for EngineRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineRoom").finish_non_exhaustive()
    }
}

impl EngineRoom {
    /// What goes on beside the work: settings that changed take effect, what is too old goes, and the process that
    /// looks at files is replaced when it no longer answers. `forget` drops what is only kept for the next request.
    pub async fn keep(&self, forget: &(dyn Fn() + Send + Sync)) -> Infallible {
        let file_broker = async {
            match &self.file_broker {
                Some(file_broker) => file_broker.keep().await,
                None => std::future::pending().await,
            }
        };
        let (never, _, _, _) = tokio::join!(
            self.live_settings.follow(&self.engine),
            file_broker,
            housekeeping::prune(
                &self.ledger,
                &self.gateway,
                self.engine.settings(),
                &**self.engine.clock()
            ),
            memory::give_back(&self.ledger, forget),
        );
        never
    }

    /// Looks at the settings again, now.
    pub fn reload(&self) {
        self.engine.refresh_policy();
        self.live_settings.apply();
    }

    /// Waits for the engine's own tasks, writes what is queued and seals the audit head. Nothing may run any more but
    /// what goes on without this process.
    pub async fn close(self) {
        if timeout(TASKS, self.engine.finish_tasks()).await.is_err() {
            tracing::warn!("some tasks did not end in time; the next start settles what they left");
        }
        drop(self.engine);
        let thread = self.ledger_thread;
        if tokio::task::spawn_blocking(move || thread.stop()).await.is_err() {
            tracing::error!("the ledger could not be stopped in order");
        }
    }
}

fn home_of(state_dir: &StateDir) -> &Path {
    state_dir.home().unwrap_or_else(|| Path::new("/"))
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
