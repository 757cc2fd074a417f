//! What the engine answers: values that every entry point turns into its own wire form.

use std::sync::Arc;

use countersign_config::{
    approvals::document::{DenyRule, Keyed},
    session::gates::Gate,
};
use countersign_domain::{Approval, ApprovalDecision, GrantChoice, Reason, Run, RunId, Stop, UnixMillis};
use countersign_hosts::{node::InvokeFailure, peer_fs::Blind, workdir::WorkdirError};
use countersign_ledger::TooManyQuestions;
use countersign_protocol::{bridge::OwnRule, patch::Patch};
use countersign_runner::output::Captured;

use crate::{NoSlot, NoTurn};

/// The answer to an exec call that was not refused (`docs/spec/http-api.md#post-v1exec-answers`).
#[derive(Debug, Clone, PartialEq)]
pub enum ExecReply {
    /// It ran and ended.
    Ended(EndedRun),
    /// It runs in the background.
    Running(RunningRun),
    /// A person is asked; nothing has started.
    Pending(Box<PendingRun>),
}

impl ExecReply {
    /// The same for a call that joined the run of another.
    #[must_use]
    pub(super) fn joined(mut self) -> Self {
        match &mut self {
            Self::Ended(ended) => ended.joined = true,
            Self::Running(running) => running.joined = true,
            Self::Pending(pending) => pending.joined = true,
        }
        self
    }

    /// The same with something more that the caller should know.
    #[must_use]
    pub(super) fn with_warning(mut self, warning: Warning) -> Self {
        match &mut self {
            Self::Ended(ended) => ended.warnings.push(warning),
            Self::Running(running) => running.warnings.push(warning),
            Self::Pending(pending) => pending.warnings.push(warning),
        }
        self
    }
}

/// A run that ended while the caller waited.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedRun {
    /// The record of it, with state and exit code.
    pub run: Run,
    /// Its output as text, capped.
    pub output: Captured,
    /// What the caller should know besides.
    pub warnings: Vec<Warning>,
    /// Whether the call joined the run of another, which waited for the answer to the same question.
    pub joined: bool,
}

/// A run that went on without its caller.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningRun {
    /// The record of it so far.
    pub run: Run,
    /// The last 2,000 characters so far.
    pub tail: String,
    /// What the caller should know besides.
    pub warnings: Vec<Warning>,
    /// Whether the call joined the run of another, which waited for the answer to the same question.
    pub joined: bool,
}

/// A run that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingRun {
    /// The recorded run, in state `asking`.
    pub run: Run,
    /// The question that a person is to answer.
    pub approval: Approval,
    /// What the caller should know besides.
    pub warnings: Vec<Warning>,
    /// Whether the call joined the run of another, which waited for the answer to the same question.
    pub joined: bool,
}

/// The answer to a patch that was not refused.
#[derive(Debug, Clone, PartialEq)]
pub enum PatchReply {
    /// All of it was applied.
    Applied(Box<AppliedPatch>),
    /// It is still being applied.
    Running(Box<RunningRun>),
    /// A person is asked; nothing has changed.
    Pending(Box<PendingRun>),
}

/// A patch that was applied.
#[derive(Debug, Clone, PartialEq)]
pub struct AppliedPatch {
    /// The record of it.
    pub run: Run,
    /// The patch as parsed, with its operations in order.
    pub patch: Patch,
}

/// A patch that was not applied, or of which that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchFailure {
    /// The run that records it.
    pub run_id: RunId,
    /// The file that it failed at.
    pub path: Option<String>,
    /// The hunk of that file, from 1.
    pub hunk: Option<usize>,
    /// What did not fit or went wrong, in words for people.
    pub detail: String,
    /// Why it was cut off; then each file has its old content or its new one.
    pub reason: Option<Reason>,
    /// Files that could not be put back as they were. Mostly none.
    pub not_restored: Vec<String>,
}

/// Something the caller should know though the call succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// One of a fixed set, such as `unknown-key`, that callers may compare.
    pub code: &'static str,
    /// The same in a sentence for people.
    pub message: String,
}

/// A refusal by decision: there is a record of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The run that records it.
    pub run_id: RunId,
    /// Why, from the closed set; recorded with the run.
    pub reason: Reason,
    /// More about it in words, such as a finding or a deny rule; `None` when the reason says it all.
    pub detail: Option<String>,
    /// The exact command or key that would change it.
    pub hint: Option<String>,
    /// The rule of this machine's policy behind it, for a gateway that delivered the call; absent where only its record is
    /// known.
    pub rule: Option<Box<OwnRule>>,
}

