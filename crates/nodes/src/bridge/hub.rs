//! The nodes of this server, and the way to them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::sync::{RwLock, oneshot};

use countersign_config::settings::SettingsStore;
use countersign_domain::PairedNode;
use countersign_hosts::node::{
    ConnectionId, Heard, InvokeFailure, InvokeRequest, InvokeResult, NodeGeneration, NodeInfo, NodeLink,
    NodeSink, Oversize,
};
use countersign_ledger::{Ledger, LedgerError, events::EventKind};
use countersign_protocol::bridge::{CommandRules, Event, Frame, InvokeCall, InvokeCancel, POLICY};
use countersign_sys::clock::Clock;

use super::{
    outbox::Unsent,
    record::NodeRecord,
    registry::{Live, NewLive, Node, NotEntered, Outcome, Registry},
    stats::BridgeStats,
};

/// Longest frame that a node is sent: every node host takes so much, and hangs up at more.
const MOST_TO_NODE: usize = 25 * 1024 * 1024;

/// The nodes of this server: what the engine calls. It exists before the engine does.
#[derive(Debug)]
pub struct NodeHub {
    pub(super) ledger: Ledger,
    pub(super) settings: Arc<SettingsStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stats: BridgeStats,
    registry: Mutex<Registry>,
    /// Taken together by those who connect, alone by those who change who may: nobody slips in between a change and
    /// its effect.
    pub(super) changes: RwLock<()>,
    sink: OnceLock<Weak<dyn NodeSink>>,
    connections: AtomicU64,
}

impl NodeHub {
    /// The nodes that the ledger knows; none is connected yet.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn load(
        ledger: Ledger,
        settings: Arc<SettingsStore>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, LedgerError> {
        let mut registry = Registry::default();
        for node in ledger.paired_nodes().await? {
            registry.put(node);
        }
        Ok(Arc::new(Self {
            ledger,
            settings,
            clock,
            stats: BridgeStats::default(),
            registry: Mutex::new(registry),
            changes: RwLock::new(()),
            sink: OnceLock::new(),
            connections: AtomicU64::new(0),
        }))
    }

    /// Says who hears what nodes say; the first call counts.
    pub fn set_sink(&self, sink: Weak<dyn NodeSink>) {
        self.sink.get_or_init(|| sink);
    }

    /// What the Bridge has counted since the hub was loaded; a clone shares the counts.
    pub const fn stats(&self) -> &BridgeStats {
        &self.stats
    }

    pub(super) fn sink(&self) -> Option<Arc<dyn NodeSink>> {
        self.sink.get()?.upgrade()
    }

