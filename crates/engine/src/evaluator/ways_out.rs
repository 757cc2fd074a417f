//! The commands that a person pastes to change what becomes of a call: those that would let it run unasked, and the one
//! that would refuse it for good.

use countersign_domain::{AgentId, Ask, Host, Pattern, Reason, Security, SessionKey};
use countersign_policy::{
    allowlist::{Analysis, MatchKind, SegmentReport},
    combine::DocumentPolicy,
    command::characters::is_escaped_in_display,
    gate::{AskWhy, Verdict},
    layers::Spoken,
    pattern::has_wildcard,
};

use super::{judgement::Judgement, outcome::Outcome};
use crate::hint::hint;

/// A command of more parts is not let through by pasting lines.
const MOST_ENTRIES: usize = 8;

/// Programs that a text starts on its way to something else. A rule against one of them would miss what the text is for.
const IN_PASSING: [&str; 10] = [
    "[", "cd", "date", "echo", "false", "printf", "pwd", "sleep", "test", "true",
];

/// A setting that stands in the way, and the value that lets the rest of policy count: the member, the value.
pub(crate) const SECURITY: (&str, &str) = ("security", "allowlist");
const ASK: (&str, &str) = ("ask", "on-miss");

/// What changes what becomes of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaysOut {
    /// The commands that together would let it run unasked: entries for exactly this call. Empty where no entry can say it.
    pub to_allow: Vec<String>,
    /// The command that would refuse it for good, by the program that it is for; `None` where that is only known at run time.
    pub to_refuse: Option<String>,
}

impl Judgement {
    /// What would change this, where it comes to `outcome`. `analysis` has at least the parts of the call, also where nothing had to be
    /// judged of them.
    pub(crate) fn ways_out(&self, agent: &AgentId, outcome: Outcome, analysis: &Analysis) -> WaysOut {
        let to_allow = match (outcome, self.verdict) {
            (Outcome::Ask(_) | Outcome::Deny(Reason::NoApprover), Verdict::Ask(spec)) => match spec.why {
                AskWhy::AskAlways => self.to_end_asking_always(agent),
                AskWhy::AllowlistMiss | AskWhy::NeedsPerson | AskWhy::Asked | AskWhy::Revised => {
                    self.entries(agent, &self.would_persist())
                }
            },
            (Outcome::Deny(Reason::AllowlistMiss), _) => self.entries(agent, &self.would_persist()),
            _ => Vec::new(),
        };
        // One deny rule is enough, and none can be stored in a document that does not read.
        let refusable = match outcome {
            Outcome::Run | Outcome::Ask(_) => true,
            Outcome::Deny(reason) => !matches!(reason, Reason::Denylist | Reason::DocumentRefused),
            Outcome::BadCommand | Outcome::BlockedEnv => false,
        };
        let program = what_it_is_for(&analysis.segments).filter(|_| refusable);
        WaysOut {
            to_allow,
            to_refuse: program.map(|program| hint(&words_to_refuse(agent, program))),
        }
    }

    /// The one command that would let a call run that is denied since nothing covers it, or else have a person asked.
    pub(super) fn how_to_allow(&self, agent: &AgentId) -> Option<String> {
        if self.binding.host == Host::Node {
            // The entry belongs into the node's own document.
            return self
                .binding
                .node_id
                .as_deref()
                .map(|node| hint(&["nodes", "show", node]));
        }
        let mut entries = self.entries(agent, &self.would_persist());
        match (entries.len(), self.effective.ask.value) {
            (1, _) => entries.pop(),
            (_, Ask::Off) => Some(hint(&[
                "policy",
                "set",
                "--agent",
                agent.as_str(),
                "--ask",
                "on-miss",
            ])),
            (_, Ask::OnMiss | Ask::Always) => None,
        }
    }

    /// The command that would end `security: deny`. Where more than one layer says it, only a preset changes them together.
    pub(super) fn how_to_end_deny(&self) -> Option<String> {
        let security = &self.effective.security;
        // What is built in gives way to any other.
        let says_deny = |said: &&Spoken<Security>| said.value == Security::Deny && said.source != "default";
        let denies = security.layers.iter().filter(says_deny);
        match (
            setting(&security.source, &self.binding.session, SECURITY),
            denies.count(),
        ) {
            (Some(_), 2..) if security.source != "session" => Some(hint(&["policy", "preset", "cautious"])),
            (how, _) => how,
        }
    }

    /// The commands that would store what a bare `allow-always` stores.
    fn entries(&self, agent: &AgentId, would_persist: &[Pattern]) -> Vec<String> {
        if self.binding.host != Host::Gateway {
            return Vec::new();
        }
        let Some(analysis) = &self.analysis else {
            return Vec::new();
        };
        if analysis.lacks_only_input() {
            let path = analysis.first_uncovered_path();
            let entry = path
                .and_then(|path| pasted(&["allowlist", "add", "--input", "--agent", agent.as_str(), path]));
            return entry.into_iter().collect();
        }
        let defaults = would_persist.iter().filter(|pattern| pattern.default);
        let lines: Option<Vec<String>> = defaults
            .map(|pattern| {
                let mut words = vec!["allowlist", "add", "--agent", agent.as_str()];
                if let Some(arguments) = &pattern.arg_pattern {
                    words.extend(["--arg-pattern", arguments]);
                }
                words.push(&pattern.pattern);
                pasted(&words)
            })
            .collect();
        // One entry alone would not do, and nobody pastes a page of them.
        lines
            .filter(|lines| lines.len() <= MOST_ENTRIES)
            .unwrap_or_default()
    }