/// Why a call was refused (`docs/spec/http-api.md#errors`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// Policy, a person or a fallback said no.
    #[error("the command was denied")]
    Denied(Box<Denial>),
    /// The call cannot be meant as it stands.
    #[error("{message}")]
    InvalidRequest {
        /// The member of the body.
        path: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// Environment overrides that are never accepted.
    #[error("environment overrides are blocked")]
    BlockedEnv {
        /// Their names, sorted, upper case.
        names: Vec<String>,
    },
    /// The working directory cannot be used.
    #[error("the working directory cannot be used")]
    WorkdirUnavailable {
        /// What is wrong with it, or what to do, for people.
        detail: String,
    },
    /// Members of the call contradict each other.
    #[error("members of the call contradict each other")]
    ConfigConflict {
        /// Which contradict, and how to resolve it, for people.
        detail: String,
    },
    /// The call named a host it may not use.
    #[error("the host is not allowed")]
    HostNotAllowed {
        /// Which host was named, and what was configured, for people.
        detail: String,
        /// The key to change.
        hint: String,
    },
    /// No sandbox is usable.
    #[error("no sandbox is available")]
    SandboxUnavailable {
        /// Why none is usable, for people.
        detail: String,
        /// The key to change.
        hint: String,
    },
    /// No node is usable.
    #[error("no node is available")]
    NodeUnavailable {
        /// What kind of trouble that is. Nothing was started.
        failure: InvokeFailure,
        /// Which node is away or refused, and why, for people.
        detail: String,
    },
    /// No paired node is called so.
    #[error("there is no such node")]
    NodeNotFound {
        /// How it was called, and where.
        detail: String,
    },
    /// Several nodes are meant equally.
    #[error("several nodes match")]
    NodeAmbiguous {
        /// How they were called, and where.
        detail: String,
        /// Which, by id and name.
        candidates: Vec<(String, Option<String>)>,
    },
    /// The call wants to leave the sandbox but may not.
    #[error("elevated access is not available")]
    ElevatedUnavailable {
        /// The gates that are closed.
        gates: Vec<Gate>,
    },
    /// Tool policy takes the tool from the agent.
    #[error("the tool is denied")]
    ToolDenied {
        /// Which, and which key says so.
        detail: String,
        /// The key to change.
        hint: String,
    },
    /// The model may not send patches.
    #[error("patches are not allowed here")]
    PatchNotAllowed {
        /// Why the model is not among those that may, for people.
        detail: String,
        /// The key to change.
        hint: String,
    },
    /// A patch does not apply.
    #[error("the patch does not apply")]
    PatchFailed(Box<PatchFailure>),
    /// The token is not bound to this agent.
    #[error("the token may not act for this agent")]
    AgentNotAllowed,
    /// The same key came with another body.
    #[error("the idempotency key was used with another body")]
    IdempotencyMismatch,
    /// There is no place to run.
    #[error("too many runs")]
    NoPlace(#[source] NoSlot),
    /// Too many large commands of its caller wait to be looked through.
    #[error("too many large commands at once")]
    NoTurn(#[source] NoTurn),
    /// Too many questions of its agent or its token wait, or its token asks too often.
    #[error("too many questions")]
    TooManyQuestions(TooManyQuestions),
    /// The server has too many pending approvals, or its policy changes all the time.
    #[error("too many runs or pending approvals")]
    Overloaded,
    /// The server stops and takes no new calls.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The emergency stop is in effect.
    #[error("everything is stopped")]
    Stopped(Arc<Stop>),
    /// The files that the command would see cannot be seen at the moment.
    #[error(transparent)]
    Blind(#[from] Blind),
    /// The machine does not give what judging takes. What could not be looked at for that must not become a verdict.
    #[error(transparent)]
    Machine(#[from] MachineFault),
    /// The ledger cannot be written.
    #[error("the ledger cannot be written")]
    Storage(#[from] StorageTrouble),
    /// A run ended, and the ledger cannot be written: its end is recorded later.
    #[error("the run has ended, and its end is not on record yet")]
    Unrecorded {
        /// The run.
        run_id: RunId,
        /// What kind of trouble that is.
        trouble: StorageTrouble,
    },
}

/// What the machine does not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MachineFault {
    /// The server may open no more files.
    #[error("too few open files are left to look at the command")]
    OpenFiles,
    /// There is a document, and reading it fails.
    #[error("the approvals document cannot be read")]
    Document,
}

impl From<WorkdirError> for ExecError {
    fn from(error: WorkdirError) -> Self {
        match error {
            WorkdirError::Blind(blind) => Self::Blind(blind),
            error @ (WorkdirError::Relative
            | WorkdirError::Missing(_)
            | WorkdirError::NotADirectory
            | WorkdirError::NotText) => Self::WorkdirUnavailable {
                detail: error.to_string(),
            },
        }
    }
}

/// The record cannot be kept, so nothing may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StorageTrouble {
    /// No space is left.
    #[error("no space is left for the record")]
    Full,
    /// The state directory or the database in it is not there any more.
    #[error("the state directory was deleted or replaced")]
    Gone,
    /// The file system of the state directory is read-only.
    #[error("the file system of the record is read-only")]
    ReadOnly,
    /// The database cannot be used.
    #[error("the record cannot be reached")]
    Unavailable,
}

/// A person's answer, as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Allow once, allow always, or deny.
    pub decision: ApprovalDecision,
    /// Why, in their words.
    pub reason: Option<String>,
    /// With `allow-always`: which of the proposed patterns, as (pattern, argPattern); `None` for the default ones.
    pub patterns: Option<Vec<(String, Option<String>)>>,
    /// With `allow-always`, instead of patterns: one of the proposals, with what limits it.
    pub grant: Option<GrantChoice>,
    /// With `deny`: for how long nobody is asked about the same command again.
    pub refusal: Option<Refusal>,
    /// The digest of the binding that was shown; the answer counts for no other. `None` for whatever the question covers.
    pub shown_digest: Option<String>,
}

/// For how long a deny is about the same command of the same agent, or about all its questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Until then nobody is asked about it.
    Until(UnixMillis),
    /// Until then nobody is asked about anything of the agent.
    Agent(UnixMillis),
    /// Nobody is asked about it again.
    Never,
}

/// The result of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// Whether this answer counted; false when it was there before.
    pub applied: bool,
    /// The approval as it now is; it still waits when it takes the answers of more people.
    pub approval: Approval,
    /// The deny rule that a deny left, or why it left none although it was to.
    pub rule: Option<Result<Keyed<DenyRule>, String>>,
}

