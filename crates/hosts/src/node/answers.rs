//! What a node's answers mean (`docs/spec/bridge.md#9-exec-commands`). Pure; everything in them is from outside and
//! bounded.

use std::collections::HashMap;

use serde_json::Value;

use countersign_domain::{Reason, RunStatus};
use countersign_protocol::bridge::{
    EXEC_DENIED, EXEC_FINISHED, EXEC_STARTED, ExecNews, OWN_RULE, OwnRule, RunOutcome,
};

use super::NodeError;

/// Most bytes of one output stream that are taken. Nodes keep 200,000 bytes of both together.
const MAX_STREAM_BYTES: usize = 256 * 1024;
/// Most characters of a node's own words.
const MAX_DETAIL_CHARS: usize = 500;
/// Longest path of a program.
const MAX_PATH_BYTES: usize = 4096;
/// Longest code of a node's error that is kept.
const MAX_CODE_CHARS: usize = 64;
/// What stands before a node's own words.
const SAID: &str = "the node said: ";
/// What stands before the rule of a node's own policy, behind everything else.
const RULE: &str = "; decided there: ";
/// What stands before the code of a node's error, behind its words.
const CODE: &str = " (code ";
/// What a node puts behind output that it cut.
const CUT_MARK: &str = "... (truncated)";

/// The result of `system.run`, also of a command that failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunAnswer {
    /// Exit code, when it ended by itself.
    pub exit_code: Option<i32>,
    /// Whether the node killed it for its time limit.
    pub timed_out: bool,
    /// Whether the node calls it a success.
    pub success: bool,
    /// Standard output, at most 256 KiB; in [`RunEvent::Finished`] both streams, if the node sent any.
    pub stdout: String,
    /// Standard error, at most 256 KiB; always empty in [`RunEvent::Finished`].
    pub stderr: String,
    /// The signal that ended it, where the node names it.
    pub signal: Option<String>,
    /// Why it could not be started, or that it was cancelled.
    pub error: Option<String>,
    /// Whether the node, or we, kept less than the command wrote.
    pub truncated: bool,
}

/// An answer that is no answer to what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node's answer is unreadable")]
pub struct Unreadable;

impl RunAnswer {
    /// The result in a node's payload.
    ///
    /// # Errors
    /// [`Unreadable`] when it is none.
    pub fn of(payload: Value) -> Result<Self, Unreadable> {
        let outcome: RunOutcome = serde_json::from_value(payload).map_err(|_malformed| Unreadable)?;
        let RunOutcome {
            exit_code,
            timed_out,
            success,
            stdout,
            stderr,
            error,
            signal,
        } = outcome;
        let (stdout, cut_stdout) = bounded(stdout.unwrap_or_default());
        let (stderr, cut_stderr) = bounded(stderr.unwrap_or_default());
        Ok(Self {
            exit_code: exit_code.map(|code| i32::try_from(code).unwrap_or(i32::MAX)),
            timed_out,
            success,
            truncated: cut_stdout || cut_stderr,
            stdout,
            stderr,
            signal: signal.filter(|name| is_signal(name)),
            error: error
                .map(|error| in_short(&error))
                .filter(|error| !error.is_empty()),
        })
    }
}

/// What became of a run, as a node of ours knows by its fence (`countersign.run.status`).
#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// It never started, and will not.
    Void,
    /// It started and has not ended.
    Running,
    /// It ended: its result, or why the node refused it.
    Ended(Result<Value, NodeError>),
}

impl RunState {
    /// The state in a node's payload.
    ///
    /// # Errors
    /// [`Unreadable`] when it is none.
    pub fn of(mut payload: Value) -> Result<Self, Unreadable> {
        let mut take = |name: &str| payload.get_mut(name).map(Value::take);
        let state = take("state");
        match state.as_ref().and_then(Value::as_str) {
            Some("void") => Ok(Self::Void),
            Some("running") => Ok(Self::Running),
            Some("ended") => {
                let mut result = take("result").ok_or(Unreadable)?;
                let ok = result.get("ok").and_then(Value::as_bool).ok_or(Unreadable)?;
                let mut part = |name: &str| result.get_mut(name).map(Value::take).ok_or(Unreadable);
                Ok(Self::Ended(if ok {
                    Ok(part("payload")?)
                } else {
                    Err(error_of(&part("error")?))
                }))
            }
            _ => Err(Unreadable),
        }
    }
}

