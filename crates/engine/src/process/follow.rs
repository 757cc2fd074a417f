//! The output of a session as it comes, from any place on, and then its end.

use std::sync::Arc;

use countersign_domain::{AgentId, Principal, ProcessKind};
use countersign_ledger::ProcessSession;

use super::{
    ProcessError, Processes,
    reader::{OutputReader, OutputText},
    session::Session,
};

use crate::reply::StorageTrouble;

/// Bytes read at once.
const STEP: usize = 64 * 1024;

/// What a follower gets next.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// Output, in order of arrival.
    Output(Vec<OutputText>),
    /// The session has ended, and all of its output was there before.
    Ended(Box<Session>),
}

/// What a follower makes of output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputForm {
    /// Text that is shown somewhere.
    #[default]
    Text,
    /// The bytes as they are.
    Bytes,
}

/// A caller who follows a session.
#[derive(Debug)]
pub struct SessionFollower {
    processes: Arc<Processes>,
    session: ProcessSession,
    reader: OutputReader,
    form: OutputForm,
    is_over: bool,
}

impl Processes {
    /// Follows a session after so many bytes of its output.
    ///
    /// # Errors
    /// [`ProcessError`] when there is no such session for this caller.
    pub async fn follow(
        self: &Arc<Self>,
        caller: &Principal,
        agent: Option<AgentId>,
        id: &str,
        after: u64,
        form: OutputForm,
    ) -> Result<SessionFollower, ProcessError> {
        let scope = self.session_scope(caller, agent)?;
        Ok(SessionFollower {
            session: self.find_session(&scope, id).await?,
            processes: Arc::clone(self),
            reader: OutputReader::at(after),
            form,
            is_over: false,
        })
    }
}

impl SessionFollower {
    /// What comes next; `None` after the end.
    ///
    /// # Errors
    /// [`StorageTrouble`]; calling again tries again.
    ///
    /// # Cancel safety
    /// Cancelled, it has lost nothing.
    pub async fn next(&mut self) -> Result<Option<Followed>, StorageTrouble> {
        if self.is_over {
            return Ok(None);
        }
        let run_id = self.session.run.id.clone();
        loop {
            // Before the look, so that nothing falls between it and the wait.
            let live = self.processes.live.unfinished(&run_id);
            let seen = live.as_ref().map(|live| live.watch_seen());
            let mut pieces = self.reader.read(&self.processes.records, &run_id, STEP).await?;
            let is_nothing = pieces.is_empty();
            // A piece of a character is told with its end.
            pieces.retain(|piece| self.form == OutputForm::Bytes || !piece.text.is_empty());
            if !pieces.is_empty() {
                return Ok(Some(Followed::Output(pieces)));
            }
            match (live, seen) {
                (Some(live), Some(mut seen)) => tokio::select! {
                    // The sender lives as long as `live`.
                    _changed = seen.changed() => {}
                    _ended = live.ended() => {}
                },
                _ if !is_nothing => {}
                _ => {
                    if self.session.kind == ProcessKind::Leftovers {
                        self.processes.live.is_gone(&run_id).await;
                    }
                    let now = self.processes.ledger.process_session(&self.session.id).await?;
                    let session = now.unwrap_or_else(|| self.session.clone());
                    self.is_over = true;
                    let session = self.processes.session_view(session);
                    return Ok(Some(Followed::Ended(Box::new(session))));
                }
            }
        }
    }
}
