//! The small steps that all SQL here shares: the rows of a query, the check of a compare-and-swap, and how values
//! are kept.

use std::time::Duration;

use rusqlite::{Connection, Params, Row};

use super::error::Fault;

/// The only row of a query, if there is one.
pub(super) fn fetch<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

/// All rows of a query.
pub(super) fn list<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(read(row)?);
    }
    Ok(items)
}

/// The condition that the id of a row of this table begins or ends with the one value of the condition. It is compared as text,
/// never as a pattern, and looked for in the index of the ids alone.
pub(super) fn has_id_part(table: &str, id: &str) -> String {
    format!(
        "seq IN (SELECT known.seq FROM {table} AS known, (SELECT ? AS text) AS part \
         WHERE substr(known.{id}, 1, length(part.text)) = part.text \
         OR substr(known.{id}, -length(part.text)) = part.text)"
    )
}

/// A compare-and-swap that was checked before in the same transaction must hit its row.
pub(super) fn exactly_one(changed: usize) -> Result<(), Fault> {
    if changed == 1 {
        Ok(())
    } else {
        Err(Fault::Sql(rusqlite::Error::StatementChangedRows(changed)))
    }
}

/// A list as JSON text.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data is JSON")
}

/// A duration as SQL keeps it.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
