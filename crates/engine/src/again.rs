//! What has the questions that wait judged again: that the policy changed, and who changed it.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, futures::Notified};

use countersign_domain::Actor;

/// Changes that are announced at once: each holds the lock of its file meanwhile.
const MOST_ANNOUNCED: usize = 4;
/// People who are named as those who changed the policy; of more there is only that there were more.
pub(super) const MOST_NAMED: usize = 3;

/// What wakes the task, and who made it necessary.
#[derive(Debug, Default)]
pub(crate) struct Again {
    changed: Notify,
    authors: Mutex<Authors>,
}

#[derive(Debug, Default)]
struct Authors {
    /// Who is about to put a content in place, by its hash. Most of the time none, and never many.
    announced: Vec<(String, Actor)>,
    /// Who changed the policy since the last pass.
    changed: Vec<Actor>,
    /// Nodes whose questions could not be judged, because they were away or did not answer.
    away: HashSet<String>,
    /// How often a node has come.
    arrivals: u64,
}

impl Authors {
    fn add(&mut self, by: Actor) {
        if self.changed.len() <= MOST_NAMED && !self.changed.iter().any(|other| other.is_same_person(&by)) {
            self.changed.push(by);
        }
    }
}

impl Again {
    /// Has all questions that wait judged again, soon.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// The policy of a node changed by way of this server.
    pub(crate) fn node_policy_changed(&self, by: &Actor) {
        self.note_author(by);
        self.wake();
    }

    /// A node is there. What changed while it was away counts for its questions now.
    pub(super) fn judge_on(&self, node: &str) {
        if self.came_back(node) {
            self.wake();
        }
    }

    /// Waits until that is wanted.
    pub(super) fn woken(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// A content with this hash is about to be put in place.
    pub(super) fn announce(&self, hash: &str, by: &Actor) {
        let mut authors = self.lock();
        // What could not be put in place is forgotten so.
        if authors.announced.len() >= MOST_ANNOUNCED {
            authors.announced.remove(0);
        }
        authors.announced.push((hash.to_owned(), by.clone()));
    }

    /// Contents with these hashes are in place.
    pub(super) fn saw(&self, hashes: [&str; 2]) {
        let mut authors = self.lock();
        let (seen, waiting) = std::mem::take(&mut authors.announced)
            .into_iter()
            .partition(|(hash, _by)| hashes.contains(&hash.as_str()));
        authors.announced = waiting;
        let seen: Vec<(String, Actor)> = seen;
        for (_hash, by) in seen {
            authors.add(by);
        }
    }

    /// Notes who let a change count.
    pub(super) fn note_author(&self, by: &Actor) {
        self.lock().add(by.clone());
    }

    /// How often a node has come. Read it before a node is asked, for [`Self::note_away`].
    pub(super) fn arrivals(&self) -> u64 {
        self.lock().arrivals
    }

    /// The questions of a node are left to people until it comes back. It may be back already: then, if a node has come
    /// since `arrivals`, they are judged again soon.
    pub(super) fn note_away(&self, node: &str, arrivals: u64) {
        let mut authors = self.lock();
        authors.away.insert(node.to_owned());
        if authors.arrivals != arrivals {
            drop(authors);
            self.wake();
        }
    }

    /// A node is there; whether questions of it were left while it was not.
    fn came_back(&self, node: &str) -> bool {
        let mut authors = self.lock();
        authors.arrivals = authors.arrivals.wrapping_add(1);
        authors.away.remove(node)
    }

    /// These, and who changed the policy since they were taken.
    pub(super) fn authors_with(&self, taken: &[Actor]) -> Vec<Actor> {
        let mut authors = Authors::default();
        for by in taken.iter().chain(&self.lock().changed) {
            authors.add(by.clone());
        }
        authors.changed
    }

    pub(super) fn take_authors(&self) -> Vec<Actor> {
        std::mem::take(&mut self.lock().changed)
    }

    fn lock(&self) -> MutexGuard<'_, Authors> {
        self.authors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_node_that_comes_back_while_it_is_asked_is_not_missed() {
        let again = Again::default();
        let is_woken = || again.woken().now_or_never().is_some();
        let arrivals = again.arrivals();
        again.note_away("n", arrivals);
        assert!(!is_woken(), "it has not come");
        assert!(again.came_back("n"));

        let arrivals = again.arrivals();
        assert!(!again.came_back("n"), "nothing was left yet");
        again.note_away("n", arrivals);
        assert!(is_woken());
        again.note_away("n", again.arrivals());
        assert!(!is_woken(), "it is waited for");
    }
}
