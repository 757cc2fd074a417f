//! The record of what is written to a session: who, when, how much, its hash, and the text that its terminal shows anyway.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use countersign_domain::{Actor, hex};
use countersign_ledger::{
    ProcessSession,
    audit::{AuditAction, AuditOutcome, Entry, Target},
};
use countersign_policy::command::redaction;

use super::{ProcessError, Processes};

use crate::{live::Control, reply::StorageTrouble};

/// Most bytes of the text that are recorded.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// Something that is about to be written to a session.
pub(super) struct Written<'a> {
    pub(super) by: &'a Actor,
    pub(super) session: &'a ProcessSession,
    pub(super) bytes: &'a [u8],
    pub(super) ends: bool,
}

impl Processes {
    /// Records what is about to be written. Its text is recorded only while a terminal shows it: what is typed at a
    /// question for a password is not, and of a pipe nobody can say.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing may be handed to the command.
    pub(super) async fn record_input(
        &self,
        written: &Written<'_>,
        control: &Control,
    ) -> Result<(), ProcessError> {
        let is_shown = written.session.run.input.is_terminal() && control.echoes().await == Some(true);
        let text = is_shown.then(|| recorded_text(written.bytes));
        let entry = written.to_entry(AuditOutcome::Ok, text);
        self.ledger
            .append_audit_before(entry)
            .await
            .map_err(StorageTrouble::from)?;
        Ok(())
    }

    /// Records that the command did not take what was recorded.
    pub(super) async fn record_refused_input(&self, written: &Written<'_>) {
        if let Err(error) = self
            .ledger
            .append_audit(written.to_entry(AuditOutcome::Failed, None))
            .await
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "that a command did not take its input is not recorded"
            );
        }
    }
}

impl Written<'_> {
    fn to_entry(&self, outcome: AuditOutcome, text: Option<Recorded>) -> Entry {
        let mut detail = Map::new();
        let mut put = |name: &str, value: Value| {
            detail.insert(name.to_owned(), value);
        };
        put("sessionId", self.session.id.as_str().into());
        put(
            "bytes",
            u64::try_from(self.bytes.len()).unwrap_or(u64::MAX).into(),
        );
        put("sha256", hex(&Sha256::digest(self.bytes)).into());
        if self.ends {
            put("eof", true.into());
        }
        if let Some(Recorded { text, is_cut }) = text {
            put("text", text.into());
            if is_cut {
                put("textCut", true.into());
            }
        }
        Entry {
            actor: self.by.clone(),
            address: None,
            action: AuditAction::ProcessInput,
            target: Target {
                kind: "run".to_owned(),
                id: self.session.run.id.as_str().to_owned(),
            },
            outcome,
            detail,
        }
    }
}

/// What of a text is recorded.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    text: String,
    is_cut: bool,
}

/// The beginning of a text, masked like a command before it is cut: a part of a secret may not look like one.
fn recorded_text(bytes: &[u8]) -> Recorded {
    let source = String::from_utf8_lossy(bytes);
    let mut text = redaction::masked(&source);
    let is_cut = text.len() > MAX_TEXT_BYTES;
    if is_cut {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    }
    Recorded { text, is_cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_text_is_masked_and_then_cut() {
        let recorded = |text: &str| recorded_text(text.as_bytes());
        let whole = |text: &str| Recorded {
            text: text.to_owned(),
            is_cut: false,
        };
        assert_eq!(recorded("ls\n"), whole("ls\n"));
        assert_eq!(
            recorded("curl --token abcdef123 x\n"),
            whole("curl --token ⟨secret of 9 characters⟩ x\n")
        );
        let long = format!("{} --token abcdef123", "é".repeat(2_050));
        let Recorded { text, is_cut } = recorded(&long);
        assert!(is_cut && text.len() <= MAX_TEXT_BYTES && text.chars().all(|character| character == 'é'));
        assert_eq!(recorded_text(b"\xff"), whole("\u{fffd}"));
    }
}
