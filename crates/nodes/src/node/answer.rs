//! What a call is answered, in the product's words (`docs/spec/bridge.md#91-systemrun` and
//! `docs/spec/bridge.md#95-local-policy-on-the-node`). Pure.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use countersign_domain::{Reason, ReasonClass, Run, RunStatus};
use countersign_engine::reply::ExecError;
use countersign_protocol::bridge::{
    CappedStreams, INVALID_REQUEST, InvokeError, OWN_RULE, OwnRule, RunOutcome, UNAVAILABLE, event_output,
};

/// The code of a refusal by policy for gateways of the present generation.
const DENIED: &str = "SYSTEM_RUN_DENIED";
/// What `timeout(1)` exits with, and both products answer for a command that ran out of time.
const TIMED_OUT: i32 = 124;
/// How a record says that a program was found nowhere (`StartError::NoProgram`).
const NO_PROGRAM: &str = ": no such program in the run PATH";
/// What follows a text that was cut for a gateway that takes no longer ones.
const CUT: &str = "\n... (truncated)";

/// Which words a gateway expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Protocol 3.
    First,
    /// Protocol 4.
    Present,
}

/// Whose gateway it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// A server of ours: it understands members that only we have.
    Ours,
    Other,
}

/// The answer to a call, as it is sent and as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<AnswerError>,
    /// Why a command was not run, as `exec.denied` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    denied: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct AnswerError {
    code: String,
    message: String,
    /// The rule of this machine's policy behind it, for gateways of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<Box<OwnRule>>,
}

/// Why a command was not run by decision, in the words of both generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    /// Nothing may run, or not this, no matter who approves it.
    Outright,
    /// A person would have to approve it.
    ApprovalRequired,
    /// A person said no.
    ByPerson,
    /// It is not on the list, and nobody is asked.
    AllowlistMiss,
    /// It is not what was approved.
    PlanMismatch,
    /// It needs the screen.
    ScreenRecording,
    /// It was to be run by the companion app, which is not there.
    NoCompanion,
}

impl Denied {
    /// The reason in `exec.denied`.
    const fn reason(self) -> &'static str {
        match self {
            Self::Outright => "security=deny",
            Self::ApprovalRequired | Self::ByPerson => "approval-required",
            Self::AllowlistMiss => "allowlist-miss",
            Self::PlanMismatch => "execution-plan-miss",
            Self::ScreenRecording => "permission:screenRecording",
            Self::NoCompanion => "companion-unavailable",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Outright => "SYSTEM_RUN_DISABLED: security=deny",
            Self::ApprovalRequired => "SYSTEM_RUN_DENIED: approval required",
            Self::ByPerson => "SYSTEM_RUN_DENIED: user denied",
            Self::AllowlistMiss => "SYSTEM_RUN_DENIED: allowlist miss",
            Self::PlanMismatch => "SYSTEM_RUN_DENIED: execution plan mismatch",
            Self::ScreenRecording => "PERMISSION_MISSING: screenRecording",
            Self::NoCompanion => "COMPANION_APP_UNAVAILABLE: macOS app exec host unreachable",
        }
    }

    /// The present generation has a code of its own for what policy refuses.
    const fn code(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::NoCompanion, _) | (_, Dialect::First) => UNAVAILABLE,
            (_, Dialect::Present) => DENIED,
        }
    }

    /// What a recorded denial was.
    fn of_reason(reason: Option<Reason>) -> Self {
        match reason.map(Reason::class) {
            Some(ReasonClass::Miss) => Self::AllowlistMiss,
            Some(ReasonClass::Person) => Self::ByPerson,
            Some(ReasonClass::Changed) => Self::PlanMismatch,
            Some(ReasonClass::Unanswered) => Self::ApprovalRequired,
            // A deny rule, tool policy or a refused document: no approval lifts these.
            Some(_) | None => Self::Outright,
        }
    }
}

