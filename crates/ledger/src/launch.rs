//! Step 4 of the protocol: the one place that gives permission to start.
//!
//! A launch consumes what it consumes (an approval, a use of a grant) and moves its run to `launching` in one
//! transaction. Only when that is committed does a [`Permit`] exist; a host takes it by value, so a command
//! cannot be started without one, nor twice with one.
//!
//! A permit cannot be made elsewhere:
//!
//! ```compile_fail,E0451
//! fn forge(parts: countersign_ledger::launch::PermitParts) -> countersign_ledger::launch::Permit {
//!     countersign_ledger::launch::Permit { parts: parts.into() }
//! }
//! ```
//!
//! nor copied:
//!
//! ```compile_fail,E0599
//! fn copy(permit: &countersign_ledger::launch::Permit) -> countersign_ledger::launch::Permit {
//!     permit.clone()
//! }
//! ```
//!
//! nor read from text:
//!
//! ```compile_fail,E0277
//! fn read(text: &str) -> countersign_ledger::launch::Permit {
//!     serde_json::from_str(text).expect("a permit")
//! }
//! ```
//!
//! It can be looked at and used up:
//!
//! ```
//! fn use_up(permit: countersign_ledger::launch::Permit) -> countersign_domain::Binding {
//!     println!("{}", permit.run_id());
//!     permit.into_parts().binding
//! }
//! ```

use std::time::Duration;

use countersign_domain::{
    Actor, ApprovalId, ApprovalState, ApprovalStatus, Binding, CommandInput, DecidedBy, EntryId,
    EnvOverrides, Isolation, LaunchId, LaunchStanding, Launching, Reason, RelaunchStanding, RunDecision,
    RunId, RunStatus, RunVerdict, TextStart, UnixMillis, relaunch,
};
use countersign_sys::hooks;

use super::{
    approvals,
    config::{Durability, PolicyStamp, Tuning},
    error::{Fault, LedgerError},
    grants::{self, GrantUse},
    handle::Ledger,
    job::Job,
    node_runs::{self, NodeLaunch},
    run_end::{self, not_started},
    run_rows,
    sql::exactly_one,
    tx::{Committed, Tx},
    withdraw::{self, AskerGone},
};

/// Permission to start one run, once. Dropping it unused leaves the run `launching`: end it as not started.
#[derive(Debug)]
#[must_use = "a permit that is dropped leaves its run launching"]
pub struct Permit {
    parts: Box<PermitParts>,
}

/// What a permit allows, taken out of it by the host that starts it.
#[derive(Debug)]
pub struct PermitParts {
    /// The run that may start; it is `launching` in the ledger.
    pub run_id: RunId,
    /// The launch, as the fence records it.
    pub launch_id: LaunchId,
    /// What is started, exactly.
    pub binding: Binding,
    /// The accepted environment overrides.
    pub env: EnvOverrides,
    /// The level that the run's record names, and that an approver who allowed it saw: it runs at this one or not at
    /// all.
    pub isolation: Isolation,
    /// The start-by: after it the run must not start any more.
    pub not_after: UnixMillis,
    /// What it is launched with on its node, where the host is one.
    pub node: Option<NodeLaunch>,
    /// How its text is started, as the run's record names it. What a person answered for is started by the shell.
    pub start: Option<TextStart>,
    /// Whether a person may have answered for the scripts as they were: then an earlier step must not change them.
    pub answered: bool,
}

impl Permit {
    /// The same of a run that a person may have answered for.
    pub(super) fn answered(mut self) -> Self {
        self.parts.answered = true;
        self
    }

    /// The run that may start.
    pub const fn run_id(&self) -> &RunId {
        &self.parts.run_id
    }

    /// The launch, as the fence records it.
    pub const fn launch_id(&self) -> &LaunchId {
        &self.parts.launch_id
    }

    /// The start-by: after it the run must not start any more.
    pub const fn not_after(&self) -> UnixMillis {
        self.parts.not_after
    }

