//! Whether the server can do its work, and what is wrong where it cannot.

use std::{sync::Arc, time::Duration};

use countersign_config::{
    approvals::store::DocumentStatus,
    settings::{Settings, WaitsFor},
};
use countersign_domain::{AgentId, HostChoice};
use countersign_hosts::{gateway::GatewayHost, sandbox::SandboxHost};
use countersign_ledger::{Health as LedgerHealth, Ledger, audit::ProblemKind};
use countersign_sys::{
    clock::Clock,
    descriptors::{SPARE_DESCRIPTORS, has_spare_descriptors},
};

use crate::{lifecycle::Lifecycle, socket::ApprovalsSocket, watch::PolicySource};

/// Whether the server can do its work (`docs/spec/http-api.md#probes`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// The ledger can be written.
    pub database: Check,
    /// The machine gives what a command needs.
    pub machine: Check,
    /// The audit record was whole at the start, as far as its end shows.
    pub record: Check,
    /// The approvals document can be used.
    pub document: Check,
    /// The settings files are as they are in force.
    pub config: Check,
    /// Commands can be started.
    pub runner: Check,
    /// Where commands go to the sandbox unless something else is said, and one was looked for: whether there is one.
    pub sandbox: Option<Check>,
    /// The approvals socket is hosted where it should be.
    pub ipc: Check,
    /// The clock of the machine shows the server's time.
    pub clock: Check,
    /// The server is stopping.
    pub draining: bool,
    /// A changed setting waits for a restart. Which one is for those who may read.
    pub restart_needed: bool,
    /// Everything is stopped. Who did that, when and why is for those who may read.
    pub stopped: bool,
}

/// One condition of [`Readiness`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// True exactly when `detail` is `None`.
    pub ok: bool,
    /// What is wrong and what would help, for people; `None` when all is well.
    pub detail: Option<String>,
}

impl Check {
    fn of(problem: Option<String>) -> Self {
        Self {
            ok: problem.is_none(),
            detail: problem,
        }
    }
}

/// Says whether the server can do its work.
#[derive(Debug)]
pub struct Health {
    pub(crate) policy: Arc<PolicySource>,
    pub(crate) ledger: Ledger,
    pub(crate) gateway: GatewayHost,
    pub(crate) sandbox: SandboxHost,
    pub(crate) socket: Arc<ApprovalsSocket>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// How far the server's time may be ahead of the machine's clock before that is said.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(2);

impl Health {
    /// Whether the server can do its work.
    pub fn readiness(&self) -> Readiness {
        let in_effect = self.policy.refresh();
        Readiness {
            database: Check::of(match self.ledger.health() {
                LedgerHealth::Ready => None,
                LedgerHealth::StorageFull => {
                    Some("no space is left for the ledger, or no more files fit on its disk".to_owned())
                }
                LedgerHealth::Gone => Some(
                    "the state directory or the ledger in it was deleted, moved or replaced; restart the server"
                        .to_owned(),
                ),
                LedgerHealth::ReadOnly => {
                    Some("the file system of the state directory is read-only".to_owned())
                }
                LedgerHealth::Unavailable => Some("the ledger cannot be written".to_owned()),
            }),
            machine: Check::of((!has_spare_descriptors(SPARE_DESCRIPTORS)).then(|| {
                "the server may open no more files: too many connections or commands for its limit of open files"
                    .to_owned()
            })),
            record: Check::of(self.ledger.broken_record().map(|kind| match kind {
                ProblemKind::Forgotten => "the ledger lost the records of runs that were started, which are recorded as lost; \
                                           countersign audit verify says more"
                    .to_owned(),
                ProblemKind::Edited
                | ProblemKind::Missing
                | ProblemKind::Reordered
                | ProblemKind::Truncated
                | ProblemKind::Forged => {
                    format!("the audit record was tampered with ({kind}); countersign audit verify says more")
                }
            })),
            document: Check::of(match &in_effect.document.status {
                DocumentStatus::Missing | DocumentStatus::Ok => in_effect.pending_document.as_ref().map(|held| {
                    format!(
                        "a change allows more than was accepted and is held; {} accepts it with: countersign policy \
                         accept {}",
                        held.who_accepts(),
                        held.hash
                    )
                }),
                DocumentStatus::Refused(refusal) => Some(refusal.to_string()),
            }),
            // Anybody may ask, and the message names files of this machine.
            config: Check::of(
                self.policy.config_error(&in_effect)
                    .map(|_message| "a settings file was rejected or is held; the last good settings hold".to_owned()),
            ),
            runner: Check::of(
                (!self.gateway.runner().is_there())
                    .then(|| "the runner is gone; runs wait for another one, or fail".to_owned()),
            ),
            sandbox: self.sandbox_check(&in_effect.settings),
            // Anybody may ask, and what stands against it names files of this machine.
            ipc: Check::of(
                self.socket.is_missing()
                    .then(|| "the approvals socket cannot be hosted; countersign doctor says why".to_owned()),
            ),
            clock: Check::of(self.clock_behind().map(|behind| {
                format!(
                    "the clock of the machine was set back: the time of the server goes on and is {} minutes ahead of it",
                    behind.as_secs() / 60
                )
            })),
            draining: self.lifecycle.is_draining(),
            restart_needed: in_effect
                .settings
                .waiting
                .iter()
                .any(|waiting| waiting.waits_for == WaitsFor::Restart),
            stopped: self.ledger.stopped().is_some(),
        }
    }

    /// How far the clock of the machine is behind the time of the server, if that is worth saying.
    fn clock_behind(&self) -> Option<Duration> {
        let behind = self.clock.now().since(self.clock.wall());
        (behind > CLOCK_TOLERANCE).then_some(behind)
    }

    /// Nothing is looked for here: who asks whether the server is ready asks often.
    fn sandbox_check(&self, settings: &Settings) -> Option<Check> {
        let main = AgentId::main();
        let goes_there =
            settings.policy.host(&main).last().map(|said| said.value) == Some(HostChoice::Sandbox);
        let image = &settings.policy.sandbox(&main).docker.image;
        let answer = self.sandbox.last_answer(image).filter(|_| goes_there)?;
        // Anybody may ask, and what is missing names files of this machine.
        Some(Check::of(answer.err().map(|_missing| {
            "no sandbox is usable; countersign doctor says why".to_owned()
        })))
    }
}
