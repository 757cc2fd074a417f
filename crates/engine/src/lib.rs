//! The engine: from a request to its outcome, one flow for every entry point.
//!
//! It owns nothing that must survive: the ledger decides and remembers, supervisors hold the processes,
//! and the engine joins them. Its invariants: nothing starts without a
//! [`Permit`](countersign_ledger::launch::Permit); nothing is answered before the ledger has it; the one
//! function that decides is [`countersign_policy::gate::gate`]. It must never know a wire: edges hand in values and get
//! values back.
//!
//! Begin with [`Engine::exec`]; `evaluator` is the decision, `supervise.rs` what follows a start.

#![forbid(unsafe_code)]

pub mod hint;
pub mod reply;

mod delivery;
mod delivery_terms;
mod evaluator;
mod far_policy;
mod own_rule;

mod again;
mod approve;
mod approvers;
pub mod ask_only;
mod caller_lease;
mod exec;
mod judge_again;
mod persist;
pub mod prompter;
mod revise;
mod slots;
pub mod socket;
mod turns;

pub mod environment;
mod inside;
mod live;
mod outcome;
pub mod patch;
pub mod process;
mod supervise;
mod system_event;
mod warnings;

pub mod node;
pub mod session;

mod recover;
mod shutdown;
pub mod stop;

pub mod accepted_policy;
pub mod candidate;
pub mod effective;
pub mod explain;
mod query;
mod stats;
mod watch;

pub mod agents;
pub mod allowlist;
pub mod config;
pub mod document;
pub mod lint;
pub mod offers;
mod policy_admin;
pub mod preset;
pub mod settings;
pub mod sign_in;
pub mod tokens;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock, Weak, atomic::AtomicBool},
};

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use allowlist::EntryLists;
pub use approvers::Presence;
pub use caller_lease::{CallerLease, EndsWithCaller};
pub use delivery::{Delivered, Invocation, InvocationState, Preview, PreviewRule, Unstarted};
pub use delivery_terms::{Answers, Delivery, Planned};
pub use exec::{IdempotencyKey, OnDisconnect};
pub use policy_admin::PolicyAdmin;
pub use query::{Check, OutputBytes, Readiness};
pub use slots::NoSlot;
pub use stats::{EngineStats, Load};
pub use turns::{NoTurn, Turn, Turns};
pub use watch::PolicyFiles;

use countersign_config::{
    approvals::{broker::Broker, store::DocumentStore},
    settings::{SettingsStore, StateDir},
};
use countersign_hosts::{gateway::GatewayHost, node::NodeLink, sandbox::SandboxHost, shell::HostShell};
use countersign_ledger::{Ledger, events::SessionNotifier};
use countersign_policy::pattern::PatternCache;
use countersign_sys::clock::{Clock, Ids};

use crate::{
    accepted_policy::{AcceptedPolicy, PolicyInEffect},
    again::Again,
    environment::HostEnvironment,
    evaluator::{Evaluator, analyse::Analyst, place::Places},
    lint::PolicyLint,
    node::NodePeers,
    policy_admin::PolicyStores,
    watch::PolicySource,
};

/// Everything the engine is joined from.
#[derive(Debug)]
pub struct EngineParts {
    /// Wall clock for records, deadlines and expiries.
    pub clock: Arc<dyn Clock>,
    /// Source of new ids and random values.
    pub ids: Arc<dyn Ids>,
    /// Where documents, ledger, workspaces and sockets lie.
    pub state_dir: StateDir,
    /// `countersign.toml` and `openclaw.json` as last read; `accepted_policy` says which policy counts.
    pub settings: Arc<SettingsStore>,
    /// The approvals document on disk, and its lock.
    pub documents: Arc<DocumentStore>,
    /// What of both is in force.
    pub accepted_policy: Arc<AcceptedPolicy>,
    /// The one place where runs, approvals and permits are decided and kept.
    pub ledger: Ledger,
    /// Starts runs on this machine.
    pub gateway: GatewayHost,
    /// Starts runs in sandboxes, with the supervisors of `gateway`.
    pub sandbox: SandboxHost,
    /// The way to nodes.
    pub nodes: Arc<dyn NodeLink>,
    /// The shell for text as it was written.
    pub shell: HostShell,
    /// What commands inherit on this machine.
    pub environment: HostEnvironment,
    /// Identity of this boot of the machine.
    pub boot_id: String,
    /// This program, which no command may be allowed to be.
    pub own_binary: Option<PathBuf>,
}

/// The engine. Shared by every entry point.
#[derive(Debug)]
pub struct Engine {
    /// Itself, for what begins where nobody holds it: nodes speak on their own.
    this: Weak<Self>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    settings: Arc<SettingsStore>,
    documents: Arc<DocumentStore>,
    accepted_policy: Arc<AcceptedPolicy>,
    ledger: Ledger,
    gateway: GatewayHost,
    sandbox: SandboxHost,
    nodes: Arc<dyn NodeLink>,
    peers: Arc<NodePeers>,
    places: Arc<Places>,
    environment: Arc<HostEnvironment>,
    boot_id: String,
    patterns: PatternCache,
    broker: Arc<Broker>,
    /// Another UI that is asked, where there is one.
    prompter: OnceLock<Arc<dyn prompter::Prompter>>,
    socket: socket::SocketState,
    live: live::LiveRuns,
    leases: caller_lease::CallerLeases,
    process: process::ProcessState,
    slots: Arc<slots::Slots>,
    stats: EngineStats,
    presumed: approvers::Presumed,
    use_notes: persist::UseNotes,
    session: Arc<session::SessionState>,
    policy: Arc<PolicySource>,
    evaluator: Arc<Evaluator>,
    policy_admin: Arc<PolicyAdmin>,
    lists: EntryLists,
    /// Has the questions that wait judged again.
    again: Arc<Again>,
    /// Wakes the task that ends questions in time.
    deadlines: Notify,
    /// What passes while no stop is in effect.
    passages: stop::Passages,
    /// Nothing new is taken.
    draining: AtomicBool,
    stopping: CancellationToken,
    tasks: TaskTracker,
    /// Tasks that may start a run. A server that stops waits for them before it looks what runs.
    launches: TaskTracker,
}

