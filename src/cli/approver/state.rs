//! What the terminal approver knows and does next. Pure: keys, news and time go in, deeds come out.

use std::{collections::VecDeque, time::Duration};

use countersign_domain::{ApprovalDecision, SessionKey, UnixMillis};
use countersign_policy::command::display;
use countersign_wire::{
    approval::{ChosenPattern, GrantChoiceBody, PatternBody},
    event::ApprovalEvent,
    shown::Shown,
    words,
};

use super::choices::Choice;
use crate::cli::{approvals, duration::clock_face, question, table::Table, value, width};

/// A question that has just come up takes no answer for this long: the key was meant for the one before.
pub(super) const ANSWER_GUARD: Duration = Duration::from_millis(400);
/// Longest reason that the server takes.
pub(super) const MAX_REASON_CHARS: usize = 2000;

/// Rows of the screen that never show the command: its title or that of a page, and the status line.
const OTHER_ROWS: usize = 3;

/// The smallest screen that shows a question beside the list.
const FEWEST_ROWS: usize = 8;
const FEWEST_COLUMNS: usize = 20;

/// A character beyond ASCII may be two columns wide, and is counted so.
const fn width_of_character(character: char) -> usize {
    if character.is_ascii() { 1 } else { 2 }
}

/// So many columns a text may take.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(width_of_character).sum()
}

/// How much the terminal shows at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct Screen {
    pub(in crate::cli) rows: usize,
    pub(in crate::cli) columns: usize,
}

impl Screen {
    /// The rows that a text takes. A character beyond ASCII may be two columns wide, and is counted so.
    pub(super) fn rows_of(self, text: &str) -> Vec<String> {
        let mut rows = Vec::new();
        for line in text.split('\n') {
            let (mut row, mut used) = (String::new(), 0);
            for character in line.chars() {
                let width = width_of_character(character);
                if used + width > self.columns && !row.is_empty() {
                    rows.push(std::mem::take(&mut row));
                    used = 0;
                }
                row.push(character);
                used += width;
            }
            rows.push(row);
        }
        rows
    }

    /// Whether a question, its list and the keys have room.
    pub(super) const fn is_large_enough(self) -> bool {
        self.rows >= FEWEST_ROWS && self.columns >= FEWEST_COLUMNS
    }

    /// Rows for the command.
    fn room(self) -> usize {
        self.rows.saturating_sub(OTHER_ROWS).max(1)
    }
}

/// A question that waits, at a server or at the approvals socket.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) command: String,
    pub(super) display: Shown,
    pub(super) allowed_decisions: Vec<words::ApprovalDecision>,
    pub(super) proposed_patterns: Vec<PatternBody>,
    pub(super) expires_at: UnixMillis,
    /// Whether only people of some groups may allow it.
    pub(super) is_for_groups: bool,
    pub(super) agent: String,
    pub(super) host: String,
    pub(super) cwd: String,
    pub(super) session: Option<SessionKey>,
    /// What belongs to the command and is answered for with it, in lines.
    pub(super) beside: Vec<String>,
    /// Whether it takes the answers of several people.
    pub(super) takes_several: bool,
    /// The same of questions that are alike.
    pub(super) alike: String,
    /// The ways to remember it.
    pub(super) choices: Vec<Choice>,
    /// What else is shown of it.
    pub(super) facts: Table,
}

impl Asked {
    pub(super) fn allows(&self, decision: ApprovalDecision) -> bool {
        self.allowed_decisions.iter().any(|allowed| *allowed == decision)
    }
}

/// What is to be done next, in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Deed {
    /// Show the question in front, anew.
    Card,
    /// Show a page of the whole text of the question in front.
    Page {
        /// From 1.
        number: usize,
        /// How many there are.
        of: usize,
        text: String,
    },
    /// Say something above the status line.
    Say(String),
    /// Hand this answer to the server.
    Send(Answer),
    /// Look at this question by itself: more is told of one than of each in a list.
    LookAt(String),
    /// Forget what was typed and not read: it was meant for what is not shown any more.
    Forget,
    /// Ring.
    Bell,
    Quit,
}

/// An answer of the person.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) decision: ApprovalDecision,
    /// Why, in their words.
    pub(super) reason: Option<String>,
    /// The one rule that "always" is to store; the proposed default unless given.
    pub(super) rule: Option<ChosenPattern>,
    /// How "always" remembers it, where that was chosen.
    pub(super) grant: Option<GrantChoiceBody>,
}

