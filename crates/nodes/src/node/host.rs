//! What the node does for its gateway: every call is taken once, judged by the engine of this machine, and answered over
//! whichever connection stands when there is an answer.
//!
//! Its invariant: an id of an invocation stands for one run or one refusal for ever. The ledger keeps it; nothing here
//! remembers more than what is going on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use countersign_domain::{
    Actor, ActorKind, AgentId, Approval, ApprovalDecision, ApprovalStatus, Authority, Principal, Run, RunId,
    RunStatus, Scope, Security, UnixMillis,
};
use countersign_engine::{
    Answers, Delivered, Delivery, Engine, Invocation, InvocationState,
    prompter::{Prompt, Prompter},
    reply::{self, DecideError, ExecError},
};
use countersign_protocol::bridge::{
    APPROVALS_GET, APPROVALS_SET, EXEC_DENIED, EXEC_FINISHED, EXEC_STARTED, ExecNews, INVOKE_RESULT,
    InvokeAnswer, InvokeCall, InvokeCancel, NODE_EVENT, NodeNews, OwnRule, RUN_STATUS, SYSTEM_RUN,
    SYSTEM_RUN_PREPARE, SYSTEM_WHICH, UnreadableCall,
};
use countersign_sys::clock::Clock;

use super::{
    answer::{Answer, Denied, Dialect, News, no_record},
    documents, output,
    run::{self, Carried, RunCall},
    uplink::{Link, RequestError, Uplink},
};

/// Everything that a node of ours serves.
pub(super) const COMMANDS: &[&str] = &[
    SYSTEM_RUN,
    SYSTEM_RUN_PREPARE,
    SYSTEM_WHICH,
    APPROVALS_GET,
    APPROVALS_SET,
    RUN_STATUS,
];

/// Most calls at a time; over it they are refused.
const MAX_CALLS: usize = 256;
/// How long an event may wait for its answer before the result is sent all the same.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a result may.
const RESULT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an answer is kept for a connection to send it over.
const DELIVERY: Duration = Duration::from_mins(30);
/// How often a result is sent at most over connections that break.
const DELIVERIES: usize = 8;
/// Most programs that are looked for in one call.
const MAX_BINS: usize = 512;

/// Whether commands are to be run by a companion app only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Companion {
    /// They are run here.
    NotNeeded,
    /// Without the app's socket nothing runs (`OPENCLAW_NODE_EXEC_HOST=app`, `OPENCLAW_NODE_EXEC_FALLBACK=0`).
    Required,
}

/// What a host is made of.
#[derive(Debug)]
pub(super) struct HostParts {
    pub(super) engine: Arc<Engine>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) uplink: Arc<Uplink>,
    pub(super) node_id: String,
    pub(super) gateway: String,
    pub(super) commands: Vec<String>,
    pub(super) prompter: Option<Arc<dyn Prompter>>,
    pub(super) companion: Companion,
}

#[derive(Debug)]
pub(super) struct Host {
    parts: HostParts,
    /// As whom the gateway asks.
    gateway: Principal,
    /// As whom a person behind the gateway answers.
    approver: Principal,
    /// As whom a person at this machine answers.
    local: Principal,
    calls: Mutex<HashMap<Invocation, CancellationToken>>,
    tasks: TaskTracker,
}

impl Host {
    pub(super) fn new(parts: HostParts) -> Arc<Self> {
        let principal = |id: String, name: &str, scopes: &[Scope], kind| Principal {
            actor: Actor {
                kind,
                id,
                name: name.to_owned(),
                owner: None,
            },
            scopes: scopes.iter().copied().collect(),
            authority: Authority::EVERYTHING,
        };
        let address = &parts.gateway;
        let host = Self {
            gateway: principal(address.clone(), "gateway", &[Scope::Exec], ActorKind::Bridge),
            approver: principal(
                format!("{address}#approvals"),
                "approver at the gateway",
                &[Scope::Approve],
                ActorKind::Bridge,
            ),
            local: principal(
                "approvals-socket".to_owned(),
                "approver at this machine",
                &[Scope::Approve],
                ActorKind::Ipc,
            ),
            calls: Mutex::default(),
            tasks: TaskTracker::new(),
            parts,
        };
        Arc::new(host)
    }

