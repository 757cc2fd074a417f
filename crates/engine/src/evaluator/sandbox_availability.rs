//! Whether there is a sandbox for a call: what was seen of it, and why there is none, in words.

use countersign_config::settings::{SandboxMode, Settings};
use countersign_domain::{AgentId, Backend, SessionKey};
use countersign_hosts::sandbox::Unusable;
use countersign_policy::host::Sandbox;

use crate::{hint::hint, reply::ExecError};

/// What was seen of the sandbox when a call was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SandboxAvailability {
    /// Nothing: it does not matter for the call.
    Unseen,
    Usable(Backend),
    /// Why there is none.
    Unusable(Unusable),
}

impl SandboxAvailability {
    /// Whether a sandbox is active for a session.
    pub(crate) fn of_session(&self, agent: &AgentId, session: &SessionKey, settings: &Settings) -> Sandbox {
        match self {
            Self::Usable(_) if settings.policy.sandbox(agent).includes(agent, session) => Sandbox::Active,
            Self::Usable(_) | Self::Unseen | Self::Unusable(_) => Sandbox::Inactive,
        }
    }
}

/// No sandbox is active for a session, and `key` asks for one.
pub(crate) fn no_sandbox(
    key: &str,
    agent: &AgentId,
    session: &SessionKey,
    settings: &Settings,
    availability: &SandboxAvailability,
) -> ExecError {
    let key = if key == "call" { "the call's host" } else { key };
    let (why, hint) = match (mode_leaves_out(agent, session, settings), availability) {
        (Some(why), _) => (
            why,
            hint(&["config", "set", "agents.defaults.sandbox.mode", "all"]),
        ),
        (None, SandboxAvailability::Unusable(unusable)) => (unusable.to_string(), hint(&["doctor"])),
        (None, SandboxAvailability::Unseen | SandboxAvailability::Usable(_)) => {
            ("nobody looked whether there is one".to_owned(), hint(&["doctor"]))
        }
    };
    ExecError::SandboxUnavailable {
        detail: format!(
            "{key} asks for a sandbox, and none is active: {why}; tools.exec.host gateway does without one"
        ),
        hint,
    }
}

/// Why the mode gives a session no sandbox, if it does not.
pub(crate) fn mode_leaves_out(agent: &AgentId, session: &SessionKey, settings: &Settings) -> Option<String> {
    let sandbox = settings.policy.sandbox(agent);
    if sandbox.includes(agent, session) {
        return None;
    }
    Some(match sandbox.mode {
        Some(SandboxMode::NonMain) => {
            format!("agents.*.sandbox.mode is non-main, and {session} is the main session of {agent}")
        }
        Some(SandboxMode::Off | SandboxMode::All) | None => {
            format!("agents.*.sandbox.mode is off for {agent}")
        }
    })
}
