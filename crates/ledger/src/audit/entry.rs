//! One audit record: before it joins the chain, and as it is read back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use countersign_domain::{Actor, ActorKind, RunStatus, UnixMillis, vocabulary};

use crate::events::{Event, EventKind, EventType, PairingOutcome};

use super::canonical::CanonicalObject;

vocabulary! {
    /// How what was recorded went.
    pub enum AuditOutcome("ok, denied or failed") {
        /// It was done.
        Ok = "ok",
        /// It was refused.
        Denied = "denied",
        /// It went wrong.
        Failed = "failed",
    }
}

/// What was done: the type of an event, or one of the actions that are only audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditAction {
    /// An event happened.
    Event(EventType),
    /// A token was made.
    TokenCreated,
    /// A token was revoked.
    TokenRevoked,
    /// Another owner accepted a token.
    TokenAccepted,
    /// A node got another name.
    NodeRenamed,
    /// A person signed in.
    Login,
    /// A sign-in was refused; the record names its actor `unknown`.
    LoginFailed,
    /// An admin signed a browser out.
    LoginRevoked,
    /// Configuration was changed over the API.
    ConfigChanged,
    /// The approvals document was replaced as a whole.
    DocumentReplaced,
    /// An approver allowed a command that others have to allow, too.
    ApprovalVoted,
    /// During a stop, running commands were killed.
    StopKills,
    /// An admin proposed to resume; an admin of another owner has to accept that.
    ResumeProposed,
    /// Questions of an asker are refused, since there are too many.
    QuestionsRefused,
    /// A call waits for the answer to a question that was asked before it.
    QuestionJoined,
    /// Something was written to a command that runs.
    ProcessInput,
    /// Old audit records were removed.
    AuditPruned,
    /// Old runs were removed.
    RunsPruned,
    /// A run was started that the ledger did not know: its record was lost.
    RunForgotten,
    /// A broken chain was put away and a new one begun.
    AuditReset,
}

impl AuditAction {
    /// The word in the record and in the `action` filter of the API, such as `token.created`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Event(event_type) => event_type.as_str(),
            Self::TokenCreated => "token.created",
            Self::TokenRevoked => "token.revoked",
            Self::TokenAccepted => "token.accepted",
            Self::NodeRenamed => "node.renamed",
            Self::Login => "login",
            Self::LoginFailed => "login.failed",
            Self::LoginRevoked => "login.revoked",
            Self::ConfigChanged => "config.changed",
            Self::DocumentReplaced => "document.replaced",
            Self::ApprovalVoted => "approval.voted",
            Self::StopKills => "exec.stop-kills",
            Self::ResumeProposed => "exec.resume-proposed",
            Self::QuestionsRefused => "questions.refused",
            Self::QuestionJoined => "question.joined",
            Self::ProcessInput => "process.input",
            Self::AuditPruned => "audit.pruned",
            Self::RunsPruned => "runs.pruned",
            Self::RunForgotten => "run.forgotten",
            Self::AuditReset => "audit.reset",
        }
    }
}

/// What something was done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// `run`, `approval`, `token`, `session`, `entry`, `policy`, `node`, `audit` or `server`.
    pub kind: String,
    /// The id within that kind; a fixed word, such as `countersign`, where there is only one.
    pub id: String,
}

/// A record on its way into the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Who did it; the record keeps kind, id and name, not the owner.
    pub actor: Actor,
    /// From which address, where that is known.
    pub address: Option<String>,
    /// What was done; recorded as [`AuditAction::as_str`] says it.
    pub action: AuditAction,
    /// The run, approval, token or other thing that it was done to.
    pub target: Target,
    /// Whether it was done, was refused or went wrong.
    pub outcome: AuditOutcome,
    /// More about it. Whole numbers only.
    pub detail: Map<String, Value>,
}