impl Answer {
    /// Nothing but the decision.
    pub(super) fn plain(id: &str, decision: ApprovalDecision) -> Self {
        Self {
            id: id.to_owned(),
            decision,
            reason: None,
            rule: None,
            grant: None,
        }
    }
}

/// What the person is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    Reading,
    /// Looking at what "always" would store.
    Choosing,
    /// Typing the reason of a denial.
    Typing(String),
    /// Typing on, though the question that it was for is over: none of it is an answer to another.
    TypingOn,
    /// Waiting for the server to take the answer.
    Sending,
}

/// The questions that wait, the one in front first.
#[derive(Debug)]
pub(super) struct ApproverState {
    waiting: VecDeque<Asked>,
    mode: Mode,
    /// When the question in front came up.
    shown_at: UnixMillis,
    /// How many pages of its whole text were on the screen.
    pages_shown: usize,
    screen: Screen,
}

impl ApproverState {
    pub(super) const fn new(now: UnixMillis, screen: Screen) -> Self {
        Self {
            waiting: VecDeque::new(),
            mode: Mode::Reading,
            shown_at: now,
            pages_shown: 0,
            screen,
        }
    }

    /// The terminal has another size: what was on it is not any more.
    pub(super) fn resized(&mut self, screen: Screen) -> Vec<Deed> {
        self.screen = screen;
        self.pages_shown = 0;
        self.front().map(|_| Deed::Card).into_iter().collect()
    }

    /// The question in front.
    pub(super) fn front(&self) -> Option<&Asked> {
        self.waiting.front()
    }

    /// How many wait, the one in front included.
    pub(super) fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Puts the list of what is pending in the place of what was known: after a break anything may have happened.
    pub(super) fn reload(&mut self, pending: Vec<Asked>, now: UnixMillis) -> Vec<Deed> {
        let before = self.front_id();
        let is_pending = |known: &Asked| pending.iter().any(|item| item.id == known.id);
        self.waiting.retain(|known| is_pending(known));
        for asked in pending {
            match self.waiting.iter_mut().find(|known| known.id == asked.id) {
                // People may have voted.
                Some(known) => *known = asked,
                None => self.waiting.push_back(asked),
            }
        }
        self.came_up(before.as_deref(), now)
    }

    pub(super) fn asked(&mut self, asked: Asked, now: UnixMillis) -> Vec<Deed> {
        let before = self.front_id();
        self.push(asked);
        self.came_up(before.as_deref(), now)
    }

    fn push(&mut self, asked: Asked) {
        if !self.waiting.iter().any(|known| known.id == asked.id) {
            self.waiting.push_back(asked);
        }
    }

    /// An approver allowed a question that takes others, too; `asked` is how it stands now.
    pub(super) fn voted(&mut self, event: &ApprovalEvent, asked: Option<Asked>) -> Vec<Deed> {
        let voted = &event.approval_id;
        let Some(known) = self.waiting.iter_mut().find(|known| known.id == *voted) else {
            return Vec::new();
        };
        if let Some(asked) = asked {
            *known = asked;
        }
        vec![Deed::Say(format!(
            "{}: {}",
            slug(voted),
            approvals::vote_in_words(event)
        ))]
    }

    /// A question ended, here or elsewhere.
    pub(super) fn resolved(&mut self, event: &ApprovalEvent, now: UnixMillis) -> Vec<Deed> {
        let ended = &event.approval_id;
        if self.mode == Mode::Sending && self.front_id().as_ref() == Some(ended) {
            // The answer to our own says what became of it.
            return Vec::new();
        }
        let by = event.resolved_by.as_ref();
        let by = by.map_or_else(String::new, |by| format!(" by {}", value::visible(&by.name)));
        let what = format!("{} is {}{by}", slug(ended), value::visible(&event.status));
        self.remove(ended, what, now)
    }

    /// The server took the answer, or said why not.
    pub(super) fn answered(&mut self, id: &str, what: String, is_over: bool, now: UnixMillis) -> Vec<Deed> {
        self.mode = Mode::Reading;
        if is_over {
            self.remove(id, what, now)
        } else {
            vec![Deed::Say(what)]
        }
    }

