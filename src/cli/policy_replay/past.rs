//! A run of the record as something that can be judged anew, or why it cannot.

use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use countersign_domain::{AgentId, Command, CommandInput};
use countersign_engine::candidate::{Foreseen, RecordedCommand};

use crate::cli::value;

/// What policy alone decides. Any other reason why a run was refused says nothing about policy.
const REASONS_OF_POLICY: [&str; 5] = [
    "security-deny",
    "document-refused",
    "tool-denied",
    "denylist",
    "allowlist-miss",
];

/// A run that can be judged anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) run_id: String,
    /// What was decided then. A question counts as a question, no matter who was asked and what came of it.
    pub(super) then: Foreseen,
    pub(super) recorded: RecordedCommand,
}

/// Why a run is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeftOut {
    /// It was not on the gateway host.
    OtherHost,
    /// It is a patch, of which a list has only the names of files.
    Patch,
    /// The record does not have its words or its directory.
    NoText,
    /// Nothing was decided about it, or something that is not known here.
    Undecided,
    /// Something else than policy refused it.
    NotOfPolicy,
    /// Its directory is not there, or cannot be looked at.
    Directory,
}

impl LeftOut {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::OtherHost => "other-host",
            Self::Patch => "patch",
            Self::NoText => "no-text",
            Self::Undecided => "undecided",
            Self::NotOfPolicy => "not-of-policy",
            Self::Directory => "directory",
        }
    }
}

impl Past {
    /// Reads a run object.
    ///
    /// # Errors
    /// [`LeftOut`].
    pub(super) fn of(run: &Value) -> Result<Self, LeftOut> {
        if value::string(run, "host") != "gateway" {
            return Err(LeftOut::OtherHost);
        }
        if value::string(run, "tool") == "apply_patch" {
            return Err(LeftOut::Patch);
        }
        let then = decided(run)?;
        let cwd = PathBuf::from(value::string(run, "cwd"));
        let agent = AgentId::parse(value::string(run, "agentId")).ok();
        let (Some(agent), Some(command), true) = (agent, command(run), cwd.is_absolute()) else {
            return Err(LeftOut::NoText);
        };
        let names = run.get("envNames").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            run_id: value::text(run, "runId"),
            then,
            recorded: RecordedCommand {
                agent,
                command,
                cwd,
                env_names: names.map(str::to_owned).collect(),
                input: input(run),
            },
        })
    }
}

fn command(run: &Value) -> Option<Command> {
    let Some(words) = run.get("argv").and_then(Value::as_array) else {
        return Some(Command::Shell(run.get("command")?.as_str()?.to_owned()));
    };
    let words = words.iter().map(|word| word.as_str().map(str::to_owned));
    let words: Option<Vec<String>> = words.collect();
    words.filter(|words| !words.is_empty()).map(Command::Argv)
}

/// What the call wanted to be written to it. Records of older servers say that only by `pty`.
fn input(run: &Value) -> CommandInput {
    match value::string(run, "input").parse() {
        Ok(CommandInput::Withheld) => CommandInput::Pipe,
        Ok(CommandInput::GuardedTerminal) => CommandInput::Terminal,
        Ok(input) => input,
        Err(_absent) => CommandInput::wanted(false, run.get("pty") == Some(&Value::Bool(true))),
    }
}

fn decided(run: &Value) -> Result<Foreseen, LeftOut> {
    let reason = value::string(run, "reason");
    // Another program's question, which policy was never asked about.
    if reason == "run-elsewhere" {
        return Err(LeftOut::NotOfPolicy);
    }
    let decision = run.get("decision").ok_or(LeftOut::Undecided)?;
    match (value::string(decision, "by"), value::string(decision, "verdict")) {
        ("person" | "fallback", _) | ("policy", "ask") => Ok(Foreseen::Ask),
        ("policy", "run") => Ok(Foreseen::Run),
        ("policy", "deny") if REASONS_OF_POLICY.contains(&reason) => Ok(Foreseen::Deny),
        ("policy", "deny") => Err(LeftOut::NotOfPolicy),
        _ => Err(LeftOut::Undecided),
    }
}

/// Tells commands apart: the same agent, words, directory and names of overrides are the same command.
pub(super) type Fingerprint = [u8; 32];

