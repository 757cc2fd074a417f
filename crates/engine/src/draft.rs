//! A call between its evaluation and what comes of it: what every way on from there takes and answers.

use std::{sync::Arc, time::Duration};

use countersign_config::{approvals::broker::Subscription, settings::Settings};
use countersign_domain::{Command, EntryId, Joining, Principal, RunId, hex};
use countersign_ledger::{Admission, QuestionLimits, StoredOutcome};

use crate::{
    caller_lease::EndsWithCaller,
    evaluator::{Evaluation, call::Call, judgement::Judgement},
    live::LiveRun,
    reply::ExecError,
};

/// A key under which the same call is answered once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// 1 to 255 printable ASCII characters.
    pub key: String,
    /// SHA-256 of the body as it came.
    pub body_sha256: [u8; 32],
    /// What becomes of a foreground run whose caller leaves.
    pub on_disconnect: OnDisconnect,
    /// Whether the caller chose it, and so tells its calls apart itself.
    pub is_named: bool,
}

/// The same of a caller who is known.
#[derive(Debug)]
pub(crate) struct CallKey {
    /// What the ledger keeps the outcome under.
    pub(crate) kept: countersign_ledger::IdempotencyKey,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) is_named: bool,
}

impl CallKey {
    /// # Errors
    /// Where the caller has no token, and so no keys of their own.
    pub(crate) fn of(caller: &Principal, key: IdempotencyKey) -> Result<Self, ExecError> {
        let not_a_token = || ExecError::InvalidRequest {
            path: "Idempotency-Key",
            message: "only callers with a token can use one".to_owned(),
        };
        Ok(Self {
            kept: countersign_ledger::IdempotencyKey {
                token: caller.actor.token().ok_or_else(not_a_token)?,
                key: key.key,
                body_sha256: hex(&key.body_sha256),
                note: None,
            },
            on_disconnect: key.on_disconnect,
            is_named: key.is_named,
        })
    }
}

/// What becomes of a run in the foreground when its caller goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisconnect {
    /// It is killed: the caller's absence is its wish.
    Kill,
    /// It goes on: the caller can come back for it.
    Detach,
    /// The caller has to come back for it, soon and again and again, or it ends.
    Lapse(EndsWithCaller),
}

impl OnDisconnect {
    /// What ends when nobody comes back.
    pub(crate) const fn held(self) -> Option<EndsWithCaller> {
        match self {
            Self::Lapse(held) => Some(held),
            Self::Kill | Self::Detach => None,
        }
    }
}

/// How long a caller who follows a run waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitPolicy {
    /// For a person's answer.
    pub(crate) approval: Duration,
    pub(crate) run: RunWait,
    /// Whether the run ends when its follower leaves.
    pub(crate) on_disconnect: OnDisconnect,
}

/// How long a caller who follows a run waits for its end, once it started.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunWait {
    /// As long as it takes.
    ToTheEnd,
    /// So long; then it goes to the background.
    For(Duration),
    /// Not at all: it begins in the background, and the answer says so however soon it ends. A caller whose answer
    /// depended on who is faster would have to expect both.
    Background,
}

impl RunWait {
    pub(crate) fn of(call: &Call) -> Self {
        if call.background {
            return Self::Background;
        }
        call.yield_after.map_or(Self::ToTheEnd, Self::For)
    }

    pub(crate) const fn limit(self) -> Option<Duration> {
        match self {
            Self::ToTheEnd => None,
            Self::For(wait) => Some(wait),
            Self::Background => Some(Duration::ZERO),
        }
    }
}

/// A call that was evaluated, on its way to a run, a question or a denial.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) call: Call,
    pub(crate) judged: Judgement,
    pub(crate) settings: Arc<Settings>,
    pub(crate) key: Option<countersign_ledger::IdempotencyKey>,
    /// How long its caller waits, and what becomes of its run when they leave.
    pub(crate) wait_policy: WaitPolicy,
    /// Whether it may wait for the answer to the same question.
    pub(crate) joining: Joining,
}

impl Draft {
    /// Of a call that came under this key.
    ///
    /// # Errors
    /// Where it was rejected and is no call.
    pub(crate) fn of(evaluation: Evaluation, key: Option<&CallKey>) -> Result<Self, ExecError> {
        let Evaluation {
            policy, call, judged, ..
        } = evaluation;
        // Half of a patch is worse than all of it, and it is soon done.
        let stays = call.background || matches!(call.command, Command::Patch(_));
        let wait_policy = WaitPolicy {
            approval: call.approval_wait,
            run: RunWait::of(&call),
            on_disconnect: if stays {
                OnDisconnect::Detach
            } else {
                key.map_or(OnDisconnect::Kill, |key| key.on_disconnect)
            },
        };
        let joining = match key {
            Some(CallKey { is_named: true, .. }) => Joining::Never,
            None | Some(_) => call.joining,
        };
        Ok(Self {
            joining,
            call,
            judged: judged?,
            settings: Arc::clone(policy.settings()),
            key: key.map(|key| key.kept.clone()),
            wait_policy,
        })
    }

    /// How many questions may wait, and how often one may be asked.
    pub(crate) fn question_limits(&self) -> QuestionLimits {
        let approvals = &self.settings.server.approvals;
        QuestionLimits {
            pending: u64::try_from(approvals.max_pending).unwrap_or(u64::MAX),
            per_agent: approvals.max_pending_per_agent,
            per_token: approvals.max_pending_per_token,
            per_minute: approvals.questions_per_minute_per_token,
            burst: approvals.question_burst_per_token,
        }
    }
}

/// What one attempt at a call came to.
#[derive(Debug)]
pub(crate) enum Attempt {
    Started(Arc<LiveRun>),
    /// A person is asked, and the run is waited for from before that.
    Asked(RunId, Subscription),
    /// The same question waits, and this run for its answer.
    Joined(RunId),
    /// Its record says how it stands.
    Follow(RunId),
    /// The policy changed; judge again.
    Stale,
    /// A grant has no use left; judge again without it.
    UsedUp(EntryId),
}

/// A new admission, or the run that the key stands for.
pub(crate) enum Admitted<T> {
    New(T),
    Known(RunId),
}

pub(crate) fn admitted<T>(admission: Admission<T>) -> Result<Admitted<T>, ExecError> {
    match admission {
        Admission::New(value) => Ok(Admitted::New(value)),
        Admission::Known(kept) => kept_run(kept).map(Admitted::Known),
        Admission::Mismatch => Err(ExecError::IdempotencyMismatch),
    }
}

pub(crate) fn kept_run(kept: StoredOutcome) -> Result<RunId, ExecError> {
    match kept {
        StoredOutcome::Run { run, hint: _ } => Ok(run),
        // Exec calls keep runs only.
        StoredOutcome::Answer { .. } => Err(ExecError::IdempotencyMismatch),
    }
}