    pub(super) fn tick(&mut self, now: UnixMillis) -> Vec<Deed> {
        let due: Vec<String> = self
            .waiting
            .iter()
            .filter(|asked| now >= asked.expires_at)
            .map(|asked| asked.id.clone())
            .collect();
        let mut deeds = Vec::new();
        for ended in due {
            if self.mode == Mode::Sending && self.front_id().as_deref() == Some(&ended) {
                continue;
            }
            let what = format!("{} has expired", slug(&ended));
            deeds.extend(self.remove(&ended, what, now));
        }
        deeds
    }

    fn remove(&mut self, ended: &str, what: String, now: UnixMillis) -> Vec<Deed> {
        let before = self.front_id();
        let count = self.waiting.len();
        self.waiting.retain(|known| known.id != ended);
        if self.waiting.len() == count {
            return Vec::new();
        }
        let mut deeds = vec![Deed::Say(what)];
        deeds.extend(self.came_up(before.as_deref(), now));
        deeds
    }

    /// Begins anew when another question is in front.
    fn came_up(&mut self, before: Option<&str>, now: UnixMillis) -> Vec<Deed> {
        let front = self.front_id();
        if front.as_deref() == before {
            return Vec::new();
        }
        self.mode = match self.mode {
            Mode::Typing(_) | Mode::TypingOn => Mode::TypingOn,
            Mode::Reading | Mode::Choosing | Mode::Sending => Mode::Reading,
        };
        self.shown_at = now;
        self.pages_shown = 0;
        front.map(|_| Deed::Card).into_iter().collect()
    }

    /// Keys as they came in one piece. Several at once were pasted, or are one key that sends several: no answer.
    pub(super) fn keys(&mut self, keys: &str, now: UnixMillis) -> Vec<Deed> {
        match self.mode.clone() {
            Mode::Sending => Vec::new(),
            Mode::Typing(reason) => self.type_reason(reason, keys),
            Mode::TypingOn => self.type_on(keys, now),
            Mode::Reading | Mode::Choosing => {
                let mut keys = keys.chars();
                match (keys.next(), keys.next()) {
                    (Some(key), None) if self.mode == Mode::Choosing => self.choose(key),
                    (Some(key), None) => self.key(key, now),
                    (Some(_), Some(_)) | (None, _) => Vec::new(),
                }
            }
        }
    }

    fn key(&mut self, key: char, now: UnixMillis) -> Vec<Deed> {
        if matches!(key, 'q' | '\u{4}') {
            return vec![Deed::Quit];
        }
        let Some(front) = self.waiting.front() else {
            return Vec::new();
        };
        match key {
            'a' => self
                .answer(ApprovalDecision::AllowOnce, now)
                .unwrap_or_else(|| self.send(ApprovalDecision::AllowOnce, None)),
            'A' => self
                .answer(ApprovalDecision::AllowAlways, now)
                .unwrap_or_else(|| {
                    self.mode = Mode::Choosing;
                    vec![Deed::Say(self.rules_in_words())]
                }),
            'd' if now.since(self.shown_at) >= ANSWER_GUARD => {
                self.mode = Mode::Typing(String::new());
                Vec::new()
            }
            'v' => self.turn_page(),
            'r' => vec![Deed::Card],
            'n' if self.waiting.len() > 1 => {
                let before = front.id.clone();
                self.waiting.rotate_left(1);
                self.came_up(Some(&before), now)
            }
            _ => Vec::new(),
        }
    }

    /// Why this answer is not taken now; `None` when it is.
    fn answer(&self, decision: ApprovalDecision, now: UnixMillis) -> Option<Vec<Deed>> {
        let Some(front) = self.waiting.front() else {
            return Some(Vec::new());
        };
        if now.since(self.shown_at) < ANSWER_GUARD {
            return Some(Vec::new());
        }
        if !front.allows(decision) {
            return Some(vec![Deed::Say(format!("{decision} is not open for this one"))]);
        }
        if !self.is_read(front) {
            return Some(vec![Deed::Say(
                "not all of the command was on the screen: press v to read it before you allow it".to_owned(),
            )]);
        }
        None
    }

    /// Whether all of the command was on the screen: on the card, or page by page.
    fn is_read(&self, front: &Asked) -> bool {
        let shown = self.screen.rows_of(&question::shown_whole(&front.display)).len();
        (!front.display.truncated && shown <= self.screen.room())
            || self.pages_shown >= self.pages(front).len()
    }

