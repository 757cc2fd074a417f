//! What is known of one of the two files: which content is accepted, which of ours is coming, and whose part is whose.
//! Entry point: [`Watched::see`].

use std::thread::{self, ThreadId};

use countersign_domain::{Actor, UnixMillis};
use countersign_policy::{
    changes::Changes,
    pending_change::{self, ChangeControl, Content, EditOrigin, Step},
    proposals::Proposals,
};

use super::{Ours, PendingChange};

#[derive(Debug)]
pub(super) struct Watched<T> {
    pub(super) control: ChangeControl<T>,
    /// What we are about to put in its place.
    pub(super) announced: Option<Announced>,
    /// Who proposed the pending change.
    pub(super) proposals: Proposals,
    /// The hash of the change that was pending last, by this server or the one before: seeing it again is nobody's change.
    pub(super) known: Option<String>,
}

/// A content of ours that is about to be put in place.
#[derive(Debug, Clone)]
pub(super) struct Announced {
    pub(super) hash: String,
    pub(super) ours: Ours,
    pub(super) by: Option<Actor>,
    /// Whether the token of the socket in it was drawn for it.
    pub(super) drew_token: bool,
    /// The thread that writes it says when that is done; `None` for one of an earlier server.
    pub(super) writer: Option<ThreadId>,
}

impl Announced {
    pub(super) fn here(hash: &str, ours: Ours, by: Option<&Actor>) -> Self {
        Self {
            hash: hash.to_owned(),
            ours,
            by: by.cloned(),
            drew_token: false,
            writer: Some(thread::current().id()),
        }
    }

    pub(super) fn is_of_this_thread(&mut self) -> bool {
        self.writer == Some(thread::current().id())
    }
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Self {
            control: ChangeControl::default(),
            announced: None,
            proposals: Proposals::default(),
            known: None,
        }
    }
}

impl<T> Watched<T> {
    pub(super) fn accepted(&self) -> Option<T>
    where
        T: Clone,
    {
        self.control.accepted().map(|content| content.value.clone())
    }

    /// Takes note of what lies on the disk, and of whose it is when it is pending. Says also whether anything changed about
    /// who proposed what. `allows` is that of [`ChangeControl::see`].
    pub(super) fn see(
        &mut self,
        content: Content<T>,
        origin: EditOrigin,
        now_ms: i64,
        allows: impl Fn(&T, &T) -> Vec<String>,
    ) -> (Step, bool) {
        let by = self.proposer(origin, &content, &allows);
        let before = self.newly_allowed();
        let step = self.control.see(content, origin, now_ms, allows);
        let is_new = match step {
            Step::Same => false,
            Step::Pending => {
                let now = self.newly_allowed();
                let held = self.control.pending().map(|held| held.content.hash.clone());
                let is_other = self.known != held;
                self.known = held;
                self.proposals.note(by, &before, &now) || is_other
            }
            Step::Accepted => {
                self.known = None;
                self.forget_proposals()
            }
        };
        (step, is_new)
    }

    /// Accepts the edit with this hash. Says whether that one was pending.
    pub(super) fn accept(&mut self, hash: &str, now_ms: i64) -> bool
    where
        T: Clone,
    {
        let held = self.control.pending().filter(|held| held.content.hash == hash);
        let Some(content) = held.map(|held| held.content.clone()) else {
            return false;
        };
        let step = self
            .control
            .see(content, EditOrigin::Whole, now_ms, |_, _| Vec::new());
        let is_accepted = step == Step::Accepted;
        if is_accepted {
            self.proposals = Proposals::default();
            self.known = None;
        }
        is_accepted
    }

    /// Forgets who proposed something when nothing is pending any more. Says whether there was anybody.
    pub(super) fn forget_proposals(&mut self) -> bool {
        self.control.pending().is_none() && !std::mem::take(&mut self.proposals).is_empty()
    }

    /// Whose a content is. `began` says that a command may have written one that is not ours.
    pub(super) fn origin(&self, hash: &str, began: bool) -> EditOrigin {
        match self.announcement(hash).map(|announced| announced.ours) {
            Some(Ours::Part | Ours::Note) => EditOrigin::Part,
            Some(Ours::Whole) => EditOrigin::Whole,
            None if began => EditOrigin::OutsideRisky,
            None => EditOrigin::OutsideQuiet,
        }
    }

    /// The same where it may take two people to widen.
    pub(super) fn seen_as(&self, hash: &str, began: bool, takes_two: bool) -> EditOrigin {
        let is_note = |announced: &Announced| announced.ours == Ours::Note;
        if takes_two && !self.announcement(hash).is_some_and(is_note) {
            EditOrigin::Proposed
        } else {
            self.origin(hash, began)
        }
    }

    /// The content of ours with this hash, if it is about to be put in place.
    pub(super) fn announcement(&self, hash: &str) -> Option<&Announced> {
        self.announced.as_ref().filter(|announced| announced.hash == hash)
    }

    /// The edit that is held. `changes` says what its second argument changes of its first.
    pub(super) fn pending_change(&self, changes: impl FnOnce(&T, &T) -> Changes) -> Option<PendingChange> {
        let held = self.control.pending()?;
        let accepted = self.control.accepted();
        Some(PendingChange {
            hash: held.content.hash.clone(),
            since: UnixMillis::new(held.since_ms),
            allows: held.allows.clone(),
            proposed_by: self.proposals.people(),
            changes: accepted.map_or_else(Changes::default, |accepted| {
                changes(&accepted.value, &held.content.value)
            }),
        })
    }

    /// Who counts as the proposer when a content is held: no one for a content that only takes from what is held. What was
    /// changed from outside is of the owner of the state directory, where it takes two.
    fn proposer(
        &self,
        origin: EditOrigin,
        content: &Content<T>,
        allows: impl Fn(&T, &T) -> Vec<String>,
    ) -> Option<Actor> {
        if origin != EditOrigin::Proposed || self.known.as_ref() == Some(&content.hash) {
            return None;
        }
        let widens =
            |held: &pending_change::PendingChange<T>| !allows(&held.content.value, &content.value).is_empty();
        let by = match self.announcement(&content.hash) {
            Some(announced) => announced.by.clone(),
            None => Some(Actor::state_directory()),
        };
        by.filter(|_| self.control.pending().is_none_or(widens))
    }

    /// What the edit that is held would newly allow.
    fn newly_allowed(&self) -> Vec<String> {
        self.control
            .pending()
            .map_or_else(Vec::new, |held| held.allows.clone())
    }
}