    /// Takes a call. One for another node, or whose id cannot be one, is dropped, as the products do; any other is answered,
    /// also when its parameters cannot be read.
    pub(super) fn take(self: &Arc<Self>, payload: Value, link: &Arc<Link>) {
        let call = InvokeCall::parse(payload);
        let (id, node_id, command) = match &call {
            Ok(call) => (&call.id, &call.node_id, &call.command),
            Err(UnreadableCall::Named {
                id,
                node_id,
                command,
                error: _,
            }) => (id, node_id, command),
            Err(UnreadableCall::Nameless(error)) => {
                tracing::warn!(%error, "a call that cannot be read came and is dropped");
                return;
            }
        };
        if *node_id != self.parts.node_id {
            tracing::warn!("a call for another node came and is dropped");
            return;
        }
        let Some(invocation) = Invocation::parse(id) else {
            tracing::warn!("a call whose id cannot be one came and is dropped");
            return;
        };
        let is_run = command == SYSTEM_RUN;
        let entered = self.enter(&invocation);
        let (host, link) = (Arc::clone(self), Arc::clone(link));
        self.tasks.spawn(async move {
            let dialect = link.dialect;
            match entered {
                // The first call of this id answers for both.
                Entered::Again => {}
                Entered::Full if is_run => {
                    let answer = host.refuse(&invocation, busy(), dialect).await;
                    host.deliver(&invocation, &answer, None).await;
                }
                Entered::Full => host.deliver(&invocation, &busy(), None).await,
                Entered::New(cancelled) => {
                    let going_on = GoingOn {
                        host: &host,
                        invocation: &invocation,
                    };
                    let (answer, about) = match call {
                        Ok(call) if is_run => host.run(&invocation, call, &link, &cancelled).await,
                        Ok(call) => (host.answer(call, &link).await, None),
                        Err(unreadable) => {
                            let answer = Answer::invalid(unreadable.to_string());
                            // The refusal is kept: no later call under this id runs anything.
                            let answer = if is_run {
                                host.refuse(&invocation, answer, dialect).await
                            } else {
                                answer
                            };
                            (answer, None)
                        }
                    };
                    // Before it is sent: a call that comes after the answer gets one of its own.
                    drop(going_on);
                    host.deliver(&invocation, &answer, about).await;
                }
            }
        });
    }

    /// Ends what a call began.
    pub(super) fn cancel(self: &Arc<Self>, payload: Value) {
        let cancel = match InvokeCancel::parse(payload) {
            Ok(cancel) if cancel.node_id == self.parts.node_id => cancel,
            Ok(_) | Err(_) => return,
        };
        let Some(invocation) = Invocation::parse(&cancel.invoke_id) else {
            return;
        };
        let going_on = self.calls().get(&invocation).cloned();
        let Some(token) = going_on else { return };
        token.cancel();
        let host = Arc::clone(self);
        self.tasks.spawn(async move {
            // Either nothing runs for it from now on, or there is something to end.
            let refused = Answer::void("the call was cancelled");
            if let Ok(InvocationState::Run { run_id, rule: _ }) = host.keep(&invocation, &refused).await {
                host.end(&run_id).await;
            }
        });
    }

    /// Withdraws every question to people at this machine.
    pub(super) fn withdraw_questions(&self) {
        self.calls().values().for_each(CancellationToken::cancel);
    }

