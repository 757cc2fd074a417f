//! An engine in this process, and what is asked of it.

use std::{
    collections::BTreeSet,
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use countersign_config::{
    approvals::{broker::ApproverGuard, store::DocumentStore},
    settings::{MapEnvironment, SettingsStore, StartOptions, StateDir},
};
use countersign_domain::{
    Actor, ActorKind, AgentId, Approval, ApprovalDecision, Ask, Authority, Command, ExecRequest, Principal,
    Reason, Run, RunId, RunStatus, Scope, Security, SessionKey,
};
use countersign_engine::{
    Engine, EngineParts, PolicyFiles, Unstarted,
    accepted_policy::AcceptedPolicy,
    environment::HostEnvironment,
    reply::{Answer, ExecError, ExecReply},
    tokens::Tokens,
};
use countersign_hosts::{
    gateway::GatewayHost,
    sandbox::{SandboxHost, SandboxOptions},
    shell::HostShell,
};
use countersign_ledger::{EventWindow, Ledger, LedgerConfig, LedgerThread, Tuning, events::EventFilter};
use countersign_runner::{Runner, RunnerOptions};
use countersign_sys::{
    clock::{Clock, Ids, SystemClock, SystemIds},
    process::InheritedLimits,
};
use serde_json::{Value, json};

use super::fleet::Fleet;
use crate::support::{Scratch, eventually, write_file_mode};

/// A server's engine with its own state directory.
pub(crate) struct World {
    scratch: Scratch,
    served: Option<Served>,
    pub(crate) fleet: Arc<Fleet>,
}

/// One life of it.
pub(crate) struct Served {
    pub(crate) engine: Arc<Engine>,
    ledger: Option<LedgerThread>,
    approver: Option<ApproverGuard>,
}

/// A call with what matters here; the rest as a caller leaves it.
pub(crate) struct Call(pub(crate) ExecRequest);

impl Call {
    pub(crate) fn argv(argv: &[&str]) -> Self {
        Self::of(Command::argv(argv.iter().map(|word| (*word).to_owned()).collect()).unwrap())
    }

    pub(crate) fn shell(text: &str) -> Self {
        Self::of(Command::shell(text.to_owned()).unwrap())
    }

    fn of(command: Command) -> Self {
        let agent = AgentId::main();
        Self(ExecRequest {
            command,
            workdir: None,
            env: std::collections::BTreeMap::new(),
            yield_after: Some(Duration::from_mins(1)),
            background: false,
            timeout: None,
            pty: false,
            host: None,
            security: None,
            ask: None,
            node: None,
            elevated: false,
            session: SessionKey::main_of(&agent),
            agent,
            approval_wait: Duration::ZERO,
            note: countersign_domain::AgentNote::default(),
            joining: countersign_domain::Joining::Never,
        })
    }

    pub(crate) fn on(mut self, node: &str) -> Self {
        self.0.node = Some(node.to_owned());
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut ExecRequest)) -> Self {
        change(&mut self.0);
        self
    }
}

/// `tools.exec` for calls that all go to nodes.
pub(crate) fn exec(security: Security, ask: Ask) -> Value {
    json!({ "host": "node", "security": security.as_str(), "ask": ask.as_str() })
}

pub(crate) fn asker() -> Principal {
    principal("t-asker", &[Scope::Exec])
}

pub(crate) fn approver() -> Principal {
    principal("t-approver", &[Scope::Approve, Scope::Read])
}

fn principal(id: &str, scopes: &[Scope]) -> Principal {
    Principal {
        actor: Actor {
            kind: ActorKind::Token,
            id: id.to_owned(),
            name: id.to_owned(),
            owner: None,
        },
        scopes: scopes.iter().copied().collect::<BTreeSet<_>>(),
        authority: Authority::EVERYTHING,
    }
}

impl World {
    pub(crate) async fn new(exec: Value) -> Self {
        Self::with(exec, None, "").await
    }

