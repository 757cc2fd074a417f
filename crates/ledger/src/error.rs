//! How the ledger fails, named by what a caller can do about it.

use std::{path::PathBuf, sync::Arc};

use rusqlite::ErrorCode;

use countersign_domain::Stop;

/// Why a job or a query was not done. Nothing of a failed job was written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LedgerError {
    /// No space is left; the same call may work later.
    #[error("the disk of the ledger is full")]
    StorageFull,
    /// The file was deleted, moved or replaced: what is written goes nowhere.
    #[error("the file of the ledger was deleted or replaced")]
    Gone,
    /// Its file system is read-only; the same call may work later.
    #[error("the file system of the ledger is read-only")]
    ReadOnly,
    /// The file cannot be read or written now; the same call may work later.
    #[error("the ledger cannot be used now")]
    Unavailable(#[source] StorageFault),
    /// A stored row is no value of ours.
    #[error(transparent)]
    Inconsistent(Inconsistency),
    /// The change contradicts what is stored (an id that exists, for example): a fault of the caller.
    #[error("the ledger refused the change")]
    Refused(#[source] StorageFault),
    /// The ledger was stopped.
    #[error("the ledger is closed")]
    Closed,
    /// Everything is stopped, and this would let something begin.
    #[error("everything is stopped")]
    Stopped(Arc<Stop>),
}

/// What the storage said; opaque on purpose.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct StorageFault(Arc<rusqlite::Error>);

/// A row that cannot become a domain value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the ledger holds an unreadable value in {table}.{column}, row {row}")]
pub struct Inconsistency {
    pub(crate) table: &'static str,
    pub(crate) column: String,
    /// The row, by its id.
    pub(crate) row: String,
}

/// Why the ledger cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server uses it.
    #[error("another process uses the ledger {}", path.display())]
    InUse {
        /// The lock file beside the database.
        path: PathBuf,
    },
    /// A file of the ledger cannot be made, read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The file that failed.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The audit key has the wrong form.
    #[error("{} does not hold an audit key", path.display())]
    BadKey {
        /// The file of the key.
        path: PathBuf,
    },
    /// The database is no ledger, damaged, or made by a newer version.
    #[error("the ledger {} cannot be brought up to date", path.display())]
    Schema {
        /// The database file.
        path: PathBuf,
        /// What the migration said.
        #[source]
        source: rusqlite_migration::Error,
    },
    /// Its log was cut or changed, and what is left contradicts itself.
    #[error(
        "the ledger {} was damaged while no server used it ({what}); put a copy from before in place, with its companions, \
         or move it away with them",
        path.display()
    )]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// The first contradiction.
        what: String,
    },
    /// The database answered with an error.
    #[error("cannot read the ledger {}", path.display())]
    Database {
        /// The database file.
        path: PathBuf,
        /// What the database said.
        #[source]
        source: LedgerError,
    },
}

/// How one job failed inside a transaction.
#[derive(Debug)]
pub(super) enum Fault {
    Sql(rusqlite::Error),
    Inconsistent(Inconsistency),
    Stopped(Arc<Stop>),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Inconsistency> for Fault {
    fn from(inconsistency: Inconsistency) -> Self {
        Self::Inconsistent(inconsistency)
    }
}

impl From<Fault> for LedgerError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Sql(error) => Self::from_sql(error),
            Fault::Inconsistent(inconsistency) => Self::Inconsistent(inconsistency),
            Fault::Stopped(stop) => Self::Stopped(stop),
        }
    }
}

impl LedgerError {
    /// The storage failed, no matter what the code says.
    pub(super) fn unavailable(error: rusqlite::Error) -> Self {
        match Self::from_sql(error) {
            Self::Refused(fault) => Self::Unavailable(fault),
            full_or_unavailable @ (Self::StorageFull
            | Self::Gone
            | Self::ReadOnly
            | Self::Unavailable(_)
            | Self::Inconsistent(_)
            | Self::Stopped(_)
            | Self::Closed) => full_or_unavailable,
        }
    }

    fn from_sql(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        let fault = StorageFault(Arc::new(error));
        match code {
            Some(ErrorCode::DiskFull) => Self::StorageFull,
            Some(code) if concerns_storage(code) => Self::Unavailable(fault),
            _ => Self::Refused(fault),
        }
    }

    /// The stop that refused it.
    ///
    /// # Errors
    /// Every other error, as it is.
    pub fn into_stop(self) -> Result<Arc<Stop>, Self> {
        match self {
            Self::Stopped(stop) => Ok(stop),
            error @ (Self::StorageFull
            | Self::Gone
            | Self::ReadOnly
            | Self::Unavailable(_)
            | Self::Inconsistent(_)
            | Self::Refused(_)
            | Self::Closed) => Err(error),
        }
    }

    /// Whether a call of the system failed, and it is not known how far it came.
    pub(super) fn is_io(&self) -> bool {
        match self {
            Self::Unavailable(fault) => fault.0.sqlite_error_code() == Some(ErrorCode::SystemIoFailure),
            Self::StorageFull
            | Self::ReadOnly
            | Self::Gone
            | Self::Inconsistent(_)
            | Self::Refused(_)
            | Self::Stopped(_)
            | Self::Closed => false,
        }
    }

    /// Whether the storage failed, and not this one job.
    pub(super) const fn is_storage(&self) -> bool {
        match self {
            Self::StorageFull | Self::Gone | Self::ReadOnly | Self::Unavailable(_) | Self::Closed => true,
            Self::Inconsistent(_) | Self::Refused(_) | Self::Stopped(_) => false,
        }
    }
}

const fn concerns_storage(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PermissionDenied
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OutOfMemory
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::CannotOpen
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::NoLargeFileSupport
            | ErrorCode::NotADatabase
    )
}
