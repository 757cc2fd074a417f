//! What a sandbox is made of, in the words that both backends take.

use std::path::PathBuf;

use serde::Serialize;

use countersign_config::settings::DockerSettings;

/// One sandbox: who shares it, what it sees, what it may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Enclosure {
    /// Who shares it, as [`scope_key`](super::scope_key) spells it. Two calls with the same key share one sandbox.
    pub scope_key: String,
    /// Name of its container, and of its workspace directory: the prefix of the settings and a readable form of the
    /// key that is unlike that of every other key.
    pub name: String,
    /// The directory of the host that is at the workdir inside.
    pub workspace: PathBuf,
    /// Whether that can be written inside.
    pub workspace_writable: bool,
    /// The agent's workspace, where it is seen beside that of the sandbox.
    pub agent_workspace: Option<AgentWorkspace>,
    /// What the sandbox is made of; a change makes it another sandbox.
    pub settings: DockerSettings,
}

/// The workspace of an agent that its sandbox may read only (`workspaceAccess: "ro"`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentWorkspace {
    /// Its path on the host.
    pub host: PathBuf,
    /// Its path inside: `/agent`.
    pub inside: PathBuf,
}

/// One command inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// What is started: a program of the sandbox by name or path with all arguments, or text for `sh -lc`.
    pub command: InsideCommand,
    /// Where, absolute, as it is called inside.
    pub cwd: PathBuf,
    /// Variables besides those of the sandbox. `PATH` is not among them.
    pub env: Vec<(String, String)>,
    /// What comes before the `PATH` that the login profile made, as one value; never part of a shell text.
    pub path_prepend: Option<String>,
}

/// What is started inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InsideCommand {
    /// A program with its arguments, the program included. Never empty.
    Argv(Vec<String>),
    /// Text for `sh -lc`.
    Shell(String),
}

/// A backend cannot be used here, in words for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub String);
