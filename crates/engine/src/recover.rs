//! What an earlier server left: every run that had not ended is brought to an end or back under supervision
//! (`docs/decisions/0009-exactly-once.md`, step 7).

use std::sync::Arc;

use futures_util::future::BoxFuture;

use countersign_domain::{
    Actor, ActorKind, Aftermath, Exit, Host, KillCause, Reason, Recovery as Way, Run, RunStatus, Traces,
};
use countersign_hosts::gateway::{Recovered, Supervised};
use countersign_ledger::{
    CancelOutcome, Finish, LaunchRecord, Ledger, LedgerError, RunOutput, UnfinishedRun,
    launch::{Relaunch, RelaunchOutcome},
};
use countersign_runner::run_file::Voided;
use countersign_sys::{clock::Clock, hooks};

use crate::{
    Engine,
    base::Base,
    delivery::Unstarted,
    evaluator::Evaluator,
    expiry::Expiry,
    launch::Launch,
    live::{Ended, LiveState},
    node::NodeRuns,
    records::Records,
    run_recorder::RunRecorder,
    runs::Runs,
    supervise::LocalRuns,
};

impl Engine {
    /// Settles what an earlier server left. Call it before listening.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn recover(self: &Arc<Self>, unstarted: Unstarted) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(self.settle_what_was_left(unstarted))
    }

    async fn settle_what_was_left(self: &Arc<Self>, unstarted: Unstarted) -> Result<(), LedgerError> {
        hooks::reach("engine.recover");
        let began = self
            .ledger
            .launched_since(self.accepted_policy.quiet_since())
            .await?;
        self.accepted_policy.begin(began);
        let policy_admin = Arc::clone(&self.policy_admin);
        if tokio::task::spawn_blocking(move || policy_admin.finish_preset())
            .await
            .is_err()
        {
            tracing::error!("a preset that was not finished could not be looked at");
        }
        for approval in self.ledger.approvals_to_persist().await? {
            self.remembered.persist_after_restart(&approval).await;
        }
        self.processes.take_names().await?;
        let forgot = self.forgotten.record().await?;
        let unstarted = match unstarted {
            Unstarted::StartAgain if forgot || self.ledger.was_cut() => Unstarted::Unknown,
            Unstarted::StartAgain | Unstarted::Void | Unstarted::Unknown => unstarted,
        };
        let leftovers = self.ledger.running_leftovers().await?;
        let mut foreground = Vec::new();
        for unfinished in self.ledger.unfinished_runs().await? {
            let (run, approval) = (&unfinished.run, unfinished.approval.as_ref());
            let standing = approval.map(|approval| approval.standing(self.clock.now()));
            let waits = matches!(run.status, RunStatus::Asking | RunStatus::Requested) && approval.is_some();
            if waits && unstarted == Unstarted::Void {
                self.recovery
                    .withdraw_unstarted(run, Reason::Shutdown, Actor::system())
                    .await;
                continue;
            }
            // Its peer went with the connection, and would have withdrawn it then (`docs/spec/ipc.md#7-limits`).
            if waits && run.requested_by.kind == ActorKind::Ipc {
                self.recovery
                    .withdraw_unstarted(run, Reason::Cancelled, run.requested_by.clone())
                    .await;
                continue;
            }
            match (
                countersign_domain::recover(run.status, unfinished.launch.is_some(), standing),
                approval,
            ) {
                // A question whose time ran out meanwhile never lets anything start.
                (Way::Expire, Some(approval)) => {
                    self.expiries.expire(approval, Expiry::FoundAfterRestart).await;
                }
                // The ledger forgot what came later, so this may have started.
                (Way::Launch, Some(_)) if unstarted == Unstarted::Unknown => {
                    self.forgotten.record_unknown(run).await?;
                }
                // Decided but without permission yet: goes on at step 4.
                (Way::Launch, Some(approval)) => {
                    let (approved, id) = (Arc::clone(&self.approved), approval.id.clone());
                    self.lifecycle
                        .spawn_launch(async move { approved.launch(&id).await });
                }
                (Way::Wait | Way::Expire | Way::Launch, _) => {}
                (Way::End(reason), _) => self.recorder.end_run(&run.id, reason, None).await,
                (Way::Inspect, _) if run.host == Host::Node => {
                    self.recovery.recover_on_node(&unfinished).await?;
                }
                (Way::Inspect, _) => {
                    // A supervisor may still be ending its run; runs are waited for side by side.
                    let recovery = Arc::clone(&self.recovery);
                    foreground.push(
                        self.lifecycle
                            .spawn(async move { recovery.recover_launched(unfinished, unstarted).await }),
                    );
                }
            }
        }
        for session in leftovers {
            let recovery = Arc::clone(&self.recovery);
            foreground.push(self.lifecycle.spawn(async move {
                recovery.recover_leftovers(session.run).await;
            }));
        }
        for task in foreground {
            if task.await.is_err() {
                tracing::error!("a run of an earlier server could not be settled");
            }
        }
        self.policy.note_recovered();
        hooks::reach("engine.recovered");
        Ok(())
    }
}

