//! Browser sign-in: one-time links, and the session of a browser.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{FromRequestParts, State},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{Scope, Secret, SignInId, UnixMillis};
use countersign_engine::sign_in::{LinkPerson, Shown, SignedIn};
use countersign_ledger::auth::Key;
use countersign_wire::{
    page::Page,
    token::{LoginLinkBody, SignInBody},
};

use crate::{
    admission::{Credentials, RequestSource},
    caller::{self, Admin, Caller, refuse_cookie_alone, refuse_page, unauthorized},
    cookie,
    extract::{AtPath, EmptyBody, OptionalJson, QueryOf, ShortJson, not_null},
    list::{ListName, PageQuery},
    peer::Transport,
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    schema::Label,
    short_id,
    state::AppState,
    web_origin::Site,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(make_link))
        .routes(routes!(list))
        .routes(routes!(revoke))
        .routes(routes!(login))
        .routes(routes!(logout))
        .routes(routes!(session))
}

/// What a person shows to sign in: exactly one of the two.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Login)]
struct LoginBody {
    /// The code of a one-time link.
    code: Option<String>,
    /// A token.
    token: Option<String>,
}

/// A browser that has just signed in.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SignedIn)]
struct SignedInBody {
    /// The name of the token that the browser stands for.
    name: String,
    scopes: BTreeSet<Scope>,
    /// To be sent as `X-CSRF-Token` with every request that goes by the cookie. Shown this once.
    csrf_token: String,
    expires_at_ms: UnixMillis,
}

/// The session of a browser.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
struct SessionBody {
    /// The name of the token that the browser stands for.
    name: String,
    scopes: BTreeSet<Scope>,
    expires_at_ms: UnixMillis,
}

const SIGN_INS: ListName<'static> = ListName::only("sign-ins");

const LINK_TTL_MS: std::ops::RangeInclusive<u64> = 1_000..=86_400_000;

/// For whom a link is. Nothing of it is needed: then it has the rights of the operator's token.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = LoginLinkRequest)]
struct LinkRequestBody {
    /// Whom the record names. A token of this name is made, whose secret nobody has.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Label, required = false)]
    name: Option<String>,
    /// What they may do; `approve` and `read` unless given. Only with `name`.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(min_items = 1, value_type = Vec<Scope>, required = false)]
    scopes: Option<BTreeSet<Scope>>,
    /// How long the link can be used, in milliseconds; `[auth] login_link_ttl_ms` unless given.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = u64, minimum = 1000, maximum = 86_400_000, required = false)]
    ttl_ms: Option<u64>,
}

/// Makes a link that signs one browser in, once: with the scopes of the operator's token, or under a name with scopes of its
/// own.
#[utoipa::path(
    post, path = "/v1/login-links", tag = "sign-in", operation_id = "create_login_link",
    request_body(content = Option<LinkRequestBody>),
    responses(
        (status = CREATED, body = LoginLinkBody),
        (status = FORBIDDEN, description = "forbidden (also: the operator's token has ended, or another owner has it)"),
        (status = PAYLOAD_TOO_LARGE, description = "body-too-large"),
        (status = UNSUPPORTED_MEDIA_TYPE, description = "unsupported-media-type"),
        (status = UNPROCESSABLE_ENTITY, description = "scope-conflict"),
    ),
    security(("token" = ["admin"])),
)]
async fn make_link(
    caller: Caller<Admin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    OptionalJson(body): OptionalJson<LinkRequestBody>,
) -> Result<Response, Problem> {
    let settings = state.engine().settings().current();
    let auth = &settings.server.auth;
    let LinkRequestBody { name, scopes, ttl_ms } = body;
    if ttl_ms.is_some_and(|ttl| !LINK_TTL_MS.contains(&ttl)) {
        return Err(Problem::field("ttlMs", "expected 1000 to 86400000"));
    }
    let lasts = ttl_ms.map_or(auth.login_link_ttl, Duration::from_millis);
    let link = match (name, scopes) {
        (None, Some(_)) => return Err(Problem::field("scopes", "only with name: whose they are")),
        (None, None) => state.tokens().make_login_link(&caller.actor, lasts).await?,
        (Some(name), scopes) => {
            let person = LinkPerson {
                name,
                scopes: scopes.unwrap_or_else(|| BTreeSet::from([Scope::Approve, Scope::Read])),
                session: auth.session,
                widening: settings.server.approvals.widening,
            };
            state
                .tokens()
                .make_login_link_for(&caller.actor, lasts, person)
                .await?
        }
    };
    let body = LoginLinkBody {
        url: state.url_of(&link).expose().to_owned(),
        expires_at_ms: link.expires_at,
        token: link.token.map(Into::into),
    };
    Ok((StatusCode::CREATED, JsonReply(body)).into_response())
}

