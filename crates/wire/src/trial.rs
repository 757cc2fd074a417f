//! Trials of a policy: expectations of it, and the runs of the record judged anew.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::AgentId;

/// How many cases went as expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TestedPolicy)]
pub struct TestedBody {
    pub total: u64,
    pub passed: u64,
    /// The others, in the order of the text.
    pub failed: Vec<FailedCaseBody>,
}

/// A case about which policy says something else than is expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = FailedCase)]
pub struct FailedCaseBody {
    /// Its own id, else the number of the line where it begins.
    pub id: String,
    pub command: String,
    /// `allow`, `ask` or `reject`.
    pub expected: Cow<'static, str>,
    /// What policy says.
    pub actual: Cow<'static, str>,
    pub why: String,
}

/// What a policy would have decided about the runs of the record. Each run is in exactly one of `same`, `nowRun`, `nowAsk`,
/// `nowDenied`, `widerFallback` and `skipped`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Backtest)]
pub struct BacktestBody {
    /// Runs that were looked at, the newest first.
    pub total: u64,
    /// Different commands that were judged.
    pub distinct: u64,
    pub same: u64,
    pub now_run: u64,
    pub now_ask: u64,
    pub now_denied: u64,
    /// Would be asked about, and run without an answer by a wider `askFallback`.
    pub wider_fallback: u64,
    /// Could not be judged.
    pub skipped: u64,
    /// Why, with how many.
    pub skipped_by: BTreeMap<String, u64>,
    /// The commands about which it decides otherwise, the newest first.
    pub changed: Vec<ChangedCommandBody>,
    /// Differing runs that are not listed.
    pub omitted: u64,
}

/// A command about which a policy decides otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChangedCommand)]
pub struct ChangedCommandBody {
    #[serde(flatten)]
    pub compared: ComparedBody,
    /// How many of its runs were decided so.
    pub count: u64,
    /// The newest of them.
    pub last_run_id: String,
}

/// A command, and what was and would be decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ComparedCommand)]
pub struct ComparedBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub argv: Option<Vec<String>>,
    /// The command as one line for people, with what looks like a secret masked.
    pub line: String,
    pub cwd: String,
    pub agent_id: AgentId,
    /// `run`, `ask` or `deny`.
    pub then: Cow<'static, str>,
    /// The same under the policy that is tried.
    pub now: Cow<'static, str>,
    pub why: String,
}
