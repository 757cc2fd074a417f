//! Sessions: what they override, what people say in them, what they are told.

use axum::{extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_config::session::{
    ExecOverrides, Overrides, SessionName, SetBy, SystemEvent,
    directive::node_name,
    sender::{RelayedSender, Sender},
};
use countersign_domain::{AgentId, Ask, ElevatedLevel, HostChoice, RunId, Security, SessionKey, UnixMillis};
use countersign_engine::session::{Commanded, NewOverrides};
use countersign_protocol::ByName;
use countersign_wire::session::{CommandedBody, OverridesBody, SetByBody, ShownSender};

use super::exec::identity;

use crate::{
    caller::{Admin, AgentCaller, Exec, Read, RelayOrAdmin},
    extract::{AtPath, EmptyBody, JsonBody, Parameters, QueryForm, QueryOf, not_null},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    schema::SenderText,
    state::AppState,
};

/// Longer than what people write to each other.
const MAX_TEXT_BYTES: usize = 64 * 1024;

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(overrides, replace, clear))
        .routes(routes!(command))
        .routes(routes!(peek))
        .routes(routes!(drain))
}

/// Whose session it is.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct OwnerQuery {
    /// The agent that uses the key; the one that the key names, else `main`, unless given.
    agent_id: Option<AgentId>,
}

impl QueryForm for OwnerQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            agent_id: parameters.value("agentId")?,
        })
    }
}

fn named(key: SessionKey, query: OwnerQuery) -> Result<SessionName, Problem> {
    let (agent, key) = identity(query.agent_id, Some(key))?;
    Ok(SessionName { agent, key })
}

/// What a session is to override; what is left out, it does not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewSessionOverrides)]
struct NewOverridesBody {
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    host: Option<HostChoice>,
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    security: Option<Security>,
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    ask: Option<Ask>,
    /// Node id, display name, remote IP, or an id prefix of 6 or more characters.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false, min_length = 1, max_length = 256)]
    node: Option<String>,
    /// `on`, `ask` and `full` need `tools.elevated` to name provider `api` with the token's name.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    elevated: Option<ElevatedLevel>,
}

/// A text that a person wrote in a chat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SessionCommand)]
struct CommandBody {
    /// At most 65,536 bytes.
    #[schema(max_length = 65_536)]
    text: String,
    #[schema(value_type = SenderBody)]
    sender: ByName<SenderBody>,
}

/// Who wrote it; the token vouches for that.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Sender)]
struct SenderBody {
    /// Where they are known, such as `telegram`; never `api`.
    #[schema(pattern = r"^[A-Za-z0-9._-]{1,64}$")]
    provider: String,
    /// Their id there.
    #[schema(value_type = SenderText)]
    id: String,
    /// What they call themselves.
    #[schema(value_type = Option<SenderText>)]
    name: Option<String>,
    /// The name of their account.
    #[schema(value_type = Option<SenderText>)]
    username: Option<String>,
    /// Their phone number.
    #[schema(value_type = Option<SenderText>)]
    e164: Option<String>,
    /// Name and number, where a provider has that.
    #[schema(value_type = Option<SenderText>)]
    tag: Option<String>,
}

/// What a session was told.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SystemEvents)]
struct EventsBody {
    /// Oldest first.
    items: Vec<EventBody>,
}

/// Something that a session was told.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SystemEvent)]
struct EventBody {
    at_ms: UnixMillis,
    /// The same as `atMs`.
    #[schema(deprecated)]
    ts: UnixMillis,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
}

/// What a session overrides.
#[utoipa::path(
    get, path = "/v1/sessions/{sessionKey}/overrides", tag = "sessions", operation_id = "get_session_overrides",
    params(("sessionKey" = SessionKey, Path), OwnerQuery),
    responses((status = OK, body = OverridesBody)),
    security(("token" = ["read"])),
)]
async fn overrides(
    caller: AgentCaller<Read>,
    AtPath(key): AtPath<SessionKey>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<OwnerQuery>,
) -> Result<JsonReply<OverridesBody>, Problem> {
    let name = named(key, query)?;
    let overrides = state.engine().sessions().overrides(&caller, &name)?;
    Ok(JsonReply(overridden(name, overrides)))
}

