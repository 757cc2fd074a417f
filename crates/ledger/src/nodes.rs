//! Nodes: who was let in, who asks to be, and the SHA-256 of the tokens that they come back with.

use rusqlite::{Connection, Row};
use serde_json::{Map, Value, json};
use subtle::ConstantTimeEq as _;

use countersign_domain::{
    Actor, ActorKind, NodeProfile, PAIRING_LASTS, PairedNode, PairingDecision, PairingKind, PairingNeed,
    PairingRequest, PairingStatus, UnixMillis,
};

use crate::events::{Event, EventKind, PairingOutcome, Subject};

use super::{
    audit::{AuditAction, Entry},
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    rows::Columns,
    sql::{fetch, json as text, list},
    tx::Tx,
};

/// Devices that may wait for a person at once. A holder of the shared secret can make up any number.
const MOST_WAITING: i64 = 200;

/// The SHA-256 of a node's tokens, lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeToken {
    /// The token of now; `None` before its first connection and after a revocation.
    pub current: Option<String>,
    /// The one before, until the present one was used.
    pub previous: Option<String>,
}

/// What a device showed besides its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCredential {
    /// The shared secret of the Bridge; an admitted device then gets a token of its own.
    Shared,
    /// A token of its own, with this SHA-256.
    Token(String),
}

/// A device that proved itself and wants to connect as a node.
#[derive(Debug, Clone)]
pub struct ConnectNode {
    /// SHA-256 of its raw public key, lower-case hex.
    pub node_id: String,
    /// Its raw Ed25519 key, base64url without padding.
    pub public_key: String,
    /// What it says of itself.
    pub profile: NodeProfile,
    /// Number of the Bridge protocol that the handshake settled on, 3 or 4.
    pub protocol: i64,
    /// What it showed; you have checked the shared secret, and a token is checked again here.
    pub credential: NodeCredential,
    /// SHA-256 of the token that it gets if it came without one.
    pub fresh_sha256: String,
    /// Id of a request, should one be needed.
    pub request_id: String,
}

/// What a device that wants to connect is told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one per connection, taken apart at once"
)]
pub enum NodeAdmission {
    /// Its token opens nothing any more.
    WrongToken,
    /// A person must say so first.
    MustAsk {
        /// The request that they decide. Shortly after another one it is still that one, as it was shown.
        request: PairingRequest,
        /// Why its earlier pairing, if any, is not enough.
        need: PairingNeed,
    },
    /// Too many wait for a person already.
    Full,
    /// It may connect as a node.
    Admitted {
        /// The node, with what it said of itself just now.
        node: PairedNode,
        /// Whether the fresh token is its token from now on.
        is_fresh: bool,
        /// It declares more than was approved: the question about that.
        wider: Option<PairingRequest>,
    },
}

/// A request that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedPairing {
    /// The request, which waits no more.
    pub request: PairingRequest,
    /// The node after an approval.
    pub node: Option<PairedNode>,
}

