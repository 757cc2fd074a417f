//! Every refusal of the HTTP API: the catalogue of codes, the document that carries one, and the single
//! mapping from errors of the lower layers.
//!
//! A refusal must never have a code outside the closed set of [`Code`]. A fault of the server must never show its cause
//! to the caller: [`Problem::internal`] takes no text, and the request id in the answer leads you to the cause in the
//! log. Read on: [`Code`] is the catalogue, [`Problem`] the document, `mapping.rs` the mapping.

mod code;
mod document;
mod mapping;

pub use code::Code;
pub use document::Problem;