/// Replaces what a session overrides: what is left out is not overridden any more. Nothing survives a restart.
#[utoipa::path(
    put, path = "/v1/sessions/{sessionKey}/overrides", tag = "sessions", operation_id = "put_session_overrides",
    params(("sessionKey" = SessionKey, Path), OwnerQuery),
    request_body = NewOverridesBody,
    responses(
        (status = OK, body = OverridesBody),
        (status = BAD_REQUEST, description = "invalid-request, config-conflict"),
        (status = FORBIDDEN, description = "forbidden, elevated-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn replace(
    caller: AgentCaller<Admin>,
    AtPath(key): AtPath<SessionKey>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<OwnerQuery>,
    JsonBody(body): JsonBody<NewOverridesBody>,
) -> Result<JsonReply<OverridesBody>, Problem> {
    let name = named(key, query)?;
    let new = body.into_overrides()?;
    let overrides = state
        .engine()
        .sessions()
        .put_overrides(&caller, &name, new)
        .await?;
    Ok(JsonReply(overridden(name, overrides)))
}

/// Makes a session override nothing.
#[utoipa::path(
    delete, path = "/v1/sessions/{sessionKey}/overrides", tag = "sessions",
    operation_id = "clear_session_overrides",
    params(("sessionKey" = SessionKey, Path), OwnerQuery),
    responses((status = NO_CONTENT, description = "The session overrides nothing.")),
    security(("token" = ["admin"])),
)]
async fn clear(
    caller: AgentCaller<Admin>,
    AtPath(key): AtPath<SessionKey>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<OwnerQuery>,
) -> Result<StatusCode, Problem> {
    let name = named(key, query)?;
    state.engine().sessions().clear_overrides(&caller, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Obeys the directives in a text of a person (`/exec`, `/elevated`, `/approve`) and hands back the rest.
///
/// The token vouches for the sender. A sender who may not use directives changes nothing, and reads so in `reply`. A
/// text with `/approve` also needs a token with scope `approve`.
#[utoipa::path(
    post, path = "/v1/sessions/{sessionKey}/commands", tag = "sessions", operation_id = "post_session_command",
    params(("sessionKey" = SessionKey, Path), OwnerQuery),
    request_body = CommandBody,
    responses(
        (status = OK, body = CommandedBody),
        (status = BAD_REQUEST, description = "invalid-request, config-conflict"),
        (status = FORBIDDEN, description = "forbidden: also for /approve with a token without scope approve"),
    ),
    security(("token" = ["relay"]), ("token" = ["admin"])),
)]
async fn command(
    caller: AgentCaller<RelayOrAdmin>,
    AtPath(key): AtPath<SessionKey>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<OwnerQuery>,
    JsonBody(CommandBody {
        text,
        sender: ByName(sender),
    }): JsonBody<CommandBody>,
) -> Result<JsonReply<CommandedBody>, Problem> {
    let name = named(key, query)?;
    if text.len() > MAX_TEXT_BYTES {
        return Err(Problem::field("text", "expected at most 65536 bytes"));
    }
    let sender = sender.into_sender()?;
    let Commanded {
        handled,
        reply,
        cleaned_text,
    } = state
        .engine()
        .sessions()
        .command(&caller, &name, sender, text)
        .await?;
    Ok(JsonReply(CommandedBody {
        handled,
        reply,
        cleaned_text,
    }))
}

/// What a session was told and has not been handed out, at most 20, oldest first. They stay.
#[utoipa::path(
    get, path = "/v1/sessions/{sessionKey}/system-events", tag = "sessions", operation_id = "peek_system_events",
    params(("sessionKey" = SessionKey, Path), OwnerQuery),
    responses((status = OK, body = EventsBody)),
    security(("token" = ["exec"])),
)]
async fn peek(
    caller: AgentCaller<Exec>,
    AtPath(key): AtPath<SessionKey>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<OwnerQuery>,
) -> Result<JsonReply<EventsBody>, Problem> {
    let events = state
        .engine()
        .sessions()
        .peek_events(&caller, &named(key, query)?)?;
    Ok(JsonReply(events.into()))
}

/// The same, and forgets them: each is handed out once, for the agent's next prompt.
#[utoipa::path(
    post, path = "/v1/sessions/{sessionKey}/system-events/drain", tag = "sessions",
    operation_id = "drain_system_events",
    params(("sessionKey" = SessionKey, Path), OwnerQuery),
    responses((status = OK, body = EventsBody)),
    security(("token" = ["exec"])),
)]
async fn drain(
    caller: AgentCaller<Exec>,
    AtPath(key): AtPath<SessionKey>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<OwnerQuery>,
    _body: EmptyBody,
) -> Result<JsonReply<EventsBody>, Problem> {
    let events = state
        .engine()
        .sessions()
        .drain_events(&caller, &named(key, query)?)?;
    Ok(JsonReply(events.into()))
}

fn overridden(name: SessionName, overrides: Overrides) -> OverridesBody {
    let elevated = overrides.level().into();
    let ExecOverrides {
        host,
        security,
        ask,
        node,
    } = overrides.exec;
    let (set_by, set_at_ms) = overrides.set.unzip();
    OverridesBody {
        session_key: name.key,
        host: host.map(Into::into),
        security: security.map(Into::into),
        ask: ask.map(Into::into),
        node,
        elevated,
        set_by: set_by.map(set_by_body),
        set_at_ms,
    }
}

fn set_by_body(SetBy { actor, sender }: SetBy) -> SetByBody {
    SetByBody {
        kind: actor.kind.into(),
        id: actor.id,
        name: actor.name,
        sender: sender.map(|sender| ShownSender {
            provider: sender.provider().to_owned(),
            id: sender.id().to_owned(),
            name: sender.name().map(str::to_owned),
        }),
    }
}

impl NewOverridesBody {
    fn into_overrides(self) -> Result<NewOverrides, Problem> {
        let Self {
            host,
            security,
            ask,
            node,
            elevated,
        } = self;
        let node = node
            .map(|node| {
                node_name(&node).ok_or_else(|| {
                    Problem::field(
                        "node",
                        "expected 1 to 256 characters, not blank, none of them unseen",
                    )
                })
            })
            .transpose()?;
        Ok(NewOverrides {
            exec: ExecOverrides {
                host,
                security,
                ask,
                node,
            },
            elevated,
        })
    }
}

impl SenderBody {
    fn into_sender(self) -> Result<Sender, Problem> {
        let Self {
            provider,
            id,
            name,
            username,
            e164,
            tag,
        } = self;
        let relayed = RelayedSender {
            provider,
            id,
            name,
            username,
            e164,
            tag,
        };
        Sender::relayed(relayed).map_err(|invalid| Problem::field(invalid.path, invalid.expected))
    }
}

impl From<Vec<SystemEvent>> for EventsBody {
    fn from(events: Vec<SystemEvent>) -> Self {
        let item = |SystemEvent { at, text, run_id }: SystemEvent| EventBody {
            at_ms: at,
            ts: at,
            text,
            run_id,
        };
        Self {
            items: events.into_iter().map(item).collect(),
        }
    }
}