fn error_of(value: &Value) -> NodeError {
    let text = |name: &str| {
        value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    NodeError {
        code: text("code"),
        message: text("message"),
        rule: OwnRule::read(value.get(OWN_RULE)).map(Box::new),
    }
}

/// Where a node found programs: absolute paths by name, of those that were asked for.
pub fn programs_found(
    payload: &Value,
    asked: impl IntoIterator<Item = String>,
) -> HashMap<String, Option<String>> {
    let bins = payload.get("bins");
    let path_of = |name: &str| {
        let path = bins.and_then(|bins| bins.get(name)).and_then(Value::as_str)?;
        let is_path = path.starts_with('/') && path.len() <= MAX_PATH_BYTES && !path.contains('\0');
        is_path.then(|| path.to_owned())
    };
    asked
        .into_iter()
        .map(|name| {
            let path = path_of(&name);
            (name, path)
        })
        .collect()
}

/// The approvals document in a node's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TheirDocument {
    /// The node's document as JSON text, not parsed as a document yet.
    pub text: String,
    /// The node's own hash of it: 1 to 128 visible ASCII characters, not checked against the text.
    pub hash: String,
    /// Where it lies on that machine, harmless; absent where the node says nothing of use.
    pub path: Option<String>,
}

/// The approvals document in a node's answer.
///
/// # Errors
/// [`Unreadable`] when there is none.
pub fn document_of(payload: &Value) -> Result<TheirDocument, Unreadable> {
    let file = payload
        .get("file")
        .filter(|file| file.is_object())
        .ok_or(Unreadable)?;
    let hash = payload.get("hash").and_then(Value::as_str).ok_or(Unreadable)?;
    let is_hash = !hash.is_empty() && hash.len() <= 128 && hash.chars().all(|c| c.is_ascii_graphic());
    if is_hash {
        let path = payload.get("path").and_then(Value::as_str);
        Ok(TheirDocument {
            text: file.to_string(),
            hash: hash.to_owned(),
            path: path
                .filter(|path| path.len() <= MAX_PATH_BYTES)
                .map(in_short)
                .filter(|path| !path.is_empty()),
        })
    } else {
        Err(Unreadable)
    }
}

/// Why a node did not run a command, and its own words with its code, which [`said`] reads again, and the rule of its own
/// policy where it names one: that is text, and changes nothing about the reason. Only [`Reason::InvokeFailed`], [`Reason::NotStarted`] and
/// [`Reason::NodeDisconnected`], with which a node of ours says that it cannot know either, are no denial.
pub fn refusal(error: &NodeError) -> (Reason, String) {
    let message = error.message.trim();
    // Some put the words "Error: " and their code before it.
    let text = message.strip_prefix("Error: ").unwrap_or(message);
    let said = |prefix: &str| text.contains(prefix);
    let is_denied =
        error.code == "SYSTEM_RUN_DENIED" || said("SYSTEM_RUN_DENIED") || said("SYSTEM_RUN_DISABLED");
    let reason = if text.starts_with("RUN_VOID") {
        Reason::NotStarted
    } else if text.starts_with("RUN_LOST") {
        Reason::NodeDisconnected
    } else if said("SYSTEM_RUN_DISABLED") && said("security=deny") {
        Reason::SecurityDeny
    } else if said("execution plan mismatch")
        || said("execution-plan-miss")
        || said("explicit approval requires matching systemRunPlan")
    {
        Reason::BindingMismatch
    } else if is_denied && said("approval required") {
        Reason::ApprovalRequired
    } else if is_denied && said("allowlist miss") {
        Reason::AllowlistMiss
    } else if is_denied || said("PERMISSION_MISSING") || said("COMPANION_APP_UNAVAILABLE") {
        Reason::NodeRefused
    } else {
        Reason::InvokeFailed
    };
    let words = match (text, &error.code) {
        ("", code) => in_short(code),
        (text, code) if is_code(code) => format!("{}{CODE}{code})", in_short(text)),
        (text, _) => in_short(text),
    };
    let rule = match &error.rule {
        Some(rule) if matches!(reason.run_status(), RunStatus::Denied) => {
            format!("{RULE}{}", rule.in_words())
        }
        Some(_) | None => String::new(),
    };
    (reason, format!("{SAID}{words}{rule}"))
}

