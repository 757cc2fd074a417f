//! The output of a session as it comes, from any place on, and then its end.

use std::sync::Arc;

use countersign_domain::{AgentId, Principal, ProcessKind, Run, RunId};
use countersign_ledger::{
    ProcessSession,
    events::{EventFilter, Start, Subscription},
};

use super::{
    ProcessError, Processes,
    reader::{OutputReader, OutputText},
    session::Session,
};

use crate::{records::OutputBytes, reply::StorageTrouble};

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

/// Output of a run as it comes.
#[derive(Debug)]
struct Growing {
    processes: Arc<Processes>,
    run_id: RunId,
    reader: OutputReader,
    form: OutputForm,
}

/// A caller who follows a session.
#[derive(Debug)]
pub struct SessionFollower {
    output: Growing,
    session: ProcessSession,
    is_over: bool,
}

/// A caller who looks at the terminal of a session.
#[derive(Debug)]
pub struct TerminalWatch {
    processes: Arc<Processes>,
    session: ProcessSession,
    /// How much output there was at the last look; `None` before the first one.
    seen: Option<Seen>,
    is_over: bool,
}

/// How much of the output of a run there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// So many bytes, of a run that goes on.
    SoFar(u64),
    /// All of it.
    All,
}

/// What a caller who looks at a terminal gets next.
#[derive(Debug)]
pub enum Watched {
    /// There is more in the recording than before.
    More(OutputBytes),
    /// The session has ended, and all of its recording was there before.
    Ended(Box<Session>),
}

/// A caller who follows the output of a run, which may not have started yet.
#[derive(Debug)]
pub struct RunFollower {
    output: Growing,
    changes: Subscription,
    is_over: bool,
}

/// What a follower of a run gets next.
#[derive(Debug, Clone, PartialEq)]
pub enum RunFollowed {
    /// Output, in order of arrival.
    Output(Vec<OutputText>),
    /// The run has ended, and all of its output was there before.
    Ended(Box<Run>),
}

impl Processes {
    /// Follows a session after so many bytes of its output.
    ///
    /// # Errors
    /// [`ProcessError`] when there is no such session for this caller.
    #[crate::compiled_once]
    pub async fn follow<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        agent: Option<AgentId>,
        id: &str,
        after: u64,
        form: OutputForm,
    ) -> Result<SessionFollower, ProcessError> {
        let scope = self.session_scope(caller, agent)?;
        let session = self.find_session(&scope, id).await?;
        Ok(SessionFollower {
            output: Growing::new(self, session.run.id.clone(), after, form),
            session,
            is_over: false,
        })
    }

    /// Looks at the terminal of a session.
    ///
    /// # Errors
    /// [`ProcessError`] when there is no such session for this caller, or it has no terminal.
    #[crate::compiled_once]
    pub async fn watch_terminal<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        agent: Option<AgentId>,
        id: &str,
    ) -> Result<TerminalWatch, ProcessError> {
        let scope = self.session_scope(caller, agent)?;
        let session = self.find_session(&scope, id).await?;
        if session.kind != ProcessKind::Run || !session.run.pty {
            return Err(ProcessError::Invalid {
                path: "encoding",
                message: "the session has no terminal, so it has no screen".to_owned(),
            });
        }
        Ok(TerminalWatch {
            processes: Arc::clone(self),
            session,
            seen: None,
            is_over: false,
        })
    }

    /// Follows a run after so many bytes of its output; `None` when the caller may not see it.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn follow_run<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        id: &RunId,
        after: u64,
    ) -> Result<Option<RunFollower>, StorageTrouble> {
        let filter = EventFilter {
            run_id: Some(id.clone()),
            ..EventFilter::default()
        };
        let changes = self.ledger.subscribe(filter, Start::Now);
        let run = self.records.run(caller, id).await?;
        Ok(run.map(|run| RunFollower {
            output: Growing::new(self, run.id, after, OutputForm::Text),
            changes,
            is_over: false,
        }))
    }
}

impl Growing {
    fn new(processes: &Arc<Processes>, run_id: RunId, after: u64, form: OutputForm) -> Self {
        Self {
            processes: Arc::clone(processes),
            run_id,
            reader: OutputReader::at(after),
            form,
        }
    }

