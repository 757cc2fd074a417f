//! Approvals: what a person is asked, and their answer.
//!
//! A handler must never settle an answer or choose what a caller may see: [`countersign_engine::Engine`] finds out who may
//! answer and which answer came first, and narrows every list to the caller's agents. Read on: `decide` takes an
//! answer, `grant.rs` what one leaves behind, `decisions.rs` several of them, `revise.rs` a changed command, `take_back.rs` an answer that is taken back; [`ApprovalBody`] is the object, and `listing.rs` makes lists of it.

mod decisions;
mod grant;
mod listing;
mod revise;
mod take_back;

use axum::extract::State;

use countersign_domain::{
    AgentId, ApprovalDecision, ApprovalId, ApprovalStatus, Authority, Principal, SessionKey, UnixMillis,
};
use countersign_engine::reply::{Answer, Decided};
use countersign_ledger::ApprovalFilter;
use countersign_protocol::ByName;
use countersign_wire::{
    approval::{ApprovalBody, ChosenPattern, DecidedBody, DecisionBody},
    page::Page,
};

use listing::ListedApproval;

use super::denylist;

use crate::{
    caller::{AgentCaller, Approve, ReadOrApprove},
    extract::{AtPath, JsonBody, Moment, Parameters, QueryForm, QueryOf},
    list::{ListName, PageQuery},
    listed::ApprovalJson,
    problem::{Code, Problem},
    reply::JsonReply,
    route_table::{RouteTable, routes},
    schema::ApprovalFilterName,
    short_id,
    state::AppState,
};

/// Fewer characters of an id fit too many approvals.
const MIN_ID_PREFIX: usize = 8;
/// Longest text that a person may give as their reason.
const MAX_REASON_CHARS: usize = 2000;

const LIST: ListName<'static> = ListName::only("approvals");

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(decide))
        .routes(routes!(decisions::decide_several))
        .routes(routes!(revise::revise))
        .routes(routes!(take_back::take_back))
}

/// Which approvals are wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct ApprovalsQuery {
    /// `pending` unless given: `all`, or one state.
    #[param(value_type = Option<ApprovalFilterName>)]
    status: Option<ApprovalStatus>,
    /// Only this agent's.
    agent_id: Option<AgentId>,
    /// Only this session's.
    session_key: Option<SessionKey>,
    /// The first 8 or more characters of the id.
    #[param(min_length = 8, max_length = 64, pattern = "^[a-z0-9-]{8,64}$")]
    id_prefix: Option<String>,
    /// Asked then or later.
    since: Option<Moment>,
    /// Asked before then.
    until: Option<Moment>,
    /// Text that the command contains.
    q: Option<String>,
    #[param(ignore)]
    page: PageQuery,
}

impl QueryForm for ApprovalsQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            status: match parameters.text("status")?.as_deref() {
                None => Some(ApprovalStatus::Pending),
                Some("all") => None,
                Some(name) => Some(
                    name.parse()
                        .map_err(|invalid| Problem::field("status", format!("{invalid}, or all")))?,
                ),
            },
            agent_id: parameters.value("agentId")?,
            session_key: parameters.value("sessionKey")?,
            id_prefix: parameters.text("idPrefix")?.map(id_prefix).transpose()?,
            since: parameters.value("since")?,
            until: parameters.value("until")?,
            q: parameters.text("q")?,
            page: PageQuery::read(parameters)?,
        })
    }
}

fn id_prefix(text: String) -> Result<String, Problem> {
    let is_prefix = text.len() >= MIN_ID_PREFIX && ApprovalId::parse(text.as_str()).is_ok();
    is_prefix
        .then_some(text)
        .ok_or_else(|| Problem::field("idPrefix", "expected 8 or more characters of an id"))
}

/// Approvals, newest first; pending ones unless another state is named.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "approvals", operation_id = "list_approvals",
    params(ApprovalsQuery, PageQuery),
    responses((status = OK, body = Page<ListedApproval>)),
    security(("token" = ["read"]), ("token" = ["approve"])),
)]
async fn list(
    caller: AgentCaller<ReadOrApprove>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<ApprovalsQuery>,
) -> Result<JsonReply<Page<ApprovalJson>>, Problem> {
    let ApprovalsQuery {
        status,
        agent_id,
        session_key,
        id_prefix,
        since,
        until,
        q,
        page,
    } = query;
    let filter = ApprovalFilter {
        status,
        agent: agent_id,
        session: session_key,
        id_prefix,
        id_part: None,
        since: since.map(UnixMillis::from),
        until: until.map(UnixMillis::from),
        query: q,
        // The engine narrows it to what the caller may see.
        authority: Authority::EVERYTHING,
    };
    let listing = listing::listed(&caller, &state, page.view, filter, page.page(LIST)?).await?;
    Ok(JsonReply(LIST.page(listing, |json| json)))
}

