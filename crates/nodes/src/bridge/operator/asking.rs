//! How many questions of one asker wait for a person at once.
//!
//! A question stays when the connection that asked it ends, so it is counted here until it has ended. A start of the server
//! begins anew: what waited before ends by its deadline.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_domain::Actor;

/// Questions of one token that may wait at once. More would push those of others out of a person's sight.
pub(super) const MOST_WAITING: usize = 256;

/// The questions that wait, by who asked.
#[derive(Debug, Default)]
pub(in crate::bridge) struct Askers(Mutex<BTreeMap<String, usize>>);

/// The place of one question; given back when it is dropped.
#[derive(Debug)]
pub(super) struct AskerPlace {
    askers: Arc<Askers>,
    asker: String,
}

impl Askers {
    /// A place for one more question of this asker; `None` when all of theirs are taken.
    pub(super) fn enter(self: &Arc<Self>, asker: &Actor) -> Option<AskerPlace> {
        let mut counts = self.counts();
        let count = counts.entry(asker.id.clone()).or_default();
        if *count >= MOST_WAITING {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(AskerPlace {
            askers: Arc::clone(self),
            asker: asker.id.clone(),
        })
    }

    fn leave(&self, asker: &str) {
        let mut counts = self.counts();
        if let Some(count) = counts.get_mut(asker) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(asker);
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AskerPlace {
    fn drop(&mut self) {
        self.askers.leave(&self.asker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::ActorKind;

    fn token(id: &str) -> Actor {
        Actor {
            kind: ActorKind::Token,
            id: id.to_owned(),
            name: "asker".to_owned(),
            owner: None,
        }
    }

    #[test]
    fn one_asker_takes_no_place_of_another_and_gets_its_own_back() {
        let askers = Arc::new(Askers::default());
        let mut places: Vec<AskerPlace> = (0..MOST_WAITING)
            .map(|_| askers.enter(&token("one")).unwrap())
            .collect();
        assert!(askers.enter(&token("one")).is_none());
        let other = askers.enter(&token("two"));
        assert!(other.is_some());
        places.pop();
        places.push(askers.enter(&token("one")).unwrap());
        assert!(askers.enter(&token("one")).is_none());
        drop((places, other));
        assert!(askers.counts().is_empty());
    }
}
