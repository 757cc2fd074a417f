//! Node messages: what nodes say on their own, that they are there, how their runs go, and late answers.
//!
//! A message is delivered to the task of its run ([`super::run_task`]), or ends a run that is `lost`. A node must never be
//! believed about a run of another node, and nothing that it says starts a run again.

use std::sync::Arc;

use serde_json::Value;

use countersign_domain::{Host, Reason, Run, RunEnd, RunId, RunStatus};
use countersign_hosts::node::{
    ConnectionId, Heard, InvokeResult, NodeError, NodeInfo, NodeSink,
    answers::{self, RunAnswer, RunEvent, RunState},
};
use countersign_ledger::{Finish, RunOutput};

use super::{NodeRuns, control::NodeMessage, on_node::is_fenced, output};

use crate::{
    live::{Control, LiveRun},
    outcome::{self, OutputSummary},
};

/// What nodes say, as the link hands it over.
#[derive(Debug)]
pub(crate) struct NodeNews(pub(crate) Arc<NodeRuns>);

impl NodeSink for NodeNews {
    fn connected(&self, node: NodeInfo) -> Heard {
        self.0.peers.forget(&node.node_id);
        self.0.again.judge_on(&node.node_id);
        for live in self.0.live_on(&node.node_id) {
            if deliver(&live, NodeMessage::Connected(node.clone())) == Heard::TooMuch {
                return Heard::TooMuch;
            }
        }
        if is_fenced(&node) {
            let runs = Arc::clone(&self.0);
            self.0
                .lifecycle
                .spawn(async move { runs.resolve_lost_runs(&node).await });
        }
        Heard::OfUse
    }

    fn disconnected(&self, node_id: &str, connection: ConnectionId) {
        // A node that is there over another connection already has not gone.
        let nodes = self.0.peers.nodes();
        let is_there = nodes
            .iter()
            .any(|node| node.node_id == node_id && node.connection.is_some_and(|other| other != connection));
        if is_there {
            return;
        }
        self.0.peers.forget(node_id);
        for live in self.0.live_on(node_id) {
            // There is a place for it, unless the task never heard of this connection either.
            if deliver(&live, NodeMessage::Disconnected(connection)) == Heard::TooMuch {
                tracing::warn!(run.id = %live.run_id, "a run was not told that a connection of its node ended");
            }
        }
    }

    fn late_result(&self, node_id: &str, invoke_id: &str, result: InvokeResult) -> Heard {
        let Ok(run_id) = RunId::parse(invoke_id) else {
            return Heard::OfNoUse;
        };
        if let Some(live) = self.0.live.get(&run_id).filter(|live| !live.has_ended()) {
            return if is_of(&live, node_id) {
                deliver(&live, NodeMessage::Late(result))
            } else {
                Heard::OfNoUse
            };
        }
        let lost = self.0.ledger.lost_run_of(node_id, &run_id).ok().flatten();
        let Some(run) = lost else {
            return Heard::OfNoUse;
        };
        let runs = Arc::clone(&self.0);
        self.0
            .lifecycle
            .spawn(async move { runs.finish_lost(run, result.outcome).await });
        Heard::OfUse
    }

    fn event(&self, node_id: &str, _connection: ConnectionId, event: &str, payload: Value) -> Heard {
        let Some((run_id, event)) = RunEvent::of(event, payload) else {
            return Heard::OfNoUse;
        };
        let run_id = RunId::parse(&run_id).ok();
        let live = run_id.and_then(|run_id| self.0.live.get(&run_id));
        // Of a run that is not its own a node has nothing to say, and of one that has ended nothing new.
        live.filter(|live| is_of(live, node_id) && !live.has_ended())
            .map_or(Heard::OfNoUse, |live| deliver(&live, NodeMessage::Event(event)))
    }
}

impl NodeRuns {
    /// The runs of this server's supervision that a node has.
    fn live_on(&self, node_id: &str) -> Vec<Arc<LiveRun>> {
        let all = self.live.all().into_iter();
        all.filter(|live| is_of(live, node_id) && !live.has_ended())
            .collect()
    }

    /// Asks a node that came back what became of the runs that it was lost with.
    async fn resolve_lost_runs(&self, node: &NodeInfo) {
        let lost = match self.ledger.lost_on_node(node.node_id.clone()).await {
            Ok(lost) => lost,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "lost runs cannot be read"
                );
                return;
            }
        };
        for run in lost {
            if !self.resolve_lost(node, run).await {
                return;
            }
        }
    }

    /// Asks the node of a run that was just recorded as `lost`, if it is there. While the end was being recorded nobody
    /// heard it come back, nor its late answer.
    pub(super) async fn ask_about_lost(&self, node_id: &str, run_id: &RunId) {
        let mut nodes = self.peers.nodes().into_iter();
        let node = nodes.find(|node| node.node_id == node_id && node.connection.is_some() && is_fenced(node));
        let lost = self.ledger.lost_run_of(node_id, run_id).ok().flatten();
        if let (Some(node), Some(run)) = (node, lost) {
            self.resolve_lost(&node, run).await;
        }
    }

    /// Whether the node answered. One that did not is asked when it comes back.
    async fn resolve_lost(&self, node: &NodeInfo, run: Run) -> bool {
        let settings = self.settings.current();
        let state = self.peers.ask_status(node, &run.id, &settings).await;
        let is_answered = state.is_some();
        match state {
            Some(RunState::Ended(outcome)) => self.finish_lost(run, outcome).await,
            Some(RunState::Void) => self.void_lost(&run).await,
            // It answers when it ends.
            Some(RunState::Running) | None => {}
        }
        is_answered
    }

    /// What a node says of a run that is `lost`: it may end it, once.
    async fn finish_lost(&self, run: Run, outcome: Result<Value, NodeError>) {
        let now = self.clock.now();
        let (end, kept) = match outcome.map(RunAnswer::of) {
            Ok(Ok(answer)) => {
                let sent = self.keep_sent_output(&run.id, &answer).await;
                let end = output::end_of_answer(&answer, None, run.timeout, &sent, now);
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
    async fn void_lost(&self, run: &Run) {
        let end = output::void(self.clock.now());
        self.record_late_end(run, end, RunOutput::Inline(Vec::new()))
            .await;
    }

    async fn record_late_end(&self, run: &Run, end: RunEnd, output: RunOutput) {
        let notice = self
            .recorder
            .exit_notice(&run.agent, Host::Node, run.node_id.as_deref(), &run.id, &end);
        self.recorder
            .record_end(Finish {
                run_id: run.id.clone(),
                end,
                output,
                warnings: Vec::new(),
                leftovers: None,
                observed: None,
                notice,
            })
            .await;
        self.recorder.touch(&run.id);
    }
}

fn is_of(live: &LiveRun, node_id: &str) -> bool {
    live.control().node_id() == Some(node_id)
}

fn deliver(live: &LiveRun, message: NodeMessage) -> Heard {
    match live.control() {
        Control::Node(control) => control.deliver(message),
        Control::Supervisor(_) => Heard::OfNoUse,
    }
}
