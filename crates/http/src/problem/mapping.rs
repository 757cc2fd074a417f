//! The one mapping from errors of the lower layers to problems.

use std::io::ErrorKind;

use axum::http::{HeaderName, HeaderValue, header};

use countersign_config::{
    approvals::{document::Refusal, store::StoreError},
    session::gates::Gate,
    settings::{ConfigFileError, EditError},
};
use countersign_domain::{Approval, ApprovalDecision, Reason, Scope, Stop};
use countersign_engine::{
    NoSlot, NoTurn,
    allowlist::AllowlistError,
    config::ConfigError,
    document::DocumentError,
    hint::{HOW_TO_RESUME, hint},
    mutes::MuteError,
    preset::PresetError,
    process::ProcessError,
    rejection::RejectionError,
    reply::{
        CancelError, DecideError, Denial, ExecError, MachineFault, PatchFailure, ReviseError, StorageTrouble,
        TakeBackError,
    },
    session::SessionError,
    sign_in::LoginLinkError,
    tokens::{CreateTokenError, RotateTokenError},
};
use countersign_ledger::{
    LedgerError, QuestionLimit, TooManyQuestions, audit::VerifyError, auth::ScopeConflict,
};
use countersign_policy::command::{env_policy, preflight};
use countersign_wire::{approval::ApprovalBody, problem::NodeCandidate, ruling};

use crate::problem::{Code, Problem};

/// So many wrong members are named in one answer.
const MAX_FIELDS: usize = 20;

impl From<ExecError> for Problem {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::Denied(denial) => denied(*denial),
            ExecError::InvalidRequest { path, message } => Self::field(path, message),
            ExecError::BlockedEnv { names } => Self::new(
                Code::BlockedEnv,
                env_policy::refusal(&names),
            )
            .with(|body| body.names = Some(names)),
            ExecError::WorkdirUnavailable { detail } => Self::new(Code::WorkdirUnavailable, detail),
            ExecError::ConfigConflict { detail } => Self::new(Code::ConfigConflict, detail),
            ExecError::HostNotAllowed { detail, hint } => {
                Self::new(Code::HostNotAllowed, detail).with_hint(Some(hint))
            }
            ExecError::SandboxUnavailable { detail, hint } => {
                Self::new(Code::SandboxUnavailable, detail).with_hint(Some(hint))
            }
            ExecError::NodeUnavailable { detail, failure: _ } => {
                Self::new(Code::NodeUnavailable, detail).with_hint(Some(hint(&["nodes", "list"])))
            }
            ExecError::NodeNotFound { detail } => {
                Self::new(Code::NodeNotFound, detail).with_hint(Some(hint(&["nodes", "list"])))
            }
            ExecError::NodeAmbiguous { detail, candidates } => {
                let candidate = |(node_id, display_name)| NodeCandidate { node_id, display_name };
                let candidates = candidates.into_iter().map(candidate).collect();
                Self::new(Code::NodeAmbiguous, detail).with(|body| body.candidates = Some(candidates))
            }
            ExecError::ElevatedUnavailable { gates } => elevated_unavailable(gates),
            ExecError::ToolDenied { detail, hint } => {
                Self::new(Code::ToolDenied, detail).with_hint(Some(hint))
            }
            ExecError::PatchNotAllowed { detail, hint } => {
                Self::new(Code::PatchNotAllowed, detail).with_hint(Some(hint))
            }
            ExecError::PatchFailed(failure) => patch_failed(*failure),
            ExecError::AgentNotAllowed => Self::new(Code::Forbidden, "the token is not bound to this agent")
                .with_hint(Some(hint(&[
                    "token", "create", "NAME", "--scope", "exec", "--agent", "AGENT",
                ]))),
            ExecError::IdempotencyMismatch => Self::new(
                Code::IdempotencyMismatch,
                "use another Idempotency-Key for another body",
            ),
            ExecError::NoPlace(full) => no_place(full),
            ExecError::NoTurn(full) => no_turn(full),
            ExecError::TooManyQuestions(over) => too_many_questions(over),
            ExecError::Overloaded => Self::new(
                Code::Overloaded,
                "too many pending approvals ([approvals] max_pending), or changes of policy",
            )
            .with_header(header::RETRY_AFTER, HeaderValue::from_static("1")),
            ExecError::ShuttingDown => Self::new(Code::ShuttingDown, "no new runs are taken"),
            ExecError::Stopped(stop) => stopped(&stop),
            ExecError::Blind(blind) => {
                Self::new(Code::Overloaded, blind.to_string()).with_hint(Some(hint(&["doctor"])))
            }
            ExecError::Machine(fault) => Self::new(
                Code::Overloaded,
                match fault {
                    MachineFault::OpenFiles => {
                        "the server may open no more files to look at the command (LimitNOFILE= of its unit, ulimit -Hn); \
                         nothing was decided"
                    }
                    MachineFault::Document => "the approvals document cannot be read; nothing was decided",
                },
            )
            .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
            .with_hint(Some(hint(&["doctor"]))),
            ExecError::Storage(trouble) => trouble.into(),
            ExecError::Unrecorded { run_id, trouble } => {
                let code = match trouble {
                    StorageTrouble::Full => Code::StorageFull,
                    StorageTrouble::Gone | StorageTrouble::ReadOnly | StorageTrouble::Unavailable => Code::StorageUnavailable,
                };
                Self::new(
                    code,
                    "the run has ended, and its end cannot be recorded yet; that goes on: ask for the run later",
                )
                .with_run(run_id)
            }
        }
    }
}

