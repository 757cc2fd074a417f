//! Deny rules of an agent: what matches one never runs.

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use countersign_config::approvals::document::{DenyRule, Keyed, Number, may_have_children};
use countersign_domain::EntryId;
use countersign_engine::{allowlist::WrittenRule, lint::EntryWarning};
use countersign_wire::{entry::RuleBody, page::Page};

use super::allowlist::{self, check_note, check_pattern};

use crate::{
    caller::{Admin, CallerAtAgent, Read},
    extract::{AgentEntry, AgentScope, AtPath, JsonBody, QueryOf},
    list::{ListName, PageQuery},
    problem::Problem,
    reply::{JsonReply, Located},
    route_table::{RouteTable, routes},
    schema::NewDenyRule,
    short_id,
    state::AppState,
};

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(list, add))
        .routes(routes!(remove))
}

/// A deny rule to add.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewRuleBody {
    /// A path glob, a bare command name (wherever the file lies), or `*`.
    pattern: String,
    /// A regular expression over the arguments; any arguments unless given.
    arg_pattern: Option<String>,
    /// Why, for people.
    reason: Option<String>,
    /// No program of a run at the level `confined` can start or read a match either. Not beside `argPattern`, and only with a
    /// name, a path, or wildcards in the last component.
    children: Option<bool>,
}

/// The deny rules of an agent, as written; `*` for those of all agents.
#[utoipa::path(
    get, path = "/v1/agents/{agentId}/denylist", tag = "allowlist", operation_id = "list_denylist",
    params(("agentId" = AgentScope, Path), PageQuery),
    responses((status = OK, body = Page<RuleBody>), (status = CONFLICT, description = "document-refused")),
    security(("token" = ["read"])),
)]
async fn list(
    _caller: CallerAtAgent<Read>,
    AtPath(AgentScope(agent)): AtPath<AgentScope>,
    State(state): State<AppState>,
    QueryOf(page): QueryOf<PageQuery>,
) -> Result<JsonReply<Page<RuleBody>>, Problem> {
    let rules = state.lists().denylist(&agent)?;
    Ok(JsonReply(page.cut(
        ListName("denylist", &agent),
        rules,
        |rule| rule.id.as_str(),
        |rule| written(rule, Vec::new()),
    )?))
}

/// Adds a deny rule. The same pattern and argument pattern again are answered with the rule that is there.
#[utoipa::path(
    post, path = "/v1/agents/{agentId}/denylist", tag = "allowlist", operation_id = "add_deny_rule",
    params(("agentId" = AgentScope, Path)),
    request_body = NewDenyRule,
    responses(
        (status = CREATED, body = RuleBody, headers(("Location" = String, description = "The rule."))),
        (status = OK, body = RuleBody, description = "It was there before."),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = PRECONDITION_FAILED, description = "base-hash-mismatch: another request removed it in the same moment"),
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
    JsonBody(body): JsonBody<NewRuleBody>,
) -> Result<Response, Problem> {
    let rule = body.into_rule()?;
    let (WrittenRule { rule, warnings }, created) = state
        .engine()
        .lists()
        .add_to_denylist(&caller.actor, &agent, rule)
        .await?;
    let rule = written(rule, warnings);
    if !created {
        return Ok(JsonReply(rule).into_response());
    }
    Ok(Located {
        status: StatusCode::CREATED,
        location: state
            .links()
            .place(&format!("/v1/agents/{agent}/denylist/{}", rule.id)),
        body: rule,
    }
    .into_response())
}

/// Removes a deny rule.
#[utoipa::path(
    delete, path = "/v1/agents/{agentId}/denylist/{entryId}", tag = "allowlist", operation_id = "remove_deny_rule",
    params(("agentId" = AgentScope, Path), ("entryId" = EntryId, Path)),
    responses(
        (status = NO_CONTENT, description = "The rule is gone."),
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
    let rules = state.lists().denylist(&agent)?;
    let entry = short_id::entry(rules.iter().map(|known| &known.id), entry)?;
    if state
        .engine()
        .lists()
        .remove_from_denylist(&caller.actor, &agent, &entry)
        .await?
    {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found("entry"))
    }
}

impl NewRuleBody {
    fn into_rule(self) -> Result<DenyRule, Problem> {
        let Self {
            pattern,
            arg_pattern,
            reason,
            children,
        } = self;
        check_pattern(&pattern)?;
        check_note("reason", reason.as_deref())?;
        if children == Some(true) {
            check_children(&pattern, arg_pattern.as_deref())?;
        }
        Ok(DenyRule {
            pattern: pattern.trim().to_owned(),
            arg_pattern,
            reason,
            children: children.filter(|children| *children),
            ..DenyRule::default()
        })
    }
}

/// Why a deny rule cannot be kept from the programs of a run.
fn check_children(pattern: &str, arg_pattern: Option<&str>) -> Result<(), Problem> {
    if arg_pattern.is_some_and(|text| !text.trim().is_empty()) {
        return Err(Problem::field(
            "children",
            "a program is denied to other programs with any arguments: leave argPattern out, or children",
        ));
    }
    if !may_have_children(pattern) {
        return Err(Problem::field(
            "children",
            "expected a name, a path, or a pattern with wildcards in its last component alone",
        ));
    }
    Ok(())
}

pub(super) fn written(rule: Keyed<DenyRule>, warnings: Vec<EntryWarning>) -> RuleBody {
    let Keyed { id, item } = rule;
    RuleBody {
        children: item.keeps_children(),
        questions: item.is_of_questions(),
        id,
        pattern: item.pattern,
        arg_pattern: item.arg_pattern,
        reason: item.reason,
        command_sha256: item.command_sha256,
        expires_at_ms: item.expires_at_ms.as_ref().map(Number::floor),
        warnings: allowlist::warnings(warnings),
    }
}