    /// What comes next; `None` while nothing runs and nothing is left to be read.
    ///
    /// # Cancel safety
    /// Cancelled, it has lost nothing.
    async fn next(&mut self) -> Result<Option<Vec<OutputText>>, StorageTrouble> {
        loop {
            // Before the look, so that nothing falls between it and the wait.
            let live = self.processes.live.unfinished(&self.run_id);
            let seen = live.as_ref().map(|live| live.watch_seen());
            let mut pieces = self
                .reader
                .read(&self.processes.records, &self.run_id, STEP)
                .await?;
            let is_nothing = pieces.is_empty();
            // A piece of a character is told with its end.
            pieces.retain(|piece| self.form == OutputForm::Bytes || !piece.text.is_empty());
            if !pieces.is_empty() {
                return Ok(Some(pieces));
            }
            match (live, seen) {
                (Some(live), Some(mut seen)) => tokio::select! {
                    // The sender lives as long as `live`.
                    _changed = seen.changed() => {}
                    _ended = live.ended() => {}
                },
                _ if !is_nothing => {}
                _ => return Ok(None),
            }
        }
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
    #[crate::compiled_once]
    pub async fn next(&mut self) -> Result<Option<Followed>, StorageTrouble> {
        if self.is_over {
            return Ok(None);
        }
        if let Some(pieces) = self.output.next().await? {
            return Ok(Some(Followed::Output(pieces)));
        }
        let processes = &self.output.processes;
        if self.session.kind == ProcessKind::Leftovers {
            processes.live.is_gone(&self.output.run_id).await;
        }
        let now = processes.ledger.process_session(&self.session.id).await?;
        let session = now.unwrap_or_else(|| self.session.clone());
        self.is_over = true;
        let session = processes.session_view(session);
        Ok(Some(Followed::Ended(Box::new(session))))
    }
}

impl TerminalWatch {
    /// What comes next; `None` after the end.
    ///
    /// # Errors
    /// [`StorageTrouble`]; calling again tries again.
    ///
    /// # Cancel safety
    /// Cancelled, it has lost nothing.
    #[crate::compiled_once]
    pub async fn next(&mut self) -> Result<Option<Watched>, StorageTrouble> {
        if self.is_over {
            return Ok(None);
        }
        let Self {
            processes,
            session,
            seen,
            ..
        } = self;
        loop {
            // Before the look, so that nothing falls between it and the wait.
            let live = processes.live.unfinished(&session.run.id);
            let mut changes = live.as_ref().map(|live| live.watch_seen());
            let now = changes
                .as_mut()
                .map_or(Seen::All, |changes| Seen::SoFar(*changes.borrow_and_update()));
            if *seen != Some(now)
                && let Some(recording) = processes.records.recording(&session.run).await?
            {
                *seen = Some(now);
                return Ok(Some(Watched::More(recording)));
            }
            let (Some(live), Some(mut changes)) = (live, changes) else {
                break;
            };
            tokio::select! {
                // The sender lives as long as `live`.
                _changed = changes.changed() => {}
                _ended = live.ended() => {}
            }
        }
        let now = processes.ledger.process_session(&session.id).await?;
        let session = now.unwrap_or_else(|| session.clone());
        let session = processes.session_view(session);
        self.is_over = true;
        Ok(Some(Watched::Ended(Box::new(session))))
    }
}

impl RunFollower {
    /// What comes next; `None` after the end, or when the run's record went.
    ///
    /// # Errors
    /// [`StorageTrouble`]; calling again tries again.
    ///
    /// # Cancel safety
    /// Cancelled, it has lost nothing.
    #[crate::compiled_once]
    pub async fn next(&mut self) -> Result<Option<RunFollowed>, StorageTrouble> {
        while !self.is_over {
            // Before the output: when the run had ended by then, all of its output was there.
            let Some(run) = self.output.processes.ledger.run(&self.output.run_id).await? else {
                break;
            };
            if let Some(pieces) = self.output.next().await? {
                return Ok(Some(RunFollowed::Output(pieces)));
            }
            if run.status.is_final() {
                self.is_over = true;
                return Ok(Some(RunFollowed::Ended(Box::new(run))));
            }
            let change = self.changes.next().await;
            if change
                .map_err(|_unreadable| StorageTrouble::Unavailable)?
                .is_none()
            {
                break;
            }
        }
        Ok(None)
    }
}
