//! The rows of process sessions, as the transitions of a run make and look for them.

use rusqlite::{Connection, OptionalExtension as _};

use countersign_domain::{ProcessKind, RunId};

use super::{error::Fault, tx::Tx};

/// Makes a session of a run. Does nothing when the run has one.
pub(super) fn insert(
    tx: &Tx<'_>,
    run_id: &RunId,
    session_id: &str,
    kind: ProcessKind,
) -> Result<bool, Fault> {
    let inserted = tx.execute(
        "INSERT OR IGNORE INTO process_sessions (session_id, run_id, agent_id, kind) \
         SELECT ?2, run_id, agent_id, ?3 FROM runs WHERE run_id = ?1",
        (run_id.as_str(), session_id, kind.as_str()),
    )?;
    Ok(inserted == 1)
}

/// Whether a run went to the background as a session.
pub(super) fn is_session(connection: &Connection, run_id: &RunId) -> Result<bool, Fault> {
    let found = connection
        .prepare_cached("SELECT 1 FROM process_sessions WHERE run_id = ?1 AND kind = 'run'")?
        .query_row((run_id.as_str(),), |_row| Ok(()))
        .optional()?;
    Ok(found.is_some())
}
