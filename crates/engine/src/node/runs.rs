//! What the runs on nodes use. [`super::run_task`] follows one, [`super::messages`] hears of all.

use std::sync::Arc;

use countersign_config::settings::SettingsStore;
use countersign_hosts::gateway::GatewayHost;
use countersign_ledger::Ledger;
use countersign_sys::clock::Clock;

use super::NodePeers;

use crate::{
    again::Again, base::Base, lifecycle::Lifecycle, live::LiveRuns, process::SessionRetention,
    run_recorder::RunRecorder,
};

/// The runs on nodes: each is called for once, and followed to its end.
#[derive(Debug)]
pub(crate) struct NodeRuns {
    pub(super) ledger: Ledger,
    pub(super) peers: Arc<NodePeers>,
    pub(super) live: Arc<LiveRuns>,
    pub(super) recorder: Arc<RunRecorder>,
    pub(super) retention: Arc<SessionRetention>,
    pub(super) again: Arc<Again>,
    pub(super) gateway: GatewayHost,
    pub(super) settings: Arc<SettingsStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) lifecycle: Arc<Lifecycle>,
}

impl NodeRuns {
    pub(crate) fn new(
        base: &Base,
        peers: Arc<NodePeers>,
        again: Arc<Again>,
        retention: Arc<SessionRetention>,
    ) -> Self {
        Self {
            ledger: base.ledger.clone(),
            peers,
            live: Arc::clone(&base.live),
            recorder: Arc::clone(&base.recorder),
            retention,
            again,
            gateway: base.gateway.clone(),
            settings: Arc::clone(&base.settings),
            clock: Arc::clone(&base.clock),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }
}
