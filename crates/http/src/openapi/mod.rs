//! The contract as an `OpenAPI` document, checked in as `openapi/openapi.json`.
//!
//! [`document()`] is the entry point. Builds for tests generate the document from the routes, and a test holds it against
//! the file. Other builds embed the file: the code that generates it would add a megabyte and a half to the program.

use std::borrow::Cow;
#[cfg(not(any(test, feature = "test-hooks")))]
use std::sync::LazyLock;

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema},
};

#[cfg(not(any(test, feature = "test-hooks")))]
use crate::packed;

#[cfg(any(test, feature = "test-hooks"))]
mod generated;

#[cfg(any(test, feature = "test-hooks"))]
pub use generated::document;

#[cfg(not(any(test, feature = "test-hooks")))]
static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| packed::unpack(include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"))));

/// The document as JSON text with a newline at its end.
#[cfg(not(any(test, feature = "test-hooks")))]
pub fn document() -> &'static str {
    &DOCUMENT
}

/// Any event. Its schema is made of those of the types.
#[derive(Debug)]
pub(crate) enum Event {}

impl PartialSchema for Event {
    fn schema() -> RefOr<Schema> {
        let about = "Something that happened. The type says which members it has.";
        RefOr::T(ObjectBuilder::new().description(Some(about)).build().into())
    }
}

impl ToSchema for Event {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Event")
    }
}
