//! Events and audit records that are not part of another change.

use countersign_domain::Actor;

use crate::events::Event;

use super::{
    audit::Entry,
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    tx::Tx,
};

/// An event to log and publish.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    event: Event,
    /// Who did it, for the audit record.
    by: Actor,
}

impl Ledger {
    /// Logs and publishes an event that is not part of another change.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn record(&self, event: Event, by: Actor) -> Result<(), LedgerError> {
        self.queue.submit(Record { event, by }).await
    }

    /// Appends an audit record, and logs and publishes the event of the same change.
    ///
    /// # Errors
    /// When the ledger cannot be written; then neither was.
    #[crate::compiled_once]
    pub async fn record_change(&self, audit: Entry, event: Event, by: Actor) -> Result<(), LedgerError> {
        self.queue.submit(AuditedChange { audit, event, by }).await
    }
}

impl Change for Record {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.log(self.event.clone(), &self.by)
    }
}

/// A change with the audit record that names it, and the event that tells of it.
#[derive(Debug)]
struct AuditedChange {
    audit: Entry,
    event: Event,
    by: Actor,
}

impl Change for AuditedChange {
    type Answer = ();

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.audit(&self.audit)?;
        tx.log(self.event.clone(), &self.by)
    }
}

/// An audit record to append.
pub(super) struct Append(pub(super) Entry);

impl Change for Append {
    type Answer = ();

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.audit(&self.0)
    }
}

/// An audit record of something that happens only once this is written, and not while room is kept for the ends of what runs.
pub(super) struct AppendBefore(pub(super) Entry);

impl Change for AppendBefore {
    type Answer = ();

    fn durability(&self, tuning: &Tuning) -> Durability {
        tuning.durability
    }

    fn needs_reserve(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.audit(&self.0)
    }
}
