//! The commands that stand in transcripts of agents, as each agent writes them. Pure: from one JSON value to commands.
//!
//! An agent may write more than is read here, and a newer version otherwise: what has another form is passed over. Entry
//! point: [`Reader::read`].

use serde_json::Value;

use countersign_domain::{Command, UnixMillis};

/// Whose transcript it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    ClaudeCode,
    Codex,
    Gemini,
    OpenClaw,
    /// Any of them, or a line with a member `command`.
    Any,
}

/// A command as an agent issued it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issued {
    /// By which the same call is found again, where the agent writes a message several times.
    pub(super) id: Option<String>,
    pub(super) command: Command,
    /// Where it was to start, as the agent wrote it.
    pub(super) cwd: Option<String>,
    pub(super) at: Option<UnixMillis>,
}

/// Reads the values of one transcript, in their order.
#[derive(Debug)]
pub(super) struct Reader {
    form: Form,
    /// The directory that the transcript named last.
    cwd: Option<String>,
}

impl Reader {
    pub(super) const fn new(form: Form) -> Self {
        Self { form, cwd: None }
    }

    /// The commands of one line, or of a transcript that is one value.
    pub(super) fn read(&mut self, value: &Value) -> Vec<Issued> {
        match self.form {
            Form::ClaudeCode => Self::claude_code(value),
            Form::Codex => self.codex(value),
            Form::Gemini => gemini(value),
            Form::OpenClaw => self.openclaw(value),
            Form::Any => {
                // A value has the form of at most one of them.
                let mut found = Self::claude_code(value);
                found.extend(self.codex(value));
                found.extend(gemini(value));
                found.extend(self.openclaw(value));
                found.extend(plain(value));
                found
            }
        }
    }

    /// `{"cwd", "timestamp", "message": {"content": [{"type": "tool_use", "id", "name": "Bash", "input": {"command"}}]}}`
    fn claude_code(value: &Value) -> Vec<Issued> {
        let cwd = text(value, "/cwd");
        let at = moment(value, "/timestamp");
        let call = |block: &Value| {
            let is_call = text(block, "/type").as_deref() == Some("tool_use")
                && text(block, "/name").as_deref() == Some("Bash");
            issued(
                is_call.then(|| text(block, "/input/command"))??,
                text(block, "/id"),
                cwd.clone(),
                at,
            )
        };
        list(value, "/message/content").filter_map(call).collect()
    }

    /// `{"timestamp", "type": "response_item", "payload": {"type": "function_call", "name", "arguments", "call_id"}}`, where
    /// `arguments` is JSON in a text, or a payload of the type `local_shell_call` with an `action`.
    fn codex(&mut self, value: &Value) -> Vec<Issued> {
        if matches!(
            text(value, "/type").as_deref(),
            Some("session_meta" | "turn_context")
        ) {
            self.cwd = text(value, "/payload/cwd").or_else(|| self.cwd.take());
            return Vec::new();
        }
        // The first versions wrote the payload alone.
        let payload = value.pointer("/payload").unwrap_or(value);
        let at = moment(value, "/timestamp");
        let id = text(payload, "/call_id");
        let found = match text(payload, "/type").as_deref() {
            Some("function_call") => {
                let arguments = text(payload, "/arguments").unwrap_or_default();
                let Ok(arguments) = serde_json::from_str::<Value>(&arguments) else {
                    return Vec::new();
                };
                let is_shell = matches!(
                    text(payload, "/name").as_deref(),
                    Some("shell" | "shell_command" | "exec_command" | "container.exec")
                );
                let command = arguments
                    .pointer("/command")
                    .or_else(|| arguments.pointer("/cmd"));
                let command = command.filter(|_| is_shell).and_then(command_of);
                command.map(|command| (command, text(&arguments, "/workdir")))
            }
            Some("local_shell_call") => {
                let command = payload.pointer("/action/command").and_then(command_of);
                command.map(|command| (command, text(payload, "/action/working_directory")))
            }
            _ => None,
        };
        let found = found.map(|(command, cwd)| Issued {
            id,
            command,
            cwd: cwd.or_else(|| self.cwd.clone()),
            at,
        });
        found.into_iter().collect()
    }

