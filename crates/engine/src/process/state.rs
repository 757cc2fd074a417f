//! What this server remembers of sessions besides the ledger: their names, and how far they were told.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use countersign_sys::clock::Ids;

use super::{names, reader::OutputReader};

/// What this server remembers of sessions besides the ledger.
#[derive(Debug)]
pub(crate) struct ProcessState {
    ids: Arc<dyn Ids>,
    pub(super) names: Mutex<HashSet<String>>,
    /// How far each party has been told the output of a session. Two polls at once must not tell the same twice.
    polls: Mutex<HashMap<Poller, Told>>,
}

/// How far a party has been told an output.
type Told = Arc<tokio::sync::Mutex<OutputReader>>;

/// Whose polls of which session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Poller {
    session: String,
    party: String,
}

impl ProcessState {
    pub(crate) fn new(ids: Arc<dyn Ids>) -> Self {
        Self {
            ids,
            names: Mutex::default(),
            polls: Mutex::default(),
        }
    }

    /// A name for a session that no other has.
    pub(crate) fn new_name(&self) -> String {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let mut attempt = 0;
        loop {
            let name = names::name(self.ids.random(), attempt);
            if names.insert(name.clone()) {
                return name;
            }
            attempt += 1;
        }
    }

    /// A name that a session has already.
    pub(crate) fn take(&self, name: String) {
        self.names
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name);
    }

    /// The session of this name is gone.
    pub(crate) fn release(&self, name: &str) {
        self.names
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        self.polls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|poller, _| poller.session != name);
    }

    pub(super) fn polled(&self, session: &str, party: String) -> Told {
        let poller = Poller {
            session: session.to_owned(),
            party,
        };
        let mut polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(polls.entry(poller).or_default())
    }
}