impl Ledger {
    /// Every node that was let in.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn paired_nodes(&self) -> Result<Vec<PairedNode>, LedgerError> {
        self.readers
            .blocking(|connection| {
                let sql = format!("SELECT {NODE_COLUMNS} FROM nodes ORDER BY node_id");
                list(connection, &sql, (), node_from_row)
            })
            .await
    }

    /// The digests of a node's tokens; `None` when it is not paired, and both empty when it was revoked.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn node_token(&self, node_id: &str) -> Result<Option<NodeToken>, LedgerError> {
        self.readers
            .inline(|connection| fetch_token(connection, node_id))
            .await
    }

    /// What waits for a person, the oldest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn node_pairings(&self) -> Result<Vec<PairingRequest>, LedgerError> {
        let now = self.clock.now();
        self.readers
            .inline(|connection| {
                let sql =
                    format!("SELECT {PAIRING_COLUMNS} FROM node_pairings ORDER BY requested_ms, request_id");
                let mut all = list(connection, &sql, (), pairing_from_row)?;
                all.retain(|request| request.is_open(now));
                Ok(all)
            })
            .await
    }

    /// Checks a device that wants to connect, and stores what follows: its request, or that it was here.
    ///
    /// # Errors
    /// When the ledger cannot be written; then it must not connect.
    #[crate::compiled_once]
    pub async fn connect_node(&self, connect: ConnectNode) -> Result<NodeAdmission, LedgerError> {
        self.queue.submit(Connect(connect)).await
    }

    /// Decides a request. `None` when there is none that can still be decided.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn decide_pairing(
        &self,
        request_id: String,
        decision: PairingDecision,
        by: Actor,
    ) -> Result<Option<DecidedPairing>, LedgerError> {
        self.queue
            .submit(Decide {
                request_id,
                decision,
                by,
            })
            .await
    }

    /// Gives a node another name; `None` when there is none.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn rename_node(
        &self,
        node_id: String,
        label: String,
        by: Actor,
    ) -> Result<Option<PairedNode>, LedgerError> {
        self.queue.submit(Rename { node_id, label, by }).await
    }

    /// Forgets a node and what it asks for; `false` when there was none.
    ///
    /// # Errors
    /// When the ledger cannot be written; then it is still let in.
    #[crate::compiled_once]
    pub async fn remove_node(&self, node_id: String, by: Actor) -> Result<bool, LedgerError> {
        self.queue.submit(Remove { node_id, by }).await
    }

    /// Gives a node the token with this SHA-256, in place of all others; `false` when there is no such node, or it was
    /// revoked.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn replace_node_token(
        &self,
        node_id: String,
        sha256: String,
        by: Actor,
    ) -> Result<bool, LedgerError> {
        self.queue.submit(Replace { node_id, sha256, by }).await
    }

    /// Takes a node's tokens away: a person must let it in again. `None` when there is no such node.
    ///
    /// # Errors
    /// When the ledger cannot be written; then the tokens still open.
    #[crate::compiled_once]
    pub async fn revoke_node(&self, node_id: String, by: Actor) -> Result<Option<PairedNode>, LedgerError> {
        self.queue.submit(Revoke { node_id, by }).await
    }

    /// Notes that a node was here, and tells of it.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn node_seen(&self, node_id: String, kind: EventKind) -> Result<(), LedgerError> {
        self.queue.submit(RecordNodeSeen { node_id, kind }).await
    }
}

struct Connect(ConnectNode);

impl Connect {
    /// Stores what is asked, or finds that it is being asked already.
    fn ask(
        &self,
        tx: &mut Tx<'_>,
        kind: PairingKind,
        profile: &NodeProfile,
        is_repair: bool,
    ) -> Result<Option<PairingRequest>, Fault> {
        let ConnectNode {
            node_id,
            public_key,
            request_id,
            ..
        } = &self.0;
        let now = tx.now();
        let asked = fetch_pairing_of(tx.connection, node_id, kind)?.filter(|asked| asked.is_open(now));
        if let Some(asked) = asked {
            if asked.asks_the_same(profile) {
                return said_anew(tx, asked, profile).map(Some);
            }
            // Anything else is asked later: what waits is what a person was shown, and can be approved meanwhile.
            if !asked.may_be_replaced(now) {
                return Ok(Some(asked));
            }
        }
        let too_old = now.get().saturating_sub(super::sql::millis(PAIRING_LASTS));
        tx.execute(
            "DELETE FROM node_pairings WHERE (node_id = ?1 AND kind = ?2) OR (kind = 'device' AND requested_ms <= ?3)",
            (node_id, kind.as_str(), too_old),
        )?;
        let sql = "SELECT count(*) FROM node_pairings WHERE kind = 'device'";
        let waiting = fetch(tx.connection, sql, (), |row| Ok(row.get::<_, i64>(0)?))?;
        // Questions about commands are as many as nodes at most.
        if kind == PairingKind::Device && waiting.unwrap_or(0) >= MOST_WAITING {
            return Ok(None);
        }
        let request = PairingRequest {
            request_id: request_id.clone(),
            kind,
            node_id: node_id.clone(),
            public_key: public_key.clone(),
            profile: profile.clone(),
            is_repair,
            requested_at: now,
        };
        tx.execute(
            "INSERT INTO node_pairings (request_id, kind, node_id, public_key, profile, is_repair, requested_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                request_id,
                kind.as_str(),
                node_id,
                public_key,
                text(profile),
                is_repair,
                now.get(),
            ),
        )?;
        let event = about(
            node_id,
            EventKind::NodePairingRequested(Box::new(request.clone())),
        );
        tx.log(event, &node_actor(node_id, profile.display_name.as_deref()))?;
        Ok(Some(request))
    }
}