/// A record of the chain as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRecord {
    /// Its number; the chain has no gaps.
    pub seq: i64,
    /// When the ledger wrote it.
    pub ts: UnixMillis,
    /// Who did it; no owner is recorded.
    pub actor: AuditActor,
    /// What; one of the words of [`AuditAction`], or of a later version's.
    pub action: String,
    /// What it was done to; a later version may have written a kind of its own.
    pub target: Target,
    /// Whether it was done, was refused or went wrong.
    pub outcome: AuditOutcome,
    /// More about it; the members depend on `action`, empty for none.
    pub detail: Map<String, Value>,
    /// Hash of the record before.
    pub prev_hash: String,
    /// SHA-256 of the canonical record without `hash` and `mac`, lower-case hex.
    pub hash: String,
    /// HMAC-SHA256 of the text of `hash` with the audit key, lower-case hex.
    pub mac: String,
}

/// Who did something, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditActor {
    /// The entry point that they came by; the server itself is `system`.
    pub kind: ActorKind,
    /// Stable id within that entry point.
    pub id: String,
    /// Name for people, as it was when this was recorded.
    pub name: String,
    /// Address, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
}

/// What the hash of a record covers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Body {
    pub(super) action: String,
    pub(super) actor: AuditActor,
    pub(super) detail: Map<String, Value>,
    pub(super) outcome: AuditOutcome,
    pub(super) prev_hash: String,
    pub(super) seq: i64,
    pub(super) target: Target,
    pub(super) ts: UnixMillis,
}

/// Most commands of a node that asks to be let in that a record names.
const MOST_COMMANDS: usize = 32;

impl Entry {
    /// The record of an event, from the members of its `data`.
    pub(crate) fn of_event(event: &Event, mut detail: Map<String, Value>, by: &Actor) -> Self {
        let target = target_of(event);
        // Said elsewhere in the record; and the chain tells what happened, not what was printed.
        for left_out in ["seq", "ts", "atMs", "type", "tail", "resolvedBy", "by"] {
            detail.swap_remove(left_out);
        }
        // Who changed a command is not who asked for it: then the record names both.
        let is_said =
            matches!(&event.kind, EventKind::ExecRequested { requested_by, .. } if requested_by == by);
        if is_said || !matches!(event.kind, EventKind::ExecRequested { .. }) {
            detail.swap_remove("requestedBy");
        }
        detail.swap_remove(if target.kind == "approval" {
            "approvalId"
        } else {
            "runId"
        });
        // What a device that nobody let in says of itself is kept for ever, so not at any length.
        if matches!(event.kind, EventKind::NodePairingRequested(_))
            && let Some(Value::Array(commands)) = detail.get_mut("commands")
            && commands.len() > MOST_COMMANDS
        {
            let count = commands.len();
            commands.truncate(MOST_COMMANDS);
            detail.insert("commandCount".to_owned(), count.into());
        }
        Self {
            actor: by.clone(),
            address: None,
            action: AuditAction::Event(event.kind.event_type()),
            target,
            outcome: outcome_of(&event.kind),
            detail,
        }
    }

    /// The record of what an actor did to a thing of this kind. Members of `detail` without a value are left out.
    pub(crate) fn done(action: AuditAction, kind: &str, id: &str, by: &Actor, detail: Value) -> Self {
        let mut detail = match detail {
            Value::Object(members) => members,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Map::new()
            }
        };
        detail.retain(|_name, value| !value.is_null());
        Self {
            actor: by.clone(),
            address: None,
            action,
            target: Target {
                kind: kind.to_owned(),
                id: id.to_owned(),
            },
            outcome: AuditOutcome::Ok,
            detail,
        }
    }

    /// The canonical text of the record, without `hash` and `mac`.
    pub(super) fn body(&self, seq: i64, ts: UnixMillis, prev_hash: &str) -> String {
        let Self {
            actor,
            address,
            action,
            target,
            outcome,
            detail,
        } = self;
        let mut body = CanonicalObject::default();
        body.text("action", action.as_str());
        body.object("actor", |members| {
            if let Some(address) = address {
                members.text("address", address);
            }
            members
                .text("id", &actor.id)
                .text("kind", actor.kind.as_str())
                .text("name", &actor.name);
        });
        body.members("detail", detail).text("outcome", outcome.as_str());
        body.text("prevHash", prev_hash).number("seq", seq);
        body.object("target", |members| {
            members.text("id", &target.id).text("kind", &target.kind);
        });
        body.number("ts", ts.get());
        body.finish()
    }
}

