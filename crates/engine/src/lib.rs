//! The engine: from a request to its outcome, one flow for every entry point.
//!
//! It owns nothing that must survive: the ledger decides and remembers, supervisors hold the processes,
//! and the engine joins them. Its invariants: nothing starts without a
//! [`Permit`](countersign_ledger::launch::Permit); nothing is answered before the ledger has it; the one
//! function that decides is [`countersign_policy::gate::gate`]. It must never know a wire: edges hand in values and get
//! values back.
//!
//! Begin with [`Calls::exec`]; `evaluator` is the decision, `supervise.rs` what follows a start.

#![forbid(unsafe_code)]

pub mod hint;
pub mod reply;

mod delivery;
mod delivery_terms;
mod evaluator;
mod far_policy;
mod mute;
pub mod mutes;
mod own_rule;

mod again;
mod approvals;
mod approved;
mod approvers;
pub mod ask_only;
mod base;
mod caller_lease;
mod cancel;
mod exec;
mod expiry;
mod follow;
mod judge_again;
pub mod prompter;
mod question_terms;
mod questions;
mod reevaluation;
mod remembered;
mod revise;
mod slots;
pub mod socket;
mod turns;

mod capture;
pub mod environment;
mod inside;
mod live;
mod outcome;
pub mod patch;
pub mod process;
mod supervise;
mod system_event;
mod unrecorded;
mod warnings;

pub mod node;
pub mod session;

mod draft;
mod forgotten;
mod launch;
mod lifecycle;
mod recover;
mod run_recorder;
mod run_terms;
mod runs;
mod shutdown;
pub mod stop;
mod stop_switch;

pub mod accepted_policy;
pub mod candidate;
pub mod effective;
pub mod explain;
mod health;
mod records;
mod stats;
mod watch;

pub mod allowlist;
pub mod config;
pub mod document;
pub mod kernel;
pub mod lint;
pub mod offers;
mod policy_admin;
pub mod preset;
pub mod rejection;
pub mod settings;
pub mod sign_in;
pub mod tokens;
pub mod trials;

/// For each public asynchronous function. The future of an `async fn` is compiled again in every crate that awaits it, with
/// all that it awaits in turn; a future behind a pointer is compiled here alone.
pub(crate) use async_recursion::async_recursion as compiled_once;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Weak},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use allowlist::EntryLists;
pub use approvals::Approvals;
pub use approvers::{Approvers, Presence};
pub use ask_only::AskOnly;
pub use caller_lease::{CallerLease, EndsWithCaller};
pub use cancel::Cancels;
pub use delivery::{Delivered, Deliveries, Invocation, InvocationState, Preview, PreviewRule, Unstarted};
pub use delivery_terms::{Answers, Delivery, Planned};
pub use draft::{IdempotencyKey, OnDisconnect};
pub use exec::Calls;
pub use health::{Check, Health, Readiness};
pub use policy_admin::PolicyAdmin;
pub use prompter::Prompts;
pub use records::{Covered, KnownAgent, OutputBytes, Records};
pub use revise::Revisions;
pub use slots::NoSlot;
pub use stats::{EngineMetrics, EngineStats, Load};
pub use stop_switch::StopSwitch;
pub use turns::{NoTurn, Turn, Turns};
pub use watch::PolicyFiles;

use countersign_config::{
    approvals::{broker::Broker, store::DocumentStore},
    settings::{SettingsStore, StateDir},
};
use countersign_domain::Actor;
use countersign_hosts::{
    gateway::GatewayHost,
    node::{NodeLink, NodeSink},
    sandbox::SandboxHost,
    shell::HostShell,
};
use countersign_ledger::{Ledger, events::SessionNotifier};
use countersign_sys::clock::{Clock, Ids};

