//! The body of a call of the process tool (`docs/spec/exec-tool.md#8-the-process-tool`).

use std::time::Duration;

use serde::Deserialize;
use utoipa::ToSchema;

use countersign_domain::{AgentId, TerminalSize};
use countersign_engine::process::{Input, MAX_POLL, ProcessAction, ProcessCall};

use crate::{deprecation::Deprecated, problem::Problem};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = ProcessAction)]
pub(in crate::routes) enum ActionName {
    /// All sessions of the agent.
    List,
    /// The output since the last poll.
    Poll,
    /// Lines of the whole output.
    Log,
    /// Text for the standard input.
    Write,
    /// Keys by name, as for a terminal.
    SendKeys,
    /// A carriage return.
    Submit,
    /// A text as a terminal pastes it.
    Paste,
    /// Another size for the terminal.
    Resize,
    /// End it with everything that it started.
    Kill,
    /// Forget it; it must have ended.
    Clear,
    /// End it if it runs, and forget it.
    Remove,
}

/// A call of the process tool. All but `list` need `sessionId`; other members belong to the action that names them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ProcessRequest)]
pub(in crate::routes) struct ProcessBody {
    /// What is done.
    action: ActionName,
    /// Which session.
    session_id: Option<String>,
    /// Whose session; `main` unless given.
    agent_id: Option<AgentId>,
    /// `poll`: how long to wait in milliseconds for new output or the end; at most 30000, and 0 unless given.
    timeout_ms: Option<u64>,
    /// The same as `timeoutMs`.
    #[schema(deprecated)]
    timeout: Option<u64>,
    /// `log`: the first line, counted from 0.
    offset: Option<usize>,
    /// `log`: how many lines; without `offset` the last ones.
    #[schema(minimum = 1)]
    limit: Option<usize>,
    /// `write`: the text.
    #[schema(max_length = 262_144)]
    data: Option<String>,
    /// `write`: nothing follows, so the standard input is closed.
    eof: Option<bool>,
    /// `send-keys`: keys by name such as `Enter`, `C-c`, `M-x`, `Up`, `F5`; after `literal` and `hex`.
    keys: Option<Vec<String>>,
    /// `send-keys`: bytes, two hexadecimal digits each; after `literal`.
    hex: Option<Vec<String>>,
    /// `send-keys`: text as it is, first.
    literal: Option<String>,
    /// `paste`: the text.
    text: Option<String>,
    /// `paste`: whether the program can tell it from typing; true unless given.
    bracketed: Option<bool>,
    /// `resize`: rows.
    #[schema(minimum = 1, maximum = 1000)]
    rows: Option<u16>,
    /// `resize`: columns.
    #[schema(minimum = 1, maximum = 1000)]
    cols: Option<u16>,
}

impl ProcessBody {
    /// What of it has a successor.
    pub(super) fn deprecated(&self) -> Option<Deprecated> {
        self.timeout.is_some().then_some(Deprecated::TimeoutOfPoll)
    }

