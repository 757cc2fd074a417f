//! The tools.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};

const EXEC: &str = "Run a command on a guarded host. Give `command` (shell text) or `argv` (a program and its \
arguments, no shell). Policy decides whether it runs, is denied, or waits for a person. Status `approval-pending`: \
nothing has run; show the link to the user, then call again with exactly the same arguments to get the result \
(`approvalWaitMs` makes a call wait for the answer). Denied: do not try to reach the same end another way; tell the user. \
Status `failed` means that the command ran and exited with another code than 0.";

const EXPLAIN: &str = "Say whether `exec` with these arguments would run, ask a person or be denied, and which rule says \
so. Nothing runs and nobody is asked.";

/// What a call can be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolName {
    /// Run a command.
    Exec,
    /// Say what would happen.
    Explain,
}

impl ToolName {
    const ALL: [Self; 2] = [Self::Exec, Self::Explain];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Explain => "exec_explain",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Exec => EXEC,
            Self::Explain => EXPLAIN,
        }
    }

    fn annotations(self) -> ToolAnnotations {
        match self {
            Self::Exec => ToolAnnotations::with_title("Run a command")
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(true),
            Self::Explain => ToolAnnotations::with_title("Explain a command")
                .read_only(true)
                .open_world(false),
        }
    }
}

/// All tools; they take the body of an exec call, whose schema is given.
pub(super) fn list(arguments: JsonObject) -> Vec<Tool> {
    let arguments = Arc::new(arguments);
    ToolName::ALL
        .into_iter()
        .map(|tool| {
            Tool::new(tool.as_str(), tool.description(), Arc::clone(&arguments))
                .with_annotations(tool.annotations())
        })
        .collect()
}
