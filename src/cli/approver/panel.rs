//! What "always" would store: the ways to remember a question, how a person narrows one, and each entry in words before
//! it is stored. Pure. The page has the same panel (`web/src/view/always.tsx`).

use std::time::Duration;

use serde::Deserialize as _;

use countersign_domain::{PatternWidth, SessionKey, UnixMillis};
use countersign_wire::{
    analysis::SegmentBody,
    approval::{ApprovalBody, CoveredBody, GrantChoiceBody, PatternBody, ProposalBody},
    words::Host,
};

use super::{
    pane::Pane,
    state::{Asked, Screen},
};
use crate::cli::value;

/// Begins the pattern of a rule for one exact text.
const OF_TEXT: &str = "=command:";
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const WEEK: Duration = Duration::from_hours(7 * 24);
/// For how long an answer can be in effect, and the words for it.
const SPANS: [(Option<Duration>, &str); 4] = [
    (None, "for good"),
    (Some(HOUR), "for an hour"),
    (Some(DAY), "for 24 hours"),
    (Some(WEEK), "for 7 days"),
];
/// How often an answer can be used; the run that is asked about is the first.
const USES: [Option<u64>; 6] = [None, Some(2), Some(3), Some(5), Some(10), Some(50)];

/// One way to remember a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    id: String,
    is_exact: bool,
    words: String,
    covered: Option<CoveredBody>,
    entries: Vec<Entry>,
    /// Why it cannot be narrowed; empty where it can.
    why_not_narrower: &'static str,
}

/// An entry that it stores.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    what: String,
    /// Where its program has to start; `None` for anywhere.
    directory: Option<String>,
    expires_at: Option<UnixMillis>,
    uses: Option<u64>,
    session: Option<String>,
    is_limited: bool,
    note: Option<String>,
}

/// The ways to remember a question, narrowest first.
pub(super) fn choices(approval: &ApprovalBody) -> Vec<Choice> {
    let segments = Vec::<SegmentBody>::deserialize(&approval.segments).unwrap_or_default();
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
                Some(approval.cwd.clone())
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
    fn in_words(&self, narrowed: &Narrowed, session: Option<&SessionKey>) -> String {
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
                words.extend([", until ", &value::local(end)]);
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
    is_plain.then(|| value::words(&call.argv))
}

/// How a person narrows a way to remember.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Narrowed {
    span: usize,
    uses: usize,
    is_of_session: bool,
}

impl Narrowed {
    fn span(self) -> (Option<Duration>, &'static str) {
        SPANS.get(self.span).copied().unwrap_or((None, "for good"))
    }

    fn lasting(self) -> Option<Duration> {
        self.span().0
    }

    fn uses(self) -> Option<u64> {
        USES.get(self.uses).copied().flatten()
    }

    fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// What a key did to the panel.
#[derive(Debug, PartialEq)]
pub(super) enum Picked {
    /// It shows something else now, or the same.
    Stays,
    /// It is closed, and nothing is stored.
    Closed,
    /// Not all of it was on the screen yet.
    Unread,
    /// It is closed with this answer; without a choice it is what the program that asks proposes.
    Stores(Option<GrantChoiceBody>),
}

/// The panel of one question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panel {
    choices: Vec<Choice>,
    agent: String,
    session: Option<SessionKey>,
    takes_several: bool,
    chosen: usize,
    narrowed: Narrowed,
    screen: Screen,
    pub(super) pane: Pane,
}

impl Panel {
    pub(super) fn new(asked: &Asked, screen: Screen) -> Self {
        let mut panel = Self {
            choices: asked.choices.clone(),
            agent: asked.agent.clone(),
            session: asked.session.clone(),
            takes_several: asked.takes_several,
            chosen: 0,
            narrowed: Narrowed::default(),
            screen,
            pane: Pane::default(),
        };
        panel.lay_out();
        panel
    }

    /// The same question is known better now, or the terminal has another size.
    pub(super) fn renewed(&mut self, asked: &Asked, screen: Screen) {
        let id = self.choice().map(|choice| choice.id.clone());
        self.choices.clone_from(&asked.choices);
        let known = self
            .choices
            .iter()
            .position(|choice| Some(&choice.id) == id.as_ref());
        // Another choice in its place would be stored without a look.
        if known.is_none() {
            self.narrowed = Narrowed::default();
        }
        self.chosen = known.unwrap_or_default();
        self.screen = screen;
        self.lay_out();
    }

    fn choice(&self) -> Option<&Choice> {
        self.choices.get(self.chosen)
    }

    fn lay_out(&mut self) {
        let pane = Pane::new(&self.text(), self.screen);
        self.pane = pane;
    }

