//! How answers read: text for the model, the whole answer beside it for programs.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

use countersign_domain::UnixMillis;

use super::Outcome;

/// The result of an exec call. What a command wrote stands in a block of its own, so that it cannot pass for ours.
pub(super) fn exec(outcome: Outcome, now: UnixMillis) -> CallToolResult {
    let answer = match outcome {
        Outcome::Refused(problem) => return refused(problem),
        Outcome::Answered(answer) => answer,
    };
    let blocks = match text(&answer, "status") {
        "approval-pending" => vec![pending(&answer, now)],
        _ if answer.get("changed").is_some() => vec![patched(&answer)],
        "running" => with_output(text(&answer, "tail"), running(&answer)),
        _ => with_output(text(&answer, "aggregated"), ended(&answer)),
    };
    result(answer, blocks, IsError::No)
}

/// The result of an explanation.
pub(super) fn explanation(outcome: Outcome) -> CallToolResult {
    let answer = match outcome {
        Outcome::Refused(problem) => return refused(problem),
        Outcome::Answered(answer) => answer,
    };
    let mut line = match text(&answer, "outcome") {
        "run" => "It would run.".to_owned(),
        "ask" => "A person would be asked.".to_owned(),
        other => format!("It would not run: {other}."),
    };
    if let Some(reason) = answer.get("reason").and_then(Value::as_str) {
        add(&mut line, format_args!(" Reason: {reason}."));
    }
    let findings = answer.pointer("/analysis/findings").and_then(Value::as_array);
    for finding in findings.into_iter().flatten() {
        add(
            &mut line,
            format_args!("\n{}: {}", text(finding, "code"), text(finding, "detail")),
        );
    }
    result(answer, vec![line], IsError::No)
}

/// The result of a call of the process tool. What commands wrote stands in blocks of its own.
pub(super) fn process(outcome: Outcome) -> CallToolResult {
    let answer = match outcome {
        Outcome::Refused(problem) => return refused_by_process(problem),
        Outcome::Answered(answer) => answer,
    };
    let mut blocks: Vec<String> = ["stdout", "stderr", "text"]
        .into_iter()
        .map(|member| text(&answer, member))
        .filter(|output| !output.is_empty())
        .map(str::to_owned)
        .collect();
    let mut line = if let Some(session) = answer.get("session") {
        session_line(session)
    } else {
        let items = answer.get("items").and_then(Value::as_array);
        let lines: Vec<String> = items.into_iter().flatten().map(session_line).collect();
        if lines.is_empty() {
            "no sessions".to_owned()
        } else {
            lines.join("\n")
        }
    };
    if let Some(hint) = answer.get("hint").and_then(Value::as_str) {
        add(&mut line, format_args!("\n[{hint}]"));
    }
    add_warnings(&mut line, &answer);
    blocks.push(line);
    result(answer, blocks, IsError::No)
}

fn session_line(session: &Value) -> String {
    let mut line = format!(
        "[session {}: {}, {}",
        text(session, "sessionId"),
        text(session, "name"),
        text(session, "status")
    );
    if let Some(code) = session.get("exitCode").and_then(Value::as_i64) {
        add(&mut line, format_args!(", exit code {code}"));
    }
    if let Some(signal) = session.get("exitSignal").and_then(Value::as_str) {
        add(&mut line, format_args!(", killed by {signal}"));
    }
    if session.get("waitingForInput").and_then(Value::as_bool) == Some(true) {
        line.push_str(", seems to wait for input");
    }
    line.push(']');
    line
}

fn refused_by_process(problem: Value) -> CallToolResult {
    let mut line = format!(
        "Refused ({}): {}",
        text(&problem, "code"),
        text(&problem, "detail")
    );
    if let Some(hint) = problem.get("hint").and_then(Value::as_str) {
        add(&mut line, format_args!("\nAn operator could change that: {hint}"));
    }
    result(problem, vec![line], IsError::Yes)
}

/// What a person is told who is shown the link.
pub(super) fn request_to_person(answer: &Value) -> String {
    format!(
        "A command waits for your decision (approval {}). It can be decided on that page only; closing or confirming \
         this message decides nothing.",
        text(answer, "approvalSlug")
    )
}

