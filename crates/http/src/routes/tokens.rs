//! API tokens.

use std::collections::BTreeSet;

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::ToSchema;

use countersign_domain::{AgentId, Owner, Scope, TokenId, UnixMillis};
use countersign_engine::tokens::TokenRequest;
use countersign_ledger::TokenAcceptance;
use countersign_wire::{
    page::Page,
    token::{NewTokenBody, RotatedTokenBody, TokenBody},
};

use crate::{
    caller::{Admin, Caller},
    extract::{AtPath, EmptyBody, JsonBody, Moment, QueryOf, not_null},
    list::{ListName, PageQuery},
    problem::{Code, Problem},
    reply::JsonReply,
    route_table::{RouteTable, routes},
    schema::Label,
    short_id,
    state::AppState,
};

const LIST: ListName<'static> = ListName::only("tokens");

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(list, create))
        .routes(routes!(revoke))
        .routes(routes!(rotate))
        .routes(routes!(accept))
}

/// What a new token is to be. What narrows it is given or left out, never null.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = TokenRequest)]
struct TokenRequestBody {
    /// Its name for people.
    #[schema(value_type = Label)]
    name: String,
    /// Whose it is to be; that of the token that makes it unless given. Another owner has to accept one of another owner.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Owner, required = false)]
    owner: Option<Owner>,
    /// `exec` never stands with `approve`, `admin` or `relay`.
    #[schema(min_items = 1, value_type = Vec<Scope>)]
    scopes: BTreeSet<Scope>,
    /// The agents it is bound to; all unless given. Not with `admin`.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(min_items = 1, max_items = 1000, value_type = Vec<AgentId>, required = false)]
    agents: Option<BTreeSet<AgentId>>,
    /// The approver groups it belongs to.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(max_items = 1000, value_type = Vec<Label>, required = false)]
    groups: Option<BTreeSet<String>>,
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Moment, required = false)]
    expires_at_ms: Option<UnixMillis>,
}

/// Tokens, newest first, revoked ones too.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens", operation_id = "list_tokens",
    params(PageQuery),
    responses((status = OK, body = Page<TokenBody>)),
    security(("token" = ["admin"])),
)]
async fn list(
    _caller: Caller<Admin>,
    State(state): State<AppState>,
    QueryOf(page): QueryOf<PageQuery>,
) -> Result<JsonReply<Page<TokenBody>>, Problem> {
    let tokens = state.tokens().list(page.page(LIST)?).await?;
    Ok(JsonReply(LIST.page(tokens, TokenBody::from)))
}

/// Makes a token. Its secret is in this answer and nowhere else. With `proposedBy` it opens nothing until another owner
/// accepts it.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", operation_id = "create_token",
    request_body = TokenRequestBody,
    responses(
        (status = CREATED, body = NewTokenBody),
        (status = FORBIDDEN, description = "forbidden (also: it takes another owner to accept it, and there is none)"),
        (status = UNPROCESSABLE_ENTITY, description = "scope-conflict"),
    ),
    security(("token" = ["admin"])),
)]
async fn create(
    caller: Caller<Admin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    JsonBody(body): JsonBody<TokenRequestBody>,
) -> Result<Response, Problem> {
    let request = body.into_request()?;
    let (token, secret) = state
        .tokens()
        .create(
            &caller.actor,
            request,
            state.engine().settings().current().server.approvals.widening,
        )
        .await?;
    let body = NewTokenBody {
        token: token.into(),
        secret: secret.expose().to_owned(),
    };
    Ok((StatusCode::CREATED, JsonReply(body)).into_response())
}

/// Accepts a token that another owner proposed. It opens something once this is answered.
#[utoipa::path(
    post, path = "/v1/tokens/{id}/accept", tag = "tokens", operation_id = "accept_token",
    params(("id" = TokenId, Path)),
    responses(
        (status = OK, body = TokenBody),
        (status = FORBIDDEN, description = "forbidden, own-request"),
        (status = NOT_FOUND, description = "not-found: there is none that waits"),
    ),
    security(("token" = ["admin"])),
)]
async fn accept(
    caller: Caller<Admin>,
    AtPath(id): AtPath<TokenId>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    _: EmptyBody,
) -> Result<JsonReply<TokenBody>, Problem> {
    let id = short_id::token(&state, id).await?;
    match state.tokens().accept(&caller.actor, &id).await? {
        TokenAcceptance::Accepted(token) => Ok(JsonReply((*token).into())),
        TokenAcceptance::Own => Err(Problem::new(
            Code::OwnRequest,
            "a token of your owner proposed this one; an admin of another owner accepts it",
        )),
        TokenAcceptance::NotHeld => Err(Problem::not_found("token that waits to be accepted")),
    }
}

/// Puts a new secret, with a new id, in the place of a live token of your owner. The old one opens nothing more once this is
/// answered: what it asked is withdrawn (`approval-cancelled`), and browsers that it signed in are signed out. What the
/// token may do, and when it ends, stay.
#[utoipa::path(
    post, path = "/v1/tokens/{id}/rotate", tag = "tokens", operation_id = "rotate_token",
    params(("id" = TokenId, Path)),
    responses(
        (status = CREATED, body = RotatedTokenBody),
        (status = FORBIDDEN, description = "forbidden (also: the token belongs to another owner)"),
        (status = NOT_FOUND, description = "not-found: there is none that opens anything"),
    ),
    security(("token" = ["admin"])),
)]
async fn rotate(
    caller: Caller<Admin>,
    AtPath(id): AtPath<TokenId>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    _: EmptyBody,
) -> Result<Response, Problem> {
    let id = short_id::token(&state, id).await?;
    let rotated = state.engine().token_admin().rotate(&caller.actor, &id).await?;
    let body = RotatedTokenBody {
        secret: rotated.secret.expose().to_owned(),
        file: rotated.file.map(|path| path.display().to_string()),
        token: rotated.token.into(),
        replaces: id,
    };
    Ok((StatusCode::CREATED, JsonReply(body)).into_response())
}

/// Revokes a token. It opens nothing more once this is answered, and what it asked is withdrawn: `approval-cancelled`.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "revoke_token",
    params(("id" = TokenId, Path)),
    responses((status = NO_CONTENT, description = "The token opens nothing.")),
    security(("token" = ["admin"])),
)]
async fn revoke(
    caller: Caller<Admin>,
    AtPath(id): AtPath<TokenId>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> Result<StatusCode, Problem> {
    let id = short_id::token(&state, id).await?;
    match state.engine().token_admin().revoke(&caller.actor, &id).await? {
        Some(_revoked) => Ok(StatusCode::NO_CONTENT),
        None => Err(Problem::not_found("token")),
    }
}

impl TokenRequestBody {
    fn into_request(self) -> Result<TokenRequest, Problem> {
        let Self {
            name,
            owner,
            scopes,
            agents,
            groups,
            expires_at_ms,
        } = self;
        let request = TokenRequest {
            name,
            owner,
            scopes,
            agents,
            groups: groups.unwrap_or_default(),
            expires_at: expires_at_ms,
        };
        match request.check() {
            Ok(()) => Ok(request),
            Err(wrong) => Err(Problem::field(wrong.member(), wrong.to_string())),
        }
    }
}
