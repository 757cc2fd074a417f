//! The node run task: one task per run on a node, which calls the node, reads its messages and records the end.
//!
//! The launch is committed first. Then the call is sent over the connection that the launch names and over no other; it must
//! never be sent again. The run ends by the node's answer, by what the node said before its link broke, or as `lost`. A
//! node that keeps a fence is given [`LINK_GRACE`] to come back, and is asked; a later reply still ends a `lost` run
//! (`NodeNews`'s `late_result`). Read on: [`super::wait`] says what each event means, [`super::messages`] delivers what nodes
//! say, [`super::output`] keeps their output.

use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Fuse},
};
use tokio::{sync::watch, time::Instant};

use countersign_domain::{
    ApprovalDecision, ApprovalId, ApprovalState, Bound, DecidedBy, KillCause, Reason, Run, RunEnd, RunId,
    RunStatus, RunVerdict, Security,
};
use countersign_hosts::node::{
    ConnectionId, InvokeFailure, InvokeRequest, InvokeResult, NodeGeneration, NodeInfo, NodePlan,
    answers::{self, RunAnswer, RunState},
    calls::{self, Allowed, AllowedCall, Called, NodeGate},
};
use countersign_ledger::{
    NodeLaunch, NodeRun, RunOutput,
    launch::{Permit, PermitParts},
};
use countersign_protocol::bridge::{RunApproval, SYSTEM_RUN};
use countersign_runner::output::Capture;
use countersign_sys::hooks;

use super::{
    NodeRuns,
    control::{Mailbox, NodeControl},
    is_denial,
    on_node::is_fenced,
    output::{self, SentOutput},
    see,
    wait::{self, BEYOND_TIMEOUT, Effect, NodeEnd, Step, Terms, Wait, WaitEnd},
};

use crate::{
    launch::{self, Launch, Supervision},
    lifecycle::unless_it_panics,
    live::{Control, LiveRun},
    outcome::{self, OutputSummary},
    run_recorder::{BUG, Listeners, Remains},
    system_event,
};

/// How long a node that keeps a fence may be away before its run is `lost`; less where the heartbeat is faster.
const LINK_GRACE: Duration = Duration::from_secs(20);

/// Everything that one task needs for its run.
struct NodeRunTask {
    node_id: String,
    terms: Terms,
    /// What it means when the node never comes back.
    lost: Reason,
    /// The call; `None` for a run of an earlier server, which may have sent it.
    request: Option<InvokeRequest>,
}

impl NodeRuns {
    /// Starts a run on its node. `None` when it could not be started: its record says why.
    pub(crate) async fn start(self: &Arc<Self>, launch: Launch) -> Option<Arc<LiveRun>> {
        let (permit, supervision) = launch.into_call();
        let starting = async {
            hooks::panic_at("node-run.starting");
            self.run_request(permit).await
        };
        let ready = unless_it_panics(Box::pin(starting)).await;
        let (node, request) = match ready.unwrap_or(Err(BUG)) {
            Ok(ready) => ready,
            // Nothing was sent.
            Err(why) => {
                let run_id = &supervision.run_id;
                tracing::warn!(run.id = %run_id, error = why, "a run could not be sent to its node");
                self.recorder
                    .end_run_behind(&self.lifecycle, run_id, Reason::NotStarted, Some(why.to_owned()))
                    .await;
                self.recorder.release_holder(&supervision);
                return None;
            }
        };
        hooks::reach("node.before-send");
        let task = NodeRunTask {
            terms: Terms {
                generation: node.generation.unwrap_or(NodeGeneration::First),
                fenced: is_fenced(&node),
                timeout: supervision.timeout,
            },
            node_id: node.node_id,
            lost: Reason::NodeDisconnected,
            request: Some(request),
        };
        Some(self.spawn_run_task(task, supervision))
    }

    /// Takes a run of an earlier server under supervision again, whose node keeps a fence for it: it is asked once it is there.
    pub(crate) fn resume(self: &Arc<Self>, node: NodeRun, supervision: Supervision) -> Arc<LiveRun> {
        let task = NodeRunTask {
            node_id: node.node_id,
            terms: Terms {
                generation: NodeGeneration::Ours,
                fenced: node.fenced,
                timeout: supervision.timeout,
            },
            lost: Reason::ServerRestart,
            request: None,
        };
        self.spawn_run_task(task, supervision)
    }

