//! Connections to the ledger's file: the one that writes, and those that can only read.

use std::{ffi::OsStr, fmt::Write as _, os::unix::ffi::OsStrExt as _, path::Path, time::Duration};

use countersign_sys::sqlite_log;
use rusqlite::{Connection, OpenFlags};

use super::error::LedgerError;

/// How long a statement waits for a lock that another process holds (a backup, the command line). A job may come right after
/// another began to wait, and no caller waits 5 seconds longer than it asked for.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// How long it waits once that was in vain, until the ledger can be written again.
pub(super) const BUSY_AGAIN: Duration = Duration::from_millis(100);

/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 128;

/// Pages of the write-ahead log after which it is folded in even under load. Idle seconds do it earlier.
const CHECKPOINT_PAGES: i64 = 8000;

/// The connection that writes.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match sqlite_log::interface() {
        Some(interface) => Connection::open_with_flags_and_vfs(path, flags, interface)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Of use before anything is in the file, or when it is written anew (`shrink`).
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // Values of environments and output must not survive in free pages.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    Ok(connection)
}

/// Has the statements of a connection wait so long for a lock from now on.
pub(super) fn wait_for_locks(connection: &Connection, time: Duration) {
    if let Err(error) = connection.busy_timeout(time) {
        tracing::warn!(%error, "the ledger waits for locks as long as before");
    }
}

/// A connection that can only read.
pub(super) fn open(path: &Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(connection)
    });
    opened.map_err(LedgerError::unavailable)
}

/// A connection to a ledger that nobody may have open, which makes no file beside it.
pub(super) fn open_at_rest(path: &Path) -> Result<Connection, LedgerError> {
    let log = [path.as_os_str().as_bytes(), b"-wal"].concat();
    if Path::new(OsStr::from_bytes(&log)).exists() {
        // A server has it open, or died: what is in the log counts.
        return open(path);
    }
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.".contains(byte) {
            address.push(char::from(*byte));
        } else {
            write!(address, "%{byte:02X}").unwrap_or(());
        }
    }
    address.push_str("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(address, flags).map_err(LedgerError::unavailable)
}
