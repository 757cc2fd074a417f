//! The process tool: sessions that go on without anybody waiting, and what can be done with them
//! (`docs/spec/exec-tool.md#8-the-process-tool`).
//!
//! The ledger knows which sessions there are, so they survive the server; what goes on is with `super::live`.
//! Invariant: nobody sees or touches a session of another agent. Entry points: [`Processes::call`],
//! [`Processes::sessions`], [`Processes::follow`].

mod act;
mod follow;
mod input;
mod names;
mod paging;
mod poll;
mod reader;
mod recording;
mod retention;
mod session;
mod state;

use std::{sync::Arc, time::Duration};

pub use follow::{Followed, OutputForm, RunFollowed, RunFollower, SessionFollower, TerminalWatch, Watched};
pub use input::Input;
pub use paging::LogPage;
pub use reader::OutputText;
pub(super) use retention::SessionRetention;
pub use session::Session;
pub(super) use state::ProcessState;

use countersign_domain::{AgentId, Stop, TerminalSize};
use countersign_ledger::{Ledger, LedgerError};
use countersign_sys::clock::Clock;

use crate::{
    base::Base,
    live::LiveRuns,
    records::Records,
    reply::{StorageTrouble, Warning},
    stop_switch::StopSwitch,
    watch::PolicySource,
};

/// The longest that a poll waits (`docs/spec/exec-tool.md#8-the-process-tool`).
pub const MAX_POLL: Duration = Duration::from_secs(30);

/// What is asked of the process tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessAction {
    /// All sessions, newest first.
    List,
    /// The output since the last poll of this token, waiting so long for some.
    Poll {
        /// Which one, by [`Session::id`].
        session: String,
        /// At most [`MAX_POLL`].
        timeout: Duration,
    },
    /// Lines of the whole output.
    Log {
        /// Which one, by [`Session::id`].
        session: String,
        /// The first line, counted from 0.
        offset: Option<usize>,
        /// How many lines.
        limit: Option<usize>,
    },
    /// Something for its standard input.
    Input {
        /// Which one, by [`Session::id`].
        session: String,
        /// What to write, or that it ends.
        input: Input,
    },
    /// Another size for its terminal.
    Resize {
        /// Which one, by [`Session::id`].
        session: String,
        /// Its rows and columns from now on.
        size: TerminalSize,
    },
    /// End it with everything that it started.
    Kill {
        /// Which one, by [`Session::id`].
        session: String,
    },
    /// Forget it; it must have ended.
    Clear {
        /// Which one, by [`Session::id`].
        session: String,
    },
    /// End it if it still runs, and forget it.
    Remove {
        /// Which one, by [`Session::id`].
        session: String,
    },
}

/// What the process tool answers.
#[derive(Debug, Clone, PartialEq)]
pub enum ProcessReply {
    /// Sessions, newest first.
    List(Vec<Session>),
    /// The output since the last poll.
    Polled {
        /// How the session stands.
        session: Box<Session>,
        /// New output as text that is safe to show, with all of a pseudo-terminal's; may be empty.
        stdout: String,
        /// New standard error as text that is safe to show; may be empty.
        stderr: String,
    },
    /// Lines of the output.
    Logged {
        /// How the session stands.
        session: Box<Session>,
        /// The lines.
        page: LogPage,
    },
    /// The input was handed to the session.
    Taken {
        /// How the session stands.
        session: Box<Session>,
        /// What was otherwise than the caller may think.
        warnings: Vec<Warning>,
    },
    /// The session as it stands, or stood when it was forgotten.
    Session(Box<Session>),
}

/// Why the process tool did nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProcessError {
    /// The token is not bound to this agent.
    #[error("the token may not act for this agent")]
    AgentNotAllowed,
    /// Tool policy denies the tool.
    #[error("the process tool is denied")]
    ToolDenied {
        /// The key that does.
        key: String,
    },
    /// There is no such session of this agent.
    #[error("no such session")]
    NotFound,
    /// The action needs a session that still runs; this is how it ended.
    #[error("the session has ended")]
    Ended(Box<Session>),
    /// It reads end of file: its input was wanted open, and what covers it does not include that.
    #[error("the input of the session is closed")]
    InputClosed(Box<Session>),
    /// Only an ended session can be cleared; this is how it stands.
    #[error("the session still runs")]
    StillRuns(Box<Session>),
    /// The call cannot be meant as it stands.
    #[error("{message}")]
    Invalid {
        /// The member of the body.
        path: &'static str,
        /// What is wrong, in words for people.
        message: String,
    },
    /// The command does not read its input; nothing was written.
    #[error("the command does not read its input")]
    NotTaken,
    /// The emergency stop is in effect, so nothing is written to running commands.
    #[error("everything is stopped")]
    Stopped(Arc<Stop>),
    /// The ledger cannot be used.
    #[error("the ledger cannot be used")]
    Storage(#[from] StorageTrouble),
}

/// The process tool.
#[derive(Debug)]
pub struct Processes {
    ledger: Ledger,
    records: Arc<Records>,
    live: Arc<LiveRuns>,
    state: Arc<ProcessState>,
    retention: Arc<SessionRetention>,
    policy: Arc<PolicySource>,
    clock: Arc<dyn Clock>,
    switch: Arc<StopSwitch>,
}

impl Processes {
    pub(super) fn new(base: &Base, state: Arc<ProcessState>, retention: Arc<SessionRetention>) -> Self {
        Self {
            ledger: base.ledger.clone(),
            records: Arc::clone(&base.records),
            live: Arc::clone(&base.live),
            state,
            retention,
            policy: Arc::clone(&base.policy),
            clock: Arc::clone(&base.clock),
            switch: Arc::clone(&base.switch),
        }
    }

    /// Takes the names of the sessions that there are, so that no other gets one of them.
    pub(super) async fn take_names(&self) -> Result<(), LedgerError> {
        for (session_id, _agent) in self.ledger.session_ids().await? {
            self.state.take(session_id);
        }
        Ok(())
    }
}

impl ProcessAction {
    /// The session that it is about.
    fn session(&self) -> Option<&str> {
        match self {
            Self::List => None,
            Self::Poll { session, .. }
            | Self::Log { session, .. }
            | Self::Input { session, .. }
            | Self::Resize { session, .. }
            | Self::Kill { session }
            | Self::Clear { session }
            | Self::Remove { session } => Some(session),
        }
    }
}

/// A call of the process tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessCall {
    /// The agent whose sessions it is about; the caller must have authority over it.
    pub agent: AgentId,
    /// What to do, and with which session.
    pub action: ProcessAction,
}
