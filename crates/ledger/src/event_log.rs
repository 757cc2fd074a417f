//! The retained event log as the feed reads it.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use rusqlite::{Connection, Row};

use crate::events::{
    EventFilter, EventLog, EventLogError, EventType, Feed, LogPage, OutputChunk, Publication, Start, Subject,
    Subscription,
};

use super::{
    error::{Fault, LedgerError},
    handle::Ledger,
    rows::Columns,
    sql::{fetch, list},
};

/// Rows looked through at once when a filter lets few pass.
const STRIDE: i64 = 2000;

impl EventLog for Ledger {
    fn read_after(&self, after: i64, limit: usize) -> BoxFuture<'_, Result<LogPage, EventLogError>> {
        async move {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let page = self.readers.blocking(move |connection| {
                let events = read(connection, after, limit)?;
                let (oldest, newest) = bounds(connection)?;
                Ok(LogPage {
                    events,
                    oldest,
                    newest,
                })
            });
            page.await.map_err(|error| EventLogError(Arc::new(error)))
        }
        .boxed()
    }
}

impl Ledger {
    /// Follows the events from `start` on.
    pub fn subscribe(&self, filter: EventFilter, start: Start) -> Subscription {
        self.feed.subscribe(Arc::new(self.clone()), filter, start)
    }

    /// Where committed events are published.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Publishes a piece of output to those who listen now; it is not kept.
    pub fn publish_output(&self, chunk: &OutputChunk) {
        self.feed.publish_output(chunk);
    }

    /// Up to `limit` kept events of a filter after a number, oldest first, and the number to go on after if
    /// there may be more.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn events_after(
        &self,
        after: i64,
        filter: EventFilter,
        limit: usize,
    ) -> Result<(Vec<Arc<Publication>>, Option<i64>), LedgerError> {
        self.readers
            .blocking(move |connection| {
                let mut position = after;
                let mut found = Vec::new();
                loop {
                    let rows = read(connection, position, STRIDE)?;
                    let last_stride = i64::try_from(rows.len()).unwrap_or(i64::MAX) < STRIDE;
                    for publication in rows {
                        if found.len() == limit {
                            return Ok((found, Some(position)));
                        }
                        position = publication.seq.unwrap_or(position);
                        if filter.matches(publication.event_type, &publication.subject) {
                            found.push(publication);
                        }
                    }
                    if last_stride {
                        return Ok((found, None));
                    }
                }
            })
            .await
    }
}

fn read(connection: &Connection, after: i64, limit: i64) -> Result<Vec<Arc<Publication>>, Fault> {
    list(
        connection,
        "SELECT seq, type, run_id, approval_id, agent_id, session_key, owner_token, data FROM events \
         WHERE seq > ?1 ORDER BY seq LIMIT ?2",
        (after, limit),
        |row| Ok(Arc::new(from_row(row)?)),
    )
}

/// The numbers of the oldest and the newest event.
fn bounds(connection: &Connection) -> Result<(Option<i64>, Option<i64>), Fault> {
    let sql = "SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)";
    let bounds = fetch(connection, sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(bounds.unwrap_or_default())
}

fn from_row(row: &Row<'_>) -> Result<Publication, Fault> {
    let mut columns = Columns::of("events", row);
    let seq = Some(columns.take()?);
    let event_type: EventType = columns.word()?;
    let subject = Subject {
        run_id: columns.maybe_word()?,
        approval_id: columns.maybe_word()?,
        agent: columns.maybe_word()?,
        session: columns.maybe_word()?,
        owner: columns.maybe_word()?,
        // Told in the data; no filter asks for them.
        host: None,
        node_id: None,
    };
    let data: String = columns.take()?;
    Ok(Publication {
        seq,
        event_type,
        subject,
        data: data.into(),
    })
}
