//! What the ledger has forgotten, as far as the files of runs show it: runs that were started and are not on record.
//!
//! They are looked for before anything is recovered or started. None of them is started again. What still runs of them is
//! ended, since nothing may run that is on no record, and each is recorded as `lost`.

use std::{sync::Arc, time::Duration};

use countersign_domain::{Exit, KillCause, LaunchId, Run};
use countersign_hosts::gateway::{GatewayHost, Recovered, Supervised};
use countersign_ledger::{ForgottenRun, FoundRun, Ledger, LedgerError, UnknownRuns};
use countersign_runner::run_file::Voided;

use crate::{base::Base, lifecycle::Lifecycle};

/// How long what is killed may take to end.
const KILLED_WITHIN: Duration = Duration::from_secs(20);

/// Looks for runs that the ledger has forgotten.
#[derive(Debug)]
pub(super) struct Forgotten {
    ledger: Ledger,
    gateway: GatewayHost,
    lifecycle: Arc<Lifecycle>,
}

/// What the files of a run tell of it, once nothing of it runs.
#[derive(Debug)]
enum Told {
    /// It never started, and never will.
    NotStarted,
    /// It may have started.
    Started(Started),
}

#[derive(Debug)]
struct Started {
    launch_id: Option<LaunchId>,
    words: String,
}

impl Forgotten {
    pub(super) fn new(base: &Base) -> Self {
        Self {
            ledger: base.ledger.clone(),
            gateway: base.gateway.clone(),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Records what was forgotten. Whether there was anything.
    ///
    /// # Errors
    /// When the ledger cannot be read or written.
    pub(super) async fn record(self: &Arc<Self>) -> Result<bool, LedgerError> {
        let gateway = self.gateway.clone();
        let found = match tokio::task::spawn_blocking(move || gateway.found_runs()).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::error!(%error, "the files of runs cannot be compared with the ledger");
                return Ok(false);
            }
            Err(_panicked) => return Ok(false),
        };
        let UnknownRuns { forgotten, outdated } = self.ledger.unknown_runs(found).await?;
        for run_id in &outdated {
            // A supervisor that holds it keeps what the run left running.
            if self.gateway.inspect(run_id).is_ok_and(|file| !file.is_locked) {
                self.gateway.forget(run_id);
            }
        }
        // A supervisor may still be ending its run; runs are waited for side by side.
        let settling: Vec<_> = forgotten
            .into_iter()
            .map(|run| {
                let forgotten = Arc::clone(self);
                self.lifecycle.spawn(async move { forgotten.settle(run).await })
            })
            .collect();
        let mut were_any = false;
        for settled in settling {
            match settled.await {
                Ok(settled) => were_any |= settled?,
                Err(_panicked) => tracing::error!("a run that the ledger forgot could not be settled"),
            }
        }
        Ok(were_any)
    }

    /// Ends what still runs of a run, and records it as lost if it may have started. Whether it may.
    async fn settle(&self, run: FoundRun) -> Result<bool, LedgerError> {
        let FoundRun { run_id, made_at } = &run;
        let Told::Started(Started { launch_id, words }) = self.end(&run).await else {
            return Ok(false);
        };
        tracing::error!(run.id = %run_id, "the ledger forgot a run that was started; it is recorded as lost");
        let forgotten = ForgottenRun {
            run_id: run_id.clone(),
            made_at: *made_at,
            launch_id,
            detail: format!(
                "the ledger lost the record of this run, with a loss of power or a file; {words}. What is not on record is \
                 unknown"
            ),
        };
        self.ledger.record_forgotten(forgotten).await?;
        Ok(true)
    }

    /// Records a run as lost whose launch the ledger may have forgotten: it was allowed, and nothing of it is on record
    /// after that.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub(super) async fn record_unknown(&self, run: &Run) -> Result<(), LedgerError> {
        let forgotten = ForgottenRun {
            run_id: run.id.clone(),
            made_at: run.created_at,
            launch_id: None,
            detail: "it was allowed, and the ledger lost what came later: it may have started".to_owned(),
        };
        self.ledger.record_forgotten(forgotten).await
    }

    async fn end(&self, run: &FoundRun) -> Told {
        let run_id = &run.run_id;
        let started = |launch_id: Option<String>, words: String| {
            Told::Started(Started {
                launch_id: launch_id.and_then(|id| LaunchId::parse(id).ok()),
                words,
            })
        };
        let mut was_killed = false;
        loop {
            match self.gateway.recover(run_id).await {
                Ok(Recovered::Attached(supervised)) if was_killed => {
                    drop(supervised);
                    return started(
                        None,
                        "it still runs, and its supervisor does not end it".to_owned(),
                    );
                }
                Ok(Recovered::Attached(supervised)) => {
                    kill(*supervised).await;
                    was_killed = true;
                }
                Ok(Recovered::Exited { exit, launch_id, .. }) => {
                    if let Some(leftovers) = self.gateway.attach_leftovers(run_id).await {
                        kill(leftovers).await;
                    }
                    return started(Some(launch_id), in_words(&exit, was_killed));
                }
                Ok(Recovered::StartedAndGone) => {
                    return started(None, "its file says that it started, and of no end".to_owned());
                }
                Ok(Recovered::Voided) => return Told::NotStarted,
                // An order for it may still be under way: it must find the file taken.
                Ok(Recovered::NotStarted) => match self.gateway.void(run_id) {
                    Ok(Voided::Done) => return Told::NotStarted,
                    Ok(Voided::Locked | Voided::TooLate(_)) => {}
                    Err(error) => return started(None, format!("its file cannot be written: {error}")),
                },
                Err(error) => return started(None, error.to_string()),
            }
        }
    }
}

/// Kills what is left of a run, and hears its supervisor to the end.
async fn kill(supervised: Supervised) {
    let Supervised { mut events, control } = supervised;
    control.kill(KillCause::Shutdown);
    let ended = async { while events.recv().await.is_some() {} };
    if tokio::time::timeout(KILLED_WITHIN, ended).await.is_err() {
        tracing::error!("what the ledger forgot does not end");
    }
}

fn in_words(exit: &Exit, was_killed: bool) -> String {
    let how = match (exit.code, exit.signal) {
        _ if was_killed => "that it was still running, and was killed at this start".to_owned(),
        (Some(code), _) => format!("that it ended with exit code {code}"),
        (None, Some(signal)) => format!("that signal {signal} ended it"),
        (None, None) => "that its program could not be started".to_owned(),
    };
    format!("its file says {how}")
}
