//! One thing that is wrong or risky.

use std::path::PathBuf;

use countersign_domain::vocabulary;

vocabulary! {
    /// How bad a finding is, from least to most.
    pub enum Severity("info, warning or error") {
        /// Worth knowing.
        Info = "info",
        /// Risky, or not doing what one may think.
        Warning = "warning",
        /// Wrong: something does not work, or is not protected.
        Error = "error",
    }
}

/// One thing that is wrong or risky.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable id, kebab-case.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The key or file it is about.
    pub key: String,
    /// What is the matter, in words.
    pub explanation: String,
    /// The exact key or command that fixes it.
    pub fix: String,
    /// What `doctor --fix` can do about it by itself.
    pub repair: Option<Repair>,
}

/// What is untidy or stands in the way of work, and lets nothing happen that should not.
const HOUSEKEEPING: &[&str] = &[
    "disk-nearly-full",
    "document-missing",
    "few-open-files",
    "grant-expired",
    "grant-used-up",
    "node-identity-beside",
    "questions-need-a-connected-approver",
    "rule-confine-idle",
    "rule-confine-not-understood",
    "rule-denied",
    "rule-missing-file",
    "rule-never-matches",
    "rule-shadowed",
    "rules-more",
    "sandbox-key-ignored",
    "sandbox-unavailable",
    "server-left",
    "setting-ignored",
    "state-dir-missing",
];

impl Finding {
    /// Whether an audit of the security names it: every error, and every other finding that may let more happen than it
    /// should.
    pub fn is_risk(&self) -> bool {
        self.severity == Severity::Error || !HOUSEKEEPING.contains(&self.id)
    }
}

/// A repair that loses nothing and loosens nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// Give a file or directory of ours this mode.
    SetMode {
        /// An existing file or directory; a link is followed.
        path: PathBuf,
        /// The permission bits to set, such as 0o600.
        mode: u32,
    },
    /// Say in `openclaw.json` that a safe bin takes no arguments, where it was refused for saying nothing about them
    /// (`docs/spec/command-analysis.md#8-safe-bins`).
    Scaffold {
        /// The safe bin; it gets an empty `tools.exec.safeBinProfiles.NAME`.
        name: String,
    },
    /// Remove the lock of the approvals document if the process that it names is still dead
    /// (`docs/spec/approvals-store.md#10-writing`: an operator's command only).
    Unlock {
        /// The approvals document, not its lock.
        document: PathBuf,
    },
    /// Remove a file that a server which is gone left behind.
    Remove {
        /// The stale `server.json`.
        path: PathBuf,
    },
}
