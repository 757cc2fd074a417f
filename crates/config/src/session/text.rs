//! What people read as the answer to a directive: short, plain, and nothing of what they typed but a few visible
//! characters.

use countersign_domain::{ApprovalDecision, Ask, Host, Security};

use super::{
    directive::{BadOption, ExecKey, Typed},
    gates::Gate,
    overrides::ExecOverrides,
};

use crate::settings::ElevatedLevel;

/// What anybody reads who may not use directives.
pub const NOT_AUTHORISED: &str = "You are not authorised to use directives here.";

/// Answers an `/approve` that cannot be meant.
pub const APPROVE_USAGE: &str =
    "Usage: /approve ID allow-once, allow-always or deny. ID is the approval's id or its first 8 characters.";

/// The levels, as people type them.
const LEVELS: &str = "on, ask, full or off";

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown<T> {
    /// The value in effect.
    pub value: T,
    /// The key or layer that set it.
    pub source: String,
}

/// What `/exec` alone shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecShown {
    /// Where the session's commands run.
    pub host: Shown<Host>,
    /// The enforcement level in effect.
    pub security: Shown<Security>,
    /// When a person is asked.
    pub ask: Shown<Ask>,
    /// The node, where there is one.
    pub node: Option<Shown<String>>,
}

/// Answers `/exec` without options.
pub fn exec_shown(shown: &ExecShown) -> String {
    let ExecShown {
        host,
        security,
        ask,
        node,
    } = shown;
    let node = node.as_ref().map_or_else(
        || "node=none".to_owned(),
        |node| format!("node={} ({})", node.value, node.source),
    );
    format!(
        "host={} ({}), security={} ({}), ask={} ({}), {node}\nChange with /exec host=… security=… ask=… node=…",
        host.value, host.source, security.value, security.source, ask.value, ask.source,
    )
}

