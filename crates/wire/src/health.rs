//! Whether a server can do its work.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether the server can do its work.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Readiness)]
pub struct ReadinessBody {
    /// `ready` or `not-ready`
    pub status: Cow<'static, str>,
    /// Whether something is wrong although the server answers: then it denies.
    pub degraded: bool,
    /// Whether the emergency stop is in effect. `GET /v1/stop` says who stopped the server, when and why.
    pub stopped: bool,
    /// Whether a changed setting waits for a restart. `GET /v1/settings` says which one.
    pub restart_needed: bool,
    pub checks: Checks,
}

/// What is wrong or risky.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Findings)]
pub struct FindingsBody {
    /// The worst come first.
    pub findings: Vec<FindingBody>,
}

/// One thing that is wrong or risky.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Finding)]
pub struct FindingBody {
    /// Stable, in kebab case.
    pub id: Cow<'static, str>,
    /// `error`, `warning` or `info`.
    pub severity: Cow<'static, str>,
    /// The key or file that it is about.
    pub key: String,
    /// What is the matter.
    pub explanation: String,
    /// The key or command that fixes it.
    pub fix: String,
    /// Whether `countersign doctor --fix` does.
    pub fixable: bool,
}

/// What was looked at.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = HealthChecks)]
pub struct Checks {
    pub database: CheckBody,
    /// There only while the machine does not give what a command needs, such as open files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<CheckBody>,
    /// There only where the audit record was found broken at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<CheckBody>,
    pub document: CheckBody,
    pub config: CheckBody,
    pub listener: CheckBody,
    /// There unless `[bridge] enabled = false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge: Option<CheckBody>,
    /// There only while commands cannot be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<CheckBody>,
    /// There only when commands go to the sandbox and none was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<CheckBody>,
    /// There unless `[ipc] role = "off"`; not ok while the approvals socket should be hosted and is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipc: Option<CheckBody>,
    /// There only while the server's time is ahead of the machine's clock, which was set back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<CheckBody>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = HealthCheck)]
pub struct CheckBody {
    pub ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
