//! What a terminal showed during a run, as pictures of its cells.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Pictures of a recording, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Frames)]
pub struct FramesBody {
    /// In the order of time. Each begins with what the one before it showed; the first of an answer with an empty screen.
    pub frames: Vec<FrameBody>,
    /// Where the rest begins: `afterMs` of the next request. Absent at the end of what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub next_after_ms: Option<u64>,
    /// From the start to the end of the run; so far where it goes on.
    pub length_ms: u64,
    /// What was written could not be followed from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub lost_at_ms: Option<u64>,
}

/// What the screen shows from one moment on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Frame)]
pub struct FrameBody {
    /// Since the start of the run.
    pub at_ms: u64,
    pub rows: u16,
    pub cols: u16,
    /// Row and column of the cursor, from 1. Absent where it is hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = Option<Vec<u16>>)]
    pub cursor: Option<(u16, u16)>,
    /// The rows that are others than before.
    pub changed: Vec<RowBody>,
}

/// A row of the screen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScreenRow)]
pub struct RowBody {
    /// Its number, from 0.
    pub row: u16,
    /// What stands in it, from the left on: no control character, and nothing that reorders its neighbours.
    pub texts: Vec<TextBody>,
}

/// A text of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScreenText)]
pub struct TextBody {
    pub text: String,
    /// How it looks: `f0` to `f15` its colour, `b0` to `b15` the one behind it, `bold`, `dim`, `italic`, `underline`, `inverse`,
    /// with blanks between them. Absent for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub look: String,
}