    /// What is started, exactly.
    pub const fn binding(&self) -> &Binding {
        &self.parts.binding
    }

    /// The level that the run's record names.
    pub const fn isolation(&self) -> Isolation {
        self.parts.isolation
    }

    /// The accepted environment overrides.
    pub const fn env(&self) -> &EnvOverrides {
        &self.parts.env
    }

    /// Uses the permit up.
    pub fn into_parts(self) -> PermitParts {
        *self.parts
    }
}

/// Under which conditions a run may start without anybody being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchTerms {
    /// What would be started, checked just now.
    pub binding: Binding,
    /// What can be written to it: what that of `binding` is without anybody's answer.
    pub input: CommandInput,
    /// The policy it was judged under.
    pub stamp: PolicyStamp,
    /// Grants with a limit that let it through.
    pub grants: Vec<GrantUse>,
    /// How long it may take to start.
    pub start_by: Duration,
    /// What it is launched with on its node, where the host is one.
    pub node: Option<NodeLaunch>,
}

impl LaunchTerms {
    /// What is started on these terms.
    pub(super) fn into_binding(self) -> Binding {
        Binding {
            input: self.input,
            ..self.binding
        }
    }

    /// How safe the commit must be that launches on these terms.
    pub(super) const fn durability(&self, tuning: &Tuning) -> Durability {
        // A loss of power here ends nothing that a node was told to run.
        if self.grants.is_empty() && self.node.is_none() {
            tuning.durability
        } else {
            Durability::Full
        }
    }
}

/// What became of a launch that nobody was asked about.
#[derive(Debug)]
pub enum LaunchOutcome {
    /// The run is recorded as `launching`, and may start.
    Launched(Permit),
    /// The policy changed since it was judged; nothing was written, judge again.
    Stale,
    /// A grant has no use left; nothing was written, judge again without it.
    UsedUp(EntryId),
    /// The token that asked was revoked or has expired. This run is recorded as `denied`, `approval-cancelled`.
    AskerGone(RunId),
}

/// Launches a run that a person allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedLaunch {
    /// The approval to consume.
    pub approval: ApprovalId,
    /// What would be started, checked just now.
    pub binding: Binding,
    /// The policy it was judged under just now.
    pub stamp: PolicyStamp,
    /// How long after the decision it may start.
    pub start_by: Duration,
    /// What it is launched with on its node, where the host is one.
    pub node: Option<NodeLaunch>,
    /// Nobody waits for it, or its caller may come back: it goes on, however its caller ends.
    pub outlives_caller: bool,
}

/// What became of the launch of an approved run.
#[derive(Debug)]
pub enum ApprovedOutcome {
    /// The approval is used up; it may start.
    Launched(Permit),
    /// The policy changed since it was judged; nothing was written, judge again.
    Stale,
    /// What was approved is no longer what would run. The run ended `denied`, `binding-mismatch`.
    BindingMismatch,
    /// Its start-by passed. The run ended `failed`, `not-started`.
    StartByPassed,
    /// A launch used the approval up before.
    AlreadyConsumed,
    /// The approval was not allowed (any more).
    NotAllowed(ApprovalStatus),
    /// The run has left the states from which it could launch.
    RunEnded(RunStatus),
    /// The token that asked was revoked or has expired. The run ended `denied`, `approval-cancelled`.
    AskerGone,
    /// No approval has this id.
    NotFound,
}

/// Starts again what an earlier server launched and never started, under the same launch id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relaunch {
    /// A run that is still `launching`.
    pub run_id: RunId,
    /// What would be started, checked just now.
    pub binding: Binding,
}

/// What became of it.
#[derive(Debug)]
pub enum RelaunchOutcome {
    /// It may start, without environment overrides and not on a node.
    Launched(Permit),
    /// It may not: it is not `launching`, its start-by passed, it would be something else, values of its
    /// environment are gone, the token that asked is, or everything is stopped. Nothing was written; void its fence and
    /// end it as not started.
    NotPossible,
}

