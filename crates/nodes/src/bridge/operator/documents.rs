//! `exec.approvals.*`: the approvals documents of this host and of nodes, under the hash rules of
//! `docs/spec/bridge.md#97-systemexecapprovalsget--set`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use countersign_config::approvals::store::{DocumentStatus, StoreError};
use countersign_domain::Precondition;
use countersign_engine::document::{DocumentError, Hashed, Refused};
use countersign_protocol::bridge::WireError;

use super::{
    invoke, refusal,
    session::{Answer, OperatorSession},
};

/// The parameters of `exec.approvals.set`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetParams {
    file: Value,
    #[serde(default)]
    base_hash: Option<String>,
}

/// The parameters of `exec.approvals.node.get`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeParams {
    node_id: String,
}

/// The parameters of `exec.approvals.node.set`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeSetParams {
    node_id: String,
    file: Value,
    #[serde(default)]
    base_hash: Option<String>,
}

/// The document of this host.
pub(super) fn get(session: &OperatorSession) -> Answer {
    let document = session
        .bridge
        .engine()
        .policy_admin()
        .policy_document()
        .map_err(|error| of_store(&error))?;
    Ok(snapshot(session, document))
}

/// Replaces the document of this host.
pub(super) async fn set(session: &Arc<OperatorSession>, params: SetParams) -> Answer {
    let SetParams { file, base_hash } = params;
    let engine = session.bridge.engine();
    let expected = match base_hash.filter(|hash| !hash.trim().is_empty()) {
        Some(hash) => Precondition::OneOf(vec![hash]),
        None if is_missing(session) => Precondition::OneOf(vec![engine.policy_admin().document_view().hash]),
        None => return Err(hash_required()),
    };
    let by = &session.principal().actor;
    let replaced = engine
        .policy_admin()
        .replace_document(by, expected, file.to_string().as_bytes(), Refused::Keep)
        .await
        .map_err(|error| match error {
            DocumentError::Invalid(refusal) => {
                WireError::invalid(format!("invalid exec approvals file: {refusal}"))
            }
            DocumentError::UnknownMembers(places) => {
                WireError::invalid("invalid exec approvals file: unknown members")
                    .with_details(json!({ "pointers": places }))
            }
            DocumentError::Store(error) => of_store(&error),
            DocumentError::Storage(trouble) => refusal::storage(trouble),
        })?;
    Ok(snapshot(session, replaced))
}

/// The document of a node, as it gives it.
pub(super) async fn node_get(session: &Arc<OperatorSession>, params: NodeParams) -> Answer {
    let timeout = invoke::default_timeout(session);
    let command = "system.execApprovals.get";
    invoke::send(session, &params.node_id, command, json!({}), timeout).await
}

/// Replaces the document of a node; the node compares the hashes.
pub(super) async fn node_set(session: &Arc<OperatorSession>, params: NodeSetParams) -> Answer {
    let NodeSetParams {
        node_id,
        file,
        base_hash,
    } = params;
    let mut sent = json!({ "file": file });
    if let (Some(hash), Some(members)) = (base_hash, sent.as_object_mut()) {
        members.insert("baseHash".to_owned(), hash.into());
    }
    let timeout = invoke::default_timeout(session);
    let answer = invoke::send(session, &node_id, "system.execApprovals.set", sent, timeout).await?;
    let engine = session.bridge.engine();
    engine.node_policy_changed(&session.principal().actor);
    Ok(answer)
}

fn snapshot(session: &OperatorSession, document: Hashed<Value>) -> Value {
    let Hashed { value, hash } = document;
    json!({
        "path": session.bridge.engine().documents().path(),
        "exists": !is_missing(session),
        "hash": hash,
        "file": value,
    })
}

fn is_missing(session: &OperatorSession) -> bool {
    let documents = session.bridge.engine().documents();
    matches!(documents.snapshot().status, DocumentStatus::Missing)
}

fn hash_required() -> WireError {
    WireError::invalid("INVALID_REQUEST: exec approvals base hash required; reload and retry")
}

fn of_store(error: &StoreError) -> WireError {
    match error {
        StoreError::BaseHashMismatch { .. } => {
            WireError::invalid("INVALID_REQUEST: exec approvals changed; reload and retry")
        }
        StoreError::BaseHashRequired { .. } => hash_required(),
        StoreError::Refused { .. } => WireError::unavailable(
            "the approvals document is refused and stays as it is: run countersign doctor",
        ),
        StoreError::Invalid(refusal) => WireError::invalid(format!("invalid exec approvals file: {refusal}")),
        StoreError::OldNameOfMain => WireError::invalid(error.to_string()),
        StoreError::Locked => WireError::unavailable(error.to_string()).retryable(None),
        StoreError::LockStale { .. } | StoreError::Directory(_) | StoreError::Io { .. } => {
            WireError::unavailable("the approvals document cannot be written: run countersign doctor")
        }
    }
}
