//! What kind of promise an entry is (`docs/spec/approvals-store.md#generated-forms`;
//! `docs/spec/command-analysis.md#m4`, `docs/spec/command-analysis.md#m5`).

use super::{
    model::{Entry, Rule},
    text::{is_lower_hex, trim},
};

/// The word in `source` that marks an entry made by a decision.
pub(super) const ALLOW_ALWAYS: &str = "allow-always";

const COMMAND_MARKER: &str = "=command:";
const NODE_MARKER: &str = "=node-command:";
const BOUND_ARGUMENTS: &str = "sha256:cwd-argv:v1:";
const OLD_ARGUMENTS: &str = "sha256:argv:";

/// How an entry matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryForm<'a> {
    /// Exactly the command text with this digest.
    ExactText {
        /// The first 16 lower-case hex digits of the SHA-256 of the trimmed text.
        prefix: &'a str,
        /// The whole digest, where we wrote it; compared when present.
        sha256: Option<&'a str>,
    },
    /// A node command was allowed for good. Authorises nothing alone.
    NodeMarker,
    /// The pattern, and the directory and arguments with this digest (64 lower-case hex digits).
    Bound {
        /// Digest over directory and arguments.
        digest: &'a str,
    },
    /// The pattern, with an argument pattern unless any arguments will do.
    ByHand {
        /// An ECMAScript regular expression, searched for in the joined arguments.
        arguments: Option<&'a str>,
    },
    /// An entry that never matches, and why.
    Inert(Inert),
}

/// Why an entry never matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Inert {
    /// A marker that no decision made, or whose digest has the wrong form.
    #[error("a command marker needs source allow-always and 16 hex digits")]
    Marker,
    /// An argument hash that did not bind the directory.
    #[error("the argument hash is of an older form, which no longer matches")]
    OldHash,
    /// An argument hash of the wrong form.
    #[error("the argument hash is not 64 hex digits")]
    BadHash,
    /// Made by a decision, but bound to no directory and arguments.
    #[error("an allow-always entry must be bound to a directory and arguments")]
    Unbound,
}

impl Entry {
    /// Whether a decision made this entry.
    pub fn is_generated(&self) -> bool {
        self.source.as_deref() == Some(ALLOW_ALWAYS)
    }

    /// How the entry matches. Path and name patterns are checked by the matcher, not here.
    pub fn form(&self) -> EntryForm<'_> {
        let pattern = trim(&self.pattern);
        if let Some(prefix) = pattern.strip_prefix(COMMAND_MARKER) {
            return if self.is_generated() && is_lower_hex(prefix, 16) {
                EntryForm::ExactText {
                    prefix,
                    sha256: self.command_sha256.as_deref(),
                }
            } else {
                EntryForm::Inert(Inert::Marker)
            };
        }
        if let Some(digest) = pattern.strip_prefix(NODE_MARKER) {
            return if self.is_generated() && is_lower_hex(digest, 16) {
                EntryForm::NodeMarker
            } else {
                EntryForm::Inert(Inert::Marker)
            };
        }
        let arguments = self.arg_pattern().filter(|arguments| !arguments.is_empty());
        if let Some(digest) = arguments.and_then(|text| text.strip_prefix(BOUND_ARGUMENTS)) {
            return if is_lower_hex(digest, 64) {
                EntryForm::Bound { digest }
            } else {
                EntryForm::Inert(Inert::BadHash)
            };
        }
        if arguments.is_some_and(|text| text.starts_with(OLD_ARGUMENTS)) {
            return EntryForm::Inert(Inert::OldHash);
        }
        if self.is_generated() {
            return EntryForm::Inert(Inert::Unbound);
        }
        EntryForm::ByHand { arguments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, arg_pattern: Option<&str>, source: Option<&str>, expected: &EntryForm<'_>) {
        let entry = Entry {
            pattern: pattern.to_owned(),
            arg_pattern: arg_pattern.map(str::to_owned),
            source: source.map(str::to_owned),
            ..Entry::default()
        };
        assert_eq!(entry.form(), *expected);
    }

    #[test]
    fn forms_follow_the_contract() {
        let always = Some("allow-always");
        let digest = "ab".repeat(32);
        let bound = format!("sha256:cwd-argv:v1:{digest}");
        let exact = EntryForm::ExactText {
            prefix: "0123456789abcdef",
            sha256: None,
        };
        let by_hand = EntryForm::ByHand { arguments: None };
        check("=command:0123456789abcdef", None, always, &exact);
        check(" =command:0123456789abcdef ", None, always, &exact);
        check(
            "=command:0123456789abcdef",
            None,
            None,
            &EntryForm::Inert(Inert::Marker),
        );
        check(
            "=command:0123456789abcdef",
            None,
            Some("manual"),
            &EntryForm::Inert(Inert::Marker),
        );
        check(
            "=command:0123456789ABCDEF",
            None,
            always,
            &EntryForm::Inert(Inert::Marker),
        );
        check("=command:short", None, always, &EntryForm::Inert(Inert::Marker));
        check(
            "=node-command:fedcba9876543210",
            None,
            always,
            &EntryForm::NodeMarker,
        );
        check(
            "=node-command:fedcba9876543210",
            None,
            None,
            &EntryForm::Inert(Inert::Marker),
        );
        check(
            "/usr/bin/npm",
            Some(&bound),
            always,
            &EntryForm::Bound { digest: &digest },
        );
        check(
            "/usr/bin/npm",
            Some(&bound),
            None,
            &EntryForm::Bound { digest: &digest },
        );
        check(
            "/usr/bin/npm",
            Some("sha256:cwd-argv:v1:ab"),
            always,
            &EntryForm::Inert(Inert::BadHash),
        );
        check(
            "/usr/bin/make",
            Some("sha256:argv:cd"),
            always,
            &EntryForm::Inert(Inert::OldHash),
        );
        check(
            "/usr/bin/make",
            Some("sha256:argv:cd"),
            None,
            &EntryForm::Inert(Inert::OldHash),
        );
        check("/usr/bin/cargo", None, always, &EntryForm::Inert(Inert::Unbound));
        check(
            "/usr/bin/cargo",
            Some("^build$"),
            always,
            &EntryForm::Inert(Inert::Unbound),
        );
        check("rg", None, Some("manual"), &by_hand);
        check("rg", Some(""), None, &by_hand);
        check(
            "/usr/bin/python3",
            Some("^safe\\.py$"),
            None,
            &EntryForm::ByHand {
                arguments: Some("^safe\\.py$"),
            },
        );
    }
}
