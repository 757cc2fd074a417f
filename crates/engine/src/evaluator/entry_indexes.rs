//! Indexes over long allowlists, kept between calls.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use countersign_domain::{AgentId, UnixMillis};
use countersign_policy::{allowlist::EntryIndex, pattern::PathCase};
use countersign_sys::clock::Clock;

/// Shorter lists are looked through: that costs less than an index, and sees every change of a link at once.
pub(crate) const MIN_INDEXED: usize = 64;
/// Entries of all kept indexes together; with more, all are forgotten.
const MAX_KEPT: usize = 1_000_000;
/// The least age at which an index is made again, since links that it followed may have changed.
const MIN_AGE: Duration = Duration::from_secs(2);
/// An index is made again at the earliest after so many times what making it took.
const AGE_PER_COST: u32 = 20;

/// The indexes in use. Made once per server.
#[derive(Debug, Default)]
pub(crate) struct EntryIndexes(Mutex<HashMap<Key, CachedIndex>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    document: String,
    agent: AgentId,
    insensitive: bool,
}

#[derive(Debug)]
struct CachedIndex {
    index: Arc<EntryIndex>,
    good_until: UnixMillis,
}

impl EntryIndexes {
    /// The index over an agent's entries in the document of that hash.
    pub(crate) fn of(
        &self,
        document: &str,
        agent: &AgentId,
        case: PathCase,
        clock: &dyn Clock,
        make: impl FnOnce() -> EntryIndex,
    ) -> Arc<EntryIndex> {
        let key = Key {
            document: document.to_owned(),
            agent: agent.clone(),
            insensitive: case == PathCase::Insensitive,
        };
        let begun = clock.now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = known.get(&key).filter(|kept| begun < kept.good_until) {
            return Arc::clone(&kept.index);
        }
        known.remove(&key);
        drop(known);
        // Without the lock: it asks the file system about every entry.
        let index = Arc::new(make());
        let now = clock.now();
        let cost = u64::try_from(now.get().saturating_sub(begun.get())).unwrap_or(0);
        let age = MIN_AGE.max(Duration::from_millis(cost).saturating_mul(AGE_PER_COST));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = known.values().map(|kept| kept.index.len()).sum();
        if kept.saturating_add(index.len()) > MAX_KEPT {
            known.clear();
        }
        let good_until = now + age;
        known.insert(
            key,
            CachedIndex {
                index: Arc::clone(&index),
                good_until,
            },
        );
        index
    }
}