use crate::{
    accepted_policy::{AcceptedPolicy, PolicyInEffect},
    again::Again,
    approved::ApprovedStarts,
    base::{Base, NewIds},
    caller_lease::Leases,
    effective::EffectivePolicies,
    environment::HostEnvironment,
    evaluator::{
        Evaluator,
        analyse::{Analyst, OwnFiles},
        bind::Binder,
        place::Places,
    },
    exec::Outcomes,
    expiry::Expiries,
    explain::Explainer,
    follow::Following,
    forgotten::Forgotten,
    judge_again::JudgeAgain,
    lifecycle::Lifecycle,
    lint::PolicyLint,
    live::LiveRuns,
    mutes::Mutes,
    node::{NodeNews, NodePeers, NodeRuns},
    patch::Patches,
    policy_admin::PolicyStores,
    process::{ProcessState, Processes, SessionRetention},
    questions::{Asked, Questions},
    recover::{Recovery, Resuming},
    reevaluation::Reevaluation,
    remembered::Remembered,
    run_recorder::RunRecorder,
    run_terms::TermsOfRuns,
    runs::Runs,
    session::{SessionState, Sessions},
    socket::ApprovalsSocket,
    stop::{Stoppable, Stops},
    supervise::{LocalHosts, LocalRuns},
    tokens::{TokenAdmin, Tokens},
    trials::Trials,
    unrecorded::Unrecorded,
    warnings::EndWarnings,
    watch::{PolicySource, Woken},
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
    /// The API tokens; questions end with the token that asks them.
    pub tokens: Arc<Tokens>,
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
pub struct Engine {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    settings: Arc<SettingsStore>,
    documents: Arc<DocumentStore>,
    accepted_policy: Arc<AcceptedPolicy>,
    ledger: Ledger,
    socket: Arc<ApprovalsSocket>,
    health: Health,
    metrics: EngineMetrics,
    live: Arc<LiveRuns>,
    records: Arc<Records>,
    processes: Arc<Processes>,
    sessions: Arc<Sessions>,
    token_admin: TokenAdmin,
    policy: Arc<PolicySource>,
    turns: Arc<Turns>,
    effective_policies: Arc<EffectivePolicies>,
    explainer: Explainer,
    policy_admin: Arc<PolicyAdmin>,
    lists: Arc<EntryLists>,
    mutes: Mutes,
    trials: Trials,
    /// Has the questions that wait judged again.
    again: Arc<Again>,
    stops: Arc<Stops>,
    switch: Arc<StopSwitch>,
    lifecycle: Arc<Lifecycle>,
    recorder: Arc<RunRecorder>,
    node_news: Arc<NodeNews>,
    forgotten: Arc<Forgotten>,
    recovery: Arc<Recovery>,
    approvers: Arc<Approvers>,
    approvals: Arc<Approvals>,
    approved: Arc<ApprovedStarts>,
    ask_only: AskOnly,
    calls: Arc<Calls>,
    patches: Patches,
    cancels: Arc<Cancels>,
    deliveries: Deliveries,
    expiries: Arc<Expiries>,
    judge_again: Arc<JudgeAgain>,
    prompts: Arc<Prompts>,
    remembered: Arc<Remembered>,
    revisions: Arc<Revisions>,
}

// What it is made of is large, and no one reads it.
impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
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
            tokens,
            gateway,
            sandbox,
            nodes,
            shell,
            environment,
            boot_id,
            own_binary,
        } = parts;
        let most = settings.current().server.limits.max_sessions;
        let session_state = Arc::new(SessionState::new(most));
        let notifier: Arc<dyn SessionNotifier> = Arc::<SessionState>::clone(&session_state);
        ledger.feed().set_session_notifier(notifier);
        let lifecycle = Arc::<Lifecycle>::default();
        let (again, slots) = (Arc::<Again>::default(), Arc::default());
        let policy = Arc::new(PolicySource::new(
            Arc::clone(&accepted_policy),
            Arc::clone(&settings),
            ledger.clone(),
            Woken {
                again: Arc::clone(&again),
                slots: Arc::clone(&slots),
                tasks: lifecycle.tasks().clone(),
            },
        ));
        let environment = Arc::new(environment);
        let analyst = Arc::new(Analyst::new(
            Arc::clone(&clock),
            Arc::clone(&environment),
            gateway.files().clone(),
            gateway.isolation(),
            shell.kind(),
            OwnFiles {
                state_dir: &state_dir,
                document: documents.path(),
                binary: own_binary.as_deref(),
            },
        ));
        let peers = Arc::new(NodePeers::new(Arc::clone(&nodes), Arc::clone(&ids)));
        let home = analyst.home().to_owned();
        let places = Arc::new(Places::new(gateway.clone(), sandbox.clone(), home));
        let turns = Arc::<Turns>::default();
        let shell_kind = shell.kind();
        let evaluator = Arc::new(Evaluator {
            policy: Arc::clone(&policy),
            sessions: Arc::clone(&session_state),
            binder: Binder::new(Arc::clone(&analyst), Arc::clone(&places), shell),
            analyst: Arc::clone(&analyst),
            places: Arc::clone(&places),
            nodes: Arc::clone(&peers),
            turns: Arc::clone(&turns),
            ledger: ledger.clone(),
        });
        let trials = Trials {
            clock: Arc::clone(&clock),
            settings: Arc::clone(&settings),
            documents: Arc::clone(&documents),
            environment: Arc::clone(&environment),
            gateway: gateway.clone(),
            shell: shell_kind,
            own_binary,
        };
        let effective_policies = Arc::new(EffectivePolicies::new(
            Arc::clone(&policy),
            Arc::clone(&session_state),
            Arc::clone(&places),
            Arc::clone(&evaluator),
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
            Arc::clone(&analyst),
            Arc::clone(&clock),
            gateway.isolation(),
        ));
        let policy_admin = Arc::new(PolicyAdmin::new(
            Arc::clone(&policy),
            stores,
            ledger.clone(),
            Arc::clone(&again),
            Arc::clone(&lint),
        ));
        let lists = Arc::new(EntryLists::new(
            Arc::clone(&policy_admin),
            Arc::clone(&documents),
            Arc::clone(&lint),
            Arc::clone(&clock),
            Arc::clone(&ids),
        ));
        let socket = Arc::new(ApprovalsSocket::new(
            Arc::clone(&policy),
            Arc::clone(&accepted_policy),
            Arc::clone(&documents),
        ));
        let health = Health {
            policy: Arc::clone(&policy),
            ledger: ledger.clone(),
            gateway: gateway.clone(),
            sandbox: sandbox.clone(),
            socket: Arc::clone(&socket),
            lifecycle: Arc::clone(&lifecycle),
            clock: Arc::clone(&clock),
        };
        let (broker, deadlines) = (Arc::<Broker>::default(), Arc::<Notify>::default());
        let switch = Arc::new(StopSwitch::new(ledger.clone()));
        let live = Arc::new(LiveRuns::new(
            Arc::clone(&settings),
            Arc::clone(&clock),
            Arc::clone(&broker),
            Arc::clone(&switch),
        ));
        let stops = Arc::new(Stops::new(
            Arc::clone(&switch),
            ledger.clone(),
            Arc::clone(&clock),
            Arc::clone(&accepted_policy),
            Stoppable {
                live: Arc::clone(&live),
                broker: Arc::clone(&broker),
                deadlines: Arc::clone(&deadlines),
                lifecycle: Arc::clone(&lifecycle),
            },
        ));
        let (process, stats) = (
            Arc::new(ProcessState::new(Arc::clone(&ids))),
            EngineStats::default(),
        );
        let metrics = EngineMetrics::new(
            stats.clone(),
            Arc::clone(&slots),
            Arc::clone(&broker),
            ledger.clone(),
            gateway.clone(),
        );
        let recorder = Arc::new(RunRecorder {
            ledger: ledger.clone(),
            clock: Arc::clone(&clock),
            accepted_policy: Arc::clone(&accepted_policy),
            broker: Arc::clone(&broker),
            sandbox: sandbox.clone(),
            sessions: Arc::clone(&process),
            stats: stats.clone(),
            unrecorded: Unrecorded::default(),
        });
        let retention = Arc::new(SessionRetention::new(
            ledger.clone(),
            Arc::clone(&clock),
            Arc::clone(&accepted_policy),
            Arc::clone(&process),
        ));
        let records = Arc::new(Records::new(
            ledger.clone(),
            gateway.clone(),
            Arc::clone(&live),
            Arc::clone(&settings),
            Arc::clone(&policy),
        ));
        let base = Base {
            clock: Arc::clone(&clock),
            new_ids: NewIds::new(Arc::clone(&ids), Arc::clone(&clock)),
            settings: Arc::clone(&settings),
            accepted_policy: Arc::clone(&accepted_policy),
            policy: Arc::clone(&policy),
            evaluator: Arc::clone(&evaluator),
            places: Arc::clone(&places),
            analyst: Arc::clone(&analyst),
            ledger: ledger.clone(),
            records: Arc::clone(&records),
            recorder: Arc::clone(&recorder),
            gateway: gateway.clone(),
            live: Arc::clone(&live),
            broker: Arc::clone(&broker),
            switch: Arc::clone(&switch),
            lifecycle: Arc::clone(&lifecycle),
        };
        let node_runs = Arc::new(NodeRuns::new(
            &base,
            Arc::clone(&peers),
            Arc::clone(&again),
            Arc::clone(&retention),
        ));
        let hosts = LocalHosts {
            gateway: gateway.clone(),
            sandbox,
            terms: TermsOfRuns::new(
                Arc::clone(&accepted_policy),
                environment,
                Arc::clone(&places),
                gateway,
                shell_kind,
            ),
            warnings: EndWarnings::new(&base),
        };
        let local = Arc::new(LocalRuns::new(&base, hosts, Arc::clone(&retention)));
        let runs = Arc::new(Runs::new(
            &base,
            Arc::clone(&local),
            Arc::clone(&node_runs),
            Arc::clone(&slots),
            stats.clone(),
        ));
        let token_admin = TokenAdmin::new(&base, tokens);
        let processes = Arc::new(Processes::new(&base, process, retention));
        let resuming = Resuming {
            local: Arc::clone(&local),
            node_runs: Arc::clone(&node_runs),
            runs: Arc::clone(&runs),
        };
        let forgotten = Arc::new(Forgotten::new(&base));
        let recovery = Arc::new(Recovery::new(&base, resuming, boot_id));
        let approvers = Arc::new(Approvers::new(&base));
        let explainer = Explainer::new(&base, Arc::clone(&approvers));
        let remembered = Arc::new(Remembered::new(&base, Arc::clone(&documents)));
        let expiries = Arc::new(Expiries::new(&base, Arc::clone(&runs), Arc::clone(&deadlines)));
        let approved = Arc::new(ApprovedStarts::new(
            &base,
            Arc::clone(&remembered),
            Arc::clone(&runs),
        ));
        let approvals = Arc::new(Approvals::new(
            &base,
            stats,
            Arc::clone(&approved),
            Arc::clone(&expiries),
            Arc::clone(&remembered),
        ));
        let sessions = Arc::new(Sessions::new(
            &base,
            Arc::clone(&session_state),
            Arc::clone(&effective_policies),
            Arc::clone(&approvals),
        ));
        let prompts = Arc::new(Prompts::new(
            &base,
            Arc::clone(&approvers),
            Arc::clone(&approvals),
            Arc::clone(&expiries),
        ));
        let reevaluation = Arc::new(Reevaluation {
            evaluator: Arc::clone(&evaluator),
            places: Arc::clone(&places),
            nodes: Arc::clone(&peers),
            sessions: session_state,
            approvers: Arc::clone(&approvers),
        });
        let judge_again = Arc::new(JudgeAgain::new(
            &base,
            Arc::clone(&again),
            Arc::clone(&reevaluation),
            Arc::clone(&remembered),
            Arc::clone(&runs),
        ));
        let revisions = Arc::new(Revisions::new(
            &base,
            reevaluation,
            Arc::clone(&approvers),
            Arc::clone(&expiries),
        ));
        let cancels = Arc::new(Cancels::new(&base));
        let leases = Arc::new(Leases::new(&base, Arc::clone(&cancels)));
        let following = Arc::new(Following::new(&base, Arc::clone(&leases), Arc::clone(&cancels)));
        let asked = Asked {
            approvers: Arc::clone(&approvers),
            prompts: Arc::clone(&prompts),
            expiries: Arc::clone(&expiries),
            again: Arc::clone(&again),
        };
        let questions = Questions::new(&base, Arc::clone(&policy_admin), Arc::clone(&runs), asked);
        let questions = Arc::new(questions);
        let ask_only = AskOnly::new(
            &base,
            Arc::clone(&questions),
            Arc::clone(&approvers),
            Arc::clone(&expiries),
        );
        let outcomes = Outcomes {
            questions,
            runs,
            following: Arc::clone(&following),
            leases,
            remembered: Arc::clone(&remembered),
        };
        let calls = Arc::new(Calls::new(&base, outcomes));
        let mutes = Mutes::new(&base, Arc::clone(&lists), Arc::clone(&ids));
        let patches = Patches::new(Arc::clone(&policy), Arc::clone(&calls));
        let deliveries = Deliveries::new(&base, Arc::clone(&calls), following, Arc::clone(&policy_admin));
        Arc::new(Self {
            clock,
            ids,
            settings,
            documents,
            accepted_policy,
            ledger,
            socket,
            health,
            metrics,
            live,
            records,
            processes,
            sessions,
            token_admin,
            policy,
            turns,
            effective_policies,
            explainer,
            policy_admin,
            trials,
            mutes,
            lists,
            again,
            stops,
            switch,
            lifecycle,
            recorder,
            node_news: Arc::new(NodeNews(node_runs)),
            forgotten,
            recovery,
            approvers,
            approvals,
            approved,
            ask_only,
            calls,
            patches,
            cancels,
            deliveries,
            expiries,
            judge_again,
            prompts,
            remembered,
            revisions,
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
    pub fn stopping(&self) -> &CancellationToken {
        self.lifecycle.token()
    }

    /// The calls of agents and people.
    pub const fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// The patches of agents.
    pub const fn patches(&self) -> &Patches {
        &self.patches
    }

    /// The calls that another gateway delivers.
    pub const fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    /// What cancels runs.
    pub const fn cancels(&self) -> &Arc<Cancels> {
        &self.cancels
    }

    /// The questions to people, and their answers.
    pub const fn approvals(&self) -> &Arc<Approvals> {
        &self.approvals
    }

    /// Who answers them.
    pub const fn approvers(&self) -> &Arc<Approvers> {
        &self.approvers
    }

    /// The other UI that is asked, where there is one.
    pub const fn prompts(&self) -> &Arc<Prompts> {
        &self.prompts
    }

    /// What puts a changed command in the place of a question.
    pub const fn revisions(&self) -> &Arc<Revisions> {
        &self.revisions
    }

    /// The questions about commands that their askers start.
    pub const fn ask_only(&self) -> &AskOnly {
        &self.ask_only
    }

    /// The emergency stop.
    pub const fn stops(&self) -> &Arc<Stops> {
        &self.stops
    }

    /// Whether everything is stopped.
    pub const fn stop_switch(&self) -> &Arc<StopSwitch> {
        &self.switch
    }

    /// What hears of nodes; it lives as long as the engine.
    pub fn node_sink(&self) -> Weak<dyn NodeSink> {
        let sink: Arc<dyn NodeSink> = Arc::<NodeNews>::clone(&self.node_news);
        Arc::downgrade(&sink)
    }

    /// The policy of a node changed by way of this server.
    pub fn node_policy_changed(&self, by: &Actor) {
        self.again.node_policy_changed(by);
    }

    /// What ends tokens and their questions.
    pub const fn token_admin(&self) -> &TokenAdmin {
        &self.token_admin
    }

    /// What sessions override, are told, and say in chat.
    pub const fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// The process tool.
    pub const fn processes(&self) -> &Arc<Processes> {
        &self.processes
    }

    /// What a call would come to.
    pub const fn explainer(&self) -> &Explainer {
        &self.explainer
    }

    /// The policy in force for each agent.
    pub const fn effective_policies(&self) -> &Arc<EffectivePolicies> {
        &self.effective_policies
    }

    /// Every change of the policy.
    pub const fn policy_admin(&self) -> &Arc<PolicyAdmin> {
        &self.policy_admin
    }

    /// The lists of each agent.
    pub fn lists(&self) -> &EntryLists {
        &self.lists
    }

    /// Policies that are tried.
    pub const fn trials(&self) -> &Trials {
        &self.trials
    }

    /// Mutes agents for a while.
    pub const fn mutes(&self) -> &Mutes {
        &self.mutes
    }

    /// Whether the server can do its work.
    pub const fn health(&self) -> &Health {
        &self.health
    }

    /// What this server measures.
    pub const fn metrics(&self) -> &EngineMetrics {
        &self.metrics
    }

    /// The approvals socket: what is said of it, and what happened there.
    pub fn socket(&self) -> &ApprovalsSocket {
        &self.socket
    }

    /// What is on record of runs, approvals and agents.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The turns of callers whose commands take long to look through.
    pub fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// Reads both files of the policy and reports what changed. Cheap when nothing did.
    pub fn refresh_policy(&self) -> Arc<PolicyInEffect> {
        self.policy.refresh()
    }
}
