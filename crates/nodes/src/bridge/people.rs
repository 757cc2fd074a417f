//! What people do about nodes: look, decide, name, take away. The interface of HTTP, the command line and operators.

use std::sync::Arc;

use serde_json::json;

use countersign_domain::{Actor, PairingDecision, PairingKind, Secret, hex};
use countersign_engine::reply::StorageTrouble;
use countersign_ledger::auth::NodeSecret;
use countersign_protocol::bridge::{Event, PAIR_RESOLVED};

use super::{
    hub::{NodeHub, tell_node},
    record::{NodeRecord, PairingRequest},
    server::Bridge,
};

impl Bridge {
    /// Every node that was let in.
    ///
    /// # Errors
    /// Never today: who was let in is in memory.
    #[crate::compiled_once]
    pub async fn nodes(&self) -> Result<Vec<NodeRecord>, StorageTrouble> {
        Ok(self.hub.records())
    }

    /// One of them, by its whole id.
    ///
    /// # Errors
    /// Never today: who was let in is in memory.
    #[crate::compiled_once]
    pub async fn node(&self, node_id: &str) -> Result<Option<NodeRecord>, StorageTrouble> {
        Ok(self.hub.record(node_id))
    }

    /// What waits for a decision, both kinds, the oldest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn pairings(&self) -> Result<Vec<PairingRequest>, StorageTrouble> {
        let waiting = self.hub.ledger.node_pairings().await?;
        Ok(waiting.into_iter().map(PairingRequest::from).collect())
    }

    /// Decides a request. `None` when it was decided before, is too old, or never was.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was decided.
    #[crate::compiled_once]
    pub async fn decide_pairing(
        &self,
        by: &Actor,
        request_id: &str,
        decision: PairingDecision,
    ) -> Result<Option<PairingRequest>, StorageTrouble> {
        let hub = Arc::clone(&self.hub);
        let (by, request_id) = (by.clone(), request_id.to_owned());
        // In a task of its own: what the ledger has taken must reach the registry even if the caller goes away.
        self.to_completion(async move { decide(&hub, by, request_id, decision).await })
            .await
    }

    /// Gives a node another name; `None` when there is none.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn rename(
        &self,
        by: &Actor,
        node_id: &str,
        name: String,
    ) -> Result<Option<NodeRecord>, StorageTrouble> {
        let hub = Arc::clone(&self.hub);
        let (by, node_id) = (by.clone(), node_id.to_owned());
        self.to_completion(async move {
            let _alone = hub.changes.write().await;
            let renamed = hub.ledger.rename_node(node_id.clone(), name, by).await?;
            Ok(renamed.and_then(|node| {
                hub.registry().put(node);
                hub.record(&node_id)
            }))
        })
        .await
    }

    /// Forgets a node: its tokens open nothing, its connection ends at once. `false` when there is none.
    ///
    /// # Errors
    /// When the ledger cannot be written; then it is still let in.
    #[crate::compiled_once]
    pub async fn remove(&self, by: &Actor, node_id: &str) -> Result<bool, StorageTrouble> {
        let hub = Arc::clone(&self.hub);
        let (by, node_id) = (by.clone(), node_id.to_owned());
        self.to_completion(async move {
            let _alone = hub.changes.write().await;
            let removed = hub.ledger.remove_node(node_id.clone(), by).await?;
            if removed {
                let live = hub.registry().remove(&node_id);
                hub.expel(&node_id, live, "removed").await;
            }
            Ok(removed)
        })
        .await
    }

    /// Gives a node a new token, which is shown this once; those that it had open nothing any more, and its connection
    /// ends. `None` when there is no such node, or its token was taken away.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn rotate_token(&self, by: &Actor, node_id: &str) -> Result<Option<Secret>, StorageTrouble> {
        let hub = Arc::clone(&self.hub);
        let fresh = NodeSecret::generate(&*self.ids);
        let sha256 = hex(fresh.digest().as_bytes());
        let (by, node_id) = (by.clone(), node_id.to_owned());
        let rotated = self
            .to_completion(async move {
                let _alone = hub.changes.write().await;
                let rotated = hub.ledger.replace_node_token(node_id.clone(), sha256, by).await?;
                if rotated {
                    let live = hub.registry().take_live(&node_id);
                    hub.expel(&node_id, live, "token replaced").await;
                }
                Ok(rotated)
            })
            .await?;
        Ok(rotated.then(|| fresh.into_secret()))
    }

    /// Takes a node's tokens away and ends its connection: a person must let it in again. `false` when there is no
    /// such node.
    ///
    /// # Errors
    /// When the ledger cannot be written; then the tokens still open.
    #[crate::compiled_once]
    pub async fn revoke_token(&self, by: &Actor, node_id: &str) -> Result<bool, StorageTrouble> {
        let hub = Arc::clone(&self.hub);
        let (by, node_id) = (by.clone(), node_id.to_owned());
        self.to_completion(async move {
            let _alone = hub.changes.write().await;
            let Some(node) = hub.ledger.revoke_node(node_id.clone(), by).await? else {
                return Ok(false);
            };
            hub.registry().put(node);
            let live = hub.registry().take_live(&node_id);
            hub.expel(&node_id, live, "token revoked").await;
            Ok(true)
        })
        .await
    }
}

async fn decide(
    hub: &NodeHub,
    by: Actor,
    request_id: String,
    decision: PairingDecision,
) -> Result<Option<PairingRequest>, StorageTrouble> {
    let _alone = hub.changes.write().await;
    let decided = hub
        .ledger
        .decide_pairing(request_id.clone(), decision, by)
        .await?;
    let Some(decided) = decided else { return Ok(None) };
    let request = decided.request;
    if let Some(node) = decided.node {
        hub.registry().put(node);
    }
    if request.kind == PairingKind::Commands {
        let word = match decision {
            PairingDecision::Approve => "approved",
            PairingDecision::Reject => "rejected",
        };
        let payload = json!({
            "requestId": request_id,
            "nodeId": request.node_id,
            "decision": word,
            "ts": hub.clock.now().get(),
        });
        if let Some(live) = hub.registry().live(&request.node_id) {
            tell_node(live, Event::new(PAIR_RESOLVED, payload));
        }
        if decision == PairingDecision::Approve {
            hub.tell_connected(&request.node_id);
        }
    }
    Ok(Some(request.into()))
}
