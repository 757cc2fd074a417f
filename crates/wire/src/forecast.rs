//! The last forecast that the command line saved.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The last forecast, where one is saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SavedForecast)]
pub struct SavedForecastBody {
    /// Absent where none is saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub forecast: Option<ForecastBody>,
}

/// How often a person would have been asked about the commands of one's own agents, as `policy forecast --save` left it.
/// No command is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Forecast)]
pub struct ForecastBody {
    /// When it was made.
    pub saved_at_ms: i64,
    /// Commands from then on were read.
    pub since_ms: i64,
    /// The agent as whose commands they were judged.
    pub agent_id: String,
    /// The preset under which they were judged, or `present` for the policy of that moment.
    pub policy: String,
    /// How many commands were read.
    pub commands: u64,
    /// Would have run without a question.
    pub run: u64,
    /// Would have been asked about.
    pub ask: u64,
    /// Would have been denied.
    pub deny: u64,
    /// Could not be judged.
    pub not_judged: u64,
    /// Codes of the reasons why commands would have been asked about or denied, the most frequent first.
    pub reasons: Vec<ForecastReason>,
    /// The entries for programs that would save most questions.
    pub entries: Vec<ForecastEntry>,
    /// How many questions would be left with all of these entries.
    pub ask_with_entries: u64,
    /// The starter sets that would save questions, the most first.
    pub starter_sets: Vec<ForecastSet>,
}

/// A reason, and how often it counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastReason {
    pub why: String,
    pub count: u64,
}

/// An entry, and what it would save beside those before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastEntry {
    /// The path of a program.
    pub pattern: String,
    pub saves: u64,
}

/// A starter set, and what it would save alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastSet {
    pub set: String,
    pub saves: u64,
}
