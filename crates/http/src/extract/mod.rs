//! Extractors whose every refusal is a problem document.
//!
//! An extractor must never let an unknown, doubled or wrong parameter pass, nor read a body without a bound on its size
//! and time. It never answers in the words of the web library: its rejection is a [`crate::problem::Problem`].
//! Read on: [`JsonBody`] for bodies, [`QueryOf`] for queries, [`AtPath`] for paths, [`IfMatch`] and
//! [`IdempotencyHeader`] for headers. Who may call at all is in [`crate::caller`].

mod body;
mod idempotency;
mod if_match;
mod moment;
mod path;
mod query;
mod words;

pub(crate) use body::{
    BodyLimit, DocumentBytes, EmptyBody, JsonBody, JsonBytes, OptionalJson, RawJson, ShortJson, not_null,
    parse,
};
pub(crate) use idempotency::IdempotencyHeader;
pub(crate) use if_match::{IfMatch, etag};
pub(crate) use moment::Moment;
pub(crate) use path::{AgentEntry, AgentScope, AtPath, NodeName, PairingName, ProcessSessionName};
pub(crate) use query::{Parameters, QueryForm, QueryOf};
pub(crate) use words::MAX_APPROVAL_WAIT_MS;