/// A launch that is written but not yet committed. Becomes a permit only with the writer's proof.
#[derive(Debug)]
pub(super) struct Ready {
    columns: LaunchColumns,
}

/// What is launched, and for whom.
#[derive(Debug)]
pub(super) struct Start<'a> {
    /// The asker, whose token must open something still.
    pub(super) asker: &'a Actor,
    pub(super) not_after: UnixMillis,
    /// As [`LaunchColumns::binding_digest`].
    pub(super) binding_digest: Option<String>,
    pub(super) isolation: Isolation,
    pub(super) node: Option<NodeLaunch>,
}

/// What a launch writes into its run.
#[derive(Debug)]
pub(super) struct LaunchColumns {
    pub(super) launch_id: LaunchId,
    pub(super) epoch: i64,
    pub(super) launched_at: UnixMillis,
    pub(super) not_after: UnixMillis,
    /// Kept for runs that outlive their caller, which may be launched again after a restart.
    pub(super) binding_digest: Option<String>,
    /// In the run's record already.
    pub(super) isolation: Isolation,
    /// In a table of its own.
    pub(super) node: Option<NodeLaunch>,
    /// In the run's record already.
    pub(super) start: Option<TextStart>,
}

impl Ready {
    /// Draws a launch id for a run that is about to be written. This is where a stop counts: there is no permit without
    /// one of these, and the caller who stops waits until the transactions that did not see the stop are over. In the
    /// same way nothing starts for a token that was revoked or has expired since it asked: [`AskerGone`].
    ///
    /// # Errors
    /// [`Fault::Stopped`] while everything is stopped; call it before anything is written.
    pub(super) fn draw(tx: &mut Tx<'_>, start: Start<'_>) -> Result<Result<Self, AskerGone>, Fault> {
        let Start {
            asker,
            not_after,
            binding_digest,
            isolation,
            node,
        } = start;
        tx.expect_going()?;
        if let Some(gone) = withdraw::why_gone(tx, asker)? {
            return Ok(Err(gone));
        }
        let columns = LaunchColumns {
            launch_id: tx.context.ids.launch_id(),
            epoch: tx.context.epoch,
            launched_at: tx.now(),
            not_after,
            binding_digest,
            isolation,
            node,
            start: None,
        };
        Ok(Ok(Self { columns }))
    }

    /// The same of a text that is started like this.
    pub(super) fn starting(mut self, start: Option<TextStart>) -> Self {
        self.columns.start = start;
        self
    }

    pub(super) const fn columns(&self) -> &LaunchColumns {
        &self.columns
    }

    /// Moves a run that exists to `launching`. The caller has checked that it may.
    pub(super) fn write(
        &self,
        tx: &Tx<'_>,
        run: &RunId,
        decision: RunDecision,
        input: CommandInput,
    ) -> Result<(), Fault> {
        let LaunchColumns {
            launch_id,
            epoch,
            launched_at,
            not_after,
            binding_digest,
            isolation: _,
            node: _,
            start: _,
        } = &self.columns;
        let changed = tx.execute(
            "UPDATE runs SET status = 'launching', verdict = ?2, verdict_by = ?3, launch_id = ?4, epoch = ?5, \
             boot_id = ?6, launched_ms = ?7, not_after_ms = ?8, binding_digest = ?9, input = ?10 \
             WHERE run_id = ?1 AND status IN ('requested', 'asking')",
            (
                run.as_str(),
                decision.verdict.as_str(),
                decision.by.as_str(),
                launch_id.as_str(),
                epoch,
                &tx.context.boot_id,
                launched_at.get(),
                not_after.get(),
                binding_digest.as_deref(),
                input.as_str(),
            ),
        )?;
        exactly_one(changed)?;
        self.note_node(tx, run)
    }

    /// Writes what the run is launched with on its node, once the run itself is written.
    pub(super) fn note_node(&self, tx: &Tx<'_>, run: &RunId) -> Result<(), Fault> {
        match &self.columns.node {
            Some(node) => node_runs::note_launch(tx, run, node),
            None => Ok(()),
        }
    }

