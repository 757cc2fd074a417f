//! What the approver on the full screen knows and does next. Pure: keys, news and time go in, deeds come out.
//!
//! It must never allow a command that was not all on the screen, at the size that the terminal has now. Read on:
//! `picture.rs` draws it, `panel.rs` is what "always" would store.

use std::collections::BTreeSet;

use countersign_domain::{ApprovalDecision, UnixMillis};
use countersign_policy::command::display;
use countersign_wire::{approval::GrantChoiceBody, event::ApprovalEvent};

use super::{
    layout::{Layout, PINNED_ROWS},
    pane::{Pane, Scroll},
    panel::{Panel, Picked},
    state::{ANSWER_GUARD, Answer, Asked, Deed, MAX_REASON_CHARS, Screen, slug, width_of},
};
use crate::cli::{approvals, question, value};

/// A longer message is not added to.
const LONGEST_MESSAGE: usize = 60;

/// Why an allow is not taken yet.
const READ_ON: &str = "not all of the command was on the screen: space reads on";

/// Longest filter.
const MAX_FILTER_CHARS: usize = 100;

/// What the person is doing.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mode {
    Reading,
    /// Typing what the list is filtered by.
    Filtering,
    /// Looking at all that is known of the question.
    Details(Pane),
    /// Looking at the keys.
    Help(Pane),
    /// Looking at what "always" would store.
    Always(Panel),
    /// Typing why these are denied.
    Typing {
        reason: String,
        ids: BTreeSet<String>,
    },
    /// Typing on, though the question that it was for is over: none of it is an answer to another.
    TypingOn,
    /// Waiting for the server to take the answers to these.
    Sending {
        left: BTreeSet<String>,
        said: Vec<String>,
    },
}

/// The questions that wait, and what is on the screen.
#[derive(Debug)]
pub(super) struct Board {
    /// Oldest first.
    pub(super) waiting: Vec<Asked>,
    focus: Option<String>,
    /// What the question in focus would run.
    pub(super) pane: Pane,
    /// What was all on the screen, at this size.
    read: BTreeSet<String>,
    pub(super) chosen: BTreeSet<String>,
    pub(super) mode: Mode,
    pub(super) filter: String,
    /// What happened last.
    pub(super) message: String,
    /// Since when an answer is for what it is for now, unless the person said so by a key.
    shown_at: UnixMillis,
    pub(super) screen: Screen,
    pub(super) rings: bool,
}

/// A key, however the terminal spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Char(char),
    Up,
    Down,
    Scroll(Scroll),
}

impl Key {
    /// The keys of a piece. Of several that came at once only those count that move: the others may have been pasted. A key
    /// that is held on a slow machine comes like that, too; then one step down is read before the next.
    fn all(piece: &str) -> Vec<Self> {
        let mut rest = piece;
        let mut keys = Vec::new();
        while let Some((first, more)) = split_first(rest) {
            keys.extend(Self::of(first));
            rest = more;
        }
        if split_first(piece).is_some_and(|(_first, more)| !more.is_empty()) {
            let mut has_read_on = false;
            keys.retain(|key| match key {
                Self::Scroll(Scroll::Down) => !std::mem::replace(&mut has_read_on, true),
                Self::Scroll(_) | Self::Up | Self::Down | Self::Char('j' | 'k') => true,
                Self::Char(_) => false,
            });
        }
        keys
    }

    /// One key, as the terminal sends it.
    fn of(piece: &str) -> Option<Self> {
        let mut characters = piece.chars();
        if let (Some(character), None) = (characters.next(), characters.next()) {
            return Some(match character {
                ' ' => Self::Scroll(Scroll::Down),
                '\u{7f}' | '\u{8}' => Self::Scroll(Scroll::Up),
                character => Self::Char(character),
            });
        }
        match piece {
            "\u{1b}[A" | "\u{1b}OA" => Some(Self::Up),
            "\u{1b}[B" | "\u{1b}OB" => Some(Self::Down),
            "\u{1b}[5~" => Some(Self::Scroll(Scroll::Up)),
            "\u{1b}[6~" => Some(Self::Scroll(Scroll::Down)),
            "\u{1b}[H" | "\u{1b}OH" | "\u{1b}[1~" => Some(Self::Scroll(Scroll::Start)),
            "\u{1b}[F" | "\u{1b}OF" | "\u{1b}[4~" => Some(Self::Scroll(Scroll::End)),
            _ => None,
        }
    }
}

/// Parts the bytes of the first key from the rest: a character, or a sequence that begins with escape.
fn split_first(piece: &str) -> Option<(&str, &str)> {
    let first = piece.chars().next()?;
    let sequence = if let Some(rest) = piece.strip_prefix("\u{1b}[") {
        rest.find(|end| ('@'..='~').contains(&end)).map(|end| end + 3)
    } else if let Some(rest) = piece.strip_prefix("\u{1b}O") {
        rest.chars().next().map(|end| end.len_utf8() + 2)
    } else {
        None
    };
    piece.split_at_checked(sequence.unwrap_or_else(|| first.len_utf8()))
}

/// What typing did to a line.
enum Typed {
    Goes,
    Done,
    GivenUp,
}

/// Types into a line of at most so many characters.
fn type_into(line: &mut String, keys: &str, most: usize) -> Typed {
    if keys.starts_with('\u{1b}') {
        // Escape alone gives up; an arrow key or the like is no text.
        return if keys.len() == 1 {
            Typed::GivenUp
        } else {
            Typed::Goes
        };
    }
    for key in keys.chars() {
        match key {
            '\r' | '\n' => return Typed::Done,
            '\u{7f}' | '\u{8}' => {
                line.pop();
            }
            '\u{15}' => line.clear(),
            key if key.is_control() => {}
            key if line.chars().count() < most => line.push(key),
            _ => {}
        }
    }
    Typed::Goes
}

