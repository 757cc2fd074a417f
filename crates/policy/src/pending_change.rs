//! Pending policy changes: which content of a policy file is in effect when another program or person edits it
//! (`docs/decisions/0010-who-may-answer.md`).
//!
//! A command may reach the file, so an edit from outside that allows more than the accepted content stays pending until an
//! operator accepts it; where it takes two people to widen the policy, so does every change. What an edit forbids applies at
//! once: the code that decides asks both contents. Pure: this must never read a file or a clock. Entry point:
//! [`ChangeControl::see`]; `countersign_engine::accepted_policy` uses it.

/// A content of the file, with what names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content<T> {
    /// Identifies the content; made of the SHA-256 of the file's bytes, and compared exactly.
    pub hash: String,
    /// What was read from the file.
    pub value: T,
}

/// A change that is not accepted yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingChange<T> {
    /// The edit as it lies on the disk.
    pub content: Content<T>,
    /// When it was first seen, in Unix milliseconds.
    pub since_ms: i64,
    /// What it would newly allow, in words. Never empty.
    pub allows: Vec<String>,
}

/// Who made the content that is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditOrigin {
    /// An outsider, while no command can have been it.
    OutsideQuiet,
    /// An outsider, after a command began: it may have been that.
    OutsideRisky,
    /// We, by changing a part of what was there. That accepts nothing else of it.
    Part,
    /// An operator, who answers for the whole content.
    Whole,
    /// Anybody: nobody widens alone (`[approvals] widening = "ask"`).
    Proposed,
}

/// What came of seeing a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Nothing changed: the content is accepted or pending already.
    Same,
    /// The content is accepted now, alone.
    Accepted,
    /// The content is pending.
    Pending,
}

/// The accepted content, and the pending change, if there is one.
#[derive(Debug, Clone)]
pub struct ChangeControl<T> {
    accepted: Option<Content<T>>,
    pending: Option<PendingChange<T>>,
}

impl<T> Default for ChangeControl<T> {
    fn default() -> Self {
        Self {
            accepted: None,
            pending: None,
        }
    }
}

impl<T> ChangeControl<T> {
    /// The control of a file whose accepted content an earlier server kept.
    pub const fn of(accepted: Option<Content<T>>) -> Self {
        Self {
            accepted,
            pending: None,
        }
    }

    /// The accepted content. `None` before the file was first seen.
    pub const fn accepted(&self) -> Option<&Content<T>> {
        self.accepted.as_ref()
    }

    /// The edit that waits until it is accepted or taken back.
    pub const fn pending(&self) -> Option<&PendingChange<T>> {
        self.pending.as_ref()
    }

    /// Takes note of what lies on the disk. `allows` says in words what its second argument allows and its first
    /// does not; no word means that it allows nothing new.
    pub fn see(
        &mut self,
        content: Content<T>,
        origin: EditOrigin,
        now_ms: i64,
        allows: impl FnOnce(&T, &T) -> Vec<String>,
    ) -> Step {
        let Some(accepted) = &self.accepted else {
            return self.accept(content);
        };
        if accepted.hash == content.hash {
            // The file says again what was accepted, so any edit was taken back.
            return if self.pending.take().is_some() {
                Step::Accepted
            } else {
                Step::Same
            };
        }
        let held = self.pending.as_ref();
        let is_judged = match origin {
            EditOrigin::Whole => false,
            EditOrigin::Part | EditOrigin::OutsideQuiet => held.is_some(),
            EditOrigin::OutsideRisky | EditOrigin::Proposed => true,
        };
        if !is_judged {
            return self.accept(content);
        }
        if held.is_some_and(|held| held.content.hash == content.hash) {
            return Step::Same;
        }
        let allows = allows(&accepted.value, &content.value);
        if allows.is_empty() {
            return self.accept(content);
        }
        self.pending = Some(PendingChange {
            content,
            since_ms: held.map_or(now_ms, |held| held.since_ms),
            allows,
        });
        Step::Pending
    }

    /// Changes the accepted content while a change is pending, as a change of ours demands that accepts nothing else. What is
    /// pending stays pending as long as it allows more than the new content.
    pub fn amend(&mut self, accepted: Content<T>, allows: impl FnOnce(&T, &T) -> Vec<String>) -> Step {
        let Some(held) = &mut self.pending else {
            return Step::Same;
        };
        let allowed = allows(&accepted.value, &held.content.value);
        self.accepted = Some(accepted);
        if !allowed.is_empty() {
            held.allows = allowed;
            return Step::Pending;
        }
        if let Some(held) = self.pending.take() {
            self.accepted = Some(held.content);
        }
        Step::Accepted
    }

    /// Says the accepted content in another way that allows the same.
    pub fn restate(&mut self, accepted: Content<T>) {
        self.accepted = Some(accepted);
    }

    /// The content on disk cannot be used at all: nothing is pending while that is so.
    pub fn forget_edit(&mut self) -> Step {
        if self.pending.take().is_some() {
            Step::Accepted
        } else {
            Step::Same
        }
    }

    fn accept(&mut self, content: Content<T>) -> Step {
        self.accepted = Some(content);
        self.pending = None;
        Step::Accepted
    }
}

