//! The approvals document of this host, whole.

use axum::{
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{
    ToSchema,
    openapi::{
        ObjectBuilder, RefOr, Schema,
        schema::{AdditionalProperties, SchemaType, Type},
    },
};

use countersign_engine::{
    document::{Acceptance, Hashed, Refused},
    rejection::Rejection,
};
use countersign_wire::policy::DocumentBody;

use super::policy;

use crate::{
    caller::{Admin, Caller},
    extract::{DocumentBytes, IfMatch, JsonBody, Parameters, QueryForm, QueryOf, etag},
    problem::{Code, Problem},
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

/// Whether the document that an answer carries counts.
const STANDING: HeaderName = HeaderName::from_static("countersign-policy");

/// Which kinds of odd rules the document holds.
const WARNINGS: HeaderName = HeaderName::from_static("countersign-warnings");

pub(super) fn router() -> RouteTable {
    RouteTable::new()
        .routes(routes!(document, replace))
        .routes(routes!(accept))
        .routes(routes!(reject))
}

/// An approvals document of version 1. In an answer the socket's token is left out; in a request, what is left out
/// of `socket` stays what it is. Members that nobody knows are refused, unless the present document has them at the
/// same place with the same value.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct DocumentWire(pub(super) Value);

impl utoipa::PartialSchema for DocumentWire {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new()
            .description(Some(
                "An approvals document of version 1. In an answer the socket's token is left out; in a request, what \
                 is left out of `socket` stays what it is. Members that nobody knows are refused, unless the present \
                 document has them at the same place with the same value.",
            ))
            .property(
                "version",
                ObjectBuilder::new()
                    .schema_type(SchemaType::Type(Type::Integer))
                    .enum_values(Some([1]))
                    .build(),
            )
            .required("version")
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .build();
        RefOr::T(object.into())
    }
}

impl ToSchema for DocumentWire {
    fn name() -> std::borrow::Cow<'static, str> {
        "ApprovalsDocument".into()
    }
}

/// How a document is replaced.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct ReplaceQuery {
    /// Whether a document that is refused is replaced; a copy of it is kept beside it.
    #[param(value_type = Option<bool>, default = false)]
    force: Refused,
}

impl QueryForm for ReplaceQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        let force = match parameters.text("force")?.as_deref() {
            None | Some("false") => Refused::Keep,
            Some("true") => Refused::Replace,
            Some(_) => return Err(Problem::field("force", "expected true or false")),
        };
        Ok(Self { force })
    }
}

/// Which edit it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AcceptedEdit)]
struct AcceptBody {
    /// The hash of the file as it is.
    hash: String,
}

/// The document as it is on disk, without the socket's token. `Countersign-Policy` says whether it counts.
#[utoipa::path(
    get, path = "/v1/policy/document", tag = "policy", operation_id = "get_policy_document",
    responses(
        (status = OK, body = DocumentWire, headers(
            ("ETag" = String, description = "The document's hash, quoted."),
            ("Countersign-Policy" = String, description = "`in-force`, or `held` while it waits to be accepted."),
        )),
        (status = CONFLICT, description = "document-refused"),
    ),
    security(("token" = ["admin"])),
)]
async fn document(
    _caller: Caller<Admin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
) -> Result<Response, Problem> {
    let document = state.policy_admin().policy_document()?;
    let held = state.policy_admin().document_view().held;
    let standing = if held.is_some_and(|held| held.hash == document.hash) {
        "held"
    } else {
        "in-force"
    };
    let mut response = reply(document);
    response
        .headers_mut()
        .insert(STANDING, HeaderValue::from_static(standing));
    Ok(response)
}