impl Board {
    pub(super) fn new(now: UnixMillis, screen: Screen, rings: bool) -> Self {
        Self {
            waiting: Vec::new(),
            focus: None,
            pane: Pane::default(),
            read: BTreeSet::new(),
            chosen: BTreeSet::new(),
            mode: Mode::Reading,
            filter: String::new(),
            message: String::new(),
            shown_at: now,
            screen,
            rings,
        }
    }

    /// The questions that the filter leaves.
    pub(super) fn listed(&self) -> Vec<&Asked> {
        let filter = self.filter.to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let is_left = |asked: &&Asked| words.iter().all(|word| has(asked, word));
        self.waiting.iter().filter(is_left).collect()
    }

    /// The question in focus.
    pub(super) fn focused(&self) -> Option<&Asked> {
        let focus = self.focus.as_ref()?;
        self.waiting.iter().find(|asked| asked.id == *focus)
    }

    /// A question that waits.
    pub(super) fn find(&self, id: &str) -> Option<&Asked> {
        self.waiting.iter().find(|asked| asked.id == id)
    }

    pub(super) fn is_read(&self, id: &str) -> bool {
        self.read.contains(id)
    }

    pub(super) fn layout(&self) -> Layout {
        let pinned = match self.mode {
            Mode::Always(_) => self.pane.len().min(PINNED_ROWS),
            Mode::Reading
            | Mode::Filtering
            | Mode::Details(_)
            | Mode::Help(_)
            | Mode::Typing { .. }
            | Mode::TypingOn
            | Mode::Sending { .. } => 0,
        };
        Layout::of(self.screen.rows, self.listed().len(), pinned)
    }

    /// The terminal has another size: what was on it is not any more.
    pub(super) fn resized(&mut self, screen: Screen) {
        self.screen = screen;
        self.read.clear();
        self.show_anew();
        let asked = self.focused().cloned();
        match (&mut self.mode, asked) {
            (Mode::Always(panel), Some(asked)) => panel.renewed(&asked, screen),
            (Mode::Details(pane), Some(asked)) => *pane = details(&asked, screen),
            (Mode::Help(pane), _) => *pane = help(screen),
            (
                Mode::Reading
                | Mode::Filtering
                | Mode::Always(_)
                | Mode::Details(_)
                | Mode::Typing { .. }
                | Mode::TypingOn
                | Mode::Sending { .. },
                _,
            ) => {}
        }
    }

    /// The picture of the present state is on the screen.
    pub(super) fn painted(&mut self) {
        if !self.screen.is_large_enough() {
            return;
        }
        let Layout { pane, overlay, .. } = self.layout();
        match &mut self.mode {
            Mode::Details(shown) | Mode::Help(shown) => shown.painted(overlay),
            Mode::Always(panel) => panel.pane.painted(overlay),
            Mode::Reading | Mode::Filtering | Mode::Typing { .. } | Mode::TypingOn | Mode::Sending { .. } => {
                self.pane.painted(pane);
                if let Some(focus) = self.focus.as_ref().filter(|_| self.pane.is_read())
                    && self.read.insert(focus.clone())
                    && self.message == READ_ON
                {
                    self.message.clear();
                }
            }
        }
    }

    /// Puts the list of what is pending in the place of what was known: after a break anything may have happened.
    pub(super) fn reload(&mut self, pending: Vec<Asked>, now: UnixMillis) -> Vec<Deed> {
        let was_known = |asked: &Asked| self.waiting.iter().any(|known| known.id == asked.id);
        let is_news = pending.iter().any(|asked| !was_known(asked));
        let is_gone = |known: &&Asked| !pending.iter().any(|asked| asked.id == known.id);
        let gone = self.waiting.iter().filter(is_gone).map(|known| known.id.clone());
        let gone: Vec<String> = gone.collect();
        let place = self.place();
        let before = self.answers_for();
        self.drop_ended(&gone);
        for asked in pending {
            self.put(asked);
        }
        let mut deeds = self.settle_after(&before, place, now);
        deeds.extend((is_news && self.rings).then_some(Deed::Bell));
        deeds
    }

    pub(super) fn asked(&mut self, asked: Asked, now: UnixMillis) -> Vec<Deed> {
        let place = self.place();
        let is_news = self.find(&asked.id).is_none();
        self.put(asked);
        let mut deeds = self.settle(place, now);
        deeds.extend((is_news && self.rings).then_some(Deed::Bell));
        deeds
    }

    /// People may have voted on one that is known, or what it would have covered is known now.
    fn put(&mut self, asked: Asked) {
        let screen = self.screen;
        let Some(known) = self.waiting.iter_mut().find(|known| known.id == asked.id) else {
            self.waiting.push(asked);
            return;
        };
        let shows_other = !is_same(known, &asked);
        let id = asked.id.clone();
        *known = asked.clone();
        if self.focus.as_ref() == Some(&id)
            && let Mode::Always(panel) = &mut self.mode
        {
            panel.renewed(&asked, screen);
        }
        if shows_other {
            self.read.remove(&id);
            if self.focus.as_ref() == Some(&id) {
                self.show_anew();
            }
        }
    }

    /// A question that was looked at again.
    pub(super) fn looked_at(&mut self, asked: Asked) {
        if self.find(&asked.id).is_some() {
            self.put(asked);
        }
    }

