//! What happens to a run between its launch and its end.

use countersign_domain::{ProcessKind, RunId};

use super::{
    config::{Durability, Tuning},
    error::Fault,
    job::Job,
    session_rows,
    tx::{Committed, Tx},
};

/// A run outlives its caller from now on: as a session, once it has started.
pub(super) struct Background {
    pub(super) run_id: RunId,
    pub(super) session_id: Option<String>,
}

impl Job for Background {
    type Draft = bool;
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

    fn committed(self, draft: bool, _proof: &Committed) -> bool {
        draft
    }
}
