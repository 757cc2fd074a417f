//! Allowlist entries and grants of an agent.

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{
    ToSchema,
    openapi::{
        ObjectBuilder, Schema,
        schema::{AnyOfBuilder, SchemaType, Type},
    },
};

use countersign_config::approvals::document::{Confined, Limits, NewPattern, PatternChange};
use countersign_domain::{EntryId, SessionKey, UnixMillis, is_plain_directory};
use countersign_engine::{
    allowlist::{self, AllowlistEntry, EntryLimits},
    lint::EntryWarning,
};
use countersign_ledger::events::AllowlistList;
use countersign_policy::command::redaction;
use countersign_wire::{
    approval::ApprovalView,
    entry::{EntryBody, EntryBriefBody, EntryKind, EntryState, EntryWarningBody},
    page::Page,
};

use crate::{
    caller::{Admin, CallerAtAgent, Read},
    extract::{AgentEntry, AgentScope, AtPath, JsonBody, Moment, QueryOf, not_null},
    list::{ListName, PageQuery},
    problem::Problem,
    reply::{JsonReply, Located},
    route_table::{RouteTable, routes},
    schema::Confine,
    short_id,
    state::AppState,
};

/// Programs that read the document as JavaScript keep no larger integer exactly.
const MAX_SAFE_INTEGER: u64 = 9_007_199_254_740_991;
const MAX_PATTERN_CHARS: usize = 4096;
const MAX_NOTE_CHARS: usize = 1000;

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(list, add))
        .routes(routes!(one, change, remove))
}

/// A pattern to add. With any of `expiresAtMs`, `maxUses`, `sha256`, `sessionKey` and `directory` it becomes a grant. What
/// narrows it is given or left out, never null.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewAllowlistEntry)]
struct NewEntryBody {
    /// A path glob, a bare command name, or `*`.
    #[schema(min_length = 1, max_length = 4096, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pattern: String,
    /// A regular expression over the arguments.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = String, required = false)]
    arg_pattern: Option<String>,
    /// Text for people.
    #[schema(max_length = 1000)]
    note: Option<String>,
    /// It covers commands whose input stays open (`pty`, `background`).
    #[serde(default)]
    #[schema(required = false)]
    input: bool,
    /// Their terminals keep pagers and editors that take commands; only with `input`.
    #[serde(default)]
    #[schema(required = false)]
    unguarded: bool,
    /// What its program may do.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Confine, required = false)]
    confine: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Moment, required = false)]
    expires_at_ms: Option<UnixMillis>,
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = u64, required = false, minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    max_uses: Option<u64>,
    /// SHA-256 of the executable's content, 64 hex digits.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = String, required = false, pattern = "^[0-9a-fA-F]{64}$")]
    sha256: Option<String>,
    /// Only for calls of this session.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = SessionKey, required = false)]
    session_key: Option<SessionKey>,
    /// Only for programs that start in this directory or below it: a real path, absolute, without `.` and `..`.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = String, required = false, max_length = 4096, pattern = "^/")]
    directory: Option<String>,
}

/// The entries and grants of an agent, as written; `*` for those of all agents.
#[utoipa::path(
    get, path = "/v1/agents/{agentId}/allowlist", tag = "allowlist", operation_id = "list_allowlist",
    params(("agentId" = AgentScope, Path), PageQuery),
    responses((status = OK, body = Page<ListedEntry>), (status = CONFLICT, description = "document-refused")),
    security(("token" = ["read"])),
)]
async fn list(
    _caller: CallerAtAgent<Read>,
    AtPath(AgentScope(agent)): AtPath<AgentScope>,
    State(state): State<AppState>,
    QueryOf(page): QueryOf<PageQuery>,
) -> Result<JsonReply<Page<ListedEntry>>, Problem> {
    let entries = state.lists().allowlist(&agent).await?;
    let Page { items, next_cursor } = page.cut(
        ListName("allowlist", &agent),
        entries,
        |entry| entry.id.as_str(),
        |entry| entry,
    )?;
    let items = match page.view {
        ApprovalView::Full => {
            let remarked = state.lists().remark_on(&agent, items).await?.into_iter();
            remarked
                .map(|entry| ListedEntry::Full(Box::new(written(entry))))
                .collect()
        }
        // No warning is shown, and none is looked for.
        ApprovalView::Brief => {
            let brief = items
                .into_iter()
                .map(|entry| EntryBriefBody::from(written(entry)));
            brief.map(|entry| ListedEntry::Brief(Box::new(entry))).collect()
        }
    };
    Ok(JsonReply(Page { items, next_cursor }))
}