    /// The permit. `proof` exists only after the commit.
    pub(super) fn into_permit(
        self,
        run_id: RunId,
        binding: Binding,
        env: EnvOverrides,
        _proof: &Committed,
    ) -> Permit {
        let LaunchColumns {
            launch_id,
            not_after,
            isolation,
            node,
            start,
            epoch: _,
            launched_at: _,
            binding_digest: _,
        } = self.columns;
        let parts = PermitParts {
            run_id,
            launch_id,
            binding,
            env,
            isolation,
            not_after,
            node,
            start,
            answered: false,
        };
        Permit {
            parts: Box::new(parts),
        }
    }
}

impl Ledger {
    /// Consumes an allowed approval and launches its run.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn launch(&self, launch: ApprovedLaunch) -> Result<ApprovedOutcome, LedgerError> {
        self.queue.submit(launch).await
    }

    /// Launches again, under its old launch id, what an earlier server never started. The caller holds its fence.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn relaunch(&self, relaunch: Relaunch) -> Result<RelaunchOutcome, LedgerError> {
        self.queue.submit(relaunch).await
    }
}

/// What an approved launch wrote.
#[derive(Debug)]
pub(super) enum ApprovedDraft {
    Ready {
        ready: Box<Ready>,
        run_id: RunId,
        env: EnvOverrides,
    },
    Refused(ApprovedOutcome),
}

impl Job for ApprovedLaunch {
    type Draft = ApprovedDraft;
    type Answer = ApprovedOutcome;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Full
    }

    fn needs_reserve(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<ApprovedDraft, Fault> {
        let refused = |outcome| Ok(ApprovedDraft::Refused(outcome));
        let Some(stored) = approvals::fetch_stored(tx.connection, &self.approval)? else {
            return refused(ApprovedOutcome::NotFound);
        };
        let run_id = stored.approval.run_id.clone();
        let run = run_rows::brief(tx.connection, &run_id)?;
        let not_after = match &stored.approval.state {
            ApprovalState::Allowed { at, .. } => *at + self.start_by,
            ApprovalState::Pending
            | ApprovalState::Denied { .. }
            | ApprovalState::Expired { .. }
            | ApprovalState::Cancelled { .. } => tx.now(),
        };
        let digest = self.binding.digest();
        let env = stored
            .env(&tx.context.keys)
            .filter(|_| digest == stored.binding_digest);
        let standing = LaunchStanding {
            run: run.as_ref().map_or(RunStatus::Lost, |run| run.status),
            start_by_passed: tx.now() > not_after,
            is_current: tx.is_current(&self.stamp),
            is_same: env.is_some(),
        };
        let status = standing.run;
        let (run, env) = match (stored.approval.standing(tx.now()).launch(standing), run, env) {
            (Launching::Consumes, Some(run), Some(env)) => (run, env),
            (Launching::AlreadyConsumed, _, _) => return refused(ApprovedOutcome::AlreadyConsumed),
            (Launching::NotAllowed, _, _) => {
                return refused(ApprovedOutcome::NotAllowed(stored.approval.state.status()));
            }
            (Launching::RunEnded, _, _) | (Launching::Consumes, None, _) => {
                return refused(ApprovedOutcome::RunEnded(status));
            }
            (Launching::StartByPassed, _, _) => {
                let end = not_started(tx.now());
                run_end::end_run(tx, &run_id, &end, &Actor::system())?;
                return refused(ApprovedOutcome::StartByPassed);
            }
            (Launching::Stale, _, _) => return refused(ApprovedOutcome::Stale),
            (Launching::BindingMismatch, _, _) | (Launching::Consumes, _, None) => {
                run_end::deny_run(tx, &run_id, Reason::BindingMismatch, None, None, &Actor::system())?;
                return refused(ApprovedOutcome::BindingMismatch);
            }
        };
        let start = Start {
            asker: &stored.approval.requested_by,
            not_after,
            binding_digest: run.outlives_caller.then_some(digest),
            isolation: run.isolation,
            node: self.node.clone(),
        };
        let ready = match Ready::draw(tx, start)? {
            Ok(ready) => ready,
            Err(gone) => {
                let (reason, detail) = (Reason::ApprovalCancelled, Some(gone.to_string()));
                run_end::deny_run(tx, &run_id, reason, detail, None, &Actor::system())?;
                return refused(ApprovedOutcome::AskerGone);
            }
        };
        let now = tx.now().get();
        let used_up = (!hooks::promise_dropped("approval-once")).then_some(now);
        let consumed = tx.execute(
            "UPDATE approvals SET consumed_ms = ?2, env_sealed = NULL \
             WHERE id = ?1 AND status = 'allowed' AND consumed_ms IS NULL AND binding_digest = ?3",
            (self.approval.as_str(), used_up, &stored.binding_digest),
        )?;
        exactly_one(consumed)?;
        ready.write(
            tx,
            &run_id,
            RunDecision {
                verdict: RunVerdict::Run,
                by: DecidedBy::Person,
            },
            self.binding.input,
        )?;
        // It is the first use of the grants that its answer leaves, which are written once this is committed.
        grants::count(tx, &grants::left_by(&stored.approval), &run_id)?;
        if self.outlives_caller {
            let changed = tx.execute(
                "UPDATE runs SET background = 1 WHERE run_id = ?1",
                (run_id.as_str(),),
            )?;
            exactly_one(changed)?;
        }
        Ok(ApprovedDraft::Ready {
            ready: Box::new(ready),
            run_id,
            env,
        })
    }

    fn committed(self, draft: ApprovedDraft, proof: &Committed) -> ApprovedOutcome {
        match draft {
            ApprovedDraft::Ready { ready, run_id, env } => {
                ApprovedOutcome::Launched(ready.into_permit(run_id, self.binding, env, proof).answered())
            }
            ApprovedDraft::Refused(outcome) => outcome,
        }
    }
}