/// Tells the refused caller who stopped the server, when and why.
fn stopped(stop: &Stop) -> Problem {
    Problem::new(Code::Stopped, stop.words())
        .with(|body| {
            body.reason = Some(Reason::Stopped.as_str().into());
            body.agent_message = Some(ruling::STOPPED.to_owned());
        })
        .with_hint(Some(hint(&HOW_TO_RESUME)))
}

/// Every gate that is closed, by the key that opens it.
fn elevated_unavailable(gates: Vec<Gate>) -> Problem {
    let words: Vec<String> = gates
        .iter()
        .map(|gate| format!("{} {}", gate.key, gate.why))
        .collect();
    let keys: Vec<String> = gates.into_iter().map(|gate| gate.key).collect();
    Problem::new(
        Code::ElevatedUnavailable,
        format!("closed gates: {}", words.join("; ")),
    )
    .with(|body| body.gates = Some(keys))
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::AgentNotAllowed => Self::new(
                Code::Forbidden,
                "the token is not bound to the agent of this session",
            ),
            SessionError::NeedsApprove => {
                Self::new(Code::Forbidden, "/approve needs a token with scope approve too")
                    .with(|body| body.required_scope = Some(Scope::Approve.into()))
            }
            SessionError::ElevatedUnavailable { gates } => elevated_unavailable(gates),
            SessionError::Storage(trouble) => trouble.into(),
        }
    }
}