/// The error of a node, from the words that [`refusal`] made of it; `None` for words of this server. Its code is empty when
/// it gave none.
pub fn said(detail: &str) -> Option<NodeError> {
    let words = words_of(detail)?;
    let words = words.rsplit_once(RULE).map_or(words, |(words, _rule)| words);
    let coded = words
        .strip_suffix(')')
        .and_then(|words| words.rsplit_once(CODE))
        .filter(|(_, code)| is_code(code));
    let (message, code) = coded.unwrap_or((words, ""));
    Some(NodeError::new(code, message))
}

/// A node's own words alone; `None` for words of this server.
pub fn words_of(detail: &str) -> Option<&str> {
    detail.strip_prefix(SAID)
}

/// A word such as `UNAVAILABLE`.
fn is_code(code: &str) -> bool {
    (1..=MAX_CODE_CHARS).contains(&code.len())
        && code
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The detail of a command that a node could not start, which is no refusal.
pub fn not_started(error: &str) -> String {
    format!("{SAID}{error}")
}

/// What a node tells of a run before it answers the call (`docs/spec/bridge.md#98-exec-events-nodeevent`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    /// The event `exec.started`.
    Started,
    /// The event `exec.finished`; it names no signal and no error.
    Finished(RunAnswer),
    /// The event `exec.denied`: the reason in our words, and the node's own, marked as such.
    Denied(Reason, String),
}

impl RunEvent {
    /// The event of this name, and the run that it is about; `None` for one that is not about a run, or is none.
    pub fn of(name: &str, payload: Value) -> Option<(String, Self)> {
        if ![EXEC_STARTED, EXEC_FINISHED, EXEC_DENIED].contains(&name) {
            return None;
        }
        let ExecNews {
            run_id,
            exit_code,
            timed_out,
            success,
            output,
            reason,
            ..
        } = serde_json::from_value(payload).ok()?;
        let event = match name {
            EXEC_STARTED => Self::Started,
            EXEC_FINISHED => {
                let (stdout, truncated) = bounded(output.unwrap_or_default());
                Self::Finished(RunAnswer {
                    exit_code: exit_code.map(|code| i32::try_from(code).unwrap_or(i32::MAX)),
                    timed_out: timed_out.unwrap_or(false),
                    success: success.unwrap_or_else(|| exit_code == Some(0)),
                    truncated: truncated || stdout.starts_with(CUT_MARK),
                    stdout,
                    stderr: String::new(),
                    signal: None,
                    error: None,
                })
            }
            _ => {
                let reason = reason.unwrap_or_default();
                let own = match reason.as_str() {
                    "security=deny" => Reason::SecurityDeny,
                    "approval-required" => Reason::ApprovalRequired,
                    "allowlist-miss" => Reason::AllowlistMiss,
                    "execution-plan-miss" => Reason::BindingMismatch,
                    _ => Reason::NodeRefused,
                };
                Self::Denied(own, format!("{SAID}{}", in_short(&reason)))
            }
        };
        Some((run_id?, event))
    }
}

/// A name such as `SIGKILL`, and nothing else.
fn is_signal(name: &str) -> bool {
    let rest = name.strip_prefix("SIG").unwrap_or_default();
    (1..=12).contains(&rest.len())
        && rest
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-".contains(c))
}

fn bounded(mut text: String) -> (String, bool) {
    let is_cut_there = text.ends_with(CUT_MARK);
    if text.len() <= MAX_STREAM_BYTES {
        return (text, is_cut_there);
    }
    let mut end = MAX_STREAM_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    (text, true)
}

