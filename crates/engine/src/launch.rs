//! A launch: what a permit lets begin, with everything that its start and its supervision take.

use std::{sync::Arc, time::Duration};

use countersign_domain::{AgentId, Host, Run, RunId, TerminalSize};
use countersign_hosts::{Attempt, sandbox::Placement};
use countersign_ledger::launch::Permit;
use countersign_sys::process::monotonic;

use crate::slots::Slot;

/// Who a run goes on for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Its caller, without whom it ends.
    Caller,
    /// Its caller, who may leave and come back for it.
    CallerWithKey,
    /// Nobody: it is a process session of this id.
    Session(String),
}

impl Holder {
    /// Whether the run goes on when its caller, or this server, is gone.
    pub(crate) const fn outlives_caller(&self) -> bool {
        match self {
            Self::Caller => false,
            Self::CallerWithKey | Self::Session(_) => true,
        }
    }
}

/// What a run under this server's supervision has besides its supervisor.
#[derive(Debug)]
pub(crate) struct Supervision {
    pub(crate) run_id: RunId,
    pub(crate) agent: AgentId,
    pub(crate) host: Host,
    /// Its time limit.
    pub(crate) timeout: Option<Duration>,
    /// The place it takes.
    pub(crate) slot: Slot,
    /// Who it goes on for.
    pub(crate) holder: Holder,
    /// Whether its standard input stays open.
    pub(crate) stdin_open: bool,
    /// The pseudo-terminal that it has instead of pipes.
    pub(crate) terminal: Option<TerminalSize>,
    /// After how long its being alive is reported, once (`tools.exec.approvalRunningNoticeMs`); only for runs
    /// that a person allowed.
    pub(crate) notice_after: Option<Duration>,
    /// When it was permitted, by the monotonic clock; known of one that this server starts.
    pub(crate) permitted_at: Option<Duration>,
}

impl Supervision {
    /// What a run of an earlier server has.
    pub(crate) fn resumed(run: &Run, slot: Slot) -> Self {
        Self {
            run_id: run.id.clone(),
            agent: run.agent.clone(),
            host: run.host,
            timeout: run.timeout,
            slot,
            holder: run
                .session_id
                .clone()
                .map_or(Holder::CallerWithKey, Holder::Session),
            stdin_open: run.input.is_open(),
            terminal: run.pty.then_some(TerminalSize::DEFAULT),
            notice_after: None,
            permitted_at: None,
        }
    }
}

/// What a permit lets begin, with everything that its start takes. Only a start consumes it.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) permit: Permit,
    pub(crate) supervision: Supervision,
    pub(crate) attempt: Attempt,
    /// The sandbox, which must be the one that the permit is bound to.
    pub(crate) placement: Option<Arc<Placement>>,
}

impl Launch {
    /// A first start, in the place that was taken for it.
    pub(crate) fn first(permit: Permit, slot: Slot, holder: Holder) -> Self {
        let binding = permit.binding();
        let supervision = Supervision {
            run_id: permit.run_id().clone(),
            agent: binding.agent.clone(),
            host: binding.host,
            timeout: millis(binding.timeout_ms),
            slot,
            holder,
            stdin_open: binding.input.is_open(),
            terminal: binding.pty.then_some(TerminalSize::DEFAULT),
            notice_after: None,
            permitted_at: Some(monotonic()),
        };
        Self {
            permit,
            supervision,
            attempt: Attempt::First,
            placement: None,
        }
    }

    /// A start that an earlier server may have begun.
    pub(crate) fn again(permit: Permit, supervision: Supervision) -> Self {
        Self {
            permit,
            supervision: Supervision {
                permitted_at: Some(monotonic()),
                ..supervision
            },
            attempt: Attempt::Again,
            placement: None,
        }
    }

    /// Into this sandbox, if into any.
    pub(crate) fn inside(self, placement: Option<Arc<Placement>>) -> Self {
        Self { placement, ..self }
    }

    /// With a notice that it still runs after so long.
    pub(crate) fn noticed_after(mut self, notice_after: Option<Duration>) -> Self {
        self.supervision.notice_after = notice_after;
        self
    }

    pub(crate) const fn host(&self) -> Host {
        self.supervision.host
    }

    /// What a node is called with; it takes neither a sandbox nor a second attempt.
    pub(crate) fn into_call(self) -> (Permit, Supervision) {
        (self.permit, self.supervision)
    }
}

/// A time limit as records have it: 0 for none.
pub(crate) fn millis(millis: u64) -> Option<Duration> {
    (millis != 0).then(|| Duration::from_millis(millis))
}
