//! What an `allow-always` would remember of a command.

use serde::{Deserialize, Serialize};

use super::{GrantLimits, vocabulary};

vocabulary! {
    /// How much a remembered pattern would allow later.
    pub enum PatternWidth("exact, arguments or program") {
        /// The same program with the same arguments in the same directory.
        Exact = "exact",
        /// The program with arguments of a form.
        Arguments = "arguments",
        /// The program with any arguments.
        Program = "program",
    }
}

/// An entry that `allow-always` could store (`docs/spec/http-api.md#pattern-object`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pattern {
    /// Index of the top-level segment it comes from.
    pub segment: usize,
    /// The entry's pattern.
    pub pattern: String,
    /// The entry's argument pattern.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arg_pattern: Option<String>,
    /// The entry's source mark.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
    /// How wide it is.
    pub width: PatternWidth,
    /// Whether a bare `allow-always` stores it; only `exact` ones.
    pub default: bool,
    /// The form of the arguments in words, of one of the width `arguments`: `git push origin *`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shape: Option<String>,
    /// What limits it. With any limit it is stored as a grant.
    #[serde(skip_serializing_if = "GrantLimits::is_none", default)]
    pub limits: GrantLimits,
}