    /// `{"type": "session", "cwd"}`, then `{"type": "message", "timestamp", "message": {"content": [{"type": "toolCall", "id",
    /// "name": "exec", "arguments": {"command", "workdir"}}]}}`
    fn openclaw(&mut self, value: &Value) -> Vec<Issued> {
        if text(value, "/type").as_deref() == Some("session") {
            self.cwd = text(value, "/cwd").or_else(|| self.cwd.take());
            return Vec::new();
        }
        let at = moment(value, "/timestamp");
        let call = |block: &Value| {
            let is_call = text(block, "/type").as_deref() == Some("toolCall")
                && matches!(text(block, "/name").as_deref(), Some("exec" | "bash"));
            issued(
                is_call.then(|| text(block, "/arguments/command"))??,
                text(block, "/id"),
                text(block, "/arguments/workdir").or_else(|| self.cwd.clone()),
                at,
            )
        };
        list(value, "/message/content").filter_map(call).collect()
    }
}

/// `{"timestamp", "toolCalls": [{"id", "name": "run_shell_command", "args": {"command", "dir_path"}}]}`, one a line, or all in
/// `messages` of one value.
fn gemini(value: &Value) -> Vec<Issued> {
    let of_message = |message: &Value| {
        let at = moment(message, "/timestamp");
        let call = |call: &Value| {
            let is_call = text(call, "/name").as_deref() == Some("run_shell_command");
            issued(
                is_call.then(|| text(call, "/args/command"))??,
                text(call, "/id"),
                text(call, "/args/dir_path").or_else(|| text(call, "/args/directory")),
                at,
            )
        };
        list(message, "/toolCalls").filter_map(call).collect::<Vec<_>>()
    };
    let messages = list(value, "/messages").chain(list(value, "/$set/messages"));
    messages
        .chain(std::iter::once(value))
        .flat_map(of_message)
        .collect()
}

/// `{"command", "cwd", "timestamp"}`: what any other agent's commands can be written as.
fn plain(value: &Value) -> Vec<Issued> {
    let is_plain = value.pointer("/type").is_none() && value.pointer("/message").is_none();
    let command = value
        .pointer("/command")
        .filter(|_| is_plain)
        .and_then(command_of);
    let found = command.map(|command| Issued {
        id: None,
        command,
        cwd: text(value, "/cwd"),
        at: moment(value, "/timestamp"),
    });
    found.into_iter().collect()
}

fn issued(
    command: String,
    id: Option<String>,
    cwd: Option<String>,
    at: Option<UnixMillis>,
) -> Option<Issued> {
    let command = Command::shell(command).ok()?;
    Some(Issued { id, command, cwd, at })
}