fn target_of(event: &Event) -> Target {
    let of = |kind: &str, id: &str| Target {
        kind: kind.to_owned(),
        id: id.to_owned(),
    };
    let subject = &event.subject;
    match &event.kind {
        EventKind::ApprovalRequested { .. }
        | EventKind::ApprovalVoted(_)
        | EventKind::ApprovalResolved(_) => of(
            "approval",
            subject
                .approval_id
                .as_ref()
                .map_or("", countersign_domain::ApprovalId::as_str),
        ),
        EventKind::ExecRequested { .. }
        | EventKind::ExecStarted { .. }
        | EventKind::ExecRunning { .. }
        | EventKind::ExecFinished(_)
        | EventKind::ExecDenied { .. }
        | EventKind::SystemEvent { .. }
        | EventKind::SessionWake { .. } => of(
            "run",
            subject
                .run_id
                .as_ref()
                .map_or("", countersign_domain::RunId::as_str),
        ),
        EventKind::AllowlistChanged { entry_id, .. } => of("entry", entry_id.as_str()),
        EventKind::PolicyChanged { what, .. } => of("policy", what.as_str()),
        EventKind::SessionChanged { .. } => of(
            "session",
            subject
                .session
                .as_ref()
                .map_or("", countersign_domain::SessionKey::as_str),
        ),
        EventKind::ConfigRejected { path, .. } => of("policy", path),
        EventKind::ConfigRestartNeeded { .. } => of("policy", "config"),
        EventKind::DocumentRefused { .. } | EventKind::DocumentHeld { .. } => of("policy", "document"),
        EventKind::NodeConnected { .. }
        | EventKind::NodeDisconnected { .. }
        | EventKind::NodePairingRequested(_)
        | EventKind::NodePairingResolved { .. } => of("node", subject.node_id.as_deref().unwrap_or_default()),
        EventKind::ExecStopped { .. } | EventKind::ExecResumed { .. } | EventKind::ServerShutdown { .. } => {
            of("server", "countersign")
        }
    }
}

fn outcome_of(kind: &EventKind) -> AuditOutcome {
    match kind {
        EventKind::ExecDenied { .. } | EventKind::DocumentHeld { .. } => AuditOutcome::Denied,
        EventKind::NodePairingResolved { decision, .. } => match decision {
            PairingOutcome::Reject => AuditOutcome::Denied,
            PairingOutcome::Approve | PairingOutcome::Removed => AuditOutcome::Ok,
        },
        EventKind::ExecFinished(summary) if summary.status == RunStatus::Completed => AuditOutcome::Ok,
        EventKind::ExecFinished(_) | EventKind::ConfigRejected { .. } | EventKind::DocumentRefused { .. } => {
            AuditOutcome::Failed
        }
        EventKind::ApprovalResolved(resolution)
            if resolution.status != countersign_domain::ApprovalStatus::Allowed =>
        {
            AuditOutcome::Denied
        }
        EventKind::ApprovalResolved(_)
        | EventKind::ConfigRestartNeeded { .. }
        | EventKind::ApprovalVoted(_)
        | EventKind::ApprovalRequested { .. }
        | EventKind::ExecRequested { .. }
        | EventKind::ExecStarted { .. }
        | EventKind::ExecRunning { .. }
        | EventKind::AllowlistChanged { .. }
        | EventKind::PolicyChanged { .. }
        | EventKind::SessionChanged { .. }
        | EventKind::SystemEvent { .. }
        | EventKind::SessionWake { .. }
        | EventKind::NodeConnected { .. }
        | EventKind::NodeDisconnected { .. }
        | EventKind::NodePairingRequested(_)
        | EventKind::ExecStopped { .. }
        | EventKind::ExecResumed { .. }
        | EventKind::ServerShutdown { .. } => AuditOutcome::Ok,
    }
}
