//! What an event says, in words: for the log of the server and for people who follow events.
//!
//! Pure. Text of commands and people comes out on one line, with what looks like a secret masked and everything spelled out
//! that a terminal would obey.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use countersign_domain::Reason;
use countersign_policy::command::{display, redaction};

use crate::event::EventBody;

/// Longest text of a command or a person in a sentence, in characters.
const LONGEST: usize = 200;

/// How much a part says beside the other parts of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Something of its own.
    Full,
    /// Something as long as nothing follows.
    Passing,
    /// What another part says, too.
    Repeats,
}

/// A part of a story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The run that it is about; parts of one run belong together.
    pub run_id: Option<String>,
    /// Whether the story of the run begins with it.
    pub begins: bool,
    /// What it says beside the others.
    pub weight: Weight,
    /// The words.
    pub text: String,
}

/// The sentence of an event; `None` for a type that is not known here.
pub fn of(event: &EventBody) -> Option<Sentence> {
    let members = Members(&event.members);
    let agent = members.text("agentId").unwrap_or_else(|| "an agent".to_owned());
    let (text, weight) = match event.r#type.as_str() {
        "exec.requested" => (requested(&members, &agent), Weight::Full),
        "exec.approval.requested" => (asks(&members), Weight::Passing),
        "exec.approval.voted" => (voted(&members), Weight::Full),
        "exec.approval.resolved" => (answered(&members), Weight::Full),
        "exec.denied" if was_answered(&members) => (denied(&members), Weight::Repeats),
        "exec.denied" => (denied(&members), Weight::Full),
        "exec.started" => ("runs".to_owned(), Weight::Repeats),
        "exec.running" => {
            let text = format!("still runs after {}", members.duration("elapsedMs"));
            (text, Weight::Passing)
        }
        "exec.finished" => (finished(&members), Weight::Full),
        // The session of a run is told what other events say.
        other @ ("system.event" | "session.wake") => (general(other, &members)?, Weight::Repeats),
        other => (general(other, &members)?, Weight::Full),
    };
    Some(Sentence {
        run_id: members.text("runId"),
        begins: event.r#type == "exec.requested",
        weight,
        text,
    })
}

fn requested(members: &Members<'_>, agent: &str) -> String {
    let command = members.text("command").unwrap_or_default();
    let verb = match members.text("verdict").as_deref() {
        Some("run") => "runs",
        _ => "asked",
    };
    format!("{agent} {verb} {command}")
}

fn asks(members: &Members<'_>) -> String {
    let slug = members.text("slug").unwrap_or_default();
    match members.number("approvalsRequired") {
        Some(required) if required > 1 => format!("waits for {required} people (approval {slug})"),
        Some(_) | None => format!("waits for a person (approval {slug})"),
    }
}

fn voted(members: &Members<'_>) -> String {
    let by = members.name("by").unwrap_or_else(|| "someone".to_owned());
    let votes = members.number("votes").unwrap_or_default();
    let required = members.number("approvalsRequired").unwrap_or_default();
    format!("{by} allowed, {votes} of {required}")
}

fn answered(members: &Members<'_>) -> String {
    let by = members.name("resolvedBy");
    let someone = || by.clone().unwrap_or_else(|| "someone".to_owned());
    let said = members
        .text("reason")
        // It ends where the quote does.
        .map(|reason| reason.replace('\u{201d}', "\\u{201D}"))
        .map(|reason| format!(": \u{201c}{reason}\u{201d}"))
        .unwrap_or_default();
    match (
        members.text("terminalReason").as_deref(),
        members.text("status").as_deref(),
    ) {
        (Some("timeout"), _) => "nobody answered".to_owned(),
        (Some("no-route"), _) => "nobody could be reached".to_owned(),
        (Some("stopped"), _) => "ended by the emergency stop".to_owned(),
        (Some("run-aborted"), _) => "withdrawn".to_owned(),
        (Some("taken-back"), _) => format!("{} took the answer back{said}", someone()),
        (Some("rule"), status) => {
            let verb = if status == Some("allowed") {
                "allowed"
            } else {
                "denied"
            };
            // The name of the actor is the rule, and who made it.
            match by.as_deref().map(|by| by.strip_prefix("rule ").unwrap_or(by)) {
                Some(rule) => format!("{verb} by a rule: {rule}"),
                None => format!("{verb} by a rule"),
            }
        }
        (_, Some("allowed")) => {
            let how = match members.text("decision").as_deref() {
                Some("allow-always") => "always",
                _ => "once",
            };
            format!("{} allowed {how}{said}", someone())
        }
        (_, Some("denied")) => format!("{} denied{said}", someone()),
        (_, Some("expired")) => "nobody answered".to_owned(),
        (_, _) => "withdrawn".to_owned(),
    }
}