    /// An approver allowed a question that takes others, too; `asked` is how it stands now.
    pub(super) fn voted(&mut self, event: &ApprovalEvent, asked: Option<Asked>) {
        if self.find(&event.approval_id).is_none() {
            return;
        }
        if let Some(asked) = asked {
            self.put(asked);
        }
        self.message = format!(
            "{}: {}",
            slug(&event.approval_id),
            approvals::vote_in_words(event)
        );
    }

    /// A question ended, here or elsewhere.
    pub(super) fn resolved(&mut self, event: &ApprovalEvent, now: UnixMillis) -> Vec<Deed> {
        let ended = &event.approval_id;
        // The answer to our own says what became of it.
        if self.is_sending(ended) || self.find(ended).is_none() {
            return Vec::new();
        }
        let by = event.resolved_by.as_ref();
        let by = by.map_or_else(String::new, |by| format!(" by {}", value::visible(&by.name)));
        self.message = format!("{} is {}{by}", slug(ended), value::visible(&event.status));
        self.remove(std::slice::from_ref(ended), now)
    }

    fn is_sending(&self, id: &str) -> bool {
        matches!(&self.mode, Mode::Sending { left, .. } if left.contains(id))
    }

    /// The server took an answer, or said why not.
    /// What was typed while the answer was on its way was typed without a look at what an answer is for now.
    pub(super) fn answered(&mut self, id: &str, what: String, is_over: bool, now: UnixMillis) -> Vec<Deed> {
        if let Mode::Sending { left, said } = &mut self.mode {
            left.remove(id);
            said.push(what);
            self.message = said.join(" · ");
            if left.is_empty() {
                self.mode = Mode::Reading;
            }
        } else {
            self.message = what;
        }
        self.chosen.remove(id);
        if is_over {
            self.remove(&[id.to_owned()], now);
        }
        self.take_no_earlier_key(now)
    }

    /// Says something in the line above the last.
    pub(super) fn say(&mut self, what: &str) {
        what.clone_into(&mut self.message);
    }

    /// A run ended that an answer let start. What was said since stays where there is room for it.
    pub(super) fn ended(&mut self, answer: &str, ended: &str) {
        let said = format!("{answer}, {ended}");
        self.message = if self.message.contains(answer) {
            self.message.replace(answer, &said)
        } else if self.message.is_empty() || self.message.chars().count() > LONGEST_MESSAGE {
            said
        } else {
            format!("{} · {said}", self.message)
        };
    }

    pub(super) fn tick(&mut self, now: UnixMillis) -> Vec<Deed> {
        let is_due = |asked: &&Asked| now >= asked.expires_at && !self.is_sending(&asked.id);
        let due: Vec<String> = self
            .waiting
            .iter()
            .filter(is_due)
            .map(|asked| asked.id.clone())
            .collect();
        let Some(last) = due.last() else {
            return Vec::new();
        };
        self.message = format!("{} has expired", slug(last));
        self.remove(&due, now)
    }

    fn remove(&mut self, ended: &[String], now: UnixMillis) -> Vec<Deed> {
        let place = self.place();
        let before = self.answers_for();
        self.drop_ended(ended);
        self.settle_after(&before, place, now)
    }

    fn drop_ended(&mut self, ended: &[String]) {
        self.waiting.retain(|known| !ended.contains(&known.id));
        for id in ended {
            self.read.remove(id);
            self.chosen.remove(id);
        }
        if let Mode::Typing { ids, .. } = &mut self.mode {
            ids.retain(|id| !ended.contains(id));
            if ids.is_empty() {
                self.mode = Mode::TypingOn;
            }
        }
    }

    /// Keeps or moves the focus after questions ended. With the last that was chosen, answers are for the focus again, which
    /// no key of this person said.
    fn settle_after(&mut self, before: &BTreeSet<String>, place: usize, now: UnixMillis) -> Vec<Deed> {
        let deeds = self.settle(place, now);
        if deeds.is_empty() && self.answers_for() != *before {
            return self.take_no_earlier_key(now);
        }
        deeds
    }

    /// A key that is on its way was typed for what was there before.
    fn take_no_earlier_key(&mut self, now: UnixMillis) -> Vec<Deed> {
        self.shown_at = now;
        vec![Deed::Forget]
    }

    /// Where the focus is in the list.
    fn place(&self) -> usize {
        let is_focused = |asked: &&Asked| Some(&asked.id) == self.focus.as_ref();
        self.listed().iter().position(is_focused).unwrap_or_default()
    }

    /// Keeps the focus, or moves it to what stands in its place now. What comes up by itself takes no key that was meant
    /// for what was there before.
    fn settle(&mut self, place: usize, now: UnixMillis) -> Vec<Deed> {
        let listed: Vec<String> = self.listed().into_iter().map(|asked| asked.id.clone()).collect();
        if self.focus.as_ref().is_some_and(|focus| listed.contains(focus)) {
            return Vec::new();
        }
        let next = listed.get(place).or_else(|| listed.last()).cloned();
        if next == self.focus {
            return Vec::new();
        }
        self.focus_on(next, now);
        match self.mode {
            Mode::Always(_) | Mode::Details(_) => self.mode = Mode::Reading,
            Mode::Reading
            | Mode::Filtering
            | Mode::Help(_)
            | Mode::Typing { .. }
            | Mode::TypingOn
            | Mode::Sending { .. } => {}
        }
        vec![Deed::Forget]
    }