/// An entry or grant on a list: all of it, or what a list shows of it (`view`).
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ListedEntry {
    Full(Box<EntryBody>),
    Brief(Box<EntryBriefBody>),
}

/// Adds an entry or grant. The same again is answered with the one that is there.
#[utoipa::path(
    post, path = "/v1/agents/{agentId}/allowlist", tag = "allowlist", operation_id = "add_allowlist_entry",
    params(("agentId" = AgentScope, Path)),
    request_body = NewEntryBody,
    responses(
        (status = CREATED, body = EntryBody, headers(("Location" = String, description = "The entry."))),
        (status = OK, body = EntryBody, description = "It was there before."),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = UNPROCESSABLE_ENTITY, description = "invalid-pattern"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn add(
    caller: CallerAtAgent<Admin>,
    AtPath(AgentScope(agent)): AtPath<AgentScope>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    JsonBody(body): JsonBody<NewEntryBody>,
) -> Result<Response, Problem> {
    let pattern = body.into_pattern()?;
    let (entry, created) = state
        .engine()
        .lists()
        .add_to_allowlist(&caller.actor, &agent, pattern)
        .await?;
    if !created {
        return Ok(JsonReply(written(entry)).into_response());
    }
    Ok(Located {
        status: StatusCode::CREATED,
        location: state
            .links()
            .place(&format!("/v1/agents/{agent}/allowlist/{}", entry.id)),
        body: written(entry),
    }
    .into_response())
}

/// One entry or grant.
#[utoipa::path(
    get, path = "/v1/agents/{agentId}/allowlist/{entryId}", tag = "allowlist", operation_id = "get_allowlist_entry",
    params(("agentId" = AgentScope, Path), ("entryId" = EntryId, Path)),
    responses((status = OK, body = EntryBody), (status = CONFLICT, description = "document-refused")),
    security(("token" = ["read"])),
)]
async fn one(
    _caller: CallerAtAgent<Read>,
    AtPath(AgentEntry {
        agent: AgentScope(agent),
        entry,
    }): AtPath<AgentEntry>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> Result<JsonReply<EntryBody>, Problem> {
    let entry = named(&state, &agent, entry).await?;
    let found = state.lists().allowlist_entry(&agent, &entry).await?;
    found
        .map(|entry| JsonReply(written(entry)))
        .ok_or_else(|| Problem::not_found("entry"))
}

/// The entry that the path names, in full or by a unique part of its id.
async fn named(state: &AppState, agent: &str, entry: EntryId) -> Result<EntryId, Problem> {
    let entries = state.lists().allowlist(agent).await?;
    short_id::entry(entries.iter().map(|known| &known.id), entry)
}

/// Removes an entry or grant.
#[utoipa::path(
    delete, path = "/v1/agents/{agentId}/allowlist/{entryId}", tag = "allowlist", operation_id = "remove_allowlist_entry",
    params(("agentId" = AgentScope, Path), ("entryId" = EntryId, Path)),
    responses(
        (status = NO_CONTENT, description = "The entry is gone."),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn remove(
    caller: CallerAtAgent<Admin>,
    AtPath(AgentEntry {
        agent: AgentScope(agent),
        entry,
    }): AtPath<AgentEntry>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> Result<StatusCode, Problem> {
    let entry = named(&state, &agent, entry).await?;
    if state
        .engine()
        .lists()
        .remove_from_allowlist(&caller.actor, &agent, &entry)
        .await?
    {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found("entry"))
    }
}

/// What is to change of an entry or grant. A member that is left out stays; null takes it away. The first limit makes
/// an entry a grant, without its last one a grant becomes an entry.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = AllowlistEntryChange)]
#[expect(
    clippy::option_option,
    reason = "absent, null and a value are three different things"
)]
struct EntryChangeBody {
    /// A path glob, a bare command name, or `*`.
    #[schema(value_type = String, required = false, max_length = 4096, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(deserialize_with = "not_null")]
    pattern: Option<String>,
    /// A regular expression over the arguments.
    #[serde(deserialize_with = "present")]
    #[schema(schema_with = text_or_null)]
    arg_pattern: Option<Option<String>>,
    /// Text for people.
    #[serde(deserialize_with = "present")]
    #[schema(schema_with = text_or_null)]
    note: Option<Option<String>>,
    /// Whether it covers commands whose input stays open (`pty`, `background`).
    #[schema(value_type = bool, required = false)]
    #[serde(deserialize_with = "not_null")]
    input: Option<bool>,
    /// Whether their terminals keep pagers and editors that take commands.
    #[schema(value_type = bool, required = false)]
    #[serde(deserialize_with = "not_null")]
    unguarded: Option<bool>,
    /// What its program may do; null for the default.
    #[schema(value_type = Option<Confine>, required = false)]
    #[serde(deserialize_with = "present")]
    confine: Option<Option<serde_json::Value>>,
    #[serde(deserialize_with = "present")]
    #[schema(schema_with = number_or_null)]
    expires_at_ms: Option<Option<UnixMillis>>,
    #[serde(deserialize_with = "present")]
    #[schema(schema_with = uses_or_null)]
    max_uses: Option<Option<u64>>,
    /// SHA-256 of the executable's content, 64 hex digits.
    #[serde(deserialize_with = "present")]
    #[schema(schema_with = digest_or_null)]
    sha256: Option<Option<String>>,
    /// The only session; null for any.
    #[serde(deserialize_with = "present")]
    #[schema(schema_with = text_or_null)]
    session_key: Option<Option<SessionKey>>,
    /// The directory, with what lies below it; null for any.
    #[serde(deserialize_with = "present")]
    #[schema(schema_with = text_or_null)]
    directory: Option<Option<String>>,
}

