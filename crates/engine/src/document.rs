//! The approvals document as an operator reads and replaces it, and the one way in which anything here changes it.
//!
//! Every change is made under the document's lock, recorded when its text is safely on disk, and put in place after
//! that: no change of ours goes unrecorded, and none is told of twice.

use std::sync::Arc;

use serde_json::{Map, Value};

use countersign_config::approvals::{
    document::{Document, Incoming, PolicyFields, PolicyTarget, Refusal, is_old_name_of_main},
    store::{Base, DocumentStatus, Pending, Snapshot, StoreError, UpdateError},
};
use countersign_domain::{Actor, AgentId, Precondition};
use countersign_ledger::{
    audit,
    events::{Event, EventKind, EventType, PolicyPart, Subject},
};

use crate::{
    accepted_policy::{Accepted, AcceptedPolicy, Ours, PendingChange, PolicyFile},
    effective::DocumentView,
    policy_admin::PolicyAdmin,
    reply::StorageTrouble,
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
    /// The part of the document that was asked for.
    pub value: T,
    /// The hash of the document that says it.
    pub hash: String,
}

/// What came of accepting an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// The content with this hash counts, and did before if nothing was held.
    InForce(Box<DocumentView>),
    /// An owner proposed it whose token this is, and nobody widens the policy alone (`[approvals] widening = "ask"`).
    OwnProposal,
    /// No such content is there.
    Other {
        /// The hash that could be accepted, or that counts.
        current: String,
    },
}

/// What becomes of a document that is refused when another one is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It stays as it is, and nothing is replaced.
    Keep,
    /// It is replaced, and a copy kept beside it.
    Replace,
}

/// Why [`PolicyAdmin::change_document`] changed nothing.
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

impl PolicyAdmin {
    /// The document as it is, without the socket's token.
    ///
    /// # Errors
    /// [`StoreError::Refused`] while it is refused.
    pub fn policy_document(&self) -> Result<Hashed<Value>, StoreError> {
        redacted(&self.documents.snapshot())
    }

    /// What the document is, and its hash.
    pub fn document_view(&self) -> DocumentView {
        DocumentView::of(&self.policy.refresh())
    }

