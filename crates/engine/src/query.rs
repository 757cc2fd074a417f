//! Looking things up, each for those who may see it.

use std::sync::Arc;

use bytes::Bytes;

use countersign_config::{
    approvals::{broker::ApproverGuard, store::DocumentStatus},
    settings::Settings,
};
use countersign_domain::{
    AgentId, Approval, ApprovalId, EnvOverrides, HostChoice, Principal, Run, RunId, Scope,
};
use countersign_ledger::{ApprovalFilter, Health, LedgerError, Listing, Page, RunFilter, StoredOutput};
use countersign_runner::output::{Capture, Captured, spool};
use countersign_sys::descriptors::{SPARE_DESCRIPTORS, has_spare_descriptors};

use crate::{
    Engine,
    live::LiveRun,
    reply::{ExecError, StorageTrouble},
    supervise,
};

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

/// Where the exact bytes of a run's output are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputBytes {
    /// Here, in the spool's frames.
    Frames(Bytes),
    /// In a spool file.
    Spool(std::path::PathBuf),
}

impl Engine {
    /// A run, if the caller may see it: callers with only `exec` see their own.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    pub async fn run(&self, caller: &Principal, id: &RunId) -> Result<Option<Run>, StorageTrouble> {
        let run = self.ledger.run(id).await?;
        Ok(run
            .filter(|run| may_see(caller, run))
            .map(|run| self.with_live_tail(run)))
    }

    /// Runs that the caller may see, newest first.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    pub async fn runs(
        &self,
        caller: &Principal,
        mut filter: RunFilter,
        page: Page,
    ) -> Result<Listing<Run>, StorageTrouble> {
        if !caller.has(Scope::Read) {
            let Some(owner) = caller.actor.token() else {
                return Ok(Listing {
                    items: Vec::new(),
                    next: None,
                });
            };
            filter.owner = Some(owner);
        }
        filter.authority.clone_from(&caller.authority);
        let mut listing = self.ledger.runs(filter, page).await?;
        listing.items = listing
            .items
            .into_iter()
            .map(|run| self.with_live_tail(run))
            .collect();
        Ok(listing)
    }

    /// The output of a run as text, so far if it still runs.
    ///
    /// # Errors
    /// [`StorageTrouble`] when it cannot be read.
    pub async fn output_text(&self, run: &Run) -> Result<Captured, StorageTrouble> {
        if let Some(live) = self.live_run(&run.id) {
            return Ok(live.with_capture(|capture| capture.captured()));
        }
        let limits = self.capture_limits();
        let capture = match self.ledger.output(&run.id).await? {
            None => Capture::new(limits),
            Some(StoredOutput::Inline(frames)) => {
                let mut capture = Capture::new(limits);
                // Frames in memory cannot fail to be read; a torn last one is tolerated.
                if let Err(error) = spool::replay(std::io::Cursor::new(&frames), |stream, bytes| {
                    capture.push(stream, bytes);
                }) {
                    tracing::error!(run.id = %run.id, error = %error, "stored output is unreadable");
                }
                capture.finish();
                capture
            }
            Some(StoredOutput::Spooled) => {
                let path = self.gateway.spool(&run.id);
                let read = tokio::task::spawn_blocking(move || supervise::read_spool(&path, limits)).await;
                match read {
                    Ok(Ok(capture)) => capture,
                    Ok(Err(_)) | Err(_) => return Err(StorageTrouble::Unavailable),
                }
            }
        };
        Ok(capture.captured())
    }

    /// Where the exact bytes of a run's output are; `None` when there is no such run.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    pub async fn output_bytes(&self, id: &RunId) -> Result<Option<OutputBytes>, StorageTrouble> {
        Ok(self.ledger.output(id).await?.map(|stored| match stored {
            StoredOutput::Inline(frames) => OutputBytes::Frames(frames.into()),
            StoredOutput::Spooled => OutputBytes::Spool(self.gateway.spool(id)),
        }))
    }

    /// Approvals of the agents that the caller has authority over, newest first; with the values of overrides for those who
    /// may answer.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    pub async fn approvals(
        &self,
        caller: &Principal,
        mut filter: ApprovalFilter,
        page: Page,
    ) -> Result<Listing<Approval>, StorageTrouble> {
        filter.authority.clone_from(&caller.authority);
        let Listing { items, next } = self.ledger.approvals(filter, page).await?;
        let items = items.into_iter().map(|approval| for_eyes_of(caller, approval));
        Ok(Listing {
            items: items.collect(),
            next,
        })
    }

    /// One approval, if the caller has authority over its agent; with the values of its overrides for those who may answer.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    pub async fn approval(
        &self,
        caller: &Principal,
        id: &ApprovalId,
    ) -> Result<Option<Approval>, StorageTrouble> {
        let approval = self.ledger.approval_with_env(id).await?;
        let approval = approval.filter(|approval| caller.may_act_for(&approval.card.binding.agent));
        Ok(approval.map(|approval| for_eyes_of(caller, approval)))
    }

    /// Counts an approver for as long as the guard lives.
    pub fn approver_connected(&self) -> ApproverGuard {
        self.broker.approver_connected()
    }

    /// Whether the server can do its work.
    pub fn readiness(&self) -> Readiness {
        let in_effect = self.policy.refresh();
        Readiness {
            database: Check::of(match self.ledger.health() {
                Health::Ready => None,
                Health::StorageFull => {
                    Some("no space is left for the ledger, or no more files fit on its disk".to_owned())
                }
                Health::Gone => Some(
                    "the state directory or the ledger in it was deleted, moved or replaced; restart the server"
                        .to_owned(),
                ),
                Health::Unavailable => Some("the ledger cannot be written".to_owned()),
            }),
            machine: Check::of((!has_spare_descriptors(SPARE_DESCRIPTORS)).then(|| {
                "the server may open no more files: too many connections or commands for its limit of open files"
                    .to_owned()
            })),
            record: Check::of(self.ledger.broken_record().map(|kind| {
                format!("the audit record was tampered with ({kind}); countersign audit verify says more")
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
                self.misses_socket()
                    .then(|| "the approvals socket cannot be hosted; countersign doctor says why".to_owned()),
            ),
            draining: self.is_draining(),
            restart_needed: !in_effect.settings.waiting.is_empty(),
            stopped: self.stopped().is_some(),
        }
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

    /// A run that this server holds a line to and that has not ended: the ledger knows all of one that has.
    pub(super) fn live_run(&self, id: &RunId) -> Option<Arc<LiveRun>> {
        self.live.get(id).filter(|live| !live.has_ended())
    }

    fn with_live_tail(&self, mut run: Run) -> Run {
        if let Some(live) = self.live_run(&run.id) {
            let limit = self.capture_limits().tail_chars;
            run.tail = live.with_capture(|capture| capture.tail(limit));
            run.output_bytes = live.seen();
        }
        run
    }
}

/// Of the agents that they have authority over: callers with `read` see everything, approvers what they are asked
/// about, others their own.
pub(super) fn may_see(caller: &Principal, run: &Run) -> bool {
    let by_scope = caller.has(Scope::Read)
        || (caller.has(Scope::Approve) && run.approval_id.is_some())
        || is_own(caller, run);
    by_scope && caller.may_act_for(&run.agent)
}

/// The approval without the values of its overrides, unless they may answer it.
fn for_eyes_of(caller: &Principal, approval: Approval) -> Approval {
    if caller.has(Scope::Approve) {
        return approval;
    }
    Approval {
        waiting_env: EnvOverrides::default(),
        ..approval
    }
}

/// Whether the caller asked for the run.
pub(super) fn is_own(caller: &Principal, run: &Run) -> bool {
    caller.actor.is_same_party(&run.requested_by)
}

impl From<LedgerError> for StorageTrouble {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::StorageFull => Self::Full,
            LedgerError::Gone => Self::Gone,
            // Callers that can say why look for the stop first.
            LedgerError::Stopped(_) => Self::Unavailable,
            LedgerError::Unavailable(_)
            | LedgerError::Inconsistent(_)
            | LedgerError::Refused(_)
            | LedgerError::Closed => {
                tracing::error!(error = &error as &dyn std::error::Error, "the ledger failed");
                Self::Unavailable
            }
        }
    }
}

impl From<LedgerError> for ExecError {
    fn from(error: LedgerError) -> Self {
        match error.into_stop() {
            Ok(stop) => Self::Stopped(stop),
            Err(error) => Self::Storage(error.into()),
        }
    }
}

impl From<LedgerError> for super::reply::DecideError {
    fn from(error: LedgerError) -> Self {
        match error.into_stop() {
            Ok(stop) => Self::Stopped(stop),
            Err(error) => Self::Storage(error.into()),
        }
    }
}

impl From<LedgerError> for super::reply::CancelError {
    fn from(error: LedgerError) -> Self {
        Self::Storage(error.into())
    }
}