    fn focus_on(&mut self, id: Option<String>, now: UnixMillis) {
        self.focus = id;
        self.shown_at = now;
        self.show_anew();
    }

    fn show_anew(&mut self) {
        let screen = self.screen;
        self.pane = self
            .focused()
            .map_or_else(Pane::default, |asked| what_runs(asked, screen));
    }

    /// Keys as they came in one piece.
    pub(super) fn keys(&mut self, keys: &str, now: UnixMillis) -> Vec<Deed> {
        match &mut self.mode {
            Mode::Sending { .. } => Vec::new(),
            Mode::TypingOn => {
                if keys == "\u{1b}" || keys.contains(['\r', '\n']) {
                    self.mode = Mode::Reading;
                    self.shown_at = now;
                }
                Vec::new()
            }
            Mode::Typing { reason, .. } => match type_into(reason, keys, MAX_REASON_CHARS) {
                Typed::Goes => Vec::new(),
                Typed::GivenUp => {
                    self.mode = Mode::Reading;
                    Vec::new()
                }
                Typed::Done => self.deny(),
            },
            Mode::Filtering => {
                let place = self.place();
                match type_into(&mut self.filter, keys, MAX_FILTER_CHARS) {
                    Typed::Goes => {}
                    Typed::Done => self.mode = Mode::Reading,
                    Typed::GivenUp => {
                        self.filter.clear();
                        self.mode = Mode::Reading;
                    }
                }
                self.settle(place, now)
            }
            Mode::Reading | Mode::Details(_) | Mode::Help(_) | Mode::Always(_) => {
                let keys = Key::all(keys).into_iter();
                keys.flat_map(|key| self.key(key, now)).collect()
            }
        }
    }

    fn key(&mut self, key: Key, now: UnixMillis) -> Vec<Deed> {
        let Layout { pane, overlay, .. } = self.layout();
        match (&mut self.mode, key) {
            (Mode::Details(shown) | Mode::Help(shown), Key::Scroll(to)) => shown.scroll(to, overlay),
            (Mode::Details(_) | Mode::Help(_), Key::Char('\u{1b}' | '\r' | '\n' | 'q' | '?')) => {
                self.mode = Mode::Reading;
                self.shown_at = now;
            }
            (Mode::Details(_) | Mode::Help(_), Key::Char(_) | Key::Up | Key::Down) => {}
            (Mode::Always(panel), Key::Scroll(to)) => panel.pane.scroll(to, overlay),
            (Mode::Always(panel), Key::Char(_) | Key::Up | Key::Down) => {
                let key = match key {
                    Key::Char(key) => key,
                    Key::Up => 'k',
                    Key::Down | Key::Scroll(_) => 'j',
                };
                match panel.key(key, now) {
                    Picked::Stays => {}
                    Picked::Unread => {
                        self.say("not all of what is stored was on the screen: space reads on");
                    }
                    Picked::Closed => {
                        self.mode = Mode::Reading;
                        self.say("nothing is stored");
                    }
                    Picked::Stores(grant) => return self.store(grant.as_ref()),
                }
            }
            (_, Key::Scroll(to)) => self.pane.scroll(to, pane),
            (_, Key::Up) => self.step(false, now),
            (_, Key::Down) => self.step(true, now),
            (_, Key::Char(key)) => return self.letter(key, now),
        }
        Vec::new()
    }

