//! What a list shows of approvals, without reading the card of each again.
//!
//! A card never changes once it is asked, so what was made of it can be kept. Everything that can change (state, votes,
//! whether there is such an approval at all) is read from the ledger each time.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use countersign_domain::{ApprovalCard, ApprovalId, Host};
use countersign_ledger::ApprovalRow;
use countersign_policy::command::question::Line;

/// An approval as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalBrief {
    /// What is short, and all that can change.
    pub row: ApprovalRow,
    /// What was made of its card.
    pub card: Arc<CardBrief>,
}

/// The part of an [`ApprovalBrief`] that never changes.
#[derive(Debug, PartialEq, Eq)]
pub struct CardBrief {
    /// Where the command would run.
    pub host: Host,
    /// The command, secrets masked.
    pub line: Line,
    /// How many people have to allow it.
    pub required: u64,
}

impl From<&ApprovalCard> for CardBrief {
    fn from(card: &ApprovalCard) -> Self {
        Self {
            host: card.binding.host,
            line: Line::of(card),
            required: card.quorum.required,
        }
    }
}

/// The cards that lists showed last, at most twice [`GENERATION`] of them.
#[derive(Debug, Default)]
pub(super) struct CardBriefs(Mutex<Generations>);

/// So many are kept before the ones that no list showed since are dropped.
const GENERATION: usize = 1024;

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<ApprovalId, Arc<CardBrief>>,
    old: HashMap<ApprovalId, Arc<CardBrief>>,
}

impl CardBriefs {
    /// Those of `rows` that are here, each at the place of its row.
    pub(super) fn of(&self, rows: &[ApprovalRow]) -> Vec<Option<Arc<CardBrief>>> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().map(|row| generations.get(&row.id)).collect()
    }

    pub(super) fn keep(&self, id: ApprovalId, card: Arc<CardBrief>) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert(id, card);
    }
}

impl Generations {
    fn get(&mut self, id: &ApprovalId) -> Option<Arc<CardBrief>> {
        if let Some(card) = self.young.get(id) {
            return Some(Arc::clone(card));
        }
        let (id, card) = self.old.remove_entry(id)?;
        self.insert(id, Arc::clone(&card));
        Some(card)
    }

    fn insert(&mut self, id: ApprovalId, card: Arc<CardBrief>) {
        if self.young.len() >= GENERATION {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(id, card);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Arc<CardBrief> {
        Arc::new(CardBrief {
            host: Host::Gateway,
            line: Line {
                text: "ls".into(),
                is_cut: false,
            },
            required: 1,
        })
    }

    fn id(number: usize) -> ApprovalId {
        ApprovalId::parse(format!("{number:08}")).unwrap()
    }

    #[test]
    fn what_no_list_shows_is_dropped_and_the_rest_is_bounded() {
        let mut generations = Generations::default();
        for number in 0..10 * GENERATION {
            generations.insert(id(number), card());
            assert!(generations.get(&id(0)).is_some(), "{number}");
            assert!(generations.young.len() <= GENERATION && generations.old.len() <= GENERATION);
        }
        assert!(generations.get(&id(1)).is_none());
    }
}