/// How a waiting call stands, in one line.
pub(super) fn waiting_line(answer: &Value, now: UnixMillis) -> String {
    let link = answer
        .get("approvalUrl")
        .and_then(Value::as_str)
        .map(|url| format!(": {url}"))
        .unwrap_or_default();
    let (slug, left) = (text(answer, "approvalSlug"), left(answer, now));
    format!("waiting for a person to decide about approval {slug}, {left} left{link}")
}

fn pending(answer: &Value, now: UnixMillis) -> String {
    let who = match answer.get("approvalsRequired").and_then(Value::as_u64) {
        None | Some(0 | 1) => "A person has".to_owned(),
        Some(required) => format!("{required} people have"),
    };
    let mut line = format!(
        "{who} to allow this command; nothing has run. Approval {}, open for another {}.",
        text(answer, "approvalSlug"),
        left(answer, now)
    );
    if let Some(url) = answer.get("approvalUrl").and_then(Value::as_str) {
        add(&mut line, format_args!("\nDecide here: {url}"));
    }
    line.push_str(
        "\nTell the user, then make the same call again with exactly the same arguments: that asks nobody a second time and \
         gives the result once there is one. Add approvalWaitMs to wait for it.",
    );
    line
}

fn running(answer: &Value) -> String {
    format!(
        "[still running in the background: session {}, run {}]",
        text(answer, "sessionId"),
        text(answer, "runId")
    )
}

fn patched(answer: &Value) -> String {
    let mut line = format!("[{}]", text(answer, "summary"));
    for change in answer
        .get("changed")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        add(
            &mut line,
            format_args!("\n{} {}", text(change, "kind"), text(change, "path")),
        );
        if let Some(from) = change.get("from").and_then(Value::as_str) {
            add(&mut line, format_args!(" (from {from})"));
        }
    }
    if let Some(id) = answer.get("approvalId").and_then(Value::as_str) {
        add(&mut line, format_args!("\n[allowed by approval {id}]"));
    }
    line
}

fn ended(answer: &Value) -> String {
    let mut line = match (
        answer.get("exitCode").and_then(Value::as_i64),
        answer.get("exitSignal").and_then(Value::as_str),
    ) {
        (Some(code), _) => format!("[exit code {code}"),
        (None, Some(signal)) => format!("[killed by {signal}"),
        (None, None) => format!("[{}", text(answer, "status")),
    };
    if answer.get("timedOut").and_then(Value::as_bool) == Some(true) {
        line.push_str(", time limit");
    }
    for member in ["reason", "detail"] {
        if let Some(text) = answer.get(member).and_then(Value::as_str) {
            add(&mut line, format_args!(", {text}"));
        }
    }
    if let Some(millis) = answer.get("durationMs").and_then(Value::as_u64) {
        add(&mut line, format_args!(", {millis} ms"));
    }
    if answer.get("truncated").and_then(Value::as_bool) == Some(true) {
        let bytes = answer.get("outputBytes").and_then(Value::as_u64).unwrap_or(0);
        add(
            &mut line,
            format_args!(
                "; the output is cut, all {bytes} bytes are kept as the output of run {}",
                text(answer, "runId")
            ),
        );
    }
    line.push(']');
    if let Some(id) = answer.get("approvalId").and_then(Value::as_str) {
        add(&mut line, format_args!("\n[allowed by approval {id}]"));
    }
    add_warnings(&mut line, answer);
    line
}

fn add_warnings(line: &mut String, answer: &Value) {
    let warnings = answer.get("warnings").and_then(Value::as_array);
    for warning in warnings.into_iter().flatten() {
        add(
            line,
            format_args!(
                "\n[warning {}: {}]",
                text(warning, "code"),
                text(warning, "message")
            ),
        );
    }
}

fn refused(problem: Value) -> CallToolResult {
    let code = text(&problem, "code");
    let mut line = match problem.get("reason").and_then(Value::as_str) {
        Some(reason) => format!("Denied ({reason}); nothing has run."),
        None => format!("Refused ({code}); nothing has run."),
    };
    if let Some(detail) = problem.get("detail").and_then(Value::as_str) {
        add(&mut line, format_args!(" {detail}"));
    }
    if let Some(hint) = problem.get("hint").and_then(Value::as_str) {
        add(&mut line, format_args!("\nAn operator could change that: {hint}"));
    }
    if let Some(run) = problem.get("runId").and_then(Value::as_str) {
        add(&mut line, format_args!("\n[run {run}]"));
    }
    result(problem, vec![line], IsError::Yes)
}

