//! `openclaw.json`, and presets, which change it together with the approvals document.

use std::fmt;

use axum::{extract::State, response::Response};
use serde::{
    Deserialize, Serialize,
    de::{Deserializer, Error as _, MapAccess, Visitor},
};
use serde_json::Value;
use utoipa::ToSchema;

use countersign_config::settings::{ConfigValue, EffectiveValue, KeyEdit, KeyPath, Source};
use countersign_domain::AgentId;
use countersign_engine::{config::Config, preset::OwnKeys};
use countersign_policy::preset::{Preset, PresetReach};
use countersign_wire::policy::{AppliedBody, OwnKeysBody};

use super::{allowlist, document::tagged};

use crate::{
    caller::{Admin, Caller, Read},
    extract::{IfMatch, JsonBody, QueryOf, not_null},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

const MAX_EDITS: usize = 1000;

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(config, change))
        .routes(routes!(preset))
}

/// Every key with its effective value.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Config)]
struct ConfigBody {
    items: Vec<ConfigItem>,
}

/// A key of `openclaw.json`.
#[derive(Debug, Serialize, ToSchema)]
struct ConfigItem {
    /// Its path; `agents.list[0].…` or `agents.entries.<id>.…` for what an agent has of its own.
    path: String,
    /// The effective value; null when it is unset and there is no default.
    value: Value,
    /// `openclaw.json`, or `default`.
    #[schema(value_type = String)]
    source: &'static str,
    /// What would hold if the file did not say.
    default: Value,
}

/// What is to change: all of it, or nothing. Values are set first, then keys are taken away; paths with indices are
/// those of the file as it was read, and one index beyond the end of a list adds to it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ConfigChange)]
struct ChangeBody {
    /// New values by path.
    #[schema(value_type = Option<Object>)]
    set: Option<Sets>,
    /// Paths of keys that are taken away.
    #[schema(max_items = 1000)]
    unset: Option<Vec<String>>,
}

/// Values by path, none twice.
#[derive(Debug)]
struct Sets(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Sets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Sets;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of values by path")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Sets, A::Error> {
                let mut sets: Vec<(String, Value)> = Vec::new();
                while let Some(path) = members.next_key::<String>()? {
                    // Which of two would count is not for a parser to decide.
                    if sets.iter().any(|(known, _value)| *known == path) {
                        return Err(A::Error::custom("the same path twice"));
                    }
                    if sets.len() >= MAX_EDITS {
                        return Err(A::Error::custom("more than 1000 paths"));
                    }
                    let ConfigValue(value) = members.next_value()?;
                    sets.push((path, value));
                }
                Ok(Sets(sets))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Which preset, and for whom.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PresetRequest)]
struct PresetBody {
    /// `deny-all`, `cautious` or `yolo`
    name: Preset,
    /// Only for this agent; for everybody unless given.
    agent_id: Option<AgentId>,
    /// Whether the keys that agents have of their own about what the preset sets are removed. Not with `agentId`.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = bool, required = false)]
    every_agent: Option<bool>,
}

/// The keys of `openclaw.json` that are read, with their effective values.
#[utoipa::path(
    get, path = "/v1/config", tag = "policy", operation_id = "get_config",
    responses(
        (status = OK, body = ConfigBody, headers(("ETag" = String, description = "The hash of the file, quoted."))),
    ),
    security(("token" = ["read"])),
)]
async fn config(_caller: Caller<Read>, State(state): State<AppState>, _query: QueryOf<()>) -> Response {
    reply(state.policy_admin().config())
}