    /// With an approvals document of this machine, and tables of `countersign.toml`.
    pub(crate) async fn with(exec: Value, document: Option<Value>, toml: &str) -> Self {
        let scratch = Scratch::new();
        let state = scratch.dir("state");
        let own = state.join("countersign");
        for directory in [&state, &own] {
            std::fs::create_dir_all(directory).unwrap();
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(directory, private).unwrap();
        }
        let toml =
            format!("[exec]\nlogin_path = false\nshell = \"/bin/sh\"\n[bridge]\ntick_ms = 200\n{toml}");
        write_file_mode(&own.join("countersign.toml"), toml, 0o600);
        let config = json!({ "tools": { "exec": exec } });
        write_file_mode(&state.join("openclaw.json"), config.to_string(), 0o600);
        if let Some(document) = document {
            write_file_mode(&state.join("exec-approvals.json"), document.to_string(), 0o600);
        }
        let fleet = Arc::new(Fleet::default());
        let served = Served::start(&state, &fleet).await;
        Self {
            scratch,
            served: Some(served),
            fleet,
        }
    }

    /// The server dies with whatever it was about, and another one starts on its files.
    pub(crate) async fn die_and_come_back(&mut self) {
        let served = self.served.take().expect("a server");
        served.die().await;
        self.fleet = self.fleet.for_next_server();
        self.served = Some(Served::start(&self.state(), &self.fleet).await);
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.scratch.join("state")
    }

    pub(crate) fn spawn(&self, call: Call) -> tokio::task::JoinHandle<Result<ExecReply, ExecError>> {
        let engine = Arc::clone(&self.engine);
        tokio::spawn(async move { engine.calls().exec(&asker(), call.0, None).await })
    }

    /// Somebody can be asked from now on.
    pub(crate) fn open_page(&mut self) {
        let served = self.served.as_mut().expect("a server");
        served.approver = Some(served.engine.approvers().connected());
    }
}

impl Deref for World {
    type Target = Served;

    fn deref(&self) -> &Served {
        self.served.as_ref().expect("a server")
    }
}

impl Served {
    async fn start(state: &Path, fleet: &Arc<Fleet>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn Ids> = Arc::new(SystemIds);
        let home = state.join("home");
        let environment = MapEnvironment::new([
            ("PATH", "/usr/bin:/bin"),
            ("HOME", home.to_str().expect("text")),
            ("SHELL", "/bin/sh"),
        ]);
        let environment: Arc<dyn countersign_config::settings::Environment> = Arc::new(environment);
        let state_dir = StateDir::resolve(Some(state), environment.as_ref()).unwrap();
        state_dir.prepare().unwrap();
        let settings = SettingsStore::load(
            state_dir.clone(),
            &StartOptions::default(),
            Arc::clone(&environment),
        )
        .unwrap();
        let settings = Arc::new(settings);
        let current = settings.current();
        let documents = Arc::new(DocumentStore::open(
            state_dir.document(&current.server),
            home.clone(),
            Arc::clone(&clock),
            Arc::clone(&ids),
        ));
        let accepted_policy = Arc::new(AcceptedPolicy::open(
            Arc::clone(&settings),
            Arc::clone(&documents),
            Arc::clone(&clock),
            &state_dir,
        ));
        let config = LedgerConfig {
            path: state_dir.ledger(&current.server),
            audit_key: state_dir.audit_key(),
            audit_head: state_dir.audit_head(),
            boot_id: "boot-1".to_owned(),
            readers: 4,
            tuning: Tuning::default(),
        };
        let policy = Arc::new(PolicyFiles::new(Arc::clone(&accepted_policy)));
        let (ledger, thread) = Ledger::open(config, Arc::clone(&clock), Arc::clone(&ids), policy).unwrap();
        let limits = InheritedLimits {
            open_files: Some(1000),
            umask: 0o027,
            nice: 0,
        };
        let runner = RunnerOptions {
            program: PathBuf::from(env!("CARGO_BIN_EXE_countersign")),
            environment: Vec::new(),
            ..RunnerOptions::of_this_program(state_dir.runs(), state_dir.output(), limits, 64)
        };
        let runner = Runner::start(runner).unwrap().watch().unwrap();
        let gateway = GatewayHost::new(runner, state_dir.runs(), state_dir.output());
        let options = SandboxOptions::new(
            &state_dir,
            &current.server,
            settings.server_file(),
            environment.as_ref(),
        );
        let engine = Engine::new(EngineParts {
            tokens: Arc::new(Tokens::new(ledger.clone(), Arc::clone(&clock), Arc::clone(&ids))),
            clock,
            ids,
            sandbox: SandboxHost::new(options, gateway.clone()),
            settings,
            documents,
            accepted_policy,
            ledger,
            gateway,
            nodes: Arc::clone(fleet) as Arc<dyn countersign_hosts::node::NodeLink>,
            shell: HostShell::choose(Some(Path::new("/bin/sh")), None, &[]).unwrap(),
            environment: HostEnvironment::new(environment.as_ref(), None),
            boot_id: "boot-1".to_owned(),
            own_binary: None,
            state_dir,
        });
        fleet.listen(engine.node_sink().upgrade().expect("the engine lives"));
        engine.recover(Unstarted::StartAgain).await.unwrap();
        engine.begin();
        Self {
            engine,
            ledger: Some(thread),
            approver: None,
        }
    }