    pub(super) fn next_connection(&self) -> ConnectionId {
        ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes as people see them.
    pub(super) fn records(&self) -> Vec<NodeRecord> {
        let rules = self.rules();
        self.registry().iter().map(|node| record(node, &rules)).collect()
    }

    pub(super) fn record(&self, node_id: &str) -> Option<NodeRecord> {
        let rules = self.rules();
        self.registry().get(node_id).map(|node| record(node, &rules))
    }

    /// Takes in the connection of a node that was admitted, and tells of it.
    pub(super) async fn enter(&self, paired: PairedNode, live: NewLive) -> Result<(), NotEntered> {
        let most = self.settings.current().server.bridge.max_nodes;
        let node_id = paired.node_id.clone();
        let entered = self.registry().enter(paired, live, most)?;
        if let Some(replaced) = entered {
            replaced.outbox.cut("replaced by a newer connection");
            self.notify_disconnected(&node_id, replaced.connection, "replaced")
                .await;
        }
        self.tell_connected(&node_id);
        let display_name = self.name_of(&node_id);
        self.log(&node_id, EventKind::NodeConnected { display_name })
            .await;
        Ok(())
    }

    /// Takes a connection out that has ended, and tells of it if it was still the node's.
    pub(super) async fn leave(&self, node_id: &str, connection: ConnectionId, reason: &str) {
        if self.registry().leave(node_id, connection, self.clock.now()) {
            self.notify_disconnected(node_id, connection, reason).await;
        }
    }

    /// Ends the connection of a node that may not be here any more.
    pub(super) async fn expel(&self, node_id: &str, live: Option<Live>, reason: &str) {
        if let Some(live) = live {
            live.outbox.cut(reason);
            self.notify_disconnected(node_id, live.connection, reason).await;
        }
    }

    /// Tells the engine of a node as it stands now, if it is connected.
    pub(super) fn tell_connected(&self, node_id: &str) {
        let rules = self.rules();
        let info = self
            .registry()
            .get(node_id)
            .filter(|node| node.live.is_some())
            .map(|node| info(node, &rules));
        if let (Some(sink), Some(info)) = (self.sink(), info) {
            let connection = info.connection;
            if sink.connected(info) == Heard::TooMuch
                && let Some(connection) = connection
            {
                self.end_as_too_much(node_id, connection);
            }
        }
    }

    /// Ends this connection of a node of whose messages as many as may wait for one run.
    pub(super) fn end_as_too_much(&self, node_id: &str, connection: ConnectionId) {
        let registry = self.registry();
        let live = registry.get(node_id).and_then(|node| node.live.as_ref());
        if let Some(live) = live.filter(|live| live.connection == connection) {
            live.outbox.close(POLICY, "too many messages about one run wait");
        }
    }

    async fn notify_disconnected(&self, node_id: &str, connection: ConnectionId, reason: &str) {
        if let Some(sink) = self.sink() {
            sink.disconnected(node_id, connection);
        }
        let kind = EventKind::NodeDisconnected {
            display_name: self.name_of(node_id),
            reason: Some(reason.to_owned()),
        };
        self.log(node_id, kind).await;
    }

    fn name_of(&self, node_id: &str) -> Option<String> {
        self.registry()
            .get(node_id)
            .and_then(|node| node.paired.display_name().map(str::to_owned))
    }

    async fn log(&self, node_id: &str, kind: EventKind) {
        if let Err(error) = self.ledger.node_seen(node_id.to_owned(), kind).await {
            tracing::error!(node.id = node_id, %error, "an event of a node cannot be recorded");
        }
    }

    fn rules(&self) -> CommandRules {
        let settings = self.settings.current();
        let bridge = &settings.server.bridge;
        CommandRules {
            allow: bridge.allow_commands.clone(),
            deny: bridge.deny_commands.clone(),
        }
    }

    /// Sends a call, and says over which connection its answer must come.
    fn call(&self, request: InvokeRequest) -> Result<Call<'_>, InvokeFailure> {
        let InvokeRequest {
            node_id,
            connection,
            id,
            command,
            params,
            timeout,
            token,
        } = request;
        let frame = InvokeCall {
            id: id.clone(),
            node_id: node_id.clone(),
            command: command.clone(),
            params,
            timeout_ms: timeout.map(millis),
            idempotency_key: Some(id.clone()),
        };
        // Before the lock, which everybody who looks at nodes waits for.
        let text = Frame::from(frame.to_event()).to_text();
        drop(frame);
        if text.len() > MOST_TO_NODE {
            return Err(InvokeFailure::TooLarge(Oversize {
                bytes: text.len(),
                most: MOST_TO_NODE,
            }));
        }
        let rules = self.rules();
        let mut registry = self.registry();
        let node = registry.get(&node_id).ok_or(InvokeFailure::NotConnected)?;
        let live = node.live.as_ref().ok_or(InvokeFailure::NotConnected)?;
        if connection.is_some_and(|wanted| wanted != live.connection) {
            return Err(InvokeFailure::NotConnected);
        }
        check_command(node, &rules, &command)?;
        let (connection, outbox) = (live.connection, live.outbox.clone());
        let answer = registry.expect(&node_id, &id, token.as_ref())?;
        // Under the lock, so that an answer cannot come before the caller waits for it; sending does not wait.
        if let Err(unsent) = outbox.offer(text) {
            registry.give_up(&node_id, connection, &id);
            return Err(match unsent {
                Unsent::Closing => InvokeFailure::NotConnected,
                Unsent::Full => InvokeFailure::Full,
                Unsent::TooLarge(size) => InvokeFailure::TooLarge(size),
            });
        }
        Ok(Call {
            hub: self,
            node_id,
            connection,
            id,
            answer: Some(answer),
        })
    }
}

impl NodeLink for NodeHub {
    fn nodes(&self) -> Vec<NodeInfo> {
        let rules = self.rules();
        self.registry().iter().map(|node| info(node, &rules)).collect()
    }

