//! Which nodes there are, which of them are connected, and which calls wait for them. One lock, held shortly.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio::sync::oneshot;

use countersign_domain::{PairedNode, TokenId, UnixMillis};
use countersign_hosts::node::{ConnectionId, InvokeFailure, InvokeResult, NodeGeneration};

use super::{
    outbox::Outbox,
    token_quota::{QuotaPermit, TokenQuota},
};

/// Calls of one node that may wait for an answer.
const MOST_INVOKES: usize = 256;
/// Most of them in the name of one token: a node that answers nothing is still there for everybody else.
const MOST_INVOKES_OF_TOKEN: usize = MOST_INVOKES / 2;

/// What came of a call.
pub(super) type Outcome = Result<InvokeResult, InvokeFailure>;

#[derive(Debug, Default)]
pub(super) struct Registry {
    nodes: BTreeMap<String, Node>,
    connected: usize,
}

/// A node that a person let in.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) paired: PairedNode,
    pub(super) live: Option<Live>,
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) connection: ConnectionId,
    pub(super) generation: NodeGeneration,
    pub(super) connected_at: UnixMillis,
    pub(super) outbox: Outbox,
    waiting: HashMap<String, PendingInvoke>,
    /// For the calls that wait: they end with the connection, and so do their permits.
    quota: Arc<TokenQuota>,
}

/// A call that waits for its answer.
#[derive(Debug)]
struct PendingInvoke {
    answer: oneshot::Sender<Outcome>,
    /// Free as soon as the call waits no more, however it ends.
    _permit: QuotaPermit,
}

/// A connection on its way into the registry.
#[derive(Debug)]
pub(super) struct NewLive {
    pub(super) connection: ConnectionId,
    pub(super) generation: NodeGeneration,
    pub(super) connected_at: UnixMillis,
    pub(super) outbox: Outbox,
}

/// Why a connection was not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotEntered {
    /// The node was removed or revoked in the meantime.
    NotPaired,
    /// There are too many.
    Full,
}