/// Changes keys of `openclaw.json`, all of them or none.
#[utoipa::path(
    patch, path = "/v1/config", tag = "policy", operation_id = "change_config",
    params(("If-Match" = Option<IfMatch>, Header, description = "The `ETag` of the configuration that is changed. \
        Required: without it the answer is 428.")),
    request_body = ChangeBody,
    responses(
        (status = OK, body = ConfigBody, headers(("ETag" = String, description = "The new hash, quoted."))),
        (status = CONFLICT, description = "document-refused"),
        (status = PRECONDITION_FAILED, description = "base-hash-mismatch"),
        (status = PRECONDITION_REQUIRED, description = "base-hash-required"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn change(
    caller: Caller<Admin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    if_match: IfMatch,
    JsonBody(body): JsonBody<ChangeBody>,
) -> Result<Response, Problem> {
    let engine = state.engine();
    let edits = body.into_edits()?;
    let expected = if_match.required(|| engine.policy_admin().config_hash())?;
    Ok(reply(
        engine
            .policy_admin()
            .change_config(&caller.actor, expected, edits)
            .await?,
    ))
}

/// Applies a preset to the configuration and the approvals document, or to neither.
#[utoipa::path(
    post, path = "/v1/policy/preset", tag = "policy", operation_id = "apply_preset",
    request_body = PresetBody,
    responses(
        (status = OK, body = AppliedBody),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = PRECONDITION_FAILED, description = "base-hash-mismatch"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn preset(
    caller: Caller<Admin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    JsonBody(PresetBody {
        name,
        agent_id,
        every_agent,
    }): JsonBody<PresetBody>,
) -> Result<JsonReply<AppliedBody>, Problem> {
    let reach = match (&agent_id, every_agent) {
        (Some(_), Some(true)) => return Err(Problem::field("everyAgent", "not together with agentId")),
        (Some(agent), Some(false) | None) => PresetReach::Agent(agent.clone()),
        (None, Some(true)) => PresetReach::EveryAgent,
        (None, Some(false) | None) => PresetReach::Defaults,
    };
    let applied = state
        .policy_admin()
        .apply_preset(&caller.actor, name, reach)
        .await?;
    Ok(JsonReply(AppliedBody {
        name,
        agent_id,
        changed: applied.changed,
        document_hash: applied.document_hash,
        config_hash: applied.config_hash,
        own_keys: applied.own_keys.into_iter().map(own_keys).collect(),
        warnings: allowlist::warnings(state.policy_admin().rule_warnings().await),
    }))
}

fn own_keys(own: OwnKeys) -> OwnKeysBody {
    OwnKeysBody {
        agent_id: own.agent,
        keys: own.keys,
        security: own.security.into(),
        ask: own.ask.into(),
    }
}

fn reply(Config { values, hash }: Config) -> Response {
    let items = values.into_iter().map(ConfigItem::from).collect();
    tagged(ConfigBody { items }, &hash)
}

impl ChangeBody {
    fn into_edits(self) -> Result<Vec<KeyEdit>, Problem> {
        let parse = |text: &str| {
            KeyPath::parse(text).map_err(|invalid| Problem::field(text.to_owned(), invalid.to_string()))
        };
        let mut edits = Vec::new();
        for (path, value) in self.set.map(|sets| sets.0).unwrap_or_default() {
            let path = parse(&path)?;
            edits.push(KeyEdit::Set { path, value });
        }
        let unset = self.unset.unwrap_or_default();
        if unset.len() > MAX_EDITS {
            return Err(Problem::field("unset", "expected at most 1000 paths"));
        }
        let mut removed: Vec<KeyPath> = unset.iter().map(|path| parse(path)).collect::<Result<_, _>>()?;
        // From the end of a list, so that every index is that of the file as it was.
        removed.sort_by(|one, other| other.cmp(one));
        let count = removed.len();
        removed.dedup();
        if removed.len() < count {
            return Err(Problem::field("unset", "the same path twice"));
        }
        edits.extend(removed.into_iter().map(|path| KeyEdit::Unset { path }));
        let mut paths: Vec<&KeyPath> = edits.iter().map(KeyEdit::path).collect();
        paths.sort();
        if let Some(twice) = paths.windows(2).find_map(|pair| match pair {
            [one, other] if one == other => Some(one.to_string()),
            _ => None,
        }) {
            return Err(Problem::field(twice, "both set and unset"));
        }
        Ok(edits)
    }
}

impl From<EffectiveValue> for ConfigItem {
    fn from(value: EffectiveValue) -> Self {
        Self {
            path: value.key,
            value: value.value,
            source: match value.source {
                // Its path is nobody's business here.
                Source::File(_) => "openclaw.json",
                Source::Default | Source::Variable(_) | Source::Flag(_) => "default",
            },
            default: value.default,
        }
    }
}