    /// Checks that the members are those of the action.
    pub(in crate::routes) fn into_call(self) -> Result<ProcessCall, Problem> {
        self.refuse_members_of_others()?;
        let Self {
            action,
            session_id,
            agent_id,
            timeout_ms,
            timeout,
            offset,
            limit,
            data,
            eof,
            keys,
            hex,
            literal,
            text,
            bracketed,
            rows,
            cols,
        } = self;
        let agent = agent_id.unwrap_or_else(AgentId::main);
        if action == ActionName::List {
            let action = ProcessAction::List;
            return Ok(ProcessCall { agent, action });
        }
        let session = session_id.ok_or_else(|| needed("sessionId"))?;
        if timeout_ms.is_some() && timeout.is_some() {
            return Err(Problem::field(
                "timeoutMs",
                "the same as timeout; give one of them",
            ));
        }
        let input = |session, input| ProcessAction::Input { session, input };
        let action = match action {
            ActionName::List => ProcessAction::List,
            ActionName::Poll => ProcessAction::Poll {
                session,
                timeout: Duration::from_millis(timeout_ms.or(timeout).unwrap_or(0)).min(MAX_POLL),
            },
            ActionName::Log if limit == Some(0) => return Err(Problem::field("limit", "expected 1 or more")),
            ActionName::Log => ProcessAction::Log {
                session,
                offset,
                limit,
            },
            ActionName::Write => {
                let ends = eof.unwrap_or(false);
                if data.is_none() && !ends {
                    return Err(needed("data"));
                }
                let data = data.unwrap_or_default();
                input(session, Input::Text { data, ends })
            }
            ActionName::SendKeys => {
                let keys = Input::Keys {
                    literal,
                    hex: hex.unwrap_or_default(),
                    keys: keys.unwrap_or_default(),
                };
                input(session, keys)
            }
            ActionName::Submit => input(session, Input::Submit),
            ActionName::Paste => {
                let paste = Input::Paste {
                    text: text.ok_or_else(|| needed("text"))?,
                    bracketed: bracketed.unwrap_or(true),
                };
                input(session, paste)
            }
            ActionName::Resize => {
                let (rows, cols) = (
                    rows.ok_or_else(|| needed("rows"))?,
                    cols.ok_or_else(|| needed("cols"))?,
                );
                let size = TerminalSize::new(rows, cols)
                    .ok_or_else(|| Problem::field("rows", "rows and cols: expected 1 to 1000"))?;
                ProcessAction::Resize { session, size }
            }
            ActionName::Kill => ProcessAction::Kill { session },
            ActionName::Clear => ProcessAction::Clear { session },
            ActionName::Remove => ProcessAction::Remove { session },
        };
        Ok(ProcessCall { agent, action })
    }

    /// A member that an action does not have was meant for something: better to say so than to do something else.
    fn refuse_members_of_others(&self) -> Result<(), Problem> {
        use ActionName as A;
        let is = |actions: &[A]| actions.contains(&self.action);
        let members = [
            ("sessionId", self.session_id.is_some(), !is(&[A::List])),
            ("timeoutMs", self.timeout_ms.is_some(), is(&[A::Poll])),
            ("timeout", self.timeout.is_some(), is(&[A::Poll])),
            ("offset", self.offset.is_some(), is(&[A::Log])),
            ("limit", self.limit.is_some(), is(&[A::Log])),
            ("data", self.data.is_some(), is(&[A::Write])),
            ("eof", self.eof.is_some(), is(&[A::Write])),
            ("keys", self.keys.is_some(), is(&[A::SendKeys])),
            ("hex", self.hex.is_some(), is(&[A::SendKeys])),
            ("literal", self.literal.is_some(), is(&[A::SendKeys])),
            ("text", self.text.is_some(), is(&[A::Paste])),
            ("bracketed", self.bracketed.is_some(), is(&[A::Paste])),
            ("rows", self.rows.is_some(), is(&[A::Resize])),
            ("cols", self.cols.is_some(), is(&[A::Resize])),
        ];
        match members
            .iter()
            .find(|(_, is_given, belongs)| *is_given && !belongs)
        {
            Some((name, _, _)) => Err(Problem::field(*name, "not a member of this action")),
            None => Ok(()),
        }
    }
}

