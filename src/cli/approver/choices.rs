//! The ways to remember a question, how a person narrows one, and each entry in words. Pure.

use std::time::Duration;

use countersign_domain::{PatternWidth, SessionKey, UnixMillis};
use countersign_wire::{
    analysis::SegmentBody,
    approval::{ApprovalBody, CoveredBody, PatternBody, ProposalBody},
};

use crate::cli::{moment, value};

/// Begins the pattern of a rule for one exact text.
const OF_TEXT: &str = "=command:";
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const WEEK: Duration = Duration::from_hours(7 * 24);
/// For how long an answer can be in effect, and the words for it.
pub(super) const SPANS: [(Option<Duration>, &str); 4] = [
    (None, "for good"),
    (Some(HOUR), "for an hour"),
    (Some(DAY), "for 24 hours"),
    (Some(WEEK), "for 7 days"),
];
/// How often an answer can be used; the run that is asked about is the first.
pub(super) const USES: [Option<u64>; 6] = [None, Some(2), Some(3), Some(5), Some(10), Some(50)];

/// One way to remember a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) id: String,
    pub(super) is_exact: bool,
    pub(super) words: String,
    pub(super) covered: Option<CoveredBody>,
    pub(super) entries: Vec<Entry>,
    /// Why it cannot be narrowed; empty where it can.
    pub(super) why_not_narrower: &'static str,
}

/// An entry that it stores.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) what: String,
    /// Where its program has to start; `None` for anywhere.
    pub(super) directory: Option<String>,
    pub(super) expires_at: Option<UnixMillis>,
    pub(super) uses: Option<u64>,
    pub(super) session: Option<String>,
    pub(super) is_limited: bool,
    pub(super) note: Option<String>,
}

/// The ways to remember a question, narrowest first.
pub(super) fn choices(approval: &ApprovalBody) -> Vec<Choice> {
    let segments: Vec<SegmentBody> = countersign_wire::read(&approval.segments).unwrap_or_default();
    let choice = |proposal: &ProposalBody| {
        let is_text = |pattern: &PatternBody| pattern.pattern.starts_with(OF_TEXT);
        let why_not_narrower = if approval.host == countersign_domain::Host::Node {
            "The node stores this in its own document, which knows no limits."
        } else if proposal.stores.iter().any(is_text) {
            "A rule for an exact text has no limits."
        } else {
            ""
        };
        Choice {
            id: proposal.id.to_string(),
            is_exact: proposal.id == PatternWidth::Exact,
            words: proposal.words.clone(),
            covered: proposal.would_have_covered,
            entries: proposal
                .stores
                .iter()
                .map(|pattern| Entry::of(pattern, approval, &segments))
                .collect(),
            why_not_narrower,
        }
    };
    approval.proposals.iter().map(choice).collect()
}

impl Entry {
    fn of(pattern: &PatternBody, approval: &ApprovalBody, segments: &[SegmentBody]) -> Self {
        let limits = pattern.limits.clone().unwrap_or_default();
        let is_text = pattern.pattern.starts_with(OF_TEXT);
        let is_exact = pattern.width == PatternWidth::Exact && !is_text;
        let what = if is_text {
            "exactly this text".to_owned()
        } else if is_exact {
            match argv_of(pattern, segments) {
                Some(argv) => format!("{} with exactly these arguments: {argv}", pattern.pattern),
                None => format!("{} with exactly these arguments", pattern.pattern),
            }
        } else if let Some(shape) = &pattern.shape {
            format!("{} with arguments of this form: {shape}", pattern.pattern)
        } else if pattern.width == PatternWidth::Arguments {
            let arguments = pattern.arg_pattern.as_deref().unwrap_or_default();
            format!("{} with arguments of this form: {arguments}", pattern.pattern)
        } else {
            format!("{} with any arguments", pattern.pattern)
        };
        Self {
            what,
            is_limited: limits.expires_at_ms.is_some()
                || limits.max_uses.is_some()
                || limits.session_key.is_some()
                || limits.directory.is_some(),
            directory: if is_exact {
                Some(approval.bound_to.cwd.clone())
            } else {
                limits.directory
            },
            expires_at: limits.expires_at_ms,
            uses: limits.max_uses,
            session: limits.session_key.map(|session| session.to_string()),
            note: pattern.note.as_ref().map(ToString::to_string),
        }
    }