impl Answer {
    pub(super) const fn done(payload: Value) -> Self {
        Self {
            ok: true,
            payload: Some(payload),
            error: None,
            denied: None,
        }
    }

    pub(super) fn failed(code: &str, message: impl Into<String>) -> Self {
        Self {
            ok: false,
            payload: None,
            error: Some(AnswerError {
                code: code.to_owned(),
                message: message.into(),
                rule: None,
            }),
            denied: None,
        }
    }

    /// The call cannot be meant.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::failed(INVALID_REQUEST, message)
    }

    /// It cannot be done now.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::failed(UNAVAILABLE, message)
    }

    /// Nothing was run for it, and nothing ever will be.
    pub(super) fn void(why: &str) -> Self {
        Self::unavailable(format!("RUN_VOID: {why}"))
    }

    /// It was refused by decision.
    pub(super) fn denied(denied: Denied, dialect: Dialect) -> Self {
        Self {
            denied: Some(denied.reason().to_owned()),
            ..Self::failed(denied.code(dialect), denied.message())
        }
    }

    /// The same with the rule of this machine's policy behind it.
    pub(super) fn by_rule(mut self, rule: Option<OwnRule>) -> Self {
        if let (Some(error), Some(rule)) = (&mut self.error, rule) {
            error.rule = Some(Box::new(rule));
        }
        self
    }

    /// The same by this rule, if it is a refusal for the reason of the rule, or for the want of an answer that the rule asks
    /// for. The record of the run has the reason alone, also of a person's answer and of a withdrawal.
    pub(super) fn refused_by(self, rule: Option<OwnRule>) -> Self {
        let own = self.error.as_ref().and_then(|error| error.rule.as_deref());
        let is_it = own.zip(rule.as_ref()).is_some_and(|(own, rule)| {
            own.reason == rule.reason
                || Denied::of_reason(Some(own.reason)) == Denied::of_reason(Some(rule.reason))
        });
        if is_it { self.by_rule(rule) } else { self }
    }

    /// It could not be started, which counts as a result.
    pub(super) fn not_started(error: String) -> Self {
        let outcome = RunOutcome {
            stdout: Some(String::new()),
            stderr: Some(String::new()),
            error: Some(error),
            ..RunOutcome::default()
        };
        Self::done(outcome.to_value())
    }

    /// What an error of the engine is. A denial has a record and is answered from that.
    pub(super) fn of_error(error: &ExecError, cwd: Option<&str>, dialect: Dialect) -> Self {
        match error {
            ExecError::Denied(denial) if denial.reason == Reason::Preflight => Self::invalid(format!(
                "SYSTEM_RUN_DENIED: {}",
                denial.detail.as_deref().unwrap_or("a script looks wrong")
            )),
            ExecError::Denied(denial) => Self::denied(Denied::of_reason(Some(denial.reason)), dialect)
                .by_rule(denial.rule.as_deref().cloned()),
            ExecError::InvalidRequest { message, .. } => Self::invalid(format!("INVALID_REQUEST: {message}")),
            ExecError::BlockedEnv { names } => Self::invalid(format!(
                "SYSTEM_RUN_DENIED: environment override rejected (blocked override keys: {})",
                names.join(", ")
            )),
            ExecError::WorkdirUnavailable { detail } => Self::not_started(format!(
                "node exec working directory does not exist on the node host: {} ({detail})",
                cwd.unwrap_or("the agent's workspace")
            )),
            ExecError::AgentNotAllowed
            | ExecError::ConfigConflict { .. }
            | ExecError::HostNotAllowed { .. }
            | ExecError::SandboxUnavailable { .. }
            | ExecError::NodeNotFound { .. }
            | ExecError::NodeAmbiguous { .. }
            | ExecError::NodeUnavailable { .. }
            | ExecError::ElevatedUnavailable { .. }
            | ExecError::ToolDenied { .. }
            | ExecError::PatchNotAllowed { .. }
            | ExecError::PatchFailed(_)
            | ExecError::IdempotencyMismatch => Self::denied(Denied::Outright, dialect),
            ExecError::NoPlace(_)
            | ExecError::NoTurn(_)
            | ExecError::TooManyQuestions(_)
            | ExecError::Overloaded => Self::unavailable("NODE_BUSY: no place to run was free in time"),
            ExecError::Stopped(_) => Self::denied(Denied::ByPerson, dialect),
            ExecError::ShuttingDown => Self::unavailable("NODE_STOPPING: the node is shutting down"),
            ExecError::Blind(_) | ExecError::Machine(_) => {
                Self::unavailable("NODE_BUSY: the files of the command cannot be seen now")
            }
            ExecError::Storage(_) | ExecError::Unrecorded { .. } => no_record(),
        }
    }

    /// What became of a run that has ended.
    pub(super) fn of_run(run: &Run, streams: CappedStreams, dialect: Dialect) -> Self {
        match (run.status, run.reason) {
            (RunStatus::Denied, reason) => {
                Self::denied(Denied::of_reason(reason), dialect).by_rule(reason.map(OwnRule::of_reason))
            }
            (RunStatus::Lost, _) => {
                Self::unavailable("RUN_LOST: the outcome of this run is unknown; it is not run again")
            }
            (_, Some(Reason::NotStarted)) => Self::void("the run was never started"),
            (_, Some(Reason::SpawnFailed)) => Self::not_started(launch_error(run.detail.as_deref())),
            // The question was asked, and no answer came.
            (RunStatus::Cancelled, _) if run.started_at.is_none() && run.approval_id.is_some() => {
                Self::denied(Denied::ApprovalRequired, dialect)
                    .by_rule(Some(OwnRule::of_reason(Reason::ApprovalRequired)))
            }
            (RunStatus::Cancelled, _) if run.started_at.is_none() => {
                Self::void("the run was cancelled before it started")
            }
            (status, _) => {
                let CappedStreams {
                    stdout,
                    stderr,
                    truncated: _,
                } = streams;
                let exit_code = if run.timed_out {
                    Some(TIMED_OUT)
                } else {
                    run.exit_code
                };
                let outcome = RunOutcome {
                    exit_code: exit_code.map(i64::from),
                    timed_out: run.timed_out,
                    success: status == RunStatus::Completed,
                    stdout: Some(stdout),
                    stderr: Some(stderr),
                    error: (status == RunStatus::Cancelled).then(|| "cancelled".to_owned()),
                    // More than the products say; only gateways of ours look at it.
                    signal: run.exit_signal.clone().filter(|_| !run.timed_out),
                };
                Self::done(outcome.to_value())
            }
        }
    }

    /// The text that is kept of it.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The answer of a text that was kept.
    pub(super) fn of_text(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_unreadable| Self::void("nothing was run for this id"))
    }

    /// As the result of a call.
    pub(super) fn outcome(&self, make: Make) -> Result<Value, InvokeError> {
        if self.ok {
            return Ok(self.payload.clone().unwrap_or(Value::Null));
        }
        let error = self.error.clone();
        Err(InvokeError {
            code: error.as_ref().map(|error| error.code.clone()),
            message: error.as_ref().map(|error| error.message.clone()),
            rule: error
                .and_then(|error| error.rule)
                .filter(|_rule| make == Make::Ours),
        })
    }

    /// As it is told to who asks about it later. Only gateways of ours know that question.
    pub(super) fn to_result(&self) -> Value {
        match (&self.payload, &self.error) {
            (Some(payload), _) if self.ok => json!({"ok": true, "payload": payload}),
            (_, Some(error)) => {
                let mut told = json!({"code": error.code, "message": error.message});
                if let (Some(rule), Some(members)) = (&error.rule, told.as_object_mut()) {
                    members.insert(OWN_RULE.to_owned(), rule.to_value());
                }
                json!({"ok": false, "error": told})
            }
            (_, None) => json!({"ok": self.ok}),
        }
    }

    /// Whether nothing was run and nothing will be, for no reason that policy gave.
    pub(super) fn is_void(&self) -> bool {
        let message = self.error.as_ref().map(|error| error.message.as_str());
        message.is_some_and(|message| message.starts_with("RUN_VOID:"))
    }

    /// The members that an event tells of it: how it ended, or why it was refused; `None` where the products tell
    /// nothing.
    pub(super) fn news(&self) -> Option<News> {
        if let Some(reason) = &self.denied {
            return Some(News::Denied {
                reason: reason.clone(),
            });
        }
        let payload = self.payload.as_ref().filter(|_payload| self.ok)?;
        let text = |name: &str| payload.get(name).and_then(Value::as_str);
        let flag = |name: &str| payload.get(name).and_then(Value::as_bool).unwrap_or(false);
        Some(News::Finished {
            exit_code: payload.get("exitCode").and_then(Value::as_i64),
            timed_out: flag("timedOut"),
            success: flag("success"),
            output: event_output(
                text("stdout").unwrap_or_default(),
                text("stderr").unwrap_or_default(),
                text("error"),
            ),
        })
    }

    /// The same answer with at most so many bytes of each text: a gateway closes on what is longer than it takes.
    pub(super) fn with_streams_of(&self, bytes: usize) -> Self {
        let mut answer = self.clone();
        let members = answer.payload.as_mut().and_then(Value::as_object_mut);
        for (_name, member) in members.into_iter().flatten() {
            if let Value::String(text) = member
                && text.len() > bytes
            {
                text.truncate(text.floor_char_boundary(bytes));
                text.push_str(CUT);
            }
        }
        answer
    }
}

