//! Rejecting a change of policy that waits to be accepted: its file says again what was accepted. `countersign.toml`, which no server
//! writes, stays as it is; what it loosens never takes effect.
//!
//! It must never allow anything: what is put back is what was accepted before, and nobody can accept the rejected content
//! afterwards: it lies nowhere any more, or is known as rejected.

use std::sync::Arc;

use serde_json::{Map, Value};

use countersign_config::{
    approvals::{document::Document, store::Pending},
    settings::ConfigFile,
};
use countersign_domain::{Actor, Precondition};
use countersign_ledger::{
    audit::AuditAction,
    events::{Event, EventKind, EventType, PolicyPart},
};

use crate::{
    accepted_policy::{Ours, PendingChange, PolicyFile},
    config::ConfigError,
    document::{ChangeError, DocumentError, Telling, changed_document, readable},
    effective::DocumentView,
    policy_admin::PolicyAdmin,
    reply::StorageTrouble,
};

/// What came of rejecting a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// It never takes effect.
    Done(Box<DocumentView>),
    /// No change with this hash waits.
    Other {
        /// The hash of the document as it is.
        current: String,
    },
}

/// Why a change was not rejected; it waits as before.
#[derive(Debug, thiserror::Error)]
pub enum RejectionError {
    /// `openclaw.json` stands in the way.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The approvals document stands in the way.
    #[error(transparent)]
    Document(#[from] DocumentError),
}

impl PolicyAdmin {
    /// Rejects the change with this hash: what it newly allows never takes effect, and what it takes away is in effect no
    /// more. The people who proposed it may do so too.
    ///
    /// # Errors
    /// [`RejectionError`]; the change waits as before.
    #[crate::compiled_once]
    pub async fn reject_edit<'a>(
        self: &'a Arc<Self>,
        by: &'a Actor,
        hash: &str,
    ) -> Result<Rejection, RejectionError> {
        let in_effect = self.policy.refresh();
        let is_edit = |held: &Option<PendingChange>| held.as_ref().is_some_and(|held| held.hash == hash);
        if is_edit(&in_effect.pending_document) {
            self.put_document_back(by, hash).await?;
        } else if is_edit(&in_effect.pending_config) {
            self.put_config_back(by, hash).await?;
        } else if is_edit(&in_effect.pending_server) {
            if !self.reject_server(by, hash).await? {
                return Ok(Rejection::Other {
                    current: self.document_view().hash,
                });
            }
        } else {
            return Ok(Rejection::Other {
                current: in_effect.on_disk.hash.clone(),
            });
        }
        self.again.note_author(by);
        self.again.wake();
        Ok(Rejection::Done(Box::new(self.document_view())))
    }

    /// No server writes `countersign.toml`: what it loosens is kept out of force for as long as it says so.
    async fn reject_server(self: &Arc<Self>, by: &Actor, hash: &str) -> Result<bool, ConfigError> {
        let (admin, by, hash) = (Arc::clone(self), by.clone(), hash.to_owned());
        let rejected = tokio::task::spawn_blocking(move || {
            let kind = EventKind::PolicyChanged {
                what: PolicyPart::Config,
                hash: None,
                by: Some(by.clone()),
            };
            admin.record_blocking(&by, told(&by, PolicyPart::Config, kind, &hash, &hash))?;
            admin.accepted_policy.reject_server(&hash).map_err(|error| {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a rejected setting cannot be kept"
                );
                StorageTrouble::Unavailable.into()
            })
        });
        // Only a panic or the end of the process makes the task fail.
        rejected
            .await
            .unwrap_or_else(|_not_finished| Err(StorageTrouble::Unavailable.into()))
    }

    async fn put_document_back(self: &Arc<Self>, by: &Actor, hash: &str) -> Result<(), DocumentError> {
        let Some(accepted) = self.accepted_policy.accepted_document() else {
            return Ok(());
        };
        let accepted = readable(&accepted)?.clone();
        let (whom, rejected) = (by.clone(), hash.to_owned());
        let edit = move |document: &mut Document| {
            *document = accepted.clone();
            Ok::<_, std::convert::Infallible>(())
        };
        let tell = move |(): &(), pending: &Pending<'_>| {
            let kind = changed_document(&whom, pending.hash);
            Some(told(&whom, PolicyPart::Document, kind, &rejected, pending.hash))
        };
        let expected = Precondition::OneOf(vec![hash.to_owned()]);
        let changed = self.write_document(by, expected, Ours::Part, edit, tell).await;
        changed.map(drop).map_err(|error| match error {
            ChangeError::Edit(never) => match never {},
            ChangeError::Store(error) => DocumentError::Store(error),
            ChangeError::Storage(trouble) => trouble.into(),
        })
    }

    async fn put_config_back(self: &Arc<Self>, by: &Actor, hash: &str) -> Result<(), ConfigError> {
        let (admin, by, hash) = (Arc::clone(self), by.clone(), hash.to_owned());
        let changed = tokio::task::spawn_blocking(move || admin.put_config_back_blocking(&by, &hash));
        // Only a panic or the end of the process makes the task fail.
        changed
            .await
            .unwrap_or_else(|_not_finished| Err(StorageTrouble::Unavailable.into()))
    }

    fn put_config_back_blocking(&self, by: &Actor, hash: &str) -> Result<(), ConfigError> {
        let file = ConfigFile::hold(self.settings.state_dir())?;
        let accepted = self.accepted_policy.accepted_config();
        let Some(accepted) = accepted.filter(|_| file.hash() == hash) else {
            return Err(ConfigError::Changed {
                current: file.hash().to_owned(),
            });
        };
        // A file that was not there said nothing.
        let staged = file.stage(accepted.text.as_deref().unwrap_or("{}\n"))?;
        let kind = EventKind::PolicyChanged {
            what: PolicyPart::Config,
            hash: None,
            by: Some(by.clone()),
        };
        self.record_blocking(by, told(by, PolicyPart::Config, kind, hash, staged.hash()))?;
        self.policy.announce_config(&file, &staged, Some(by));
        let committed = staged.commit();
        self.policy.finish_change(PolicyFile::Config);
        Ok(committed?)
    }
}

/// The record of the change that waited is followed by who rejected it.
fn told(by: &Actor, what: PolicyPart, kind: EventKind, rejected: &str, hash: &str) -> Telling {
    let detail = Map::from_iter([
        ("previousHash".to_owned(), Value::from(rejected)),
        ("hash".to_owned(), Value::from(hash)),
        ("rejected".to_owned(), Value::from(true)),
    ]);
    let action = AuditAction::Event(EventType::DocumentHeld);
    Telling::with_audit(Event::general(kind), by, action, what, detail)
}