    fn pages(&self, front: &Asked) -> Vec<String> {
        let text = display::exact(&front.command);
        let rows = self.screen.rows_of(&text);
        rows.chunks(self.screen.room())
            .map(|rows| rows.join("\n"))
            .collect()
    }

    /// Shows the next page; after the last one the first again.
    fn turn_page(&mut self) -> Vec<Deed> {
        let Some(front) = self.waiting.front() else {
            return Vec::new();
        };
        let pages = self.pages(front);
        let of = pages.len();
        // Once all were shown, they stay read.
        let at = self.pages_shown.checked_rem(of).unwrap_or_default();
        let page = pages.into_iter().nth(at);
        self.pages_shown += 1;
        page.map(|text| Deed::Page {
            number: at + 1,
            of,
            text,
        })
        .into_iter()
        .collect()
    }

    fn send(&mut self, decision: ApprovalDecision, rule: Option<ChosenPattern>) -> Vec<Deed> {
        let Some(id) = self.front_id() else {
            return Vec::new();
        };
        self.mode = Mode::Sending;
        vec![Deed::Send(Answer {
            rule,
            ..Answer::plain(&id, decision)
        })]
    }

    /// What "always" can store for the question in front.
    fn rules(&self) -> Vec<&PatternBody> {
        let proposed = self.front().map(|front| &front.proposed_patterns);
        proposed.into_iter().flatten().take(9).collect()
    }

    fn rules_in_words(&self) -> String {
        let mut text = "always: what is stored".to_owned();
        for (number, rule) in (1..).zip(self.rules()) {
            let default = if rule.default { " (Enter)" } else { "" };
            let what = value::visible(&width::rule_in_words(rule));
            text.extend(["\n  ", &number.to_string(), default, "  ", &what]);
        }
        if self.rules().is_empty() {
            text.push_str("\n  what the program that asks proposes (Enter)");
        }
        text
    }

    /// A key while what "always" would store is shown: Enter takes the default, a number that rule, all else goes back.
    fn choose(&mut self, key: char) -> Vec<Deed> {
        self.mode = Mode::Reading;
        if matches!(key, '\r' | '\n') {
            return self.send(ApprovalDecision::AllowAlways, None);
        }
        let number = key.to_digit(10).and_then(|number| usize::try_from(number).ok());
        let rule = number
            .and_then(|number| number.checked_sub(1))
            .and_then(|index| self.rules().get(index).map(|rule| rule.chosen()));
        match rule {
            Some(rule) => self.send(ApprovalDecision::AllowAlways, Some(rule)),
            None => vec![Deed::Say("nothing is stored".to_owned())],
        }
    }

    /// Enter or Escape ends it, as they would have ended the reason; then the question in front is shown.
    fn type_on(&mut self, keys: &str, now: UnixMillis) -> Vec<Deed> {
        if keys != "\u{1b}" && !keys.contains(['\r', '\n']) {
            return Vec::new();
        }
        self.mode = Mode::Reading;
        self.shown_at = now;
        self.front().map(|_| Deed::Card).into_iter().collect()
    }

    fn type_reason(&mut self, mut reason: String, keys: &str) -> Vec<Deed> {
        if keys.starts_with('\u{1b}') {
            // Escape alone gives up; an arrow key or the like is no text.
            if keys.len() == 1 {
                self.mode = Mode::Reading;
            }
            return Vec::new();
        }
        for key in keys.chars() {
            match key {
                '\r' | '\n' => {
                    let Some(front) = self.front_id() else {
                        return Vec::new();
                    };
                    self.mode = Mode::Sending;
                    let reason = reason.trim().to_owned();
                    return vec![Deed::Send(Answer {
                        reason: (!reason.is_empty()).then_some(reason),
                        ..Answer::plain(&front, ApprovalDecision::Deny)
                    })];
                }
                '\u{7f}' | '\u{8}' => {
                    reason.pop();
                }
                '\u{15}' => reason.clear(),
                key if key.is_control() => {}
                key if reason.chars().count() < MAX_REASON_CHARS => reason.push(key),
                _ => {}
            }
        }
        self.mode = Mode::Typing(reason);
        Vec::new()
    }

