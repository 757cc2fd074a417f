//! What is asked for: to run a command, or only for an answer.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};
use serde_json::Value;

use countersign_domain::{ApprovalDecision, Ask, Command, EnvSize, Host, Security};

use super::unique;

/// A decision that was made elsewhere. Whether it counts is not the protocol's to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachedDecision {
    /// This run alone.
    AllowOnce,
    /// This run, and remember it.
    AllowAlways,
}

/// Please run this (`requestJson` of an `exec` line).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOrder {
    /// Program and arguments; the program is neither empty nor has white space around it.
    pub argv: Vec<String>,
    /// What the person typed, where it says more than the arguments. It agrees with them.
    pub raw_command: Option<String>,
    /// Working directory, not checked yet; `None` where the asker names none.
    pub cwd: Option<String>,
    /// Agent, not checked yet; `None` stands for that of the session, else `main`.
    pub agent_id: Option<String>,
    /// Session, not checked yet; `None` stands for the agent's main session.
    pub session_key: Option<String>,
    /// Overrides of the environment, not checked yet; empty for none.
    pub env: BTreeMap<String, String>,
    /// Time limit in milliseconds; 0 for none.
    pub timeout_ms: Option<u64>,
    /// Wants to see the screen.
    pub needs_screen_recording: bool,
    /// What was decided elsewhere.
    pub attached: Option<AttachedDecision>,
}

/// Just ask (`request` of a `request` line).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The command, as the person is to see it. Never blank.
    pub command: String,
    /// Working directory, not checked yet; `None` where the asker names none.
    pub cwd: Option<String>,
    /// On which host, where it is a word that we know.
    pub host: Option<Host>,
    /// The security that the asker applies, where it is a word that we know.
    pub security: Option<Security>,
    /// The ask that the asker applies, where it is a word that we know.
    pub ask: Option<Ask>,
    /// Agent, not checked yet; `None` stands for that of the session, else `main`.
    pub agent_id: Option<String>,
    /// The program, as the asker resolved it.
    pub resolved_path: Option<String>,
    /// Session, not checked yet; `None` stands for the agent's main session.
    pub session_key: Option<String>,
    /// The answers that the asker understands; `None` for all.
    pub allowed_decisions: Option<Vec<ApprovalDecision>>,
}

/// Why an order is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OrderError {
    /// It is no request at all.
    Payload,
    /// It cannot be meant.
    Invalid(&'static str),
    /// It was denied elsewhere.
    Denied,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OrderMembers {
    command: Vec<String>,
    raw_command: Option<String>,
    cwd: Option<String>,
    agent_id: Option<String>,
    session_key: Option<String>,
    #[serde(default, deserialize_with = "environment")]
    env: BTreeMap<String, String>,
    timeout_ms: Option<f64>,
    needs_screen_recording: Option<bool>,
    approval_decision: Option<DecisionWord>,
    approval_source: Option<SourceWord>,
    #[expect(
        dead_code,
        reason = "our own policy decides, not the asker's; only that it is an object is checked"
    )]
    policy_snapshot: Option<serde_json::Map<String, Value>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DecisionWord {
    AllowOnce,
    AllowAlways,
    Deny,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SourceWord {
    AskFallback,
    AutoReview,
}

/// `null` is no overrides; a name that comes twice is an error, not a choice.
fn environment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    struct Members;

    impl<'de> Visitor<'de> for Members {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings, or null")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
            let mut env = BTreeMap::new();
            let mut size = EnvSize::default();
            while let Some((name, value)) = members.next_entry::<String, String>()? {
                size.add(&name, &value).map_err(de::Error::custom)?;
                if env.insert(name, value).is_some() {
                    return Err(de::Error::custom("a name comes twice"));
                }
            }
            Ok(env)
        }
    }

    deserializer.deserialize_any(Members)
}

