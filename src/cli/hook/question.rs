//! What an agent asks its hook about, in whichever format it came.

use serde_json::{Map, Value};

/// What is asked about.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Question {
    /// No command of a shell: none of our business.
    Other,
    Command(AskedCommand),
    /// A command of a kind that cannot be replaced.
    Unknown {
        /// The tool that would run it.
        tool: String,
    },
}

/// A command that an agent wants to run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AskedCommand {
    pub(super) command: CommandLine,
    pub(super) workdir: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) session: Option<String>,
    /// Why, in the agent's words.
    pub(super) justification: Option<String>,
    /// The members of the tool's input, which are kept but for the command.
    pub(super) input: Map<String, Value>,
}

/// Text for a shell, or a program with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CommandLine {
    Text(String),
    Argv(Vec<String>),
}

impl AskedCommand {
    /// A member of the tool's input as text; `None` where there is none, or one that is made of others.
    pub(super) fn input(&self, name: &str) -> Option<String> {
        match self.input.get(name)? {
            Value::String(text) => Some(text.clone()),
            value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}
