//! The approvals document as an operator reads and replaces it, and the one way in which anything here changes it.
//!
//! Every change is made under the document's lock, recorded when its text is safely on disk, and put in place after
//! that: no change of ours goes unrecorded, and none is told of twice.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    approvals::{
        document::{Document, Incoming, PolicyFields, PolicyTarget, Refusal},
        store::{Base, DocumentStatus, Pending, Snapshot, StoreError, UpdateError},
    },
    domain::{Actor, AgentId, Precondition},
    engine::{Engine, effective::DocumentView, reply::StorageTrouble},
    events::{Event, EventKind, PolicyPart, Subject},
    ledger::audit,
};

/// Why the document was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// What was sent is no document that may be used.
    #[error("what was sent is no valid approvals document")]
    Invalid(#[source] Refusal),
    /// What was sent has members that nobody knows, at these places.
    #[error("what was sent has unknown members")]
    UnknownMembers(Vec<String>),
    /// The document itself stands in the way.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be recorded, so it was not made.
    #[error("the change cannot be recorded")]
    Storage(#[from] StorageTrouble),
}

/// The document, or a part of it, with the hash of the whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Hashed<T> {
    /// What it says.
    pub value: T,
    /// The hash of the document that says it.
    pub hash: String,
}

/// What becomes of a document that is refused when another one is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It stays.
    Keep,
    /// It is replaced, and a copy kept beside it.
    Replace,
}

/// Why [`Engine::change_document`] changed nothing.
#[derive(Debug)]
pub(super) enum ChangeError<E> {
    /// The change itself said so.
    Edit(E),
    /// Because of the document.
    Store(StoreError),
    /// It could not be recorded.
    Storage(StorageTrouble),
}

/// How a change is told of.
#[derive(Debug)]
pub(super) struct Telling {
    event: Event,
    audit: Option<audit::Entry>,
}

impl Telling {
    /// By an event, which is its own audit record.
    pub(super) const fn of(event: Event) -> Self {
        Self { event, audit: None }
    }

    /// By an event, and an audit record that names what was done to the policy.
    pub(super) fn with_audit(
        event: Event,
        by: &Actor,
        action: audit::AuditAction,
        target: PolicyPart,
        detail: Map<String, Value>,
    ) -> Self {
        let audit = audit::Entry {
            actor: by.clone(),
            address: None,
            action,
            target: audit::Target {
                kind: "policy".to_owned(),
                id: target.as_str().to_owned(),
            },
            outcome: audit::AuditOutcome::Ok,
            detail,
        };
        Self {
            event,
            audit: Some(audit),
        }
    }
}

impl Engine {
    /// The document as it is, without the socket's token.
    ///
    /// # Errors
    /// [`StoreError::Refused`] while it is refused.
    pub fn policy_document(&self) -> Result<Hashed<Value>, StoreError> {
        redacted(&self.documents().snapshot())
    }

    /// What the document is, and its hash.
    pub fn document_view(&self) -> DocumentView {
        let snapshot = self.documents().snapshot();
        DocumentView {
            status: snapshot.status.clone(),
            hash: snapshot.hash.clone(),
            warnings: snapshot.warnings.clone(),
        }
    }

    /// Replaces the document by what was sent. What nobody but us can know of the present one (the socket's token,
    /// unknown members) is kept.
    ///
    /// # Errors
    /// [`DocumentError`]; the document is as it was.
    pub async fn replace_document(
        self: &Arc<Self>,
        by: &Actor,
        expected: Precondition,
        sent: &[u8],
        refused: Refused,
    ) -> Result<Hashed<Value>, DocumentError> {
        let sent = Document::parse(sent).map_err(DocumentError::Invalid)?.document;
        let snapshot = match refused {
            Refused::Replace => match self.force_document(by, &expected, &sent).await? {
                Some(snapshot) => snapshot,
                None => self.replace_readable(by, expected, sent).await?,
            },
            Refused::Keep => self.replace_readable(by, expected, sent).await?,
        };
        Ok(redacted(&snapshot)?)
    }