fn needed(member: &'static str) -> Problem {
    Problem::field(member, "this member is needed")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn call(body: Value) -> Result<ProcessCall, String> {
        let body: ProcessBody = serde_json::from_value(body).map_err(|error| error.to_string())?;
        body.into_call().map_err(|problem| {
            let document = problem.to_json("/", "q");
            document["detail"].as_str().unwrap().to_owned()
        })
    }

    #[track_caller]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a line of a table reads better without a reference"
    )]
    fn check(body: Value, action: ProcessAction) {
        assert_eq!(call(body).unwrap().action, action);
    }

    fn input(input: Input) -> ProcessAction {
        ProcessAction::Input {
            session: "s".to_owned(),
            input,
        }
    }

    #[test]
    fn each_action_has_its_members() {
        let session = || "s".to_owned();
        check(json!({"action": "list"}), ProcessAction::List);
        for (name, millis, waits) in [
            ("timeoutMs", 99_000, 30_000),
            ("timeoutMs", 20, 20),
            ("timeout", 20, 20),
        ] {
            check(
                json!({"action": "poll", "sessionId": "s", name: millis}),
                ProcessAction::Poll {
                    session: session(),
                    timeout: Duration::from_millis(waits),
                },
            );
        }
        check(
            json!({"action": "log", "sessionId": "s", "offset": 3}),
            ProcessAction::Log {
                session: session(),
                offset: Some(3),
                limit: None,
            },
        );
        check(
            json!({"action": "write", "sessionId": "s", "eof": true}),
            input(Input::Text {
                data: String::new(),
                ends: true,
            }),
        );
        check(
            json!({"action": "send-keys", "sessionId": "s", "keys": ["C-c"], "literal": "x"}),
            input(Input::Keys {
                literal: Some("x".to_owned()),
                hex: vec![],
                keys: vec!["C-c".to_owned()],
            }),
        );
        check(
            json!({"action": "submit", "sessionId": "s"}),
            input(Input::Submit),
        );
        check(
            json!({"action": "paste", "sessionId": "s", "text": "x"}),
            input(Input::Paste {
                text: "x".to_owned(),
                bracketed: true,
            }),
        );
        check(
            json!({"action": "resize", "sessionId": "s", "rows": 24, "cols": 80}),
            ProcessAction::Resize {
                session: session(),
                size: TerminalSize::new(24, 80).unwrap(),
            },
        );
        check(
            json!({"action": "kill", "sessionId": "s"}),
            ProcessAction::Kill { session: session() },
        );
    }

    #[test]
    fn members_of_other_actions_and_missing_ones_are_named() {
        for (body, expected) in [
            (json!({"action": "poll"}), "sessionId: this member is needed"),
            (
                json!({"action": "list", "sessionId": "s"}),
                "sessionId: not a member of this action",
            ),
            (
                json!({"action": "kill", "sessionId": "s", "data": "x"}),
                "data: not a member of this action",
            ),
            (
                json!({"action": "log", "sessionId": "s", "timeoutMs": 1}),
                "timeoutMs: not a member of this action",
            ),
            (
                json!({"action": "poll", "sessionId": "s", "timeoutMs": 1, "timeout": 1}),
                "timeoutMs: the same as timeout; give one of them",
            ),
            (
                json!({"action": "write", "sessionId": "s"}),
                "data: this member is needed",
            ),
            (
                json!({"action": "paste", "sessionId": "s"}),
                "text: this member is needed",
            ),
            (
                json!({"action": "resize", "sessionId": "s", "rows": 1}),
                "cols: this member is needed",
            ),
            (
                json!({"action": "resize", "sessionId": "s", "rows": 0, "cols": 1}),
                "rows: rows and cols: expected 1 to 1000",
            ),
            (
                json!({"action": "log", "sessionId": "s", "limit": 0}),
                "limit: expected 1 or more",
            ),
        ] {
            assert_eq!(call(body.clone()).unwrap_err(), expected, "{body}");
        }
        assert!(call(json!({"action": "explode", "sessionId": "s"})).is_err());
        assert!(call(json!({"action": "list", "sesion": "s"})).is_err());
    }

    #[test]
    fn the_agent_is_main_unless_given() {
        assert_eq!(call(json!({"action": "list"})).unwrap().agent, AgentId::main());
        let other = call(json!({"action": "list", "agentId": "build"})).unwrap();
        assert_eq!(other.agent.as_str(), "build");
    }
}
