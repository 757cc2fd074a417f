//! What agents send to their hooks and expect back.
//!
//! Claude Code and Codex send a `PreToolUse` event and read `hookSpecificOutput`; exit code 2 with a message on
//! standard error stops the tool, any other failure of a hook does not. Gemini CLI has the same with a `BeforeTool` event,
//! names of its own, and the decision beside `hookSpecificOutput`. The generic form is ours.

use std::{fmt, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use countersign_domain::Justification;

use super::{
    question::{AskedCommand, CommandLine, Question},
    replacement::Replacement,
};
use crate::cli::{exit::ExitStatus, failure::Failure};

/// Whose format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// `PreToolUse` hooks of Claude Code
    ClaudeCode,
    /// `PreToolUse` hooks of Codex
    Codex,
    /// `BeforeTool` hooks of Gemini CLI
    Gemini,
    /// The generic form, for everything else
    Json,
}

/// What the agent is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    /// Nothing: it goes its own way.
    Nothing,
    Replace(Replacement),
    /// Do not run it.
    Deny(Denial),
    /// Ask your own user.
    AskThere(Denial),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Denial {
    pub(super) code: String,
    pub(super) detail: String,
    pub(super) hint: Option<String>,
}

/// What is written, and how the process ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) output: Option<Value>,
    pub(super) exit: ExitStatus,
}

#[derive(Deserialize)]
struct ToolEvent {
    hook_event_name: String,
    tool_name: String,
    tool_input: Map<String, Value>,
    cwd: Option<String>,
    session_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GenericQuestion {
    command: Option<String>,
    argv: Option<Vec<String>>,
    workdir: Option<String>,
    agent_id: Option<String>,
    session_key: Option<String>,
    justification: Option<String>,
}

/// What an agent says about its command, as far as it can be shown.
fn said(text: &str) -> Option<String> {
    Justification::of_any(text).map(|said| said.as_str().to_owned())
}

impl Format {
    pub(super) fn question(self, bytes: &[u8]) -> Result<Question, Failure> {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini => self.tool_question(parse(bytes)?),
            Self::Json => generic_question(parse(bytes)?),
        }
    }

    pub(super) fn reply(self, asked: Option<&AskedCommand>, decision: Decision) -> Reply {
        match self {
            Self::ClaudeCode | Self::Codex => self.tool_reply(asked, decision),
            Self::Gemini => gemini_reply(decision),
            Self::Json => generic_reply(decision),
        }
    }

    fn tool_question(self, event: ToolEvent) -> Result<Question, Failure> {
        let ToolEvent {
            hook_event_name,
            tool_name,
            tool_input,
            cwd,
            session_id,
        } = event;
        let expected = self.event();
        if hook_event_name != expected {
            return Err(Failure::usage(format!(
                "this hook answers {expected} events; register it for these alone"
            )));
        }
        if tool_name != self.shell() {
            let is_command = self.runs_commands().contains(&tool_name.as_str());
            return Ok(if is_command {
                Question::Unknown { tool: tool_name }
            } else {
                Question::Other
            });
        }
        let Some(Value::String(text)) = tool_input.get("command") else {
            return Err(Failure::usage("tool_input.command is missing or no text"));
        };
        Ok(Question::Command(AskedCommand {
            command: CommandLine::Text(text.clone()),
            workdir: match self {
                Self::Gemini => below(cwd, &tool_input)?,
                Self::ClaudeCode | Self::Codex | Self::Json => cwd,
            },
            agent: None,
            session: session_id.map(|id| format!("{}:{id}", self.session_prefix())),
            justification: tool_input
                .get("description")
                .and_then(Value::as_str)
                .and_then(said),
            input: tool_input,
        }))
    }

    /// The event that comes before a tool.
    const fn event(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Json => "PreToolUse",
            Self::Gemini => "BeforeTool",
        }
    }

    /// The tool that runs commands of a shell.
    pub(super) const fn shell(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Json => "Bash",
            Self::Gemini => "run_shell_command",
        }
    }

    /// Other tools that run commands.
    const fn runs_commands(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &["PowerShell", "Monitor"],
            Self::Codex => &[
                "shell",
                "local_shell",
                "shell_command",
                "exec_command",
                "unified_exec",
                "write_stdin",
            ],
            Self::Gemini | Self::Json => &[],
        }
    }

    const fn session_prefix(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Json => "hook",
        }
    }

    fn tool_reply(self, asked: Option<&AskedCommand>, decision: Decision) -> Reply {
        let (word, reason, updated) = match decision {
            Decision::Nothing => {
                return Reply {
                    output: None,
                    exit: ExitStatus::SUCCESS,
                };
            }
            Decision::Replace(replacement) => {
                let mut input = asked.map(|asked| asked.input.clone()).unwrap_or_default();
                input.insert("command".to_owned(), json!(replacement.to_shell_text()));
                ("allow", "countersign runs it".to_owned(), Some(input))
            }
            // Codex knows no such answer and lets the command through on one that it does not know.
            Decision::AskThere(denial) if self == Self::ClaudeCode => ("ask", denial.to_string(), None),
            Decision::AskThere(denial) | Decision::Deny(denial) => ("deny", denial.to_string(), None),
        };
        let mut output = json!({
            "hookEventName": "PreToolUse", "permissionDecision": word, "permissionDecisionReason": reason,
        });
        if let (Some(updated), Some(members)) = (updated, output.as_object_mut()) {
            members.insert("updatedInput".to_owned(), Value::Object(updated));
        }
        Reply {
            output: Some(json!({"hookSpecificOutput": output})),
            exit: ExitStatus::SUCCESS,
        }
    }
}

