//! The settings that are in force.

use axum::extract::State;

use countersign_engine::settings::SettingInForce;
use countersign_wire::setting::{SettingBody, SettingsBody};

use crate::{
    caller::{Caller, Read},
    extract::QueryOf,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(settings))
}

/// Every setting that is in force in this process, with its origin, what waits to take its place, and what the kernel keeps.
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
        items: items.into_iter().map(setting).collect(),
        kernel: state.policy_admin().kernel().await.into(),
    })
}

fn setting(SettingInForce { setting, waiting }: SettingInForce) -> SettingBody {
    SettingBody {
        path: setting.key,
        value: setting.value,
        source: setting.source.short(),
        default: setting.default,
        effective: setting.effective_now,
        waits_for: waiting.as_ref().map(|waiting| waiting.waits_for.as_str().into()),
        waiting: waiting.map(|waiting| waiting.value),
    }
}
