//! What sessions override, are told, and say in chat (`docs/spec/exec-tool.md#5-sessions-exec-elevated` and
//! `docs/spec/exec-tool.md#10-system-events`).
//!
//! It is in memory only: a restart forgets overrides, and everything is as configured again. Invariants: what a session
//! overrides counts beside the configuration and never beside the approvals document; nobody without the scope
//! `approve` answers a question here. Entry points: [`Engine::command_session`], [`Engine::session_overrides`].

mod commands;
mod overrides;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use commands::Commanded;
pub use overrides::NewOverrides;

use countersign_config::session::{Overrides, SessionName, Sessions, SystemEvent, gates::Gate};
use countersign_domain::{Principal, UnixMillis};
use countersign_ledger::events::{SessionNotifier, Subject};

use crate::{Engine, reply::StorageTrouble};

/// Why nothing was done for a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The token is not bound to the session's agent.
    #[error("the token may not act for this agent")]
    AgentNotAllowed,
    /// The text answers for a person, and the token may not.
    #[error("the token may not answer")]
    NeedsApprove,
    /// The session may not be elevated by this caller.
    #[error("elevated access is not available")]
    ElevatedUnavailable {
        /// The gates that are closed.
        gates: Vec<Gate>,
    },
    /// The change cannot be recorded.
    #[error("the ledger cannot be used")]
    Storage(#[from] StorageTrouble),
}

/// The sessions of this server.
#[derive(Debug)]
pub(super) struct SessionState {
    sessions: Mutex<Sessions>,
    /// One change at a time: each is recorded before it counts.
    changes: tokio::sync::Mutex<()>,
}

impl SessionState {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            sessions: Mutex::new(Sessions::new(limit)),
            changes: tokio::sync::Mutex::new(()),
        }
    }

    pub(super) fn overrides(&self, name: &SessionName) -> Overrides {
        self.lock().overrides(name)
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionNotifier for SessionState {
    fn notify(&self, subject: &Subject, at: UnixMillis, text: &str) {
        let (Some(agent), Some(key)) = (&subject.agent, &subject.session) else {
            return;
        };
        let name = SessionName {
            agent: agent.clone(),
            key: key.clone(),
        };
        let event = SystemEvent {
            at,
            text: text.to_owned(),
            run_id: subject.run_id.clone(),
        };
        self.lock().tell(&name, event);
    }
}

impl Engine {
    /// What a session was told and has not been shown, oldest first.
    ///
    /// # Errors
    /// [`SessionError::AgentNotAllowed`] for a caller that is bound to other agents.
    pub fn peek_system_events(
        &self,
        caller: &Principal,
        name: &SessionName,
    ) -> Result<Vec<SystemEvent>, SessionError> {
        expect_own(caller, name)?;
        Ok(self.session.lock().peek(name))
    }

    /// The same, and forgets it: each is handed out once.
    ///
    /// # Errors
    /// [`SessionError::AgentNotAllowed`] for a caller that is bound to other agents.
    pub fn drain_system_events(
        &self,
        caller: &Principal,
        name: &SessionName,
    ) -> Result<Vec<SystemEvent>, SessionError> {
        expect_own(caller, name)?;
        Ok(self.session.lock().drain(name))
    }
}

fn expect_own(caller: &Principal, name: &SessionName) -> Result<(), SessionError> {
    if caller.may_act_for(&name.agent) {
        Ok(())
    } else {
        Err(SessionError::AgentNotAllowed)
    }
}
