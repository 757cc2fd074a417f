//! Pages of lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