/// Come back in a moment; where in the queue it was says how much later.
fn no_place(full: NoSlot) -> Problem {
    let problem = match full {
        NoSlot::AgentShare { .. } => Problem::new(
            Code::RateLimited,
            format!("{full} ([limits] max_running_per_agent)"),
        )
        .with_text_header(HeaderName::from_static("ratelimit"), "\"agent-runs\";r=0;t=1"),
        NoSlot::QueueFull { .. } | NoSlot::TooLong { .. } => Problem::new(
            Code::Overloaded,
            format!("{full} ([limits] max_running, max_queued, queue_timeout_ms)"),
        ),
    };
    problem.with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

/// Of the caller's own commands one ends before long.
fn no_turn(full: NoTurn) -> Problem {
    Problem::new(
        Code::RateLimited,
        format!("{full}; send fewer large commands at once, or put their arguments into files"),
    )
    .with_text_header(HeaderName::from_static("ratelimit"), "\"large-commands\";r=0;t=1")
    .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

/// A place comes free when a person answers; the rate says by itself when.
fn too_many_questions(over: TooManyQuestions) -> Problem {
    let TooManyQuestions {
        limit,
        most,
        retry_after,
    } = over;
    let (name, detail) = match limit {
        QuestionLimit::Server => (
            "questions",
            format!("{most} questions wait, the most that may ([approvals] max_pending)"),
        ),
        QuestionLimit::Agent => (
            "agent-questions",
            format!(
                "{most} questions of this agent wait for an answer, the most that may \
                 ([approvals] max_pending_per_agent); nothing was asked"
            ),
        ),
        QuestionLimit::Token => (
            "token-questions",
            format!(
                "{most} questions of this token wait for an answer, the most that may \
                 ([approvals] max_pending_per_token); nothing was asked"
            ),
        ),
        QuestionLimit::Rate => (
            "question-rate",
            format!(
                "this token may ask {most} new questions a minute and has asked more \
                 ([approvals] questions_per_minute_per_token, question_burst_per_token); nothing was asked"
            ),
        ),
    };
    let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
    Problem::new(Code::TooManyQuestions, detail)
        .with_text_header(
            HeaderName::from_static("ratelimit"),
            &format!("\"{name}\";r=0;t={}", seconds.max(1)),
        )
        .with_header(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))
}

fn patch_failed(failure: PatchFailure) -> Problem {
    let PatchFailure {
        run_id,
        path,
        hunk,
        detail,
        reason,
        not_restored,
    } = failure;
    Problem::new(Code::PatchFailed, detail)
        .with_run(run_id)
        .with(|body| {
            body.path = path;
            body.hunk = hunk;
            body.reason = reason.map(|reason| reason.as_str().into());
            body.not_restored = Some(not_restored).filter(|files| !files.is_empty());
        })
}

fn denied(denial: Denial) -> Problem {
    let Denial {
        run_id,
        reason,
        detail,
        hint,
        rule: _,
    } = denial;
    let code = if reason == Reason::Preflight {
        Code::PreflightFailed
    } else {
        Code::ExecDenied
    };
    let detail = detail.unwrap_or_else(|| format!("denied: {reason}"));
    let line = preflight::line_of(&detail).filter(|_| reason == Reason::Preflight);
    Problem::new(code, detail).with_run(run_id).with(|body| {
        body.reason = Some(reason.as_str().into());
        body.hint = hint;
        body.line = line;
    })
}

impl From<DecideError> for Problem {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::NotFound => Self::new(Code::ApprovalNotFound, "there is no such approval"),
            DecideError::AlreadyResolved(approval) => already_resolved(*approval),
            DecideError::Expired(approval) => about(
                Code::ApprovalExpired,
                "nobody answered in time; nothing runs by this approval",
                *approval,
            ),
            DecideError::Cancelled(approval) => {
                about(Code::ApprovalCancelled, "the request was withdrawn", *approval)
            }
            DecideError::NotAllowed { detail, reason } => Self::new(Code::DecisionNotAllowed, detail)
                .with(|body| body.reason = reason.map(|reason| reason.as_str().into())),
            DecideError::TooWide { detail } => Self::new(Code::GrantTooWide, detail),
            DecideError::OwnRequest => Self::new(
                Code::OwnRequest,
                "the token that asked for this run cannot decide about it",
            ),
            DecideError::NotEntitled { detail } => Self::new(Code::Forbidden, detail),
            DecideError::Stopped(stop) => stopped(&stop),
            DecideError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<TakeBackError> for Problem {
    fn from(error: TakeBackError) -> Self {
        match error {
            TakeBackError::Decide(error) => error.into(),
            TakeBackError::TooLate(approval) => {
                let hint = hint(&["runs", "cancel", approval.run_id.as_str()]);
                about(
                    Code::ApprovalAlreadyResolved,
                    "it has started or ended, so the answer cannot be taken back; what still runs can be cancelled",
                    *approval,
                )
                .with_hint(Some(hint))
            }
            TakeBackError::NotAnswered => Self::new(
                Code::DecisionNotAllowed,
                "nobody has allowed this, so there is nothing to take back; answer deny",
            ),
        }
    }
}

impl From<ReviseError> for Problem {
    fn from(error: ReviseError) -> Self {
        match error {
            ReviseError::Decide(error) => error.into(),
            ReviseError::Call(error) => error.into(),
            ReviseError::Denied { reason, detail, hint } => Self::new(
                Code::ExecDenied,
                detail.unwrap_or_else(|| format!("the changed command is denied: {reason}")),
            )
            .with(|body| body.reason = Some(reason.as_str().into()))
            .with_hint(hint),
            ReviseError::Storage(trouble) => trouble.into(),
        }
    }
}

/// Who decided first, what, and when.
fn already_resolved(approval: Approval) -> Problem {
    let run_id = approval.run_id.clone();
    let body = ApprovalBody::from(approval);
    let is_always = (body.decision.as_ref()).is_some_and(|said| *said == ApprovalDecision::AllowAlways);
    let how = if is_always { " (always)" } else { "" };
    let what = format!("{}{how}", body.status);
    let by = body
        .resolved_by
        .as_ref()
        .map_or_else(String::new, |by| format!(" by {}", by.name));
    let at = body
        .resolved_at_ms
        .map_or_else(String::new, |at| format!(" at {at}"));
    Problem::new(
        Code::ApprovalAlreadyResolved,
        format!("it was already {what}{by}{at}"),
    )
    .with_run(run_id)
    .with(|problem| problem.approval = Some(Box::new(body)))
}

fn about(code: Code, detail: &str, approval: Approval) -> Problem {
    let run_id = approval.run_id.clone();
    Problem::new(code, detail)
        .with_run(run_id)
        .with(|body| body.approval = Some(Box::new(approval.into())))
}

impl From<ProcessError> for Problem {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::AgentNotAllowed => ExecError::AgentNotAllowed.into(),
            ProcessError::ToolDenied { key } => Self::new(
                Code::ToolDenied,
                format!("{key} denies the tool process to this agent"),
            )
            .with_hint(Some(hint(&["config", "get", &key]))),
            ProcessError::NotFound => Self::not_found("process session"),
            ProcessError::Ended(session) => Self::new(
                Code::SessionEnded,
                format!("the session has ended; it is {}", session.status),
            )
            .with_run(session.run_id.clone()),
            ProcessError::InputClosed(session) => Self::new(
                Code::InputClosed,
                "the input of the command is closed: the entry that covers it does not include an open one",
            )
            .with_hint(Some(hint(&["allowlist", "add", "--input", "PATTERN"])))
            .with_run(session.run_id.clone()),
            ProcessError::StillRuns(session) => Self::field(
                "sessionId",
                "the session still runs; kill it first, or use remove",
            )
            .with_run(session.run_id.clone()),
            ProcessError::Invalid { path, message } => Self::field(path, message),
            ProcessError::NotTaken => Self::new(
                Code::Overloaded,
                "the command does not read its input; nothing was written",
            ),
            ProcessError::Stopped(stop) => stopped(&stop),
            ProcessError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<CancelError> for Problem {
    fn from(error: CancelError) -> Self {
        match error {
            CancelError::NotFound => Self::unknown_run(),
            CancelError::Ended(run) => {
                Self::new(Code::RunEnded, format!("the run is {}", run.status.api_name())).with_run(run.id)
            }
            CancelError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<StorageTrouble> for Problem {
    fn from(trouble: StorageTrouble) -> Self {
        match trouble {
            StorageTrouble::Full => Self::new(Code::StorageFull, "no space is left; nothing was done"),
            StorageTrouble::Gone => Self::new(
                Code::StorageUnavailable,
                "the state directory or the ledger in it was deleted, moved or replaced: put it back, or restart the server; \
                 nothing was done",
            )
            .with_hint(Some(hint(&["doctor"]))),
            StorageTrouble::ReadOnly => Self::new(
                Code::StorageUnavailable,
                "the file system of the state directory is read-only; nothing was done",
            )
            .with_hint(Some(hint(&["doctor"]))),
            StorageTrouble::Unavailable => Self::new(
                Code::StorageUnavailable,
                "the ledger cannot be used now; nothing was done",
            ),
        }
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        StorageTrouble::from(error).into()
    }
}

impl From<VerifyError> for Problem {
    fn from(error: VerifyError) -> Self {
        tracing::error!(%error, source = ?std::error::Error::source(&error), "the audit chain cannot be read");
        match error {
            VerifyError::Ledger(error) => error.into(),
            VerifyError::Key(_) | VerifyError::Head(_) => Self::new(
                Code::StorageUnavailable,
                "the audit key or the sealed head cannot be read; countersign doctor says more",
            ),
        }
    }
}

impl From<CreateTokenError> for Problem {
    fn from(error: CreateTokenError) -> Self {
        match error {
            CreateTokenError::Scopes(none @ ScopeConflict::Empty) => Self::field("scopes", none.to_string()),
            CreateTokenError::Scopes(
                conflict @ (ScopeConflict::AsksAndAnswers(_) | ScopeConflict::BoundAdmin),
            ) => Self::new(Code::ScopeConflict, conflict.to_string()),
            none @ CreateTokenError::NobodyElse => Self::new(
                Code::Forbidden,
                format!("{none}; the account that owns the state directory can make one of another owner"),
            )
            .with_hint(Some(hint(&[
                "token", "create", "NAME", "--scope", "admin", "--owner", "OWNER",
            ]))),
            CreateTokenError::AlreadyEnded => Self::field("expiresAtMs", "must be in the future"),
            CreateTokenError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<RotateTokenError> for Problem {
    fn from(error: RotateTokenError) -> Self {
        match error {
            RotateTokenError::OfOtherOwner => Self::new(Code::Forbidden, error.to_string()),
            RotateTokenError::NoneLive => Self::not_found("live token"),
            RotateTokenError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<LoginLinkError> for Problem {
    fn from(error: LoginLinkError) -> Self {
        match error {
            LoginLinkError::NoOperator => Self::new(
                Code::Forbidden,
                "a link stands for the token in operator.token, and that one has ended; sign in with another token",
            )
            .with_hint(Some(hint(&["token", "recover"]))),
            LoginLinkError::OtherOwner => Self::new(
                Code::Forbidden,
                "a link signs in as the token in operator.token, and your token has another owner; sign in on the page \
                 with your own token",
            ),
            LoginLinkError::Invalid(invalid) => Self::field(invalid.member(), invalid.to_string()),
            LoginLinkError::Unseen | LoginLinkError::Taken => Self::field("name", error.to_string()),
            LoginLinkError::NoToken(error) => error.into(),
            LoginLinkError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<MuteError> for Problem {
    fn from(error: MuteError) -> Self {
        match error {
            MuteError::Time => Self::new(
                Code::DecisionNotAllowed,
                "untilMs: expected a time within the next 30 days",
            ),
            MuteError::UnknownAgent => Self::new(
                Code::NotFound,
                "no agent of this name has asked for anything, and neither openclaw.json nor the approvals document names it",
            )
            .with_hint(Some(hint(&["agents", "list"]))),
            MuteError::OwnRequest => Self::new(
                Code::OwnRequest,
                "a question of this agent waits that the same token asked, and it cannot decide about it",
            ),
            MuteError::List(error) => error.into(),
            MuteError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<AllowlistError> for Problem {
    fn from(error: AllowlistError) -> Self {
        match error {
            AllowlistError::Pattern(invalid) => Self::new(Code::InvalidPattern, invalid.to_string()),
            AllowlistError::Store(error) => error.into(),
            AllowlistError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<DocumentError> for Problem {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Invalid(refusal) => invalid_document(refusal),
            DocumentError::UnknownMembers(pointers) => {
                let first = pointers.first().cloned().unwrap_or_default();
                let problem = Self::new(
                    Code::UnknownField,
                    "no such members in an approvals document; nothing was changed",
                )
                .with(|body| body.pointer = Some(first));
                pointers
                    .into_iter()
                    .take(MAX_FIELDS)
                    .fold(problem, |problem, pointer| {
                        problem.with_field(pointer, "unknown member")
                    })
            }
            DocumentError::Store(error) => error.into(),
            DocumentError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<ConfigError> for Problem {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Changed { current } => Self::new(
                Code::BaseHashMismatch,
                "the configuration changed in between; read it again",
            )
            .with(|body| body.current_hash = Some(current)),
            ConfigError::Edit(error) => edit_problem(error),
            ConfigError::Unreadable { current } => Self::new(
                Code::DocumentRefused,
                "openclaw.json cannot be read, so nothing of it could be kept",
            )
            .with(|body| {
                body.reason = Some("json".into());
                body.pointer = Some(String::new());
                body.current_hash = Some(current);
            })
            .with_hint(Some(hint(&["doctor"]))),
            ConfigError::File(error) => config_file_problem(error),
            ConfigError::Storage(trouble) => trouble.into(),
        }
    }
}

impl From<RejectionError> for Problem {
    fn from(error: RejectionError) -> Self {
        match error {
            RejectionError::Config(error) => error.into(),
            RejectionError::Document(error) => error.into(),
        }
    }
}

impl From<PresetError> for Problem {
    fn from(error: PresetError) -> Self {
        match error {
            PresetError::Config(error) => error.into(),
            PresetError::Document(error) => error.into(),
        }
    }
}

/// Keys are named as the caller wrote them.
fn edit_problem(error: EditError) -> Problem {
    match error {
        EditError::UnknownKey { path, nearest } => {
            Problem::field(path, format!("unknown key, the nearest known one is {nearest}"))
        }
        EditError::NoSuchPlace { path } => {
            Problem::field(path, "leads through something else than an object or list")
        }
        EditError::ReservedName { path } => Problem::field(path, "__proto__ cannot be a name here"),
        EditError::NotOurs { path, foreign } => {
            Problem::field(path, format!("holds {foreign}, which is not ours to remove"))
        }
        EditError::Rejected(problems) => {
            let problem = Problem::new(
                Code::InvalidRequest,
                "openclaw.json would not be valid any more; nothing was changed",
            );
            problems
                .into_iter()
                .take(MAX_FIELDS)
                .fold(problem, |problem, found| {
                    problem.with_field(found.key.unwrap_or_default(), found.problem.to_string())
                })
        }
        // The first is refused before, with the hash of the file.
        EditError::Unreadable(_) | EditError::Path(_) => {
            Problem::new(Code::InvalidRequest, "the change cannot be made")
        }
    }
}

fn config_file_problem(error: ConfigFileError) -> Problem {
    match error {
        ConfigFileError::Locked => {
            Problem::new(Code::DocumentLocked, "another program is changing openclaw.json")
        }
        ConfigFileError::TooLarge(_) => {
            Problem::new(Code::InvalidRequest, format!("{error}; nothing was changed"))
        }
        ConfigFileError::Link | ConfigFileError::Unusable(_) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "openclaw.json was not changed"
            );
            Problem::new(
                Code::StorageUnavailable,
                "openclaw.json is a link, not ours or no text, and is not written; nothing was changed",
            )
            .with_hint(Some(hint(&["doctor"])))
        }
        ConfigFileError::Io(source) => write_failed(&source, "openclaw.json"),
    }
}

/// A policy file was not written.
fn write_failed(source: &std::io::Error, what: &str) -> Problem {
    tracing::error!(
        file = what,
        error = source as &dyn std::error::Error,
        "a policy file was not written"
    );
    if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        return StorageTrouble::Full.into();
    }
    Problem::new(
        Code::StorageUnavailable,
        format!("{what} cannot be written; nothing was changed"),
    )
}

fn invalid_document(refusal: Refusal) -> Problem {
    Problem::new(
        Code::InvalidDocument,
        format!("the document would be refused: {}", refusal.in_words()),
    )
    .with(|body| {
        body.reason = Some(refusal.reason.as_str().into());
        body.pointer = Some(refusal.pointer);
    })
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused { refusal, hash } => refused(&refusal, hash),
            StoreError::BaseHashMismatch { current } => Self::new(
                Code::BaseHashMismatch,
                "the document changed in between; read it again",
            )
            .with(|body| body.current_hash = Some(current)),
            StoreError::BaseHashRequired { current } => {
                Self::new(Code::BaseHashRequired, "send the document's ETag as If-Match")
                    .with(|body| body.current_hash = Some(current))
            }
            StoreError::OldNameOfMain => Self::field(
                "agentId",
                "default is the old name of main in the approvals document, so no rule can be written for an agent of that name; write main",
            ),
            StoreError::Locked => Self::new(Code::DocumentLocked, "another program is changing the document"),
            StoreError::LockStale { .. } => Self::new(
                Code::DocumentLockStale,
                "the lock was left behind by a process that died",
            )
            .with_hint(Some(hint(&["doctor"]))),
            StoreError::Invalid(refusal) => invalid_document(refusal),
            StoreError::Directory(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the directory of the document is unusable"
                );
                Self::new(
                    Code::StorageUnavailable,
                    "the approvals document cannot be written; nothing was changed",
                )
            }
            StoreError::Io { path: _, source } => write_failed(&source, "the approvals document"),
        }
    }
}

fn refused(refusal: &Refusal, hash: String) -> Problem {
    Problem::new(
        Code::DocumentRefused,
        format!(
            "the approvals document cannot be used ({}): everything is denied, and it stays as it is until it is repaired",
            refusal.in_words()
        ),
    )
    .with(|body| {
        body.reason = Some(refusal.reason.as_str().into());
        body.pointer = Some(refusal.pointer.clone());
        body.current_hash = Some(hash);
    })
    .with_hint(Some(hint(&["doctor"])))
}