impl Job for Relaunch {
    type Draft = Option<Ready>;
    type Answer = RelaunchOutcome;

    fn durability(&self, tuning: &Tuning) -> Durability {
        tuning.durability
    }

    fn needs_reserve(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<Ready>, Fault> {
        if tx.context.stop.current().is_some() {
            return Ok(None);
        }
        let Some(launch) = run_rows::earlier_launch(tx.connection, &self.run_id)? else {
            return Ok(None);
        };
        let standing = RelaunchStanding {
            is_of_earlier_server: launch.epoch < tx.context.epoch,
            had_env: launch.has_env,
            start_by_passed: tx.now() > launch.not_after,
            is_same: launch.binding_digest.as_deref() == Some(self.binding.digest().as_str()),
        };
        if !relaunch(standing) || withdraw::why_gone(tx, &launch.asker)?.is_some() {
            return Ok(None);
        }
        let columns = LaunchColumns {
            launch_id: launch.launch_id,
            epoch: tx.context.epoch,
            launched_at: tx.now(),
            not_after: launch.not_after,
            binding_digest: launch.binding_digest,
            isolation: launch.isolation,
            // What may have reached a node is never sent again.
            node: None,
            start: launch.start,
        };
        let changed = tx.execute(
            "UPDATE runs SET epoch = ?2, boot_id = ?3 WHERE run_id = ?1 AND status = 'launching'",
            (self.run_id.as_str(), columns.epoch, &tx.context.boot_id),
        )?;
        exactly_one(changed)?;
        Ok(Some(Ready { columns }))
    }

    fn committed(self, draft: Option<Ready>, proof: &Committed) -> RelaunchOutcome {
        draft.map_or(RelaunchOutcome::NotPossible, |ready| {
            let permit = ready.into_permit(self.run_id, self.binding, EnvOverrides::default(), proof);
            RelaunchOutcome::Launched(permit.answered())
        })
    }
}
