//! One run of a mock, and what it becomes.

use std::time::Duration;

use countersign_domain::{
    Actor, ActorKind, ApprovalId, Ask, Command, CommandInput, Confinement, DecidedBy, ExecRequest, Host,
    Isolation, Pinning, Reason, Ruling, Run, RunDecision, RunId, RunStatus, RunVerdict, Security, UnixMillis,
};

use super::script::{Answer, Rule};

/// Who answers the questions of a mock.
pub(super) const PERSON: &str = "mock";

/// Where the commands of a mock seem to run, unless the call says so.
const DIRECTORY: &str = "/mock";

/// The time limit of a call that names none, as `tools.exec.timeoutSec` has it unless it is set.
const TIME_LIMIT: Duration = Duration::from_mins(30);

/// How much longer a person would have who answers.
const IN_TIME: Duration = Duration::from_mins(30);

/// A run that is played.
#[derive(Debug, Clone)]
pub(super) struct PlayedRun {
    pub(super) run: Run,
    /// The number of its rule in the script, from 1.
    pub(super) rule: usize,
    pub(super) question: Option<Question>,
    pub(super) ruling: Ruling,
    /// Whether a call without a key can join it.
    pub(super) joinable: bool,
    /// How many more times what waits for it breaks.
    pub(super) cuts: u32,
}

/// What a person is asked.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) id: ApprovalId,
    pub(super) expires_at: UnixMillis,
}

impl PlayedRun {
    /// A run that begins.
    pub(super) fn new(
        request: ExecRequest,
        (number, rule): (usize, &Rule),
        (id, approval): (RunId, ApprovalId),
        now: UnixMillis,
    ) -> Self {
        let question = rule.asks().then(|| Question {
            id: approval,
            // A person who answers does so in time.
            expires_at: if rule.answer == Answer::Expire {
                now + rule.after
            } else {
                now + rule.after + IN_TIME
            },
        });
        let decided = |verdict, by| RunDecision { verdict, by };
        let (status, decision) = match rule.answer {
            Answer::Allow | Answer::Deny | Answer::Expire => (RunStatus::Asking, None),
            Answer::Run | Answer::Lost => (
                RunStatus::Requested,
                Some(decided(RunVerdict::Run, DecidedBy::Policy)),
            ),
            Answer::Refuse => (
                RunStatus::Denied,
                Some(decided(RunVerdict::Deny, DecidedBy::Policy)),
            ),
        };
        let is_refused = rule.answer == Answer::Refuse;
        Self {
            rule: number,
            ruling: Ruling {
                by: decision.map(|decision| decision.by),
                name: None,
                reason: None,
            },
            joinable: false,
            cuts: 0,
            run: Run {
                id,
                status,
                host: Host::Gateway,
                node_id: None,
                agent: request.agent,
                session: request.session,
                command: request.command,
                cwd: request.workdir.unwrap_or_else(|| DIRECTORY.to_owned()),
                env_names: request.env.into_keys().collect(),
                requested_by: asker(),
                security: Security::Allowlist,
                ask: Ask::OnMiss,
                decision,
                reason: is_refused.then_some(Reason::AllowlistMiss),
                detail: is_refused.then(|| "the script of the mock says so".to_owned()),
                approval_id: question.as_ref().map(|question| question.id.clone()),
                session_id: None,
                pid: None,
                pty: request.pty,
                background: request.background,
                input: CommandInput::wanted(request.background, request.pty),
                diverted: false,
                isolation: Isolation::SameUser,
                sandbox: None,
                binding: (!is_refused).then_some(Pinning::Exact),
                scripts: None,
                confinement: Confinement::default(),
                observed: None,
                note: request.note,
                start: None,
                timeout: Some(request.timeout.unwrap_or(TIME_LIMIT)).filter(|limit| !limit.is_zero()),
                created_at: now,
                started_at: None,
                ended_at: is_refused.then_some(now),
                exit_code: None,
                exit_signal: None,
                timed_out: false,
                truncated: false,
                output_bytes: 0,
                tail: String::new(),
                warnings: Vec::new(),
            },
            question,
        }
    }

    /// Whether a person is asked.
    pub(super) fn waits(&self) -> bool {
        self.run.status == RunStatus::Asking
    }

    /// The person answers, or does not. `false` when nobody is asked any more.
    pub(super) fn decide(&mut self, rule: &Rule, now: UnixMillis) -> bool {
        if !self.waits() {
            return false;
        }
        let verdict = match rule.answer {
            Answer::Deny | Answer::Expire => RunVerdict::Deny,
            Answer::Allow | Answer::Run | Answer::Lost | Answer::Refuse => RunVerdict::Run,
        };
        let by = match rule.answer {
            Answer::Expire => DecidedBy::Fallback,
            Answer::Allow | Answer::Deny | Answer::Run | Answer::Lost | Answer::Refuse => DecidedBy::Person,
        };
        self.ruling = Ruling {
            by: Some(by),
            name: (by == DecidedBy::Person).then(|| PERSON.to_owned()),
            reason: rule.reason.clone(),
        };
        self.run.decision = Some(RunDecision { verdict, by });
        if verdict == RunVerdict::Run {
            self.run.status = RunStatus::Requested;
        } else {
            self.run.status = RunStatus::Denied;
            self.run.ended_at = Some(now);
            self.run.reason = Some(match by {
                DecidedBy::Fallback => Reason::ApprovalTimeout,
                DecidedBy::Person | DecidedBy::Policy => Reason::UserDenied,
            });
            self.run.detail.clone_from(&rule.reason);
        }
        true
    }

    /// It starts. `false` when it is over.
    pub(super) fn start(&mut self, now: UnixMillis) -> bool {
        if self.run.status != RunStatus::Requested {
            return false;
        }
        self.run.status = RunStatus::Running;
        self.run.started_at = Some(now);
        true
    }

    /// It ends. `false` when it is over.
    pub(super) fn end(&mut self, rule: &Rule, now: UnixMillis) -> bool {
        if self.run.status != RunStatus::Running {
            return false;
        }
        let run = &mut self.run;
        run.ended_at = Some(now);
        if rule.answer == Answer::Lost {
            run.status = RunStatus::Lost;
            run.reason = Some(Reason::RunnerLost);
            return true;
        }
        run.exit_code = Some(rule.exit_code);
        run.status = if rule.exit_code == 0 {
            RunStatus::Completed
        } else {
            RunStatus::Failed
        };
        let text = &rule.output.text;
        run.truncated = text.truncated;
        run.output_bytes = text.bytes;
        run.tail.clone_from(&text.tail);
        true
    }

    /// It is called off. `false` when it is over.
    pub(super) fn cancel(&mut self, now: UnixMillis) -> bool {
        if self.run.status.is_final() {
            return false;
        }
        self.run.status = RunStatus::Cancelled;
        self.run.reason = Some(Reason::Cancelled);
        self.run.ended_at = Some(now);
        true
    }

    /// Whether it would be the same question.
    pub(super) fn is_asked_by(&self, request: &ExecRequest) -> bool {
        let run = &self.run;
        self.joinable
            && self.waits()
            && run.command == request.command
            && run.agent == request.agent
            && run.session == request.session
            && run.background == request.background
            && run.pty == request.pty
    }
}

/// The command as rules match it.
pub(super) fn text_of(command: &Command) -> String {
    command.to_text()
}

/// The caller of a mock.
pub(super) fn asker() -> Actor {
    Actor {
        kind: ActorKind::Token,
        id: "mock-gateway".to_owned(),
        name: "gateway".to_owned(),
        owner: None,
    }
}