    /// Its ledger takes nothing any more from this moment on, as if the process had died.
    async fn die(mut self) {
        let thread = self.ledger.take().expect("a ledger");
        tokio::task::spawn_blocking(move || thread.stop()).await.unwrap();
    }

    pub(crate) async fn exec(&self, call: Call) -> Result<ExecReply, ExecError> {
        self.engine.calls().exec(&asker(), call.0, None).await
    }

    pub(crate) async fn run(&self, id: &str) -> Run {
        let id = RunId::parse(id).unwrap();
        self.engine.ledger().run(&id).await.unwrap().expect("a run")
    }

    /// Waits until a run has a status.
    pub(crate) async fn reaches(&self, id: &str, status: RunStatus) -> Run {
        eventually("the status of a run", || self.run(id), |run| run.status == status).await
    }

    pub(crate) async fn decide(&self, approval: &Approval, decision: ApprovalDecision) {
        let answer = Answer {
            decision,
            reason: None,
            patterns: None,
            grant: None,
            refusal: None,
            shown_digest: None,
        };
        let decided = self
            .engine
            .approvals()
            .decide(&approver(), &approval.id, answer)
            .await
            .unwrap();
        assert!(decided.applied);
    }

    /// The events of a run, oldest first: type and data.
    pub(crate) async fn events_of(&self, id: &str) -> Vec<(String, Value)> {
        let (events, _more) = self
            .engine
            .ledger()
            .events(EventWindow::default(), EventFilter::default(), 1_000)
            .await
            .unwrap();
        events
            .iter()
            .map(|event| serde_json::from_str::<Value>(&event.data).unwrap())
            .filter(|data| data["runId"] == id)
            .map(|data| (data["type"].as_str().unwrap_or_default().to_owned(), data))
            .collect()
    }

    pub(crate) async fn system_events_of(&self, id: &str) -> Vec<String> {
        let events = self.events_of(id).await.into_iter();
        let texts = events.filter(|(kind, _)| kind == "system.event");
        texts
            .map(|(_, data)| data["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

/// The run that ended while its caller waited, and what it wrote.
#[track_caller]
pub(crate) fn ended(reply: Result<ExecReply, ExecError>) -> (Run, countersign_runner::output::Captured) {
    match reply {
        Ok(ExecReply::Ended(ended)) => (ended.run, ended.output),
        other => panic!("it did not end: {other:?}"),
    }
}

/// The question that a call came to.
#[track_caller]
pub(crate) fn pending(reply: Result<ExecReply, ExecError>) -> Approval {
    match reply {
        Ok(ExecReply::Pending(pending)) => pending.approval,
        other => panic!("nobody is asked: {other:?}"),
    }
}

/// Why a run was denied, and which.
#[track_caller]
pub(crate) fn denied(reply: Result<ExecReply, ExecError>) -> (Reason, String, String) {
    match reply {
        Err(ExecError::Denied(denial)) => (
            denial.reason,
            denial.detail.unwrap_or_default(),
            denial.run_id.to_string(),
        ),
        other => panic!("it was not denied: {other:?}"),
    }
}