/// The browsers that are signed in, the newest first.
#[utoipa::path(
    get, path = "/v1/sign-ins", tag = "sign-in", operation_id = "list_sign_ins",
    params(PageQuery),
    responses((status = OK, body = Page<SignInBody>)),
    security(("token" = ["admin"])),
)]
async fn list(
    _caller: Caller<Admin>,
    State(state): State<AppState>,
    QueryOf(page): QueryOf<PageQuery>,
) -> Result<JsonReply<Page<SignInBody>>, Problem> {
    let signed_in = state.tokens().sign_ins().await?;
    page.cut(
        SIGN_INS,
        signed_in,
        |(sign_in, _)| sign_in.id.as_str(),
        SignInBody::from,
    )
    .map(JsonReply)
}

/// Signs a browser out. It opens nothing more once this is answered.
#[utoipa::path(
    delete, path = "/v1/sign-ins/{id}", tag = "sign-in", operation_id = "revoke_sign_in",
    params(("id" = String, Path, description = "The id of the sign-in")),
    responses(
        (status = NO_CONTENT, description = "It is signed out."),
        (status = CONFLICT, description = "id-ambiguous"),
    ),
    security(("token" = ["admin"])),
)]
async fn revoke(
    caller: Caller<Admin>,
    AtPath(id): AtPath<SignInId>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> Result<StatusCode, Problem> {
    let id = short_id::sign_in(&state, id).await?;
    if state.tokens().revoke_sign_in(&caller.actor, &id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found("signed-in browser"))
    }
}

/// Signs a browser in: sets the cookie and answers with the second secret.
///
/// A code signs one browser in, once. The session has the scopes of the token that it stands for (a code: the
/// operator's) and ends with it.
#[utoipa::path(
    post, path = "/auth/login", tag = "sign-in", operation_id = "login",
    request_body = LoginBody,
    responses(
        (status = OK, body = SignedInBody, headers(("Set-Cookie" = String, description = "`countersign_session`"))),
        (status = UNAUTHORIZED, description = "unauthorized: what was shown opens nothing"),
        (status = FORBIDDEN, description = "forbidden: a foreign web page asked"),
        (status = SERVICE_UNAVAILABLE, description = "storage-unavailable"),
        (status = INSUFFICIENT_STORAGE, description = "storage-full"),
    ),
)]
async fn login(
    OwnPage(origin): OwnPage,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    ShortJson(body): ShortJson<LoginBody>,
) -> Result<Response, Problem> {
    let shown = body.into_shown()?;
    let lasts = state.engine().settings().current().server.auth.session;
    let (address, before) = (origin.address.to_string(), origin.browser());
    let signed_in = state
        .tokens()
        .sign_in(&shown, before.map(AsRef::as_ref), lasts, address.clone())
        .await?;
    let Some(signed_in) = signed_in else {
        let refusal = caller::refuse_credentials(
            &origin,
            state.throttle(),
            "the code was used, is too old, or was never given; or the token is not valid",
        );
        // Who guesses on is refused without a record each time: the record would be theirs to fill.
        if refusal.code().status() == StatusCode::UNAUTHORIZED {
            state.tokens().record_failed_sign_in(&shown, address).await;
        }
        return Err(refusal);
    };
    let SignedIn {
        sign_in,
        token,
        cookie: secret,
        second,
    } = signed_in;
    let lasts = sign_in.expires_at.since(sign_in.created_at);
    let body = SignedInBody {
        name: token.name,
        scopes: token.scopes,
        csrf_token: second.expose().to_owned(),
        expires_at_ms: sign_in.expires_at,
    };
    let set_cookie = cookie::set(&secret, lasts, origin.transport).ok_or_else(Problem::internal)?;
    Ok(([(header::SET_COOKIE, set_cookie)], JsonReply(body)).into_response())
}