    /// The commands that would end `ask: always`, and cover the call then. None where more than one layer says it.
    fn to_end_asking_always(&self, agent: &AgentId) -> Vec<String> {
        let ask = &self.effective.ask;
        let says_always = ask.layers.iter().filter(|said| said.value == Ask::Always);
        if says_always.count() != 1 {
            return Vec::new();
        }
        let Some(end) = setting(&ask.source, &self.binding.session, ASK) else {
            return Vec::new();
        };
        if self.input.coverage.satisfied {
            return vec![end];
        }
        let analysis = self.analysis.as_ref();
        let entries = analysis.map(|analysis| self.entries(agent, &analysis.proposed_patterns));
        match entries {
            Some(entries) if !entries.is_empty() => std::iter::once(end).chain(entries).collect(),
            Some(_) | None => Vec::new(),
        }
    }
}

/// A command; `None` where a word of it cannot be shown as it is, or would be a pattern. An agent chose the names of files.
fn pasted(words: &[&str]) -> Option<String> {
    let is_plain = words.last().is_some_and(|path| !has_wildcard(path));
    let is_shown = !words.iter().any(|word| word.chars().any(is_escaped_in_display));
    (is_plain && is_shown).then(|| hint(words))
}

/// A program can be called like an option.
fn words_to_refuse<'a>(agent: &'a AgentId, program: &'a str) -> Vec<&'a str> {
    let mut words = vec!["denylist", "add", "--agent", agent.as_str()];
    if program.starts_with('-') {
        words.push("--");
    }
    words.push(program);
    words
}

fn name_of(segment: &SegmentReport) -> &str {
    let (_, name) = segment
        .executable
        .rsplit_once('/')
        .unwrap_or(("", &segment.executable));
    name
}

/// The name of the last program that nothing covers, or else of the last: a text leads up to what it is for.
fn what_it_is_for(segments: &[SegmentReport]) -> Option<&str> {
    let is_it = |segment: &&SegmentReport| !IN_PASSING.contains(&name_of(segment));
    let open = || {
        segments
            .iter()
            .filter(|segment| segment.matched.kind == MatchKind::None)
    };
    let wanted = open().rfind(is_it).or_else(|| open().next());
    let all = || segments.iter().rfind(is_it).or_else(|| segments.first());
    let name = name_of(wanted.or_else(all)?);
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "._+-".contains(letter));
    is_name.then_some(name)
}

/// The command that gives a setting this value where `source` set it; `None` where the call itself did.
pub(super) fn setting(source: &str, session: &SessionKey, (member, value): (&str, &str)) -> Option<String> {
    let in_document = source.strip_prefix(DocumentPolicy::FILE).map(|place| {
        place
            .strip_prefix("#/agents/")
            .and_then(|place| place.strip_suffix(member)?.strip_suffix('/'))
    });
    match (source, in_document) {
        // What made the call says it, and nothing that is configured.
        ("call" | "elevated", _) => None,
        ("session", _) => Some(hint(&["session", "clear", session.as_str()])),
        (_, Some(Some(agent))) => {
            let option = format!("--{member}");
            Some(hint(&["policy", "set", "--agent", agent, &option, value]))
        }
        ("default", _) | (_, Some(None)) => Some(hint(&["policy", "preset", "cautious"])),
        (key, None) => Some(hint(&["config", "set", key, value])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_called_like_an_option_is_refused_by_its_name() {
        let agent = AgentId::parse("main").unwrap();
        for program in ["-h", "--help", "-"] {
            let words = ["denylist", "add", "--agent", "main", "--", program];
            assert_eq!(words_to_refuse(&agent, program), words);
        }
        assert_eq!(
            words_to_refuse(&agent, "date"),
            ["denylist", "add", "--agent", "main", "date"]
        );
    }

    #[test]
    fn a_setting_is_changed_where_it_was_set() {
        let session = SessionKey::parse("agent:build:main").unwrap();
        let changed = |source: &str| setting(source, &session, ASK);
        for (source, expect) in [
            ("call", None),
            ("session", Some("countersign session clear agent:build:main")),
            (
                "tools.exec.ask",
                Some("countersign config set tools.exec.ask on-miss"),
            ),
            (
                "exec-approvals.json#/defaults/ask",
                Some("countersign policy preset cautious"),
            ),
            (
                "exec-approvals.json#/agents/build/ask",
                Some("countersign policy set --agent build --ask on-miss"),
            ),
            ("default", Some("countersign policy preset cautious")),
        ] {
            assert_eq!(changed(source).as_deref(), expect, "{source}");
        }
    }

    #[test]
    fn what_cannot_be_shown_or_would_be_a_pattern_is_not_pasted() {
        for path in ["/opt/*", "/opt/a?", "/opt/a\u{202e}b", "/opt/a\nb"] {
            assert_eq!(pasted(&["allowlist", "add", path]), None, "{path:?}");
        }
        assert_eq!(
            pasted(&["allowlist", "add", "/opt/a b"]).as_deref(),
            Some("countersign allowlist add '/opt/a b'")
        );
    }
}
