//! The runs of this server: the place that each takes, and its start, here or on a node.

use std::sync::Arc;

use countersign_config::{
    approvals::broker::{Broker, Subscription},
    settings::Settings,
};
use countersign_domain::{AgentId, Host, Run, RunId};
use countersign_ledger::NewRun;
use countersign_sys::process::monotonic;

use crate::{
    EngineStats,
    base::Base,
    draft::{Draft, OnDisconnect},
    evaluator::place::Places,
    launch::{Holder, Launch, Supervision},
    lifecycle::Lifecycle,
    live::LiveRun,
    node::NodeRuns,
    reply::ExecError,
    run_recorder::RunRecorder,
    slots::{Slot, SlotLimits, Slots},
    stop_switch::StopSwitch,
    supervise::LocalRuns,
};

/// Starts what was permitted.
#[derive(Debug)]
pub(crate) struct Runs {
    local: Arc<LocalRuns>,
    nodes: Arc<NodeRuns>,
    recorder: Arc<RunRecorder>,
    places: Arc<Places>,
    slots: Arc<Slots>,
    stats: EngineStats,
    broker: Arc<Broker>,
    switch: Arc<StopSwitch>,
    lifecycle: Arc<Lifecycle>,
}

impl Runs {
    pub(crate) fn new(
        base: &Base,
        local: Arc<LocalRuns>,
        nodes: Arc<NodeRuns>,
        slots: Arc<Slots>,
        stats: EngineStats,
    ) -> Self {
        Self {
            local,
            nodes,
            recorder: Arc::clone(&base.recorder),
            places: Arc::clone(&base.places),
            slots,
            stats,
            broker: Arc::clone(&base.broker),
            switch: Arc::clone(&base.switch),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Lets everybody know that a run is waited for, as long as this lives.
    pub(crate) fn await_run(&self, run_id: &RunId) -> Subscription {
        self.broker.subscribe(run_id)
    }

    /// The run that a draft becomes.
    pub(crate) fn run_of(&self, draft: &Draft, id: RunId) -> NewRun {
        let isolation = self.places.isolation_of_call(&draft.call, &draft.settings);
        draft.call.to_new_run(id, &draft.judged, isolation)
    }

    /// Waits for a place for what was allowed, which has a start-by of its own.
    pub(crate) async fn wait_for_slot(&self, agent: &AgentId, settings: &Settings) -> Slot {
        let limits = SlotLimits::from(&settings.server.limits);
        self.slots.wait(agent, limits).await
    }

    /// A place for what is about to be allowed, if one is free now.
    pub(crate) fn free_slot(&self, agent: &AgentId, settings: &Settings) -> Option<Slot> {
        self.slots
            .take_free(agent, SlotLimits::from(&settings.server.limits))
    }

    /// Who a run goes on for that starts at once.
    pub(crate) fn holder_of(&self, draft: &Draft) -> Holder {
        if draft.call.background {
            return Holder::Session(self.recorder.new_session_id());
        }
        match draft.wait_policy.on_disconnect {
            OnDisconnect::Kill => Holder::Caller,
            OnDisconnect::Detach | OnDisconnect::Lapse(_) => Holder::CallerWithKey,
        }
    }

    /// What a run of an earlier server goes on with: a place, no matter how many are taken, and its session again, if it
    /// was one.
    pub(crate) fn resumed(&self, run: &Run) -> Supervision {
        if let Some(session_id) = &run.session_id {
            self.recorder.keep_session_id(session_id.clone());
        }
        Supervision::resumed(run, self.slots.take(&run.agent))
    }

    /// Starts a run; call it from a task of its own. `None` when it could not be started: its record says why.
    pub(crate) async fn start(&self, launch: Launch) -> Option<Arc<LiveRun>> {
        match launch.host() {
            Host::Node => self.nodes.start(launch).await,
            Host::Gateway | Host::Sandbox => self.local.start(launch).await,
        }
    }

    /// Takes a place to run in.
    pub(crate) async fn take_slot(&self, agent: &AgentId, settings: &Settings) -> Result<Slot, ExecError> {
        let limits = SlotLimits::from(&settings.server.limits);
        let asked_at = monotonic();
        let slot = tokio::select! {
            biased;
            slot = self.slots.acquire(agent, limits) => slot,
            stop = self.switch.until_stopped() => return Err(ExecError::Stopped(stop)),
            () = self.lifecycle.stopping() => return Err(ExecError::ShuttingDown),
        };
        if slot.as_ref().is_ok_and(Slot::was_waited_for) || slot.is_err() {
            let waited = monotonic().saturating_sub(asked_at);
            self.stats.queue_seconds.observe(waited.as_secs_f64());
        }
        slot.map_err(ExecError::NoPlace)
    }

    /// Who a run goes on for after a person was asked about it.
    pub(crate) fn holder_after_asking(&self, is_awaited: bool, is_keyed: bool) -> Holder {
        match (is_awaited, is_keyed) {
            (false, _) => Holder::Session(self.recorder.new_session_id()),
            (true, true) => Holder::CallerWithKey,
            (true, false) => Holder::Caller,
        }
    }

    /// Starts a run for a caller who waits for it, and lets it go on alone when nobody does any more: a waiting
    /// caller may have given up or left while it was being started.
    pub(crate) async fn start_for_waiting_callers(&self, launch: Launch) {
        if let Some(live) = self.start(launch).await
            && !self.broker.is_awaited(&live.run_id)
        {
            self.recorder.let_go(&live).await;
        }
    }
}