/// Signs the browser out: its session ends and its cookie goes. A browser that is not signed in stays so.
#[utoipa::path(
    post, path = "/auth/logout", tag = "sign-in", operation_id = "logout",
    responses(
        (status = NO_CONTENT, description = "Nobody is signed in."),
        (status = PAYLOAD_TOO_LARGE, description = "body-too-large"),
        (status = UNSUPPORTED_MEDIA_TYPE, description = "unsupported-media-type: nothing or `{}` is sent"),
        (status = FORBIDDEN, description = "forbidden: the cookie without X-CSRF-Token, or a foreign web page"),
        (status = SERVICE_UNAVAILABLE, description = "storage-unavailable"),
        (status = INSUFFICIENT_STORAGE, description = "storage-full"),
    ),
    security((), ("session" = [], "csrf" = [])),
)]
async fn logout(
    SignOut { key, transport }: SignOut,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    _: EmptyBody,
) -> Result<Response, Problem> {
    if let Some(sign_in) = key.as_deref().and_then(Key::sign_in) {
        state.tokens().sign_out(sign_in).await?;
    }
    let cleared = cookie::clear(transport).ok_or_else(Problem::internal)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cleared)]).into_response())
}

/// As whom the browser is signed in.
#[utoipa::path(
    get, path = "/auth/session", tag = "sign-in", operation_id = "get_session",
    responses(
        (status = OK, body = SessionBody),
        (status = UNAUTHORIZED, description = "unauthorized: not signed in, or not both secrets"),
    ),
    security(("session" = [], "csrf" = [])),
)]
async fn session(
    Extension(origin): Extension<RequestSource>,
    query: Result<QueryOf<()>, Problem>,
) -> Result<JsonReply<SessionBody>, Problem> {
    let browser = match &origin.credentials {
        Credentials::Valid(key) if key.sign_in().is_some() => key.expires_at().map(|ends| (key, ends)),
        Credentials::Valid(_)
        | Credentials::Absent
        | Credentials::Wrong
        | Credentials::Ended
        | Credentials::CookieAlone(_)
        | Credentials::ForeignPage => None,
    };
    let Some((key, expires_at_ms)) = browser else {
        return Err(unauthorized(
            "the browser is not signed in, or the second secret is missing",
        ));
    };
    let QueryOf(()) = query?;
    let principal = key.principal();
    Ok(JsonReply(SessionBody {
        name: principal.actor.name.clone(),
        scopes: principal.scopes.clone(),
        expires_at_ms,
    }))
}

/// A request that no page but ours sent: a page that signed another person's browser in would make that person act
/// under a name that is not theirs.
struct OwnPage(RequestSource);

impl<State: Send + Sync> FromRequestParts<State> for OwnPage {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        let origin = origin_of(parts)?;
        match origin.site {
            Site::Unnamed | Site::Ours => Ok(Self(origin.clone())),
            Site::Listed | Site::Foreign => Err(refuse_page()),
        }
    }
}

/// A browser that proved itself and wants to leave, or nobody who is signed in.
struct SignOut {
    key: Option<Arc<Key>>,
    transport: Transport,
}

impl<State: Send + Sync> FromRequestParts<State> for SignOut {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        let origin = origin_of(parts)?;
        let key = match &origin.credentials {
            Credentials::Valid(key) => Some(Arc::clone(key)),
            Credentials::Absent | Credentials::Wrong | Credentials::Ended => None,
            Credentials::CookieAlone(_) => return Err(refuse_cookie_alone()),
            Credentials::ForeignPage => return Err(refuse_page()),
        };
        Ok(Self {
            key,
            transport: origin.transport,
        })
    }
}

fn origin_of(parts: &Parts) -> Result<&RequestSource, Problem> {
    parts.extensions.get().ok_or_else(Problem::internal)
}

impl LoginBody {
    fn into_shown(self) -> Result<Shown, Problem> {
        match (self.code, self.token) {
            (Some(code), None) => Ok(Shown::Code(Secret::new(code))),
            (None, Some(token)) => Ok(Shown::Token(Secret::new(token))),
            (None, None) | (Some(_), Some(_)) => {
                Err(Problem::field("code", "expected exactly one of code and token"))
            }
        }
    }
}
