//! The UI of a server: what comes over the socket is judged, asked about and run by the engine, like everything else.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use countersign_domain::{
    Actor, ActorKind, AgentId, AgentNote, ApprovalDecision, ApprovalId, ApprovalState, Authority, Command,
    EnvOverrides, ExecRequest, Host, HostChoice, Joining, Principal, Reason, ReasonClass, RunId, Scope,
    Secret, SessionKey,
};
use countersign_engine::{
    Engine,
    ask_only::{AskRequest, Route},
    reply::{Answer, EndedRun, ExecError, ExecReply},
};
use countersign_ledger::AnswerTo;
use countersign_protocol::ipc::{AttachedDecision, ExecOrder, Payload, Question, Refusal};

use super::{
    host::{Answered, HostLimits, Ui},
    limits::{OpenPrompt, Prompts},
};

/// How long a peer waits for a run: its peer's timeout is the limit, and the run's own time limit.
const AS_LONG_AS_IT_TAKES: Duration = Duration::from_hours(24 * 30);
/// The longest text of a question besides its command.
const MAX_TEXT_BYTES: usize = 4096;

/// What answers for a server.
#[derive(Debug)]
pub struct EngineUi {
    engine: Arc<Engine>,
    prompts: Arc<Prompts>,
    peer: Principal,
}

