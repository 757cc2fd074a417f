//! The memory of sessions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_config::session::{Overrides, SessionName, Sessions, SystemEvent};
use countersign_domain::UnixMillis;
use countersign_ledger::events::{SessionNotifier, Subject};

/// What the sessions of this server override and were told.
#[derive(Debug)]
pub(crate) struct SessionState {
    sessions: Mutex<Sessions>,
}

impl SessionState {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            sessions: Mutex::new(Sessions::new(limit)),
        }
    }

    pub(crate) fn overrides(&self, name: &SessionName) -> Overrides {
        self.lock().overrides(name)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Sessions> {
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
