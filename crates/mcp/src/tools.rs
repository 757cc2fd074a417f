//! The tools.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};

/// The JSON schemas of what the tools take.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolArguments {
    /// The body of an exec call.
    pub exec: JsonObject,
    /// The body of a call of the process tool.
    pub process: JsonObject,
    /// The body of a call of the patch tool.
    pub patch: JsonObject,
    /// Where a command runs whose call names no `workdir`; the agent's workspace where this is `None`.
    pub workdir: Option<String>,
}

const EXEC: &str = "Run a command on a guarded host. Give `command` (shell text) or `argv` (a program and its \
arguments, no shell). Policy decides whether it runs, is denied, or waits for a person. Status `approval-pending`: \
nothing has run; show the link to the user, then call again with exactly the same arguments to get the result \
(`approvalWaitMs` makes a call wait for the answer). Denied: do not try to reach the same end another way; tell the user. \
Status `failed` means that the command ran and exited with another code than 0.";

const PROCESS: &str = "Look after commands that went on in the background (status `running` of `exec`). `list` shows the \
sessions; `poll` gives the output since the last poll and can wait for more (`timeout`, milliseconds); `log` pages through \
all of it; `write` gives text to the standard input of a command that was started with `background` or `pty`, with `eof` \
its end, unless the answer of `exec` had `inputClosed: true` (then it is refused with `input-closed`); `send-keys`, `submit` and `paste` are for terminals; `kill` ends a session, `clear` forgets one that has ended, \
`remove` does both. All but `list` need `sessionId`.";

const EXPLAIN: &str = "Say whether `exec` with these arguments would run, ask a person or be denied, and which rule says \
so. Nothing runs and nobody is asked.";

const APPLY_PATCH: &str = "Change files of the workspace by a patch, all of it or nothing. `input` is the full patch: a line \
`*** Begin Patch`, then operations, then a line `*** End Patch`. Operations: `*** Add File: PATH` and lines that begin with \
`+`; `*** Delete File: PATH`; `*** Update File: PATH`, optionally `*** Move to: PATH`, and hunks: `@@` or `@@ LINE` with a line \
of the file that comes before, then lines that begin with a space (stay), `-` (go) or `+` (come), optionally `*** End of File`. \
Paths are relative to the workspace. Policy decides whether it is applied, is denied, or waits for a person, as with `exec`. \
Error `patch-failed`: nothing was changed; `path` and `hunk` say what does not fit.";

/// What a call can be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolName {
    /// Do something that policy decides about.
    Asking(AskingTool),
    /// Look after what runs in the background.
    Process,
    /// Say what would happen.
    Explain,
}

/// A tool whose calls may wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskingTool {
    /// Run a command: `exec`.
    Exec,
    /// Apply a patch: `apply_patch`.
    ApplyPatch,
}

impl AskingTool {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::ApplyPatch => "apply_patch",
        }
    }
}

impl ToolName {
    const ALL: [Self; 4] = [
        Self::Asking(AskingTool::Exec),
        Self::Process,
        Self::Asking(AskingTool::ApplyPatch),
        Self::Explain,
    ];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Asking(tool) => tool.as_str(),
            Self::Process => "process",
            Self::Explain => "exec_explain",
        }
    }

    /// What an agent is told about it, and where its calls happen unless they say otherwise.
    fn description(self, workdir: Option<&str>) -> String {
        let text = self.text();
        match (self, workdir) {
            (Self::Asking(AskingTool::Exec), Some(workdir)) => format!(
                "{text} Without `workdir` it runs in {workdir}, or in the agent's workspace where the host has no such \
                 directory."
            ),
            (Self::Asking(AskingTool::Exec), None) => {
                format!("{text} Without `workdir` it runs in the agent's workspace.")
            }
            (Self::Explain, Some(_)) => {
                format!("{text} Without `workdir` it is about the directory of `exec`.")
            }
            (Self::Process | Self::Asking(AskingTool::ApplyPatch), Some(_)) | (_, None) => text.to_owned(),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Asking(AskingTool::Exec) => EXEC,
            Self::Asking(AskingTool::ApplyPatch) => APPLY_PATCH,
            Self::Process => PROCESS,
            Self::Explain => EXPLAIN,
        }
    }

    fn annotations(self) -> ToolAnnotations {
        match self {
            Self::Asking(AskingTool::Exec) => ToolAnnotations::with_title("Run a command")
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(true),
            Self::Process => ToolAnnotations::with_title("Look after background commands")
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(true),
            Self::Asking(AskingTool::ApplyPatch) => ToolAnnotations::with_title("Change files")
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(false),
            Self::Explain => ToolAnnotations::with_title("Explain a command")
                .read_only(true)
                .open_world(false),
        }
    }
}

/// All tools with what they take.
pub(super) fn list(arguments: ToolArguments) -> Vec<Tool> {
    let ToolArguments {
        exec,
        process,
        patch,
        workdir,
    } = arguments;
    let (exec, process, patch) = (Arc::new(exec), Arc::new(process), Arc::new(patch));
    ToolName::ALL
        .into_iter()
        .map(|tool| {
            let arguments = match tool {
                ToolName::Asking(AskingTool::Exec) | ToolName::Explain => &exec,
                ToolName::Asking(AskingTool::ApplyPatch) => &patch,
                ToolName::Process => &process,
            };
            let description = tool.description(workdir.as_deref());
            Tool::new(tool.as_str(), description, Arc::clone(arguments)).with_annotations(tool.annotations())
        })
        .collect()
}