impl Change for Connect {
    type Answer = NodeAdmission;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<NodeAdmission, Fault> {
        let ConnectNode {
            node_id,
            public_key,
            profile,
            protocol,
            credential,
            fresh_sha256,
            request_id: _used_when_asking,
        } = &self.0;
        let now = tx.now();
        let known = fetch_node(tx.connection, node_id)?;
        let token = fetch_token(tx.connection, node_id)?;
        if let NodeCredential::Token(shown) = credential {
            let opens = |digest: &Option<String>| {
                digest
                    .as_deref()
                    .is_some_and(|digest| digest.as_bytes().ct_eq(shown.as_bytes()).into())
            };
            let is_token = token
                .as_ref()
                .is_some_and(|token| opens(&token.current) || opens(&token.previous));
            // It may have been taken away since it was looked at.
            if !is_token {
                return Ok(NodeAdmission::WrongToken);
            }
        }
        let pairing_status = known
            .as_ref()
            .map_or(PairingStatus::MustAsk(PairingNeed::NotPaired), |node| {
                node.pairing_status(profile)
            });
        let mut node = match (pairing_status, known) {
            (PairingStatus::MustAsk(need), known) => {
                return Ok(
                    match self.ask(tx, PairingKind::Device, profile, known.is_some())? {
                        Some(request) => NodeAdmission::MustAsk { request, need },
                        None => NodeAdmission::Full,
                    },
                );
            }
            (PairingStatus::Admitted | PairingStatus::Wider, Some(node)) => node,
            // A pairing status is a node's.
            (PairingStatus::Admitted | PairingStatus::Wider, None) => return Ok(NodeAdmission::WrongToken),
        };
        let is_fresh = *credential == NodeCredential::Shared;
        let (current, previous) = match credential {
            // The one that it may still have stays good until it has used the new one.
            NodeCredential::Shared => (Some(fresh_sha256.clone()), token.and_then(|token| token.current)),
            NodeCredential::Token(shown) => {
                let NodeToken { current, previous } = token.unwrap_or(NodeToken {
                    current: None,
                    previous: None,
                });
                let is_current = current.as_deref() == Some(shown);
                (current, if is_current { None } else { previous })
            }
        };
        node.profile = profile.clone();
        node.protocol = Some(*protocol);
        node.last_seen_at = Some(now);
        tx.execute(
            "UPDATE nodes SET profile = ?2, protocol = ?3, last_seen_ms = ?4, token_sha256 = ?5, previous_sha256 = ?6, \
             public_key = ?7, approved = ?8 WHERE node_id = ?1",
            (
                node_id,
                text(profile),
                protocol,
                now.get(),
                current,
                previous,
                public_key,
                // What was stored without a name keeps the name from before this connection.
                text(&node.approved),
            ),
        )?;
        let wider = match pairing_status {
            PairingStatus::Wider => {
                let called_as_here = NodeProfile {
                    display_name: node.display_name().map(str::to_owned),
                    ..profile.clone()
                };
                self.ask(tx, PairingKind::Commands, &called_as_here, true)?
            }
            PairingStatus::Admitted | PairingStatus::MustAsk(_) => {
                // What it asked for once it does not ask for any more.
                tx.execute(
                    "DELETE FROM node_pairings WHERE node_id = ?1 AND kind = 'commands'",
                    (node_id,),
                )?;
                None
            }
        };
        Ok(NodeAdmission::Admitted {
            node,
            is_fresh,
            wider,
        })
    }
}

/// The same question with what the device says of itself now: no new one, and no record.
fn said_anew(tx: &Tx<'_>, asked: PairingRequest, profile: &NodeProfile) -> Result<PairingRequest, Fault> {
    if asked.profile == *profile {
        return Ok(asked);
    }
    tx.execute(
        "UPDATE node_pairings SET profile = ?2 WHERE request_id = ?1",
        (&asked.request_id, text(profile)),
    )?;
    Ok(PairingRequest {
        profile: profile.clone(),
        ..asked
    })
}

struct Decide {
    request_id: String,
    decision: PairingDecision,
    by: Actor,
}

