//! The way to the task of a run on a node: its end can be wanted, and messages of the node delivered to it.

use tokio::sync::{mpsc, watch};

use countersign_domain::KillCause;
use countersign_hosts::node::{ConnectionId, Heard, InvokeResult, NodeInfo, answers::RunEvent};

/// Messages of its node that wait for one run task.
const MAX_MESSAGES: usize = 16;
/// Messages about the node's connections that wait beside them: a node that says too much hides no end of a connection.
const MAX_LINK_MESSAGES: usize = 16;

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
        let (sender, messages) = mpsc::channel(MAX_MESSAGES + MAX_LINK_MESSAGES);
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

    /// Delivers a message to the run's task.
    pub(super) fn deliver(&self, message: NodeMessage) -> Heard {
        let kept_free = match &message {
            NodeMessage::Event(_) | NodeMessage::Late(_) => MAX_LINK_MESSAGES,
            // The end of this connection will need a place.
            NodeMessage::Connected(_) => 1,
            NodeMessage::Disconnected(_) => 0,
        };
        if self.messages.is_closed() {
            return Heard::OfNoUse;
        }
        if self.messages.capacity() <= kept_free {
            return Heard::TooMuch;
        }
        match self.messages.try_send(message) {
            Ok(()) => Heard::OfUse,
            Err(mpsc::error::TrySendError::Full(_)) => Heard::TooMuch,
            Err(mpsc::error::TrySendError::Closed(_)) => Heard::OfNoUse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> NodeMessage {
        let payload = serde_json::json!({ "runId": "r" });
        NodeMessage::Event(
            RunEvent::of("exec.started", payload)
                .expect("an event of a run")
                .1,
        )
    }

    #[tokio::test]
    async fn a_node_that_says_too_much_is_heard_no_more_and_hides_no_end_of_a_connection() {
        let (control, mut mailbox) = NodeControl::new("n".to_owned());
        for _ in 0..MAX_MESSAGES {
            assert_eq!(control.deliver(event()), Heard::OfUse);
        }
        assert_eq!(control.deliver(event()), Heard::TooMuch);
        let gone = |number| NodeMessage::Disconnected(ConnectionId(number));
        for number in 0..MAX_LINK_MESSAGES as u64 {
            assert_eq!(control.deliver(gone(number)), Heard::OfUse);
        }
        assert_eq!(control.deliver(gone(99)), Heard::TooMuch);
        while mailbox.messages.try_recv().is_ok() {}
        assert_eq!(control.deliver(event()), Heard::OfUse);
        mailbox.messages.close();
        assert_eq!(control.deliver(event()), Heard::OfNoUse);
    }
}