/// What a person or a rule answered was told already.
fn was_answered(members: &Members<'_>) -> bool {
    let detail = members.text("detail");
    if detail.is_some_and(|detail| detail.starts_with("denied by your rule: ")) {
        return true;
    }
    let reason = members.text("reason");
    let reason = reason.as_deref();
    let told = [
        Reason::UserDenied,
        Reason::ApprovalTimeout,
        Reason::ApprovalCancelled,
        Reason::NoApprover,
    ];
    reason.is_some_and(|reason| told.iter().any(|told| told.as_str() == reason))
}

fn denied(members: &Members<'_>) -> String {
    let reason = members.text("reason").unwrap_or_default();
    match members.text("detail") {
        Some(detail) => format!("denied: {reason} ({detail})"),
        None => format!("denied: {reason}"),
    }
}

/// How a run that has ended went, by its members: `exit 0 in 12 ms`.
pub fn ended(run: &Map<String, Value>) -> String {
    let members = Members(run);
    match members.text("status").as_deref() {
        Some("denied") => denied(&members),
        Some(_) | None => finished(&members),
    }
}

fn finished(members: &Members<'_>) -> String {
    let took = format!("in {}", members.duration("durationMs"));
    let signal = members.text("exitSignal");
    let reason = members.text("reason");
    match (members.text("status").as_deref(), members.number("exitCode")) {
        _ if members.is_true("timedOut") => {
            format!("ended by its time limit after {}", members.duration("durationMs"))
        }
        (_, Some(code)) => format!("exit {code} {took}"),
        (Some("cancelled"), None) => "cancelled".to_owned(),
        (Some("lost"), None) => format!(
            "lost: {}",
            reason.unwrap_or_else(|| "its outcome is unknown".to_owned())
        ),
        (_, None) => match (signal, reason) {
            (Some(signal), _) => format!("ended by {signal} after {}", members.duration("durationMs")),
            (None, Some(reason)) => format!("failed: {reason}"),
            (None, None) => format!("ended {took}"),
        },
    }
}

/// What is not about one run.
fn general(kind: &str, members: &Members<'_>) -> Option<String> {
    let by = || {
        members
            .name("by")
            .unwrap_or_else(|| "someone outside countersign".to_owned())
    };
    let text = |name| members.text(name).unwrap_or_default();
    Some(match kind {
        "exec.stopped" => format!("{} stopped everything: {}", by(), text("reason")),
        "exec.resumed" => format!("{} let everything go on: {}", by(), text("reason")),
        "allowlist.changed" if members.is_true("mutes") => {
            let verb = match text("change").as_str() {
                "removed" => "unmuted",
                _ => "muted",
            };
            let agent = members.text("agentId");
            let agent = agent.unwrap_or_else(|| "every agent".to_owned());
            format!("{} {verb} {agent}", by())
        }
        // What an answer was to leave and did not.
        "allowlist.changed" if members.text("warning").is_some() => {
            format!("an answer left no entry: {}", text("warning"))
        }
        "allowlist.changed" => {
            let list = match text("list").as_str() {
                "denylist" => "deny rule",
                "grants" => "grant",
                _ => "allowlist entry",
            };
            let entry = text("entryId");
            let entry = entry.get(..8).unwrap_or(&entry);
            let whose = members.text("agentId");
            let whose = whose.map(|agent| format!(" of {agent}")).unwrap_or_default();
            match text("change").as_str() {
                "used" => format!("{list} {entry}{whose} let a run through"),
                change => format!("{} {change} {list} {entry}{whose}", by()),
            }
        }
        "policy.changed" => {
            let what = match text("what").as_str() {
                "document" => "the approvals document",
                "preset" => "the policy by a preset",
                _ => "the configuration",
            };
            let whose = members.text("agentId");
            let whose = whose.map(|agent| format!(" of {agent}")).unwrap_or_default();
            // A file that was edited does not say by whom.
            match members.name("by") {
                Some(by) => format!("{by} changed {what}{whose}"),
                None => format!("{what} changed: its file was edited"),
            }
        }
        "config.rejected" => format!("{} was rejected: {}", text("path"), text("message")),
        "config.restart-needed" => format!("a restart is needed for {}", members.list("paths")),
        "document.refused" => format!(
            "the approvals document is refused: {} at {}",
            text("reason"),
            text("pointer")
        ),
        "document.held" => "an edit of the approvals document waits for an admin".to_owned(),
        "session.changed" => format!("{} changed the overrides of session {}", by(), text("sessionKey")),
        "session.wake" => format!("session {} is woken: {}", text("sessionKey"), text("systemEvent")),
        "system.event" => format!("session {} is told: {}", text("sessionKey"), text("text")),
        "node.connected" => format!("node {} connected", members.node()),
        "node.disconnected" => match members.text("reason") {
            Some(reason) => format!("node {} disconnected: {reason}", members.node()),
            None => format!("node {} disconnected", members.node()),
        },
        "node.pairing.requested" => format!("{} asks to be a node", members.node()),
        "node.pairing.resolved" => {
            let what = match text("decision").as_str() {
                "approve" => "approved",
                "reject" => "rejected",
                _ => "removed",
            };
            format!("{} {what} {}", by(), members.node())
        }
        "server.shutdown" => "the server stops".to_owned(),
        _ => return None,
    })
}

