//! The server: what everybody who connects is served with, until it stops.

use std::{any::Any, net::IpAddr, sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use countersign_domain::UnixMillis;
use countersign_engine::{Engine, reply::StorageTrouble, tokens::Tokens};
use countersign_hosts::node::NodeLink;
use countersign_ledger::auth::{SharedSecret, Throttle};
use countersign_sys::clock::Ids;

use super::{
    hub::NodeHub,
    operator::{Askers, OperatorQuota},
};

/// How long connections get to be told that the server stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a Bridge is made of.
#[derive(Debug)]
pub struct BridgeParts {
    /// The nodes of this server; the engine calls them through the same hub.
    pub hub: Arc<NodeHub>,
    /// Decides and runs what operators ask for; the API serves the same engine.
    pub engine: Arc<Engine>,
    /// API tokens, which operators come with.
    pub tokens: Arc<Tokens>,
    /// What opens the first connection of a node; `None` when there is no such secret, and then nothing does.
    pub secret: Option<SharedSecret>,
    /// Makes nonces, ids of requests and connections, and the secrets of nodes.
    pub ids: Arc<dyn Ids>,
}

/// The Bridge of one server: it serves connections until [`Bridge::shut_down`].
#[derive(Debug)]
pub struct Bridge {
    pub(super) hub: Arc<NodeHub>,
    pub(super) secret: Option<SharedSecret>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) began: UnixMillis,
    pub(super) stopping: CancellationToken,
    pub(super) askers: Arc<Askers>,
    pub(super) operators: OperatorQuota,
    engine: Arc<Engine>,
    tokens: Arc<Tokens>,
    tasks: TaskTracker,
}

/// Who connects, as far as the admission knows.
pub struct Caller {
    /// The client's IP address; behind a trusted proxy, the one that the proxy names.
    pub address: IpAddr,
    /// Where wrong credentials are counted: with those of the API.
    pub throttle: Arc<Throttle>,
    /// Its place among the connections, given back when it ends.
    pub place: Option<Box<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Bridge {
    /// A Bridge that nobody is connected to.
    pub fn new(parts: BridgeParts) -> Arc<Self> {
        let BridgeParts {
            hub,
            engine,
            tokens,
            secret,
            ids,
        } = parts;
        let connections = hub.settings.current().server.limits.max_connections;
        Arc::new(Self {
            operators: OperatorQuota::among(connections),
            began: hub.clock.now(),
            hub,
            secret,
            ids,
            stopping: CancellationToken::new(),
            askers: Arc::default(),
            engine,
            tokens,
            tasks: TaskTracker::new(),
        })
    }

    /// Runs something that ends when the server stops: it must watch what it depends on.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Tells everybody that the server stops, and waits for them a little. Nobody is served afterwards.
    #[crate::compiled_once]
    pub async fn shut_down(&self) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(FAREWELL, self.tasks.wait()).await.is_err() {
            tracing::warn!("some connections of the Bridge did not end in time");
        }
    }

    /// Whether connections are served: not once the server stops.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Whether there is a secret that lets a new node ask for its pairing.
    pub const fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// The engine of [`BridgeParts`]; the API takes it from here.
    pub const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The API tokens of [`BridgeParts`]; the API takes them from here.
    pub const fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    /// The way to nodes.
    pub fn link(&self) -> &dyn NodeLink {
        &*self.hub
    }

    /// The nodes with their counts; metrics read them.
    pub const fn hub(&self) -> &Arc<NodeHub> {
        &self.hub
    }

    /// Runs something to completion even if the caller who waits for it goes away.
    pub(super) async fn to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StorageTrouble>> + Send + 'static,
    ) -> Result<T, StorageTrouble> {
        self.tasks
            .spawn(work)
            .await
            .unwrap_or(Err(StorageTrouble::Unavailable))
    }
}
