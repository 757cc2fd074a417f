//! Effective values as doctor and the API list them.

use std::path::PathBuf;

use serde_json::Value;

use super::Source;

/// Whether a key does something in this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Setting it changes what the server does.
    Now,
    /// Its part of the product is not there yet; the value is checked and kept.
    Later,
}

/// One key with the value that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveValue {
    /// The key: `http.listen`, `tools.exec.ask`, `agents.entries.build.tools.exec.ask`.
    pub key: String,
    /// Its value; `null` when unset. Secrets are replaced by `(secret)`.
    pub value: Value,
    /// Who set the value.
    pub source: Source,
    /// The value it would have otherwise.
    pub default: Value,
    /// Whether it does something in this version.
    pub effective_now: bool,
}

/// A value of `countersign.toml` that differs from the one in force.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingValue {
    /// The key, such as `http.listen`.
    pub key: String,
    /// What the file says; `null` for unset, and `true` in place of a secret or of its end.
    pub value: Value,
    /// What it waits for.
    pub waits_for: WaitsFor,
}

/// What a value waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// A restart of the server.
    Restart,
    /// An admin who accepts the edit of its file. What the edit forbids is in force before that.
    Acceptance,
    /// Another content of its file: an admin rejected this one, which is never in force, after a restart neither.
    Change,
}

impl WaitsFor {
    /// As the API says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Acceptance => "acceptance",
            Self::Change => "change",
        }
    }
}

/// The directories that values may refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) home: Option<PathBuf>,
    pub(super) state: PathBuf,
}