/// The fingerprint of a command.
pub(super) fn fingerprint(recorded: &RecordedCommand) -> Fingerprint {
    let RecordedCommand {
        agent,
        command,
        cwd,
        env_names,
        input,
    } = recorded;
    let (words, is_text) = match command {
        Command::Shell(text) | Command::Patch(text) => (std::slice::from_ref(text), true),
        Command::Argv(words) => (words.as_slice(), false),
    };
    let spelled = json!([
        agent.as_str(),
        cwd.to_string_lossy(),
        is_text,
        words,
        env_names,
        input.as_str()
    ]);
    Sha256::digest(spelled.to_string().as_bytes()).into()
}

/// The command as the API spells it: `argv` or `command`.
pub(super) fn spelled(command: &Command) -> (&'static str, Value) {
    match command {
        Command::Shell(text) | Command::Patch(text) => ("command", json!(text)),
        Command::Argv(words) => ("argv", json!(words)),
    }
}

/// The word for what is decided.
pub(super) const fn word(foreseen: Foreseen) -> &'static str {
    match foreseen {
        Foreseen::Run => "run",
        Foreseen::Ask => "ask",
        Foreseen::Deny => "deny",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(decision: &Value, reason: &str) -> Value {
        json!({"runId": "r", "host": "gateway", "agentId": "main", "argv": ["ls", "-l"], "cwd": "/srv",
            "envNames": ["CI"], "decision": decision, "reason": reason})
    }

    fn then(by: &str, verdict: &str, reason: &str) -> Result<Foreseen, LeftOut> {
        Past::of(&run(&json!({"by": by, "verdict": verdict}), reason)).map(|past| past.then)
    }

    #[test]
    fn what_was_decided_is_what_policy_decided() {
        assert_eq!(then("policy", "run", ""), Ok(Foreseen::Run));
        assert_eq!(then("policy", "ask", ""), Ok(Foreseen::Ask));
        assert_eq!(then("person", "run", ""), Ok(Foreseen::Ask));
        assert_eq!(then("person", "deny", "user-denied"), Ok(Foreseen::Ask));
        assert_eq!(then("fallback", "deny", "no-approver"), Ok(Foreseen::Ask));
        assert_eq!(then("policy", "deny", "allowlist-miss"), Ok(Foreseen::Deny));
        assert_eq!(then("policy", "deny", "denylist"), Ok(Foreseen::Deny));
    }

    #[test]
    fn what_policy_did_not_decide_is_left_out() {
        assert_eq!(then("policy", "deny", "preflight"), Err(LeftOut::NotOfPolicy));
        assert_eq!(then("policy", "deny", "rate-limited"), Err(LeftOut::NotOfPolicy));
        assert_eq!(then("person", "run", "run-elsewhere"), Err(LeftOut::NotOfPolicy));
        assert_eq!(then("somebody", "run", ""), Err(LeftOut::Undecided));
        assert_eq!(Past::of(&run(&Value::Null, "")), Err(LeftOut::Undecided));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        #[track_caller]
        fn check(member: &str, other: &Value, left_out: LeftOut) {
            let mut run = run(&json!({"by": "policy", "verdict": "run"}), "");
            run[member] = other.clone();
            assert_eq!(Past::of(&run), Err(left_out), "{run}");
        }
        check("host", &json!("node"), LeftOut::OtherHost);
        check("host", &json!("sandbox"), LeftOut::OtherHost);
        check("tool", &json!("apply_patch"), LeftOut::Patch);
        check("argv", &json!([]), LeftOut::NoText);
        check("argv", &json!(["ls", 1]), LeftOut::NoText);
        check("argv", &Value::Null, LeftOut::NoText);
        check("cwd", &json!("srv"), LeftOut::NoText);
        check("agentId", &json!("a/b"), LeftOut::NoText);
    }

    #[test]
    fn words_and_a_text_that_looks_like_them_are_two_commands() {
        let of = |command: Command, cwd: &str, names: &[&str]| {
            fingerprint(&RecordedCommand {
                agent: AgentId::main(),
                command,
                cwd: cwd.into(),
                env_names: names.iter().map(|name| (*name).to_owned()).collect(),
                input: CommandInput::Closed,
            })
        };
        let argv = || Command::Argv(vec!["ls".to_owned()]);
        let same = of(argv(), "/srv", &[]);
        assert_eq!(same, of(argv(), "/srv", &[]));
        assert_ne!(same, of(Command::Shell("ls".to_owned()), "/srv", &[]));
        assert_ne!(same, of(argv(), "/", &[]));
        assert_ne!(same, of(argv(), "/srv", &["CI"]));
        let two = Command::Argv(vec!["ls".to_owned(), String::new()]);
        assert_ne!(same, of(two, "/srv", &[]));
    }
}