    /// Waits until everything that was taken is answered.
    pub(super) async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn end(&self, run_id: &RunId) {
        match self.parts.engine.cancels().cancel(&self.gateway, run_id).await {
            Ok(_) | Err(reply::CancelError::Ended(_)) => {}
            Err(error) => tracing::warn!(run.id = %run_id, %error, "a run could not be cancelled"),
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<Invocation, CancellationToken>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, invocation: &Invocation) -> Entered {
        let mut calls = self.calls();
        if calls.contains_key(invocation) {
            Entered::Again
        } else if calls.len() >= MAX_CALLS {
            Entered::Full
        } else {
            let token = CancellationToken::new();
            calls.insert(invocation.clone(), token.clone());
            Entered::New(token)
        }
    }

    /// Everything but `system.run`: nothing of it is kept.
    async fn answer(self: &Arc<Self>, call: InvokeCall, link: &Link) -> Answer {
        let dialect = link.dialect;
        if !self.parts.commands.contains(&call.command) {
            return Answer::unavailable("command not supported");
        }
        let params = if call.params.is_null() {
            json!({})
        } else {
            call.params
        };
        let engine = &self.parts.engine;
        match call.command.as_str() {
            SYSTEM_RUN_PREPARE => match RunCall::parse(params) {
                Ok(call) => match engine
                    .deliveries()
                    .preview_delivered(&self.gateway, call.to_request(None))
                    .await
                {
                    Ok(preview) => Answer::done(run::prepared(&call, &preview, link.make)),
                    Err(error) => Answer::of_error(&error, call.cwd.as_deref(), dialect),
                },
                Err(answer) => answer,
            },
            SYSTEM_WHICH => self.which(&params),
            APPROVALS_GET => documents::get(engine),
            APPROVALS_SET => documents::set(engine, &self.gateway.actor, params).await,
            RUN_STATUS => self.status(&params, dialect).await,
            _ => Answer::unavailable("command not supported"),
        }
    }

    fn which(&self, params: &Value) -> Answer {
        let bins = params.get("bins").and_then(Value::as_array);
        let Some(bins) = bins else {
            return Answer::invalid("Error: INVALID_REQUEST: bins required");
        };
        let names: Vec<String> = bins
            .iter()
            .filter_map(Value::as_str)
            .map(|name| name.trim().to_owned())
            .take(MAX_BINS)
            .collect();
        match self
            .parts
            .engine
            .deliveries()
            .which_delivered(&AgentId::main(), &names)
        {
            Ok(found) => {
                let found: serde_json::Map<String, Value> = found
                    .into_iter()
                    .map(|(name, path)| (name, path.into()))
                    .collect();
                Answer::done(json!({"bins": found}))
            }
            Err(_blind) => Answer::unavailable("the programs of this machine cannot be seen now"),
        }
    }

    /// What became of a run: a run that is not known takes the asking as its refusal, and so never starts.
    async fn status(self: &Arc<Self>, params: &Value, dialect: Dialect) -> Answer {
        let run_id = params.get("runId").and_then(Value::as_str);
        let Some(invocation) = run_id.and_then(Invocation::parse) else {
            return Answer::invalid("INVALID_REQUEST: runId required");
        };
        let void = Answer::void("nothing was started when it was asked about");
        match self.keep(&invocation, &void).await {
            Ok(InvocationState::Refused(words)) => ended(&Answer::of_text(&words)),
            Ok(InvocationState::Run { run_id, rule }) => {
                match self.parts.engine.ledger().run(&run_id).await {
                    Ok(Some(run)) if run.status.is_final() => {
                        ended(&self.of_run(&run, dialect).await.refused_by(rule))
                    }
                    Ok(Some(_running)) => {
                        let begun = Begun { run_id, rule };
                        self.tell_when_ended(invocation, begun, dialect);
                        Answer::done(json!({"state": "running"}))
                    }
                    Ok(None) | Err(_) => no_record(),
                }
            }
            // It was kept as something just now.
            Ok(InvocationState::Unknown) | Err(_) => no_record(),
        }
    }

    /// Sends the result of a run of an earlier connection, or an earlier process, when it ends.
    fn tell_when_ended(self: &Arc<Self>, invocation: Invocation, begun: Begun, dialect: Dialect) {
        let Begun { run_id, rule } = begun;
        let Entered::New(_token) = self.enter(&invocation) else {
            // Another task does already; over the limit the gateway asks again.
            return;
        };
        let host = Arc::clone(self);
        self.tasks.spawn(async move {
            let going_on = GoingOn {
                host: &host,
                invocation: &invocation,
            };
            if let Ok(run) = host.parts.engine.deliveries().wait_for_end(&run_id).await {
                let answer = host.of_run(&run, dialect).await.refused_by(rule);
                let about = About::of_record(&invocation, &run);
                drop(going_on);
                host.deliver(&invocation, &answer, Some(about)).await;
            }
        });
    }

    /// `system.run`: the answer, and what events say of it.
    async fn run(
        self: &Arc<Self>,
        invocation: &Invocation,
        call: InvokeCall,
        link: &Arc<Link>,
        cancelled: &CancellationToken,
    ) -> (Answer, Option<About>) {
        let dialect = link.dialect;
        match self.parts.engine.deliveries().invocation(invocation).await {
            Ok(InvocationState::Unknown) => {}
            Ok(known) => return (self.recorded(known, dialect).await, None),
            Err(_) => return (no_record(), None),
        }
        if !self.parts.commands.iter().any(|command| command == SYSTEM_RUN) {
            return (Answer::unavailable("command not supported"), None);
        }
        let call = match RunCall::parse(call.params) {
            Ok(call) => call,
            Err(answer) => return (self.refuse(invocation, answer, dialect).await, None),
        };
        let about = About::of_call(invocation, &call);
        let ahead = link.clock_ahead_ms;
        let gateways_now = UnixMillis::new(self.parts.clock.now().get().saturating_add(ahead));
        let refused = match run::refused_at_once(&call, gateways_now, dialect) {
            Some(answer) => Some(answer),
            None => self.without_companion(dialect).await,
        };
        if let Some(answer) = refused {
            return (self.refuse(invocation, answer, dialect).await, Some(about));
        }
        let begun = self.begin(invocation, &call, ahead, dialect, cancelled).await;
        let answer = match begun {
            Ok(begun) => {
                let answer = self.follow(&begun.run_id, &about, link).await;
                answer.refused_by(begun.rule)
            }
            Err(answer) => self.refuse(invocation, answer, dialect).await,
        };
        (answer, Some(about))
    }

    async fn without_companion(&self, dialect: Dialect) -> Option<Answer> {
        let is_missing = self.parts.companion == Companion::Required && self.reach().await.is_none();
        is_missing.then(|| Answer::denied(Denied::NoCompanion, dialect))
    }

    /// A person at this machine, if one can be asked.
    async fn reach(&self) -> Option<Box<dyn Prompt>> {
        self.parts.prompter.as_ref()?.reach().await
    }

    /// Has the engine judge a call, and brings the answer of a person where one is wanted. The run that it became, or
    /// why there is none.
    async fn begin(
        self: &Arc<Self>,
        invocation: &Invocation,
        call: &RunCall,
        clock_ahead_ms: i64,
        dialect: Dialect,
        cancelled: &CancellationToken,
    ) -> Result<Begun, Answer> {
        let fail = |error: &ExecError| Answer::of_error(error, call.cwd.as_deref(), dialect);
        let preview = self
            .parts
            .engine
            .deliveries()
            .preview_delivered(&self.gateway, call.to_request(None))
            .await
            .map_err(|error| fail(&error))?;
        let planned = match &call.plan {
            None => None,
            Some(plan) => {
                if !call.matches_plan(plan) || !run::is_script_of_plan_now(plan, preview.script.as_ref()) {
                    return Err(Answer::denied(Denied::PlanMismatch, dialect));
                }
                // What was approved under another policy a person has to look at again.
                let planned = run::planned(plan)
                    .filter(|planned| !planned.is_outdated(preview.security, preview.ask))
                    .ok_or_else(|| {
                        let rule = preview.approval.clone();
                        Answer::denied(Denied::ApprovalRequired, dialect).by_rule(Some(rule))
                    })?;
                Some(planned)
            }
        };
        let fallback =
            (call.approval == Carried::Fallback).then(|| preview.security.min(preview.ask_fallback));
        if fallback == Some(Security::Deny) {
            return Err(Answer::denied(Denied::Outright, dialect).by_rule(Some(preview.fallback)));
        }
        // Only for a question that will be asked: the program that shows it must not be bothered with others.
        let prompt = match call.approval {
            Carried::Nothing if preview.asks => self.reach().await,
            Carried::Nothing | Carried::Allowed(_) | Carried::Fallback => None,
        };
        let answers = match call.approval {
            Carried::Allowed(_) => Answers::Promised,
            Carried::Fallback => Answers::Fallback,
            Carried::Nothing if prompt.is_some() => Answers::Promised,
            Carried::Nothing => Answers::Refused,
        };
        let delivery = Delivery {
            answers,
            start_before: call
                .not_after
                .map(|limit| UnixMillis::new(limit.get().saturating_sub(clock_ahead_ms))),
            // The engine holds the call to it until it begins: it may wait for a place to run in.
            planned: planned.map(|planned| run::under_fallback(planned, fallback)),
        };
        let delivered = self
            .parts
            .engine
            .deliveries()
            .exec_delivered(&self.gateway, call.to_request(fallback), invocation, &delivery)
            .await;
        match delivered {
            Ok(Delivered::Begun(run_id)) => Ok(Begun { run_id, rule: None }),
            Ok(Delivered::Asked(approval)) => {
                self.settle(call, &approval, delivery.start_before, prompt, cancelled)
                    .await;
                Ok(Begun {
                    run_id: approval.run_id.clone(),
                    rule: Some(preview.approval),
                })
            }
            Err(ExecError::Denied(denial)) if denial.reason != countersign_domain::Reason::Preflight => {
                Ok(Begun {
                    run_id: denial.run_id,
                    rule: denial.rule.map(|rule| *rule),
                })
            }
            Err(error) => Err(fail(&error)),
        }
    }

    /// Answers a question, or withdraws it. What comes of it is in the run's record.
    async fn settle(
        &self,
        call: &RunCall,
        approval: &Approval,
        start_before: Option<UnixMillis>,
        prompt: Option<Box<dyn Prompt>>,
        cancelled: &CancellationToken,
    ) {
        let is_in_time = || start_before.is_none_or(|limit| self.parts.clock.now() < limit);
        let answer = match call.approval {
            Carried::Allowed(decision) => {
                // The very files that the answer will be bound to: nothing can be exchanged between this look and the
                // start that the engine would not notice.
                let bound = &approval.card.binding.scripts;
                let is_planned = call
                    .plan
                    .as_ref()
                    .is_none_or(|plan| run::is_script_of_plan(plan, bound));
                is_planned.then_some((&self.approver, decision))
            }
            Carried::Nothing | Carried::Fallback => self
                .ask_here(approval, prompt, cancelled)
                .await
                .map(|decision| (&self.local, decision)),
        };
        match answer {
            Some((by, decision)) if is_in_time() => self.decide(by, approval, decision).await,
            Some(_) | None => self.end(&approval.run_id).await,
        }
    }

    /// What a person at this machine says; nothing when they went away, took too long, or need not answer any more.
    async fn ask_here(
        &self,
        approval: &Approval,
        prompt: Option<Box<dyn Prompt>>,
        cancelled: &CancellationToken,
    ) -> Option<ApprovalDecision> {
        let time_left = approval.expires_at.since(self.parts.clock.now());
        tokio::select! {
            answer = tokio::time::timeout(time_left, prompt?.ask(approval)) => answer.ok().flatten(),
            () = cancelled.cancelled() => None,
        }
    }

    /// Takes an answer. One that cannot be remembered counts once.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    async fn decide(&self, by: &Principal, approval: &Approval, decision: ApprovalDecision) {
        let can_remember = approval
            .card
            .allowed_decisions
            .contains(&ApprovalDecision::AllowAlways);
        let decision = match decision {
            ApprovalDecision::AllowAlways if !can_remember => ApprovalDecision::AllowOnce,
            decision => decision,
        };
        let answer = reply::Answer {
            decision,
            reason: None,
            patterns: None,
            grant: None,
            refusal: None,
            shown_digest: None,
        };
        match self
            .parts
            .engine
            .approvals()
            .decide(by, &approval.id, answer)
            .await
        {
            // Nobody else can answer here, and nobody waits that long.
            Ok(decided) if decided.approval.state.status() == ApprovalStatus::Pending => {
                tracing::warn!(
                    approval.id = %approval.id,
                    "[[approvals.rules]] of this node ask for more approvers than there can be here"
                );
                self.end(&approval.run_id).await;
            }
            Ok(_)
            | Err(
                DecideError::AlreadyResolved(_)
                | DecideError::Expired(_)
                | DecideError::Cancelled(_)
                | DecideError::NotFound,
            ) => {}
            Err(error) => {
                tracing::warn!(approval.id = %approval.id, %error, "an answer was not taken");
                self.end(&approval.run_id).await;
            }
        }
    }

