//! The audit chain: its records, and whether it is whole.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use countersign_domain::{ActorKind, UnixMillis};
use countersign_ledger::audit::{
    AuditActor, AuditFilter, AuditOutcome, AuditRecord, ProblemKind, SealedHead, Target, Verification,
};
use countersign_wire::page::Page;

use crate::{
    caller::{Admin, Caller, Read},
    extract::{Parameters, QueryForm, QueryOf},
    list::{ListName, PageQuery},
    problem::Problem,
    reply::JsonReply,
    state::AppState,
};

const LIST: ListName<'static> = ListName::only("audit");

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
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
    #[param(ignore)]
    page: PageQuery,
}

impl QueryForm for AuditQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            after_seq: parameters.value("afterSeq")?,
            actor: parameters.text("actor")?,
            action: parameters.text("action")?,
            page: PageQuery::read(parameters)?,
        })
    }
}

/// One record of the chain.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditRecord)]
struct AuditBody {
    seq: i64,
    ts: UnixMillis,
    actor: AuditActorBody,
    action: String,
    target: TargetBody,
    #[schema(value_type = String)]
    outcome: AuditOutcome,
    #[schema(value_type = Object)]
    detail: serde_json::Map<String, serde_json::Value>,
    /// Hash of the record before.
    prev_hash: String,
    /// SHA-256 over the canonical JSON of the record without `hash` and `mac`.
    hash: String,
    /// HMAC of `hash`.
    mac: String,
}

/// Who did it, and from where.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditActor)]
struct AuditActorBody {
    kind: ActorKind,
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

/// What it was done to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditTarget)]
struct TargetBody {
    kind: String,
    id: String,
}

/// Audit records, oldest first.
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", operation_id = "list_audit",
    params(AuditQuery, PageQuery),
    responses((status = OK, body = Page<AuditBody>)),
    security(("token" = ["admin"])),
)]
async fn list(
    _caller: Caller<Admin>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<AuditQuery>,
) -> Result<JsonReply<Page<AuditBody>>, Problem> {
    let AuditQuery {
        after_seq,
        actor,
        action,
        page,
    } = query;
    let filter = AuditFilter {
        after_seq,
        actor,
        action,
    };
    let records = state.engine().ledger().audit(filter, page.page(LIST)?).await?;
    Ok(JsonReply(LIST.page(records, AuditBody::from)))
}

/// Whether the chain is whole.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditVerification)]
struct VerificationBody {
    ok: bool,
    /// How many records were looked at.
    records: u64,
    /// Number of the first record; 0 without any.
    first_seq: i64,
    /// Number of the last record; 0 without any.
    last_seq: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<HeadBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemBody>,
}

/// The head of the chain as it was sealed last.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditHead)]
struct HeadBody {
    seq: i64,
    hash: String,
    sealed_at_ms: UnixMillis,
}

/// The first thing that is wrong with the chain.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditProblem)]
struct ProblemBody {
    seq: i64,
    /// `edited`, `missing`, `reordered`, `truncated` or `forged`
    #[schema(value_type = String)]
    kind: ProblemKind,
    /// The run or approval that is not what its records say.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<TargetBody>,
}

/// Verifies the whole chain.
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
    Ok(JsonReply(verification.into()))
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
    JsonReply(head.into())
}

impl From<SealedHead> for HeadBody {
    fn from(SealedHead { seq, hash, sealed_at }: SealedHead) -> Self {
        Self {
            seq,
            hash,
            sealed_at_ms: sealed_at,
        }
    }
}

impl From<AuditRecord> for AuditBody {
    fn from(record: AuditRecord) -> Self {
        let AuditRecord {
            seq,
            ts,
            actor,
            action,
            target,
            outcome,
            detail,
            prev_hash,
            hash,
            mac,
        } = record;
        let AuditActor {
            kind,
            id,
            name,
            address,
        } = actor;
        let Target {
            kind: target_kind,
            id: target_id,
        } = target;
        Self {
            seq,
            ts,
            actor: AuditActorBody {
                kind,
                id,
                name,
                address,
            },
            action,
            target: TargetBody {
                kind: target_kind,
                id: target_id,
            },
            outcome,
            detail,
            prev_hash,
            hash,
            mac,
        }
    }
}

impl From<Verification> for VerificationBody {
    fn from(verification: Verification) -> Self {
        Self {
            ok: verification.is_ok(),
            records: verification.records,
            first_seq: verification.first_seq.unwrap_or(0),
            last_seq: verification.last_seq.unwrap_or(0),
            head: verification.head.map(HeadBody::from),
            problem: verification.problem.map(|problem| ProblemBody {
                seq: problem.seq,
                kind: problem.kind,
                target: problem.target.map(|Target { kind, id }| TargetBody { kind, id }),
            }),
        }
    }
}
