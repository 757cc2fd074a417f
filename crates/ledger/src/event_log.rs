//! The retained event log as the feed reads it.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use rusqlite::{Connection, Row};

use countersign_domain::UnixMillis;

use crate::events::{
    EventFilter, EventLog, EventLogError, EventType, Feed, LogPage, OutputChunk, Publication, Start, Subject,
    Subscription,
};

use super::{
    error::{Fault, LedgerError},
    handle::Ledger,
    moments::{self, Series},
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

    /// Up to `limit` kept events of a filter in a window, in its order, and the number at which the next page goes on if
    /// there may be more.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn events(
        &self,
        window: EventWindow,
        filter: EventFilter,
        limit: usize,
    ) -> Result<(Vec<Arc<Publication>>, Option<i64>), LedgerError> {
        self.readers
            .blocking(move |connection| {
                let (mut after, mut before) = window.bounds(connection)?;
                let mut found = Vec::new();
                loop {
                    let rows = match window.order {
                        EventOrder::OldestFirst => read_between(connection, after, before, FORWARDS)?,
                        EventOrder::NewestFirst => read_between(connection, after, before, BACKWARDS)?,
                    };
                    let last_stride = i64::try_from(rows.len()).unwrap_or(i64::MAX) < STRIDE;
                    for publication in rows {
                        let place = match window.order {
                            EventOrder::OldestFirst => &mut after,
                            EventOrder::NewestFirst => &mut before,
                        };
                        if found.len() == limit {
                            return Ok((found, Some(*place)));
                        }
                        *place = publication.seq.unwrap_or(*place);
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

    /// The number after which the events of a moment and later come.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn events_until(&self, moment: UnixMillis) -> Result<i64, LedgerError> {
        self.readers
            .blocking(move |connection| {
                Ok(moments::first_since(connection, Series::Events, moment.get())? - 1)
            })
            .await
    }
}

/// Which part of the kept events is wanted, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventWindow {
    /// With a higher number.
    pub after: i64,
    /// With a lower number; `None` for any.
    pub before: Option<i64>,
    /// Of this moment or later.
    pub since: Option<UnixMillis>,
    /// Of before this moment.
    pub until: Option<UnixMillis>,
    /// Which comes first.
    pub order: EventOrder,
}

/// In which order events are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventOrder {
    /// As they happened.
    #[default]
    OldestFirst,
    /// The other way round.
    NewestFirst,
}

impl EventWindow {
    /// The numbers between which it lies, themselves not in it.
    fn bounds(self, connection: &Connection) -> Result<(i64, i64), Fault> {
        let first = |moment: UnixMillis| moments::first_since(connection, Series::Events, moment.get());
        let since = self.since.map(first).transpose()?.map_or(0, |first| first - 1);
        let until = self.until.map(first).transpose()?.unwrap_or(i64::MAX);
        Ok((self.after.max(since), self.before.unwrap_or(i64::MAX).min(until)))
    }
}

const FORWARDS: &str = "SELECT seq, type, run_id, approval_id, agent_id, session_key, owner_token, data FROM events \
     WHERE seq > ?1 AND seq < ?2 ORDER BY seq LIMIT ?3";
const BACKWARDS: &str = "SELECT seq, type, run_id, approval_id, agent_id, session_key, owner_token, data FROM events \
     WHERE seq > ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";

fn read_between(
    connection: &Connection,
    after: i64,
    before: i64,
    sql: &str,
) -> Result<Vec<Arc<Publication>>, Fault> {
    list(connection, sql, (after, before, STRIDE), |row| {
        Ok(Arc::new(from_row(row)?))
    })
}

fn read(connection: &Connection, after: i64, limit: i64) -> Result<Vec<Arc<Publication>>, Fault> {
    list(connection, FORWARDS, (after, i64::MAX, limit), |row| {
        Ok(Arc::new(from_row(row)?))
    })
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
