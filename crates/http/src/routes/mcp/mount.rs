//! What the endpoint keeps between requests. Handlers share it, so it must know no handler.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use countersign_engine::Engine;
use countersign_mcp::{HttpEndpoint, Server};

use super::in_flight::InFlight;

use crate::{extract::BodyLimit, links::Links};

/// The MCP server, once there is one, and the requests it works on.
pub(crate) struct Mount {
    pub(super) engine: Arc<Engine>,
    pub(super) links: Links,
    pub(super) body_limit: BodyLimit,
    pub(super) served: OnceLock<Served>,
    pub(super) in_flight: Arc<InFlight>,
}

/// The MCP server, and the same behind the transport.
pub(super) struct Served {
    pub(super) endpoint: HttpEndpoint,
    pub(super) server: Server,
}

/// Does calls by the engine.
#[derive(Clone)]
pub(super) struct EngineBackend {
    pub(super) engine: Arc<Engine>,
    pub(super) links: Links,
    /// Whose turn it is to have arguments read.
    pub(super) body_limit: BodyLimit,
}

impl Mount {
    /// An MCP server whose calls are done by the engine.
    pub(crate) fn new(engine: &Arc<Engine>, links: Links, body_limit: BodyLimit) -> Self {
        Self {
            engine: Arc::clone(engine),
            links,
            body_limit,
            served: OnceLock::new(),
            in_flight: Arc::default(),
        }
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount")
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EngineBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBackend").finish_non_exhaustive()
    }
}