/// Tells a member that is null from one that is not there.
#[expect(
    clippy::option_option,
    reason = "absent, null and a value are three different things"
)]
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

fn uses_or_null() -> Schema {
    let types = SchemaType::from_iter([Type::Integer, Type::Null]);
    ObjectBuilder::new()
        .schema_type(types)
        .minimum(Some(1))
        .maximum(Some(MAX_SAFE_INTEGER))
        .build()
        .into()
}

fn digest_or_null() -> Schema {
    let types = SchemaType::from_iter([Type::String, Type::Null]);
    ObjectBuilder::new()
        .schema_type(types)
        .pattern(Some("^[0-9a-fA-F]{64}$"))
        .build()
        .into()
}

fn text_or_null() -> Schema {
    or_null(Type::String)
}

fn number_or_null() -> Schema {
    or_null(Type::Integer)
}

fn or_null(kind: Type) -> Schema {
    let of = |kind| ObjectBuilder::new().schema_type(SchemaType::Type(kind)).build();
    let either = AnyOfBuilder::new().item(of(kind)).item(of(Type::Null)).build();
    Schema::AnyOf(either)
}

/// Changes an entry or grant. An entry that a decision made counts as made by hand once what it matches is changed.
#[utoipa::path(
    patch, path = "/v1/agents/{agentId}/allowlist/{entryId}", tag = "allowlist", operation_id = "change_allowlist_entry",
    params(("agentId" = AgentScope, Path), ("entryId" = EntryId, Path)),
    request_body = EntryChangeBody,
    responses(
        (status = OK, body = EntryBody),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = UNPROCESSABLE_ENTITY, description = "invalid-pattern"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn change(
    caller: CallerAtAgent<Admin>,
    AtPath(AgentEntry {
        agent: AgentScope(agent),
        entry,
    }): AtPath<AgentEntry>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    JsonBody(body): JsonBody<EntryChangeBody>,
) -> Result<JsonReply<EntryBody>, Problem> {
    let entry = named(&state, &agent, entry).await?;
    let changed = state
        .engine()
        .lists()
        .change_allowlist_entry(&caller.actor, &agent, &entry, body.into_change()?)
        .await?;
    changed
        .map(|entry| JsonReply(written(entry)))
        .ok_or_else(|| Problem::not_found("entry"))
}

impl EntryChangeBody {
    fn into_change(self) -> Result<PatternChange, Problem> {
        let Self {
            pattern,
            arg_pattern,
            note,
            input,
            unguarded,
            confine,
            expires_at_ms,
            max_uses,
            sha256,
            session_key,
            directory,
        } = self;
        if let Some(pattern) = &pattern {
            check_pattern(pattern)?;
        }
        check_note("note", note.as_ref().and_then(Option::as_deref))?;
        let sha256 = sha256
            .map(|digest| digest.as_deref().map(digest_of).transpose())
            .transpose()?;
        check_uses(max_uses.flatten())?;
        check_directory(directory.as_ref().and_then(Option::as_deref))?;
        Ok(PatternChange {
            pattern,
            arg_pattern,
            note,
            input,
            unguarded,
            confine: confine
                .map(|said| said.as_ref().map(confined).transpose())
                .transpose()?,
            expires_at: expires_at_ms,
            max_uses,
            sha256,
            session_key,
            directory,
        })
    }
}

impl NewEntryBody {
    fn into_pattern(self) -> Result<NewPattern, Problem> {
        let Self {
            pattern,
            arg_pattern,
            note,
            input,
            unguarded,
            confine,
            expires_at_ms,
            max_uses,
            sha256,
            session_key,
            directory,
        } = self;
        // Without input there is no terminal to guard, and nothing to lift.
        let unguarded = unguarded && input;
        check_pattern(&pattern)?;
        check_note("note", note.as_deref())?;
        check_uses(max_uses)?;
        check_directory(directory.as_deref())?;
        Ok(NewPattern {
            pattern,
            arg_pattern,
            note,
            input,
            unguarded,
            confine: confine.as_ref().map(confined).transpose()?,
            limits: Limits {
                expires_at: expires_at_ms,
                max_uses,
                sha256: sha256.as_deref().map(digest_of).transpose()?,
                session_key,
                directory,
            },
        })
    }
}

/// The form of a pattern, before anybody looks what it means.
pub(super) fn check_pattern(pattern: &str) -> Result<(), Problem> {
    if pattern.chars().count() > MAX_PATTERN_CHARS || pattern.contains(char::is_control) {
        return Err(Problem::field(
            "pattern",
            "expected at most 4096 characters, none a control character",
        ));
    }
    Ok(())
}

/// The length of a text for people.
pub(super) fn check_note(path: &str, note: Option<&str>) -> Result<(), Problem> {
    if note.is_some_and(|note| note.chars().count() > MAX_NOTE_CHARS) {
        return Err(Problem::field(path, "expected at most 1000 characters"));
    }
    Ok(())
}

fn check_uses(max_uses: Option<u64>) -> Result<(), Problem> {
    if max_uses.is_some_and(|uses| !(1..=MAX_SAFE_INTEGER).contains(&uses)) {
        return Err(Problem::field("maxUses", "expected 1 to 9007199254740991"));
    }
    Ok(())
}

fn check_directory(directory: Option<&str>) -> Result<(), Problem> {
    if directory.is_some_and(|path| path.len() > MAX_PATTERN_CHARS || !is_plain_directory(path)) {
        return Err(Problem::field(
            "directory",
            "expected an absolute path without . and .., of at most 4096 bytes",
        ));
    }
    Ok(())
}

fn confined(value: &serde_json::Value) -> Result<Confined, Problem> {
    Confined::of_request(value).map_err(|why| Problem::field("confine", why))
}

fn digest_of(text: &str) -> Result<String, Problem> {
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(Problem::field("sha256", "expected 64 hex digits"))
    }
}

