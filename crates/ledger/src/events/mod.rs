//! What happens, as others hear of it: typed events, the exact JSON of their `data`, and the feed that
//! carries them to subscribers.
//!
//! The feed never decides anything and never keeps history: the ledger writes an event in the same
//! transaction as the change it tells of and publishes it here after the commit, in the order of `seq`.
//! A subscriber reads the log (through [`EventLog`], which the ledger implements) up to what is stored and
//! then follows the ring; when it falls behind it goes back to the log. Entry points: [`Feed::subscribe`]
//! for readers, [`Feed::publish`] for the ledger.

mod event;
mod feed;
mod filter;
mod log;
mod publication;
mod subscription;
pub mod system_text;

pub(crate) use event::data_members;
pub use event::{
    AllowlistChange, AllowlistList, CountedVote, Event, EventKind, EventType, OutputChunk, PairingOutcome,
    PolicyPart, Resolution, RunSummary, Subject,
};
pub use feed::{Feed, SessionNotifier};
pub use filter::{EventFilter, InvalidTypes};
pub use log::{EventLog, EventLogError, LogPage};
pub use publication::Publication;
pub use subscription::{Start, StreamItem, Subscription};
