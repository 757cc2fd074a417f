//! What "always" would store: the ways to remember a question, how a person narrows one, and each entry in words before
//! it is stored. Pure. The page has the same panel (`web/src/view/always.tsx`).

use countersign_domain::{SessionKey, UnixMillis};
use countersign_wire::{
    analysis::SegmentBody,
    approval::{ApprovalBody, CoveredBody, GrantChoiceBody},
    words::Host,
};

use super::{
    choices::{Choice, Narrowed, SPANS, USES},
    pane::Pane,
    state::{Asked, Screen},
};
use crate::cli::value;

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
    let segments: Vec<SegmentBody> = countersign_wire::read(&approval.segments).unwrap_or_default();
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
