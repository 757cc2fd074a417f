//! What the order of runs tells without an index: which have not ended.
//!
//! An index would cost each run a page that it writes, twice. A run that has not ended is admitted lately or is one of few.

use countersign_domain::RunStatus;

use super::{error::Fault, sql::fetch, tx::Tx};

/// The states of [`NUMBERS`], as SQL lists them.
pub(super) const UNFINISHED: &str = "('requested', 'asking', 'launching', 'running')";

/// The `seq` of every run that has not ended and of some that have, as SQL lists them.
pub(super) const NUMBERS: &str = "(SELECT seq FROM unfinished UNION ALL \
     SELECT seq FROM runs WHERE seq >= coalesce((SELECT value FROM meta WHERE key = 'unfinished_from'), 0))";

/// How many of the newest runs are looked through for those that have not ended.
const STEP: i64 = 512;

/// Notes where to look for runs that have not ended, once every so many runs.
pub(super) fn admitted(tx: &Tx<'_>) -> Result<(), Fault> {
    let newest = tx.connection.last_insert_rowid();
    if newest % STEP != 0 {
        return Ok(());
    }
    let unfinished = format!(
        "INSERT OR IGNORE INTO unfinished SELECT seq FROM runs WHERE status IN {UNFINISHED} \
         AND seq >= coalesce((SELECT value FROM meta WHERE key = 'unfinished_from'), 0)"
    );
    tx.execute(&unfinished, ())?;
    look_from(tx, newest + 1)
}

/// Forgets a run that ended.
pub(super) fn ended(tx: &Tx<'_>, seq: i64) -> Result<(), Fault> {
    tx.execute("DELETE FROM unfinished WHERE seq = ?1", (seq,))?;
    Ok(())
}

/// After runs were removed: the number of the newest may be given again.
pub(super) fn removed(tx: &Tx<'_>) -> Result<(), Fault> {
    let next = "SELECT coalesce(max(seq), 0) + 1 FROM runs";
    let next = fetch(tx.connection, next, (), |row| Ok(row.get(0)?))?.unwrap_or(1);
    let from = "SELECT value FROM meta WHERE key = 'unfinished_from'";
    let from = fetch(tx.connection, from, (), |row| Ok(row.get::<_, i64>(0)?))?;
    match from {
        Some(from) if from > next => look_from(tx, next),
        _ => Ok(()),
    }
}

fn look_from(tx: &Tx<'_>, seq: i64) -> Result<(), Fault> {
    tx.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES ('unfinished_from', ?1)",
        (seq,),
    )?;
    Ok(())
}

/// Whether none of these states is an end, so that [`NUMBERS`] has all that are wanted.
pub(super) fn are_unfinished(statuses: &[RunStatus]) -> bool {
    !statuses.is_empty() && statuses.iter().all(|status| !status.is_final())
}
