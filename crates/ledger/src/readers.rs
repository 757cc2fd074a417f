//! Reading: a few connections that can only read, and the pages of lists.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, types::Value};
use tokio::sync::Semaphore;

use countersign_domain::{AgentId, Authority, InvalidId};

use super::{
    connection::open,
    error::{Fault, LedgerError},
};

/// How long a read waits for the connection of another one where no more can be opened: most take far less, and no
/// caller waits 5 seconds longer than it asked for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections for reading, handed out one at a time.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    connections: Mutex<Connections>,
    returned: Condvar,
    places: Semaphore,
}

#[derive(Debug, Default)]
struct Connections {
    idle: Vec<Connection>,
    /// How many reads hold one.
    lent: usize,
}

impl Readers {
    pub(super) fn new(path: &Path, count: usize) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            connections: Mutex::default(),
            returned: Condvar::new(),
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
        for connection in &self.lock().idle {
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
        let connection = self.take()?;
        let lent = Lent(self);
        let answer = read(&connection);
        self.lock().idle.push(connection);
        drop(lent);
        Ok(answer?)
    }

    /// A connection that nobody else has. A server without descriptors still reads with those that it has open.
    fn take(&self) -> Result<Connection, LedgerError> {
        let idle = self.lock().lend();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let fault = match self.open() {
            Ok(connection) => {
                self.lock().lent += 1;
                return Ok(connection);
            }
            Err(fault) => fault,
        };
        let all_lent = |connections: &mut Connections| connections.idle.is_empty() && connections.lent > 0;
        let (mut connections, _timeout) = self
            .returned
            .wait_timeout_while(self.lock(), PATIENCE, all_lent)
            .unwrap_or_else(PoisonError::into_inner);
        connections.lend().ok_or(fault)
    }

    /// Opens all files that reading needs: without this, the log is opened by the first read, which then fails.
    fn open(&self) -> Result<Connection, LedgerError> {
        let connection = open(&self.path)?;
        let version = connection.pragma_query_value(None, "schema_version", |_row| Ok(()));
        version.map_err(LedgerError::unavailable)?;
        Ok(connection)
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    /// One that is idle, counted as lent.
    fn lend(&mut self) -> Option<Connection> {
        let connection = self.idle.pop()?;
        self.lent += 1;
        Some(connection)
    }
}

/// The time of a read, however it ends.
struct Lent<'a>(&'a Readers);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.lock().lent -= 1;
        self.0.returned.notify_one();
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

#[cfg(test)]
mod tests {
    use std::{fs, sync::mpsc, thread};

    use tempfile::TempDir;

    use super::*;

    /// Readers with one connection, who can open no more, since the file is not where it was.
    fn without_room() -> (TempDir, Arc<Readers>) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("ledger");
        Connection::open(&path)
            .unwrap()
            .execute_batch("CREATE TABLE t (v)")
            .unwrap();
        let readers = Readers::new(&path, 2);
        readers.with(count).unwrap();
        fs::rename(&path, dir.path().join("away")).unwrap();
        (dir, readers)
    }

    fn count(connection: &Connection) -> Result<i64, Fault> {
        Ok(connection.query_row("SELECT count(*) FROM t", (), |row| row.get(0))?)
    }

    /// Whether a thread of this process sleeps.
    fn sleeps(thread: rustix::process::Pid) -> bool {
        let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
        let stat = fs::read_to_string(path).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
    }

    #[test]
    fn where_no_connection_can_be_opened_a_read_waits_for_one() {
        let (_dir, readers) = without_room();
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let first = readers.with(|connection| {
                let other = scope.spawn(|| {
                    tell.send(rustix::thread::gettid()).unwrap();
                    readers.with(count)
                });
                let thread = told.recv().unwrap();
                while !sleeps(thread) && !other.is_finished() {
                    thread::yield_now();
                }
                Ok((other, count(connection)?))
            });
            let (other, counted) = first.unwrap();
            assert_eq!(counted, 0);
            assert_eq!(other.join().unwrap().unwrap(), 0);
        });
    }

    #[test]
    fn a_read_waits_for_a_connection_no_longer_than_that() {
        let (_dir, readers) = without_room();
        let inner = readers.with(|_connection| Ok(readers.with(count)));
        assert!(matches!(inner, Ok(Err(LedgerError::Unavailable(_)))), "{inner:?}");
        assert_eq!(readers.with(count).unwrap(), 0, "the connection came back");
    }

    #[test]
    fn a_read_that_panicked_lets_the_next_one_fail_at_once() {
        let (_dir, readers) = without_room();
        let panicked = std::panic::catch_unwind(|| {
            readers.with(|_connection| -> Result<(), Fault> { panic!("a read") })
        });
        assert!(panicked.is_err());
        assert_eq!(readers.lock().lent, 0, "nobody waits for it");
        assert!(readers.with(count).is_err());
    }
}