    /// Tells of the start of a run, and waits for its end.
    async fn follow(&self, run_id: &RunId, about: &About, link: &Arc<Link>) -> Answer {
        let engine = &self.parts.engine;
        let Ok(run) = engine.deliveries().wait_for_start(run_id).await else {
            return no_record();
        };
        let has_started = run.status == RunStatus::Running || run.started_at.is_some();
        // The run goes on while its start is told; its end is told after that.
        let telling = async {
            if has_started && let Err(error) = tell(link, EXEC_STARTED, &about.started()).await {
                tracing::debug!(%error, "the start of a run was not told");
            }
        };
        let (run, ()) = tokio::join!(engine.deliveries().wait_for_end(run_id), telling);
        match run {
            Ok(run) => self.of_run(&run, link.dialect).await,
            Err(_) => no_record(),
        }
    }

    /// What was answered to the first call of an id, or will be.
    async fn recorded(&self, state: InvocationState, dialect: Dialect) -> Answer {
        match state {
            InvocationState::Refused(words) => Answer::of_text(&words),
            InvocationState::Run { run_id, rule } => {
                match self.parts.engine.deliveries().wait_for_end(&run_id).await {
                    Ok(run) => self.of_run(&run, dialect).await.refused_by(rule),
                    Err(_) => no_record(),
                }
            }
            InvocationState::Unknown => no_record(),
        }
    }