    fn spawn_run_task(self: &Arc<Self>, task: NodeRunTask, supervision: Supervision) -> Arc<LiveRun> {
        let (control, mailbox) = NodeControl::new(task.node_id.clone());
        let live = self.live.enter(&supervision, Control::Node(control));
        let (runs, held) = (Arc::clone(self), Arc::clone(&live));
        self.lifecycle
            .spawn(async move { runs.follow_on_node(&held, task, mailbox, supervision).await });
        live
    }

    /// Follows a run on its node to its end. A panic ends it too; the node is told to end it, and an answer that comes later
    /// finds a lost run.
    async fn follow_on_node(
        &self,
        live: &Arc<LiveRun>,
        mut task: NodeRunTask,
        mailbox: Mailbox,
        supervision: Supervision,
    ) {
        let following = Box::pin(self.run_node_task(live, &mut task, mailbox, &supervision));
        let is_lost = unless_it_panics(following).await;
        if is_lost.is_none() && !live.has_ended() {
            self.peers.cancel(&task.node_id, &live.run_id);
            self.recorder.give_up(live, task.lost).await;
        }
        self.live.leave(&live.run_id);
        drop(supervision.slot);
        if live.is_session() {
            self.retention.evict(&live.agent).await;
        }
        if is_lost.unwrap_or(true) {
            self.ask_about_lost(&task.node_id, &live.run_id).await;
        }
    }