impl Change for Decide {
    type Answer = Option<DecidedPairing>;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<DecidedPairing>, Fault> {
        let now = tx.now();
        let sql = format!("SELECT {PAIRING_COLUMNS} FROM node_pairings WHERE request_id = ?1");
        let request = fetch(tx.connection, &sql, (&self.request_id,), pairing_from_row)?;
        let Some(request) = request.filter(|request| request.is_open(now)) else {
            return Ok(None);
        };
        let known = fetch_node(tx.connection, &request.node_id)?;
        let node = match self.decision {
            PairingDecision::Reject => None,
            PairingDecision::Approve => {
                let node = match known {
                    Some(node) => Some(node.approve(&request, now)),
                    None => PairedNode::first(&request, now),
                };
                // A question about commands of a node that is gone lets nobody in.
                let Some(node) = node else { return Ok(None) };
                store(tx, &node)?;
                Some(node)
            }
        };
        tx.execute(
            "DELETE FROM node_pairings WHERE request_id = ?1",
            (&self.request_id,),
        )?;
        let kind = EventKind::NodePairingResolved {
            kind: request.kind,
            request_id: self.request_id.clone(),
            decision: match self.decision {
                PairingDecision::Approve => PairingOutcome::Approve,
                PairingDecision::Reject => PairingOutcome::Reject,
            },
            by: self.by.clone(),
        };
        tx.log(about(&request.node_id, kind), &self.by)?;
        Ok(Some(DecidedPairing { request, node }))
    }
}

struct Rename {
    node_id: String,
    label: String,
    by: Actor,
}

impl Change for Rename {
    type Answer = Option<PairedNode>;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<PairedNode>, Fault> {
        let changed = tx.execute(
            "UPDATE nodes SET label = ?2 WHERE node_id = ?1",
            (&self.node_id, &self.label),
        )?;
        if changed == 0 {
            return Ok(None);
        }
        let (action, detail) = (AuditAction::NodeRenamed, json!({"name": self.label}));
        tx.audit(&Entry::done(action, "node", &self.node_id, &self.by, detail))?;
        fetch_node(tx.connection, &self.node_id)
    }
}

struct Remove {
    node_id: String,
    by: Actor,
}

impl Change for Remove {
    type Answer = bool;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let Some(node) = fetch_node(tx.connection, &self.node_id)? else {
            return Ok(false);
        };
        tx.execute("DELETE FROM nodes WHERE node_id = ?1", (&self.node_id,))?;
        tx.execute("DELETE FROM node_pairings WHERE node_id = ?1", (&self.node_id,))?;
        let kind = EventKind::NodePairingResolved {
            kind: PairingKind::Device,
            request_id: node.request_id,
            decision: PairingOutcome::Removed,
            by: self.by.clone(),
        };
        tx.log(about(&self.node_id, kind), &self.by)?;
        Ok(true)
    }
}

struct Replace {
    node_id: String,
    sha256: String,
    by: Actor,
}

impl Change for Replace {
    type Answer = bool;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let changed = tx.execute(
            "UPDATE nodes SET token_sha256 = ?2, previous_sha256 = NULL WHERE node_id = ?1 AND revoked_ms IS NULL",
            (&self.node_id, &self.sha256),
        )?;
        if changed == 1 {
            let (action, detail) = (AuditAction::TokenCreated, json!({"role": "node"}));
            tx.audit(&Entry::done(action, "node", &self.node_id, &self.by, detail))?;
        }
        Ok(changed == 1)
    }
}

struct Revoke {
    node_id: String,
    by: Actor,
}

impl Change for Revoke {
    type Answer = Option<PairedNode>;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<PairedNode>, Fault> {
        let now = tx.now();
        let changed = tx.execute(
            "UPDATE nodes SET token_sha256 = NULL, previous_sha256 = NULL, revoked_ms = ?2 \
             WHERE node_id = ?1 AND revoked_ms IS NULL",
            (&self.node_id, now.get()),
        )?;
        if changed == 1 {
            let (action, detail) = (AuditAction::TokenRevoked, json!({"role": "node"}));
            tx.audit(&Entry::done(action, "node", &self.node_id, &self.by, detail))?;
        }
        fetch_node(tx.connection, &self.node_id)
    }
}

struct RecordNodeSeen {
    node_id: String,
    kind: EventKind,
}

impl Change for RecordNodeSeen {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let now = tx.now();
        tx.execute(
            "UPDATE nodes SET last_seen_ms = ?2 WHERE node_id = ?1",
            (&self.node_id, now.get()),
        )?;
        let node = fetch_node(tx.connection, &self.node_id)?;
        let name = node.as_ref().and_then(PairedNode::display_name);
        tx.log(
            about(&self.node_id, self.kind.clone()),
            &node_actor(&self.node_id, name),
        )
    }
}