    /// The line at the bottom.
    pub(super) fn status(&self, now: UnixMillis) -> String {
        if self.mode == Mode::TypingOn {
            return "the question that you were denying is over · Enter or Esc goes on".to_owned();
        }
        let Some(front) = self.front() else {
            return "nothing waits for a person · q quits".to_owned();
        };
        let left = clock_face(front.expires_at.since(now));
        match &self.mode {
            // The second is said above.
            Mode::Sending | Mode::TypingOn => "sending the answer …".to_owned(),
            Mode::Typing(reason) => {
                // The end of what is typed is what a person looks at.
                let typed: Vec<char> = value::visible(reason).chars().collect();
                let tail: String = typed.iter().skip(typed.len().saturating_sub(40)).collect();
                format!("deny · reason (Enter sends, Esc goes back): {tail}")
            }
            Mode::Choosing => {
                "Enter stores it for always · a number stores that rule · any other key goes back".to_owned()
            }
            Mode::Reading => {
                let always = if front.allows(ApprovalDecision::AllowAlways) {
                    " · A always"
                } else {
                    ""
                };
                format!(
                    "{left} left · 1 of {} · a once{always} · d deny · v full text · n next · q quit",
                    self.count()
                )
            }
        }
    }

    fn front_id(&self) -> Option<String> {
        self.front().map(|asked| asked.id.clone())
    }
}

pub(super) fn slug(id: &str) -> String {
    value::visible(id.get(..8).unwrap_or(id))
}

#[cfg(test)]
mod tests {
    use countersign_domain::{ActorKind, PatternWidth};
    use countersign_wire::actor::ActorBody;

    use super::*;

    const FIRST: &str = "11111111-0000-4000-8000-000000000000";
    const SECOND: &str = "22222222-0000-4000-8000-000000000000";
    const START: UnixMillis = UnixMillis::new(1_000_000);
    const SCREEN: Screen = Screen {
        rows: 24,
        columns: 80,
    };

    fn asked(id: &str) -> Asked {
        Asked {
            id: id.to_owned(),
            status: "pending".to_owned(),
            command: "make x".to_owned(),
            display: Shown {
                text: "make x".to_owned(),
                spans: Vec::new(),
                warnings: Vec::new(),
                truncated: false,
            },
            allowed_decisions: vec![ApprovalDecision::AllowOnce.into(), ApprovalDecision::Deny.into()],
            proposed_patterns: Vec::new(),
            expires_at: at(60_000),
            is_for_groups: false,
            agent: "main".to_owned(),
            host: "gateway".to_owned(),
            cwd: "/".to_owned(),
            session: None,
            beside: Vec::new(),
            takes_several: false,
            alike: String::new(),
            choices: Vec::new(),
            facts: Table::default(),
        }
    }

    fn denied(id: &str) -> ApprovalEvent {
        ApprovalEvent {
            approval_id: id.to_owned(),
            status: "denied".to_owned(),
            ..ApprovalEvent::default()
        }
    }

    fn at(millis: u64) -> UnixMillis {
        START + Duration::from_millis(millis)
    }

    fn state(waiting: Vec<Asked>) -> ApproverState {
        let mut state = ApproverState::new(START, SCREEN);
        assert_eq!(state.reload(waiting, START), [Deed::Card]);
        state
    }

    fn send(id: &str, decision: ApprovalDecision, reason: Option<&str>) -> Vec<Deed> {
        vec![Deed::Send(Answer {
            reason: reason.map(str::to_owned),
            ..Answer::plain(id, decision)
        })]
    }

    #[test]
    fn one_key_answers_once_and_only_when_the_guard_time_is_over() {
        let mut state = state(vec![asked(FIRST)]);
        assert_eq!(state.keys("a", at(100)), []);
        assert_eq!(
            state.keys("a", at(500)),
            send(FIRST, ApprovalDecision::AllowOnce, None)
        );
        assert_eq!(state.keys("a", at(500)), []);
        let over = state.answered(FIRST, "allowed".to_owned(), true, at(600));
        assert_eq!(over, [Deed::Say("allowed".to_owned())]);
        assert_eq!(state.count(), 0);
    }