    async fn replace_readable(
        self: &Arc<Self>,
        by: &Actor,
        expected: Precondition,
        sent: Document,
    ) -> Result<Arc<Snapshot>, DocumentError> {
        let whom = by.clone();
        let edit = move |document: &mut Document| {
            let unknown = sent.unknown_members(document);
            if !unknown.is_empty() {
                return Err(unknown);
            }
            document.replace(sent.clone(), Incoming::Ours);
            Ok(())
        };
        let tell = move |(): &(), pending: &Pending<'_>| Some(replaced(&whom, pending, Refused::Keep));
        let changed = self.change_document(by, expected, edit, tell).await;
        let ((), snapshot) = changed.map_err(|error| match error {
            ChangeError::Edit(unknown) => DocumentError::UnknownMembers(unknown),
            ChangeError::Store(error) => error.into(),
            ChangeError::Storage(trouble) => trouble.into(),
        })?;
        Ok(snapshot)
    }

    /// `None` when the present document is not refused.
    async fn force_document(
        self: &Arc<Self>,
        by: &Actor,
        expected: &Precondition,
        sent: &Document,
    ) -> Result<Option<Arc<Snapshot>>, DocumentError> {
        if !matches!(self.documents().snapshot().status, DocumentStatus::Refused(_)) {
            return Ok(None);
        }
        let unknown = sent.unknown_members(&Document::default());
        if !unknown.is_empty() {
            return Err(DocumentError::UnknownMembers(unknown));
        }
        let (engine, whom) = (Arc::clone(self), by.clone());
        let (expected, sent) = (expected.clone(), sent.clone());
        let forced = tokio::task::spawn_blocking(move || {
            let forced = engine
                .documents()
                .force_replace(Base::If(&expected), &sent, |pending| {
                    engine.announce(&whom, replaced(&whom, pending, Refused::Replace), pending)
                });
            engine.settle_announced();
            forced
        });
        match forced.await {
            Ok(Ok(None)) => Ok(None),
            Ok(Ok(Some((snapshot, kept)))) => {
                tracing::warn!(document.kept = %kept.display(), "a refused approvals document was replaced");
                Ok(Some(snapshot))
            }
            Ok(Err(UpdateError::Edit(trouble))) => Err(trouble.into()),
            Ok(Err(UpdateError::Store(error))) => Err(error.into()),
            // Only a panic or the end of the process gets here.
            Err(_not_finished) => Err(StorageTrouble::Unavailable.into()),
        }
    }

    /// The four policy members that an agent has, as written; for `*` those of the wildcard.
    ///
    /// # Errors
    /// [`StoreError::Refused`] while the document is.
    pub fn agent_policy(&self, agent: &str) -> Result<Hashed<PolicyFields>, StoreError> {
        agent_policy(&self.documents().snapshot(), agent)
    }

