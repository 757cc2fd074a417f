//! The way to the task of a run on a node: its end can be wanted, and messages of the node delivered to it.

use tokio::sync::{mpsc, watch};

use countersign_domain::KillCause;
use countersign_hosts::node::{ConnectionId, InvokeResult, NodeInfo, answers::RunEvent};

/// Messages that wait for one run task; more are dropped.
const MAX_MESSAGES: usize = 16;

/// The way to the task of a run on a node.
#[derive(Debug)]
pub(crate) struct NodeControl {
    node_id: String,
    kill: watch::Sender<Option<KillCause>>,
    messages: mpsc::Sender<NodeMessage>,
}

/// What reaches the task of a run on a node.
#[derive(Debug)]
pub(super) struct Mailbox {
    pub(super) kill: watch::Receiver<Option<KillCause>>,
    /// Open as long as the run's control, and that lives as long as the run.
    pub(super) messages: mpsc::Receiver<NodeMessage>,
}

/// A message about a run, besides the answer to its call.
#[derive(Debug)]
pub(super) enum NodeMessage {
    /// The node tells of it.
    Event(RunEvent),
    /// An answer to a call that nobody waits for any more.
    Late(InvokeResult),
    /// The node is there again.
    Connected(NodeInfo),
    /// This connection of the node ended.
    Disconnected(ConnectionId),
}

impl NodeControl {
    /// The two ends of the way.
    pub(super) fn new(node_id: String) -> (Self, Mailbox) {
        let (kill, killed) = watch::channel(None);
        let (sender, messages) = mpsc::channel(MAX_MESSAGES);
        let control = Self {
            node_id,
            kill,
            messages: sender,
        };
        let mailbox = Mailbox {
            kill: killed,
            messages,
        };
        (control, mailbox)
    }

    /// Wants the run to end. The first cause counts.
    pub(crate) fn kill(&self, cause: KillCause) {
        self.kill.send_if_modified(|killed| {
            let is_first = killed.is_none();
            killed.get_or_insert(cause);
            is_first
        });
    }

    /// The node that has the run.
    pub(crate) fn node_id(&self) -> &str {
        &self.node_id
    }

    /// Delivers a message to the run's task. False when it has ended, or too many wait.
    pub(super) fn deliver(&self, message: NodeMessage) -> bool {
        self.messages.try_send(message).is_ok()
    }
}
