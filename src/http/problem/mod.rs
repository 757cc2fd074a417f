//! Every refusal of the HTTP API: the catalogue of codes, the document that carries one, and the single
//! mapping from errors of the lower layers.

mod advice;
mod code;
mod document;
mod mapping;

pub use code::Code;
pub use document::{FieldError, Problem};
