//! Noticing that the policy changed, and telling of it once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    approvals::store::{DocumentStatus, DocumentStore, Snapshot},
    domain::Actor,
    engine::Engine,
    events::{Event, EventKind, PolicyPart},
    ledger::{PolicyStamp, PolicyWatch},
    settings::SettingsStore,
};

/// The policy files as the ledger's writer looks at them just before a launch.
#[derive(Debug)]
pub struct PolicyFiles {
    settings: Arc<SettingsStore>,
    documents: Arc<DocumentStore>,
}

impl PolicyFiles {
    /// Looks at these.
    pub const fn new(settings: Arc<SettingsStore>, documents: Arc<DocumentStore>) -> Self {
        Self { settings, documents }
    }
}

impl PolicyWatch for PolicyFiles {
    fn stamp(&self) -> PolicyStamp {
        // What it found is in `current` and `config_error`, and told of from there.
        drop(self.settings.refresh());
        PolicyStamp {
            document_hash: self.documents.snapshot().hash.clone(),
            settings_generation: self.settings.current().generation,
        }
    }
}

/// What was last told of.
#[derive(Debug, Default)]
pub(super) struct PolicySeen(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    seen: Option<Seen>,
    /// Contents that are about to be put in place, and were told of by whoever changes them.
    announced_document: Option<String>,
    announced_config: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    generation: u64,
    config_error: Option<String>,
    config: String,
    document: String,
}

impl PolicySeen {
    /// A change of the document that nobody needs to be told of.
    pub(super) fn expect_document(&self, hash: &str) {
        if let Some(seen) = &mut self.lock().seen {
            hash.clone_into(&mut seen.document);
        }
    }

    /// The document is about to be this one, which was told of. `None`: it will not be, or was seen.
    pub(super) fn announce_document(&self, hash: Option<&str>) {
        self.lock().announced_document = hash.map(str::to_owned);
    }

    /// `openclaw.json` is about to be this one, which was told of. `None`: it will not be, or was seen.
    pub(super) fn announce_config(&self, hash: Option<&str>) {
        self.lock().announced_config = hash.map(str::to_owned);
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, now: &Seen) -> bool {
        self.lock().seen.as_ref() == Some(now)
    }

    /// Remembers what `look` finds and returns it with what was there before, if that was something else.
    ///
    /// It looks under the lock: of two that look at once, the one that saw the older files must not come last,
    /// or the newer ones would be told of twice.
    fn replace<T>(&self, look: impl FnOnce() -> (Seen, T)) -> Option<(Seen, Seen, T)> {
        let mut told = self.lock();
        let (now, found) = look();
        if told.seen.as_ref() == Some(&now) {
            return None;
        }
        let mut before = told.seen.replace(now.clone())?;
        if told.announced_document.as_ref() == Some(&now.document) {
            before.document.clone_from(&now.document);
        }
        if before.config != now.config && told.announced_config.as_ref() == Some(&now.config) {
            before.generation = now.generation;
        }
        Some((before, now, found))
    }
}

impl Engine {
    /// Looks at both files and tells of what changed. Cheap when nothing did.
    pub fn look_at_policy(&self) -> Arc<Snapshot> {
        let (now, document) = self.seen_now();
        if !self.policy_seen.is(&now)
            && let Some((before, now, document)) = self.policy_seen.replace(|| self.seen_now())
        {
            self.tell_of_policy(&before, &now, &document);
        }
        document
    }

    fn seen_now(&self) -> (Seen, Arc<Snapshot>) {
        // What it found is in `current` and `config_error`, and told of from there.
        drop(self.settings.refresh());
        let document = self.documents.snapshot();
        let now = Seen {
            generation: self.settings.current().generation,
            config_error: self.settings.config_error(),
            config: self.settings.config_hash(),
            document: document.hash.clone(),
        };
        (now, document)
    }

    fn tell_of_policy(&self, before: &Seen, now: &Seen, document: &Snapshot) {
        let mut events = Vec::new();
        if before.generation != now.generation {
            events.push(EventKind::PolicyChanged {
                what: PolicyPart::Config,
                hash: None,
                by: None,
            });
        }
        if before.config_error != now.config_error
            && let Some(message) = &now.config_error
        {
            events.push(EventKind::ConfigRejected {
                path: "openclaw.json".to_owned(),
                message: message.clone(),
            });
        }
        if before.document != now.document {
            events.push(match &document.status {
                DocumentStatus::Refused(refusal) => EventKind::DocumentRefused {
                    reason: refusal.reason.to_string(),
                    pointer: refusal.pointer.clone(),
                },
                DocumentStatus::Missing | DocumentStatus::Ok => EventKind::PolicyChanged {
                    what: PolicyPart::Document,
                    hash: Some(now.document.clone()),
                    by: None,
                },
            });
        }
        let ledger = self.ledger.clone();
        self.tasks.spawn(async move {
            for kind in events {
                if let Err(error) = ledger.record(Event::general(kind), Actor::system()).await {
                    tracing::error!(error = %error, "a change of policy is not recorded");
                }
            }
        });
    }

    /// Records an event that belongs to no other change.
    pub(super) async fn tell(&self, event: Event, by: Actor) {
        if let Err(error) = self.ledger.record(event, by).await {
            tracing::error!(error = %error, "an event is not recorded");
        }
    }
}
