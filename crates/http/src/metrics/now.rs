//! What is looked at when a client asks, and not counted as it happens.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::{Registry, Unit},
};
use tokio::time::Instant;

use countersign_engine::{Engine, Load, Readiness};
use countersign_sys::usage::Usage;

/// Spools are added up this often at most: there may be many of them.
const SPOOLS_EVERY: Duration = Duration::from_secs(30);

/// A gauge of a whole number that cannot be negative.
type Level = Gauge<u64, AtomicU64>;

/// A counter that another part of the server counts.
type ExternalCounter = Counter<u64, AtomicU64>;

/// The figures of one moment.
#[derive(Debug, Default)]
pub(super) struct Now {
    running: Level,
    queued: Level,
    approvers: Level,
    ledger_queue: Level,
    event_streams: Level,
    catch_ups: ExternalCounter,
    runner_restarts: ExternalCounter,
    database_ok: Level,
    record_ok: Level,
    document_ok: Level,
    config_ok: Level,
    socket_ok: Level,
    draining: Level,
    stopped: Level,
    spool_bytes: Level,
    resident_bytes: Level,
    open_files: Level,
    max_open_files: Level,
    processor_seconds: Counter<f64, AtomicU64>,
    spools_looked_at: Mutex<Option<Instant>>,
}

impl Now {
    /// Gives them their names.
    pub(super) fn register(&self, registry: &mut Registry) {
        let level = |registry: &mut Registry, name: &str, help: &str, gauge: &Level| {
            registry.register(name, help, gauge.clone());
        };
        level(registry, "runs_running", "Runs that have a place", &self.running);
        level(
            registry,
            "runs_queued",
            "Calls that wait for a place to run",
            &self.queued,
        );
        level(
            registry,
            "approvers_connected",
            "Approvers that are connected",
            &self.approvers,
        );
        level(
            registry,
            "ledger_queue_depth",
            "Changes that wait for the writer of the ledger",
            &self.ledger_queue,
        );
        level(
            registry,
            "event_streams",
            "Event streams that are open",
            &self.event_streams,
        );
        level(
            registry,
            "ready_database",
            "Whether the ledger can be written (1) or not (0)",
            &self.database_ok,
        );
        level(
            registry,
            "ready_record",
            "Whether the audit record was intact at the start (1) or tampered with (0)",
            &self.record_ok,
        );
        level(
            registry,
            "ready_document",
            "Whether the approvals document can be used (1) or everything is denied (0)",
            &self.document_ok,
        );
        level(
            registry,
            "ready_config",
            "Whether the settings on disk are those in force (1) or do not read (0)",
            &self.config_ok,
        );
        level(
            registry,
            "ready_ipc",
            "Whether the approvals socket is what the settings say (1) or should be hosted here and is not (0)",
            &self.socket_ok,
        );
        level(
            registry,
            "stopped",
            "Whether the emergency stop is in effect (1)",
            &self.stopped,
        );
        level(
            registry,
            "draining",
            "Whether the server is stopping (1)",
            &self.draining,
        );
        registry.register_with_unit(
            "spool",
            "What the kept output of all runs takes on disk, looked at every 30 seconds at most",
            Unit::Bytes,
            self.spool_bytes.clone(),
        );
        registry.register(
            "event_stream_catch_ups",
            "Times that a slow event stream went back to the log",
            self.catch_ups.clone(),
        );
        registry.register(
            "runner_restarts",
            "Times that the runner died and another was started",
            self.runner_restarts.clone(),
        );
    }

    /// Those of the process have names that are the same for every program.
    pub(super) fn register_process(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "process_resident_memory",
            "Memory of the server in RAM, without its runner and the commands",
            Unit::Bytes,
            self.resident_bytes.clone(),
        );
        registry.register("process_open_fds", "Open descriptors", self.open_files.clone());
        registry.register(
            "process_max_fds",
            "Descriptors that may be open; 0 without a limit",
            self.max_open_files.clone(),
        );
        registry.register_with_unit(
            "process_cpu",
            "Time of the server on processors",
            Unit::Seconds,
            self.processor_seconds.clone(),
        );
    }

    /// Looks at everything anew.
    pub(super) async fn collect(&self, engine: &Arc<Engine>, event_streams: usize) {
        let Load {
            running,
            queued,
            approvers,
            ledger_queue,
            catch_ups,
            runner_restarts,
        } = engine.metrics().load();
        for (gauge, number) in [
            (&self.running, running),
            (&self.queued, queued),
            (&self.approvers, approvers),
            (&self.ledger_queue, ledger_queue),
            (&self.event_streams, event_streams),
        ] {
            gauge.set(u64::try_from(number).unwrap_or(u64::MAX));
        }
        tell(&self.catch_ups, catch_ups);
        tell(&self.runner_restarts, runner_restarts);
        let Readiness {
            database,
            // Open files and their limit have numbers of their own.
            machine: _,
            record,
            document,
            config,
            // How often one died is counted; that none is there passes in a moment.
            runner: _,
            // Known only once a command wanted one; doctor looks.
            sandbox: _,
            ipc,
            // `/readyz` says so, and time is a thing that monitoring knows of itself.
            clock: _,
            draining,
            // `/readyz`, the event and doctor say so.
            restart_needed: _,
            stopped,
        } = engine.health().readiness();
        for (gauge, is_so) in [
            (&self.database_ok, database.ok),
            (&self.record_ok, record.ok),
            (&self.document_ok, document.ok),
            (&self.config_ok, config.ok),
            (&self.socket_ok, ipc.ok),
            (&self.draining, draining),
            (&self.stopped, stopped),
        ] {
            gauge.set(u64::from(is_so));
        }
        self.collect_process();
        self.collect_spools(engine).await;
    }

    fn collect_process(&self) {
        match Usage::of_this_process() {
            Ok(Usage {
                resident_bytes,
                open_files,
                max_open_files,
                processor_time,
            }) => {
                self.resident_bytes.set(resident_bytes);
                self.open_files.set(open_files);
                self.max_open_files.set(max_open_files.unwrap_or(0));
                let seconds = processor_time.as_secs_f64().to_bits();
                self.processor_seconds
                    .inner()
                    .store(seconds, std::sync::atomic::Ordering::Relaxed);
            }
            Err(error) => tracing::debug!(%error, "this process cannot be looked at"),
        }
    }

    async fn collect_spools(&self, engine: &Arc<Engine>) {
        {
            let mut looked_at = self
                .spools_looked_at
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if looked_at.is_some_and(|at| at.elapsed() < SPOOLS_EVERY) {
                return;
            }
            *looked_at = Some(Instant::now());
        }
        let engine = Arc::clone(engine);
        match tokio::task::spawn_blocking(move || engine.metrics().spool_bytes()).await {
            Ok(Ok(bytes)) => {
                self.spool_bytes.set(bytes);
            }
            Ok(Err(error)) => tracing::warn!(%error, "the spools cannot be added up"),
            Err(error) => tracing::error!(%error, "adding up the spools panicked"),
        }
    }
}

fn tell(counter: &ExternalCounter, number: u64) {
    counter
        .inner()
        .store(number, std::sync::atomic::Ordering::Relaxed);
}