fn about(node_id: &str, kind: EventKind) -> Event {
    Event {
        subject: Subject {
            node_id: Some(node_id.to_owned()),
            ..Subject::default()
        },
        kind,
    }
}

/// A node as the record names it.
fn node_actor(node_id: &str, name: Option<&str>) -> Actor {
    Actor {
        kind: ActorKind::Bridge,
        id: node_id.to_owned(),
        name: name.unwrap_or(node_id).to_owned(),
        owner: None,
    }
}

/// Stores a node as it was approved. Its tokens stay what they are.
fn store(tx: &Tx<'_>, node: &PairedNode) -> Result<(), Fault> {
    let PairedNode {
        node_id,
        public_key,
        label,
        profile,
        approved,
        request_id,
        protocol,
        created_at,
        approved_at,
        revoked_at,
        last_seen_at,
    } = node;
    tx.execute(
        "INSERT INTO nodes (node_id, public_key, label, profile, approved, request_id, protocol, created_ms, \
         approved_ms, revoked_ms, last_seen_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
         ON CONFLICT (node_id) DO UPDATE SET public_key = ?2, label = ?3, profile = ?4, approved = ?5, \
         request_id = ?6, protocol = ?7, approved_ms = ?9, revoked_ms = ?10, last_seen_ms = ?11",
        (
            node_id,
            public_key,
            label,
            text(profile),
            text(approved),
            request_id,
            protocol,
            created_at.get(),
            approved_at.get(),
            revoked_at.map(UnixMillis::get),
            last_seen_at.map(UnixMillis::get),
        ),
    )?;
    Ok(())
}

const NODE_COLUMNS: &str = "node_id, public_key, label, profile, approved, request_id, protocol, created_ms, \
                            approved_ms, revoked_ms, last_seen_ms";
const PAIRING_COLUMNS: &str = "request_id, kind, node_id, public_key, profile, is_repair, requested_ms";

fn fetch_node(connection: &Connection, node_id: &str) -> Result<Option<PairedNode>, Fault> {
    let sql = format!("SELECT {NODE_COLUMNS} FROM nodes WHERE node_id = ?1");
    fetch(connection, &sql, (node_id,), node_from_row)
}

fn fetch_token(connection: &Connection, node_id: &str) -> Result<Option<NodeToken>, Fault> {
    let sql = "SELECT node_id, token_sha256, previous_sha256 FROM nodes WHERE node_id = ?1";
    fetch(connection, sql, (node_id,), |row| {
        let mut columns = Columns::after("nodes", row, 1);
        Ok(NodeToken {
            current: columns.take()?,
            previous: columns.take()?,
        })
    })
}

fn fetch_pairing_of(
    connection: &Connection,
    node_id: &str,
    kind: PairingKind,
) -> Result<Option<PairingRequest>, Fault> {
    let sql = format!("SELECT {PAIRING_COLUMNS} FROM node_pairings WHERE node_id = ?1 AND kind = ?2");
    fetch(connection, &sql, (node_id, kind.as_str()), pairing_from_row)
}

fn node_from_row(row: &Row<'_>) -> Result<PairedNode, Fault> {
    let mut columns = Columns::of("nodes", row);
    let node_id = columns.take()?;
    let public_key = columns.take()?;
    let label = columns.take()?;
    let profile: NodeProfile = columns.json()?;
    let mut approved: Map<String, Value> = columns.json()?;
    // What was stored before names were approved has none: the one that it came with last counts from now on.
    if !approved.contains_key("displayName") {
        approved.insert("displayName".to_owned(), profile.display_name.clone().into());
    }
    let Ok(approved) = serde_json::from_value(Value::Object(approved)) else {
        return columns.contradiction("approved");
    };
    Ok(PairedNode {
        node_id,
        public_key,
        label,
        profile,
        approved,
        request_id: columns.take()?,
        protocol: columns.take()?,
        created_at: columns.time()?,
        approved_at: columns.time()?,
        revoked_at: columns.maybe_time()?,
        last_seen_at: columns.maybe_time()?,
    })
}

fn pairing_from_row(row: &Row<'_>) -> Result<PairingRequest, Fault> {
    let mut columns = Columns::of("node_pairings", row);
    Ok(PairingRequest {
        request_id: columns.take()?,
        kind: columns.word()?,
        node_id: columns.take()?,
        public_key: columns.take()?,
        profile: columns.json()?,
        is_repair: columns.take()?,
        requested_at: columns.time()?,
    })
}
