//! Component tests: a real ledger in a directory of its own, with a clock that stands still.
//!
//! A test must never read the system clock or draw random ids: time passes only where it moves its [`ManualClock`],
//! and ids come from [`SeededIds`]. Only `cost.rs`, which you run by hand, measures time, and it asserts nothing about
//! that. Each file has one subject. Start with [`Opened`], the open ledger of a test.

mod admission;
mod audit_chain;
mod callers;
mod cost;
mod crash;
mod decisions;
mod elsewhere;
mod event_stream;
mod forgotten;
mod launches;
mod node_runs;
mod nodes;
mod retention;
mod run_order;
mod storage;
mod tokens;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use tempfile::TempDir;

use countersign_domain::{
    Actor, ActorKind, AgentId, Approval, ApprovalCard, ApprovalDecision, ApprovalId, Ask, Binding, Bound,
    Command, CommandInput, Confinement, EnvOverrides, GrantLimits, Host, Isolation, Pattern, PatternWidth,
    Pinning, Quorum, RunEnd, RunId, RunStatus, Security, SessionKey, ShownEnv, UnixMillis, Why,
};
use countersign_sys::clock::{Ids as _, ManualClock, SeededIds};

use super::{
    Admission, AskOutcome, Asking, Decide, DecideOutcome, DirectLaunch, Finish, GrantUse, IdempotencyKey,
    Ledger, LedgerConfig, LedgerThread, NewApproval, NewRun, OpenError, PolicyStamp, PolicyWatch,
    QuestionLimits, RunOutput, Tuning,
    launch::{ApprovedLaunch, ApprovedOutcome, LaunchOutcome, LaunchTerms, Permit},
};

use crate::{EventWindow, events::EventFilter};

/// The policy in force, as a test sets it.
#[derive(Debug)]
pub(super) struct ChosenPolicy(Mutex<PolicyStamp>);

impl ChosenPolicy {
    fn set_generation(&self, generation: u64) {
        self.0.lock().unwrap().settings_generation = generation;
    }
}

impl PolicyWatch for ChosenPolicy {
    fn stamp(&self) -> PolicyStamp {
        self.0.lock().unwrap().clone()
    }
}

/// An open ledger and everything it was given.
pub(super) struct Opened {
    pub(super) ledger: Ledger,
    pub(super) clock: Arc<ManualClock>,
    pub(super) policy: Arc<ChosenPolicy>,
    ids: Arc<SeededIds>,
    thread: Option<LedgerThread>,
    dir: TempDir,
}

/// Limits that no test meets by accident.
pub(super) const NO_LIMITS: QuestionLimits = QuestionLimits {
    pending: 1000,
    per_agent: 0,
    per_token: 0,
    per_minute: 0,
    burst: 0,
};
const START: i64 = 1_000_000;
const MINUTE: Duration = Duration::from_mins(1);

impl Opened {
    pub(super) fn new() -> Self {
        Self::tuned(Tuning::default())
    }

