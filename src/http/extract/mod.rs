//! Extractors whose every refusal is a problem document.

mod body;
mod idempotency;
mod if_match;
mod path;
mod query;

pub(in crate::http) use body::{
    BodyLimit, EmptyBody, JsonBody, JsonBytes, RawJson, ShortJson, not_null, parse,
};
pub(in crate::http) use idempotency::IdempotencyHeader;
pub(in crate::http) use if_match::{IfMatch, etag};
pub(in crate::http) use path::{AgentEntry, AgentScope, AtPath, NodeName, PairingName, ProcessSessionName};
pub(in crate::http) use query::{Parameters, QueryForm, QueryOf};