    async fn of_run(&self, run: &Run, dialect: Dialect) -> Answer {
        let Ok(bytes) = self.parts.engine.records().output_bytes(&run.id).await else {
            return no_record();
        };
        let streams = tokio::task::spawn_blocking(move || output::capped(bytes)).await;
        match streams {
            Ok(Ok(streams)) => Answer::of_run(run, streams, dialect),
            Ok(Err(_)) | Err(_) => Answer::unavailable("RUN_LOST: the output of this run cannot be read"),
        }
    }

    /// Keeps a refusal, unless something else became of the invocation before: then that is the answer.
    async fn refuse(&self, invocation: &Invocation, answer: Answer, dialect: Dialect) -> Answer {
        match self.keep(invocation, &answer).await {
            Ok(InvocationState::Refused(words)) => Answer::of_text(&words),
            Ok(state) => self.recorded(state, dialect).await,
            Err(_) => no_record(),
        }
    }

    async fn keep(
        &self,
        invocation: &Invocation,
        answer: &Answer,
    ) -> Result<InvocationState, reply::StorageTrouble> {
        self.parts
            .engine
            .deliveries()
            .refuse_invocation(invocation, answer.to_text())
            .await
    }

    /// Sends an answer, and before it the event that tells of it, over whichever connection stands.
    async fn deliver(&self, invocation: &Invocation, answer: &Answer, about: Option<About>) {
        let mut event = about.and_then(|about| about.ended(answer));
        let delivery = async {
            for _ in 0..DELIVERIES {
                let link = self.parts.uplink.link().await;
                if let Some((name, news)) = &event {
                    match tell(&link, name, news).await {
                        Err(RequestError::Closed) => continue,
                        Ok(()) | Err(RequestError::TimedOut | RequestError::Refused(_)) => event = None,
                    }
                }
                let params = self.fitting(invocation, answer, &link);
                match link.request(INVOKE_RESULT, params, RESULT_TIMEOUT).await {
                    Err(RequestError::Closed) => {}
                    Ok(_) | Err(RequestError::TimedOut | RequestError::Refused(_)) => return,
                }
            }
        };
        if tokio::time::timeout(DELIVERY, delivery).await.is_err() {
            tracing::warn!("an answer found no connection in time; the gateway may ask for it");
        }
    }

