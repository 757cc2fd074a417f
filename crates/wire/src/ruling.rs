//! Who decided about a run, and what to tell the model that asked for it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{Reason, ReasonClass, Ruling, Run, RunStatus};

use crate::words::DecidedBy;

/// Who decided about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RunDecidedBy)]
pub struct RulingBody {
    pub kind: DecidedBy,
    /// The person, as the record names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl RulingBody {
    /// `None` while nobody has decided.
    pub fn of(ruling: Ruling) -> Option<Self> {
        Some(Self {
            kind: ruling.by?.into(),
            name: ruling.name,
        })
    }
}

/// What a model is told while everything is stopped.
pub const STOPPED: &str = "The user stopped everything: nothing runs until they resume it.";

/// How a run ended, as one sentence for the model that asked for it. The words of a person are quoted, and no other words in it
/// are theirs.
pub fn agent_message(run: &Run, ruling: &Ruling) -> String {
    match run.status {
        RunStatus::Denied if run.reason == Some(Reason::AgentMuted) => muted(run.detail.as_deref()),
        RunStatus::Denied => denied(run.reason, ruling),
        RunStatus::Completed => "The command ran and exited with code 0.".to_owned(),
        RunStatus::Failed => failed(run),
        RunStatus::Cancelled => "The command was cancelled.".to_owned(),
        RunStatus::Lost => {
            "What became of the command is unknown: look at what it changed before you run it again."
                .to_owned()
        }
        RunStatus::Requested | RunStatus::Asking | RunStatus::Launching | RunStatus::Running => {
            "The command has not ended.".to_owned()
        }
    }
}

/// The record says until when, and quotes what the person said.
fn muted(detail: Option<&str>) -> String {
    let until = detail.map(|detail| format!(" ({})", detail.replace(char::is_control, " ")));
    format!(
        "Nobody is asked about your commands for a while, and those that need an answer are denied{}: do what needs none, or wait.",
        until.unwrap_or_default()
    )
}

fn failed(run: &Run) -> String {
    match (run.timed_out, run.exit_code, &run.exit_signal) {
        (true, _, _) => "The command was ended by its time limit.".to_owned(),
        (false, Some(code), _) => format!("The command ran and exited with code {code}."),
        (false, None, Some(signal)) => format!("The command was ended by {signal}."),
        (false, None, None) => "The command could not be started.".to_owned(),
    }
}

fn denied(reason: Option<Reason>, ruling: &Ruling) -> String {
    let said = match reason {
        Some(Reason::UserDenied) => match &ruling.reason {
            Some(words) => {
                // It ends where the quote does.
                let words = words
                    .replace(char::is_control, " ")
                    .replace(['\u{201c}', '\u{201d}'], "\"");
                return format!("The user denied the command and said: \u{201c}{words}\u{201d}");
            }
            None => "The user denied the command: do not run it again unless they ask for it.",
        },
        Some(Reason::Stopped) => STOPPED,
        Some(Reason::ApprovalTimeout) => {
            "Nobody answered in time, so the command did not run: tell the user before you try again."
        }
        Some(Reason::NoApprover) => {
            "Nobody could be asked, so the command did not run: tell the user before you try again."
        }
        Some(Reason::ProgramNotFound) => "The program was not found, so nothing ran.",
        Some(Reason::Preflight) => "The script did not pass its check, so nothing ran.",
        Some(reason) => match reason.class() {
            ReasonClass::Closed | ReasonClass::Rule => {
                "Policy forbids the command: do not try it in another form."
            }
            ReasonClass::Miss => "Policy does not allow the command and nobody is asked: tell the user.",
            ReasonClass::Person | ReasonClass::Unanswered => "The command was not allowed, so nothing ran.",
            ReasonClass::Changed => "What would run changed after it was allowed, so nothing ran: ask again.",
            ReasonClass::Refused | ReasonClass::Failed | ReasonClass::Lost | ReasonClass::Cancelled => {
                "The command was refused, so nothing ran."
            }
        },
        None => "The command was refused, so nothing ran.",
    };
    said.to_owned()
}
