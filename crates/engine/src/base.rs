//! What the services are made from.

use std::sync::Arc;

use countersign_config::{approvals::broker::Broker, settings::SettingsStore};
use countersign_domain::{ApprovalId, RunId, UnixMillis};
use countersign_hosts::gateway::GatewayHost;
use countersign_ledger::Ledger;
use countersign_sys::clock::{Clock, Ids};

use crate::{
    accepted_policy::AcceptedPolicy,
    evaluator::{Evaluator, analyse::Analyst, place::Places},
    lifecycle::Lifecycle,
    live::LiveRuns,
    records::Records,
    run_recorder::RunRecorder,
    stop_switch::StopSwitch,
    watch::PolicySource,
};

/// What the services are made from: each takes what it uses, and nothing keeps the whole.
pub(crate) struct Base {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) new_ids: NewIds,
    pub(crate) settings: Arc<SettingsStore>,
    pub(crate) accepted_policy: Arc<AcceptedPolicy>,
    pub(crate) policy: Arc<PolicySource>,
    pub(crate) evaluator: Arc<Evaluator>,
    pub(crate) places: Arc<Places>,
    pub(crate) analyst: Arc<Analyst>,
    pub(crate) ledger: Ledger,
    pub(crate) records: Arc<Records>,
    pub(crate) recorder: Arc<RunRecorder>,
    pub(crate) gateway: GatewayHost,
    pub(crate) live: Arc<LiveRuns>,
    pub(crate) broker: Arc<Broker>,
    pub(crate) switch: Arc<StopSwitch>,
    pub(crate) lifecycle: Arc<Lifecycle>,
}

/// Ids for what begins now.
#[derive(Debug, Clone)]
pub(crate) struct NewIds {
    ids: Arc<dyn Ids>,
    clock: Arc<dyn Clock>,
}

impl NewIds {
    pub(crate) fn new(ids: Arc<dyn Ids>, clock: Arc<dyn Clock>) -> Self {
        Self { ids, clock }
    }

    pub(crate) fn run(&self) -> RunId {
        self.ids.run_id(self.clock.now())
    }

    pub(crate) fn approval(&self) -> ApprovalId {
        self.ids.approval_id()
    }

    /// The time at which it begins.
    pub(crate) fn now(&self) -> UnixMillis {
        self.clock.now()
    }
}
