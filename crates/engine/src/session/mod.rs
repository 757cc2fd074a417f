//! What sessions override, are told, and say in chat (`docs/spec/exec-tool.md#5-sessions-exec-elevated` and
//! `docs/spec/exec-tool.md#10-system-events`).
//!
//! It is in memory only: a restart forgets overrides, and everything is as configured again. Invariants: what a session
//! overrides counts beside the configuration and never beside the approvals document; nobody without the scope
//! `approve` answers a question here. Entry points: [`Sessions::command`], [`Sessions::overrides`].

mod commands;
mod overrides;
mod state;

use std::sync::Arc;

pub use commands::Commanded;
pub use overrides::NewOverrides;
pub(crate) use state::SessionState;

use countersign_config::session::{SessionName, SystemEvent, gates::Gate};
use countersign_domain::Principal;
use countersign_ledger::Ledger;
use countersign_sys::clock::Clock;

use crate::{
    approvals::Approvals, base::Base, effective::EffectivePolicies, lifecycle::Lifecycle, records::Records,
    reply::StorageTrouble, watch::PolicySource,
};

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

/// What sessions override, are told, and say in chat.
#[derive(Debug)]
pub struct Sessions {
    state: Arc<SessionState>,
    policy: Arc<PolicySource>,
    effective_policies: Arc<EffectivePolicies>,
    records: Arc<Records>,
    approvals: Arc<Approvals>,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    lifecycle: Arc<Lifecycle>,
    /// One change at a time: each is recorded before it counts.
    changes: tokio::sync::Mutex<()>,
}

impl Sessions {
    /// Joins them: what is remembered, what `/exec` shows, and what takes the answers of `/approve`.
    pub(super) fn new(
        base: &Base,
        state: Arc<SessionState>,
        effective_policies: Arc<EffectivePolicies>,
        approvals: Arc<Approvals>,
    ) -> Self {
        Self {
            state,
            policy: Arc::clone(&base.policy),
            effective_policies,
            records: Arc::clone(&base.records),
            approvals,
            ledger: base.ledger.clone(),
            clock: Arc::clone(&base.clock),
            lifecycle: Arc::clone(&base.lifecycle),
            changes: tokio::sync::Mutex::new(()),
        }
    }

    /// What a session was told and has not been shown, oldest first.
    ///
    /// # Errors
    /// [`SessionError::AgentNotAllowed`] for a caller that is bound to other agents.
    pub fn peek_events(
        &self,
        caller: &Principal,
        name: &SessionName,
    ) -> Result<Vec<SystemEvent>, SessionError> {
        expect_own(caller, name)?;
        Ok(self.state.lock().peek(name))
    }

    /// The same, and forgets it: each is handed out once.
    ///
    /// # Errors
    /// [`SessionError::AgentNotAllowed`] for a caller that is bound to other agents.
    pub fn drain_events(
        &self,
        caller: &Principal,
        name: &SessionName,
    ) -> Result<Vec<SystemEvent>, SessionError> {
        expect_own(caller, name)?;
        Ok(self.state.lock().drain(name))
    }
}

fn expect_own(caller: &Principal, name: &SessionName) -> Result<(), SessionError> {
    if caller.may_act_for(&name.agent) {
        Ok(())
    } else {
        Err(SessionError::AgentNotAllowed)
    }
}
