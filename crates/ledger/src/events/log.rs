//! The retained log as the feed reads it; the ledger implements it.

use std::{fmt::Debug, sync::Arc};

use futures_util::future::BoxFuture;

use super::Publication;

/// The log could not be read now.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the event log cannot be read")]
pub struct EventLogError(#[source] pub Arc<dyn std::error::Error + Send + Sync>);

/// A stretch of the log.
#[derive(Debug, Clone, Default)]
pub struct LogPage {
    /// Events after the asked position, oldest first.
    pub events: Vec<Arc<Publication>>,
    /// Number of the oldest event still kept, if any is.
    pub oldest: Option<i64>,
    /// Number of the newest event stored, if any ever was.
    pub newest: Option<i64>,
}

/// Where past events are read from.
pub trait EventLog: Debug + Send + Sync {
    /// Up to `limit` events with a number above `after`, oldest first. Fewer than `limit` means that
    /// nothing more was stored at that moment.
    fn read_after(&self, after: i64, limit: usize) -> BoxFuture<'_, Result<LogPage, EventLogError>>;
}