impl EngineUi {
    /// The UI of a server.
    pub fn new(engine: Arc<Engine>) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let peer = Principal {
            actor: Actor {
                kind: ActorKind::Ipc,
                id: format!("uid-{uid}"),
                name: "approvals socket".to_owned(),
                owner: None,
            },
            scopes: [Scope::Exec].into(),
            authority: Authority::EVERYTHING,
        };
        Self {
            engine,
            prompts: Arc::default(),
            peer,
        }
    }

    async fn run(&self, order: ExecOrder, gone: &CancellationToken) -> Result<Payload, Refusal> {
        let place = SessionPlace::of(order.agent_id.as_deref(), order.session_key.as_deref())
            .ok_or(Refusal::Invalid("agentId or sessionKey is invalid"))?;
        let attached = order
            .attached
            .map(|decision| (decision, place.question_before(&self.peer, &order)));
        let session = place.session.clone();
        let request = place.exec_request(order)?;
        let (told, mut asked) = mpsc::unbounded_channel::<RunId>();
        let tell = move |run_id: &RunId| {
            // Nobody listens any more only when the peer left.
            drop(told.send(run_id.clone()));
        };
        let mut running = self
            .engine
            .calls()
            .exec_for_peer(&self.peer, request, Box::new(tell));
        let mut prompt: Option<(RunId, OpenPrompt)> = None;
        loop {
            tokio::select! {
                biased;
                ended = running.as_mut() => return outcome_of(ended),
                Some(run_id) = asked.recv() => {
                    let most = self.engine.settings().current().server.ipc.max_prompts_per_session;
                    let Some(open) = self.prompts.open(session.as_str(), most) else {
                        drop(running);
                        self.withdraw(&run_id).await;
                        return Err(Refusal::RateLimit);
                    };
                    if let Some((decision, Some(before))) = &attached {
                        self.decide_attached(&run_id, *decision, before).await;
                    }
                    prompt = Some((run_id, open));
                }
                () = gone.cancelled() => {
                    drop(running);
                    if let Some((run_id, _open)) = &prompt {
                        self.withdraw(run_id).await;
                    }
                    return Err(Refusal::ApprovalCancelled);
                }
            }
        }
    }

    /// A run that nobody waits for any more ends, wherever it stands.
    async fn withdraw(&self, run_id: &RunId) {
        if let Err(error) = self.engine.cancels().cancel(&self.peer, run_id).await {
            // Mostly it has ended.
            tracing::debug!(run.id = %run_id, %error, "a run of the approvals socket was not cancelled");
        }
    }

    /// A decision that came with the wish counts when it is one of ours: an answer to the same question, not used yet.
    /// It counts as given by the approvers who gave that answer. `[ipc] trust_attached` believes any decision where one
    /// person is enough: the asker is none of several.
    async fn decide_attached(&self, run_id: &RunId, attached: AttachedDecision, before: &AskRequest) {
        let Some(approval) = self.approval_of(run_id).await else {
            return;
        };
        let wanted = match attached {
            AttachedDecision::AllowOnce => ApprovalDecision::AllowOnce,
            AttachedDecision::AllowAlways => ApprovalDecision::AllowAlways,
        };
        let used = match self
            .engine
            .approvals()
            .use_answer(AnswerTo::Digest(before.digest()))
            .await
        {
            Ok(used) => used,
            Err(error) => {
                tracing::error!(%error, "an attached decision could not be looked up");
                return;
            }
        };
        let votes = used.as_ref().map(|used| used.votes.clone()).unwrap_or_default();
        let (by, given) = match used.map(|used| used.state) {
            // Where it took several people, each of them said so.
            Some(ApprovalState::Allowed { decision, .. }) if !votes.is_empty() => (
                votes.into_iter().map(|vote| vote.by).collect(),
                decision.min(wanted),
            ),
            Some(ApprovalState::Allowed { by, decision, .. }) => (vec![by], decision.min(wanted)),
            Some(
                ApprovalState::Pending
                | ApprovalState::Denied { .. }
                | ApprovalState::Expired { .. }
                | ApprovalState::Cancelled { .. },
            )
            | None => {
                let is_trusted = self.engine.settings().current().server.ipc.trust_attached;
                if !is_trusted || approval.required > 1 {
                    return;
                }
                let trusted = Actor {
                    kind: ActorKind::Ipc,
                    id: "attached".to_owned(),
                    name: "decision attached by the asker ([ipc] trust_attached)".to_owned(),
                    owner: None,
                };
                (vec![trusted], wanted)
            }
        };
        let is_open = approval.allowed.contains(&given);
        let answer = Answer {
            decision: if is_open {
                given
            } else {
                ApprovalDecision::AllowOnce
            },
            reason: None,
            patterns: None,
            grant: None,
            refusal: None,
            shown_digest: None,
        };
        for actor in by {
            let by = Principal {
                actor,
                scopes: [Scope::Approve].into(),
                authority: Authority::EVERYTHING,
            };
            if let Err(error) = self
                .engine
                .approvals()
                .decide(&by, &approval.id, answer.clone())
                .await
            {
                tracing::info!(approval.id = %approval.id, %error, "an attached decision did not count");
            }
        }
    }

    async fn approval_of(&self, run_id: &RunId) -> Option<AskedOf> {
        let run = self.engine.records().run(&self.peer, run_id).await.ok()??;
        let approval = self
            .engine
            .records()
            .approval(&self.peer, &run.approval_id?)
            .await
            .ok()??;
        Some(AskedOf {
            id: approval.id,
            allowed: approval.card.allowed_decisions,
            required: approval.card.quorum.required,
        })
    }

    async fn put(&self, question: Question, gone: &CancellationToken) -> Option<ApprovalDecision> {
        let place = SessionPlace::of(question.agent_id.as_deref(), question.session_key.as_deref())?;
        let most = self
            .engine
            .settings()
            .current()
            .server
            .ipc
            .max_prompts_per_session;
        let _open = self.prompts.open(place.session.as_str(), most)?;
        let request = place.question(&self.peer, question)?;
        let approval = match self.engine.ask_only().ask(request).await {
            Ok(approval) => approval,
            Err(error) => {
                tracing::warn!(%error, "a question of the approvals socket could not be asked");
                return None;
            }
        };
        let answered = tokio::select! {
            answered = self.engine.approvals().answer_to(&approval.id) => answered.ok().flatten(),
            () = gone.cancelled() => None,
        };
        match answered.map(|answered| answered.state) {
            Some(ApprovalState::Allowed { decision, .. }) => Some(decision),
            Some(
                ApprovalState::Denied { .. }
                | ApprovalState::Expired { .. }
                | ApprovalState::Cancelled { .. },
            ) => None,
            // The peer left, or the server stops: nobody takes the answer any more.
            Some(ApprovalState::Pending) | None => {
                let withdrawn = self
                    .engine
                    .approvals()
                    .withdraw_question(&approval.id, self.peer.actor.clone())
                    .await;
                if let Err(error) = withdrawn {
                    tracing::error!(approval.id = %approval.id, %error, "a question could not be withdrawn");
                }
                None
            }
        }
    }
}

impl Ui for EngineUi {
    fn token(&self) -> Option<Secret> {
        self.engine.socket().named()?.token
    }

    fn limits(&self) -> HostLimits {
        let settings = self.engine.settings().current();
        let ipc = &settings.server.ipc;
        HostLimits {
            require_v2: ipc.require_v2,
            rate_limit: ipc.rate_limit,
            rate_burst: ipc.rate_burst,
            max_connections: ipc.max_connections,
        }
    }

    async fn exec(&self, order: ExecOrder, gone: CancellationToken) -> Answered {
        self.run(order, &gone).await.map_err(Refusal::to_body)
    }

    async fn ask(&self, question: Question, gone: CancellationToken) -> ApprovalDecision {
        self.put(question, &gone).await.unwrap_or(ApprovalDecision::Deny)
    }
}

