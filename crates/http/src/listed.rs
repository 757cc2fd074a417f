//! What lists showed of approvals, so that the next list need not make it again.
//!
//! A question is long, pages ask for hundreds at once, and what was asked never changes. So the JSON of an approval is kept with the
//! row of the ledger that it was made of, and answered again while the ledger has the same row. What can change (state, votes,
//! whether there is such an approval for the caller) is in that row, which every list reads.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use countersign_domain::ApprovalId;
use countersign_ledger::ApprovalRow;
use countersign_wire::approval::ApprovalView;

/// So much is kept before what no list showed since is dropped: at most twice of it in all, and nothing at rest. A thousand
/// questions take about 2 MiB.
const GENERATION_BYTES: usize = 4 * 1024 * 1024;

/// An approval as JSON.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalJson(Arc<RawValue>);

impl ApprovalJson {
    pub(crate) fn of(body: &impl Serialize) -> serde_json::Result<Self> {
        Ok(Self(Arc::from(to_raw_value(body)?)))
    }
}

impl Serialize for ApprovalJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The approvals that lists showed last.
#[derive(Debug, Default)]
pub(crate) struct ListedApprovals(Mutex<Generations>);

/// The same approval in another view is another text.
type Key = (ApprovalView, ApprovalId);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Key, Kept>,
    young_bytes: usize,
    old: HashMap<Key, Kept>,
}

#[derive(Debug)]
struct Kept {
    of: ApprovalRow,
    json: ApprovalJson,
}

impl ListedApprovals {
    /// The JSON of each row, at its place, where it was made of the same row.
    pub(crate) fn of(&self, view: ApprovalView, rows: &[ApprovalRow]) -> Vec<Option<ApprovalJson>> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().map(|row| generations.get(view, row)).collect()
    }

    /// Keeps what was made of a row and of what never changes.
    pub(crate) fn keep(&self, view: ApprovalView, of: ApprovalRow, json: ApprovalJson) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert((view, of.id.clone()), Kept { of, json });
    }

    /// Drops all of it.
    pub(crate) fn forget(&self) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *generations = Generations::default();
    }
}

impl Generations {
    fn get(&mut self, view: ApprovalView, row: &ApprovalRow) -> Option<ApprovalJson> {
        let key = (view, row.id.clone());
        if let Some(kept) = self.young.get(&key) {
            return (kept.of == *row).then(|| kept.json.clone());
        }
        let kept = self.old.remove(&key).filter(|kept| kept.of == *row)?;
        let json = kept.json.clone();
        self.insert(key, kept);
        Some(json)
    }

    fn insert(&mut self, key: Key, kept: Kept) {
        let added = kept.bytes();
        if self.young_bytes.saturating_add(added) > GENERATION_BYTES {
            self.old = mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        let replaced = self.young.insert(key, kept);
        self.young_bytes += added;
        self.young_bytes -= replaced.map_or(0, |kept| kept.bytes());
    }
}

impl Kept {
    /// About so much memory: the JSON has all texts of the row.
    fn bytes(&self) -> usize {
        size_of::<Self>() + 2 * self.json.0.get().len()
    }
}

#[cfg(test)]
mod tests {
    use countersign_domain::{ApprovalStatus, UnixMillis};
    use serde_json::json;

    use super::*;

    const FULL: ApprovalView = ApprovalView::Full;

    fn row(number: usize) -> ApprovalRow {
        ApprovalRow {
            id: ApprovalId::parse(format!("{number:08}")).unwrap(),
            run_id: "run".parse().unwrap(),
            agent: "main".parse().unwrap(),
            session: "agent:main:main".parse().unwrap(),
            status: ApprovalStatus::Pending,
            binding_digest: String::new(),
            created_at: UnixMillis::new(1),
            expires_at: UnixMillis::new(1),
            votes: Vec::new(),
        }
    }

    fn json(length: usize) -> ApprovalJson {
        ApprovalJson::of(&json!("x".repeat(length))).unwrap()
    }

    #[test]
    fn it_is_shown_again_for_the_same_row_and_view_alone() {
        let listed = ListedApprovals::default();
        listed.keep(FULL, row(1), json(10));
        let is_there = |view, row: ApprovalRow| listed.of(view, &[row]).iter().all(Option::is_some);
        assert!(is_there(FULL, row(1)));
        assert!(!is_there(ApprovalView::Brief, row(1)));
        assert!(!is_there(FULL, row(2)));
        let answered = ApprovalRow {
            status: ApprovalStatus::Denied,
            ..row(1)
        };
        assert!(!is_there(FULL, answered.clone()));
        listed.keep(FULL, answered.clone(), json(10));
        assert!(is_there(FULL, answered.clone()));
        assert!(!is_there(FULL, row(1)));
        listed.forget();
        assert!(!is_there(FULL, answered));
    }

    #[test]
    fn what_no_list_shows_is_dropped_and_the_rest_is_bounded() {
        let mut generations = Generations::default();
        let all = |generation: &HashMap<Key, Kept>| generation.values().map(Kept::bytes).sum::<usize>();
        for number in 0..1000 {
            let kept = Kept {
                of: row(number),
                json: json(100 * (number % 100)),
            };
            generations.insert((FULL, row(number).id), kept);
            assert!(generations.get(FULL, &row(0)).is_some(), "{number}");
            assert_eq!(generations.young_bytes, all(&generations.young), "{number}");
            assert!(generations.young_bytes <= GENERATION_BYTES && all(&generations.old) <= GENERATION_BYTES);
        }
        assert!(generations.get(FULL, &row(1)).is_none());
    }

    #[test]
    fn what_is_larger_than_all_that_is_kept_is_kept_alone() {
        let mut generations = Generations::default();
        for number in 0..4 {
            let kept = Kept {
                of: row(number),
                json: json(GENERATION_BYTES),
            };
            generations.insert((FULL, row(number).id), kept);
            assert!(generations.young.len() == 1 && generations.old.len() <= 1);
        }
    }
}
