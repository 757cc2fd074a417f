//! Stopping: no new runs, foreground ones get their time, background ones go on without us.

use std::{sync::Arc, time::Duration};

use countersign_config::settings::BackgroundRuns;
use countersign_domain::{Actor, KillCause};
use countersign_ledger::events::{Event, EventKind};

use crate::{Engine, watch::tell};

/// How long killed runs may take to be recorded before the server stops anyway.
const KILLED_TIMEOUT: Duration = Duration::from_secs(10);

impl Engine {
    /// Begins what goes on beside the requests. Call it once, after [`Engine::recover`].
    pub fn begin(&self) {
        let (expiries, remembered) = (Arc::clone(&self.expiries), Arc::clone(&self.remembered));
        let judge_again = Arc::clone(&self.judge_again);
        self.lifecycle
            .spawn(async move { expiries.expire_in_time().await });
        self.lifecycle
            .spawn(async move { remembered.write_notes().await });
        self.lifecycle
            .spawn(async move { judge_again.judge_again_in_time().await });
        // The policy may have changed while there was no server, or just before the last one went.
        self.again.wake();
    }

    /// Takes nothing new, tells all listeners, and then ends the streams.
    async fn stop_taking(&self) {
        self.lifecycle.take_nothing_new();
        let grace = self.settings.current().server.shutdown.grace;
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        tell(
            &self.ledger,
            Event::general(EventKind::ServerShutdown { grace_ms }),
            Actor::system(),
        )
        .await;
        self.lifecycle.begin_to_stop();
    }

    /// Takes nothing new, waits up to the configured grace for foreground runs, ends the rest, and leaves
    /// background runs to their supervisors (or ends them too, as configured).
    ///
    /// # Cancel safety
    /// Dropped, it leaves runs as they are; call [`Engine::kill_all`] then.
    #[crate::compiled_once]
    pub async fn drain(&self) {
        let shutdown = self.settings.current().server.shutdown.clone();
        self.stop_taking().await;
        if tokio::time::timeout(shutdown.grace, self.lifecycle.await_launches())
            .await
            .is_err()
        {
            tracing::error!("some runs were still being started");
        }
        if shutdown.background_runs == BackgroundRuns::Kill {
            self.kill_where(|background| background);
        }
        let calm = self.wait_for_runs(shutdown.background_runs);
        if tokio::time::timeout(shutdown.grace, calm).await.is_err() {
            self.kill_where(|background| !background);
            let calm = self.wait_for_runs(shutdown.background_runs);
            if tokio::time::timeout(KILLED_TIMEOUT, calm).await.is_err() {
                tracing::error!("runs did not end in time; the next start settles them");
            }
        }
    }

    /// Ends every run, background ones too, and waits until that is recorded.
    #[crate::compiled_once]
    pub async fn kill_all(&self) {
        self.lifecycle.begin_to_stop();
        self.kill_where(|_background| true);
        let ended = async {
            self.lifecycle.await_launches().await;
            self.kill_where(|_background| true);
            self.wait_for_runs(BackgroundRuns::Kill).await;
        };
        if tokio::time::timeout(KILLED_TIMEOUT, ended).await.is_err() {
            tracing::error!("runs did not end in time; the next start settles them");
        }
    }

    /// Waits for the engine's own tasks, but for those that only hold background runs.
    #[crate::compiled_once]
    pub async fn finish_tasks(&self) {
        self.lifecycle.close();
        let runs = self.live.all().len();
        if runs == 0 {
            self.lifecycle.finish().await;
        }
    }

    fn kill_where(&self, wanted: impl Fn(bool) -> bool) {
        for live in self.live.all() {
            if wanted(live.outlives_caller()) {
                live.kill(KillCause::Shutdown);
            }
        }
    }

    async fn wait_for_runs(&self, background: BackgroundRuns) {
        for live in self.live.all() {
            if background == BackgroundRuns::Kill {
                // Leftovers, too.
                self.live.is_gone(&live.run_id).await;
            } else if !live.outlives_caller() {
                live.ended().await;
            }
        }
    }
}