    #[test]
    fn a_key_meant_for_the_question_before_does_not_answer_the_next() {
        let mut state = state(vec![asked(FIRST), asked(SECOND)]);
        let gone = ApprovalEvent {
            resolved_by: Some(ActorBody {
                kind: ActorKind::Token.into(),
                id: "t".to_owned(),
                name: "ann\u{1b}[2J".to_owned(),
            }),
            ..denied(FIRST)
        };
        let deeds = state.resolved(&gone, at(5_000));
        assert_eq!(
            deeds,
            [
                Deed::Say("11111111 is denied by ann\\u{1B}[2J".to_owned()),
                Deed::Card
            ]
        );
        assert_eq!(state.keys("a", at(5_100)), []);
        assert_eq!(
            state.keys("a", at(5_400)),
            send(SECOND, ApprovalDecision::AllowOnce, None)
        );
    }

    #[test]
    fn what_is_pasted_answers_nothing() {
        let mut state = state(vec![asked(FIRST)]);
        for pasted in ["aa", "\u{1b}[A", "a\n", "da"] {
            assert_eq!(state.keys(pasted, at(1_000)), [], "{pasted:?}");
        }
    }

    #[test]
    fn a_denial_takes_a_reason_that_can_be_mended_or_given_up() {
        let mut state = state(vec![asked(FIRST)]);
        state.keys("d", at(1_000));
        state.keys("not a", at(1_000));
        assert!(state.status(at(1_000)).ends_with("not a"));
        state.keys("\u{1b}", at(1_000));
        state.keys("d", at(1_000));
        state.keys("nox", at(1_000));
        state.keys("\u{7f}", at(1_000));
        state.keys("\u{1b}[D", at(1_000));
        assert_eq!(
            state.keys("pe\r", at(1_000)),
            send(FIRST, ApprovalDecision::Deny, Some("nope"))
        );
    }

    #[test]
    fn a_reason_whose_question_went_away_answers_nothing_else() {
        let mut state = state(vec![asked(FIRST), asked(SECOND)]);
        state.keys("d", at(1_000));
        state.keys("n", at(1_100));
        state.resolved(&denied(FIRST), at(2_000));
        // An approver who looks at the keys types on, slowly.
        for (place, key) in (1_u64..).zip(["o", "t", " ", "a", "A", "d", "q", "v", "n"]) {
            assert_eq!(state.keys(key, at(2_000 + 1_000 * place)), [], "{key:?}");
        }
        assert!(state.status(at(20_000)).contains("is over"));
        assert_eq!(state.keys("\r", at(20_000)), [Deed::Card]);
        assert_eq!(state.keys("a", at(20_100)), []);
        assert_eq!(
            state.keys("a", at(20_400)),
            send(SECOND, ApprovalDecision::AllowOnce, None)
        );
    }

    #[test]
    fn a_question_that_comes_while_somebody_types_into_the_void_is_not_answered_by_it() {
        let mut state = state(vec![asked(FIRST)]);
        state.keys("d", at(1_000));
        assert_eq!(state.tick(at(60_000)).len(), 1);
        assert_eq!(state.keys("a", at(60_500)), []);
        let mut late = asked(SECOND);
        late.expires_at = at(90_000);
        assert_eq!(state.asked(late, at(61_000)), [Deed::Card]);
        assert_eq!(state.keys("a", at(62_000)), []);
        assert_eq!(state.keys("\u{1b}", at(63_000)), [Deed::Card]);
        assert_eq!(
            state.keys("a", at(64_000)),
            send(SECOND, ApprovalDecision::AllowOnce, None)
        );
    }

    #[test]
    fn a_denial_without_a_reason_has_none() {
        let mut state = state(vec![asked(FIRST)]);
        state.keys("d", at(1_000));
        assert_eq!(
            state.keys("\r", at(1_000)),
            send(FIRST, ApprovalDecision::Deny, None)
        );
    }

    #[test]
    fn always_and_what_is_not_read_whole_are_refused_here() {
        let mut long = asked(FIRST);
        long.display.truncated = true;
        let mut state = state(vec![long]);
        assert!(matches!(state.keys("A", at(1_000))[..], [Deed::Say(_)]));
        assert!(matches!(state.keys("a", at(1_000))[..], [Deed::Say(_)]));
        let whole = Deed::Page {
            number: 1,
            of: 1,
            text: "make x".to_owned(),
        };
        assert_eq!(state.keys("v", at(1_000)), [whole]);
        assert_eq!(
            state.keys("a", at(1_000)),
            send(FIRST, ApprovalDecision::AllowOnce, None)
        );
    }