impl Engine {
    /// Joins an engine. Nothing runs before [`Engine::recover`] and [`Engine::begin`].
    pub fn new(parts: EngineParts) -> Arc<Self> {
        let EngineParts {
            clock,
            ids,
            state_dir,
            settings,
            documents,
            accepted_policy,
            ledger,
            gateway,
            sandbox,
            nodes,
            shell,
            environment,
            boot_id,
            own_binary,
        } = parts;
        let most = settings.current().server.limits.max_sessions;
        let sessions = Arc::new(session::SessionState::new(most));
        let notifier: Arc<dyn SessionNotifier> = Arc::<session::SessionState>::clone(&sessions);
        ledger.feed().set_session_notifier(notifier);
        let (again, slots, tasks) = (Arc::<Again>::default(), Arc::default(), TaskTracker::new());
        let policy = Arc::new(PolicySource::new(
            Arc::clone(&accepted_policy),
            Arc::clone(&settings),
            ledger.clone(),
            Arc::clone(&again),
            (Arc::clone(&slots), tasks.clone()),
        ));
        let environment = Arc::new(environment);
        let analyst = Arc::new(Analyst::new(
            Arc::clone(&clock),
            Arc::clone(&environment),
            gateway.files().clone(),
            (&state_dir, documents.path()),
            own_binary.as_deref(),
        ));
        let peers = Arc::new(NodePeers::new(Arc::clone(&nodes), Arc::clone(&ids)));
        let home = analyst.home().to_owned();
        let places = Arc::new(Places::new(gateway.clone(), sandbox.clone(), home));
        let evaluator = Arc::new(Evaluator::new(
            Arc::clone(&policy),
            Arc::clone(&sessions),
            (analyst, shell),
            (Arc::clone(&places), Arc::clone(&peers)),
            ledger.clone(),
        ));
        let stores = PolicyStores {
            accepted_policy: Arc::clone(&accepted_policy),
            settings: Arc::clone(&settings),
            documents: Arc::clone(&documents),
        };
        let lint = Arc::new(PolicyLint::new(
            Arc::clone(&settings),
            Arc::clone(&documents),
            ledger.clone(),
            Arc::clone(&evaluator),
            Arc::clone(&clock),
        ));
        let policy_admin = Arc::new(PolicyAdmin::new(
            Arc::clone(&policy),
            stores,
            ledger.clone(),
            Arc::clone(&again),
            Arc::clone(&lint),
        ));
        let lists = EntryLists::new(
            Arc::clone(&policy_admin),
            Arc::clone(&documents),
            Arc::clone(&lint),
            Arc::clone(&clock),
            Arc::clone(&ids),
        );
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            clock,
            ids,
            settings,
            documents,
            accepted_policy,
            ledger,
            gateway,
            sandbox,
            nodes,
            peers,
            places,
            environment,
            boot_id,
            patterns: PatternCache::default(),
            broker: Arc::default(),
            prompter: OnceLock::new(),
            socket: socket::SocketState::default(),
            live: live::LiveRuns::default(),
            leases: caller_lease::CallerLeases::default(),
            process: process::ProcessState::default(),
            slots,
            stats: EngineStats::default(),
            presumed: approvers::Presumed::default(),
            use_notes: persist::UseNotes::default(),
            session: sessions,
            policy,
            evaluator,
            policy_admin,
            lists,
            again,
            deadlines: Notify::new(),
            passages: stop::Passages::default(),
            draining: AtomicBool::new(false),
            stopping: CancellationToken::new(),
            tasks,
            launches: TaskTracker::new(),
        })
    }

    /// The ledger, for reads and for records that belong to no call.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The approvals document on disk; an edit in it may be held, and then is not in effect.
    pub fn documents(&self) -> &Arc<DocumentStore> {
        &self.documents
    }

    /// The settings as the files say them; [`AcceptedPolicy`] has the policy that counts.
    pub fn settings(&self) -> &SettingsStore {
        &self.settings
    }

    /// The clock that records and deadlines use.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The source of ids and random values, for what an entry point makes itself.
    pub fn ids(&self) -> &Arc<dyn Ids> {
        &self.ids
    }

    /// Ends when the server begins to stop.
    pub const fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Every change of the policy.
    pub const fn policy_admin(&self) -> &Arc<PolicyAdmin> {
        &self.policy_admin
    }

    /// The lists of each agent.
    pub const fn lists(&self) -> &EntryLists {
        &self.lists
    }

    /// The turns of callers whose commands take long to look through.
    pub fn turns(&self) -> &Arc<Turns> {
        self.evaluator.turns()
    }

    /// Reads both files of the policy and reports what changed. Cheap when nothing did.
    pub fn refresh_policy(&self) -> Arc<PolicyInEffect> {
        self.policy.refresh()
    }

    /// A short name for a process session.
    fn new_session_id(&self) -> String {
        self.process.new_name(self.ids.as_ref())
    }
}