/// Brings what an earlier server started to an end, or back under supervision.
#[derive(Debug)]
pub(super) struct Recovery {
    ledger: Ledger,
    records: Arc<Records>,
    recorder: Arc<RunRecorder>,
    local: Arc<LocalRuns>,
    node_runs: Arc<NodeRuns>,
    runs: Arc<Runs>,
    evaluator: Arc<Evaluator>,
    clock: Arc<dyn Clock>,
    boot_id: String,
}

/// The ways in which a run of an earlier server goes on.
pub(super) struct Resuming {
    pub(super) local: Arc<LocalRuns>,
    pub(super) node_runs: Arc<NodeRuns>,
    pub(super) runs: Arc<Runs>,
}

impl Recovery {
    /// For a machine that booted with this identity.
    pub(super) fn new(base: &Base, resuming: Resuming, boot_id: String) -> Self {
        let Resuming {
            local,
            node_runs,
            runs,
        } = resuming;
        Self {
            ledger: base.ledger.clone(),
            records: Arc::clone(&base.records),
            recorder: Arc::clone(&base.recorder),
            local,
            node_runs,
            runs,
            evaluator: Arc::clone(&base.evaluator),
            clock: Arc::clone(&base.clock),
            boot_id,
        }
    }

    /// A run that was asked about or allowed never starts any more, and its question is withdrawn.
    pub(super) async fn withdraw_unstarted(&self, run: &Run, reason: Reason, by: Actor) {
        let withdrawn = self.ledger.cancel(run.id.clone(), reason, by).await;
        match withdrawn {
            Ok(CancelOutcome::Cancelled(_) | CancelOutcome::Ended(_)) => self.recorder.touch(&run.id),
            Ok(CancelOutcome::Started(_) | CancelOutcome::NotFound) | Err(_) => {
                self.recorder.end_run(&run.id, Reason::NotStarted, None).await;
            }
        }
    }

    pub(super) async fn recover_launched(self: Arc<Self>, unfinished: UnfinishedRun, unstarted: Unstarted) {
        let UnfinishedRun { run, launch, .. } = &unfinished;
        let Some(launch) = launch else { return };
        let run_id = &run.id;
        // A supervisor that an earlier server ordered may still take the fence while this one decides.
        loop {
            let recovered = match self.local.recover(run_id).await {
                Ok(recovered) => recovered,
                Err(error) => {
                    tracing::error!(run.id = %run_id, error = &error as &dyn std::error::Error, "nobody knows what became of a run");
                    self.recorder
                        .end_run(run_id, Reason::ServerRestart, Some(error.to_string()))
                        .await;
                    return;
                }
            };
            let traces = match recovered {
                Recovered::Exited {
                    exit,
                    launch_id,
                    spool: _,
                } if launch_id == launch.launch_id.as_str() => {
                    self.finish_recovered(run, &exit).await;
                    return;
                }
                Recovered::Attached(supervised) => {
                    let supervision = self.runs.resumed(run);
                    let live = self.local.adopt(*supervised, supervision);
                    if run.session_id.is_none() {
                        self.recorder.let_go(&live).await;
                    }
                    return;
                }
                Recovered::NotStarted => Traces::None,
                Recovered::Voided => Traces::Void,
                // An end of another launch: power was lost while the file of an earlier run became the file of this one.
                Recovered::Exited { .. } | Recovered::StartedAndGone => Traces::Started,
            };
            match countersign_domain::after_launch(traces, launch.boot_id == self.boot_id) {
                Aftermath::StartAgain
                    if unstarted == Unstarted::StartAgain && self.start_again(&unfinished, launch).await =>
                {
                    return;
                }
                aftermath @ (Aftermath::StartAgain | Aftermath::Void) => {
                    match self.local.void(run_id).await {
                        Some(Voided::Locked | Voided::TooLate(_)) => {}
                        Some(Voided::Done) | None => {
                            // Its file may have become that of a run which the ledger forgot.
                            let is_unknown =
                                aftermath == Aftermath::StartAgain && unstarted == Unstarted::Unknown;
                            let reason = if is_unknown {
                                Reason::ServerRestart
                            } else {
                                Reason::NotStarted
                            };
                            self.recorder.end_run(run_id, reason, None).await;
                            return;
                        }
                    }
                }
                Aftermath::Lost => {
                    self.recorder.sweep_after(run).await;
                    self.recorder.end_run(run_id, Reason::ServerRestart, None).await;
                    return;
                }
            }
        }
    }

