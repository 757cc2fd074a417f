//! A run of the record as something that can be judged anew, or why it cannot.

use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use countersign_domain::{Command, CommandInput, DecidedBy, Host, Reason, RunId, RunVerdict};
use countersign_engine::candidate::{Foreseen, RecordedCommand};
use countersign_wire::{
    run::{DecisionBody, RunBody},
    words::Word,
};

/// What policy alone decides. Any other reason why a run was refused says nothing about policy.
const REASONS_OF_POLICY: [Reason; 5] = [
    Reason::SecurityDeny,
    Reason::DocumentRefused,
    Reason::ToolDenied,
    Reason::Denylist,
    Reason::AllowlistMiss,
];

/// A run that can be judged anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// The run.
    pub run_id: RunId,
    /// What was decided then. A question counts as a question, no matter who was asked and what came of it.
    pub then: Foreseen,
    /// What ran, or was refused.
    pub recorded: RecordedCommand,
}

/// Why a run is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
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
    /// A later server tells of it in a form that this version does not read.
    Unreadable,
}

impl LeftOut {
    /// The word of the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OtherHost => "other-host",
            Self::Patch => "patch",
            Self::NoText => "no-text",
            Self::Undecided => "undecided",
            Self::NotOfPolicy => "not-of-policy",
            Self::Directory => "directory",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Past {
    /// Reads a run.
    ///
    /// # Errors
    /// [`LeftOut`].
    pub fn of(run: RunBody) -> Result<Self, LeftOut> {
        if run.host != Host::Gateway {
            return Err(LeftOut::OtherHost);
        }
        if run.tool.as_deref() == Some("apply_patch") {
            return Err(LeftOut::Patch);
        }
        let then = decided(&run)?;
        let input = input(&run);
        let cwd = PathBuf::from(run.cwd);
        let command = match run.argv {
            Some(words) => (!words.is_empty()).then_some(Command::Argv(words)),
            None => run.command.map(Command::Shell),
        };
        let Some(command) = command.filter(|_| cwd.is_absolute()) else {
            return Err(LeftOut::NoText);
        };
        Ok(Self {
            run_id: run.run_id,
            then,
            recorded: RecordedCommand {
                agent: run.agent_id,
                command,
                cwd,
                env_names: run.env_names,
                input,
            },
        })
    }
}

/// What the call wanted to be written to it. Records of older servers say that only by `pty`.
fn input(run: &RunBody) -> CommandInput {
    match run.input.as_ref().and_then(Word::known) {
        Some(CommandInput::Withheld) => CommandInput::Pipe,
        Some(CommandInput::GuardedTerminal) => CommandInput::Terminal,
        Some(input) => input,
        None => CommandInput::wanted(false, run.pty),
    }
}

fn decided(run: &RunBody) -> Result<Foreseen, LeftOut> {
    let reason = run.reason.as_ref().and_then(Word::known);
    // Another program's question, which policy was never asked about.
    if reason == Some(Reason::RunElsewhere) {
        return Err(LeftOut::NotOfPolicy);
    }
    let is_of_policy = reason.is_some_and(|reason| REASONS_OF_POLICY.contains(&reason));
    let DecisionBody { verdict, by } = run.decision.as_ref().ok_or(LeftOut::Undecided)?;
    match (by.known(), verdict.known()) {
        (Some(DecidedBy::Person | DecidedBy::Fallback), _)
        | (Some(DecidedBy::Policy), Some(RunVerdict::Ask)) => Ok(Foreseen::Ask),
        (Some(DecidedBy::Policy), Some(RunVerdict::Run)) => Ok(Foreseen::Run),
        (Some(DecidedBy::Policy), Some(RunVerdict::Deny)) if is_of_policy => Ok(Foreseen::Deny),
        (Some(DecidedBy::Policy), Some(RunVerdict::Deny)) => Err(LeftOut::NotOfPolicy),
        (None, _) | (Some(DecidedBy::Policy), None) => Err(LeftOut::Undecided),
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
pub fn spelled(command: &Command) -> (&'static str, Value) {
    match command {
        Command::Shell(text) | Command::Patch(text) => ("command", json!(text)),
        Command::Argv(words) => ("argv", json!(words)),
    }
}

/// The word for what is decided.
pub const fn word(foreseen: Foreseen) -> &'static str {
    match foreseen {
        Foreseen::Run => "run",
        Foreseen::Ask => "ask",
        Foreseen::Deny => "deny",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use countersign_domain::AgentId;

    use super::*;

    /// A run as the API has it, with these members.
    pub(in super::super) fn recorded(members: &Value) -> RunBody {
        let mut run = json!({"runId": "r", "status": "completed", "host": "gateway", "agentId": "main",
            "sessionKey": "agent:main:main", "displayText": "", "cwd": "/srv", "envNames": [],
            "requestedBy": {"kind": "token", "id": "t", "name": "t"}, "security": "allowlist", "ask": "on-miss",
            "pty": false, "background": false, "diverted": false, "isolation": "same-user", "createdAtMs": 0,
            "timedOut": false, "truncated": false, "outputBytes": 0, "tail": ""});
        let members = members.as_object().cloned().unwrap_or_default();
        run.as_object_mut().unwrap().extend(members);
        serde_json::from_value(run).unwrap()
    }

    fn run(decision: &Value, reason: &str) -> Value {
        json!({"argv": ["ls", "-l"], "envNames": ["CI"], "decision": decision, "reason": reason})
    }

    fn then(by: &str, verdict: &str, reason: &str) -> Result<Foreseen, LeftOut> {
        let run = run(&json!({"by": by, "verdict": verdict}), reason);
        Past::of(recorded(&run)).map(|past| past.then)
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
        assert_eq!(
            Past::of(recorded(&run(&Value::Null, ""))),
            Err(LeftOut::Undecided)
        );
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        #[track_caller]
        fn check(member: &str, other: &Value, left_out: LeftOut) {
            let mut run = run(&json!({"by": "policy", "verdict": "run"}), "");
            run[member] = other.clone();
            assert_eq!(Past::of(recorded(&run)), Err(left_out), "{run}");
        }
        check("host", &json!("node"), LeftOut::OtherHost);
        check("host", &json!("sandbox"), LeftOut::OtherHost);
        check("tool", &json!("apply_patch"), LeftOut::Patch);
        check("argv", &json!([]), LeftOut::NoText);
        check("argv", &Value::Null, LeftOut::NoText);
        check("cwd", &json!("srv"), LeftOut::NoText);
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