/// A question about a run, as far as an answer needs it.
struct AskedOf {
    id: ApprovalId,
    allowed: Vec<ApprovalDecision>,
    /// How many people have to allow it.
    required: u64,
}

/// For which agent, and in which session.
struct SessionPlace {
    agent: AgentId,
    session: SessionKey,
}

impl SessionPlace {
    /// `None` when either is no such thing, or the session is another agent's.
    fn of(agent: Option<&str>, session: Option<&str>) -> Option<Self> {
        let named = |text: Option<&str>| {
            text.map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let session = named(session).map(SessionKey::parse).transpose().ok()?;
        let agent = named(agent).map(AgentId::parse).transpose().ok()?;
        let told = session.as_ref().and_then(SessionKey::agent);
        if let (Some(agent), Some(told)) = (&agent, &told)
            && agent != told
        {
            return None;
        }
        let agent = agent.or(told).unwrap_or_else(AgentId::main);
        let session = session.unwrap_or_else(|| SessionKey::main_of(&agent));
        Some(Self { agent, session })
    }

    fn exec_request(self, order: ExecOrder) -> Result<ExecRequest, Refusal> {
        let Self { agent, session } = self;
        let ExecOrder {
            argv,
            raw_command: _,
            cwd,
            agent_id: _,
            session_key: _,
            env,
            timeout_ms,
            needs_screen_recording: _,
            attached: _,
        } = order;
        let command =
            Command::of_peer(argv).map_err(|_unusable| Refusal::Invalid("command cannot be run"))?;
        Ok(ExecRequest {
            command,
            workdir: cwd.filter(|cwd| !cwd.trim().is_empty()),
            env,
            yield_after: Some(AS_LONG_AS_IT_TAKES),
            background: false,
            timeout: timeout_ms.map(Duration::from_millis),
            pty: false,
            // A peer wants it here; a sandbox that policy demands is not left for it.
            host: Some(HostChoice::Gateway),
            security: None,
            ask: None,
            node: None,
            elevated: false,
            agent,
            session,
            approval_wait: AS_LONG_AS_IT_TAKES,
            note: AgentNote::default(),
            joining: Joining::Never,
        })
    }

    /// The question that the peer would have asked about a command before: the text that a person saw, in the same place.
    /// That text is made of what is to run. What the peer says was typed is not looked at: of the arguments it may tell
    /// less than a person had to see, such as which file the name of a shell stands for.
    fn question_before(&self, peer: &Principal, order: &ExecOrder) -> Option<AskRequest> {
        if !order.env.is_empty() {
            return None;
        }
        let text = Command::of_peer(order.argv.clone()).ok()?.to_text();
        let command = Command::shell(text).ok()?;
        Some(self.ask_request(peer, command, order.cwd.clone(), Host::Gateway))
    }

    fn question(&self, peer: &Principal, question: Question) -> Option<AskRequest> {
        let Question {
            command,
            cwd,
            host,
            security,
            ask,
            agent_id: _,
            resolved_path,
            session_key: _,
            allowed_decisions,
        } = question;
        let is_short = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= MAX_TEXT_BYTES);
        if !is_short(&cwd) || !is_short(&resolved_path) {
            return None;
        }
        let command = Command::shell(command).ok()?;
        let request = self.ask_request(peer, command, cwd, host.unwrap_or(Host::Gateway));
        Some(AskRequest {
            resolved_path,
            security,
            ask,
            decisions: allowed_decisions,
            ..request
        })
    }

    fn ask_request(&self, peer: &Principal, command: Command, cwd: Option<String>, host: Host) -> AskRequest {
        AskRequest {
            asked_by: peer.clone(),
            id: None,
            agent: self.agent.clone(),
            session: self.session.clone(),
            command,
            cwd,
            host,
            node_id: None,
            resolved_path: None,
            security: None,
            ask: None,
            env: EnvOverrides::default(),
            decisions: None,
            timeout: None,
            detail: "a program asks over the approvals socket; it runs the command itself if it is allowed"
                .to_owned(),
            // The peer counts on a person; any approver who comes may answer while it waits.
            route: Route::Waits,
        }
    }
}