    /// A run that may have reached its node: one that keeps a fence for it is asked once it is there, of another nobody knows.
    /// It is not sent again, even if it may never have been.
    pub(super) async fn recover_on_node(&self, unfinished: &UnfinishedRun) -> Result<(), LedgerError> {
        let run = &unfinished.run;
        match self.ledger.node_launch(&run.id).await? {
            Some(node) if node.fenced => {
                let outlives_caller = run.background || unfinished.keyed;
                let live = self.node_runs.resume(node, self.runs.resumed(run));
                if !outlives_caller {
                    live.kill(KillCause::Shutdown);
                } else if run.session_id.is_none() {
                    self.recorder.let_go(&live).await;
                }
            }
            Some(_) | None => self.recorder.end_run(&run.id, Reason::ServerRestart, None).await,
        }
        Ok(())
    }

    /// What a run left running, which a server before this one kept.
    pub(super) async fn recover_leftovers(self: Arc<Self>, run: Run) {
        match self.local.attach_leftovers(&run.id).await {
            Some(supervised) => self.adopt_leftovers(run, supervised).await,
            None => self.recorder.record_leftovers_end(&run.id, false).await,
        }
    }

    async fn adopt_leftovers(&self, run: Run, supervised: Supervised) {
        let output = self.records.output_text(&run).await.unwrap_or_default();
        let supervision = self.runs.resumed(&run);
        let live = self.local.adopt(supervised, supervision);
        live.set(LiveState::Ended(Arc::new(Ended { run, output })));
    }

    /// Starts a run that outlives its caller under the launch it already has, if everything is as it was. Whether it
    /// did.
    async fn start_again(&self, unfinished: &UnfinishedRun, launch: &LaunchRecord) -> bool {
        let run = &unfinished.run;
        let outlives_caller = run.background || unfinished.keyed;
        if outlives_caller
            && self.clock.now() <= launch.not_after
            && let Some((binding, sandbox)) = self.evaluator.binding_after_restart(unfinished).await
        {
            let relaunch = Relaunch {
                run_id: run.id.clone(),
                binding,
            };
            match self.ledger.relaunch(relaunch).await {
                Ok(RelaunchOutcome::Launched(permit)) => {
                    let supervision = self.runs.resumed(run);
                    let launch = Launch::again(permit, supervision).inside(sandbox);
                    let live = self.runs.start(launch).await;
                    if let Some(live) = live.filter(|_| run.session_id.is_none()) {
                        self.recorder.let_go(&live).await;
                    }
                    return true;
                }
                Ok(RelaunchOutcome::NotPossible) => {}
                Err(error) => {
                    tracing::error!(run.id = %run.id, error = &error as &dyn std::error::Error, "a run is not started again");
                }
            }
        }
        false
    }

    async fn finish_recovered(&self, run: &Run, exit: &Exit) {
        let (end, warnings) = self.local.end_found(run, exit).await;
        let leftovers = self.local.attach_leftovers(&run.id).await;
        let notice = self
            .recorder
            .exit_notice(&run.agent, run.host, run.node_id.as_deref(), &run.id, &end);
        let finish = Finish {
            run_id: run.id.clone(),
            end,
            output: RunOutput::Spooled,
            warnings,
            leftovers: leftovers
                .as_ref()
                .map(|_supervised| self.recorder.new_session_id()),
            observed: None,
            notice,
        };
        let ended = self.recorder.record_end(finish).await;
        if let Some(run) = &ended {
            self.recorder.sweep_after(run).await;
        }
        if let (Some(run), Some(supervised)) = (ended, leftovers) {
            self.adopt_leftovers(*run, supervised).await;
        }
        self.recorder.touch(&run.id);
    }
}
