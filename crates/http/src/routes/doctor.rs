//! What is wrong or risky about this server and its files, and how to fix it.

use axum::extract::State;

use countersign_wire::health::FindingsBody;

use crate::{
    caller::{Admin, Caller},
    extract::QueryOf,
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(findings))
}

/// What `countersign doctor` finds, as far as the server can know it: whether commands can be confined is what it found when
/// it started. Each finding has the key or command that fixes it. Nothing is changed.
#[utoipa::path(
    get, path = "/v1/doctor", tag = "probes", operation_id = "get_findings",
    responses((status = OK, body = FindingsBody)),
    security(("token" = ["admin"])),
)]
async fn findings(
    _caller: Caller<Admin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> Result<JsonReply<FindingsBody>, Problem> {
    Ok(JsonReply(FindingsBody {
        findings: state.findings().await?,
    }))
}