    /// A key in it; one without a meaning changes nothing.
    pub(super) fn key(&mut self, key: char, now: UnixMillis) -> Picked {
        let can_narrow = self
            .choice()
            .is_some_and(|choice| choice.why_not_narrower.is_empty());
        match key {
            '\u{1b}' | 'q' => return Picked::Closed,
            '\r' | '\n' if !self.pane.is_read() => return Picked::Unread,
            '\r' | '\n' => return Picked::Stores(self.grant(now)),
            'j' => self.choose(self.chosen + 1),
            'k' => self.choose(self.chosen.saturating_sub(1)),
            't' if can_narrow => {
                self.narrowed.span = (self.narrowed.span + 1) % SPANS.len();
                self.lay_out();
            }
            'u' if can_narrow => {
                self.narrowed.uses = (self.narrowed.uses + 1) % USES.len();
                self.lay_out();
            }
            's' if can_narrow && self.session.is_some() => {
                self.narrowed.is_of_session = !self.narrowed.is_of_session;
                self.lay_out();
            }
            key => {
                let number = key.to_digit(10).and_then(|number| usize::try_from(number).ok());
                if let Some(index) = number.and_then(|number| number.checked_sub(1)) {
                    self.choose(index);
                }
            }
        }
        Picked::Stays
    }

    fn choose(&mut self, index: usize) {
        if index == self.chosen || index >= self.choices.len() {
            return;
        }
        self.chosen = index;
        if self
            .choice()
            .is_some_and(|choice| !choice.why_not_narrower.is_empty())
        {
            self.narrowed = Narrowed::default();
        }
        self.lay_out();
    }

    /// The answer that stores what is shown.
    fn grant(&self, now: UnixMillis) -> Option<GrantChoiceBody> {
        let narrowed = self.narrowed;
        self.choice().map(|choice| GrantChoiceBody {
            proposal: choice.id.clone(),
            expires_at_ms: narrowed.lasting().map(|lasting| now + lasting),
            max_uses: narrowed.uses(),
            session_key: self.session.clone().filter(|_| narrowed.is_of_session),
            directory: None,
        })
    }

    fn text(&self) -> String {
        let Some(choice) = self.choice() else {
            return "The program that asks stores what it proposes, for good. It is not known here what that is."
                .to_owned();
        };
        let mut lines = Vec::new();
        for (number, each) in (1..).zip(&self.choices) {
            let mark = if each.id == choice.id { '>' } else { ' ' };
            let what = if each.is_exact {
                "exactly this command".to_owned()
            } else {
                format!("{}  (wider)", value::visible(&each.words))
            };
            lines.push(format!("{mark} {number}  {what}{}", covered_words(each.covered)));
        }
        lines.push(String::new());
        if !choice.is_exact {
            lines.push("A wider rule also lets through commands that nobody has seen yet.".to_owned());
        }
        let is_beside = self.narrowed.is_any() || choice.entries.iter().any(|entry| entry.is_limited);
        let place = if is_beside {
            "as a grant beside the allowlist"
        } else {
            "in the allowlist"
        };
        lines.push(format!(
            "This is stored for {}, {place}:",
            value::visible(&self.agent)
        ));
        for entry in &choice.entries {
            lines.push(format!(
                "  {}",
                entry.in_words(&self.narrowed, self.session.as_ref())
            ));
        }
        lines.push(String::new());
        if choice.why_not_narrower.is_empty() {
            let uses = self.narrowed.uses().map_or_else(
                || "any number of times".to_owned(),
                |uses| format!("{uses} times"),
            );
            let session = if self.narrowed.is_of_session {
                "this session"
            } else {
                "any session"
            };
            let (_, span) = self.narrowed.span();
            lines.push(format!("t {span} · u {uses} · s {session}"));
        } else {
            lines.push(choice.why_not_narrower.to_owned());
        }
        if self.takes_several {
            lines.push(
                "It takes several people, and this is stored only if all of them choose the same.".to_owned(),
            );
        }
        lines.join("\n")
    }
}

/// What a way would have saved; nothing where that is unknown.
fn covered_words(covered: Option<CoveredBody>) -> String {
    let covered = covered.filter(|covered| covered.of > 0);
    covered.map_or_else(String::new, |CoveredBody { covered, of }| {
        let questions = if of == 1 { "question" } else { "questions" };
        format!(" · would have covered {covered} of the last {of} {questions}")
    })
}

/// Whether two questions are alike, when this is the same of both: of one agent and host, with the same programs and the
/// same variables.
pub(super) fn alike(approval: &ApprovalBody) -> String {
    fn programs(segments: &[SegmentBody], all: &mut Vec<String>) {
        for segment in segments {
            all.push(
                segment
                    .resolved_path
                    .clone()
                    .unwrap_or_else(|| segment.executable.clone()),
            );
            programs(segment.segments.as_deref().unwrap_or_default(), all);
        }
    }
    let segments = Vec::<SegmentBody>::deserialize(&approval.segments).unwrap_or_default();
    let mut all = Vec::new();
    programs(&segments, &mut all);
    // Of what was not taken apart nothing is known to be the same but the text.
    let text = all.is_empty().then_some(&approval.command);
    let host: &Host = &approval.host;
    serde_json::json!([
        approval.agent_id,
        host,
        approval.node_id,
        all,
        text,
        approval.env_names,
        approval.env_values,
        approval.env_omitted,
        approval.bound_to.env_hash,
    ])
    .to_string()
}
