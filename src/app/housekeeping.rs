//! What goes on beside requests: settings that changed take effect, and what is too old goes.

use std::{convert::Infallible, error::Error, sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};

use countersign_config::{
    settings::{Durability, Output, Server, Settings, SettingsStore, WaitsFor},
    tls::LiveTls,
};
use countersign_engine::Engine;
use countersign_hosts::{gateway::GatewayHost, sandbox::SandboxHost};
use countersign_ledger::{Ledger, Retention, Tuning};
use countersign_sys::clock::Clock;

use crate::telemetry::Log;

/// How often the settings are looked at when no request does.
const LOOK: Duration = Duration::from_secs(5);
/// How often room is made for output.
const MAKE_ROOM: Duration = Duration::from_mins(1);
/// How often what is too old is removed, in turns of that.
const PRUNE_EVERY: u32 = 60;
/// How often sandboxes that nobody uses are looked for.
const PRUNE_SANDBOXES: Duration = Duration::from_mins(10);

/// What the ledger is told of the settings.
pub(super) fn tuning(server: &Server) -> Tuning {
    let database = &server.database;
    Tuning {
        durability: match database.durability {
            Durability::Normal => countersign_ledger::Durability::Normal,
            Durability::Full => countersign_ledger::Durability::Full,
        },
        retention: Retention {
            events_count: server.events.keep_count,
            events_age: Some(server.events.keep),
            runs_age: database.keep_runs,
            audit_age: database.keep_audit,
        },
    }
}

/// Applies settings that changed while the server runs.
#[derive(Debug)]
pub(super) struct LiveSettings {
    store: Arc<SettingsStore>,
    ledger: Ledger,
    log: Log,
    tls: Option<Arc<LiveTls>>,
}

impl LiveSettings {
    pub(super) const fn new(
        store: Arc<SettingsStore>,
        ledger: Ledger,
        log: Log,
        tls: Option<Arc<LiveTls>>,
    ) -> Self {
        Self {
            store,
            ledger,
            log,
            tls,
        }
    }

    /// Passes the settings in force on to what does not look for itself.
    pub(super) fn apply(&self) {
        let settings: Arc<Settings> = self.store.current();
        self.ledger.tune(tuning(&settings.server));
        if let Err(error) = self.log.set_filter(&settings.server.telemetry.log_filter) {
            tracing::warn!(%error, "the log goes on as it was");
        }
        let waiting_for = |what: WaitsFor| -> Vec<&str> {
            let waiting = settings
                .waiting
                .iter()
                .filter(|waiting| waiting.waits_for == what);
            waiting.map(|waiting| waiting.key.as_str()).collect()
        };
        let keys = waiting_for(WaitsFor::Restart);
        if !keys.is_empty() {
            tracing::warn!(keys = keys.join(" "), "changed settings that need a restart");
        }
        let keys = waiting_for(WaitsFor::Acceptance);
        if !keys.is_empty() {
            tracing::warn!(
                keys = keys.join(" "),
                "changed settings that another admin has to accept: countersign policy diff"
            );
        }
        let keys = waiting_for(WaitsFor::Change);
        if !keys.is_empty() {
            tracing::warn!(
                keys = keys.join(" "),
                "changed settings that an admin rejected: set them back in countersign.toml"
            );
        }
    }

    /// Looks at the files now and then, so that a change shows without a request.
    #[expect(
        clippy::infinite_loop,
        reason = "it ends when the server stops, which drops it"
    )]
    pub(super) async fn follow(&self, engine: &Engine) -> Infallible {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut generation = self.store.current().generation;
        loop {
            ticks.tick().await;
            engine.refresh_policy();
            // Each new connection looks, too; this tells of broken files when nobody comes.
            if let Some(tls) = &self.tls {
                tls.look();
            }
            let now = self.store.current().generation;
            if now != generation {
                generation = now;
                self.apply();
            }
        }
    }
}

/// Removes what is too old, and the files of runs that are gone.
#[expect(
    clippy::infinite_loop,
    reason = "it ends when the server stops, which drops it"
)]
pub(super) async fn prune(
    ledger: &Ledger,
    gateway: &GatewayHost,
    settings: &SettingsStore,
    clock: &dyn Clock,
) -> Infallible {
    let mut ticks = interval(MAKE_ROOM);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut turn: u32 = 0;
    loop {
        ticks.tick().await;
        let prunes = turn.is_multiple_of(PRUNE_EVERY);
        turn = turn.wrapping_add(1);
        if prunes {
            remove_old(ledger, gateway).await;
        }
        let Output {
            quota_bytes, keep, ..
        } = settings.current().server.output;
        let written_after = clock.wall().get().saturating_sub(as_millis(keep));
        if let Err(error) = make_room(ledger, gateway, quota_bytes, written_after).await {
            tracing::warn!(
                error = &*error,
                "spools that are too old or too many stay for now"
            );
        }
    }
}

/// Removes everything of runs that are too old.
async fn remove_old(ledger: &Ledger, gateway: &GatewayHost) {
    loop {
        let pruned = match ledger.prune().await {
            Ok(pruned) => pruned,
            Err(error) => {
                tracing::warn!(%error, "what is too old stays for now");
                return;
            }
        };
        for run in &pruned.runs {
            gateway.forget(run);
        }
        if !pruned.more {
            break;
        }
    }
    give_back(ledger).await;
}

/// Makes the ledger's file shorter by what was removed from it, in steps that let others write in between.
async fn give_back(ledger: &Ledger) {
    let mut bytes: u64 = 0;
    loop {
        match ledger.shrink().await {
            Ok(step) => {
                bytes = bytes.saturating_add(step.bytes);
                if !step.more {
                    break;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the ledger's file stays as long as it is for now");
                break;
            }
        }
    }
    if bytes > 0 {
        tracing::info!(bytes, "the ledger's file gives back the room of what was removed");
    }
}

/// Removes sandboxes that nobody uses any more.
#[expect(
    clippy::infinite_loop,
    reason = "it ends when the server stops, which drops it"
)]
pub(super) async fn prune_sandboxes(sandbox: &SandboxHost) -> Infallible {
    let mut ticks = interval(PRUNE_SANDBOXES);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        sandbox.prune().await;
    }
}

/// Removes the spools of finished runs, oldest first, that are too old or more than there is room for. Only the bytes
/// go; the record of the run stays.
async fn make_room(
    ledger: &Ledger,
    gateway: &GatewayHost,
    quota: u64,
    written_after: i64,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let host = gateway.clone();
    let spools = tokio::task::spawn_blocking(move || host.spools()).await??;
    let mut total: u64 = spools.iter().map(|spool| spool.bytes).sum();
    for spool in spools {
        if total <= quota && spool.written_ms > written_after {
            break;
        }
        let run = ledger.run(&spool.run_id).await?;
        if run.is_some_and(|run| !run.status.is_final()) {
            continue;
        }
        gateway.forget_output(&spool.run_id);
        total = total.saturating_sub(spool.bytes);
    }
    Ok(())
}

fn as_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