/// Replaces the document.
#[utoipa::path(
    put, path = "/v1/policy/document", tag = "policy", operation_id = "replace_policy_document",
    params(
        ReplaceQuery,
        ("If-Match" = Option<IfMatch>, Header, description = "The `ETag` of the document that is replaced. Required: \
            without it the answer is 428."),
    ),
    request_body = DocumentWire,
    responses(
        (status = OK, body = DocumentWire, headers(
            ("ETag" = String, description = "The new document's hash, quoted."),
            ("Countersign-Warnings" = String, description = "Codes of what is odd about its rules, separated by commas; \
                absent when nothing is. `countersign doctor` names each rule."),
        )),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = PRECONDITION_FAILED, description = "base-hash-mismatch"),
        (status = PRECONDITION_REQUIRED, description = "base-hash-required"),
        (status = UNPROCESSABLE_ENTITY, description = "unknown-field, invalid-document"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn replace(
    caller: Caller<Admin>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<ReplaceQuery>,
    if_match: IfMatch,
    DocumentBytes(sent): DocumentBytes,
) -> Result<Response, Problem> {
    let engine = state.engine();
    let expected = if_match.required(|| engine.policy_admin().document_view().hash)?;
    let replaced = engine
        .policy_admin()
        .replace_document(&caller.actor, expected, &sent, query.force)
        .await?;
    let mut response = reply(replaced);
    let codes: Vec<&str> = engine
        .policy_admin()
        .rule_warnings()
        .await
        .iter()
        .map(|warning| warning.code)
        .collect();
    if !codes.is_empty()
        && let Ok(codes) = HeaderValue::try_from(codes.join(", "))
    {
        response.headers_mut().insert(WARNINGS, codes);
    }
    Ok(response)
}

/// Accepts a held change of the approvals document, of `openclaw.json` or of `countersign.toml`. Without one it only says what is in force.
#[utoipa::path(
    post, path = "/v1/policy/document/accept", tag = "policy", operation_id = "accept_policy_document",
    request_body = AcceptBody,
    responses(
        (status = OK, body = DocumentBody),
        (status = FORBIDDEN, description = "own-request"),
        (status = CONFLICT, description = "document-refused"),
        (status = PRECONDITION_FAILED, description = "base-hash-mismatch"),
        (status = SERVICE_UNAVAILABLE, description = "storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn accept(
    caller: Caller<Admin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    JsonBody(AcceptBody { hash }): JsonBody<AcceptBody>,
) -> Result<JsonReply<DocumentBody>, Problem> {
    match state.policy_admin().accept_edit(&caller.actor, hash).await? {
        Acceptance::InForce(view) => Ok(JsonReply(policy::document(*view))),
        Acceptance::OwnProposal => Err(Problem::new(
            Code::OwnRequest,
            "a token of your owner proposed a part of this change, and [approvals] widening says that it takes two \
             owners; an admin of another owner accepts it",
        )),
        Acceptance::Other { current } => Err(Problem::new(
            Code::BaseHashMismatch,
            "no edit with this hash is waiting",
        )
        .with(|body| body.current_hash = Some(current))),
    }
}

/// Rejects a held change: its file says again what was accepted. What `countersign.toml` loosens is never in force.
#[utoipa::path(
    post, path = "/v1/policy/document/reject", tag = "policy", operation_id = "reject_policy_document",
    request_body = AcceptBody,
    responses(
        (status = OK, body = DocumentBody),
        (status = CONFLICT, description = "document-refused, document-lock-stale"),
        (status = PRECONDITION_FAILED, description = "base-hash-mismatch"),
        (status = SERVICE_UNAVAILABLE, description = "document-locked, storage-unavailable"),
    ),
    security(("token" = ["admin"])),
)]
async fn reject(
    caller: Caller<Admin>,
    State(state): State<AppState>,
    _query: QueryOf<()>,
    JsonBody(AcceptBody { hash }): JsonBody<AcceptBody>,
) -> Result<JsonReply<DocumentBody>, Problem> {
    match state.policy_admin().reject_edit(&caller.actor, &hash).await? {
        Rejection::Done(view) => Ok(JsonReply(policy::document(*view))),
        Rejection::Other { current } => Err(Problem::new(
            Code::BaseHashMismatch,
            "no edit with this hash is waiting",
        )
        .with(|body| body.current_hash = Some(current))),
    }
}

/// A document with its tag.
fn reply(Hashed { value, hash }: Hashed<Value>) -> Response {
    tagged(DocumentWire(value), &hash)
}

/// An answer with the `ETag` of the content that it is of.
pub(super) fn tagged<T: Serialize>(body: T, hash: &str) -> Response {
    let mut response = JsonReply(body).into_response();
    if response.status() == StatusCode::OK
        && let Some(tag) = etag(hash)
    {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
