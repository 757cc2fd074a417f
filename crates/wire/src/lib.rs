//! The objects of the HTTP API, once: the server writes them and the command line reads them.
//!
//! It must never decide anything or know a route: what a member says comes from domain values, or from the HTTP API.
//! A reader is lenient. It ignores members that it does not know, and keeps a word of a newer server as [`words::Word`].
//! The names are those of `docs/spec/http-api.md`; the comments become descriptions of the `OpenAPI` document.

#![forbid(unsafe_code)]
#![expect(
    missing_docs,
    reason = "a comment on a member is text of the OpenAPI document, and most names say enough"
)]

pub mod actor;
pub mod analysis;
pub mod approval;
pub mod audit;
pub mod confined;
pub mod decisions;
pub mod entry;
pub mod error_kind;
pub mod event;
pub mod exec;
pub mod explain;
pub mod forecast;
pub mod frames;
pub mod health;
pub mod kernel;
pub mod me;
pub mod mute;
pub mod node;
pub mod overview;
pub mod page;
pub mod patch;
pub mod policy;
pub mod problem;
pub mod process;
pub mod ruling;
pub mod run;
pub mod sentence;
pub mod session;
pub mod setting;
pub mod shown;
pub mod stop;
pub mod token;
pub mod trial;
pub mod words;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads an object from a [`Value`], which stays as it is.
///
/// The command line reads objects of the API from values alone. The code that reads an object is compiled again for each
/// form of source (text, owned and borrowed values), and it is a large part of the program.
///
/// # Errors
/// When the JSON is not such an object.
pub fn read<T: DeserializeOwned>(json: &Value) -> serde_json::Result<T> {
    serde_json::from_value(json.clone())
}

/// Reads an object from JSON text.
///
/// # Errors
/// When the text is no JSON, or not such an object.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text).and_then(serde_json::from_value)
}
