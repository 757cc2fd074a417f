//! Looking things up, each for those who may see it.

mod agents;
mod overview;

use std::sync::Arc;

use bytes::Bytes;

use countersign_config::settings::SettingsStore;
use countersign_domain::{
    Approval, ApprovalId, ApprovalStatus, EnvOverrides, Host, IdPart, PatternWidth, Principal, Proposal,
    Ruling, Run, RunId, Scope, proposals, would_cover,
};
use countersign_hosts::gateway::GatewayHost;
use countersign_ledger::{
    ApprovalFilter, ApprovalRow, Ledger, LedgerError, Listing, Page, RunFilter, StoredOutput,
};
use countersign_runner::output::{Capture, Captured, spool};

pub use agents::KnownAgent;

use crate::{
    capture,
    live::LiveRuns,
    reply::{CancelError, DecideError, ExecError, StorageTrouble},
    watch::PolicySource,
};

/// Where the exact bytes of a run's output are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputBytes {
    /// Here, in the spool's frames.
    Frames(Bytes),
    /// In a spool file.
    Spool(std::path::PathBuf),
}

/// So many candidates are counted for a part of an id.
const MOST_WITH_PART: u32 = 100;
/// So many of the latest questions a proposal is tried on.
const COUNTED_QUESTIONS: usize = 20;

/// How many of the latest questions of an agent entries would have covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covered {
    /// So many.
    pub covered: u64,
    /// Of so many.
    pub of: u64,
}

/// What is on record of runs, approvals and agents.
#[derive(Debug)]
pub struct Records {
    ledger: Ledger,
    /// Has the spools.
    gateway: GatewayHost,
    live: Arc<LiveRuns>,
    settings: Arc<SettingsStore>,
    policy: Arc<PolicySource>,
}

impl Records {
    /// Joins them: the record, the spools, what still runs, how much of its output is shown, and where agents are named.
    pub(crate) fn new(
        ledger: Ledger,
        gateway: GatewayHost,
        live: Arc<LiveRuns>,
        settings: Arc<SettingsStore>,
        policy: Arc<PolicySource>,
    ) -> Self {
        Self {
            ledger,
            gateway,
            live,
            settings,
            policy,
        }
    }

