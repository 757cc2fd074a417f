//! The audit chain: its records, and whether it is whole.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use countersign_domain::UnixMillis;
use countersign_ledger::audit::{
    self, AuditFilter, AuditOrder, AuditRecord, SealedHead, Target, Verification,
};
use countersign_wire::{
    approval::ApprovalView,
    audit::{AuditActorBody, AuditBody, AuditBriefBody, HeadBody, ProblemBody, TargetBody, VerificationBody},
    page::Page,
};

use crate::{
    caller::{Admin, Caller, Read},
    extract::{Moment, Parameters, QueryForm, QueryOf},
    list::{ListName, Order, PageQuery},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

const LIST: ListName<'static> = ListName::only("audit");

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(list))
        .routes(routes!(verify))
        .routes(routes!(head))
}

/// Which records are wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct AuditQuery {
    /// With a higher number.
    after_seq: Option<i64>,
    /// By the actor of this id.
    actor: Option<String>,
    /// Of this action.
    action: Option<String>,
    /// Written then or later.
    since: Option<Moment>,
    /// Written before then.
    until: Option<Moment>,
    /// `oldest` first unless given, or `newest`.
    #[param(value_type = Option<String>, pattern = "^(oldest|newest)$")]
    order: Option<Order>,
    #[param(ignore)]
    page: PageQuery,
}

impl QueryForm for AuditQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            after_seq: parameters.value("afterSeq")?,
            actor: parameters.text("actor")?,
            action: parameters.text("action")?,
            since: parameters.value("since")?,
            until: parameters.value("until")?,
            order: parameters.value("order")?,
            page: PageQuery::read(parameters)?,
        })
    }
}

/// Audit records, oldest first unless the order says otherwise.
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", operation_id = "list_audit",
    params(AuditQuery, PageQuery),
    responses((status = OK, body = Page<ListedRecord>)),
    security(("token" = ["admin"])),
)]
async fn list(
    _caller: Caller<Admin>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<AuditQuery>,
) -> Result<JsonReply<Page<ListedRecord>>, Problem> {
    let AuditQuery {
        after_seq,
        actor,
        action,
        since,
        until,
        order,
        page,
    } = query;
    let filter = AuditFilter {
        after_seq,
        actor,
        action,
        since: since.map(UnixMillis::from),
        until: until.map(UnixMillis::from),
        order: match order {
            Some(Order::Newest) => AuditOrder::NewestFirst,
            Some(Order::Oldest) | None => AuditOrder::OldestFirst,
        },
    };
    let view = page.view;
    let records = state.engine().ledger().audit(filter, page.page(LIST)?).await?;
    Ok(JsonReply(
        LIST.page(records, |stored| in_list(record(stored), view)),
    ))
}

/// Verifies the chain from its beginning.
#[utoipa::path(
    get, path = "/v1/audit/verify", tag = "audit", operation_id = "verify_audit",
    responses((status = OK, body = VerificationBody)),
    security(("token" = ["admin"])),
)]
async fn verify(
    _caller: Caller<Admin>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
) -> Result<JsonReply<VerificationBody>, Problem> {
    let verification = state.engine().ledger().verify_audit().await?;
    Ok(JsonReply(verification_body(verification)))
}

/// The head of the chain as it was sealed last, to be noted down elsewhere: a history that is rewritten lacks it.
#[utoipa::path(
    get, path = "/v1/audit/head", tag = "audit", operation_id = "get_audit_head",
    responses((status = OK, body = HeadBody)),
    security(("token" = ["read"])),
)]
async fn head(
    _caller: Caller<Read>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
) -> JsonReply<HeadBody> {
    let sealed = state.engine().ledger().watch_sealed_head();
    let head = sealed.borrow().clone();
    JsonReply(sealed_head(head))
}

fn sealed_head(SealedHead { seq, hash, sealed_at }: SealedHead) -> HeadBody {
    HeadBody {
        seq,
        hash,
        sealed_at_ms: sealed_at,
    }
}

fn target(Target { kind, id }: Target) -> TargetBody {
    TargetBody { kind, id }
}

/// A record on a list: all of it, or what a list shows of it (`view`).
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ListedRecord {
    Full(Box<AuditBody>),
    Brief(Box<AuditBriefBody>),
}

fn in_list(record: AuditBody, view: ApprovalView) -> ListedRecord {
    match view {
        ApprovalView::Full => ListedRecord::Full(Box::new(record)),
        ApprovalView::Brief => ListedRecord::Brief(Box::new(record.into())),
    }
}

fn record(record: AuditRecord) -> AuditBody {
    AuditBody {
        seq: record.seq,
        ts: record.ts,
        at_ms: record.ts,
        actor: AuditActorBody {
            kind: record.actor.kind.into(),
            id: record.actor.id,
            name: record.actor.name,
            address: record.actor.address,
        },
        action: record.action,
        target: target(record.target),
        outcome: record.outcome.as_str().into(),
        detail: record.detail,
        prev_hash: record.prev_hash,
        hash: record.hash,
        mac: record.mac,
    }
}

/// What a verification found, as the API shows it.
pub fn verification_body(verification: Verification) -> VerificationBody {
    VerificationBody {
        ok: verification.is_ok(),
        records: verification.records,
        first_seq: verification.first_seq.unwrap_or(0),
        last_seq: verification.last_seq.unwrap_or(0),
        head: verification.head.map(sealed_head),
        problem: verification.problem.map(problem),
    }
}

fn problem(problem: audit::Problem) -> ProblemBody {
    ProblemBody {
        seq: problem.seq,
        kind: problem.kind.as_str().into(),
        target: problem.target.map(target),
    }
}
