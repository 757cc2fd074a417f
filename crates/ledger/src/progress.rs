//! What happens to a run between its launch and its end.

use countersign_domain::{ProcessKind, RunId};

use super::{
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    notes::Started,
    session_rows,
    tx::Tx,
};

/// A run outlives its caller from now on: as a session, once it has started.
struct Background {
    run_id: RunId,
    session_id: Option<String>,
}

impl Ledger {
    /// Notes that a run started. Returns at once; it is written with the next batch, within some 20 ms, and always
    /// before a [`Self::finish`] that is called later.
    pub fn started(&self, started: Started) {
        self.queue.note_started(started);
    }

    /// Notes that a run went to the background as this process session. `false` when it had ended.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn background(&self, run_id: RunId, session_id: String) -> Result<bool, LedgerError> {
        let session_id = Some(session_id);
        self.queue.submit(Background { run_id, session_id }).await
    }

    /// Notes that nobody waits for a run which has not started yet: it will be a process session.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn outlives_caller(&self, run_id: RunId) -> Result<(), LedgerError> {
        let session_id = None;
        self.queue.submit(Background { run_id, session_id }).await?;
        Ok(())
    }
}

impl Change for Background {
    type Answer = bool;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let changed = tx.execute(
            "UPDATE runs SET background = 1, session_id = coalesce(?2, session_id) \
             WHERE run_id = ?1 AND status IN ('requested', 'asking', 'launching', 'running')",
            (self.run_id.as_str(), &self.session_id),
        )?;
        if let (1, Some(session_id)) = (changed, &self.session_id) {
            session_rows::insert(tx, &self.run_id, session_id, ProcessKind::Run)?;
        }
        Ok(changed == 1)
    }
}