    /// The result in a frame that the gateway takes.
    fn fitting(&self, invocation: &Invocation, answer: &Answer, link: &Link) -> Value {
        let max_payload = link.max_payload;
        let params = |answer: &Answer| {
            let answer = InvokeAnswer {
                id: invocation.as_str().to_owned(),
                node_id: self.parts.node_id.clone(),
                outcome: answer.outcome(link.make),
            };
            answer.to_params()
        };
        let mut whole = params(answer);
        let mut bytes = max_payload / 2;
        // Text that is escaped twice can be several times as long as it is.
        while whole.to_string().len().saturating_add(ENVELOPE) > max_payload && bytes > 0 {
            whole = params(&answer.with_streams_of(bytes));
            bytes /= 2;
        }
        whole
    }
}

/// What a frame has around the parameters.
const ENVELOPE: usize = 1_024;

/// What a call became, and the rule behind its refusal where it is one.
struct Begun {
    run_id: RunId,
    rule: Option<OwnRule>,
}

/// What came of entering a call.
enum Entered {
    New(CancellationToken),
    Again,
    Full,
}

/// A call that goes on; dropping it takes it out.
struct GoingOn<'a> {
    host: &'a Host,
    invocation: &'a Invocation,
}

impl Drop for GoingOn<'_> {
    fn drop(&mut self) {
        self.host.calls().remove(self.invocation);
    }
}