    /// Replaces the four policy members of an agent; absent ones inherit.
    ///
    /// # Errors
    /// [`DocumentError`]; the document is as it was.
    pub async fn set_agent_policy(
        self: &Arc<Self>,
        by: &Actor,
        agent: &str,
        expected: Precondition,
        policy: PolicyFields,
    ) -> Result<Hashed<PolicyFields>, DocumentError> {
        let (owner, subject, whom) = (agent.to_owned(), subject_of(agent), by.clone());
        let edit = move |document: &mut Document| {
            document.set_policy(PolicyTarget::Agent(&owner), policy);
            Ok::<_, std::convert::Infallible>(())
        };
        let tell = move |(): &(), pending: &Pending<'_>| {
            let kind = changed_document(&whom, pending.hash);
            let subject = subject.clone();
            Some(Telling::of(Event { subject, kind }))
        };
        let changed = self.change_document(by, expected, edit, tell).await;
        let ((), snapshot) = changed.map_err(|error| match error {
            ChangeError::Edit(never) => match never {},
            ChangeError::Store(error) => DocumentError::Store(error),
            ChangeError::Storage(trouble) => trouble.into(),
        })?;
        Ok(agent_policy(&snapshot, agent)?)
    }

    /// Makes one change of the document. `tell` says how it is told of, if at all; that is recorded before the file
    /// is replaced.
    pub(super) async fn change_document<T: Send + 'static, E: Send + 'static>(
        self: &Arc<Self>,
        by: &Actor,
        expected: Precondition,
        mut edit: impl FnMut(&mut Document) -> Result<T, E> + Send + 'static,
        mut tell: impl FnMut(&T, &Pending<'_>) -> Option<Telling> + Send + 'static,
    ) -> Result<(T, Arc<Snapshot>), ChangeError<E>> {
        let (engine, by) = (Arc::clone(self), by.clone());
        let changed = tokio::task::spawn_blocking(move || {
            let changed = engine.documents().update_noted(
                Base::If(&expected),
                |document| edit(document).map_err(ChangeError::Edit),
                |value, pending| match tell(value, pending) {
                    Some(telling) => engine
                        .announce(&by, telling, pending)
                        .map_err(ChangeError::Storage),
                    None => Ok(()),
                },
            );
            engine.settle_announced();
            changed
        });
        match changed.await {
            Ok(Ok(changed)) => Ok(changed),
            Ok(Err(UpdateError::Edit(error))) => Err(error),
            Ok(Err(UpdateError::Store(error))) => Err(ChangeError::Store(error)),
            // Only a panic or the end of the process gets here.
            Err(_not_finished) => Err(ChangeError::Storage(StorageTrouble::Unavailable)),
        }
    }

    /// Records a change of the document that is about to be made. Blocks; the document's lock is held.
    fn announce(&self, by: &Actor, telling: Telling, pending: &Pending<'_>) -> Result<(), StorageTrouble> {
        self.record_blocking(by, telling)?;
        self.policy_seen.announce_document(Some(pending.hash));
        Ok(())
    }

    /// What was announced is in place, or will not be.
    fn settle_announced(&self) {
        self.look_at_policy();
        self.policy_seen.announce_document(None);
    }

    /// Records a change. Blocks; for a thread that may.
    pub(super) fn record_blocking(&self, by: &Actor, telling: Telling) -> Result<(), StorageTrouble> {
        let Telling { event, audit } = telling;
        let recorded = async {
            match audit {
                Some(audit) => self.ledger.record_change(audit, event, by.clone()).await,
                None => self.ledger.record(event, by.clone()).await,
            }
        };
        Ok(tokio::runtime::Handle::current().block_on(recorded)?)
    }
}

/// Whom a change under `/v1/agents/` is about. The wildcard is no agent; such a change concerns all of them.
pub(super) fn subject_of(agent: &str) -> Subject {
    Subject {
        agent: AgentId::parse(agent).ok(),
        ..Subject::default()
    }
}

/// The document, unless it is refused.
pub(super) fn readable(snapshot: &Snapshot) -> Result<&Document, StoreError> {
    snapshot.document().ok_or_else(|| StoreError::Refused {
        refusal: match &snapshot.status {
            DocumentStatus::Refused(refusal) => refusal.clone(),
            // A document that is not refused can be read.
            DocumentStatus::Missing | DocumentStatus::Ok => {
                Refusal::whole(crate::approvals::document::RefusalReason::Io)
            }
        },
        hash: snapshot.hash.clone(),
    })
}

fn redacted(snapshot: &Snapshot) -> Result<Hashed<Value>, StoreError> {
    Ok(Hashed {
        value: readable(snapshot)?.redacted(),
        hash: snapshot.hash.clone(),
    })
}

fn agent_policy(snapshot: &Snapshot, agent: &str) -> Result<Hashed<PolicyFields>, StoreError> {
    Ok(Hashed {
        value: readable(snapshot)?.policy_fields(PolicyTarget::Agent(agent)),
        hash: snapshot.hash.clone(),
    })
}

pub(super) fn changed_document(by: &Actor, hash: &str) -> EventKind {
    EventKind::PolicyChanged {
        what: PolicyPart::Document,
        hash: Some(hash.to_owned()),
        by: Some(by.clone()),
    }
}

fn replaced(by: &Actor, pending: &Pending<'_>, refused: Refused) -> Telling {
    let detail = Map::from_iter([
        (
            "previousHash".to_owned(),
            Value::from(pending.before.hash.clone()),
        ),
        ("hash".to_owned(), Value::from(pending.hash)),
        ("forced".to_owned(), Value::from(refused == Refused::Replace)),
    ]);
    Telling::with_audit(
        Event::general(changed_document(by, pending.hash)),
        by,
        audit::AuditAction::DocumentReplaced,
        PolicyPart::Document,
        detail,
    )
}