impl ExecOrder {
    pub(super) fn parse(text: &str) -> Result<Self, OrderError> {
        if !unique::is_unambiguous(text) {
            return Err(OrderError::Payload);
        }
        let members: OrderMembers = serde_json::from_str(text).map_err(|_not_one| OrderError::Payload)?;
        let OrderMembers {
            command: argv,
            raw_command,
            cwd,
            agent_id,
            session_key,
            env,
            timeout_ms,
            needs_screen_recording,
            approval_decision,
            approval_source,
            policy_snapshot: _,
        } = members;
        let program = argv.first().map_or("", String::as_str);
        if program.trim().is_empty() || program.trim() != program {
            return Err(OrderError::Invalid("command required"));
        }
        let raw_command = raw_command.filter(|raw| !raw.trim().is_empty());
        if let Some(raw) = &raw_command
            && !agrees(raw, &argv)
        {
            return Err(OrderError::Invalid("rawCommand does not match command"));
        }
        if approval_decision.is_some() && approval_source.is_some() {
            return Err(OrderError::Invalid(
                "approvalSource cannot come with approvalDecision",
            ));
        }
        let timeout_ms = timeout_ms.map(whole_milliseconds).transpose()?;
        let attached = match approval_decision {
            Some(DecisionWord::Deny) => return Err(OrderError::Denied),
            Some(DecisionWord::AllowOnce) => Some(AttachedDecision::AllowOnce),
            Some(DecisionWord::AllowAlways) => Some(AttachedDecision::AllowAlways),
            None => None,
        };
        Ok(Self {
            argv,
            raw_command,
            cwd,
            agent_id,
            session_key,
            env,
            timeout_ms,
            needs_screen_recording: needs_screen_recording == Some(true),
            attached,
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is within the bounds of the type, and a part of a millisecond is none"
)]
fn whole_milliseconds(milliseconds: f64) -> Result<u64, OrderError> {
    // A day is more than any command is given here.
    if (0.0..=86_400_000.0).contains(&milliseconds) {
        Ok(milliseconds as u64)
    } else {
        Err(OrderError::Invalid("timeoutMs is out of range"))
    }
}

/// Whether the text that a person saw is the command: the arguments in their canonical form, or the script of a shell.
fn agrees(raw: &str, argv: &[String]) -> bool {
    let raw = raw.trim();
    raw == Command::Argv(argv.to_vec()).to_text().trim()
        || shell_script(argv).is_some_and(|script| raw == script.trim())
}

/// The script of `sh -c SCRIPT` and its like, when nothing follows it that would change what it means.
fn shell_script(argv: &[String]) -> Option<&str> {
    let [shell, option, script] = argv else {
        return None;
    };
    let name = shell.rsplit('/').next()?;
    let is_shell = ["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"].contains(&name);
    let letters = option.strip_prefix('-')?;
    let takes_script = !letters.is_empty()
        && letters
            .chars()
            .all(|letter| matches!(letter, 'c' | 'l' | 'i' | 'e' | 'u' | 'x'))
        && letters.contains('c');
    (is_shell && takes_script).then_some(script)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuestionMembers {
    command: String,
    cwd: Option<String>,
    host: Option<String>,
    security: Option<String>,
    ask: Option<String>,
    agent_id: Option<String>,
    resolved_path: Option<String>,
    session_key: Option<String>,
    allowed_decisions: Option<Vec<Value>>,
}

impl Question {
    /// Reads the `request` member, or `requestJson` of version 2.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if !unique::is_unambiguous(text) {
            return None;
        }
        let members: QuestionMembers = serde_json::from_str(text).ok()?;
        let QuestionMembers {
            command,
            cwd,
            host,
            security,
            ask,
            agent_id,
            resolved_path,
            session_key,
            allowed_decisions,
        } = members;
        if command.trim().is_empty() {
            return None;
        }
        let allowed_decisions = allowed_decisions.map(|words| {
            words
                .iter()
                .filter_map(|word| word.as_str()?.parse().ok())
                .collect()
        });
        Some(Self {
            command,
            cwd,
            host: host.and_then(|word| word.parse().ok()),
            security: security.and_then(|word| word.parse().ok()),
            ask: ask.and_then(|word| word.parse().ok()),
            agent_id,
            resolved_path,
            session_key,
            allowed_decisions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn order(text: &str) -> Result<ExecOrder, OrderError> {
        ExecOrder::parse(text)
    }

    #[test]
    fn what_was_typed_must_be_what_runs() {
        for good in [
            r#"{"command":["/bin/sh","-lc","ls -la | wc -l"],"rawCommand":"ls -la | wc -l"}"#,
            r#"{"command":["bash","-c","ls"],"rawCommand":" ls "}"#,
            r#"{"command":["ls","-l a"],"rawCommand":"ls \"-l a\""}"#,
            r#"{"command":["ls"],"rawCommand":"  "}"#,
            r#"{"command":["ls"],"rawCommand":null}"#,
        ] {
            assert!(order(good).is_ok(), "{good}");
        }
        for bad in [
            r#"{"command":["rm","-rf","/"],"rawCommand":"ls"}"#,
            r#"{"command":["/bin/sh","-c","rm -rf /","ls"],"rawCommand":"ls"}"#,
            r#"{"command":["/bin/sh","-c","rm -rf /","x"],"rawCommand":"rm -rf /"}"#,
            r#"{"command":["/usr/bin/env","sh","-c","ls"],"rawCommand":"ls"}"#,
            r#"{"command":["sh","-co","ls"],"rawCommand":"ls"}"#,
        ] {
            assert_eq!(
                order(bad),
                Err(OrderError::Invalid("rawCommand does not match command")),
                "{bad}"
            );
        }
    }

    #[test]
    fn odd_members_are_refused() {
        for (text, error) in [
            (
                r#"{"command":["ls"],"env":{"A":"1","A":"2"}}"#,
                OrderError::Payload,
            ),
            (
                r#"{"command":["ls"],"unknown":{"a":1,"a":2}}"#,
                OrderError::Payload,
            ),
            (
                r#"{"command":["ls"],"approvalSource":"person"}"#,
                OrderError::Payload,
            ),
            (
                r#"{"command":["ls"],"policySnapshot":"full"}"#,
                OrderError::Payload,
            ),
            (
                r#"{"command":["ls"],"timeoutMs":-1}"#,
                OrderError::Invalid("timeoutMs is out of range"),
            ),
            (
                r#"{"command":["ls"],"timeoutMs":1e300}"#,
                OrderError::Invalid("timeoutMs is out of range"),
            ),
            (
                r#"{"command":["ls"],"approvalSource":"ask-fallback","approvalDecision":"allow-once"}"#,
                OrderError::Invalid("approvalSource cannot come with approvalDecision"),
            ),
            (
                r#"{"command":["ls"],"approvalDecision":"deny"}"#,
                OrderError::Denied,
            ),
        ] {
            assert_eq!(order(text), Err(error), "{text}");
        }
        assert_eq!(
            order(r#"{"command":["ls"],"timeoutMs":1500.9}"#)
                .unwrap()
                .timeout_ms,
            Some(1500)
        );
    }

    #[test]
    fn unknown_words_of_a_question_say_nothing() {
        let question = Question::parse(
            r#"{"command":"ls","host":"moon","security":"none","ask":"always","allowedDecisions":["allow-once","x",1]}"#,
        )
        .unwrap();
        assert_eq!(
            (question.host, question.security, question.ask),
            (None, None, Some(Ask::Always))
        );
        assert_eq!(
            question.allowed_decisions,
            Some(vec![ApprovalDecision::AllowOnce])
        );
        for bad in [
            r#"{"command":" "}"#,
            r#"{"command":"a","command":"b"}"#,
            r#"{"command":"a","allowedDecisions":"deny"}"#,
            r#"{"command":"a","cwd":1}"#,
        ] {
            assert_eq!(Question::parse(bad), None, "{bad}");
        }
    }
}