fn with_output(output: &str, line: String) -> Vec<String> {
    if output.is_empty() {
        vec![line]
    } else {
        vec![output.to_owned(), line]
    }
}

#[derive(Debug, Clone, Copy)]
enum IsError {
    Yes,
    No,
}

fn result(structured: Value, blocks: Vec<String>, is_error: IsError) -> CallToolResult {
    let blocks = blocks.into_iter().map(ContentBlock::text).collect();
    let mut result = match is_error {
        IsError::Yes => CallToolResult::error(blocks),
        IsError::No => CallToolResult::success(blocks),
    };
    result.structured_content = Some(structured);
    result
}

fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn left(answer: &Value, now: UnixMillis) -> String {
    let expires = answer.get("expiresAtMs").and_then(Value::as_i64).unwrap_or(0);
    let seconds = UnixMillis::new(expires).since(now).as_secs();
    format!("{}:{:02} min", seconds / 60, seconds % 60)
}

fn add(line: &mut String, more: std::fmt::Arguments<'_>) {
    line.push_str(&more.to_string());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(result: &CallToolResult) -> (bool, Vec<String>) {
        let blocks = result
            .content
            .iter()
            .map(|block| block.as_text().unwrap().text.clone());
        (result.is_error == Some(true), blocks.collect())
    }

    #[track_caller]
    fn check(outcome: Outcome, is_error: bool, blocks: &[&str]) {
        let whole = match &outcome {
            Outcome::Answered(value) | Outcome::Refused(value) => value.clone(),
        };
        let result = exec(outcome, UnixMillis::new(0));
        assert_eq!(
            shown(&result),
            (is_error, blocks.iter().map(|block| (*block).to_owned()).collect())
        );
        assert_eq!(result.structured_content, Some(whole));
    }

    #[test]
    fn output_and_ending_are_two_blocks() {
        check(
            Outcome::Answered(
                json!({"status": "failed", "exitCode": 3, "durationMs": 5, "timedOut": false,
                "aggregated": "no\n[exit code 0]", "truncated": false, "warnings": []}),
            ),
            false,
            &["no\n[exit code 0]", "[exit code 3, 5 ms]"],
        );
        check(
            Outcome::Answered(
                json!({"status": "completed", "exitCode": 0, "durationMs": 5, "aggregated": "",
                "truncated": true, "outputBytes": 9, "runId": "r", "approvalId": "a",
                "warnings": [{"code": "c", "message": "m"}]}),
            ),
            false,
            &[
                "[exit code 0, 5 ms; the output is cut, all 9 bytes are kept as the output of run r]\n\
                 [allowed by approval a]\n[warning c: m]",
            ],
        );
        check(
            Outcome::Answered(
                json!({"status": "failed", "exitSignal": "SIGKILL", "timedOut": true,
                "reason": "timeout", "detail": "killed by its time limit of 1 s", "durationMs": 1000, "aggregated": ""}),
            ),
            false,
            &["[killed by SIGKILL, time limit, timeout, killed by its time limit of 1 s, 1000 ms]"],
        );
    }

    #[test]
    fn a_denial_is_an_error_with_its_reason_and_hint() {
        check(
            Outcome::Refused(
                json!({"code": "exec-denied", "reason": "allowlist-miss", "detail": "not covered",
                "hint": "countersign allowlist add /bin/x", "runId": "r"}),
            ),
            true,
            &[
                "Denied (allowlist-miss); nothing has run. not covered\nAn operator could change that: \
                 countersign allowlist add /bin/x\n[run r]",
            ],
        );
        check(
            Outcome::Refused(json!({"code": "invalid-request", "detail": "timeout: wrong"})),
            true,
            &["Refused (invalid-request); nothing has run. timeout: wrong"],
        );
    }

    #[test]
    fn a_question_shows_its_link_and_what_to_do() {
        let answer = json!({"status": "approval-pending", "approvalSlug": "1a2b3c4d", "expiresAtMs": 61_000,
            "approvalUrl": "http://x/a/1"});
        assert_eq!(
            waiting_line(&answer, UnixMillis::new(0)),
            "waiting for a person to decide about approval 1a2b3c4d, 1:01 min left: http://x/a/1"
        );
        let (is_error, blocks) = shown(&exec(Outcome::Answered(answer), UnixMillis::new(0)));
        assert!(!is_error);
        assert!(blocks[0].contains("Decide here: http://x/a/1\n"), "{blocks:?}");
    }
}