    /// The call that a permit allows, and the node that it goes to.
    async fn run_request(&self, permit: Permit) -> Result<(NodeInfo, InvokeRequest), &'static str> {
        let PermitParts {
            run_id,
            launch_id: _,
            binding,
            env,
            isolation: _,
            not_after,
            node,
            start: _,
            answered: _,
        } = permit.into_parts();
        let NodeLaunch {
            kept: launch,
            document_known,
        } = node.ok_or("the launch names no node")?;
        let Bound::OnNode { plan, .. } = &binding.bound else {
            return Err("the run is not bound to a node");
        };
        let plan = plan.as_deref().map(NodePlan::of_text).transpose();
        let plan = plan.map_err(|_unusable| "the plan that it is bound to cannot be read")?;
        let nodes = self.peers.nodes();
        let node = nodes.into_iter().find(|node| node.node_id == launch.node_id);
        let node = node.ok_or("its node is not paired any more")?;
        let generation = node.generation.ok_or("its node is not connected")?;
        let run = self.ledger.run(&run_id).await.ok().flatten();
        let run = run.ok_or("its record cannot be read")?;
        let token = run.requested_by.token();
        let allowed = self
            .what_allowed(run)
            .await
            .ok_or("nobody knows why it may run")?;
        let cwd = (binding.cwd != super::OWN_DIRECTORY).then_some(binding.cwd.as_str());
        let call = AllowedCall {
            called: Called {
                command: &binding.command,
                cwd,
                env: &env,
                agent: &binding.agent,
                session: &binding.session,
            },
            plan: plan.as_ref(),
            run_id: &run_id,
            timeout_ms: binding.timeout_ms,
            allowed,
            gate: if document_known {
                NodeGate::Seen
            } else {
                NodeGate::Unseen
            },
            not_after,
        };
        let timeout = launch::millis(binding.timeout_ms);
        let request = InvokeRequest {
            node_id: launch.node_id,
            connection: Some(ConnectionId(launch.connection)),
            id: run_id.to_string(),
            command: SYSTEM_RUN.to_owned(),
            params: calls::run_params(call, generation),
            timeout: timeout.map(|limit| limit + BEYOND_TIMEOUT),
            token,
        };
        Ok((node, request))
    }

    /// Why a run may start, from its record.
    async fn what_allowed(&self, run: Run) -> Option<Allowed> {
        let decision = run
            .decision
            .filter(|decision| decision.verdict == RunVerdict::Run)?;
        let card_of = |id: Option<ApprovalId>| async {
            let id = id?;
            self.ledger.approval(&id).await.ok().flatten()
        };
        match decision.by {
            DecidedBy::Policy if run.security == Security::Full => Some(Allowed::ByPolicy),
            DecidedBy::Policy => Some(Allowed::ByAllowlist),
            DecidedBy::Person => {
                let approval = card_of(run.approval_id).await?;
                let decision = approval.state.decision()?;
                // The node stores all of its patterns or none.
                let is_whole = approval.chosen_patterns.len() == approval.card.proposed_patterns.len();
                Some(Allowed::ByPerson(match decision {
                    ApprovalDecision::AllowAlways if is_whole => RunApproval::AllowAlways,
                    ApprovalDecision::AllowAlways | ApprovalDecision::AllowOnce => RunApproval::AllowOnce,
                    ApprovalDecision::Deny => return None,
                }))
            }
            DecidedBy::Fallback => {
                let approval = card_of(run.approval_id).await;
                Some(Allowed::ByFallback {
                    whole: approval.is_some_and(|approval| approval.card.ask_fallback == Security::Full),
                })
            }
        }
    }

    /// Returns whether it ended as lost.
    async fn run_node_task(
        &self,
        live: &Arc<LiveRun>,
        task: &mut NodeRunTask,
        mut mailbox: Mailbox,
        supervision: &Supervision,
    ) -> bool {
        hooks::panic_at("node-run.supervised");
        let end = Box::pin(self.await_node(live, task, &mut mailbox, supervision)).await;
        hooks::reach("node.answered");
        hooks::panic_at("node-run.answered");
        // No message is read any more; once the end is recorded a late answer finds the record.
        mailbox.messages.close();
        let killed = *mailbox.kill.borrow();
        let (end, sent) = self
            .end_on_node(live, task, supervision.permitted_at, end, killed)
            .await;
        let denial = end.reason.filter(|reason| is_denial(*reason));
        let is_lost = end.status == RunStatus::Lost;
        #[cfg(feature = "test-hooks")]
        drop(tokio::task::spawn_blocking(|| hooks::pause("node.unheard")).await);
        let remains = Remains::of(sent.map_or(RunOutput::Inline(Vec::new()), |sent| sent.kept));
        self.recorder.finish(live, end, remains).await;
        self.note_remembered(&live.run_id).await;
        if let Some(reason) = denial {
            self.recorder
                .tell_of(live, |place, run_id| {
                    system_event::exec_denied(place, run_id, reason)
                })
                .await;
        }
        is_lost
    }

    /// What a person allowed always is in the document of the node by now, and may cover other questions.
    async fn note_remembered(&self, run_id: &RunId) {
        let Ok(Some(run)) = self.ledger.run(run_id).await else {
            return;
        };
        let Some(id) = run.approval_id else { return };
        if let Ok(Some(approval)) = self.ledger.approval(&id).await
            && let ApprovalState::Allowed {
                decision: ApprovalDecision::AllowAlways,
                by,
                ..
            } = &approval.state
        {
            self.again.node_policy_changed(by);
        }
    }

    /// Calls the node, or waits for one that was called earlier, until the run has an end.
    async fn await_node(
        &self,
        live: &Arc<LiveRun>,
        task: &mut NodeRunTask,
        mailbox: &mut Mailbox,
        supervision: &Supervision,
    ) -> WaitEnd {
        let began = Instant::now();
        let grace = self.settings.current().server.bridge.tick.min(LINK_GRACE);
        let (mut wait, mut call) = match task.request.take() {
            Some(request) => (Wait::for_answer(task.terms, grace), self.send(request).fuse()),
            None => (Wait::for_return(task.terms, grace), Fuse::terminated()),
        };
        let mut status = Fuse::terminated();
        let mut notice = pin!(
            self.recorder
                .notice_running(live, supervision.notice_after)
                .fuse()
        );
        loop {
            let event = if wait.hears_out() {
                mailbox
                    .messages
                    .try_recv()
                    .map_or(wait::Event::HeardOut, wait::Event::Message)
            } else {
                tokio::select! {
                    biased;
                    result = &mut call => wait::Event::Answer(result),
                    state = &mut status => wait::Event::Status(state),
                    Some(message) = mailbox.messages.recv() => wait::Event::Message(message),
                    () = until(began, wait.started_by()) => wait::Event::Time,
                    cause = killed(&mut mailbox.kill), if wait.awaits_kill() => wait::Event::Kill(cause),
                    () = until(began, wait.time_up()) => wait::Event::Time,
                    () = &mut notice => continue,
                }
            };
            let effects = match wait.step(event, began.elapsed()) {
                Step::On(next, effects) => {
                    wait = next;
                    effects
                }
                Step::End(end) => return end,
            };
            for effect in effects {
                match effect {
                    Effect::Started => self.mark_started(live, supervision.permitted_at).await,
                    Effect::Cancel => self.peers.cancel(&task.node_id, &live.run_id),
                    Effect::Ask(node) => status = self.status_of(node, live).fuse(),
                    Effect::Forget => status = Fuse::terminated(),
                }
            }
        }
    }

    /// The call, on its way as soon as it is polled.
    fn send(&self, request: InvokeRequest) -> BoxFuture<'static, Result<InvokeResult, InvokeFailure>> {
        let peers = Arc::clone(&self.peers);
        Box::pin(async move {
            let mut call = peers.invoke(request);
            // The first poll is what writes the frame.
            let first = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
            hooks::reach("node.sent");
            match first {
                Poll::Ready(answer) => answer,
                Poll::Pending => call.await,
            }
        })
    }

    fn status_of(&self, node: NodeInfo, live: &Arc<LiveRun>) -> BoxFuture<'static, Option<RunState>> {
        let (peers, settings) = (Arc::clone(&self.peers), self.settings.current());
        let run_id = live.run_id.clone();
        Box::pin(async move { peers.ask_status(&node, &run_id, &settings).await })
    }

    /// Records that the run has started, and tells of it. Called once.
    async fn mark_started(&self, live: &Arc<LiveRun>, permitted_at: Option<Duration>) {
        self.recorder.started(live, None, permitted_at);
        self.recorder.tell_of(live, system_event::exec_started).await;
    }

    /// The end of the run, and its output where the node sent any.
    async fn end_on_node(
        &self,
        live: &Arc<LiveRun>,
        task: &NodeRunTask,
        permitted_at: Option<Duration>,
        WaitEnd { how, started }: WaitEnd,
        killed: Option<KillCause>,
    ) -> (RunEnd, Option<SentOutput>) {
        let now = self.clock.now();
        if !started && matches!(how, NodeEnd::Answered(Ok(_)) | NodeEnd::Told(_)) {
            self.mark_started(live, permitted_at).await;
        }
        let without_output = |reason: Reason, detail: Option<String>| {
            let end = outcome::end_without_exit(reason, detail, OutputSummary::default(), now);
            (end, None)
        };
        let ended_by = |cause: KillCause, detail: Option<&str>| {
            let (end, sent) = without_output(cancelled(cause), detail.map(str::to_owned));
            let status = RunStatus::Cancelled;
            (RunEnd { status, ..end }, sent)
        };
        // One that was said to run was not denied any more.
        let refused = |reason: Reason, words: String| {
            let is_late = started && is_denial(reason);
            without_output(if is_late { Reason::InvokeFailed } else { reason }, Some(words))
        };
        let (answer, how) = match how {
            NodeEnd::Answered(Ok(payload)) => match RunAnswer::of(payload) {
                Ok(answer) => (answer, None),
                Err(unreadable) => return without_output(Reason::InvokeFailed, Some(unreadable.to_string())),
            },
            NodeEnd::Told(answer) => (answer, Some("as the node told before its connection ended")),
            NodeEnd::Answered(Err(error)) => {
                let (reason, words) = answers::refusal(&error);
                return match killed {
                    Some(cause) if !is_denial(reason) => ended_by(cause, None),
                    Some(_) | None => refused(reason, words),
                };
            }
            NodeEnd::Denied(reason, words) => return refused(reason, words),
            NodeEnd::Lost(why) => return without_output(task.lost, Some(why.to_owned())),
            NodeEnd::NotSent(failure) => {
                let detail = format!("nothing was sent: {}", see::describe(&failure));
                return without_output(Reason::NotStarted, Some(detail));
            }
            NodeEnd::Void => return (output::void(now), None),
            NodeEnd::Unconfirmed(cause) => {
                let detail = "the node was told to end it and did not confirm that; it may go on there";
                return ended_by(cause, Some(detail));
            }
        };
        let sent = self.keep_sent_output(&live.run_id, &answer).await;
        let mut listeners = Listeners::default();
        for (stream, text) in output::streams(&answer) {
            if !text.is_empty() {
                let offset = live.push(stream, text.as_bytes(), now);
                self.recorder
                    .publish_output(live, &mut listeners, offset, stream, text.as_bytes())
                    .await;
            }
        }
        live.with_capture(Capture::finish);
        let mut end = output::end_of_answer(&answer, killed, task.terms.timeout, &sent, now);
        if end.detail.is_none() {
            end.detail = how.map(str::to_owned);
        }
        (end, Some(sent))
    }
}

const fn cancelled(cause: KillCause) -> Reason {
    match cause {
        KillCause::Shutdown => Reason::Shutdown,
        KillCause::Stopped => Reason::Stopped,
        KillCause::Cancelled | KillCause::Timeout => Reason::Cancelled,
    }
}

/// Waits until a time of the wait.
async fn until(began: Instant, at: Option<Duration>) {
    match at {
        Some(at) => tokio::time::sleep_until(began + at).await,
        None => std::future::pending().await,
    }
}

/// Waits until the run is to be killed.
async fn killed(kill: &mut watch::Receiver<Option<KillCause>>) -> KillCause {
    let cause = kill.wait_for(Option::is_some).await.ok().and_then(|cause| *cause);
    match cause {
        Some(cause) => cause,
        // Nobody can want it any more.
        None => std::future::pending().await,
    }
}