/// What a run came to, as the wire has it.
fn outcome_of(ended: Result<ExecReply, ExecError>) -> Result<Payload, Refusal> {
    match ended {
        Ok(ExecReply::Ended(EndedRun { run, output, .. })) => {
            let has_run = run.exit_code.is_some() || run.exit_signal.is_some() || run.timed_out;
            Ok(Payload {
                exit_code: run.exit_code.map(i64::from),
                timed_out: run.timed_out,
                success: run.exit_code == Some(0),
                stdout: output.stdout,
                stderr: output.stderr,
                error: (!has_run).then(|| {
                    run.detail.unwrap_or_else(|| {
                        run.reason
                            .map_or_else(|| "it did not run".to_owned(), |reason| reason.to_string())
                    })
                }),
            })
        }
        // Longer than anybody waits.
        Ok(ExecReply::Running(_) | ExecReply::Pending(_)) => {
            Err(Refusal::Unavailable("the command goes on without its asker"))
        }
        Err(error) => Err(refusal_of(&error)),
    }
}

fn refusal_of(error: &ExecError) -> Refusal {
    match error {
        ExecError::Denied(denial) => refusal_for(denial.reason),
        ExecError::InvalidRequest { .. }
        | ExecError::ConfigConflict { .. }
        | ExecError::IdempotencyMismatch => Refusal::Invalid("the command cannot be run as it stands"),
        ExecError::BlockedEnv { .. } => Refusal::Invalid("environment overrides are blocked"),
        ExecError::WorkdirUnavailable { .. } => Refusal::Invalid("cwd cannot be used"),
        ExecError::ToolDenied { .. } | ExecError::AgentNotAllowed => Refusal::SecurityDeny,
        ExecError::HostNotAllowed { .. }
        | ExecError::SandboxUnavailable { .. }
        | ExecError::NodeNotFound { .. }
        | ExecError::NodeAmbiguous { .. }
        | ExecError::NodeUnavailable { .. }
        | ExecError::ElevatedUnavailable { .. }
        | ExecError::PatchNotAllowed { .. }
        | ExecError::PatchFailed(_) => Refusal::Unavailable("policy does not run commands on this host"),
        ExecError::NoPlace(_)
        | ExecError::NoTurn(_)
        | ExecError::TooManyQuestions(_)
        | ExecError::Overloaded => Refusal::RateLimit,
        ExecError::ShuttingDown => Refusal::Unavailable("the server is shutting down"),
        ExecError::Stopped(_) => Refusal::UserDenied,
        ExecError::Unrecorded { .. } => Refusal::Unavailable("the end of the command cannot be recorded yet"),
        ExecError::Blind(_) | ExecError::Machine(_) | ExecError::Storage(_) => {
            Refusal::Unavailable("the server cannot run commands now")
        }
    }
}

const NOT_RUN: &str = "the command was not run";

fn refusal_for(reason: Reason) -> Refusal {
    match (reason.class(), reason) {
        (ReasonClass::Closed, _) | (ReasonClass::Rule, Reason::ToolDenied) => Refusal::SecurityDeny,
        (ReasonClass::Rule, _) => Refusal::Denylist,
        // A peer knows no other word for a person's no.
        (ReasonClass::Person, _) => Refusal::UserDenied,
        // It is a miss that nobody is asked about.
        (ReasonClass::Miss, _) => Refusal::AllowlistMiss,
        (ReasonClass::Changed, _) => Refusal::BindingMismatch,
        (ReasonClass::Refused, Reason::RateLimited) => Refusal::RateLimit,
        (ReasonClass::Refused, Reason::Preflight) => {
            Refusal::Invalid("a script of the command looks like shell text in another language")
        }
        (ReasonClass::Unanswered, Reason::ApprovalRequired) | (ReasonClass::Cancelled, Reason::Shutdown) => {
            Refusal::Unavailable(NOT_RUN)
        }
        (ReasonClass::Unanswered | ReasonClass::Cancelled, _) => Refusal::ApprovalCancelled,
        (ReasonClass::Refused | ReasonClass::Failed | ReasonClass::Lost, _) => Refusal::Unavailable(NOT_RUN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_may_name_its_agent() {
        let of = |agent: Option<&str>, session: Option<&str>| {
            SessionPlace::of(agent, session).map(|place| (place.agent.to_string(), place.session.to_string()))
        };
        let pair = |agent: &str, session: &str| Some((agent.to_owned(), session.to_owned()));
        assert_eq!(of(None, None), pair("main", "agent:main:main"));
        assert_eq!(of(None, Some("agent:build:x")), pair("build", "agent:build:x"));
        assert_eq!(of(Some(" main "), Some("node")), pair("main", "node"));
        assert_eq!(
            of(Some("build"), Some("agent:build:x")),
            pair("build", "agent:build:x")
        );
        assert_eq!(of(Some("main"), Some("agent:build:x")), None);
        assert_eq!(of(Some("a/b"), None), None);
        assert_eq!(of(None, Some("a\nb")), None);
    }
}