fn written(entry: AllowlistEntry) -> EntryBody {
    let EntryLimits {
        expires_at,
        max_uses,
        uses,
        sha256,
        session_key,
        directory,
    } = entry.limits;
    let kind = match entry.list {
        AllowlistList::Grants => EntryKind::Grant,
        AllowlistList::Allowlist | AllowlistList::Denylist => EntryKind::Entry,
    };
    let state = match entry.state {
        allowlist::EntryState::Active => EntryState::Active,
        allowlist::EntryState::Inert => EntryState::Inert,
        allowlist::EntryState::Expired => EntryState::Expired,
        allowlist::EntryState::UsedUp => EntryState::UsedUp,
    };
    EntryBody {
        id: entry.id,
        kind: kind.into(),
        pattern: entry.pattern,
        arg_pattern: entry.arg_pattern,
        source: entry.source,
        note: entry.note,
        input: entry.input,
        unguarded: entry.unguarded,
        confine: entry.confine,
        last_used_at_ms: entry.last_used_at,
        last_used_at: entry.last_used_at,
        // People read it, here and on the page; the document has it as it was.
        last_used_command: entry.last_used_command.as_deref().map(redaction::masked),
        last_resolved_path: entry.last_resolved_path,
        expires_at_ms: expires_at,
        max_uses,
        uses,
        sha256,
        session_key,
        directory,
        state: state.into(),
        warnings: warnings(entry.warnings),
    }
}

pub(super) fn warnings(warnings: Vec<EntryWarning>) -> Vec<EntryWarningBody> {
    let body = |EntryWarning { code, message }| EntryWarningBody {
        code: code.into(),
        message,
    };
    warnings.into_iter().map(body).collect()
}