/// The sentence of a record of a change of policy: what is recorded with an event says what the event does, and what is recorded alone
/// has words of its own. `by` is who did it; the system counts as nobody.
pub fn of_policy_record(action: &str, by: Option<&Value>, detail: &Map<String, Value>) -> String {
    let mut members = detail.clone();
    if let Some(by) = by {
        members.insert("by".to_owned(), by.clone());
    }
    let members = Members(&members);
    let name = members.name("by");
    let name = name.unwrap_or_else(|| "someone outside countersign".to_owned());
    match action {
        "config.changed" => {
            let keys = [("set", "set"), ("took away", "unset")].map(|(verb, member)| {
                let keys = members.list(member);
                (!keys.is_empty()).then(|| format!("{verb} {keys}"))
            });
            let what: Vec<String> = keys.into_iter().flatten().collect();
            if what.is_empty() {
                format!("{name} changed the configuration")
            } else {
                one_line(&format!("{name} {}", what.join(" and ")))
            }
        }
        "document.replaced" => format!("{name} replaced the approvals document"),
        "document.held" if members.is_true("accepted") => format!("{name} accepted a change that was held"),
        "document.held" if members.is_true("rejected") => format!("{name} rejected a change that was held"),
        other => general(other, &members).unwrap_or_else(|| one_line(other)),
    }
}

/// A text on one line, as people may read it. What would look like the next step of a story is spelled out.
pub fn one_line(text: &str) -> String {
    let line = without_arrows(&display::escape(&redaction::masked(text)).text.replace('\n', ""));
    cut(line).0
}

/// A command on one line with secrets masked, as lists show it, and whether something of it is left out.
pub fn command_line(text: &str) -> (String, bool) {
    cut(display::escape(&redaction::masked(text)).text.replace('\n', ""))
}

fn cut(line: String) -> (String, bool) {
    if line.chars().count() <= LONGEST {
        return (line, false);
    }
    let mut cut: String = line.chars().take(LONGEST.saturating_sub(1)).collect();
    cut.push('…');
    (cut, true)
}

/// Arrows spelled out: one stands between the steps of a story.
fn without_arrows(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for character in line.chars() {
        let is_arrow = matches!(
            character,
            // The arrows of Unicode, and what else looks like one.
            '\u{2190}'..='\u{21ff}' | '\u{2794}'..='\u{27be}' | '\u{27f0}'..='\u{27ff}' | '\u{2900}'..='\u{297f}'
                | '\u{2b00}'..='\u{2bff}' | '\u{1f800}'..='\u{1f8ff}' | '\u{203a}' | '\u{276f}' | '\u{ffeb}'
        );
        let ends_one = character == '>'
            && shown.ends_with([
                '-', '=', '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2015}', '\u{2212}',
            ]);
        if is_arrow || ends_one {
            write!(shown, "\\u{{{:X}}}", u32::from(character)).expect("writing to a String cannot fail");
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A time as people read it: `267 ms`, `1.4 s`, `3 min 20 s`.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis / 100 % 10),
        _ => format!("{} min {} s", millis / 60_000, millis / 1_000 % 60),
    }
}

/// The members of an event.
struct Members<'a>(&'a Map<String, Value>);