    fn letter(&mut self, key: char, now: UnixMillis) -> Vec<Deed> {
        match key {
            'q' | '\u{4}' => return vec![Deed::Quit],
            'j' => self.step(true, now),
            'k' => self.step(false, now),
            '/' => self.mode = Mode::Filtering,
            '?' => self.mode = Mode::Help(help(self.screen)),
            'b' => {
                self.rings = !self.rings;
                let on = if self.rings { "on" } else { "off" };
                self.message = format!("the bell is {on}");
            }
            'x' => {
                if let Some(id) = self.focused().map(|asked| asked.id.clone())
                    && !self.chosen.remove(&id)
                {
                    self.chosen.insert(id);
                }
            }
            'X' => self.choose_alike(),
            '\u{1b}' if !self.chosen.is_empty() => self.chosen.clear(),
            '\u{1b}' if !self.filter.is_empty() => {
                let place = self.place();
                self.filter.clear();
                return self.settle(place, now);
            }
            '\r' | '\n' => {
                if let Some(asked) = self.focused() {
                    self.mode = Mode::Details(details(asked, self.screen));
                }
            }
            'a' => return self.allow_once(now),
            'A' => return self.always(now),
            'd' if now.since(self.shown_at) >= ANSWER_GUARD => {
                let ids = self.answers_for();
                if !ids.is_empty() {
                    let reason = String::new();
                    self.mode = Mode::Typing { reason, ids };
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn step(&mut self, is_down: bool, now: UnixMillis) {
        let place = self.place();
        let next = if is_down {
            place + 1
        } else {
            place.saturating_sub(1)
        };
        let id = self.listed().get(next).map(|asked| asked.id.clone());
        if id.is_some() && id != self.focus {
            self.focus_on(id, now);
        }
    }

    fn choose_alike(&mut self) {
        let Some(alike) = self.focused().map(|asked| asked.alike.clone()) else {
            return;
        };
        let listed = self.listed().into_iter();
        let chosen = listed
            .filter(|asked| asked.alike == alike)
            .map(|asked| asked.id.clone());
        self.chosen = chosen.collect();
    }

    /// What an answer is for: the questions that are chosen, or the one in focus.
    fn answers_for(&self) -> BTreeSet<String> {
        if self.chosen.is_empty() {
            return self.focused().map(|asked| asked.id.clone()).into_iter().collect();
        }
        self.chosen.clone()
    }

    fn allow_once(&mut self, now: UnixMillis) -> Vec<Deed> {
        let ids = self.answers_for();
        if ids.is_empty() || !self.may_allow(&ids, ApprovalDecision::AllowOnce, now) {
            return Vec::new();
        }
        self.send(ids, |id| Answer::plain(id, ApprovalDecision::AllowOnce))
    }

    fn always(&mut self, now: UnixMillis) -> Vec<Deed> {
        if !self.chosen.is_empty() {
            self.say("\u{201c}always\u{201d} is for one question: Esc clears what is chosen");
            return Vec::new();
        }
        let ids = self.answers_for();
        if ids.is_empty() || !self.may_allow(&ids, ApprovalDecision::AllowAlways, now) {
            return Vec::new();
        }
        let Some(asked) = self.focused() else {
            return Vec::new();
        };
        let id = asked.id.clone();
        self.mode = Mode::Always(Panel::new(asked, self.screen));
        // What it would have covered is only told of one question.
        vec![Deed::LookAt(id)]
    }

    /// Whether this answer is taken now for all of these; says why not.
    fn may_allow(&mut self, ids: &BTreeSet<String>, decision: ApprovalDecision, now: UnixMillis) -> bool {
        if now.since(self.shown_at) < ANSWER_GUARD {
            return false;
        }
        let closed = ids
            .iter()
            .filter_map(|id| self.find(id))
            .find(|asked| !asked.allows(decision));
        if let Some(closed) = closed {
            self.message = format!("{}: {decision} is not open for this one", slug(&closed.id));
            return false;
        }
        let unread = ids.iter().filter(|id| !self.read.contains(*id)).count();
        if unread > 0 {
            self.message = if ids.len() == 1 {
                READ_ON.to_owned()
            } else {
                format!(
                    "{unread} of the {} chosen were not all on the screen: j goes to each, space reads on",
                    ids.len()
                )
            };
            return false;
        }
        true
    }

    fn store(&mut self, grant: Option<&GrantChoiceBody>) -> Vec<Deed> {
        let ids = self.focused().map(|asked| asked.id.clone()).into_iter().collect();
        self.send(ids, |id| Answer {
            grant: grant.cloned(),
            ..Answer::plain(id, ApprovalDecision::AllowAlways)
        })
    }

    fn deny(&mut self) -> Vec<Deed> {
        let Mode::Typing { reason, ids } = std::mem::replace(&mut self.mode, Mode::Reading) else {
            return Vec::new();
        };
        let reason = reason.trim();
        let reason = (!reason.is_empty()).then(|| reason.to_owned());
        self.send(ids, |id| Answer {
            reason: reason.clone(),
            ..Answer::plain(id, ApprovalDecision::Deny)
        })
    }

    fn send(&mut self, ids: BTreeSet<String>, answer: impl Fn(&str) -> Answer) -> Vec<Deed> {
        let deeds = ids.iter().map(|id| Deed::Send(answer(id))).collect();
        self.mode = if ids.is_empty() {
            Mode::Reading
        } else {
            Mode::Sending {
                left: ids,
                said: Vec::new(),
            }
        };
        deeds
    }
}

/// Whether a question has a word of a filter: `agent:build`, `host:node`, or any text of it.
fn has(asked: &Asked, word: &str) -> bool {
    if let Some(agent) = word.strip_prefix("agent:") {
        return asked.agent.to_lowercase() == agent;
    }
    if let Some(host) = word.strip_prefix("host:") {
        return asked.host.to_lowercase() == host;
    }
    let session = asked
        .session
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    [&asked.command, &asked.cwd, &asked.agent, &session]
        .iter()
        .any(|text| text.to_lowercase().contains(word))
}

/// Stands before each row of a command, so that no line of it looks like a fact of ours.
const GUTTER: &str = "│ ";

/// What a person answers for, nothing in it hidden: the command, where it runs, its variables, and what is odd about it.
fn what_runs(asked: &Asked, screen: Screen) -> Pane {
    let text = if asked.display.truncated {
        display::exact(&asked.command)
    } else {
        question::shown_whole(&asked.display)
    };
    let beside_gutter = Screen {
        columns: screen.columns.saturating_sub(width_of(GUTTER)),
        ..screen
    };
    let command = beside_gutter.rows_of(&text).into_iter();
    let facts = asked
        .beside
        .iter()
        .flat_map(|line| screen.rows_of(&value::visible(line)));
    Pane::of_rows(command.map(|row| format!("{GUTTER}{row}")).chain(facts).collect())
}

/// Whether two states of a question show the same to answer for.
fn is_same(one: &Asked, other: &Asked) -> bool {
    let shown = |asked: &Asked| (asked.command.clone(), asked.display.clone(), asked.beside.clone());
    shown(one) == shown(other)
}

fn details(asked: &Asked, screen: Screen) -> Pane {
    let mut facts = asked.facts.lines();
    facts.insert(0, format!("id  {}", value::visible(&asked.id)));
    facts.insert(1, format!("status  {}", value::visible(&asked.status)));
    Pane::new(&facts.join("\n"), screen)
}

fn help(screen: Screen) -> Pane {
    let text = "j, ↓      next question
k, ↑      previous question
space     read on; Backspace and PgUp go back
Enter     all that is known of the question
a         allow it once
A         choose what to allow always
d         deny it, with words for the agent
x         choose it for one answer to several
X         choose every question like this one
/         filter: words, agent:NAME, host:NAME
b         bell at a new question, on or off
Esc       leave a field, close what is open
q         quit

Nothing is allowed whose command was not all on the screen.";
    Pane::new(text, screen)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use countersign_wire::shown::Shown;

    use super::*;
    use crate::cli::{approver::picture::draw, table::Table};

    const FIRST: &str = "11111111-0000-4000-8000-000000000000";
    const SECOND: &str = "22222222-0000-4000-8000-000000000000";
    const START: UnixMillis = UnixMillis::new(1_000_000);
    const SCREEN: Screen = Screen {
        rows: 24,
        columns: 80,
    };

    fn at(millis: u64) -> UnixMillis {
        START + Duration::from_millis(millis)
    }

    fn asked(id: &str, command: &str) -> Asked {
        Asked {
            id: id.to_owned(),
            status: "pending".to_owned(),
            command: command.to_owned(),
            display: Shown {
                text: command.to_owned(),
                spans: Vec::new(),
                warnings: Vec::new(),
                truncated: false,
            },
            allowed_decisions: ApprovalDecision::ALL
                .iter()
                .map(|decision| (*decision).into())
                .collect(),
            proposed_patterns: Vec::new(),
            expires_at: at(60_000),
            is_for_groups: false,
            agent: "main".to_owned(),
            host: "gateway".to_owned(),
            cwd: "/srv".to_owned(),
            session: None,
            beside: vec!["in  /srv".to_owned()],
            takes_several: false,
            alike: command.to_owned(),
            choices: Vec::new(),
            facts: Table::default(),
        }
    }

    /// A board on which these stand, all that fits painted.
    fn board(waiting: Vec<Asked>, screen: Screen) -> Board {
        let mut board = Board::new(START, screen, true);
        board.reload(waiting, START);
        board.painted();
        board
    }

    fn once(id: &str) -> Vec<Deed> {
        vec![Deed::Send(Answer::plain(id, ApprovalDecision::AllowOnce))]
    }

    #[test]
    fn one_key_answers_once_and_only_when_the_guard_time_is_over() {
        let mut board = board(vec![asked(FIRST, "make x")], SCREEN);
        assert_eq!(board.keys("a", at(100)), []);
        assert_eq!(board.keys("a", at(500)), once(FIRST));
        assert_eq!(board.keys("a", at(500)), []);
        assert_eq!(
            board.answered(FIRST, "done".to_owned(), true, at(600)),
            [Deed::Forget]
        );
        assert_eq!((board.waiting.len(), board.message.as_str()), (0, "done"));
    }

    #[test]
    fn what_is_not_painted_is_not_read() {
        let text: Vec<String> = (0..40).map(|number| format!("echo {number}")).collect();
        let mut board = board(vec![asked(FIRST, &text.join("\n"))], SCREEN);
        assert_eq!(board.keys("a", at(1_000)), []);
        board.keys(" ", at(1_000));
        board.keys(" ", at(1_000));
        // It was scrolled past, and never on the screen.
        board.painted();
        assert_eq!(board.keys("a", at(1_000)), []);
        board.keys("\u{1b}[H", at(1_000));
        for _ in 0..10 {
            board.painted();
            board.keys(" ", at(1_000));
        }
        assert_eq!(board.keys("a", at(1_000)), once(FIRST));
    }

    #[test]
    fn another_size_or_another_text_has_to_be_read_anew() {
        let mut board = board(vec![asked(FIRST, "make x")], SCREEN);
        board.resized(SCREEN);
        assert_eq!(board.keys("a", at(1_000)), []);
        board.painted();
        let mut other = asked(FIRST, "make x");
        other.beside.push("environment  CC=/tmp/cc".to_owned());
        board.looked_at(other);
        assert_eq!(board.keys("a", at(1_000)), []);
        board.painted();
        assert_eq!(board.keys("a", at(1_000)), once(FIRST));
    }

    #[test]
    fn a_screen_that_is_too_small_shows_and_reads_nothing() {
        for (rows, columns) in [(1, 1), (7, 80), (24, 19)] {
            let screen = Screen { rows, columns };
            let mut board = board(vec![asked(FIRST, "make x")], screen);
            assert_eq!(draw(&board, false, at(0)).len(), 1);
            assert_eq!(board.keys("a", at(1_000)), [], "{screen:?}");
        }
    }

    #[test]
    fn what_is_pasted_answers_nothing() {
        let mut board = board(vec![asked(FIRST, "make x")], SCREEN);
        for pasted in ["aa", "a\n", "da", "\u{1b}a", "A\r"] {
            assert_eq!(board.keys(pasted, at(1_000)), [], "{pasted:?}");
        }
        assert_eq!(board.mode, Mode::Reading);
    }

    #[test]
    fn what_moves_counts_among_several_keys_at_once_and_nothing_else_does() {
        let third = "33333333-0000-4000-8000-000000000000";
        let waiting = vec![
            asked(FIRST, "make x"),
            asked(SECOND, "make y"),
            asked(third, "make z"),
        ];
        for (keys, focus) in [
            ("jj", third),
            ("jjk", SECOND),
            ("\u{1b}[B\u{1b}OB", third),
            ("\u{1b}[Bk", FIRST),
            ("aj", SECOND),
            ("jA", SECOND),
            ("jd", SECOND),
            ("jX", SECOND),
            ("jx", SECOND),
            ("j\r", SECOND),
            ("j/", SECOND),
            ("jq", SECOND),
            ("\u{1b}[1;5Aja", SECOND),
            ("\u{1b}[", FIRST),
        ] {
            let mut board = board(waiting.clone(), SCREEN);
            assert_eq!(board.keys(keys, at(1_000)), [], "{keys:?}");
            board.painted();
            let found = (board.focused().unwrap().id.as_str(), &board.mode);
            assert_eq!(found, (focus, &Mode::Reading), "{keys:?}");
            assert!(board.chosen.is_empty(), "{keys:?}");
            assert_eq!(board.keys("a", at(1_500)), once(focus), "{keys:?}");
        }
    }

    #[test]
    fn a_held_space_passes_over_no_row() {
        let text: Vec<String> = (0..60).map(|number| format!("echo {number}")).collect();
        let mut board = board(vec![asked(FIRST, &text.join("\n"))], SCREEN);
        for _ in 0..20 {
            board.keys("   ", at(1_000));
            board.painted();
        }
        assert_eq!(board.keys("a", at(1_000)), once(FIRST));
        // Nor is what came with it stored.
        let mut board = self::board(vec![asked(FIRST, "make x")], SCREEN);
        board.keys("A", at(1_000));
        board.painted();
        assert_eq!(board.keys(" \r", at(1_000)), []);
        assert!(matches!(board.mode, Mode::Always(_)));
    }

    #[test]
    fn the_end_of_a_run_stands_beside_what_was_said_since() {
        let mut board = board(Vec::new(), SCREEN);
        board.say("5c24cd20: allow-once");
        board.ended("5c24cd20: allow-once", "exit 0 in 3 ms");
        assert_eq!(board.message, "5c24cd20: allow-once, exit 0 in 3 ms");
        board.say("the bell is off");
        board.ended("65e97e21: allow-once", "exit 1 in 3 ms");
        assert_eq!(
            board.message,
            "the bell is off · 65e97e21: allow-once, exit 1 in 3 ms"
        );
        board.say(&"x".repeat(100));
        board.ended("65e97e21: allow-once", "exit 1 in 3 ms");
        assert_eq!(board.message, "65e97e21: allow-once, exit 1 in 3 ms");
    }

    fn ended(id: &str, status: &str) -> ApprovalEvent {
        ApprovalEvent {
            approval_id: id.to_owned(),
            status: status.to_owned(),
            ..ApprovalEvent::default()
        }
    }

    /// A board on which the first question is chosen, and the second is in focus and was read.
    fn chosen_beside_the_focus() -> Board {
        let mut board = board(vec![asked(FIRST, "make x"), asked(SECOND, "make y")], SCREEN);
        board.keys("x", at(1_000));
        board.keys("j", at(1_000));
        board.painted();
        assert!(board.is_read(SECOND));
        board
    }

    /// No key that was on its way answers the focus; one that is pressed after a look does.
    #[track_caller]
    fn takes_no_key_on_its_way(mut board: Board, deeds: &[Deed], now: UnixMillis) {
        assert_eq!(deeds, [Deed::Forget]);
        board.painted();
        for key in ["a", "A", "d"] {
            let soon = now + Duration::from_millis(20);
            assert_eq!(board.keys(key, soon), [], "{key:?}");
            assert_eq!(board.mode, Mode::Reading, "{key:?}");
        }
        assert_eq!(
            board.keys("a", now + ANSWER_GUARD),
            once(SECOND),
            "pressed after a look"
        );
    }

    #[test]
    fn an_answer_to_the_last_chosen_lets_no_second_key_answer_the_focus() {
        let mut board = chosen_beside_the_focus();
        assert_eq!(board.keys("a", at(5_000)), once(FIRST));
        let deeds = board.answered(FIRST, "done".to_owned(), true, at(9_000));
        takes_no_key_on_its_way(board, &deeds, at(9_000));
    }

    #[test]
    fn an_answer_that_is_refused_lets_no_second_key_answer_the_focus() {
        let mut board = chosen_beside_the_focus();
        assert_eq!(board.keys("a", at(5_000)), once(FIRST));
        let deeds = board.answered(FIRST, "not yours".to_owned(), false, at(9_000));
        assert!(board.find(FIRST).is_some() && board.chosen.is_empty());
        takes_no_key_on_its_way(board, &deeds, at(9_000));
        // The same without any that is chosen: the question is still there.
        let mut board = chosen_beside_the_focus();
        board.keys("\u{1b}", at(5_000));
        assert_eq!(board.keys("a", at(5_000)), once(SECOND));
        let deeds = board.answered(SECOND, "not yours".to_owned(), false, at(9_000));
        takes_no_key_on_its_way(board, &deeds, at(9_000));
    }

    #[test]
    fn the_last_chosen_that_ends_elsewhere_hands_no_key_to_the_focus() {
        let mut board = chosen_beside_the_focus();
        let deeds = board.resolved(&ended(FIRST, "denied"), at(5_000));
        takes_no_key_on_its_way(board, &deeds, at(5_000));
        // Nor does one that is missing once the connection is there again.
        let mut board = chosen_beside_the_focus();
        let deeds = board.reload(vec![asked(SECOND, "make y")], at(5_000));
        assert!(board.chosen.is_empty());
        takes_no_key_on_its_way(board, &deeds, at(5_000));
    }

    #[test]
    fn the_last_chosen_that_expires_hands_no_key_to_the_focus() {
        let mut board = board(
            vec![
                Asked {
                    expires_at: at(5_000),
                    ..asked(FIRST, "make x")
                },
                asked(SECOND, "make y"),
            ],
            SCREEN,
        );
        board.keys("x", at(1_000));
        board.keys("j", at(1_000));
        board.painted();
        let deeds = board.tick(at(5_000));
        takes_no_key_on_its_way(board, &deeds, at(5_000));
    }

    #[test]
    fn what_ends_beside_what_an_answer_is_for_takes_no_key_away() {
        let mut board = chosen_beside_the_focus();
        board.keys("\u{1b}", at(1_000));
        assert_eq!(board.resolved(&ended(FIRST, "denied"), at(5_000)), []);
        assert_eq!(board.keys("a", at(5_020)), once(SECOND));
    }

    #[test]
    fn a_question_that_comes_up_by_itself_takes_no_key_of_the_one_before() {
        let mut board = board(vec![asked(FIRST, "make x"), asked(SECOND, "make y")], SCREEN);
        let gone = ApprovalEvent {
            approval_id: FIRST.to_owned(),
            status: "denied".to_owned(),
            ..ApprovalEvent::default()
        };
        assert_eq!(board.resolved(&gone, at(5_000)), [Deed::Forget]);
        board.painted();
        assert_eq!(board.keys("a", at(5_100)), []);
        assert_eq!(board.keys("a", at(5_400)), once(SECOND));
    }

    #[test]
    fn a_reason_whose_question_went_away_answers_nothing_else() {
        let mut board = board(vec![asked(FIRST, "make x"), asked(SECOND, "make y")], SCREEN);
        board.keys("d", at(1_000));
        board.keys("no", at(1_000));
        board.tick(at(1_000));
        let gone = ApprovalEvent {
            approval_id: FIRST.to_owned(),
            status: "cancelled".to_owned(),
            ..ApprovalEvent::default()
        };
        board.resolved(&gone, at(2_000));
        board.painted();
        for (place, key) in (1_u64..).zip(["t", "a", "A", "d", "q", "x", "j"]) {
            assert_eq!(board.keys(key, at(2_000 + 1_000 * place)), [], "{key:?}");
        }
        assert_eq!(board.keys("\r", at(20_000)), []);
        assert_eq!(board.keys("a", at(20_100)), []);
        assert_eq!(board.keys("a", at(20_400)), once(SECOND));
    }

    #[test]
    fn an_always_is_for_one_question_and_takes_a_second_key() {
        let mut board = board(vec![asked(FIRST, "make x"), asked(SECOND, "make x")], SCREEN);
        board.keys("X", at(1_000));
        assert_eq!(board.chosen.len(), 2);
        assert_eq!(board.keys("A", at(1_000)), []);
        board.keys("\u{1b}", at(1_000));
        assert!(board.chosen.is_empty());
        assert_eq!(board.keys("A", at(1_000)), [Deed::LookAt(FIRST.to_owned())]);
        // Not before it was on the screen.
        assert_eq!(board.keys("\r", at(1_000)), []);
        board.painted();
        assert_eq!(board.keys("a", at(1_000)), []);
        assert_eq!(
            board.keys("\r", at(1_000)),
            [Deed::Send(Answer::plain(FIRST, ApprovalDecision::AllowAlways))]
        );
    }

    #[test]
    fn several_are_allowed_only_if_each_was_on_the_screen() {
        let mut board = board(vec![asked(FIRST, "make x"), asked(SECOND, "make x")], SCREEN);
        board.keys("X", at(1_000));
        assert_eq!(board.keys("a", at(1_000)), []);
        board.keys("j", at(1_000));
        board.painted();
        assert_eq!(board.keys("a", at(1_500)), [once(FIRST), once(SECOND)].concat());
        board.answered(FIRST, "one".to_owned(), true, at(1_600));
        assert_eq!(board.keys("q", at(1_600)), [], "it still sends");
        board.answered(SECOND, "two".to_owned(), true, at(1_700));
        assert_eq!(
            (board.message.as_str(), &board.mode),
            ("one · two", &Mode::Reading)
        );
    }

    #[test]
    fn a_new_question_rings_and_a_known_one_does_not() {
        let mut board = board(vec![asked(FIRST, "make x")], SCREEN);
        assert_eq!(board.asked(asked(SECOND, "make y"), at(10)), [Deed::Bell]);
        assert_eq!(board.asked(asked(SECOND, "make y"), at(20)), []);
        board.keys("b", at(30));
        let third = "33333333-0000-4000-8000-000000000000";
        assert_eq!(board.asked(asked(third, "make z"), at(40)), []);
    }

    #[test]
    fn no_row_is_wider_than_the_screen_and_none_has_what_a_terminal_obeys() {
        let hostile = "echo \u{1b}[2J\u{202e}日本語 \u{7}\nin  /safe".to_owned() + &"x".repeat(300);
        for (rows, columns) in [(8, 20), (15, 40), (24, 80), (60, 200)] {
            let mut odd = asked(FIRST, &hostile);
            odd.agent = "\u{1b}[31mmain".to_owned();
            let mut board = board(vec![odd, asked(SECOND, "ls")], Screen { rows, columns });
            for keys in [
                "",
                "?",
                "\u{1b}",
                "\r",
                "\u{1b}",
                "/",
                "日本\u{1b}[A語\r",
                "\u{1b}",
                "d",
                "\u{202e}",
            ] {
                board.keys(keys, at(1_000));
                let drawn = draw(&board, true, at(1_000));
                board.painted();
                assert_eq!(drawn.len(), rows, "{keys:?}");
                for row in drawn {
                    let is_odd = |c: char| c.is_control() || c == '\u{202e}';
                    assert!(!row.text.chars().any(is_odd), "{row:?}");
                    assert!(row.text.chars().count() <= columns, "{row:?}");
                }
            }
        }
    }
}
