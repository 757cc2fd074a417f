//! The approvals document of this machine, as a gateway reads and writes it
//! (`docs/spec/bridge.md#97-systemexecapprovalsget--set`).

use std::sync::Arc;

use serde_json::{Value, json};

use countersign_config::approvals::store::{DocumentStatus, StoreError};
use countersign_domain::{Actor, Precondition};
use countersign_engine::{
    Engine,
    document::{DocumentError, Refused},
};

use super::answer::Answer;

/// The document without the socket's token.
pub(super) fn get(engine: &Arc<Engine>) -> Answer {
    match engine.policy_admin().policy_document() {
        Ok(document) => {
            let exists = matches!(engine.policy_admin().document_view().status, DocumentStatus::Ok);
            snapshot(engine, exists, &document.hash, &document.value)
        }
        Err(error) => refused(&error),
    }
}

/// Replaces the document. The socket's path and token stay where none are sent.
pub(super) async fn set(engine: &Arc<Engine>, by: &Actor, params: Value) -> Answer {
    let Some(file) = params.get("file").filter(|file| file.is_object()) else {
        return Answer::invalid("Error: INVALID_REQUEST: exec approvals file required");
    };
    let base = params.get("baseHash").and_then(Value::as_str).map(str::trim);
    let is_there = !matches!(
        engine.policy_admin().document_view().status,
        DocumentStatus::Missing
    );
    let expected = match base.filter(|base| !base.is_empty()) {
        Some(base) => Precondition::OneOf(vec![base.to_owned()]),
        None if is_there => {
            return Answer::invalid(
                "Error: INVALID_REQUEST: exec approvals base hash required; reload and retry",
            );
        }
        // Only while there still is none.
        None => Precondition::OneOf(vec![engine.policy_admin().document_view().hash]),
    };
    let text = file.to_string();
    match engine
        .policy_admin()
        .replace_document(by, expected, text.as_bytes(), Refused::Keep)
        .await
    {
        Ok(document) => snapshot(engine, true, &document.hash, &document.value),
        Err(DocumentError::Store(error)) => refused(&error),
        Err(DocumentError::Invalid(refusal)) => Answer::invalid(format!(
            "Error: INVALID_REQUEST: exec approvals file invalid: {refusal}"
        )),
        Err(DocumentError::UnknownMembers(members)) => Answer::invalid(format!(
            "Error: INVALID_REQUEST: exec approvals file has unknown members: {}",
            members.join(", ")
        )),
        Err(DocumentError::Storage(_)) => super::answer::no_record(),
    }
}

fn snapshot(engine: &Engine, exists: bool, hash: &str, file: &Value) -> Answer {
    Answer::done(json!({
        "path": engine.documents().path(), "exists": exists, "hash": hash, "file": file,
    }))
}

fn refused(error: &StoreError) -> Answer {
    match error {
        StoreError::BaseHashMismatch { .. } => {
            Answer::invalid("Error: INVALID_REQUEST: exec approvals changed; reload and retry")
        }
        StoreError::BaseHashRequired { .. } => {
            Answer::invalid("Error: INVALID_REQUEST: exec approvals base hash required; reload and retry")
        }
        StoreError::Refused { .. } | StoreError::Invalid(_) => {
            Answer::unavailable("the approvals document of this node is refused; repair it on the node")
        }
        StoreError::OldNameOfMain => Answer::invalid(format!("Error: INVALID_REQUEST: {error}")),
        StoreError::Locked
        | StoreError::LockStale { .. }
        | StoreError::Directory(_)
        | StoreError::Io { .. } => {
            Answer::unavailable("the approvals document of this node cannot be used now")
        }
    }
}