impl Registry {
    /// The nodes, by id.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub(super) fn get(&self, node_id: &str) -> Option<&Node> {
        self.nodes.get(node_id)
    }

    /// Takes in what is known of a node now; its connection stays.
    pub(super) fn put(&mut self, paired: PairedNode) {
        match self.nodes.get_mut(&paired.node_id) {
            // What a node that is connected declares is what it declared over that connection.
            Some(node) if node.live.is_some() => {
                let known = &node.paired;
                node.paired = PairedNode {
                    profile: known.profile.clone(),
                    protocol: known.protocol,
                    last_seen_at: known.last_seen_at,
                    ..paired
                };
            }
            Some(node) => node.paired = paired,
            None => {
                let id = paired.node_id.clone();
                self.nodes.insert(id, Node { paired, live: None });
            }
        }
    }

    /// Forgets a node; its connection is handed out.
    pub(super) fn remove(&mut self, node_id: &str) -> Option<Live> {
        let live = self.take_live(node_id);
        self.nodes.remove(node_id);
        live
    }

    /// Takes a connection in. The one that it replaces is handed out, with the calls that waited for it ended.
    pub(super) fn enter(
        &mut self,
        paired: PairedNode,
        live: NewLive,
        most: usize,
    ) -> Result<Option<Live>, NotEntered> {
        let node_id = paired.node_id.clone();
        let known = self.nodes.get(&node_id).ok_or(NotEntered::NotPaired)?;
        if known.paired.revoked_at.is_some() {
            return Err(NotEntered::NotPaired);
        }
        if known.live.is_none() && self.connected >= most {
            return Err(NotEntered::Full);
        }
        let replaced = self.take_live(&node_id);
        let NewLive {
            connection,
            generation,
            connected_at,
            outbox,
        } = live;
        if let Some(node) = self.nodes.get_mut(&node_id) {
            // A decision or a new name may have come in between.
            let PairedNode {
                profile,
                protocol,
                last_seen_at,
                ..
            } = paired;
            node.paired.profile = profile;
            node.paired.protocol = protocol;
            node.paired.last_seen_at = last_seen_at;
            node.live = Some(Live {
                connection,
                generation,
                connected_at,
                outbox,
                waiting: HashMap::new(),
                quota: TokenQuota::new(MOST_INVOKES, MOST_INVOKES_OF_TOKEN),
            });
            self.connected += 1;
        }
        Ok(replaced)
    }

    /// Takes a connection out, if it is still the node's: the late end of a replaced one changes nothing.
    pub(super) fn leave(&mut self, node_id: &str, connection: ConnectionId, now: UnixMillis) -> bool {
        let is_here = self.is_connection(node_id, connection);
        if is_here {
            drop(self.take_live(node_id));
            if let Some(node) = self.nodes.get_mut(node_id) {
                node.paired.last_seen_at = Some(now);
            }
        }
        is_here
    }

    /// Ends a node's connection, whichever it is.
    pub(super) fn take_live(&mut self, node_id: &str) -> Option<Live> {
        let mut live = self.nodes.get_mut(node_id)?.live.take()?;
        self.connected -= 1;
        #[expect(clippy::iter_over_hash_type, reason = "all of them end, in any order")]
        for (_id, waiting) in live.waiting.drain() {
            // A caller who gave up is told nothing.
            drop(waiting.answer.send(Err(InvokeFailure::Disconnected)));
        }
        Some(live)
    }

    /// Whether that is the connection that a node has.
    pub(super) fn is_connection(&self, node_id: &str, connection: ConnectionId) -> bool {
        self.live(node_id)
            .is_some_and(|live| live.connection == connection)
    }

    pub(super) fn live(&self, node_id: &str) -> Option<&Live> {
        self.nodes.get(node_id)?.live.as_ref()
    }

    /// Waits for the answer to a call from now on, in the name of a token or of this server.
    pub(super) fn expect(
        &mut self,
        node_id: &str,
        invoke_id: &str,
        token: Option<&TokenId>,
    ) -> Result<oneshot::Receiver<Outcome>, InvokeFailure> {
        let live = self
            .nodes
            .get_mut(node_id)
            .and_then(|node| node.live.as_mut())
            .ok_or(InvokeFailure::NotConnected)?;
        // An id that waits already is another call's: its answer could not be told from this one's.
        if live.waiting.contains_key(invoke_id) {
            return Err(InvokeFailure::Full);
        }
        let permit = live.quota.take(token).map_err(|_none| InvokeFailure::Full)?;
        let (answer, outcome) = oneshot::channel();
        let waiting = PendingInvoke {
            answer,
            _permit: permit,
        };
        live.waiting.insert(invoke_id.to_owned(), waiting);
        Ok(outcome)
    }

    /// Waits no more; `true` when the answer had not come.
    pub(super) fn give_up(&mut self, node_id: &str, connection: ConnectionId, invoke_id: &str) -> bool {
        self.waiting_of(node_id, connection)
            .is_some_and(|waiting| waiting.remove(invoke_id).is_some())
    }

    /// Hands an answer to the caller who waits for it, and gives it back when nobody does. Only the connection that was
    /// called can answer.
    pub(super) fn answer(
        &mut self,
        node_id: &str,
        connection: ConnectionId,
        invoke_id: &str,
        result: InvokeResult,
    ) -> Result<(), InvokeResult> {
        let waiting = self
            .waiting_of(node_id, connection)
            .and_then(|waiting| waiting.remove(invoke_id));
        match waiting {
            None => Err(result),
            Some(waiting) => waiting.answer.send(Ok(result)).map_err(|unsent| match unsent {
                Ok(result) => result,
                Err(_never) => InvokeResult {
                    outcome: Ok(serde_json::Value::Null),
                },
            }),
        }
    }

    fn waiting_of(
        &mut self,
        node_id: &str,
        connection: ConnectionId,
    ) -> Option<&mut HashMap<String, PendingInvoke>> {
        let live = self.nodes.get_mut(node_id)?.live.as_mut()?;
        (live.connection == connection).then_some(&mut live.waiting)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use countersign_domain::{NodeProfile, PairingKind, PairingRequest};

    fn paired(node_id: &str) -> PairedNode {
        let request = PairingRequest {
            request_id: "r".to_owned(),
            kind: PairingKind::Device,
            node_id: node_id.to_owned(),
            public_key: "k".to_owned(),
            profile: NodeProfile::default(),
            is_repair: false,
            requested_at: UnixMillis::new(1),
        };
        PairedNode::first(&request, UnixMillis::new(1)).unwrap()
    }

    fn live(connection: u64) -> NewLive {
        NewLive {
            connection: ConnectionId(connection),
            generation: NodeGeneration::Present,
            connected_at: UnixMillis::new(1),
            outbox: Outbox::new(1000),
        }
    }

    fn with(nodes: &[&str]) -> Registry {
        let mut registry = Registry::default();
        for node in nodes {
            registry.put(paired(node));
        }
        registry
    }

    fn result() -> InvokeResult {
        InvokeResult {
            outcome: Ok(json!(1)),
        }
    }

    #[test]
    fn a_replaced_connection_takes_its_calls_along_and_nothing_else() {
        let mut registry = with(&["a"]);
        assert!(registry.enter(paired("a"), live(1), 5).unwrap().is_none());
        let mut waiting = registry.expect("a", "i", None).unwrap();
        let replaced = registry.enter(paired("a"), live(2), 5).unwrap().unwrap();
        assert_eq!(replaced.connection, ConnectionId(1));
        assert_eq!(waiting.try_recv().unwrap(), Err(InvokeFailure::Disconnected));
        assert!(!registry.leave("a", ConnectionId(1), UnixMillis::new(2)));
        assert!(registry.is_connection("a", ConnectionId(2)));
        assert_eq!(registry.connected, 1);
        assert!(registry.leave("a", ConnectionId(2), UnixMillis::new(2)));
        assert_eq!(registry.connected, 0);
    }

    #[test]
    fn nobody_answers_for_another() {
        let mut registry = with(&["a", "b"]);
        registry.enter(paired("a"), live(1), 5).unwrap();
        registry.enter(paired("b"), live(2), 5).unwrap();
        let mut waiting = registry.expect("a", "i", None).unwrap();
        assert!(registry.answer("b", ConnectionId(2), "i", result()).is_err());
        assert!(registry.answer("a", ConnectionId(2), "i", result()).is_err());
        assert!(registry.answer("a", ConnectionId(1), "other", result()).is_err());
        assert!(registry.answer("a", ConnectionId(1), "i", result()).is_ok());
        assert!(registry.answer("a", ConnectionId(1), "i", result()).is_err());
        assert_eq!(waiting.try_recv().unwrap(), Ok(result()));
    }

    #[test]
    fn who_gave_up_hears_nothing_and_the_answer_is_given_back() {
        let mut registry = with(&["a"]);
        registry.enter(paired("a"), live(1), 5).unwrap();
        drop(registry.expect("a", "i", None).unwrap());
        assert_eq!(
            registry.answer("a", ConnectionId(1), "i", result()),
            Err(result())
        );
        drop(registry.expect("a", "j", None).unwrap());
        assert!(registry.give_up("a", ConnectionId(1), "j"));
        assert!(!registry.give_up("a", ConnectionId(1), "j"));
    }

    #[test]
    fn calls_are_bounded_and_their_ids_are_their_own() {
        let mut registry = with(&["a"]);
        assert_eq!(
            registry.expect("a", "i", None).unwrap_err(),
            InvokeFailure::NotConnected
        );
        registry.enter(paired("a"), live(1), 5).unwrap();
        let mut all = vec![registry.expect("a", "i", None).unwrap()];
        assert_eq!(registry.expect("a", "i", None).unwrap_err(), InvokeFailure::Full);
        for number in 1..MOST_INVOKES {
            all.push(registry.expect("a", &number.to_string(), None).unwrap());
        }
        assert_eq!(
            registry.expect("a", "more", None).unwrap_err(),
            InvokeFailure::Full
        );
        assert!(registry.answer("a", ConnectionId(1), "i", result()).is_ok());
        assert!(registry.expect("a", "more", None).is_ok());
    }

    #[test]
    fn one_token_leaves_half_of_the_places_whatever_becomes_of_its_calls() {
        let mut registry = with(&["a", "b"]);
        registry.enter(paired("a"), live(1), 5).unwrap();
        registry.enter(paired("b"), live(2), 5).unwrap();
        let (greedy, other) = (
            TokenId::parse("greedy").unwrap(),
            TokenId::parse("other").unwrap(),
        );
        let fill = |registry: &mut Registry, token: &TokenId| {
            let mut receivers = Vec::new();
            while let Ok(receiver) =
                registry.expect("a", &format!("{token}-{}", receivers.len()), Some(token))
            {
                receivers.push(receiver);
            }
            receivers
        };
        let mut all = fill(&mut registry, &greedy);
        assert_eq!(all.len(), MOST_INVOKES_OF_TOKEN);
        // The same token at another node, another token and this server find permits.
        all.push(registry.expect("b", "i", Some(&greedy)).unwrap());
        all.push(registry.expect("a", "server", None).unwrap());
        all.push(registry.expect("a", "other", Some(&other)).unwrap());
        // An id that waits already takes no permit.
        assert_eq!(
            registry.expect("a", "other", Some(&other)).unwrap_err(),
            InvokeFailure::Full
        );
        // However a call ends its permit is free, once.
        assert!(
            registry
                .answer("a", ConnectionId(1), "greedy-0", result())
                .is_ok()
        );
        assert!(
            registry
                .answer("a", ConnectionId(1), "greedy-0", result())
                .is_err()
        );
        assert!(!registry.give_up("a", ConnectionId(1), "greedy-0"));
        assert!(!registry.give_up("a", ConnectionId(2), "greedy-1"));
        all.push(registry.expect("a", "again", Some(&greedy)).unwrap());
        assert!(registry.expect("a", "more", Some(&greedy)).is_err());
        assert!(registry.give_up("a", ConnectionId(1), "greedy-1"));
        all.push(registry.expect("a", "more", Some(&greedy)).unwrap());
        assert!(registry.expect("a", "most", Some(&greedy)).is_err());
        // All together still have no more than there are.
        let rest = fill(&mut registry, &other).len() + 2 + MOST_INVOKES_OF_TOKEN;
        assert_eq!(rest, MOST_INVOKES);
        assert_eq!(
            registry.expect("a", "full", None).unwrap_err(),
            InvokeFailure::Full
        );
        // Another connection has all of its permits, and the late end of a call over the one before frees none of them.
        registry.enter(paired("a"), live(3), 5).unwrap();
        assert_eq!(fill(&mut registry, &greedy).len(), MOST_INVOKES_OF_TOKEN);
        assert!(!registry.give_up("a", ConnectionId(1), "greedy-2"));
        assert!(registry.expect("a", "late", Some(&greedy)).is_err());
    }

    #[test]
    fn only_those_who_were_let_in_enter_and_no_more_than_there_are_places() {
        let mut registry = with(&["a", "b"]);
        assert_eq!(
            registry.enter(paired("x"), live(1), 5).unwrap_err(),
            NotEntered::NotPaired
        );
        registry.enter(paired("a"), live(1), 1).unwrap();
        assert_eq!(
            registry.enter(paired("b"), live(2), 1).unwrap_err(),
            NotEntered::Full
        );
        // A node that is here may come back.
        assert!(registry.enter(paired("a"), live(3), 1).unwrap().is_some());
        let mut revoked = paired("b");
        revoked.revoked_at = Some(UnixMillis::new(2));
        registry.put(revoked);
        assert_eq!(
            registry.enter(paired("b"), live(4), 5).unwrap_err(),
            NotEntered::NotPaired
        );
        assert_eq!(registry.remove("a").unwrap().connection, ConnectionId(3));
        assert_eq!(registry.connected, 0);
    }

    #[test]
    fn what_a_connected_node_declares_is_not_changed_by_a_decision() {
        let mut registry = with(&["a"]);
        let mut here = paired("a");
        here.profile.commands.insert("system.which".to_owned());
        registry.enter(here, live(1), 5).unwrap();
        let mut decided = paired("a");
        for commands in [&mut decided.profile.commands, &mut decided.approved.commands] {
            commands.insert("system.run".to_owned());
            commands.insert("system.which".to_owned());
        }
        registry.put(decided);
        let offered: Vec<String> = registry.get("a").unwrap().paired.commands().into_iter().collect();
        assert_eq!(offered, ["system.which"]);
    }

    #[test]
    fn a_decision_that_came_in_between_stays() {
        let mut registry = with(&["a"]);
        let mut renamed = paired("a");
        renamed.label = Some("here".to_owned());
        registry.put(renamed);
        registry.enter(paired("a"), live(1), 5).unwrap();
        assert_eq!(registry.get("a").unwrap().paired.label.as_deref(), Some("here"));
    }
}