    pub(super) fn tuned(tuning: Tuning) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), Arc::default(), tuning, "boot-1").unwrap()
    }

    pub(super) fn in_dir(
        dir: TempDir,
        ids: Arc<SeededIds>,
        tuning: Tuning,
        boot_id: &str,
    ) -> Result<Self, OpenError> {
        let clock = Arc::new(ManualClock::at(UnixMillis::new(START)));
        let policy = Arc::new(ChosenPolicy(Mutex::new(PolicyStamp::default())));
        let config = LedgerConfig {
            tuning,
            boot_id: boot_id.to_owned(),
            ..config(dir.path())
        };
        let (ledger, thread) = Ledger::open(
            config,
            Arc::<ManualClock>::clone(&clock),
            Arc::<SeededIds>::clone(&ids),
            Arc::<ChosenPolicy>::clone(&policy),
        )?;
        Ok(Self {
            ledger,
            clock,
            policy,
            ids,
            thread: Some(thread),
            dir,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Ends cleanly and gives the directory back.
    pub(super) fn stop(mut self) -> TempDir {
        self.thread.take().unwrap().stop();
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    /// Ends cleanly and opens again.
    pub(super) fn reopen(self) -> Self {
        let ids = Arc::clone(&self.ids);
        Self::in_dir(self.stop(), ids, Tuning::default(), "boot-1").unwrap()
    }

    /// What a server finds that starts after this one was killed now: its files, and nothing of its memory.
    pub(super) fn after_kill(&self, boot_id: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(self.path()).unwrap() {
            let entry = entry.unwrap();
            // The shared memory of SQLite is memory.
            if !entry.file_name().to_str().unwrap().ends_with("-shm") {
                std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
            }
        }
        Self::in_dir(dir, Arc::clone(&self.ids), Tuning::default(), boot_id).unwrap()
    }

    /// A run of `echo` that a token asks for.
    pub(super) async fn pending_approvals(&self) -> u64 {
        let agents = self.ledger.agents().await.unwrap();
        agents.iter().map(|agent| agent.pending).sum()
    }

    pub(super) fn run(&self) -> NewRun {
        NewRun {
            id: self.ids.run_id(UnixMillis::new(START)),
            host: Host::Gateway,
            node_id: None,
            agent: AgentId::main(),
            session: SessionKey::main_of(&AgentId::main()),
            command: Command::shell("echo hello".to_owned()).unwrap(),
            cwd: "/work".to_owned(),
            env: EnvOverrides::default(),
            requested_by: asker(),
            security: Security::Allowlist,
            ask: Ask::OnMiss,
            pty: false,
            input: CommandInput::Closed,
            background: false,
            diverted: false,
            isolation: Isolation::Confined,
            sandbox: None,
            binding: Some(Pinning::Text),
            scripts: None,
            start: None,
            confinement: Confinement::default(),
            note: countersign_domain::AgentNote::default(),
            timeout: Some(MINUTE),
        }
    }

    pub(super) fn approval(&self) -> NewApproval {
        NewApproval {
            id: self.ids.approval_id(),
            card: card(),
            timeout: MINUTE,
            revises: None,
        }
    }

    pub(super) fn asking(&self) -> Asking {
        Asking {
            run: self.run(),
            approval: self.approval(),
            key: None,
            limits: NO_LIMITS,
            joining: countersign_domain::Joining::Never,
        }
    }

    pub(super) async fn ask(&self) -> Approval {
        self.ask_with(self.asking()).await
    }

    pub(super) async fn ask_with(&self, asking: Asking) -> Approval {
        match self.ledger.admit_asking(asking).await.unwrap() {
            Admission::New(AskOutcome::Asked(approval)) => *approval,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn decide(&self, approval: &ApprovalId, decision: ApprovalDecision) -> DecideOutcome {
        self.ledger.decide(decision_of(approval, decision)).await.unwrap()
    }

    /// An approval that a person allowed.
    pub(super) async fn allowed(&self) -> Approval {
        let asked = self.ask().await;
        match self.decide(&asked.id, ApprovalDecision::AllowOnce).await {
            DecideOutcome::Decided {
                applied: true,
                approval,
            } => *approval,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn launch(&self, approval: &ApprovalId) -> ApprovedOutcome {
        self.ledger.launch(launch_of(approval)).await.unwrap()
    }

    /// A run with permission to start.
    pub(super) async fn launched(&self) -> Permit {
        let launch = DirectLaunch {
            run: self.run(),
            key: None,
            terms: terms(),
        };
        match self.ledger.admit_and_launch(launch).await.unwrap() {
            Admission::New(LaunchOutcome::Launched(permit)) => permit,
            other => panic!("{other:?}"),
        }
    }

    /// As [`Self::launched`], for the record alone.
    pub(super) async fn launch_one(&self) {
        drop(self.launched().await);
    }

    pub(super) async fn status(&self, run: &RunId) -> RunStatus {
        self.ledger.run(run).await.unwrap().unwrap().status
    }

    /// The `data` of every kept event, oldest first.
    pub(super) async fn events(&self) -> Vec<serde_json::Value> {
        let (events, _more) = self
            .ledger
            .events(EventWindow::default(), EventFilter::default(), 1_000_000)
            .await
            .unwrap();
        events
            .iter()
            .map(|event| serde_json::from_str(&event.data).unwrap())
            .collect()
    }

    pub(super) async fn event_types(&self) -> Vec<String> {
        self.events()
            .await
            .iter()
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(super) async fn is_chain_whole(&self) -> bool {
        self.ledger.verify_audit().await.unwrap().is_ok()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.stop();
        }
    }
}

pub(super) fn config(dir: &Path) -> LedgerConfig {
    LedgerConfig {
        path: dir.join("countersign.db"),
        audit_key: dir.join("audit.key"),
        audit_head: dir.join("audit.head"),
        boot_id: "boot-1".to_owned(),
        readers: 4,
        tuning: Tuning::default(),
    }
}

pub(super) fn asker() -> Actor {
    Actor {
        kind: ActorKind::Token,
        id: "t-asker".to_owned(),
        name: "gateway".to_owned(),
        owner: None,
    }
}

pub(super) fn approver() -> Actor {
    Actor {
        kind: ActorKind::Token,
        id: "t-approver".to_owned(),
        name: "operator".to_owned(),
        owner: None,
    }
}

pub(super) fn binding() -> Binding {
    Binding {
        host: Host::Gateway,
        node_id: None,
        agent: AgentId::main(),
        session: SessionKey::main_of(&AgentId::main()),
        command: Command::shell("echo hello".to_owned()).unwrap(),
        bound: Bound::Text {
            shell: "/bin/sh".to_owned(),
            text: "echo hello".to_owned(),
        },
        cwd: "/work".to_owned(),
        cwd_dev: 1,
        cwd_ino: 2,
        env_hash: None,
        executables: Vec::new(),
        executable_sha256: None,
        script: None,
        scripts: Vec::new(),
        held: None,
        confinement: Confinement::default(),
        denied_children: Vec::new(),
        pty: false,
        input: CommandInput::Closed,
        timeout_ms: 60_000,
    }
}

pub(super) fn card() -> ApprovalCard {
    let pattern = |pattern: &str, width, default| Pattern {
        segment: 0,
        pattern: pattern.to_owned(),
        arg_pattern: None,
        source: None,
        width,
        default,
        shape: None,
        limits: GrantLimits::default(),
    };
    ApprovalCard {
        binding: binding(),
        security: Security::Allowlist,
        ask: Ask::OnMiss,
        ask_fallback: Security::Deny,
        satisfied: false,
        needs_person: false,
        why: Why {
            layer: "default".to_owned(),
            rule: "allowlist-miss".to_owned(),
            detail: "no entry covers echo".to_owned(),
            span: None,
        },
        allowed_decisions: ApprovalDecision::ALL.to_vec(),
        proposed_patterns: vec![
            pattern("/bin/echo-exact", PatternWidth::Exact, true),
            pattern("/bin/echo", PatternWidth::Program, false),
        ],
        resolved_path: Some("/bin/echo".to_owned()),
        segments: serde_json::json!([]),
        is_understood: true,
        env: ShownEnv::default(),
        document_hash: String::new(),
        elevated: false,
        quorum: Quorum::default(),
        wishes: None,
        outside_workspace: false,
        note: countersign_domain::AgentNote::default(),
    }
}

pub(super) fn terms() -> LaunchTerms {
    LaunchTerms {
        binding: binding(),
        input: CommandInput::Closed,
        stamp: PolicyStamp::default(),
        grants: Vec::new(),
        start_by: MINUTE,
        node: None,
    }
}

pub(super) fn grant(max_uses: u64) -> GrantUse {
    GrantUse {
        owner: "main".to_owned(),
        entry_id: "grant-1".parse().unwrap(),
        max_uses,
    }
}

pub(super) fn key(name: &str, body: &str) -> IdempotencyKey {
    IdempotencyKey {
        token: "t-asker".parse().unwrap(),
        key: name.to_owned(),
        body_sha256: body.to_owned(),
        note: None,
    }
}

pub(super) fn decision_of(approval: &ApprovalId, decision: ApprovalDecision) -> Decide {
    Decide {
        approval: approval.clone(),
        decision,
        by: approver(),
        reason: None,
        patterns: None,
        grant: None,
        shown_digest: None,
    }
}

pub(super) fn launch_of(approval: &ApprovalId) -> ApprovedLaunch {
    ApprovedLaunch {
        approval: approval.clone(),
        binding: binding(),
        stamp: PolicyStamp::default(),
        start_by: MINUTE,
        node: None,
        outlives_caller: false,
    }
}

pub(super) fn secret_env() -> EnvOverrides {
    EnvOverrides::accepted(BTreeMap::from([("TOKEN".to_owned(), "s3cret-value".to_owned())]))
}

pub(super) fn finish(run: &RunId) -> Finish {
    Finish {
        run_id: run.clone(),
        end: RunEnd {
            status: RunStatus::Completed,
            reason: None,
            detail: None,
            exit_code: Some(0),
            exit_signal: None,
            timed_out: false,
            truncated: false,
            output_bytes: 6,
            tail: "hello\n".to_owned(),
            by_shell: false,
            ended_at: UnixMillis::new(START + 25),
        },
        output: RunOutput::Inline(b"frames".to_vec()),
        warnings: Vec::new(),
        leftovers: None,
        observed: None,
        notice: None,
    }
}

impl Opened {
    /// The database itself, as another program with the file could get at it.
    pub(super) fn raw(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.path().join("countersign.db")).unwrap();
        connection.busy_timeout(MINUTE).unwrap();
        connection
    }
}
