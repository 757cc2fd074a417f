//! The settings that are in force.

use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use countersign_engine::settings::{SettingInForce, WaitsFor};

use crate::{
    caller::{Caller, Read},
    extract::QueryOf,
    reply::JsonReply,
    state::AppState,
};

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(settings))
}

/// Every setting in force.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Settings)]
struct SettingsBody {
    items: Vec<SettingItem>,
}

/// A key of `countersign.toml` or `openclaw.json`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Setting)]
struct SettingItem {
    /// Its path, such as `http.listen` or `tools.exec.ask`.
    path: String,
    /// What is in force in this process; null when it is unset, and `(secret)` for a secret that is set.
    value: Value,
    /// `default`, the name of the file, the environment variable, or the flag that set it.
    source: String,
    /// What would be in force if nothing set it.
    default: Value,
    /// False for a key that is read and checked and does nothing in this version.
    effective: bool,
    /// What the file says and is not in force; null when it unsets the key, and true for a secret. Absent where nothing
    /// waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    waiting: Option<Value>,
    /// What `waiting` waits for: `restart` of the server, or `acceptance` of an edit of `openclaw.json` that allows
    /// more. What such an edit forbids is in force at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    waits_for: Option<&'static str>,
}

/// Every setting that is in force in this process, with its origin, and what waits to take its place.
#[utoipa::path(
    get, path = "/v1/settings", tag = "policy", operation_id = "get_settings",
    responses((status = OK, body = SettingsBody)),
    security(("token" = ["read"])),
)]
async fn settings(
    _caller: Caller<Read>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> JsonReply<SettingsBody> {
    let items = state.policy_admin().settings_in_force();
    JsonReply(SettingsBody {
        items: items.into_iter().map(SettingItem::from).collect(),
    })
}

impl From<SettingInForce> for SettingItem {
    fn from(SettingInForce { setting, waiting }: SettingInForce) -> Self {
        Self {
            path: setting.key,
            value: setting.value,
            source: setting.source.short(),
            default: setting.default,
            effective: setting.effective_now,
            waits_for: waiting
                .as_ref()
                .map(|waiting| WaitsFor::as_str(waiting.waits_for)),
            waiting: waiting.map(|waiting| waiting.value),
        }
    }
}