    #[test]
    fn a_command_that_does_not_fit_is_read_page_by_page() {
        let lines: Vec<String> = (0..30).map(|number| format!("echo {number}")).collect();
        let mut long = asked(FIRST);
        long.command = lines.join("; ");
        long.display.text.clone_from(&long.command);
        let mut small = ApproverState::new(START, Screen { rows: 6, columns: 40 });
        small.reload(vec![long.clone()], START);
        assert!(matches!(small.keys("a", at(1_000))[..], [Deed::Say(_)]));
        let pages = small.pages(&long).len();
        assert!(pages > 1);
        for number in 1..=pages {
            assert!(
                matches!(small.keys("a", at(1_000))[..], [Deed::Say(_)]),
                "before page {number}"
            );
            let shown = small.keys("v", at(1_000));
            assert!(
                matches!(&shown[..], [Deed::Page { number: at, of, .. }] if (*at, *of) == (number, pages)),
                "{shown:?}"
            );
        }
        // Another size shows it anew, and what was read does not count for it.
        assert_eq!(small.resized(Screen { rows: 7, columns: 40 }), [Deed::Card]);
        assert!(matches!(small.keys("a", at(1_000))[..], [Deed::Say(_)]));
        assert_eq!(small.resized(SCREEN), [Deed::Card]);
        assert_eq!(
            small.keys("a", at(1_000)),
            send(FIRST, ApprovalDecision::AllowOnce, None)
        );
    }

    #[test]
    fn always_takes_a_second_key_that_sees_what_is_stored() {
        let mut open = asked(FIRST);
        open.allowed_decisions = ApprovalDecision::ALL
            .iter()
            .map(|decision| (*decision).into())
            .collect();
        let pattern = |arguments: Option<&str>| PatternBody {
            segment: 0,
            pattern: "/usr/bin/make".to_owned(),
            arg_pattern: arguments.map(str::to_owned),
            source: None,
            width: PatternWidth::Exact.into(),
            default: arguments.is_some(),
            shape: None,
            limits: None,
            note: None,
        };
        open.proposed_patterns = vec![pattern(Some("^x$")), pattern(None)];
        let mut state = state(vec![open]);
        let panel = "always: what is stored\n  1 (Enter)  /usr/bin/make ^x$\n  2  /usr/bin/make";
        assert_eq!(state.keys("A", at(1_000)), [Deed::Say(panel.to_owned())]);
        assert_eq!(
            state.keys("A", at(1_100)),
            [Deed::Say("nothing is stored".to_owned())]
        );
        state.keys("A", at(1_200));
        assert_eq!(
            state.keys("7", at(1_250)),
            [Deed::Say("nothing is stored".to_owned())]
        );
        state.keys("A", at(1_300));
        let wide = vec![Deed::Send(Answer {
            rule: Some(pattern(None).chosen()),
            ..Answer::plain(FIRST, ApprovalDecision::AllowAlways)
        })];
        assert_eq!(state.keys("2", at(1_400)), wide);
        state.answered(FIRST, "forbidden".to_owned(), false, at(1_500));
        state.keys("A", at(1_600));
        assert_eq!(
            state.keys("\r", at(1_700)),
            send(FIRST, ApprovalDecision::AllowAlways, None)
        );
    }

    #[test]
    fn expiry_takes_a_question_away_and_shows_the_next() {
        let mut late = asked(SECOND);
        late.expires_at = at(90_000);
        let mut state = state(vec![asked(FIRST), late]);
        assert_eq!(state.tick(at(59_999)), []);
        assert_eq!(
            state.tick(at(60_000)),
            [Deed::Say("11111111 has expired".to_owned()), Deed::Card]
        );
    }

    #[test]
    fn after_a_break_the_list_counts() {
        let mut state = state(vec![asked(FIRST), asked(SECOND)]);
        assert_eq!(state.reload(vec![asked(SECOND)], at(10)), [Deed::Card]);
        assert_eq!(state.reload(vec![asked(SECOND)], at(20)), []);
        let voted = Asked {
            status: "pending, 1 of 2".to_owned(),
            ..asked(SECOND)
        };
        assert_eq!(state.reload(vec![voted.clone()], at(25)), []);
        assert_eq!(state.front(), Some(&voted));
        assert_eq!(state.reload(Vec::new(), at(30)), []);
        assert_eq!(state.status(at(30)), "nothing waits for a person · q quits");
    }
}