    /// Replaces the document by what was sent. What nobody but us can know of the present one (the socket's token,
    /// unknown members) is kept.
    ///
    /// # Errors
    /// [`DocumentError`]; the document is as it was.
    #[crate::compiled_once]
    pub async fn replace_document<'a>(
        self: &'a Arc<Self>,
        by: &'a Actor,
        expected: Precondition,
        sent: &[u8],
        refused: Refused,
    ) -> Result<Hashed<Value>, DocumentError> {
        let sent = parse_sent(sent)?;
        let snapshot = match refused {
            Refused::Replace => match self.force_document(by, &expected, &sent).await? {
                Some(snapshot) => snapshot,
                None => self.replace_readable(by, expected, sent).await?,
            },
            Refused::Keep => self.replace_readable(by, expected, sent).await?,
        };
        let held = self.policy.refresh().pending_document.clone();
        if held.is_some_and(|held| held.hash == snapshot.hash) {
            // The very content that is held was sent: nothing was written, and its sender answers for it, who may be the
            // second person that it takes.
            self.accept_edit(by, snapshot.hash.clone()).await?;
        }
        Ok(redacted(&snapshot)?)
    }

    /// Accepts a held edit of the document, of `openclaw.json` or of `countersign.toml` by its hash.
    ///
    /// # Errors
    /// [`DocumentError`]; nothing was accepted.
    #[crate::compiled_once]
    pub async fn accept_edit<'a>(
        self: &'a Arc<Self>,
        by: &'a Actor,
        hash: String,
    ) -> Result<Acceptance, DocumentError> {
        let (admin, by) = (Arc::clone(self), by.clone());
        let accepted = tokio::task::spawn_blocking(move || admin.accept_edit_blocking(&by, &hash));
        // Only a panic or the end of the process makes the task fail.
        accepted
            .await
            .unwrap_or_else(|_not_finished| Err(StorageTrouble::Unavailable.into()))
    }

    fn accept_edit_blocking(&self, by: &Actor, hash: &str) -> Result<Acceptance, DocumentError> {
        let in_effect = self.policy.refresh();
        let is_edit = |held: &Option<PendingChange>| held.as_ref().is_some_and(|held| held.hash == hash);
        if is_edit(&in_effect.pending_server) {
            return self.accept_server_edit(by, hash);
        }
        let file = if is_edit(&in_effect.pending_document) {
            PolicyFile::Document
        } else if is_edit(&in_effect.pending_config) {
            PolicyFile::Config
        } else {
            // What cannot be used cannot be accepted either, and this says why it cannot be used.
            readable(&in_effect.document)?;
            let counts = in_effect.pending_document.is_none() && in_effect.document.has_hash(hash);
            if counts && self.accepted_policy.has_lost_rules() {
                self.record_blocking(by, accepted(by, PolicyPart::Document, hash))?;
                self.accepted_policy.forget_lost_rules();
            }
            let current = in_effect
                .pending_document
                .as_ref()
                .map_or(&in_effect.document.hash, |held| &held.hash);
            return Ok(if counts {
                Acceptance::InForce(Box::new(DocumentView::of(&in_effect)))
            } else {
                Acceptance::Other {
                    current: current.clone(),
                }
            });
        };
        if self.accepted_policy.is_own_proposal(file, by) {
            return Ok(Acceptance::OwnProposal);
        }
        self.record_blocking(by, accepted(by, part_of(file), hash))?;
        match self
            .accepted_policy
            .accept(file, hash, by, || self.policy.is_idle())
        {
            Accepted::Yes => {
                self.again.note_author(by);
                self.again.wake();
                Ok(Acceptance::InForce(Box::new(self.document_view())))
            }
            Accepted::OwnProposal => Ok(Acceptance::OwnProposal),
            Accepted::NoSuchEdit => Ok(Acceptance::Other {
                current: self.document_view().hash,
            }),
        }
    }

    /// Accepts what of `countersign.toml` waits for a second person. It is in force after a restart.
    fn accept_server_edit(&self, by: &Actor, hash: &str) -> Result<Acceptance, DocumentError> {
        if AcceptedPolicy::is_own_server_edit(by) {
            return Ok(Acceptance::OwnProposal);
        }
        self.record_blocking(by, accepted(by, PolicyPart::Config, hash))?;
        let accepted = self.accepted_policy.accept_server(hash).map_err(|error| {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "an accepted setting cannot be kept"
            );
            StorageTrouble::Unavailable
        })?;
        let view = self.document_view();
        Ok(if accepted {
            Acceptance::InForce(Box::new(view))
        } else {
            Acceptance::Other { current: view.hash }
        })
    }

    async fn replace_readable(
        self: &Arc<Self>,
        by: &Actor,
        expected: Precondition,
        sent: Document,
    ) -> Result<Arc<Snapshot>, DocumentError> {
        let (admin, whom) = (Arc::clone(self), by.clone());
        let edit = move |document: &mut Document| {
            expect_known(&sent, document)?;
            // What the sender leaves out is what was accepted, not what an edit says of which they cannot know.
            let in_effect = admin.accepted_policy.in_effect();
            if in_effect.pending_document.is_some()
                && let Some(accepted) = in_effect.document.document()
            {
                document.take_socket_of(accepted);
            }
            document.replace(sent.clone(), Incoming::Ours);
            Ok::<_, DocumentError>(())
        };
        let tell = move |(): &(), pending: &Pending<'_>| Some(replaced(&whom, pending, Refused::Keep));
        let changed = self.write_document(by, expected, Ours::Whole, edit, tell).await;
        let ((), snapshot) = changed.map_err(|error| match error {
            ChangeError::Edit(error) => error,
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
        if !matches!(self.documents.snapshot().status, DocumentStatus::Refused(_)) {
            return Ok(None);
        }
        expect_known(sent, &Document::default())?;
        let (admin, whom) = (Arc::clone(self), by.clone());
        let (expected, sent) = (expected.clone(), sent.clone());
        let forced = tokio::task::spawn_blocking(move || {
            let forced = admin
                .documents
                .force_replace(Base::If(&expected), &sent, |pending| {
                    admin.announce(
                        &whom,
                        replaced(&whom, pending, Refused::Replace),
                        pending,
                        Ours::Whole,
                    )
                });
            admin.policy.finish_change(PolicyFile::Document);
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
        agent_policy(&self.documents.snapshot(), agent)
    }

    /// Replaces the four policy members of an agent; absent ones inherit.
    ///
    /// # Errors
    /// [`DocumentError`]; the document is as it was.
    #[crate::compiled_once]
    pub async fn set_agent_policy<'a>(
        self: &'a Arc<Self>,
        by: &'a Actor,
        agent: &str,
        expected: Precondition,
        policy: PolicyFields,
    ) -> Result<Hashed<PolicyFields>, DocumentError> {
        check_writable(agent)?;
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
        edit: impl FnMut(&mut Document) -> Result<T, E> + Send + 'static,
        tell: impl FnMut(&T, &Pending<'_>) -> Option<Telling> + Send + 'static,
    ) -> Result<(T, Arc<Snapshot>), ChangeError<E>> {
        self.write_document(by, expected, Ours::Part, edit, tell).await
    }

    pub(super) async fn write_document<T: Send + 'static, E: Send + 'static>(
        self: &Arc<Self>,
        by: &Actor,
        expected: Precondition,
        ours: Ours,
        mut edit: impl FnMut(&mut Document) -> Result<T, E> + Send + 'static,
        mut tell: impl FnMut(&T, &Pending<'_>) -> Option<Telling> + Send + 'static,
    ) -> Result<(T, Arc<Snapshot>), ChangeError<E>> {
        let (admin, by) = (Arc::clone(self), by.clone());
        let changed = tokio::task::spawn_blocking(move || {
            let changed = admin.documents.update_noted(
                Base::If(&expected),
                |document| edit(document).map_err(ChangeError::Edit),
                |value, pending| match tell(value, pending) {
                    Some(telling) => admin
                        .announce(&by, telling, pending, ours)
                        .map_err(ChangeError::Storage),
                    None => Ok(()),
                },
            );
            admin.policy.finish_change(PolicyFile::Document);
            if ours == Ours::Part && changed.is_ok() {
                admin
                    .accepted_policy
                    .amend_document(Ours::Part, |document| edit(document).map(drop));
                admin.policy.refresh();
            }
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
    fn announce(
        &self,
        by: &Actor,
        telling: Telling,
        pending: &Pending<'_>,
        ours: Ours,
    ) -> Result<(), StorageTrouble> {
        self.record_blocking(by, telling)?;
        self.policy.announce_document(pending, ours, by);
        Ok(())
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

/// Refuses to write about an agent whose rules would be read as those of another.
pub(super) fn check_writable(agent: &str) -> Result<(), StoreError> {
    if is_old_name_of_main(agent) {
        return Err(StoreError::OldNameOfMain);
    }
    Ok(())
}

/// Reads a document that was sent.
///
/// # Errors
/// [`DocumentError::Invalid`] when nobody may use it.
pub fn parse_sent(sent: &[u8]) -> Result<Document, DocumentError> {
    let loaded = Document::parse(sent).map_err(DocumentError::Invalid)?;
    Ok(loaded.document)
}

/// Refuses what was sent with members that nobody knows, typing errors for example, unless they are in the present
/// document.
///
/// # Errors
/// [`DocumentError::UnknownMembers`] with their places.
pub fn expect_known(sent: &Document, present: &Document) -> Result<(), DocumentError> {
    let unknown = sent.unknown_members(present);
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(DocumentError::UnknownMembers(unknown))
    }
}

/// The document, unless it is refused.
pub(super) fn readable(snapshot: &Snapshot) -> Result<&Document, StoreError> {
    snapshot.document().ok_or_else(|| StoreError::Refused {
        refusal: match &snapshot.status {
            DocumentStatus::Refused(refusal) => refusal.clone(),
            // A document that is not refused can be read.
            DocumentStatus::Missing | DocumentStatus::Ok => {
                Refusal::whole(countersign_config::approvals::document::RefusalReason::Io)
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

const fn part_of(file: PolicyFile) -> PolicyPart {
    match file {
        PolicyFile::Document => PolicyPart::Document,
        PolicyFile::Config => PolicyPart::Config,
    }
}

fn accepted(by: &Actor, what: PolicyPart, hash: &str) -> Telling {
    let kind = EventKind::PolicyChanged {
        what,
        hash: Some(hash.to_owned()),
        by: Some(by.clone()),
    };
    let detail = Map::from_iter([
        ("hash".to_owned(), Value::from(hash)),
        ("accepted".to_owned(), Value::from(true)),
    ]);
    // The record of the edit that was held is followed by who let it count.
    let action = audit::AuditAction::Event(EventType::DocumentHeld);
    Telling::with_audit(Event::general(kind), by, action, what, detail)
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