    fn invoke(&self, request: InvokeRequest) -> BoxFuture<'_, Result<InvokeResult, InvokeFailure>> {
        Box::pin(async move {
            let timeout = request.timeout;
            let outcome = match self.call(request) {
                Err(failure) => Err(failure),
                Ok(call) => call.outcome(timeout).await,
            };
            self.stats.invoked(&outcome);
            outcome
        })
    }

    fn cancel(&self, node_id: &str, invoke_id: &str) {
        let registry = self.registry();
        let Some(live) = registry.live(node_id) else {
            return;
        };
        match live.generation {
            // It would not understand.
            NodeGeneration::First => {}
            NodeGeneration::Present | NodeGeneration::Ours => {
                let cancel = InvokeCancel {
                    invoke_id: invoke_id.to_owned(),
                    node_id: node_id.to_owned(),
                };
                let text = Frame::from(cancel.to_event()).to_text();
                if live.outbox.offer(text).is_err() {
                    tracing::debug!(
                        node.id = node_id,
                        "a node takes too little to be told that a call is over"
                    );
                }
            }
        }
    }
}

/// A call that was sent. Dropping it gives up waiting.
struct Call<'h> {
    hub: &'h NodeHub,
    node_id: String,
    connection: ConnectionId,
    id: String,
    answer: Option<oneshot::Receiver<Outcome>>,
}

impl Call<'_> {
    async fn outcome(mut self, timeout: Option<Duration>) -> Outcome {
        let Some(answer) = self.answer.take() else {
            return Err(InvokeFailure::Disconnected);
        };
        let Some(timeout) = timeout else {
            return answer.await.unwrap_or(Err(InvokeFailure::Disconnected));
        };
        let give_up = || {
            let mut registry = self.hub.registry();
            registry.give_up(&self.node_id, self.connection, &self.id)
        };
        let outcome = outcome_within(timeout, answer, give_up).await;
        if outcome == Err(InvokeFailure::TimedOut) {
            self.hub.cancel(&self.node_id, &self.id);
        }
        outcome
    }
}

/// The answer, if it comes in time. `give_up` says whether none has come when the time is over: one that came at the last
/// moment counts, since its node was told so and does not say it again.
async fn outcome_within(
    timeout: Duration,
    mut answer: oneshot::Receiver<Outcome>,
    give_up: impl FnOnce() -> bool,
) -> Outcome {
    let answered = match tokio::time::timeout(timeout, &mut answer).await {
        Ok(answered) => answered.ok(),
        Err(_elapsed) if give_up() => return Err(InvokeFailure::TimedOut),
        Err(_elapsed) => answer.try_recv().ok(),
    };
    answered.unwrap_or(Err(InvokeFailure::Disconnected))
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.hub
            .registry()
            .give_up(&self.node_id, self.connection, &self.id);
    }
}

/// Tells a node of the decision about its commands.
pub(super) fn tell_node(live: &Live, event: Event) {
    live.outbox.send(event.into());
}

fn check_command(node: &Node, rules: &CommandRules, command: &str) -> Result<(), InvokeFailure> {
    let paired = &node.paired;
    let offered = paired.commands();
    rules
        .check(Some(&paired.profile.platform), paired.family(), &offered, command)
        .map_err(|refusal| InvokeFailure::NotAllowed {
            reason: refusal.reason(),
        })
}

fn allowed(node: &Node, rules: &CommandRules) -> Vec<String> {
    let paired = &node.paired;
    let offered: BTreeSet<String> = paired.commands();
    offered
        .into_iter()
        .filter(|command| rules.allows(Some(&paired.profile.platform), paired.family(), command))
        .collect()
}

fn record(node: &Node, rules: &CommandRules) -> NodeRecord {
    let connected_at = node.live.as_ref().map(|live| live.connected_at);
    NodeRecord::of(node.paired.clone(), allowed(node, rules), connected_at)
}

fn info(node: &Node, rules: &CommandRules) -> NodeInfo {
    let paired = &node.paired;
    NodeInfo {
        node_id: paired.node_id.clone(),
        display_name: paired.display_name().map(str::to_owned),
        is_labelled: paired.label.is_some(),
        remote_ip: paired.profile.remote_ip,
        platform: Some(paired.profile.platform.clone()).filter(|platform| !platform.is_empty()),
        commands: allowed(node, rules),
        generation: node.live.as_ref().map(|live| live.generation),
        connection: node.live.as_ref().map(|live| live.connection),
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_at_the_last_moment_counts() {
        let within = Duration::from_secs(1);
        let result = || InvokeResult {
            outcome: Ok(serde_json::json!(1)),
        };
        let (teller, answer) = oneshot::channel();
        // The time is over, and the answer comes before anybody gave up.
        let give_up = || {
            teller.send(Ok(result())).expect("the call waits");
            false
        };
        assert_eq!(outcome_within(within, answer, give_up).await, Ok(result()));

        let (_teller, answer) = oneshot::channel();
        let late = outcome_within(within, answer, || true).await;
        assert_eq!(late, Err(InvokeFailure::TimedOut));
    }
}