impl Members<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let text = self.0.get(name)?.as_str()?;
        Some(one_line(text)).filter(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_i64()
    }

    fn is_true(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// The name of an actor.
    fn name(&self, member: &str) -> Option<String> {
        let name = self.0.get(member)?.get("name")?.as_str()?;
        Some(one_line(name))
    }

    fn duration(&self, name: &str) -> String {
        duration(
            self.number(name)
                .and_then(|millis| u64::try_from(millis).ok())
                .unwrap_or_default(),
        )
    }

    fn list(&self, name: &str) -> String {
        let items = self.0.get(name).and_then(Value::as_array);
        let texts = items
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(one_line);
        texts.collect::<Vec<_>>().join(", ")
    }

    fn node(&self) -> String {
        self.text("displayName")
            .or_else(|| self.text("nodeId"))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::json;

    use super::*;

    fn said(event: Value) -> String {
        let event = EventBody::deserialize(event).expect("an event");
        of(&event).expect("a known type").text
    }

    #[test]
    fn each_step_of_a_run_has_its_words() {
        let ann = json!({"kind": "session", "id": "s", "name": "ann"});
        for (event, expected) in [
            (
                json!({"type": "exec.requested", "agentId": "build", "command": "npm run build", "verdict": "ask"}),
                "build asked npm run build",
            ),
            (
                json!({"type": "exec.requested", "agentId": "build", "command": "ls\nid", "verdict": "run"}),
                "build runs ls\\u{A}id",
            ),
            (
                json!({"type": "exec.approval.requested", "slug": "5afb5d74", "approvalsRequired": 2}),
                "waits for 2 people (approval 5afb5d74)",
            ),
            (
                json!({"type": "exec.approval.voted", "by": ann, "votes": 1, "approvalsRequired": 2}),
                "ann allowed, 1 of 2",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "allowed", "decision": "allow-once", "resolvedBy": ann}),
                "ann allowed once",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "denied", "decision": "deny", "resolvedBy": ann,
                    "reason": "not on a Friday", "terminalReason": "user"}),
                "ann denied: “not on a Friday”",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "expired", "terminalReason": "timeout"}),
                "nobody answered",
            ),
            (
                json!({"type": "exec.denied", "reason": "denylist"}),
                "denied: denylist",
            ),
            (
                json!({"type": "exec.finished", "status": "failed", "exitCode": 1, "durationMs": 267, "timedOut": false}),
                "exit 1 in 267 ms",
            ),
            (
                json!({"type": "exec.finished", "status": "failed", "exitSignal": "SIGKILL", "durationMs": 61_000, "timedOut": true}),
                "ended by its time limit after 1 min 1 s",
            ),
            (
                json!({"type": "exec.finished", "status": "lost", "reason": "server-restart", "durationMs": 0}),
                "lost: server-restart",
            ),
            (
                json!({"type": "allowlist.changed", "change": "added", "list": "denylist", "by": ann,
                    "entryId": "3f2a9c14-0000-4000-8000-000000000000"}),
                "ann added deny rule 3f2a9c14",
            ),
            (
                json!({"type": "allowlist.changed", "change": "added", "list": "allowlist", "by": ann, "agentId": "build",
                    "entryId": "3f2a9c14-0000-4000-8000-000000000000"}),
                "ann added allowlist entry 3f2a9c14 of build",
            ),
            (
                json!({"type": "allowlist.changed", "change": "used", "list": "grants", "agentId": "build",
                    "entryId": "3f2a9c14-0000-4000-8000-000000000000"}),
                "grant 3f2a9c14 of build let a run through",
            ),
            (
                json!({"type": "allowlist.changed", "change": "added", "list": "denylist", "by": ann, "agentId": "build",
                    "entryId": "3f2a9c14-0000-4000-8000-000000000000", "mutes": true}),
                "ann muted build",
            ),
            (
                json!({"type": "allowlist.changed", "change": "removed", "list": "denylist", "by": ann,
                    "entryId": "3f2a9c14-0000-4000-8000-000000000000", "mutes": true}),
                "ann unmuted every agent",
            ),
            (
                json!({"type": "exec.approval.requested", "slug": "5afb5d74"}),
                "waits for a person (approval 5afb5d74)",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "allowed", "decision": "allow-always", "resolvedBy": ann,
                    "terminalReason": "user"}),
                "ann allowed always",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "denied", "decision": "deny", "resolvedBy": ann,
                    "terminalReason": "user"}),
                "ann denied",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "allowed", "terminalReason": "rule",
                    "resolvedBy": {"kind": "system", "id": "rule", "name": "rule /usr/bin/git, set by ann"}}),
                "allowed by a rule: /usr/bin/git, set by ann",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "denied", "terminalReason": "rule",
                    "resolvedBy": {"kind": "system", "id": "rule", "name": "rule mkfs*, set by ann"}}),
                "denied by a rule: mkfs*, set by ann",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "denied", "terminalReason": "taken-back",
                    "resolvedBy": ann, "reason": "wrong one"}),
                "ann took the answer back: “wrong one”",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "denied", "terminalReason": "no-route"}),
                "nobody could be reached",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "denied", "terminalReason": "stopped"}),
                "ended by the emergency stop",
            ),
            (
                json!({"type": "exec.approval.resolved", "status": "cancelled", "terminalReason": "run-aborted"}),
                "withdrawn",
            ),
            (json!({"type": "exec.started"}), "runs"),
            (
                json!({"type": "exec.running", "elapsedMs": 61_000}),
                "still runs after 1 min 1 s",
            ),
            (
                json!({"type": "exec.denied", "reason": "agent-muted", "detail": "the agent is muted"}),
                "denied: agent-muted (the agent is muted)",
            ),
            (
                json!({"type": "exec.finished", "status": "failed", "exitSignal": "SIGSEGV", "durationMs": 12}),
                "ended by SIGSEGV after 12 ms",
            ),
            (
                json!({"type": "exec.finished", "status": "failed", "reason": "spawn-failed", "durationMs": 0}),
                "failed: spawn-failed",
            ),
            (
                json!({"type": "exec.finished", "status": "cancelled", "durationMs": 0}),
                "cancelled",
            ),
            (
                json!({"type": "exec.finished", "status": "lost", "durationMs": 0}),
                "lost: its outcome is unknown",
            ),
            (
                json!({"type": "exec.stopped", "by": ann, "reason": "keys leaked", "kill": true}),
                "ann stopped everything: keys leaked",
            ),
            (
                json!({"type": "exec.resumed", "by": ann, "reason": "keys changed"}),
                "ann let everything go on: keys changed",
            ),
            (
                json!({"type": "policy.changed", "what": "document", "by": ann, "agentId": "build"}),
                "ann changed the approvals document of build",
            ),
            (
                json!({"type": "policy.changed", "what": "preset", "by": ann}),
                "ann changed the policy by a preset",
            ),
            (
                json!({"type": "policy.changed", "what": "config"}),
                "the configuration changed: its file was edited",
            ),
            (
                json!({"type": "config.rejected", "path": "openclaw.json", "message": "it is no JSON5"}),
                "openclaw.json was rejected: it is no JSON5",
            ),
            (
                json!({"type": "config.restart-needed", "paths": ["http.listen", "log.level"]}),
                "a restart is needed for http.listen, log.level",
            ),
            (
                json!({"type": "document.refused", "reason": "wrong-type", "pointer": "/agents"}),
                "the approvals document is refused: wrong-type at /agents",
            ),
            (
                json!({"type": "document.held", "hash": "x"}),
                "an edit of the approvals document waits for an admin",
            ),
            (
                json!({"type": "session.changed", "by": ann, "sessionKey": "agent:main:main"}),
                "ann changed the overrides of session agent:main:main",
            ),
            (
                json!({"type": "session.wake", "sessionKey": "agent:main:main", "systemEvent": "it ended"}),
                "session agent:main:main is woken: it ended",
            ),
            (
                json!({"type": "system.event", "sessionKey": "agent:main:main", "text": "it ended"}),
                "session agent:main:main is told: it ended",
            ),
            (
                json!({"type": "node.connected", "nodeId": "n1", "displayName": "desk"}),
                "node desk connected",
            ),
            (
                json!({"type": "node.disconnected", "nodeId": "n1", "reason": "no answer"}),
                "node n1 disconnected: no answer",
            ),
            (
                json!({"type": "node.disconnected", "nodeId": "n1"}),
                "node n1 disconnected",
            ),
            (
                json!({"type": "node.pairing.requested", "nodeId": "n1", "displayName": "desk"}),
                "desk asks to be a node",
            ),
            (
                json!({"type": "node.pairing.resolved", "nodeId": "n1", "decision": "approve", "by": ann}),
                "ann approved n1",
            ),
            (json!({"type": "server.shutdown"}), "the server stops"),
        ] {
            assert_eq!(said(event), expected);
        }
    }

    #[test]
    fn each_record_of_policy_has_its_words() {
        let ann = json!({"kind": "token", "id": "t", "name": "ann"});
        let said = |action: &str, by: Option<&Value>, detail: Value| {
            let Value::Object(detail) = detail else {
                panic!("an object");
            };
            of_policy_record(action, by, &detail)
        };
        let entry = "3f2a9c14-0000-4000-8000-000000000000";
        for (action, by, detail, expected) in [
            (
                "policy.changed",
                Some(&ann),
                json!({"what": "document", "agentId": "build"}),
                "ann changed the approvals document of build",
            ),
            (
                "policy.changed",
                None,
                json!({"what": "config"}),
                "the configuration changed: its file was edited",
            ),
            (
                "allowlist.changed",
                Some(&ann),
                json!({"change": "removed", "list": "denylist", "entryId": entry}),
                "ann removed deny rule 3f2a9c14",
            ),
            (
                "allowlist.changed",
                None,
                json!({"warning": "the entries could not be kept", "agentId": "main"}),
                "an answer left no entry: the entries could not be kept",
            ),
            (
                "config.changed",
                Some(&ann),
                json!({"set": ["tools.exec.ask"], "unset": ["tools.exec.mode"]}),
                "ann set tools.exec.ask and took away tools.exec.mode",
            ),
            (
                "document.replaced",
                Some(&ann),
                json!({"forced": true}),
                "ann replaced the approvals document",
            ),
            (
                "document.held",
                Some(&ann),
                json!({"accepted": true}),
                "ann accepted a change that was held",
            ),
            (
                "document.held",
                Some(&ann),
                json!({"rejected": true}),
                "ann rejected a change that was held",
            ),
            (
                "document.held",
                None,
                json!({}),
                "an edit of the approvals document waits for an admin",
            ),
            ("of.later", None, json!({}), "of.later"),
        ] {
            assert_eq!(said(action, by, detail), expected, "{action}");
        }
    }

    #[test]
    fn what_an_answer_said_is_not_said_again() {
        let weight = |event: Value| {
            let event = EventBody::deserialize(event).expect("an event");
            of(&event).expect("a known type").weight
        };
        let denied = |reason: &str, detail: &str| {
            weight(json!({"type": "exec.denied", "reason": reason, "detail": detail}))
        };
        assert_eq!(denied("user-denied", "no"), Weight::Repeats);
        assert_eq!(denied("denylist", "denied by your rule: mkfs*"), Weight::Repeats);
        assert_eq!(denied("denylist", "mkfs*"), Weight::Full);
    }

    #[test]
    fn secrets_are_masked_and_long_texts_cut() {
        let command = format!("x --token abcdef0123 {}", "y".repeat(500));
        let text = said(json!({"type": "exec.requested", "agentId": "a", "command": command}));
        assert!(text.contains("⟨secret of 10 characters⟩"), "{text}");
        assert!(text.chars().count() < 220 && text.ends_with('…'), "{text}");
    }

    #[test]
    fn no_command_forges_the_next_step() {
        let told = |command: &str| {
            said(json!({"type": "exec.requested", "agentId": "build", "command": command, "verdict": "run"}))
        };
        for (command, expected) in [
            (
                "ls # \u{2192} ann allowed once",
                "build runs ls # \\u{2192} ann allowed once",
            ),
            ("ls -> exit 0", "build runs ls -\\u{3E} exit 0"),
            ("ls \u{27f6} exit 0", "build runs ls \\u{27F6} exit 0"),
            (
                "ls \u{1f852} \u{2014}> x",
                "build runs ls \\u{1F852} \u{2014}\\u{3E} x",
            ),
            // The harmless twins.
            ("ls - > out 2>&1", "build runs ls - > out 2>&1"),
            ("echo 5-3 x>=2", "build runs echo 5-3 x>=2"),
        ] {
            assert_eq!(told(command), expected);
        }
        let reason = "no\u{201d} \u{2192} exit 0 \u{201c}";
        let told = said(
            json!({"type": "exec.approval.resolved", "status": "denied", "reason": reason,
            "terminalReason": "user", "resolvedBy": {"name": "ann"}}),
        );
        assert_eq!(
            told,
            "ann denied: \u{201c}no\\u{201D} \\u{2192} exit 0 \u{201c}\u{201d}"
        );
    }

    #[test]
    fn what_is_not_known_has_no_words() {
        let event = EventBody::deserialize(json!({"type": "later.version"})).expect("an event");
        assert_eq!(of(&event), None);
    }
}
