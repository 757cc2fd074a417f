//! How nodes are reached.

use std::{fmt, net::IpAddr, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::Value;

use countersign_domain::TokenId;
use countersign_protocol::bridge::OwnRule;

/// One connection of a node, unique for the life of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What kind of program a node is, as far as calls differ (`docs/spec/bridge.md#13-ours`, "Driving a node").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeGeneration {
    /// The product's first generation: protocol 3.
    First,
    /// The product's present one: protocol 4, offers `system.run.prepare`.
    Present,
    /// One of ours: keeps a fence per invoke id, understands `notAfterMs`.
    Ours,
}

/// A paired node, as the engine chooses among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its device id: 64 lower-case hexadecimal digits.
    pub node_id: String,
    /// Its name for people.
    pub display_name: Option<String>,
    /// Whether a client of this server gave it that name; else it is the one that it had when it was approved.
    pub is_labelled: bool,
    /// The address it connected from last.
    pub remote_ip: Option<IpAddr>,
    /// Its platform, as it said.
    pub platform: Option<String>,
    /// The commands that it declared, that were approved and that the settings allow; sorted.
    pub commands: Vec<String>,
    /// What it is; `None` while it never connected to this server.
    pub generation: Option<NodeGeneration>,
    /// Its connection; `None` while it is not connected.
    pub connection: Option<ConnectionId>,
}

impl NodeInfo {
    /// Whether it can be called with a command at this moment.
    pub fn offers(&self, command: &str) -> bool {
        self.connection.is_some() && self.commands.iter().any(|offered| offered == command)
    }
}

/// One call of a node.
#[derive(Debug, Clone)]
pub struct InvokeRequest {
    /// The node's device id, as in [`NodeInfo::node_id`].
    pub node_id: String,
    /// The connection that it must still have; `None` for whichever it has.
    pub connection: Option<ConnectionId>,
    /// The invoke id: the run's id for `system.run`.
    pub id: String,
    /// The command, such as `system.run`.
    pub command: String,
    /// The parameters, in the form of the command.
    pub params: Value,
    /// How long the answer may take; `None` for as long as the connection lives.
    pub timeout: Option<Duration>,
    /// The token in whose name it is, which may have a share of what waits for a node; `None` for this server's own.
    pub token: Option<TokenId>,
}

/// What a node answered.
#[derive(Debug, Clone, PartialEq)]
pub struct InvokeResult {
    /// The payload of a call that succeeded, or the node's error.
    pub outcome: Result<Value, NodeError>,
}

/// A node's own error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeError {
    /// Its code, such as `UNAVAILABLE`; empty when it gave none.
    pub code: String,
    /// Its message; empty when it gave none.
    pub message: String,
    /// The rule of its own policy behind it, where it is a node of ours and says so. Text for people, and nothing else.
    pub rule: Option<Box<OwnRule>>,
}

impl NodeError {
    /// An error without a rule.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            rule: None,
        }
    }
}

/// Why there is no answer of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvokeFailure {
    /// It was not connected (or no longer over the wanted connection). Nothing was sent.
    NotConnected,
    /// It does not offer the command, or the settings deny it. Nothing was sent.
    NotAllowed {
        /// The product's reason, such as `command not declared by node`.
        reason: &'static str,
    },
    /// Too much waits for it already, in all or in the name of the same token. Nothing was sent.
    Full,
    /// The call is larger than what a node takes. Nothing was sent.
    TooLarge(Oversize),
    /// The connection ended after the call was sent. Whether it was carried out is unknown.
    Disconnected,
    /// No answer came in time. Whether it is still being carried out is unknown.
    TimedOut,
}

/// How large a call is, and what a node takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversize {
    /// Bytes of the call as it would be sent.
    pub bytes: usize,
    /// The most that would be sent.
    pub most: usize,
}

impl fmt::Display for Oversize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, most } = self;
        write!(f, "the call has {bytes} bytes, and a node takes at most {most}")
    }
}

impl InvokeFailure {
    /// Whether it is certain that the node never saw the call.
    pub const fn was_not_sent(&self) -> bool {
        match self {
            Self::NotConnected | Self::NotAllowed { .. } | Self::Full | Self::TooLarge(_) => true,
            Self::Disconnected | Self::TimedOut => false,
        }
    }
}

/// The way to nodes.
pub trait NodeLink: fmt::Debug + Send + Sync {
    /// All paired nodes, connected or not.
    fn nodes(&self) -> Vec<NodeInfo>;

    /// Calls a node and waits for its answer. Dropping the future gives up waiting; the call itself goes on, and a
    /// late answer goes to [`NodeSink::late_result`].
    fn invoke(&self, request: InvokeRequest) -> BoxFuture<'_, Result<InvokeResult, InvokeFailure>>;

    /// Tells a node that a call is no longer wanted, if it understands that. Does not wait.
    fn cancel(&self, node_id: &str, invoke_id: &str);
}

/// What became of something that a node said, or of news about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Heard {
    /// It was of use.
    OfUse,
    /// Nothing came of it.
    OfNoUse,
    /// As much as may waits already. The connection has to end: nothing of a run is passed over in silence, and what became
    /// of it is asked once the node is back.
    TooMuch,
}

impl Heard {
    /// Whether it was of use.
    pub fn is_of_use(self) -> bool {
        self == Self::OfUse
    }
}

/// Who hears what nodes say on their own. Calls must return soon: they hold up the node's connection.
pub trait NodeSink: fmt::Debug + Send + Sync {
    /// A node is connected, paired, and its commands are approved.
    fn connected(&self, node: NodeInfo) -> Heard;

    /// A node's connection ended.
    fn disconnected(&self, node_id: &str, connection: ConnectionId);

    /// An answer to a call that nobody waits for any more, or never made.
    fn late_result(&self, node_id: &str, invoke_id: &str, result: InvokeResult) -> Heard;

    /// A `node.event`: its name and payload.
    fn event(&self, node_id: &str, connection: ConnectionId, event: &str, payload: Value) -> Heard;
}