    /// All that it says, once it is narrowed.
    pub(super) fn in_words(&self, narrowed: &Narrowed, session: Option<&SessionKey>) -> String {
        let mut words = self.what.clone();
        match &self.directory {
            Some(directory) => words.extend([", in ", directory]),
            None => words.push_str(", in any directory"),
        }
        let session = session
            .filter(|_| narrowed.is_of_session)
            .map(ToString::to_string);
        if let Some(session) = session.as_ref().or(self.session.as_ref()) {
            words.extend([", in the session ", session]);
        }
        if let Some(uses) = least(self.uses, narrowed.uses()) {
            words.extend([", ", &uses.to_string(), " runs in all, this one included"]);
        }
        match (self.expires_at, narrowed.span()) {
            (Some(end), (_, for_how_long)) => {
                words.extend([", until ", &moment::with_zone(end)]);
                if narrowed.lasting().is_some() {
                    words.extend([" and ", for_how_long, " at most"]);
                }
            }
            (None, (_, for_how_long)) => words.extend([", ", for_how_long]),
        }
        if let Some(note) = &self.note {
            words.extend([" (", note, ")"]);
        }
        value::visible(&words)
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The call that an exact entry is about; behind a wrapper, and in a text for a shell, its own arguments are not told apart.
fn argv_of(pattern: &PatternBody, segments: &[SegmentBody]) -> Option<String> {
    let call = segments.get(pattern.segment)?;
    let is_plain = call.wrappers.is_empty() && call.segments.as_deref().unwrap_or_default().is_empty();
    is_plain.then(|| value::call_words(call))
}

/// How a person narrows a way to remember.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Narrowed {
    pub(super) span: usize,
    pub(super) uses: usize,
    pub(super) is_of_session: bool,
}

impl Narrowed {
    pub(super) fn span(self) -> (Option<Duration>, &'static str) {
        SPANS.get(self.span).copied().unwrap_or((None, "for good"))
    }

    pub(super) fn lasting(self) -> Option<Duration> {
        self.span().0
    }

    pub(super) fn uses(self) -> Option<u64> {
        USES.get(self.uses).copied().flatten()
    }

    pub(super) fn is_any(self) -> bool {
        self != Self::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_exact_entry_is_for_the_directory_that_the_answer_is_bound_to() {
        let pattern = |width: &str| json!({ "segment": 0, "pattern": "/usr/bin/date", "width": width, "default": false });
        let approval = json!({
            "id": "a-1", "slug": "a-1", "runId": "r-1", "status": "pending", "command": "date", "cwd": "/called",
            "host": "gateway", "display": { "text": "date", "spans": [], "warnings": [], "truncated": false },
            "agentId": "main", "sessionKey": "main",
            "requestedBy": { "kind": "token", "id": "t", "name": "gateway" }, "segments": [], "envNames": [],
            "security": "allowlist", "ask": "on-miss", "askFallback": "deny",
            "why": { "layer": "global", "rule": "ask", "detail": "not covered" }, "approvalsRequired": 1,
            "allowedDecisions": ["allow-once", "deny"], "proposedPatterns": [],
            "proposals": [
                { "id": "exact", "words": "", "stores": [pattern("exact")] },
                { "id": "program", "words": "", "stores": [pattern("program")] },
            ],
            "createdAtMs": 1, "expiresAtMs": 2,
            "boundTo": { "cwd": "/bound", "envHash": "", "digest": "" }, "binding": "exact", "bindingDetail": "" });
        let approval: ApprovalBody = serde_json::from_value(approval).unwrap();
        let found: Vec<Option<String>> = choices(&approval)
            .into_iter()
            .map(|choice| choice.entries[0].directory.clone())
            .collect();
        assert_eq!(found, [Some("/bound".to_owned()), None]);
    }
}