/// A list of things that would newly be allowed, bounded so that a large edit does not make a large answer.
#[derive(Debug, Default)]
pub struct Allowances {
    lines: Vec<String>,
    left_off: usize,
}

/// How many are told in words. One more line says that others are not.
pub(crate) const MAX_LINES: usize = 50;
/// How long a quoted text may be.
const MAX_QUOTED_CHARS: usize = 200;

impl Allowances {
    /// Adds what would be allowed, in words. After 50 lines they are only counted.
    pub fn add(&mut self, line: String) {
        if self.lines.len() < MAX_LINES {
            self.lines.push(line);
        } else {
            self.left_off += 1;
        }
    }

    /// The lines in order, and a last one with the number of those left off. None if nothing is new.
    pub fn into_lines(self) -> Vec<String> {
        let Self { mut lines, left_off } = self;
        if left_off > 0 {
            lines.push(format!("and {left_off} more"));
        }
        lines
    }
}

/// Text of the file as it can be shown: quoted, cut, everything hidden spelled out.
pub fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A policy is a set of allowed things.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature is that of any policy"
    )]
    fn newly(before: &u8, after: &u8) -> Vec<String> {
        (0..8)
            .filter(|bit| after & !before & (1 << bit) != 0)
            .map(|bit| format!("bit {bit}"))
            .collect()
    }

    fn content(value: u8) -> Content<u8> {
        Content {
            hash: value.to_string(),
            value,
        }
    }

    /// What may happen: both contents must allow it.
    fn in_force(control: &ChangeControl<u8>) -> u8 {
        let accepted = control.accepted().map_or(0, |content| content.value);
        control
            .pending()
            .map_or(accepted, |held| accepted & held.content.value)
    }

    #[test]
    fn a_widening_edit_waits_and_a_narrowing_one_counts() {
        let mut control = ChangeControl::default();
        assert_eq!(
            control.see(content(0b0011), EditOrigin::OutsideRisky, 1, newly),
            Step::Accepted
        );
        assert_eq!(
            control.see(content(0b0111), EditOrigin::OutsideRisky, 2, newly),
            Step::Pending
        );
        assert_eq!(in_force(&control), 0b0011);
        assert_eq!(
            control.see(content(0b0111), EditOrigin::OutsideRisky, 3, newly),
            Step::Same
        );
        assert_eq!(
            control.see(content(0b0101), EditOrigin::OutsideRisky, 4, newly),
            Step::Pending
        );
        assert_eq!(in_force(&control), 0b0001, "what it takes away is gone at once");
        assert_eq!(control.pending().map(|held| held.since_ms), Some(2));
        assert_eq!(
            control.see(content(0b0011), EditOrigin::OutsideRisky, 5, newly),
            Step::Accepted
        );
        assert!(control.pending().is_none());
        assert_eq!(
            control.see(content(0b0001), EditOrigin::OutsideRisky, 6, newly),
            Step::Accepted
        );
        assert_eq!(
            control.see(content(0b0011), EditOrigin::OutsideRisky, 7, newly),
            Step::Pending,
            "what was narrowed cannot be put back by a command"
        );
    }

    #[test]
    fn a_change_of_ours_accepts_itself_and_not_what_is_held() {
        let mut control = ChangeControl::of(Some(content(0b0001)));
        assert_eq!(
            control.see(content(0b0011), EditOrigin::OutsideRisky, 1, newly),
            Step::Pending
        );
        // We add bit 3 to the files, and to the accepted policy.
        assert_eq!(
            control.see(content(0b1011), EditOrigin::Part, 2, newly),
            Step::Pending
        );
        assert_eq!(control.amend(content(0b1001), newly), Step::Pending);
        assert_eq!(in_force(&control), 0b1001);
        assert_eq!(
            control.see(content(0b1011), EditOrigin::Whole, 3, newly),
            Step::Accepted
        );
        assert_eq!(in_force(&control), 0b1011);
    }

    #[test]
    fn words_are_bounded_and_hide_nothing() {
        let mut allowances = Allowances::default();
        for line in 0..1000 {
            allowances.add(line.to_string());
        }
        let lines = allowances.into_lines();
        assert_eq!(
            (lines.len(), lines.last().map(String::as_str)),
            (51, Some("and 950 more"))
        );
        assert_eq!(quoted("a\u{202e}b\u{1b}["), "\"a\\u{202e}b\\u{1b}[\"");
        assert!(quoted(&"x".repeat(1000)).len() < 300);
    }

    proptest! {
        /// No matter what commands do to the file, or one person alone where it takes two, nothing is allowed that was
        /// not accepted.
        #[test]
        fn nothing_that_is_not_accepted_widens_what_is_in_force(first: u8, edits: Vec<(u8, bool)>) {
            let mut control = ChangeControl::default();
            let _accepted = control.see(content(first), EditOrigin::OutsideQuiet, 0, newly);
            for (edit, is_proposed) in edits {
                let origin = if is_proposed { EditOrigin::Proposed } else { EditOrigin::OutsideRisky };
                let _step = control.see(content(edit), origin, 0, newly);
                prop_assert_eq!(in_force(&control) & !first, 0);
                prop_assert_eq!(in_force(&control) & !edit, 0, "what is on disk is never exceeded");
            }
        }
    }
}
