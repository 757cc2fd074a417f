//! Where a moment lies in a table whose times never go back along `seq`: found by halving, without an index.
//!
//! An index by time would cost every write a page.

use rusqlite::Connection;

use super::{error::Fault, sql::fetch};

/// A table in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Series {
    Runs,
    Approvals,
    Events,
    Audit,
}

impl Series {
    /// The numbers of its ends: the first row, and the next one that will be given.
    const fn ends(self) -> &'static str {
        match self {
            Self::Runs => {
                "SELECT coalesce((SELECT min(seq) FROM runs), 1), coalesce((SELECT max(seq) FROM runs), 0) + 1"
            }
            Self::Approvals => {
                "SELECT coalesce((SELECT min(seq) FROM approvals), 1), coalesce((SELECT max(seq) FROM approvals), 0) + 1"
            }
            Self::Events => {
                "SELECT coalesce((SELECT min(seq) FROM events), 1), coalesce((SELECT max(seq) FROM events), 0) + 1"
            }
            Self::Audit => {
                "SELECT coalesce((SELECT min(seq) FROM audit), 1), coalesce((SELECT max(seq) FROM audit), 0) + 1"
            }
        }
    }

    /// Number and time of the first row from a number on.
    const fn next(self) -> &'static str {
        match self {
            Self::Runs => "SELECT seq, created_ms FROM runs WHERE seq >= ?1 ORDER BY seq LIMIT 1",
            Self::Approvals => "SELECT seq, created_ms FROM approvals WHERE seq >= ?1 ORDER BY seq LIMIT 1",
            Self::Events => "SELECT seq, ts FROM events WHERE seq >= ?1 ORDER BY seq LIMIT 1",
            // Its time stands only in what the hash covers. A record without one is as old as can be.
            Self::Audit => {
                "SELECT seq, coalesce(json_extract(body, '$.ts'), 0) FROM audit WHERE seq >= ?1 ORDER BY seq LIMIT 1"
            }
        }
    }
}

/// The number of the first row of this moment or later, or the next that will be given.
pub(super) fn first_since(connection: &Connection, series: Series, millis: i64) -> Result<i64, Fault> {
    let ends = fetch(connection, series.ends(), (), |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let (mut low, mut high): (i64, i64) = ends.unwrap_or((1, 1));
    // Every row before `low` is older, none from `high` on is.
    while low < high {
        let middle = low + (high - low) / 2;
        let next = fetch(connection, series.next(), (middle,), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })?;
        match next {
            Some((seq, at)) if at < millis => low = seq + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_found_across_gaps_and_equal_times() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE events (seq INTEGER PRIMARY KEY, ts INTEGER);
                 CREATE TABLE audit (seq INTEGER PRIMARY KEY, body TEXT);
                 CREATE TABLE runs (seq INTEGER PRIMARY KEY, created_ms INTEGER);",
            )
            .unwrap();
        let rows = [(4, 10), (5, 10), (9, 20), (10, 20), (40, 35)];
        for (seq, at) in rows {
            connection
                .execute("INSERT INTO events VALUES (?1, ?2)", (seq, at))
                .unwrap();
            connection
                .execute("INSERT INTO runs VALUES (?1, ?2)", (seq, at))
                .unwrap();
            let body = format!("{{\"ts\":{at}}}");
            connection
                .execute("INSERT INTO audit VALUES (?1, ?2)", (seq, body))
                .unwrap();
        }
        for millis in 0..40 {
            let expected = rows
                .iter()
                .find(|(_, at)| *at >= millis)
                .map_or(41, |(seq, _)| *seq);
            for series in [Series::Runs, Series::Events, Series::Audit] {
                let found = first_since(&connection, series, millis).unwrap();
                // Where numbers are missing, any of them up to the row does.
                let first = "SELECT coalesce((SELECT min(seq) FROM events WHERE seq >= ?1), 41)";
                let first: i64 = connection.query_row(first, (found,), |row| row.get(0)).unwrap();
                assert_eq!(first, expected, "{series:?} {millis}");
            }
        }
        connection.execute("DELETE FROM events", ()).unwrap();
        assert_eq!(first_since(&connection, Series::Events, 5).unwrap(), 1);
    }
}