/// What events say of a run besides how it ended.
#[derive(Debug, Clone)]
struct About {
    session: String,
    run_id: String,
    command: String,
    suppress_notify: Option<bool>,
}

impl About {
    fn of_call(invocation: &Invocation, call: &RunCall) -> Self {
        Self {
            session: call.session_text.clone(),
            run_id: call
                .run_id
                .clone()
                .unwrap_or_else(|| invocation.as_str().to_owned()),
            command: call.text(),
            suppress_notify: call.suppress_notify,
        }
    }

    fn of_record(invocation: &Invocation, run: &Run) -> Self {
        Self {
            session: run.session.to_string(),
            run_id: invocation.as_str().to_owned(),
            command: run.command.to_text(),
            suppress_notify: None,
        }
    }

    fn started(&self) -> ExecNews {
        ExecNews {
            session_key: Some(self.session.clone()),
            run_id: Some(self.run_id.clone()),
            host: Some("node".to_owned()),
            command: Some(self.command.clone()),
            suppress_notify_on_exit: self.suppress_notify,
            ..ExecNews::default()
        }
    }

    /// The event that tells of an answer, where the products send one.
    fn ended(&self, answer: &Answer) -> Option<(&'static str, ExecNews)> {
        let news = self.started();
        Some(match answer.news()? {
            News::Denied { reason } => (
                EXEC_DENIED,
                ExecNews {
                    reason: Some(reason),
                    ..news
                },
            ),
            News::Finished {
                exit_code,
                timed_out,
                success,
                output,
            } => (
                EXEC_FINISHED,
                ExecNews {
                    exit_code,
                    timed_out: Some(timed_out),
                    success: Some(success),
                    output: Some(output),
                    ..news
                },
            ),
        })
    }
}

async fn tell(link: &Link, event: &str, news: &ExecNews) -> Result<(), RequestError> {
    let params = |news: &ExecNews| {
        let news = NodeNews {
            event: event.to_owned(),
            payload: serde_json::to_value(news).unwrap_or(Value::Null),
        };
        news.to_params()
    };
    let mut whole = params(news);
    let mut bytes = link.max_payload / 2;
    // A gateway closes on what is longer than it takes.
    while whole.to_string().len().saturating_add(ENVELOPE) > link.max_payload && bytes > 0 {
        whole = params(&with_texts_of(bytes, news));
        bytes /= 2;
    }
    link.request(NODE_EVENT, whole, EVENT_TIMEOUT).await.map(drop)
}

/// The same news with at most about so many bytes of each long text: the end of the output, the beginning of the command.
fn with_texts_of(bytes: usize, news: &ExecNews) -> ExecNews {
    let mut news = news.clone();
    if let Some(output) = news.output.as_mut().filter(|output| output.len() > bytes) {
        let start = output.floor_char_boundary(output.len() - bytes);
        output.replace_range(..start, "... (truncated) ");
    }
    if let Some(command) = news.command.as_mut().filter(|command| command.len() > bytes) {
        command.truncate(command.floor_char_boundary(bytes));
        command.push_str("... (truncated)");
    }
    news
}

fn ended(answer: &Answer) -> Answer {
    if answer.is_void() {
        Answer::done(json!({"state": "void"}))
    } else {
        Answer::done(json!({"state": "ended", "result": answer.to_result()}))
    }
}

fn busy() -> Answer {
    Answer::unavailable("NODE_BUSY: too many calls at a time")
}
