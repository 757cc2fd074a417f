//! The node run task: one task per run on a node, which calls the node, reads its messages and records the end.
//!
//! The launch is committed first. Then the call is sent over the connection that the launch names and over no other; it must
//! never be sent again. The run ends by the node's answer, by what the node said before its link broke, or as `lost`. A
//! node that keeps a fence is given [`LINK_GRACE`] to come back, and is asked; a later reply still ends a `lost` run
//! (`Engine::late_result`). Read on: [`super::messages`] delivers what nodes say, [`super::output`] keeps their output.

use std::{sync::Arc, task::Poll, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use countersign_domain::{
    Actor, ApprovalDecision, ApprovalId, ApprovalState, Bound, DecidedBy, Host, KillCause, Reason, Run,
    RunEnd, RunId, RunStatus, RunVerdict, Security, UnixMillis,
};
use countersign_hosts::node::{
    ConnectionId, InvokeFailure, InvokeRequest, InvokeResult, NodeError, NodeGeneration, NodeInfo, NodePlan,
    answers::{self, RunAnswer, RunEvent, RunState},
    calls::{self, Allowed, Called, NodeGate, RunCall},
};
use countersign_ledger::{
    Finish, NodeLaunch, NodeRun, RunOutput, Started,
    events::{Event, EventKind},
    launch::{Permit, PermitParts},
};
use countersign_runner::output::Capture;
use countersign_sys::{hooks, process::monotonic};

use super::{
    control::{NodeControl, NodeMessage},
    is_denial,
    on_node::is_fenced,
    output::{self, SentOutput},
    see,
};

use crate::{
    Engine,
    live::{Control, LiveRun, LiveState, NewLiveRun, Recent},
    outcome::{self, OutputSummary},
    supervise::{Listeners, Remains, Supervision},
    system_event,
};

/// How much longer than its time limit a run is waited for (`docs/spec/settings.md#2-countersigntoml`, `[bridge]
/// invoke_timeout_ms`).
const BEYOND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a node that keeps a fence may be away before its run is `lost`; less where the heartbeat is faster.
const LINK_GRACE: Duration = Duration::from_secs(20);
/// How long a node may take to answer for a run that it was told to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// A run that a node did not refuse by then is said to run, where the node does not say so itself.
const STARTED_AFTER: Duration = Duration::from_secs(1);
/// Messages that wait for one run task; more are dropped.
const MAX_MESSAGES: usize = 16;

/// Everything that one task needs for its run.
struct NodeRunTask {
    node_id: String,
    generation: NodeGeneration,
    fenced: bool,
    /// The call; `None` for a run of an earlier server, which may have sent it.
    request: Option<InvokeRequest>,
    timeout: Option<Duration>,
    /// What it means when the node never comes back.
    lost: Reason,
    kill: watch::Receiver<Option<KillCause>>,
    messages: mpsc::Receiver<NodeMessage>,
}

/// How the wait for a node ended.
#[derive(Debug)]
enum NodeEnd {
    Answered(Result<Value, NodeError>),
    /// The node said how it ended before its link broke.
    Said(RunEvent),
    NotSent(InvokeFailure),
    /// The fence was taken by the question.
    Void,
    Lost(&'static str),
    /// It was told to end it and did not confirm that.
    Unconfirmed(KillCause),
}

impl Engine {
    /// Starts what a permit allows on its node. `None` when it could not be: its record says why.
    pub(crate) async fn start_on_node(
        self: &Arc<Self>,
        permit: Permit,
        supervision: Supervision,
    ) -> Option<Arc<LiveRun>> {
        let permitted_at = monotonic();
        let run_id = permit.run_id().clone();
        let agent = permit.binding().agent.clone();
        let timeout = super::super::supervise::millis(permit.binding().timeout_ms);
        let (node, request) = match self.run_request(permit).await {
            Ok(ready) => ready,
            Err(why) => {
                tracing::warn!(run.id = %run_id, error = why, "a run could not be sent to its node");
                self.end_run(&run_id, Reason::NotStarted, Some(why.to_owned()))
                    .await;
                self.release_holder(&supervision);
                return None;
            }
        };
        hooks::reach("node.before-send");
        let fenced = is_fenced(&node);
        let place = NodeRunTarget {
            run_id,
            agent,
            node_id: node.node_id,
            generation: node.generation.unwrap_or(NodeGeneration::First),
            fenced,
            timeout,
            lost: Reason::NodeDisconnected,
        };
        Some(self.spawn_run_task(place, Some(request), supervision, Some(permitted_at)))
    }

    /// Takes a run of an earlier server under supervision again, whose node keeps a fence for it: it is asked once it is there.
    pub(crate) fn resume_on_node(
        self: &Arc<Self>,
        run: &Run,
        node: NodeRun,
        supervision: Supervision,
    ) -> Arc<LiveRun> {
        let place = NodeRunTarget {
            run_id: run.id.clone(),
            agent: run.agent.clone(),
            node_id: node.node_id,
            generation: NodeGeneration::Ours,
            fenced: node.fenced,
            timeout: run.timeout,
            lost: Reason::ServerRestart,
        };
        self.spawn_run_task(place, None, supervision, None)
    }

    fn spawn_run_task(
        self: &Arc<Self>,
        place: NodeRunTarget,
        request: Option<InvokeRequest>,
        supervision: Supervision,
        permitted_at: Option<Duration>,
    ) -> Arc<LiveRun> {
        let NodeRunTarget {
            run_id,
            agent,
            node_id,
            generation,
            fenced,
            timeout,
            lost,
        } = place;
        let (kill, killed) = watch::channel(None);
        let (sender, messages) = mpsc::channel(MAX_MESSAGES);
        let control = NodeControl {
            node_id: node_id.clone(),
            kill,
            messages: sender,
        };
        let live = LiveRun::new(NewLiveRun {
            run_id,
            agent,
            host: Host::Node,
            control: Control::Node(control),
            capture: Capture::new(self.capture_limits()),
            holder: supervision.holder.clone(),
            recent: Recent::new(self.settings.current().server.output.max_run_bytes),
            terminal: None,
            now: self.clock.now(),
        });
        self.live.insert(&live);
        self.kill_if_stopped(&live);
        self.broker.touch(&live.run_id);
        let task = NodeRunTask {
            node_id,
            generation,
            fenced,
            request,
            timeout,
            lost,
            kill: killed,
            messages,
        };
        let (engine, held) = (Arc::clone(self), Arc::clone(&live));
        self.tasks.spawn(async move {
            engine.run_node_task(&held, task, supervision, permitted_at).await;
        });
        live
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
        let call = RunCall {
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
        let timeout = super::super::supervise::millis(binding.timeout_ms);
        let request = InvokeRequest {
            node_id: launch.node_id,
            connection: Some(ConnectionId(launch.connection)),
            id: run_id.to_string(),
            command: calls::RUN.to_owned(),
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
                    ApprovalDecision::AllowAlways if !is_whole => ApprovalDecision::AllowOnce,
                    ApprovalDecision::AllowAlways | ApprovalDecision::AllowOnce => decision,
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

    async fn run_node_task(
        self: Arc<Self>,
        live: &Arc<LiveRun>,
        mut task: NodeRunTask,
        supervision: Supervision,
        permitted_at: Option<Duration>,
    ) {
        let mut start = Start {
            at: None,
            permitted_at,
        };
        let end =
            Box::pin(self.await_node_result(live, &mut task, supervision.notice_after, &mut start)).await;
        hooks::reach("node.answered");
        // No message is read any more: a late answer finds the record.
        task.messages.close();
        let killed = *task.kill.borrow();
        let (end, sent) = self.end_on_node(live, &task, end, killed, &mut start).await;
        let denial = end.reason.filter(|reason| is_denial(*reason));
        let remains = Remains::of(sent.map_or(RunOutput::Inline(Vec::new()), |sent| sent.kept));
        self.finish(live, end, remains).await;
        self.note_remembered(&live.run_id).await;
        if let Some(reason) = denial {
            self.tell_of(live, |place, run_id| {
                system_event::exec_denied(place, run_id, reason)
            })
            .await;
        }
        self.live.remove(&live.run_id);
        self.broker.touch(&live.run_id);
        drop(supervision.slot);
        if live.is_session() {
            self.evict_sessions(&live.agent).await;
        }
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
            self.node_policy_changed(by);
        }
    }

    async fn await_node_result(
        &self,
        live: &Arc<LiveRun>,
        task: &mut NodeRunTask,
        notice_after: Option<Duration>,
        start: &mut Start,
    ) -> NodeEnd {
        let grace = self.settings.current().server.bridge.tick.min(LINK_GRACE);
        let mut said: Option<RunEvent> = None;
        let mut answer = task.request.take().map(|request| self.send(request));
        let mut status: Option<BoxFuture<'static, Option<RunState>>> = None;
        let (mut started_by, mut link_by) = if answer.is_some() {
            ((!task.fenced).then(|| Instant::now() + STARTED_AFTER), None)
        } else {
            (None, Some(Instant::now() + grace))
        };
        // As long as a call waits, the link looks after the time.
        let give_up_by = task
            .timeout
            .map(|limit| Instant::now() + limit + BEYOND_TIMEOUT + grace);
        let (mut is_told, mut cancel_by): (bool, Option<Instant>) = (false, None);
        let mut notice = std::pin::pin!(self.notice_running(live, notice_after));
        let mut noticed = false;
        loop {
            tokio::select! {
                biased;
                result = pending_or(&mut answer) => {
                    answer = None;
                    // What it told before its link broke still counts. Of a fenced run that waits on the loop hears it.
                    let is_last = match &result {
                        Ok(_) => false,
                        Err(failure) => !(task.fenced && matches!(failure, InvokeFailure::Disconnected)),
                    };
                    while is_last && let Ok(message) = task.messages.try_recv() {
                        match message {
                            NodeMessage::Event(RunEvent::Started) => self.mark_started(live, start).await,
                            NodeMessage::Event(event) => said = said.or(Some(event)),
                            NodeMessage::Late(result) => return NodeEnd::Answered(result.outcome),
                            NodeMessage::Connected(_) | NodeMessage::Disconnected => {}
                        }
                    }
                    if let Ok(end) = evaluate_answer(result, task, said.as_ref()) {
                        return end;
                    }
                    started_by = None;
                    link_by = Some(Instant::now() + grace);
                }
                state = pending_or(&mut status) => {
                    status = None;
                    match state {
                        Some(RunState::Void) => return NodeEnd::Void,
                        Some(RunState::Ended(outcome)) => return NodeEnd::Answered(outcome),
                        Some(RunState::Running) => {
                            link_by = None;
                            self.mark_started(live, start).await;
                            if task.kill.borrow().is_some() {
                                self.nodes.cancel(&task.node_id, live.run_id.as_str());
                                cancel_by = Some(Instant::now() + CANCEL_TIMEOUT);
                            }
                        }
                        // It may be away again, or come back once more, until its time is up.
                        None => {
                            link_by.get_or_insert_with(|| Instant::now() + grace);
                        }
                    }
                }
                message = task.messages.recv() => match message {
                    Some(NodeMessage::Event(RunEvent::Started)) => {
                        started_by = None;
                        self.mark_started(live, start).await;
                    }
                    Some(NodeMessage::Event(event)) => said = said.or(Some(event)),
                    Some(NodeMessage::Late(result)) if answer.is_none() => return NodeEnd::Answered(result.outcome),
                    Some(NodeMessage::Connected(node)) if answer.is_none() && is_fenced(&node) => {
                        status = Some(self.status_of(node, live));
                    }
                    Some(NodeMessage::Disconnected) if answer.is_none() => {
                        status = None;
                        link_by.get_or_insert_with(|| Instant::now() + grace);
                    }
                    Some(NodeMessage::Late(_) | NodeMessage::Connected(_) | NodeMessage::Disconnected) => {}
                    // The control lives as long as the run.
                    None => return NodeEnd::Lost("nobody listens to the node any more"),
                },
                () = until(started_by) => {
                    started_by = None;
                    self.mark_started(live, start).await;
                }
                () = killed(&mut task.kill), if !is_told => {
                    is_told = true;
                    // One that is away is told once it is there and says that the run goes on.
                    if link_by.is_none() {
                        self.nodes.cancel(&task.node_id, live.run_id.as_str());
                        // The first generation does not know what that means.
                        let cancel_timeout = if task.generation == NodeGeneration::First {
                            Duration::ZERO
                        } else {
                            CANCEL_TIMEOUT
                        };
                        cancel_by = Some(Instant::now() + cancel_timeout);
                    }
                }
                () = until(cancel_by) => return gone(task, said, "the node did not answer"),
                () = until(link_by) => return gone(task, said, "the node did not come back"),
                () = until(give_up_by), if answer.is_none() => {
                    return gone(task, said, "the node did not answer in time");
                }
                () = &mut notice, if !noticed => noticed = true,
            }
        }
    }

    /// The call, on its way as soon as it is polled.
    fn send(&self, request: InvokeRequest) -> BoxFuture<'static, Result<InvokeResult, InvokeFailure>> {
        let nodes = Arc::clone(&self.nodes);
        Box::pin(async move {
            let mut call = nodes.invoke(request);
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

    /// Records, once, that the run has started, and tells of it.
    async fn mark_started(&self, live: &Arc<LiveRun>, start: &mut Start) {
        if start.at.is_some() {
            return;
        }
        let now = self.clock.now();
        start.at = Some(now);
        if let Some(permitted_at) = start.permitted_at {
            let took = monotonic().saturating_sub(permitted_at);
            self.stats.start_seconds.observe(took.as_secs_f64());
        }
        self.ledger.started(Started {
            run_id: live.run_id.clone(),
            pid: None,
            session_id: live.session_id(),
            at: now,
        });
        // Then: who was told that it runs finds its start in the ledger.
        live.set(LiveState::Running);
        self.tell_of(live, system_event::exec_started).await;
    }

    /// Tells the session of a run something, where its agent wants to be told of ends at all.
    async fn tell_of(
        &self,
        live: &Arc<LiveRun>,
        text: impl FnOnce(system_event::RunHost<'_>, &RunId) -> String,
    ) {
        let settings = Arc::clone(&self.accepted_policy.in_effect().settings);
        if !settings.policy.exec(&live.agent).notify_on_exit {
            return;
        }
        let Some(subject) = self.subject_of(live).await else {
            return;
        };
        let place = system_event::RunHost {
            host: Host::Node,
            node_id: live.control().node_id(),
        };
        let text = text(place, &live.run_id);
        let kind = EventKind::SystemEvent { text };
        self.tell(Event { subject, kind }, Actor::system()).await;
    }

    /// The end of the run, and its output where the node sent any.
    async fn end_on_node(
        &self,
        live: &Arc<LiveRun>,
        task: &NodeRunTask,
        end: NodeEnd,
        killed: Option<KillCause>,
        start: &mut Start,
    ) -> (RunEnd, Option<SentOutput>) {
        let now = self.clock.now();
        let without_output = |reason: Reason, detail: Option<String>| {
            outcome::end_without_exit(reason, detail, OutputSummary::default(), now)
        };
        let ended_by = |cause: KillCause, detail: Option<String>| RunEnd {
            status: RunStatus::Cancelled,
            ..without_output(cancelled(cause), detail)
        };
        let (answer, how) = match end {
            NodeEnd::Answered(Ok(payload)) => match RunAnswer::of(payload) {
                Ok(answer) => (answer, None),
                Err(unreadable) => {
                    self.mark_started(live, start).await;
                    return (
                        without_output(Reason::InvokeFailed, Some(unreadable.to_string())),
                        None,
                    );
                }
            },
            NodeEnd::Said(RunEvent::Finished(answer)) => {
                (answer, Some("as the node told before its connection ended"))
            }
            NodeEnd::Said(RunEvent::Denied(reason, words)) => {
                return (without_output(refused(reason, start), Some(words)), None);
            }
            NodeEnd::Answered(Err(error)) => {
                let (reason, words) = answers::refusal(&error);
                return match killed {
                    Some(cause) if !is_denial(reason) => (ended_by(cause, None), None),
                    Some(_) | None => (without_output(refused(reason, start), Some(words)), None),
                };
            }
            NodeEnd::Said(RunEvent::Started) => return (without_output(task.lost, None), None),
            NodeEnd::Lost(why) => {
                return (without_output(task.lost, Some(why.to_owned())), None);
            }
            NodeEnd::NotSent(failure) => {
                let detail = format!("nothing was sent: {}", see::describe(&failure));
                return (without_output(Reason::NotStarted, Some(detail)), None);
            }
            NodeEnd::Void => {
                let detail = "the node never started it".to_owned();
                return (without_output(Reason::NotStarted, Some(detail)), None);
            }
            NodeEnd::Unconfirmed(cause) => {
                let detail =
                    "the node was told to end it and did not confirm that; it may go on there".to_owned();
                return (ended_by(cause, Some(detail)), None);
            }
        };
        self.mark_started(live, start).await;
        let sent = self.keep_sent_output(&live.run_id, &answer).await;
        let mut listeners = Listeners::default();
        for (stream, text) in output::streams(&answer) {
            if !text.is_empty() {
                let offset = live.push(stream, text.as_bytes(), now);
                self.publish_output(live, &mut listeners, offset, stream, text.as_bytes())
                    .await;
            }
        }
        live.with_capture(Capture::finish);
        let mut end = output::end_of_answer(
            &answer,
            killed,
            task.timeout,
            (sent.summary.clone(), sent.bytes),
            now,
        );
        if end.detail.is_none() {
            end.detail = how.map(str::to_owned);
        }
        (end, Some(sent))
    }

    /// What a node says of a run that is `lost`: it may end it, once.
    pub(super) async fn finish_lost(self: Arc<Self>, run: Run, outcome: Result<Value, NodeError>) {
        let now = self.clock.now();
        let (end, kept) = match outcome.map(RunAnswer::of) {
            Ok(Ok(answer)) => {
                let sent = self.keep_sent_output(&run.id, &answer).await;
                let output = (sent.summary, sent.bytes);
                let end = output::end_of_answer(&answer, None, run.timeout, output, now);
                // Only the two states of a run that ran follow; nobody here told the node to end it.
                (end, sent.kept)
            }
            Ok(Err(_unreadable)) => return,
            Err(error) => {
                let (reason, words) = answers::refusal(&error);
                let reason = match reason.run_status() {
                    RunStatus::Failed => reason,
                    RunStatus::Lost => return,
                    // A run that may have run was not denied.
                    RunStatus::Requested
                    | RunStatus::Asking
                    | RunStatus::Launching
                    | RunStatus::Running
                    | RunStatus::Completed
                    | RunStatus::Denied
                    | RunStatus::Cancelled => Reason::InvokeFailed,
                };
                let end = outcome::end_without_exit(reason, Some(words), OutputSummary::default(), now);
                (end, RunOutput::Inline(Vec::new()))
            }
        };
        self.record_late_end(&run, end, kept).await;
    }

    /// A run that is `lost` never started after all.
    pub(super) async fn void_lost(&self, run: &Run) {
        let detail = Some("the node never started it".to_owned());
        let now = self.clock.now();
        let end = outcome::end_without_exit(Reason::NotStarted, detail, OutputSummary::default(), now);
        self.record_late_end(run, end, RunOutput::Inline(Vec::new()))
            .await;
    }

    async fn record_late_end(&self, run: &Run, end: RunEnd, output: RunOutput) {
        let notice = self.exit_notice(&run.agent, Host::Node, run.node_id.as_deref(), &run.id, &end);
        self.record_end(Finish {
            run_id: run.id.clone(),
            end,
            output,
            warnings: Vec::new(),
            leftovers: None,
            notice,
        })
        .await;
        self.broker.touch(&run.id);
    }
}

/// A run and the node that runs it.
struct NodeRunTarget {
    run_id: RunId,
    agent: countersign_domain::AgentId,
    node_id: String,
    generation: NodeGeneration,
    fenced: bool,
    timeout: Option<Duration>,
    lost: Reason,
}

/// Whether it was recorded that a run has started.
struct Start {
    at: Option<UnixMillis>,
    permitted_at: Option<Duration>,
}

/// The link is gone, and the node may still say what became of the run.
struct AwaitingReconnect;

/// What a refusal means for a run: one that was said to run was not denied any more.
fn refused(reason: Reason, start: &Start) -> Reason {
    if start.at.is_some() && is_denial(reason) {
        Reason::InvokeFailed
    } else {
        reason
    }
}

const fn cancelled(cause: KillCause) -> Reason {
    match cause {
        KillCause::Shutdown => Reason::Shutdown,
        KillCause::Stopped => Reason::Stopped,
        KillCause::Cancelled | KillCause::Timeout => Reason::Cancelled,
    }
}

async fn pending_or<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What an answer, or that there is none, means for the wait.
fn evaluate_answer(
    result: Result<InvokeResult, InvokeFailure>,
    task: &NodeRunTask,
    said: Option<&RunEvent>,
) -> Result<NodeEnd, AwaitingReconnect> {
    let failure = match result {
        Ok(result) => return Ok(NodeEnd::Answered(result.outcome)),
        Err(failure) => failure,
    };
    let or_said = |lost| said.cloned().map_or(NodeEnd::Lost(lost), NodeEnd::Said);
    match failure {
        failure if failure.was_not_sent() => Ok(NodeEnd::NotSent(failure)),
        InvokeFailure::Disconnected if task.fenced => Err(AwaitingReconnect),
        InvokeFailure::TimedOut => Ok(or_said("the node did not answer in time")),
        InvokeFailure::Disconnected
        | InvokeFailure::NotConnected
        | InvokeFailure::NotAllowed { .. }
        | InvokeFailure::Full
        | InvokeFailure::TooLarge => Ok(or_said("the connection of the node ended before it answered")),
    }
}

/// What is known of a run whose node says nothing more.
fn gone(task: &NodeRunTask, said: Option<RunEvent>, lost: &'static str) -> NodeEnd {
    match (said, *task.kill.borrow()) {
        (Some(said), _) => NodeEnd::Said(said),
        (None, Some(cause)) => NodeEnd::Unconfirmed(cause),
        (None, None) => NodeEnd::Lost(lost),
    }
}

/// Waits until the run is to be killed.
async fn killed(kill: &mut watch::Receiver<Option<KillCause>>) {
    if kill.wait_for(Option::is_some).await.is_err() {
        // Nobody can want it any more.
        std::future::pending::<()>().await;
    }
}
