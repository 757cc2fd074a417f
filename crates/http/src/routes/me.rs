//! Who the caller is: the first call of a script.

use axum::Extension;

use countersign_wire::me::MeBody;

use crate::{
    admission::{Credentials, RequestSource},
    caller::{AgentCaller, AnyScope},
    extract::QueryOf,
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
};

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(me))
}

/// The token of this request: its name, owner, scopes and agents, and when it ends.
#[utoipa::path(
    get, path = "/v1/me", tag = "tokens", operation_id = "get_me",
    responses((status = OK, body = MeBody)),
    security(
        ("token" = ["exec"]), ("token" = ["relay"]), ("token" = ["read"]), ("token" = ["approve"]), ("token" = ["admin"]),
    ),
)]
async fn me(
    caller: AgentCaller<AnyScope>,
    Extension(origin): Extension<RequestSource>,
    _query: QueryOf<()>,
) -> Result<JsonReply<MeBody>, Problem> {
    let Credentials::Valid(key) = &origin.credentials else {
        return Err(Problem::internal());
    };
    let token_id = key.token_id().clone();
    Ok(JsonReply(MeBody::of(&caller, token_id, key.expires_at())))
}