/// Answers `/exec` with options.
pub fn exec_set(set: &ExecOverrides) -> String {
    let ExecOverrides {
        host,
        security,
        ask,
        node,
    } = set;
    let parts: Vec<String> = [
        host.map(|host| format!("host={host}")),
        security.map(|security| format!("security={security}")),
        ask.map(|ask| format!("ask={ask}")),
        node.as_ref().map(|node| format!("node={node}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    format!(
        "Set for this session: {}. The approvals of the host still apply.",
        parts.join(", ")
    )
}

/// Answers `/exec` with something that cannot be meant.
pub fn exec_bad(bad: &BadOption) -> String {
    match bad {
        BadOption::Value { key, typed } => format!(
            "{} cannot be \"{typed}\"; allowed: {}. Nothing was changed.",
            key.as_str(),
            key.allowed()
        ),
        BadOption::Twice(key) => format!("{} is given twice. Nothing was changed.", key.as_str()),
        BadOption::Unknown(typed) => {
            let keys: Vec<&str> = ExecKey::ALL.into_iter().map(ExecKey::as_str).collect();
            format!(
                "There is no option \"{typed}\"; allowed: {}. Nothing was changed.",
                keys.join(", ")
            )
        }
    }
}

/// Answers `/elevated`: the level that a sender chose, else that of calls that ask to be elevated.
pub fn elevated_shown(chosen: Option<ElevatedLevel>, default: ElevatedLevel) -> String {
    match chosen {
        Some(level) => format!("Elevated is {level} in this session. Change with /elevated {LEVELS}."),
        None => format!(
            "Elevated is not set in this session; a call that asks for it gets {default}. Change with /elevated \
             {LEVELS}."
        ),
    }
}

/// Answers `/elevated` with a level.
pub const fn elevated_set(level: ElevatedLevel) -> &'static str {
    match level {
        ElevatedLevel::Off => "Elevated is off: what was set before holds again.",
        ElevatedLevel::On => {
            "Elevated is on: commands run outside of the sandbox with security full, asked about as before. The \
             approvals of the host still apply."
        }
        ElevatedLevel::Ask => {
            "Elevated is ask: commands run outside of the sandbox with security full, asked about as before. The \
             approvals of the host still apply."
        }
        ElevatedLevel::Full => {
            "Elevated is full: commands run outside of the sandbox with security full and ask off. The approvals of \
             the host still apply."
        }
    }
}

/// Answers `/elevated` with another word.
pub fn elevated_bad(typed: &Typed) -> String {
    format!("There is no level \"{typed}\"; allowed: {LEVELS}. Nothing was changed.")
}

/// Answers `/elevated` where it is not available.
pub fn elevated_unavailable(gates: &[Gate]) -> String {
    let lines: Vec<String> = gates
        .iter()
        .map(|gate| format!("- {} {}", gate.key, gate.why))
        .collect();
    format!(
        "Elevated is not available here. Nothing was changed.\n{}",
        lines.join("\n")
    )
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// It settled the approval, with this decision.
    Taken(ApprovalDecision),
    /// It counts, and others have to allow it, too.
    Counted {
        /// How many have so far.
        votes: usize,
        /// How many have to.
        required: u64,
    },
    /// The same was answered before.
    Again(ApprovalDecision),
    /// A different answer was given before.
    Otherwise(ApprovalDecision),
    /// It came too late.
    Expired,
    /// The request was withdrawn.
    Cancelled,
    /// This answer is not open.
    NotOpen(ApprovalDecision),
    /// The token that asked cannot answer.
    OwnRequest,
    /// The token that brought it may not allow this, for the reason given.
    NotEntitled(String),
    /// Everything is stopped; who did that, when and why.
    Stopped(String),
    /// There is no such approval.
    Unknown,
    /// More than one approval begins with the characters that were typed.
    Ambiguous,
}

/// Answers `/approve`; `name` is the approval as it was named.
pub fn approved(name: &str, answered: &Answered) -> String {
    match answered {
        Answered::Taken(decision) => format!("Approval {name}: {decision}."),
        Answered::Counted { votes, required } => {
            format!("Approval {name}: allowed by {votes} of {required}. It waits for another approver.")
        }
        Answered::Again(decision) => format!("Approval {name} was answered before, with {decision} too."),
        Answered::Otherwise(decision) => {
            format!("Approval {name} was answered before, with {decision}. That stays.")
        }
        Answered::Expired => format!("Approval {name} has expired; nothing runs by it."),
        Answered::Cancelled => format!("Approval {name} was withdrawn; nothing runs by it."),
        Answered::NotOpen(decision) => {
            format!("Approval {name} cannot be answered with {decision}. It still waits.")
        }
        Answered::OwnRequest => format!("Approval {name} cannot be answered by the token that asked for it."),
        Answered::NotEntitled(why) => {
            format!("Approval {name} cannot be allowed by the token that brought the answer: {why}.")
        }
        Answered::Stopped(why) => format!("Approval {name} cannot be allowed: {why}"),
        Answered::Unknown => format!("There is no approval {name}."),
        Answered::Ambiguous => format!("More than one approval begins with {name}; give the whole id."),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::{
        super::directive::{Directive, parse},
        *,
    };
    use countersign_domain::{HostChoice, Quorum};

    fn shown<T>(value: T, source: &str) -> Shown<T> {
        Shown {
            value,
            source: source.to_owned(),
        }
    }

    /// The answer to a text with one directive that cannot be meant, or that sets something.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    fn answer(text: &str) -> String {
        match parse(text).directives.remove(0) {
            Directive::SetExec(set) => exec_set(&set),
            Directive::BadExec(bad) => exec_bad(&bad),
            Directive::BadElevated(typed) => elevated_bad(&typed),
            Directive::SetElevated(level) => elevated_set(level).to_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn all() -> Vec<(&'static str, String)> {
        let gate = |key: &str, why: &str| Gate {
            key: key.to_owned(),
            why: why.to_owned(),
        };
        let exec = ExecShown {
            host: shown(Host::Gateway, "session"),
            security: shown(Security::Allowlist, "tools.exec.security"),
            ask: shown(Ask::OnMiss, "default"),
            node: None,
        };
        let on_node = ExecShown {
            host: shown(Host::Node, "session"),
            node: Some(shown("mac-1".to_owned(), "agents.list[0].tools.exec.node")),
            ..exec.clone()
        };
        let slug = |answered: Answered| approved("3f2a9c14", &answered);
        let full = ExecOverrides {
            host: Some(HostChoice::Auto),
            security: Some(Security::Full),
            ask: Some(Ask::Always),
            node: Some("mac-1".to_owned()),
        };
        vec![
            ("not-authorised", NOT_AUTHORISED.to_owned()),
            ("exec-shown", exec_shown(&exec)),
            ("exec-shown-node", exec_shown(&on_node)),
            ("exec-set-one", answer("/exec ask=off")),
            ("exec-set-all", exec_set(&full)),
            ("exec-bad-host", answer("/exec host=build-01")),
            ("exec-bad-security", answer("/exec security=none")),
            ("exec-bad-ask", answer("/exec ask=never")),
            ("exec-bad-node", answer("/exec node=")),
            ("exec-twice", answer("/exec ask=off ask=always")),
            ("exec-unknown", answer("/exec secuirty=deny")),
            ("elevated-shown-unset", elevated_shown(None, ElevatedLevel::On)),
            (
                "elevated-shown",
                elevated_shown(Some(ElevatedLevel::Full), ElevatedLevel::On),
            ),
            ("elevated-on", answer("/elevated on")),
            ("elevated-ask", answer("/elevated ask")),
            ("elevated-full", answer("/elevated full")),
            ("elevated-off", answer("/elevated off")),
            ("elevated-bad", answer("/elevated up")),
            (
                "elevated-unavailable",
                elevated_unavailable(&[
                    gate("tools.elevated.enabled", "is false"),
                    gate("tools.elevated.allowFrom.telegram", "does not name 42"),
                ]),
            ),
            ("approve-usage", APPROVE_USAGE.to_owned()),
            (
                "approve-taken",
                slug(Answered::Taken(ApprovalDecision::AllowOnce)),
            ),
            (
                "approve-counted",
                slug(Answered::Counted {
                    votes: 1,
                    required: 2,
                }),
            ),
            (
                "approve-not-entitled",
                slug(Answered::NotEntitled(
                    Quorum {
                        groups: Some(["ops".to_owned()].into()),
                        ..Quorum::default()
                    }
                    .who_may_allow(),
                )),
            ),
            (
                "approve-again",
                slug(Answered::Again(ApprovalDecision::AllowAlways)),
            ),
            (
                "approve-otherwise",
                slug(Answered::Otherwise(ApprovalDecision::Deny)),
            ),
            ("approve-expired", slug(Answered::Expired)),
            ("approve-cancelled", slug(Answered::Cancelled)),
            (
                "approve-not-open",
                slug(Answered::NotOpen(ApprovalDecision::AllowAlways)),
            ),
            ("approve-own-request", slug(Answered::OwnRequest)),
            ("approve-unknown", slug(Answered::Unknown)),
            ("approve-ambiguous", slug(Answered::Ambiguous)),
        ]
    }

    #[test]
    fn every_reply_is_as_its_file_has_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/session/replies");
        let mut names = BTreeSet::new();
        let mut wrong = Vec::new();
        for (name, text) in all() {
            let file = format!("{name}.txt");
            let kept = fs::read_to_string(folder.join(&file)).unwrap_or_default();
            if kept != format!("{text}\n") {
                wrong.push(format!("--- {file}\n{text}"));
            }
            assert!(names.insert(file), "{name} twice");
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let there: BTreeSet<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(there, names);
    }
}
