//! The directory a segment starts in, as far as `cd` leaves it certain (B1).

use crate::command::{paths, syntax::Join};

/// More places than this are not followed; then nothing relative is believed.
const MAX_CANDIDATES: usize = 32;

/// Where later segments start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directory {
    known: Option<String>,
    /// Every place it may be, for rules that must not miss any; `None` when there are too many.
    candidates: Option<Vec<String>>,
    /// Whether the last operator was `||`, so that what runs behind a `cd` here may run without it.
    behind_or: bool,
    /// Whether a `cd` happened since the last `;`.
    moved: bool,
    /// Whether any `cd` happened.
    is_changed: bool,
}

impl Directory {
    pub(super) fn new(directory: &str) -> Self {
        let directory = paths::normalise(directory);
        Self {
            known: Some(directory.clone()),
            candidates: Some(vec![directory]),
            behind_or: false,
            moved: false,
            is_changed: false,
        }
    }

    /// The directory, if it is certain.
    pub(super) fn known(&self) -> Option<&str> {
        self.known.as_deref()
    }

    /// Whether a `cd` may have led here: the command goes there when it runs, and not where it was judged.
    pub(super) const fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Every directory it may be; `None` when they were too many to follow.
    pub(super) fn candidates(&self) -> Option<&[String]> {
        self.candidates.as_deref()
    }

    /// Passes an operator between two pipelines.
    pub(super) fn join(&mut self, join: Join) {
        self.behind_or = join == Join::Or;
        if join == Join::And {
            return;
        }
        if self.moved {
            self.known = None;
        }
        if join == Join::Sequence {
            self.moved = false;
        }
    }

    /// Passes a compound command with a `cd` in it, which may have led to where that ends, or not. `None` where that was not followed.
    pub(super) fn lose(&mut self, inside: Option<&Self>) {
        self.known = None;
        let reached = inside.and_then(|inside| inside.candidates.as_deref());
        self.candidates = self
            .candidates
            .take()
            .zip(reached)
            .and_then(|(mut candidates, reached)| {
                candidates.extend_from_slice(reached);
                candidates.sort();
                candidates.dedup();
                (candidates.len() <= MAX_CANDIDATES).then_some(candidates)
            });
        self.moved = true;
        self.is_changed = true;
    }

    /// Passes a `cd` to a literal target.
    pub(super) fn change(&mut self, target: &str) {
        self.candidates = self.candidates.take().and_then(|mut candidates| {
            let reached: Vec<String> = candidates
                .iter()
                .map(|candidate| paths::join_normalised(candidate, target))
                .collect();
            candidates.extend(reached);
            candidates.sort();
            candidates.dedup();
            (candidates.len() <= MAX_CANDIDATES).then_some(candidates)
        });
        let target = match &self.known {
            Some(known) => Some(paths::join_normalised(known, target)),
            None => target.starts_with('/').then(|| paths::normalise(target)),
        };
        self.known = target.filter(|_| !self.behind_or);
        self.moved = true;
        self.is_changed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_chain_of_and_keeps_the_directory_certain() {
        let mut directory = Directory::new("/srv/proj");
        directory.change("sub");
        directory.join(Join::And);
        assert_eq!(directory.known(), Some("/srv/proj/sub"));
        directory.join(Join::Sequence);
        assert_eq!(directory.known(), None);
        directory.change("x");
        directory.join(Join::And);
        assert_eq!(directory.known(), None);
        directory.change("/abs/./d");
        directory.join(Join::And);
        assert_eq!(directory.known(), Some("/abs/d"));
        directory.join(Join::Or);
        assert_eq!(directory.known(), None);
    }

    #[test]
    fn behind_a_compound_command_the_directory_is_one_of_several() {
        let mut directory = Directory::new("/srv");
        let mut inside = directory.clone();
        inside.change("a");
        directory.lose(Some(&inside));
        assert_eq!(directory.known(), None);
        assert_eq!(directory.candidates().map(<[_]>::len), Some(2));
        directory.change("/b");
        assert_eq!(directory.known(), Some("/b"));
        directory.lose(None);
        assert_eq!((directory.known(), directory.candidates()), (None, None));
    }

    #[test]
    fn a_cd_behind_or_is_uncertain() {
        let mut directory = Directory::new("/srv");
        directory.join(Join::Or);
        directory.change("a");
        directory.join(Join::And);
        assert_eq!(directory.known(), None);
        assert_eq!(directory.candidates().map(<[_]>::len), Some(2));
        // `x || cd a && y && cd b && z`: z runs behind the second one, and nobody knows where that led.
        directory.join(Join::And);
        directory.change("b");
        assert_eq!(directory.known(), None);
    }

    #[test]
    fn a_cd_behind_and_is_certain_whatever_was_before() {
        let mut directory = Directory::new("/srv");
        directory.join(Join::Or);
        directory.join(Join::And);
        directory.change("a");
        directory.join(Join::And);
        assert_eq!(directory.known(), Some("/srv/a"));
        directory.join(Join::Or);
        assert_eq!(directory.known(), None);
    }
}