/// What an event tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// The command ended, or could not be started.
    Finished {
        exit_code: Option<i64>,
        timed_out: bool,
        success: bool,
        output: String,
    },
    /// It was refused by decision.
    Denied { reason: String },
}

/// Nothing may happen of which there is no record.
pub(super) fn no_record() -> Answer {
    Answer::unavailable("NODE_STORAGE: the node cannot keep its record, so it runs nothing")
}

/// The products' words for a program that could not be started.
fn launch_error(detail: Option<&str>) -> String {
    let errno = detail
        .and_then(|detail| {
            detail
                .rsplit_once("(os error ")?
                .1
                .strip_suffix(')')?
                .parse()
                .ok()
        })
        .map(io::Error::from_raw_os_error);
    // A name that PATH does not know never reaches the system.
    let is_nowhere = detail.is_some_and(|detail| detail.ends_with(NO_PROGRAM));
    let kind = if is_nowhere {
        Some(io::ErrorKind::NotFound)
    } else {
        errno.map(|error| error.kind())
    };
    let word = match kind {
        Some(io::ErrorKind::NotFound) => "ENOENT",
        Some(io::ErrorKind::PermissionDenied) => "EACCES",
        Some(io::ErrorKind::ArgumentListTooLong) => "E2BIG",
        Some(_) | None => "EUNKNOWN",
    };
    format!("Command failed during launch or output capture ({word})")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign_domain::{Actor, Stop, UnixMillis};

    use super::*;

    #[test]
    fn a_stop_is_told_as_what_a_person_denied() {
        let stopped = ExecError::Stopped(Arc::new(Stop {
            by: Actor::system(),
            at: UnixMillis::new(0),
            reason: "keys leaked".to_owned(),
        }));
        for dialect in [Dialect::First, Dialect::Present] {
            let denied = Answer::denied(Denied::of_reason(Some(Reason::UserDenied)), dialect);
            assert_eq!(
                Answer::of_error(&stopped, None, dialect).to_text(),
                denied.to_text()
            );
        }
    }
}