/// Where a command of Gemini CLI runs: its `dir_path`, which older versions call `directory`, is relative to the project.
fn below(cwd: Option<String>, input: &Map<String, Value>) -> Result<Option<String>, Failure> {
    let directory = match input.get("dir_path").or_else(|| input.get("directory")) {
        None | Some(Value::Null) => return Ok(cwd),
        Some(Value::String(directory)) if directory.is_empty() => return Ok(cwd),
        Some(Value::String(directory)) => directory,
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(Failure::usage("tool_input.dir_path is no text"));
        }
    };
    let path = match &cwd {
        Some(cwd) => Path::new(cwd).join(directory),
        None => Path::new(directory).to_owned(),
    };
    if !path.is_absolute() {
        return Err(Failure::usage(
            "tool_input.dir_path is relative and there is no cwd",
        ));
    }
    // Both parts are text, so this is.
    Ok(path.to_str().map(str::to_owned))
}

fn gemini_reply(decision: Decision) -> Reply {
    let output = match decision {
        Decision::Nothing => None,
        // Merged into the tool's input.
        Decision::Replace(replacement) => Some(json!({
            "decision": "allow",
            "hookSpecificOutput": {
                "hookEventName": "BeforeTool", "tool_input": {"command": replacement.to_shell_text()},
            },
        })),
        Decision::AskThere(denial) | Decision::Deny(denial) => {
            Some(json!({"decision": "deny", "reason": denial.to_string()}))
        }
    };
    Reply {
        output,
        exit: ExitStatus::SUCCESS,
    }
}

fn generic_question(question: GenericQuestion) -> Result<Question, Failure> {
    let GenericQuestion {
        command,
        argv,
        workdir,
        agent_id,
        session_key,
        justification,
    } = question;
    let command = match (command, argv) {
        (Some(text), None) => CommandLine::Text(text),
        (None, Some(argv)) => CommandLine::Argv(argv),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Failure::usage("exactly one of command and argv is needed"));
        }
    };
    Ok(Question::Command(AskedCommand {
        command,
        workdir,
        agent: agent_id,
        session: session_key,
        justification: justification.as_deref().and_then(said),
        input: Map::new(),
    }))
}

fn generic_reply(decision: Decision) -> Reply {
    let (output, exit) = match decision {
        Decision::Nothing => (json!({"decision": "none"}), ExitStatus::SUCCESS),
        Decision::Replace(replacement) => (
            json!({
                "decision": "replace", "argv": replacement.argv(), "command": replacement.to_shell_text(),
            }),
            ExitStatus::SUCCESS,
        ),
        Decision::AskThere(denial) => (refusal("ask", denial), ExitStatus::BLOCKS),
        Decision::Deny(denial) => (refusal("deny", denial), ExitStatus::BLOCKS),
    };
    Reply {
        output: Some(output),
        exit,
    }
}

fn refusal(word: &str, denial: Denial) -> Value {
    let Denial { code, detail, hint } = denial;
    let mut output = json!({"decision": word, "code": code, "detail": detail});
    if let (Some(hint), Some(members)) = (hint, output.as_object_mut()) {
        members.insert("hint".to_owned(), json!(hint));
    }
    output
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::usage(format!("standard input is not as expected: {error}")))
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "countersign: {} ({})", self.detail, self.code)?;
        if let Some(hint) = &self.hint {
            write!(f, "; the operator of countersign could change that: {hint}")?;
        }
        Ok(())
    }
}