/// One approval, by its id or a unique part of it.
#[utoipa::path(
    get, path = "/v1/approvals/{id}", tag = "approvals", operation_id = "get_approval",
    params(("id" = ApprovalId, Path)),
    responses((status = OK, body = ApprovalBody), (status = NOT_FOUND, description = "approval-not-found")),
    security(("token" = ["read"]), ("token" = ["approve"])),
)]
async fn one(
    caller: AgentCaller<ReadOrApprove>,
    AtPath(id): AtPath<ApprovalId>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
) -> Result<JsonReply<ApprovalBody>, Problem> {
    let id = short_id::approval(&state, &caller, id).await?;
    let approval = state.engine().records().approval(&caller, &id).await?;
    let approval =
        approval.ok_or_else(|| Problem::new(Code::ApprovalNotFound, "there is no such approval"))?;
    let covered = state
        .engine()
        .records()
        .would_have_covered(&caller, &approval)
        .await?;
    Ok(JsonReply(grant::with_covered(approval.into(), &covered)))
}

/// Answers an approval; the first answer counts, or the first no of anybody and the first yes of as many people as it takes.
#[utoipa::path(
    post, path = "/v1/approvals/{id}/decision", tag = "approvals", operation_id = "decide_approval",
    params(("id" = ApprovalId, Path)),
    request_body = DecisionBody,
    responses(
        (status = OK, body = DecidedBody),
        (status = FORBIDDEN, description = "forbidden (also: not of the groups that may allow it), own-request, grant-too-wide"),
        (status = NOT_FOUND, description = "approval-not-found"),
        (status = CONFLICT, description = "approval-already-resolved, with the approval"),
        (status = GONE, description = "approval-expired, approval-cancelled, with the approval"),
        (status = UNPROCESSABLE_ENTITY, description = "decision-not-allowed"),
    ),
    security(("token" = ["approve"])),
)]
async fn decide(
    caller: AgentCaller<Approve>,
    AtPath(id): AtPath<ApprovalId>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(body): JsonBody<DecisionBody>,
) -> Result<JsonReply<DecidedBody>, Problem> {
    let answer = to_answer(body)?;
    let id = short_id::approval(&state, &caller, id).await?;
    Ok(JsonReply(decided(&caller, &state, &id, answer).await?))
}

/// What an answer to one question is answered.
async fn decided(
    caller: &Principal,
    state: &AppState,
    id: &ApprovalId,
    answer: Answer,
) -> Result<DecidedBody, Problem> {
    let Decided {
        applied,
        approval,
        rule,
    } = state.engine().approvals().decide(caller, id, answer).await?;
    let (rule, no_rule) = match rule {
        None => (None, None),
        Some(Ok(rule)) => (Some(denylist::written(rule, Vec::new())), None),
        Some(Err(why)) => (None, Some(why)),
    };
    Ok(DecidedBody {
        applied,
        approval: approval.into(),
        rule,
        no_rule,
    })
}

fn to_answer(body: DecisionBody) -> Result<Answer, Problem> {
    let DecisionBody {
        decision,
        reason,
        patterns,
        grant,
        mute,
        never,
    } = body;
    check_reason(reason.as_deref()).map_err(|expected| Problem::field("reason", expected))?;
    if patterns.is_some() && decision != ApprovalDecision::AllowAlways {
        return Err(Problem::new(
            Code::DecisionNotAllowed,
            "patterns: only with decision allow-always",
        ));
    }
    let chosen = |ByName(ChosenPattern { pattern, arg_pattern })| (pattern, arg_pattern);
    Ok(Answer {
        decision,
        reason,
        patterns: patterns.map(|patterns| patterns.into_iter().map(chosen).collect()),
        grant: grant
            .map(|ByName(grant)| grant::chosen(decision, grant))
            .transpose()?,
        refusal: grant::refusal(decision, mute.map(|ByName(mute)| mute), never)?,
        shown_digest: None,
    })
}

fn check_reason(reason: Option<&str>) -> Result<(), &'static str> {
    if reason.is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS) {
        return Err("expected at most 2000 characters");
    }
    Ok(())
}
