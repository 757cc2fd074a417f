//! The document, generated from the routes.
//!
//! What the annotations of the routes cannot say is said here, once for all operations: the refusals, and what generators
//! of clients need. Nothing here may say what the server does not do; tests hold its answers against the document.

mod answers;
mod document;
mod events;
mod examples;
mod schemas;
mod unions;

pub use document::document;

/// A schema that is another one by name.
fn reference(name: &str) -> serde_json::Value {
    serde_json::json!({"$ref": format!("#/components/schemas/{name}")})
}