impl From<Failure> for Denial {
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.code,
            detail: failure.message,
            hint: failure.hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tool: &str, input: &Value) -> Vec<u8> {
        let event = json!({
            "session_id": "s1", "transcript_path": "/t", "cwd": "/work", "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input, "tool_use_id": "toolu_1",
        });
        event.to_string().into_bytes()
    }

    fn denial() -> Denial {
        Denial {
            code: "exec-denied".to_owned(),
            detail: "allowlist-miss".to_owned(),
            hint: None,
        }
    }

    #[test]
    fn only_commands_are_our_business() {
        for format in [Format::ClaudeCode, Format::Codex] {
            for tool in ["Edit", "Write", "WebFetch", "Read", "mcp__countersign__exec"] {
                let question = format
                    .question(&event(tool, &json!({"file_path": "/x"})))
                    .unwrap();
                assert_eq!(question, Question::Other, "{tool}");
            }
        }
        let monitor = Format::ClaudeCode.question(&event("Monitor", &json!({"command": "ls"})));
        assert_eq!(
            monitor.unwrap(),
            Question::Unknown {
                tool: "Monitor".to_owned()
            }
        );
    }

    #[test]
    fn what_cannot_be_read_is_a_failure() {
        for (format, input) in [
            (Format::ClaudeCode, &b""[..]),
            (Format::ClaudeCode, b"[]"),
            (Format::ClaudeCode, b"{\"tool_name\":\"Bash\"}"),
            (Format::ClaudeCode, &event("Bash", &json!({}))),
            (Format::ClaudeCode, &event("Bash", &json!({"command": ["ls"]}))),
            (
                Format::Codex,
                b"{\"hook_event_name\":\"PostToolUse\",\"tool_name\":\"Bash\",\"tool_input\":{}}",
            ),
            (Format::Json, b"{}"),
            (Format::Json, b"{\"command\":\"a\",\"argv\":[\"a\"]}"),
            (Format::Json, b"{\"comand\":\"a\"}"),
        ] {
            assert!(
                format.question(input).is_err(),
                "{}",
                String::from_utf8_lossy(input)
            );
        }
    }

    #[test]
    fn a_replacement_keeps_the_other_members_of_the_tools_input() {
        let input =
            json!({"command": "ls", "description": "list", "timeout": 5000, "run_in_background": true});
        let Ok(Question::Command(asked)) = Format::ClaudeCode.question(&event("Bash", &input)) else {
            panic!("a command");
        };
        assert_eq!(asked.session.as_deref(), Some("claude-code:s1"));
        let replacement = Replacement::new("/bin/countersign", &[], &asked, "k");
        let reply = Format::ClaudeCode.reply(Some(&asked), Decision::Replace(replacement.clone()));
        assert_eq!(
            reply.output.unwrap(),
            json!({"hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "allow",
                "permissionDecisionReason": "countersign runs it",
                "updatedInput": {"command": replacement.to_shell_text(), "description": "list", "timeout": 5000,
                    "run_in_background": true},
            }})
        );
    }

    #[test]
    fn gemini_has_names_of_its_own() {
        let ask = |input: Value| {
            let event = json!({
                "session_id": "s1", "transcript_path": "/t", "cwd": "/work", "timestamp": "2026-01-01T00:00:00Z",
                "hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": input,
            });
            Format::Gemini.question(event.to_string().as_bytes())
        };
        for (input, workdir) in [
            (json!({"command": "ls"}), "/work"),
            (json!({"command": "ls", "dir_path": "sub"}), "/work/sub"),
            (json!({"command": "ls", "directory": "/else"}), "/else"),
            (json!({"command": "ls", "dir_path": ""}), "/work"),
        ] {
            let Ok(Question::Command(asked)) = ask(input.clone()) else {
                panic!("a command: {input}");
            };
            assert_eq!(asked.workdir.as_deref(), Some(workdir), "{input}");
            assert_eq!(asked.session.as_deref(), Some("gemini:s1"));
            let replacement = Replacement::new("/bin/countersign", &[], &asked, "k");
            let reply = Format::Gemini.reply(Some(&asked), Decision::Replace(replacement.clone()));
            assert_eq!(
                reply.output.unwrap(),
                json!({"decision": "allow", "hookSpecificOutput": {
                    "hookEventName": "BeforeTool", "tool_input": {"command": replacement.to_shell_text()},
                }})
            );
        }
        assert!(ask(json!({"command": "ls", "dir_path": 7})).is_err());
        let of_another = event("Bash", &json!({"command": "ls"}));
        assert!(Format::Gemini.question(&of_another).is_err());
    }

    #[test]
    fn no_is_said_in_the_way_of_each_agent() {
        let word = |format: Format, decision: Decision| {
            let reply = format.reply(None, decision);
            let output = reply.output.unwrap();
            let word = output
                .pointer("/hookSpecificOutput/permissionDecision")
                .or_else(|| output.get("decision"));
            (word.unwrap().as_str().unwrap().to_owned(), reply.exit)
        };
        let deny = |format| word(format, Decision::Deny(denial()));
        let ask = |format| word(format, Decision::AskThere(denial()));
        assert_eq!(deny(Format::ClaudeCode), ("deny".to_owned(), ExitStatus::SUCCESS));
        assert_eq!(deny(Format::Codex), ("deny".to_owned(), ExitStatus::SUCCESS));
        assert_eq!(deny(Format::Gemini), ("deny".to_owned(), ExitStatus::SUCCESS));
        assert_eq!(deny(Format::Json), ("deny".to_owned(), ExitStatus::BLOCKS));
        assert_eq!(ask(Format::ClaudeCode).0, "ask");
        assert_eq!(ask(Format::Codex).0, "deny");
        assert_eq!(ask(Format::Gemini).0, "deny");
        assert_eq!(ask(Format::Json), ("ask".to_owned(), ExitStatus::BLOCKS));
    }
}
