//! Every metric with its name.

use std::{fmt, sync::Arc};

use prometheus_client::{
    encoding::text,
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use countersign_engine::Engine;
use countersign_nodes::bridge::Bridge;

use super::{Connections, Format, Requests, now::Now};

/// Every metric of this server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Requests,
    connections: Connections,
    now: Now,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// The metrics of one engine and the admission before it.
    pub(crate) fn of(engine: &Engine, bridge: &Bridge) -> Self {
        let (requests, connections, now) = (Requests::default(), Connections::default(), Now::default());
        let mut registry = Registry::default();
        now.register_process(&mut registry);
        let ours = registry.sub_registry_with_prefix("countersign");
        register_build(ours);
        register_http(ours, &requests, &connections);
        register_ledger(ours, engine);
        register_engine(ours, engine);
        register_bridge(ours, bridge);
        register_socket(ours, engine);
        now.register(ours);
        Self {
            registry,
            requests,
            connections,
            now,
        }
    }

    /// For the code that answers requests.
    pub(crate) fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// For the code that accepts connections.
    pub(crate) fn connections(&self) -> Connections {
        self.connections.clone()
    }

    /// Everything as text.
    ///
    /// # Errors
    /// Never in practice: the text is written to memory.
    pub(crate) async fn render(
        &self,
        engine: &Arc<Engine>,
        event_streams: usize,
        format: Format,
    ) -> Result<String, fmt::Error> {
        self.now.collect(engine, event_streams).await;
        let mut text = String::with_capacity(32 * 1024);
        text::encode(&mut text, &self.registry)?;
        Ok(format.of(text))
    }
}

fn register_build(registry: &mut Registry) {
    let build: Family<[(&'static str, &'static str); 2], Gauge> = Family::default();
    let commit = option_env!("COUNTERSIGN_COMMIT").unwrap_or("unknown");
    build
        .get_or_create(&[("version", env!("CARGO_PKG_VERSION")), ("commit", commit)])
        .set(1);
    registry.register("build_info", "What this server is; always 1", build);
}

fn register_http(registry: &mut Registry, requests: &Requests, connections: &Connections) {
    registry.register(
        "http_requests",
        "Requests that were answered, by template of the route and class of the status",
        requests.answered.clone(),
    );
    registry.register_with_unit(
        "http_request_duration",
        "From a request's headers to those of its answer",
        Unit::Seconds,
        requests.seconds.clone(),
    );
    registry.register(
        "http_rate_limited",
        "Requests that were answered with 429",
        requests.limited.clone(),
    );
    registry.register(
        "http_connections",
        "Connections that are open",
        connections.open.clone(),
    );
    registry.register(
        "tls_handshake_failures",
        "Connections that ended before their TLS handshake did",
        connections.failed_handshakes.clone(),
    );
}

fn register_ledger(registry: &mut Registry, engine: &Engine) {
    let stats = engine.metrics().ledger();
    registry.register(
        "exec_requests",
        "Runs that were admitted, by what the policy said",
        stats.requests.clone(),
    );
    registry.register(
        "runs_ended",
        "Runs that started and ended, by how",
        stats.ended.clone(),
    );
    registry.register(
        "runs_denied",
        "Runs that never start, by why",
        stats.denied.clone(),
    );
    registry.register_with_unit(
        "run_duration",
        "From the start of a run to its end",
        Unit::Seconds,
        stats.run_seconds.clone(),
    );
    registry.register(
        "approvals_pending",
        "Approvals that wait for a person",
        stats.pending.clone(),
    );
    registry.register(
        "approvals_resolved",
        "Approvals that ended, by state and decision",
        stats.resolved.clone(),
    );
    registry.register(
        "questions_refused",
        "Questions that were not asked because there were too many, by the limit",
        stats.questions_refused.clone(),
    );
    registry.register(
        "policy_changes",
        "Changes of the policy that were taken, by part",
        stats.policy_changes.clone(),
    );
    registry.register("events", "Events that were stored, by type", stats.events.clone());
    registry.register_with_unit(
        "ledger_commit",
        "From the beginning of a transaction to its commit",
        Unit::Seconds,
        stats.commit_seconds.clone(),
    );
}

fn register_bridge(registry: &mut Registry, bridge: &Bridge) {
    let stats = bridge.hub().stats();
    registry.register(
        "bridge_connections",
        "Connections of the Bridge that are open, by role",
        stats.connected.clone(),
    );
    registry.register(
        "bridge_invokes",
        "Calls of nodes, by how they ended",
        stats.invokes.clone(),
    );
    registry.register(
        "bridge_refused",
        "Connections of the Bridge that were refused, by why",
        stats.refused.clone(),
    );
}

fn register_socket(registry: &mut Registry, engine: &Engine) {
    let counts = engine.socket().counts();
    for (name, help, counter) in [
        (
            "ipc_connections",
            "Connections of the approvals socket",
            &counts.connections,
        ),
        (
            "ipc_foreign_peers",
            "Of these, those of another account, which are refused unread",
            &counts.foreign,
        ),
        ("ipc_limited", "Of these, those over a limit", &counts.limited),
        (
            "ipc_refused",
            "Lines of the approvals socket that were not genuine or not readable",
            &counts.refused,
        ),
        (
            "ipc_execs",
            "Commands that were asked for over the approvals socket",
            &counts.execs,
        ),
        (
            "ipc_questions",
            "Questions that were asked over the approvals socket",
            &counts.questions,
        ),
    ] {
        registry.register(name, help, counter.clone());
    }
}

fn register_engine(registry: &mut Registry, engine: &Engine) {
    let stats = engine.metrics().histograms();
    registry.register_with_unit(
        "run_start",
        "From the permit of a run to its first process",
        Unit::Seconds,
        stats.start_seconds.clone(),
    );
    registry.register_with_unit(
        "run_queue",
        "How long calls waited for a place to run that was not free at once",
        Unit::Seconds,
        stats.queue_seconds.clone(),
    );
    registry.register_with_unit(
        "approval_answer",
        "From a question to the answer of a person",
        Unit::Seconds,
        stats.answer_seconds.clone(),
    );
}
