//! What an earlier server left: every run that had not ended is brought to an end or back under supervision
//! (`docs/decisions/0009-exactly-once.md`, step 7).

use std::sync::Arc;

use countersign_domain::{
    Actor, ActorKind, Aftermath, Binding, Exit, Host, KillCause, Reason, Recovery, Run, RunId, RunStatus,
    TerminalSize, Traces,
};
use countersign_hosts::{
    Attempt,
    gateway::{Recovered, Supervised},
    sandbox::Placement,
};
use countersign_ledger::{
    CancelOutcome, Finish, LaunchRecord, LedgerError, RunOutput, UnfinishedRun,
    launch::{Relaunch, RelaunchOutcome},
};
use countersign_policy::gate::Verdict;
use countersign_runner::run_file::Voided;
use countersign_sys::hooks;

use crate::{
    Engine,
    approve::Expiry,
    delivery::Unstarted,
    evaluator::call::Call,
    live::{Ended, Holder, LiveState, Recent},
    outcome::{self, OutputSummary},
    supervise::{self, RunContext, Supervision},
    warnings,
};

impl Engine {
    /// Settles what an earlier server left. Call it before listening.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn recover(self: &Arc<Self>, unstarted: Unstarted) -> Result<(), LedgerError> {
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
            self.persist_after_restart(&approval).await;
        }
        for (session_id, _agent) in self.ledger.session_ids().await? {
            self.process.take(session_id);
        }
        let leftovers = self.ledger.running_leftovers().await?;
        let mut foreground = Vec::new();
        for unfinished in self.ledger.unfinished_runs().await? {
            let (run, approval) = (&unfinished.run, unfinished.approval.as_ref());
            let standing = approval.map(|approval| approval.standing(self.clock.now()));
            let waits = matches!(run.status, RunStatus::Asking | RunStatus::Requested) && approval.is_some();
            if waits && unstarted == Unstarted::Void {
                self.withdraw_unstarted(run, Reason::Shutdown, Actor::system())
                    .await;
                continue;
            }
            // Its peer went with the connection, and would have withdrawn it then (`docs/spec/ipc.md#7-limits`).
            if waits && run.requested_by.kind == ActorKind::Ipc {
                self.withdraw_unstarted(run, Reason::Cancelled, run.requested_by.clone())
                    .await;
                continue;
            }
            match (
                countersign_domain::recover(run.status, unfinished.launch.is_some(), standing),
                approval,
            ) {
                // A question whose time ran out meanwhile never lets anything start.
                (Recovery::Expire, Some(approval)) => self.expire(approval, Expiry::FoundAfterRestart).await,
                // Decided but without permission yet: goes on at step 4.
                (Recovery::Launch, Some(approval)) => {
                    let (engine, id) = (Arc::clone(self), approval.id.clone());
                    self.launches
                        .spawn(async move { engine.launch_approved(&id).await });
                }
                (Recovery::Wait | Recovery::Expire | Recovery::Launch, _) => {}
                (Recovery::End(reason), _) => self.end_run(&run.id, reason, None).await,
                (Recovery::Inspect, _) if run.host == Host::Node => self.recover_on_node(&unfinished).await?,
                (Recovery::Inspect, _) => {
                    // A supervisor may still be ending its run; runs are waited for side by side.
                    let engine = Arc::clone(self);
                    foreground.push(
                        self.tasks
                            .spawn(async move { engine.recover_launched(unfinished, unstarted).await }),
                    );
                }
            }
        }
        for session in leftovers {
            let engine = Arc::clone(self);
            foreground.push(self.tasks.spawn(async move {
                engine.recover_leftovers(session.run).await;
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

    /// A run that was asked about or allowed never starts any more, and its question is withdrawn.
    async fn withdraw_unstarted(&self, run: &Run, reason: Reason, by: Actor) {
        let withdrawn = self.ledger.cancel(run.id.clone(), reason, by).await;
        match withdrawn {
            Ok(CancelOutcome::Cancelled(_) | CancelOutcome::Ended(_)) => self.broker.touch(&run.id),
            Ok(CancelOutcome::Started(_) | CancelOutcome::NotFound) | Err(_) => {
                self.end_run(&run.id, Reason::NotStarted, None).await;
            }
        }
    }

    async fn recover_launched(self: Arc<Self>, unfinished: UnfinishedRun, unstarted: Unstarted) {
        let UnfinishedRun { run, launch, .. } = &unfinished;
        let Some(launch) = launch else { return };
        let run_id = &run.id;
        // A supervisor that an earlier server ordered may still take the fence while this one decides.
        loop {
            let recovered = match self.gateway.recover(run_id).await {
                Ok(recovered) => recovered,
                Err(error) => {
                    tracing::error!(run.id = %run_id, error = &error as &dyn std::error::Error, "nobody knows what became of a run");
                    self.end_run(run_id, Reason::ServerRestart, Some(error.to_string()))
                        .await;
                    return;
                }
            };
            let traces = match recovered {
                Recovered::Exited { exit, spool: _ } => {
                    self.finish_recovered(&unfinished, &exit).await;
                    return;
                }
                Recovered::Attached(supervised) => {
                    let supervision = self.resumed_supervision(run);
                    let live = self.adopt(run_context_of(run), *supervised, supervision);
                    if run.session_id.is_none() {
                        self.let_go(&live).await;
                    }
                    return;
                }
                Recovered::NotStarted => Traces::None,
                Recovered::Voided => Traces::Void,
                Recovered::StartedAndGone => Traces::Started,
            };
            match countersign_domain::after_launch(traces, launch.boot_id == self.boot_id) {
                Aftermath::StartAgain
                    if unstarted == Unstarted::StartAgain && self.start_again(&unfinished, launch).await =>
                {
                    return;
                }
                Aftermath::StartAgain | Aftermath::Void => match self.void(run_id).await {
                    Some(Voided::Locked | Voided::TooLate(_)) => {}
                    Some(Voided::Done) | None => {
                        self.end_run(run_id, Reason::NotStarted, None).await;
                        return;
                    }
                },
                Aftermath::Lost => {
                    self.sweep_after(run).await;
                    self.end_run(run_id, Reason::ServerRestart, None).await;
                    return;
                }
            }
        }
    }

    /// A run that may have reached its node: one that keeps a fence for it is asked once it is there, of another nobody knows.
    /// It is not sent again, even if it may never have been.
    async fn recover_on_node(self: &Arc<Self>, unfinished: &UnfinishedRun) -> Result<(), LedgerError> {
        let run = &unfinished.run;
        match self.ledger.node_launch(&run.id).await? {
            Some(node) if node.fenced => {
                let outlives_caller = run.background || unfinished.keyed;
                let live = self.resume_on_node(run, node, self.resumed_supervision(run));
                if !outlives_caller {
                    live.kill(KillCause::Shutdown);
                } else if run.session_id.is_none() {
                    self.let_go(&live).await;
                }
            }
            Some(_) | None => self.end_run(&run.id, Reason::ServerRestart, None).await,
        }
        Ok(())
    }

    async fn finish_recovered(self: &Arc<Self>, unfinished: &UnfinishedRun, exit: &Exit) {
        let run = &unfinished.run;
        let (path, limits) = (self.gateway.spool(&run.id), self.capture_limits());
        let read = tokio::task::spawn_blocking(move || supervise::read_spool(&path, limits)).await;
        let summary = match read {
            Ok(Ok(capture)) => OutputSummary {
                truncated: capture.truncated(),
                tail: capture.tail(limits.tail_chars),
            },
            Ok(Err(_)) | Err(_) => OutputSummary {
                truncated: true,
                tail: String::new(),
            },
        };
        let of_client = self.end_of_client(&run.id, exit, &summary).await;
        let mut end =
            of_client.unwrap_or_else(|| outcome::end_of(exit, run.timeout, summary, self.clock.now()));
        let warnings = self.warnings_after(&run.id, exit).await;
        end.detail = warnings::explain(end.detail, &warnings);
        let leftovers = self.gateway.attach_leftovers(&run.id).await;
        let notice = self.exit_notice(&run.agent, run.host, run.node_id.as_deref(), &run.id, &end);
        let finish = Finish {
            run_id: run.id.clone(),
            end,
            output: RunOutput::Spooled,
            warnings,
            leftovers: leftovers.as_ref().map(|_supervised| self.new_session_id()),
            notice,
        };
        let ended = self.record_end(finish).await;
        if let Some(run) = &ended {
            self.sweep_after(run).await;
        }
        if let (Some(run), Some(supervised)) = (ended, leftovers) {
            self.adopt_leftovers(*run, supervised).await;
        }
        self.broker.touch(&run.id);
    }

    /// What a run left running, which a server before this one kept.
    async fn recover_leftovers(self: Arc<Self>, run: Run) {
        match self.gateway.attach_leftovers(&run.id).await {
            Some(supervised) => self.adopt_leftovers(run, supervised).await,
            None => self.record_leftovers_end(&run.id, false).await,
        }
    }

    async fn adopt_leftovers(self: &Arc<Self>, run: Run, supervised: Supervised) {
        let output = self.output_text(&run).await.unwrap_or_default();
        let supervision = self.resumed_supervision(&run);
        let live = self.adopt(run_context_of(&run), supervised, supervision);
        live.set(LiveState::Ended(Arc::new(Ended { run, output })));
    }

    /// What a run of an earlier server has besides its supervisor: its session again, if it was one.
    fn resumed_supervision(self: &Arc<Self>, run: &Run) -> Supervision {
        let session_id = run.session_id.clone();
        if let Some(session_id) = &session_id {
            self.process.take(session_id.clone());
        }
        Supervision {
            slot: self.slots.take(&run.agent),
            holder: session_id.map_or(Holder::CallerWithKey, Holder::Session),
            stdin_open: run.input.is_open(),
            terminal: run.pty.then_some(TerminalSize::DEFAULT),
            notice_after: None,
        }
    }

    /// Starts a run that outlives its caller under the launch it already has, if everything is as it was. Whether it
    /// did.
    async fn start_again(self: &Arc<Self>, unfinished: &UnfinishedRun, launch: &LaunchRecord) -> bool {
        let run = &unfinished.run;
        let outlives_caller = run.background || unfinished.keyed;
        if outlives_caller
            && self.clock.now() <= launch.not_after
            && let Some((binding, sandbox)) = self.present_binding(unfinished).await
        {
            let relaunch = Relaunch {
                run_id: run.id.clone(),
                binding,
            };
            match self.ledger.relaunch(relaunch).await {
                Ok(RelaunchOutcome::Launched(permit)) => {
                    let supervision = self.resumed_supervision(run);
                    let live = self
                        .start_attempt(permit, supervision, Attempt::Again, sandbox.as_deref())
                        .await;
                    if let Some(live) = live.filter(|_| run.session_id.is_none()) {
                        self.let_go(&live).await;
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

    /// What the run would be now: as it was approved, or as the policy judges it at this moment; with its sandbox, if it
    /// runs in one.
    async fn present_binding(&self, unfinished: &UnfinishedRun) -> Option<(Binding, Option<Arc<Placement>>)> {
        let now = self.policy.now();
        if let Some(approval) = &unfinished.approval {
            return Some((self.evaluator.rebind(&approval.card.binding, &now).ok()?, None));
        }
        let run = &unfinished.run;
        let call = match run.host {
            Host::Sandbox => self.places.call_of_inside_run(run, &now).await?,
            Host::Gateway => Call::of_run(run, self.gateway.files())?,
            // Its fence is on the node: nobody here starts it again.
            Host::Node => return None,
        };
        let judged = self.evaluator.judge(&call, &now, &[]).ok()?;
        (judged.verdict == Verdict::Run).then_some((judged.binding, call.sandbox))
    }

    /// Makes a run that did not start impossible to start; `None` when its file cannot be written.
    pub(super) async fn void(&self, run_id: &RunId) -> Option<Voided> {
        match self.gateway.void(run_id) {
            Ok(voided) => Some(voided),
            Err(error) => {
                tracing::error!(run.id = %run_id, error = %error, "a run that did not start cannot be made impossible");
                None
            }
        }
    }
}

/// A run of an earlier server, all of whose output is in its spool.
fn run_context_of(run: &Run) -> RunContext {
    RunContext {
        run_id: run.id.clone(),
        agent: run.agent.clone(),
        host: run.host,
        timeout: run.timeout,
        recent: Recent::Spool,
        permitted_at: None,
    }
}
