//! An event on its way to those who listen.

use std::sync::Arc;

use super::{EventType, Subject};

/// An event as it is stored and sent: rendered once, shared by all subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Its number; `None` for live output.
    pub seq: Option<i64>,
    /// Its type, the `event:` line of the stream.
    pub event_type: EventType,
    /// What it is about, for filters.
    pub subject: Subject,
    /// The JSON object of its `data:` line.
    pub data: Arc<str>,
}
