//! Runs that a peer of the approvals socket asks for (`docs/spec/ipc.md#4-messages`, type `exec`), and what the
//! document says of the socket.
//!
//! The whole flow is that of every other call, under the policy of this server. What is different: the asker takes this
//! server for its UI, so a person is asked even if nobody is connected at the moment, and silence never lets anything
//! start, no matter what `askFallback` says (`docs/spec/ipc.md#6-what-the-server-checks-in-order`).

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use prometheus_client::metrics::counter::Counter;

use countersign_config::approvals::{
    document::Document,
    store::{Base, DocumentStatus, DocumentStore, StoreError, UpdateError},
};
use countersign_domain::{ActorKind, Secret};

use crate::{
    accepted_policy::{AcceptedPolicy, Ours},
    evaluator::call::Call,
    watch::PolicySource,
};

/// What the approvals document in force says of the socket.
#[derive(Debug, Clone, Default)]
pub struct NamedSocket {
    /// Its path, as written.
    pub path: Option<String>,
    /// What both sides know.
    pub token: Option<Secret>,
}

/// What happened at the socket.
#[derive(Debug, Default)]
pub struct SocketCounts {
    /// Connections that were accepted.
    pub connections: Counter,
    /// Of these, those of another account.
    pub foreign: Counter,
    /// Of these, those over a limit.
    pub limited: Counter,
    /// Lines that were not genuine or not readable.
    pub refused: Counter,
    /// Genuine wishes to run something.
    pub execs: Counter,
    /// Genuine questions about commands that the peer starts itself.
    pub questions: Counter,
    /// Connections that are open.
    pub open: AtomicUsize,
}

/// What this server has to do with the approvals socket.
#[derive(Debug)]
pub struct ApprovalsSocket {
    policy: Arc<PolicySource>,
    accepted_policy: Arc<AcceptedPolicy>,
    documents: Arc<DocumentStore>,
    counts: Arc<SocketCounts>,
    /// It should be hosted, and is not.
    is_missing: AtomicBool,
}

impl ApprovalsSocket {
    /// Joins it: what names the socket, and what a new token for it is written to.
    pub(super) fn new(
        policy: Arc<PolicySource>,
        accepted_policy: Arc<AcceptedPolicy>,
        documents: Arc<DocumentStore>,
    ) -> Self {
        Self {
            policy,
            accepted_policy,
            documents,
            counts: Arc::default(),
            is_missing: AtomicBool::new(false),
        }
    }

    /// What happened at the socket. The socket's host counts it, and the metrics show it.
    pub const fn counts(&self) -> &Arc<SocketCounts> {
        &self.counts
    }

    /// Notes whether the socket should be hosted here and cannot be.
    pub fn set_missing(&self, is_missing: bool) {
        self.is_missing.store(is_missing, Ordering::Relaxed);
    }

    /// Whether the socket should be hosted here and is not.
    pub(super) fn is_missing(&self) -> bool {
        self.is_missing.load(Ordering::Relaxed)
    }

    /// What the document in force says of the socket; `None` while the document is refused. Nothing of an edit that is
    /// held counts: an attacker who could name another socket could answer at it.
    pub fn named(&self) -> Option<NamedSocket> {
        let in_effect = self.policy.refresh();
        match &in_effect.document.status {
            DocumentStatus::Refused(_) => None,
            DocumentStatus::Missing | DocumentStatus::Ok => {
                let socket = in_effect
                    .document
                    .document()
                    .and_then(|document| document.socket.clone());
                Some(socket.map_or_else(NamedSocket::default, |socket| NamedSocket {
                    path: socket.path,
                    token: socket.token,
                }))
            }
        }
    }

    /// The token of the socket, made and written into the document when there is none yet. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] when a new one cannot be stored.
    pub fn ensure_token(&self) -> Result<Secret, StoreError> {
        if let Some(token) = self.named().and_then(|socket| socket.token) {
            return Ok(token);
        }
        let fresh = self.documents.new_token();
        let edit = |document: &mut Document| {
            let token = document.socket_token().cloned().unwrap_or_else(|| fresh.clone());
            document.set_socket_token(token.clone());
            Ok::<_, std::convert::Infallible>(token)
        };
        // A token allows nothing, so it is written like a note.
        let made = self.documents.update_noted(Base::Any, edit, |_token, pending| {
            self.policy.announce_note(pending);
            Ok(())
        });
        self.policy.finish_note();
        match made {
            Ok((token, _snapshot)) => {
                self.accepted_policy
                    .amend_document(Ours::Note, |document| edit(document).map(drop));
                self.policy.refresh();
                Ok(token)
            }
            Err(UpdateError::Store(error)) => Err(error),
            Err(UpdateError::Edit(never)) => match never {},
        }
    }
}

impl Call {
    /// Whether its asker takes this server for the UI: then a person is asked, no matter who is connected, or nothing
    /// runs.
    pub(super) const fn is_of_peer(&self) -> bool {
        matches!(self.requested_by.kind, ActorKind::Ipc)
    }
}