/// A node's words for a person, on one line.
fn in_short(text: &str) -> String {
    let plain = countersign_runner::output::sanitize(text);
    let line: Vec<&str> = plain.split_whitespace().collect();
    line.join(" ").chars().take(MAX_DETAIL_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(code: &str, message: &str, expect: Reason) {
        let error = NodeError::new(code, message);
        assert_eq!(refusal(&error).0, expect, "{code}: {message}");
    }

    #[test]
    fn every_refusal_of_both_generations_has_its_reason() {
        // The first generation.
        check(
            "UNAVAILABLE",
            "SYSTEM_RUN_DISABLED: security=deny",
            Reason::SecurityDeny,
        );
        check(
            "UNAVAILABLE",
            "SYSTEM_RUN_DENIED: approval required",
            Reason::ApprovalRequired,
        );
        check(
            "UNAVAILABLE",
            "SYSTEM_RUN_DENIED: allowlist miss",
            Reason::AllowlistMiss,
        );
        check(
            "UNAVAILABLE",
            "PERMISSION_MISSING: screenRecording",
            Reason::NodeRefused,
        );
        check(
            "UNAVAILABLE",
            "COMPANION_APP_UNAVAILABLE: macOS app exec host unreachable",
            Reason::NodeRefused,
        );
        // The present one.
        check(
            "SYSTEM_RUN_DENIED",
            "SYSTEM_RUN_DISABLED: security=deny",
            Reason::SecurityDeny,
        );
        check(
            "SYSTEM_RUN_DENIED",
            "SYSTEM_RUN_DENIED: approval required",
            Reason::ApprovalRequired,
        );
        check(
            "SYSTEM_RUN_DENIED",
            "SYSTEM_RUN_DENIED: execution plan mismatch",
            Reason::BindingMismatch,
        );
        check(
            "INVALID_REQUEST",
            "explicit approval requires matching systemRunPlan",
            Reason::BindingMismatch,
        );
        check(
            "INVALID_REQUEST",
            "SYSTEM_RUN_DENIED: environment override rejected (blocked override keys: LD_PRELOAD)",
            Reason::NodeRefused,
        );
        check(
            "SYSTEM_RUN_DENIED",
            "PERMISSION_MISSING: screenRecording",
            Reason::NodeRefused,
        );
        check(
            "INVALID_REQUEST",
            "INVALID_REQUEST: rawCommand does not match command",
            Reason::InvokeFailed,
        );
        check("", "", Reason::InvokeFailed);
        // Ours.
        check(
            "UNAVAILABLE",
            "RUN_VOID: the start-by has passed",
            Reason::NotStarted,
        );
        check(
            "UNAVAILABLE",
            "RUN_LOST: the node was killed",
            Reason::NodeDisconnected,
        );
    }

    #[test]
    fn results_are_read_as_both_generations_write_them() {
        let first = json!({ "exitCode": 3, "timedOut": false, "success": false, "stdout": "a\n", "stderr": "b",
            "error": null });
        assert_eq!(
            RunAnswer::of(first).unwrap(),
            RunAnswer {
                exit_code: Some(3),
                stdout: "a\n".to_owned(),
                stderr: "b".to_owned(),
                ..RunAnswer::default()
            }
        );
        let killed =
            RunAnswer::of(json!({ "timedOut": true, "success": false, "stdout": "", "stderr": "" })).unwrap();
        assert!(killed.timed_out && killed.exit_code.is_none());
        let by_signal = |name: &str| {
            RunAnswer::of(json!({ "success": false, "signal": name }))
                .unwrap()
                .signal
        };
        assert_eq!(by_signal("SIGKILL").as_deref(), Some("SIGKILL"));
        assert_eq!(by_signal("SIGRTMIN+3").as_deref(), Some("SIGRTMIN+3"));
        for nothing in ["", "SIG", "kill", "SIG KILL\n", "SIGAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(by_signal(nothing), None);
        }
        let cut = json!({ "exitCode": 0, "success": true, "stdout": format!("{}\n{CUT_MARK}", "a".repeat(200_000)) });
        assert!(RunAnswer::of(cut).unwrap().truncated);
        let huge = RunAnswer::of(json!({ "success": true, "stdout": "é".repeat(1_000_000) })).unwrap();
        assert!(huge.truncated && huge.stdout.len() <= MAX_STREAM_BYTES);
        for nothing in [
            json!(null),
            json!([]),
            json!({}),
            json!({ "success": "yes" }),
            json!("ok"),
        ] {
            assert_eq!(RunAnswer::of(nothing), Err(Unreadable));
        }
    }

    #[test]
    fn the_state_of_a_run_is_void_running_or_ended_and_nothing_else() {
        assert_eq!(RunState::of(json!({ "state": "void" })), Ok(RunState::Void));
        assert_eq!(
            RunState::of(json!({ "state": "running", "result": null })),
            Ok(RunState::Running)
        );
        assert_eq!(
            RunState::of(
                json!({ "state": "ended", "result": { "ok": true, "payload": { "success": true } } })
            ),
            Ok(RunState::Ended(Ok(json!({ "success": true }))))
        );
        let refused =
            json!({ "state": "ended", "result": { "ok": false, "error": { "code": "C", "message": "m" } } });
        assert!(matches!(RunState::of(refused), Ok(RunState::Ended(Err(error))) if error.code == "C"));
        for nothing in [
            json!({ "state": "ended" }),
            json!({ "state": "ended", "result": { "payload": {} } }),
            json!({ "state": "ended", "result": { "ok": true } }),
            json!({ "state": "done" }),
            json!({}),
            json!(3),
        ] {
            assert_eq!(RunState::of(nothing), Err(Unreadable));
        }
    }

    #[test]
    fn a_node_finds_only_what_it_was_asked_for_and_only_by_absolute_paths() {
        let answer = json!({ "bins": { "git": "/usr/bin/git", "sh": "bin/sh", "other": "/x", "n": 3 } });
        let asked = ["git", "sh", "n", "none"].map(str::to_owned);
        let found = programs_found(&answer, asked);
        assert_eq!(found.len(), 4);
        assert_eq!(found["git"].as_deref(), Some("/usr/bin/git"));
        for name in ["sh", "n", "none"] {
            assert_eq!(found[name], None, "{name}");
        }
    }

    #[test]
    fn events_about_runs_are_told_from_all_others() {
        let event = |name: &str, payload: Value| RunEvent::of(name, payload);
        assert_eq!(
            event(
                "exec.started",
                json!({ "runId": "r-1", "sessionKey": "x", "host": "node" })
            ),
            Some(("r-1".to_owned(), RunEvent::Started))
        );
        let (_, finished) = event(
            "exec.finished",
            json!({ "runId": "r-1", "exitCode": 2, "output": "x" }),
        )
        .unwrap();
        assert!(
            matches!(finished, RunEvent::Finished(answer) if answer.exit_code == Some(2) && !answer.success)
        );
        for (word, reason) in [
            ("security=deny", Reason::SecurityDeny),
            ("approval-required", Reason::ApprovalRequired),
            ("allowlist-miss", Reason::AllowlistMiss),
            ("execution-plan-miss", Reason::BindingMismatch),
            ("companion-unavailable", Reason::NodeRefused),
            ("permission:screenRecording", Reason::NodeRefused),
            ("anything", Reason::NodeRefused),
        ] {
            let (_, denied) = event("exec.denied", json!({ "runId": "r-1", "reason": word })).unwrap();
            assert!(
                matches!(denied, RunEvent::Denied(found, _) if found == reason),
                "{word}"
            );
        }
        assert_eq!(event("exec.started", json!({})), None);
        assert_eq!(event("exec.started", json!({ "runId": 3 })), None);
        assert_eq!(event("node.host.stats", json!({ "runId": "r-1" })), None);
        assert_eq!(
            event("exec.finished", json!({ "runId": "r-1", "exitCode": "x" })),
            None
        );
    }

    #[test]
    fn the_words_of_a_node_cannot_break_a_line_or_fill_a_screen() {
        let error = NodeError::new("", format!("a\u{1b}[2J\nb\u{202e}c{}", "x".repeat(9_999)));
        let (_, words) = refusal(&error);
        assert!(words.starts_with("the node said: a[2J bc"), "{words}");
        assert!(words.chars().count() < 600);
    }

    #[test]
    fn what_a_node_said_is_found_again_with_its_code() {
        let found = |code: &str, message: &str| {
            let (code, message) = (code.to_owned(), message.to_owned());
            let (_, words) = refusal(&NodeError::new(code, message));
            let NodeError { code, message, rule } = said(&words).unwrap();
            assert_eq!(rule, None);
            (code, message)
        };
        let is = |code: &str, message: &str| (code.to_owned(), message.to_owned());
        for (code, message) in [
            ("UNAVAILABLE", "PERMISSION_MISSING: screenRecording"),
            ("INVALID_REQUEST", "command required"),
            ("", "SYSTEM_RUN_DENIED: allowlist miss"),
            ("SYSTEM_RUN_DENIED", "no (code HERE)"),
        ] {
            assert_eq!(found(code, message), is(code, message));
        }
        // What is no code is not told as one.
        assert_eq!(found("a b", "no"), is("", "no"));
        assert_eq!(found("UNAVAILABLE", ""), is("", "UNAVAILABLE"));
        assert_eq!(said("nothing was sent: the node is not connected"), None);
    }

    proptest! {
        #[test]
        fn no_answer_panics(text in "\\PC{0,200}", name in "exec\\.(started|finished|denied)") {
            let value: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            drop(RunAnswer::of(value.clone()));
            drop(RunState::of(value.clone()));
            drop(document_of(&value));
            drop(RunEvent::of(&name, value));
        }
    }
}
