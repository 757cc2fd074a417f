//! Reading: a few connections that can only read, and the pages of lists.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::{Connection, types::Value};
use tokio::sync::Semaphore;

use countersign_domain::{AgentId, Authority, InvalidId};

use super::{
    connection::open,
    error::{Fault, LedgerError},
};

/// Connections for reading, handed out one at a time.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
}

impl Readers {
    pub(super) fn new(path: &Path, count: usize) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            idle: Mutex::new(Vec::new()),
            places: Semaphore::new(count.max(1)),
        })
    }

    /// Reads on the calling thread: only for look-ups of a row or two by an index, which take microseconds.
    pub(super) async fn inline<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, LedgerError> {
        let place = self
            .places
            .acquire()
            .await
            .map_err(|_closed| LedgerError::Closed)?;
        let answer = self.with(read);
        drop(place);
        answer
    }

    /// Reads on a thread that may block.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let place = self
            .places
            .acquire()
            .await
            .map_err(|_closed| LedgerError::Closed)?;
        let readers = Arc::clone(self);
        let answer = tokio::task::spawn_blocking(move || readers.with(read)).await;
        drop(place);
        answer.unwrap_or(Err(LedgerError::Closed))
    }

    /// Has the connections that nobody uses forget the pages that they hold.
    pub(super) fn shrink(&self) {
        for connection in &*self.idle.lock().unwrap_or_else(PoisonError::into_inner) {
            if let Err(error) = connection.execute_batch("PRAGMA shrink_memory") {
                tracing::debug!(%error, "a connection of the ledger keeps its pages");
            }
        }
    }

    /// Reads on the calling thread without waiting for a place.
    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, LedgerError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = idle.map_or_else(|| open(&self.path), Ok)?;
        let answer = read(&connection);
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(connection);
        Ok(answer?)
    }
}

/// A place in a list; opaque to the client that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(i64);

impl Cursor {
    pub(super) const fn position(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for Cursor {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let position = if valid {
            i64::from_str_radix(text, 16).ok()
        } else {
            None
        };
        position.map(Self).ok_or(InvalidId {
            expected: "expected a cursor of an earlier answer",
        })
    }
}

/// Which part of a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// At most so many items.
    pub limit: u32,
    /// After this place; `None` from the beginning.
    pub cursor: Option<Cursor>,
}

impl Page {
    /// The first `limit` items.
    pub const fn first(limit: u32) -> Self {
        Self { limit, cursor: None }
    }

    /// One more than wanted, to see whether there is more.
    pub(super) fn fetch_limit(self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// The answer from rows with their positions.
    pub(super) fn listing<T>(self, mut rows: Vec<(i64, T)>) -> Listing<T> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more {
            rows.last().map(|(position, _)| Cursor(*position))
        } else {
            None
        };
        Listing {
            items: rows.into_iter().map(|(_, item)| item).collect(),
            next,
        }
    }
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing<T> {
    /// At most [`Page::limit`] of them, in the order of the query.
    pub items: Vec<T>,
    /// Where the rest begins, if there is more.
    pub next: Option<Cursor>,
}
/// The agents that a reader is bound to, as JSON for `json_each`; `None` for all.
pub(super) fn agents_within(authority: &Authority) -> Option<Value> {
    let agents: Vec<&str> = authority.agents()?.iter().map(AgentId::as_str).collect();
    Some(Value::Text(serde_json::json!(agents).to_string()))
}