/// A text for a shell, or words. What a shell is handed as words is its text.
fn command_of(value: &Value) -> Option<Command> {
    if let Some(text) = value.as_str() {
        return Command::shell(text.to_owned()).ok();
    }
    let words: Option<Vec<&str>> = value.as_array()?.iter().map(Value::as_str).collect();
    let words = words?;
    match words.as_slice() {
        [shell, "-c" | "-lc", text] if matches!(base_name(shell), "bash" | "sh" | "zsh") => {
            Command::shell((*text).to_owned()).ok()
        }
        words => Command::argv(words.iter().map(|word| (*word).to_owned()).collect()).ok(),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// A time as RFC 3339 or in Unix milliseconds.
fn moment(value: &Value, pointer: &str) -> Option<UnixMillis> {
    let value = value.pointer(pointer)?;
    match value.as_str() {
        Some(text) => UnixMillis::of_rfc3339(text),
        None => value.as_i64().map(UnixMillis::new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all(form: Form, values: &[Value]) -> Vec<(String, Option<String>)> {
        let mut reader = Reader::new(form);
        let found = values.iter().flat_map(|value| reader.read(value));
        found
            .map(|issued| (countersign_domain::quoting::line(&issued.command), issued.cwd))
            .collect()
    }

    #[track_caller]
    fn check(form: Form, values: &[Value], expected: &[(&str, Option<&str>)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(command, cwd)| ((*command).to_owned(), cwd.map(str::to_owned)))
            .collect();
        assert_eq!(all(form, values), expected);
        // No other reader takes them, or a file of unknown form would count them twice.
        assert_eq!(all(Form::Any, values), expected);
    }

    #[test]
    fn claude_code_writes_tool_uses() {
        let message = json!({
            "type": "assistant", "cwd": "/srv/p", "timestamp": "2026-11-20T10:00:00.000Z", "sessionId": "s",
            "message": { "role": "assistant", "content": [
                { "type": "text", "text": "I look" },
                { "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "ls -la", "description": "x" } },
                { "type": "tool_use", "id": "t2", "name": "Read", "input": { "file_path": "/x" } },
            ] }
        });
        let user = json!({ "type": "user", "message": { "role": "user", "content": "run ls" } });
        check(
            Form::ClaudeCode,
            &[user, message.clone()],
            &[("ls -la", Some("/srv/p"))],
        );
        let issued = Reader::new(Form::ClaudeCode).read(&message).remove(0);
        assert_eq!(issued.id.as_deref(), Some("t1"));
        assert_eq!(issued.at, UnixMillis::of_rfc3339("2026-11-20T10:00:00Z"));
    }

    #[test]
    fn codex_writes_calls_with_arguments_in_a_text() {
        let item = |payload: Value| json!({ "timestamp": "2026-11-20T10:00:00Z", "type": "response_item", "payload": payload });
        let call = |name: &str, arguments: Value| {
            item(
                json!({ "type": "function_call", "name": name, "arguments": arguments.to_string(), "call_id": "c" }),
            )
        };
        check(
            Form::Codex,
            &[
                json!({ "type": "session_meta", "payload": { "id": "s", "cwd": "/srv/p" } }),
                call("shell", json!({ "command": ["bash", "-lc", "git status | cat"] })),
                call("shell", json!({ "command": ["rg", "a b"], "workdir": "/srv/q" })),
                call(
                    "exec_command",
                    json!({ "cmd": "cargo test", "workdir": "/srv/r" }),
                ),
                call("update_plan", json!({ "command": "no command" })),
                item(json!({ "type": "function_call", "name": "shell", "arguments": "no JSON" })),
                item(json!({ "type": "local_shell_call", "action": { "type": "exec", "command": ["ls"] } })),
                item(json!({ "type": "function_call_output", "call_id": "c", "output": "x" })),
            ],
            &[
                ("git status | cat", Some("/srv/p")),
                ("rg 'a b'", Some("/srv/q")),
                ("cargo test", Some("/srv/r")),
                ("ls", Some("/srv/p")),
            ],
        );
    }

    #[test]
    fn gemini_writes_tool_calls_in_one_value_or_in_lines() {
        let message = json!({ "id": "m", "timestamp": "2026-11-20T10:00:00Z", "type": "gemini", "content": "",
            "toolCalls": [
                { "id": "g1", "name": "run_shell_command", "args": { "command": "npm test", "dir_path": "web" } },
                { "id": "g2", "name": "read_file", "args": { "path": "x" } },
            ] });
        check(
            Form::Gemini,
            std::slice::from_ref(&message),
            &[("npm test", Some("web"))],
        );
        let whole = json!({ "sessionId": "s", "projectHash": "h", "messages": [message] });
        check(Form::Gemini, &[whole], &[("npm test", Some("web"))]);
    }

    #[test]
    fn openclaw_writes_tool_calls() {
        check(
            Form::OpenClaw,
            &[
                json!({ "type": "session", "version": 3, "id": "s", "cwd": "/srv/p" }),
                json!({ "type": "message", "id": "1", "timestamp": "2026-11-20T10:00:00Z", "message": {
                    "role": "assistant", "content": [
                        { "type": "toolCall", "id": "x", "name": "exec", "arguments": { "command": "uptime" } },
                        { "type": "toolCall", "id": "y", "name": "exec", "arguments": { "command": "df", "workdir": "/" } },
                        { "type": "toolCall", "id": "z", "name": "process", "arguments": { "action": "list" } },
                    ] } }),
            ],
            &[("uptime", Some("/srv/p")), ("df", Some("/"))],
        );
    }

    #[test]
    fn a_line_with_a_command_is_enough_and_anything_else_is_passed_over() {
        for value in [
            json!(null),
            json!([]),
            json!("ls"),
            json!({ "command": 5 }),
            json!({ "command": "" }),
            json!({ "command": ["ls", 5] }),
            json!({ "command": "x\u{0}y" }),
            json!({ "message": { "content": [{ "type": "tool_use", "name": "Bash", "input": {} }] } }),
        ] {
            assert_eq!(all(Form::Any, std::slice::from_ref(&value)), [], "{value}");
        }
        let line = json!({ "command": "ls", "cwd": "/srv" });
        assert_eq!(
            all(Form::Any, &[line]),
            [("ls".to_owned(), Some("/srv".to_owned()))]
        );
    }
}
