//! The catalogue of errors as data.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every error that the server answers with.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorCatalogue {
    /// In the order of their statuses.
    pub items: Vec<ErrorKind>,
}

/// One error.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorKind {
    pub code: Cow<'static, str>,
    pub status: u16,
    /// The same in every problem document with this code.
    pub title: Cow<'static, str>,
    /// Whether the same request may succeed later without a change.
    pub retryable: bool,
    /// Members that a problem document with this code may have beside those of every one.
    pub members: Vec<Cow<'static, str>>,
}
