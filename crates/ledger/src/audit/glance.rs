//! What can be told of a chain without reading all of it, at each start and by `doctor`.

use std::path::Path;

use rusqlite::Connection;

use crate::{
    connection,
    error::{Fault, LedgerError},
    keys::Keys,
    sql::fetch,
};

use super::{
    chain::ChainHead,
    head::HeadFile,
    problem::{Problem, ProblemKind},
    verify::VerifyError,
};

/// Looks at the end of the chain of a ledger at rest or in use. `None` where nothing is wrong there, or where no server
/// has run yet.
///
/// # Errors
/// When a file cannot be read.
pub fn glance(ledger: &Path, key: &Path, head: &Path) -> Result<Option<Problem>, VerifyError> {
    if !ledger.exists() {
        return Ok(None);
    }
    let connection = connection::open(ledger).map_err(VerifyError::Ledger)?;
    let unread = |fault: Fault| VerifyError::Ledger(LedgerError::from(fault));
    if !key.exists() {
        // A first start that was cut off left no history either.
        let is_removed = has_history(&connection).map_err(unread)?;
        let stored = ChainHead::stored(&connection).map_err(unread)?;
        return Ok(is_removed.then(|| Problem::of_chain(stored.seq, ProblemKind::Missing)));
    }
    let keys = Keys::load(key).map_err(VerifyError::Key)?;
    let head = HeadFile::at(head.to_owned());
    // Before the records, as a verification does.
    let sealed = head.load().map_err(VerifyError::Head)?;
    let stored = ChainHead::stored(&connection).map_err(unread)?;
    Ok(match sealed {
        None => Some(Problem::of_chain(stored.seq, ProblemKind::Missing)),
        Some(sealed) if !sealed.is_genuine(&keys) => Some(Problem::of_chain(sealed.seq, ProblemKind::Forged)),
        Some(sealed) if stored.seq < sealed.seq => {
            Some(Problem::of_chain(stored.seq + 1, ProblemKind::Truncated))
        }
        Some(_) => forgotten(&connection).map_err(unread)?,
    })
}

/// What the server noted that found runs which the ledger had forgotten. The chain says the same, further back.
fn forgotten(connection: &Connection) -> Result<Option<Problem>, Fault> {
    let seq = fetch(
        connection,
        "SELECT value FROM meta WHERE key = 'forgotten'",
        (),
        |row| Ok(row.get(0)?),
    )?;
    Ok(seq.map(|seq| Problem::of_chain(seq, ProblemKind::Forgotten)))
}

/// Whether the ledger tells of anything that happened.
pub(crate) fn has_history(connection: &Connection) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM runs) OR EXISTS (SELECT 1 FROM approvals) OR EXISTS (SELECT 1 FROM audit)";
    Ok(fetch(connection, sql, (), |row| Ok(row.get(0)?))?.unwrap_or(false))
}