    /// A run, if the caller may see it: callers with only `exec` see their own.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn run(&self, caller: &Principal, id: &RunId) -> Result<Option<Run>, StorageTrouble> {
        let run = self.ledger.run(id).await?;
        Ok(run
            .filter(|run| may_see(caller, run))
            .map(|run| self.with_live_tail(run)))
    }

    /// The runs that the caller may see and whose ids begin or end so, some of them where there are many.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn runs_with_part(
        &self,
        caller: &Principal,
        part: IdPart,
    ) -> Result<Vec<RunId>, StorageTrouble> {
        let filter = RunFilter {
            id_part: Some(part),
            ..RunFilter::default()
        };
        let found = self.runs(caller, filter, Page::first(MOST_WITH_PART)).await?;
        Ok(found.items.into_iter().map(|run| run.id).collect())
    }

    /// The approvals of the agents that the caller has authority over whose ids begin or end so, some of them where there are
    /// many.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approvals_with_part(
        &self,
        caller: &Principal,
        part: IdPart,
    ) -> Result<Vec<ApprovalId>, StorageTrouble> {
        let filter = ApprovalFilter {
            id_part: Some(part),
            authority: caller.authority.clone(),
            ..ApprovalFilter::default()
        };
        let found = self
            .ledger
            .approval_rows(filter, Page::first(MOST_WITH_PART))
            .await?;
        Ok(found.items.into_iter().map(|row| row.id).collect())
    }

    /// Who decided about a run.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn ruling_on(&self, run: &Run) -> Result<Ruling, StorageTrouble> {
        let question = match &run.approval_id {
            Some(id) => self.ledger.approval(id).await?,
            None => None,
        };
        Ok(Ruling::on(run, question.as_ref()))
    }

    /// A run with who decided about it, for the caller whose call it is.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn judged(&self, id: &RunId) -> Result<Option<(Run, Ruling)>, StorageTrouble> {
        let Some(run) = self.ledger.run(id).await? else {
            return Ok(None);
        };
        let ruling = self.ruling_on(&run).await?;
        Ok(Some((run, ruling)))
    }

    /// Runs that the caller may see, newest first.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
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
    #[crate::compiled_once]
    pub async fn output_text(&self, run: &Run) -> Result<Captured, StorageTrouble> {
        if let Some(live) = self.live.unfinished(&run.id) {
            return Ok(live.with_capture(|capture| capture.captured()));
        }
        let limits = capture::limits(&self.settings);
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
                let read = tokio::task::spawn_blocking(move || capture::read_spool(&path, limits)).await;
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
    #[crate::compiled_once]
    pub async fn output_bytes(&self, id: &RunId) -> Result<Option<OutputBytes>, StorageTrouble> {
        Ok(self.ledger.output(id).await?.map(|stored| match stored {
            StoredOutput::Inline(frames) => OutputBytes::Frames(frames.into()),
            StoredOutput::Spooled => OutputBytes::Spool(self.gateway.spool(id)),
        }))
    }

    /// Where the output of a run is with its times, of one that goes on as far as it has come; `None` when there is no such run.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn recording(&self, run: &Run) -> Result<Option<OutputBytes>, StorageTrouble> {
        if self.live.unfinished(&run.id).is_none() {
            return self.output_bytes(&run.id).await;
        }
        let spool = self.gateway.spool(&run.id);
        // It has the times, unless it could not be made.
        if run.pty && run.host != Host::Node && tokio::fs::try_exists(&spool).await.unwrap_or(false) {
            return Ok(Some(OutputBytes::Spool(spool)));
        }
        let so_far = self.output_after(&run.id, 0).await?;
        Ok(Some(
            so_far.unwrap_or_else(|| OutputBytes::Frames(Vec::new().into())),
        ))
    }

    /// Where the bytes of a run's output are, of one that goes on those so far; `None` when none follows so many.
    pub(crate) async fn output_after(
        &self,
        id: &RunId,
        offset: u64,
    ) -> Result<Option<OutputBytes>, StorageTrouble> {
        let Some(live) = self.live.unfinished(id) else {
            return self.output_bytes(id).await;
        };
        if live.seen() <= offset {
            return Ok(None);
        }
        Ok(Some(match live.frames() {
            Some(frames) => OutputBytes::Frames(frames.into()),
            None => OutputBytes::Spool(self.gateway.spool(id)),
        }))
    }

    /// How many characters of an output are kept.
    pub(crate) fn kept_chars(&self) -> usize {
        capture::limits(&self.settings).max_chars
    }

    /// Approvals of the agents that the caller has authority over, newest first; with the values of overrides for those who
    /// may answer.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
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

    /// The same approvals without their cards, newest first.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approval_rows(
        &self,
        caller: &Principal,
        mut filter: ApprovalFilter,
        page: Page,
    ) -> Result<Listing<ApprovalRow>, StorageTrouble> {
        filter.authority.clone_from(&caller.authority);
        Ok(self.ledger.approval_rows(filter, page).await?)
    }

    /// Those of these approvals, in their order, that [`Records::approval`] answers this caller.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approvals_by_ids(
        &self,
        caller: &Principal,
        ids: Vec<ApprovalId>,
    ) -> Result<Vec<Approval>, StorageTrouble> {
        let approvals = self.ledger.approvals_by_ids(ids).await?.into_iter();
        let seen = approvals.filter(|approval| caller.may_act_for(&approval.card.binding.agent));
        Ok(seen.map(|approval| for_eyes_of(caller, approval)).collect())
    }

    /// One approval, if the caller has authority over its agent; with the values of its overrides for those who may answer.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approval(
        &self,
        caller: &Principal,
        id: &ApprovalId,
    ) -> Result<Option<Approval>, StorageTrouble> {
        let approval = self.ledger.approval_with_env(id).await?;
        let approval = approval.filter(|approval| caller.may_act_for(&approval.card.binding.agent));
        Ok(approval.map(|approval| for_eyes_of(caller, approval)))
    }

    /// For each way to remember a question that waits: how many of the latest questions of its agent it would have covered.
    /// A question that takes several people, or that nothing can be remembered of, is covered by nothing.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn would_have_covered(
        &self,
        caller: &Principal,
        approval: &Approval,
    ) -> Result<Vec<(PatternWidth, Covered)>, StorageTrouble> {
        let proposals = proposals(&approval.card.proposed_patterns);
        if proposals.is_empty() || approval.state.status() != ApprovalStatus::Pending {
            return Ok(Vec::new());
        }
        let filter = ApprovalFilter {
            agent: Some(approval.card.binding.agent.clone()),
            ..ApprovalFilter::default()
        };
        // One of them may be the question itself.
        let page = Page::first(u32::try_from(COUNTED_QUESTIONS + 1).unwrap_or(u32::MAX));
        let Listing { items, next: _ } = self.approvals(caller, filter, page).await?;
        let others = items.iter().filter(|asked| asked.id != approval.id);
        let asked: Vec<&Approval> = others.take(COUNTED_QUESTIONS).collect();
        let covered_by = |proposal: Proposal| {
            let is_covered = |asked: &&&Approval| {
                !asked.card.is_for_people() && would_cover(&proposal.stores, &asked.card.proposed_patterns)
            };
            let covered = asked.iter().filter(is_covered).count();
            let of = asked.len();
            (
                proposal.id,
                Covered {
                    covered: u64::try_from(covered).unwrap_or(u64::MAX),
                    of: u64::try_from(of).unwrap_or(u64::MAX),
                },
            )
        };
        Ok(proposals.into_iter().map(covered_by).collect())
    }

    fn with_live_tail(&self, mut run: Run) -> Run {
        if let Some(live) = self.live.unfinished(&run.id) {
            let limit = capture::limits(&self.settings).tail_chars;
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
            LedgerError::ReadOnly => Self::ReadOnly,
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

impl From<LedgerError> for DecideError {
    fn from(error: LedgerError) -> Self {
        match error.into_stop() {
            Ok(stop) => Self::Stopped(stop),
            Err(error) => Self::Storage(error.into()),
        }
    }
}

impl From<LedgerError> for CancelError {
    fn from(error: LedgerError) -> Self {
        Self::Storage(error.into())
    }
}
