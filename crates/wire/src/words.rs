//! Closed vocabularies as an answer has them: a server that is newer than its reader may know more words.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

pub type ActorKind = Word<countersign_domain::ActorKind>;
pub type ApprovalDecision = Word<countersign_domain::ApprovalDecision>;
pub type ApprovalStatus = Word<countersign_domain::ApprovalStatus>;
pub type Ask = Word<countersign_domain::Ask>;
pub type Backend = Word<countersign_domain::Backend>;
pub type ChangeKind = Word<countersign_protocol::patch::ChangeKind>;
pub type CommandInput = Word<countersign_domain::CommandInput>;
pub type DecidedBy = Word<countersign_domain::DecidedBy>;
pub type ElevatedLevel = Word<countersign_domain::ElevatedLevel>;
pub type Host = Word<countersign_domain::Host>;
pub type HostChoice = Word<countersign_domain::HostChoice>;
pub type Isolation = Word<countersign_domain::Isolation>;
pub type KernelPart = Word<countersign_domain::KernelPart>;
pub type Layer = Word<countersign_policy::layers::Layer>;
pub type OnMiss = Word<countersign_domain::OnMiss>;
pub type PairingKind = Word<countersign_domain::PairingKind>;
pub type PatternWidth = Word<countersign_domain::PatternWidth>;
pub type Pinning = Word<countersign_domain::Pinning>;
pub type ProcessStatus = Word<countersign_domain::ProcessStatus>;
pub type Reason = Word<countersign_domain::Reason>;
pub type RunVerdict = Word<countersign_domain::RunVerdict>;
pub type Scope = Word<countersign_domain::Scope>;
pub type ScriptHold = Word<countersign_domain::ScriptHold>;
pub type Security = Word<countersign_domain::Security>;
pub type TextStart = Word<countersign_domain::TextStart>;
pub type TerminalReason = Word<countersign_domain::TerminalReason>;

/// A word of the vocabulary `T`, or one that only a newer server knows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word<T> {
    Known(T),
    Other(String),
}

impl<T: Copy> Word<T> {
    /// The word, if it is known here.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Other(_) => None,
        }
    }
}

impl<T> From<T> for Word<T> {
    fn from(word: T) -> Self {
        Self::Known(word)
    }
}

impl<T: PartialEq> PartialEq<T> for Word<T> {
    fn eq(&self, word: &T) -> bool {
        matches!(self, Self::Known(known) if known == word)
    }
}

impl<T: fmt::Display> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(word) => word.fmt(f),
            Self::Other(text) => f.pad(text),
        }
    }
}

impl<T: PartialSchema> PartialSchema for Word<T> {
    fn schema() -> RefOr<Schema> {
        T::schema()
    }
}

impl<T: ToSchema> ToSchema for Word<T> {
    fn name() -> Cow<'static, str> {
        T::name()
    }
}

/// The status words of a run: several states of the ledger share one.
#[derive(Debug)]
pub enum RunStatusName {}

impl PartialSchema for RunStatusName {
    fn schema() -> RefOr<Schema> {
        let mut words = Vec::new();
        for status in countersign_domain::RunStatus::ALL {
            if !words.contains(&status.api_name()) {
                words.push(status.api_name());
            }
        }
        RefOr::T(
            countersign_domain::schema::text()
                .enum_values(Some(words))
                .build()
                .into(),
        )
    }
}

impl ToSchema for RunStatusName {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("RunStatus")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_of_a_newer_server_is_kept_as_it_is() {
        let read = |word: &str| serde_json::from_value::<Ask>(json!(word)).expect("a text");
        assert_eq!(read("always"), countersign_domain::Ask::Always);
        let newer = read("sometimes");
        assert_eq!(newer, Word::Other("sometimes".to_owned()));
        assert_eq!(newer.to_string(), "sometimes");
        assert_eq!(serde_json::to_value(newer).expect("a text"), json!("sometimes"));
    }
}