/// Why an answer was not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecideError {
    /// There is none with this id, or its agent is not the caller's to see.
    #[error("no such approval")]
    NotFound,
    /// Another answer was first.
    #[error("already resolved otherwise")]
    AlreadyResolved(Box<Approval>),
    /// The deadline has come.
    #[error("the approval has expired")]
    Expired(Box<Approval>),
    /// The request was withdrawn.
    #[error("the approval was cancelled")]
    Cancelled(Box<Approval>),
    /// This answer, or these patterns, are not open here.
    #[error("this decision is not allowed here")]
    NotAllowed {
        /// What is open instead, for people.
        detail: String,
        /// `binding-mismatch` where the answer is for another binding.
        reason: Option<Reason>,
    },
    /// It would allow more than was proposed.
    #[error("it would allow more than was proposed")]
    TooWide {
        /// Which member, and why.
        detail: String,
    },
    /// Who asks cannot answer.
    #[error("who asks cannot answer")]
    OwnRequest,
    /// It is for approvers of other groups to allow it.
    #[error("it is for approvers of other groups to allow this")]
    NotEntitled {
        /// Who may allow it, for people.
        detail: String,
    },
    /// The emergency stop is in effect, so nothing can be allowed.
    #[error("everything is stopped")]
    Stopped(Arc<Stop>),
    /// The ledger cannot be written.
    #[error("the ledger cannot be written")]
    Storage(#[from] StorageTrouble),
}

/// Why an allowance was not taken back.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TakeBackError {
    /// The approval cannot be answered, by this caller or at all.
    #[error(transparent)]
    Decide(#[from] DecideError),
    /// A launch used it up, or the run ended.
    #[error("it has started, or ended")]
    TooLate(Box<Approval>),
    /// Nobody has answered yet.
    #[error("nobody has answered yet")]
    NotAnswered,
}

/// Why a command was not put in the place of another.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReviseError {
    /// The approval cannot be answered, by this caller or at all.
    #[error(transparent)]
    Decide(#[from] DecideError),
    /// The changed command cannot be meant as it stands, or not there.
    #[error(transparent)]
    Call(#[from] ExecError),
    /// Policy denies the changed command.
    #[error("the changed command is denied")]
    Denied {
        /// Why, from the closed set.
        reason: Reason,
        /// More about it in words; `None` when the reason says it all.
        detail: Option<String>,
        /// The exact command or key that would change it.
        hint: Option<String>,
    },
    /// The ledger cannot be written.
    #[error("the ledger cannot be written")]
    Storage(#[from] StorageTrouble),
}

/// Why a run was not cancelled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CancelError {
    /// No such run, or not the caller's.
    #[error("no such run")]
    NotFound,
    /// It had ended before; this is its record.
    #[error("the run has ended")]
    Ended(Box<Run>),
    /// The ledger cannot be written.
    #[error("the ledger cannot be written")]
    Storage(#[from] StorageTrouble),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_no_fault_of_the_call() {
        assert_eq!(
            ExecError::from(WorkdirError::Blind(Blind)),
            ExecError::Blind(Blind)
        );
        assert!(matches!(
            ExecError::from(WorkdirError::Relative),
            ExecError::WorkdirUnavailable { .. }
        ));
    }
}
