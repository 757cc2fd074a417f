//! Cancelling runs: a question is withdrawn, and what runs is killed.

use std::sync::Arc;

use countersign_config::approvals::broker::Broker;
use countersign_domain::{Actor, KillCause, Principal, Reason, Run, RunId, Scope};
use countersign_ledger::{CancelOutcome, Ledger};

use crate::{base::Base, live::LiveRuns, records, reply::CancelError, run_recorder::RunRecorder};

/// Cancels runs.
#[derive(Debug)]
pub struct Cancels {
    ledger: Ledger,
    live: Arc<LiveRuns>,
    broker: Arc<Broker>,
    recorder: Arc<RunRecorder>,
}

impl Cancels {
    pub(crate) fn new(base: &Base) -> Self {
        Self {
            ledger: base.ledger.clone(),
            live: Arc::clone(&base.live),
            broker: Arc::clone(&base.broker),
            recorder: Arc::clone(&base.recorder),
        }
    }

    /// Cancels a run: withdraws its question, or kills it (`docs/spec/http-api.md#resources`, `POST
    /// /v1/runs/{runId}/cancel`).
    ///
    /// # Errors
    /// [`CancelError`] when there is no such run for this caller, or it has ended.
    #[crate::compiled_once]
    pub async fn cancel(&self, caller: &Principal, id: &RunId) -> Result<Run, CancelError> {
        let run = self.ledger.run(id).await?.ok_or(CancelError::NotFound)?;
        let by_scope = caller.has(Scope::Admin) || records::is_own(caller, &run);
        if !by_scope || !caller.may_act_for(&run.agent) {
            return Err(CancelError::NotFound);
        }
        if run.status.is_final() {
            return Err(CancelError::Ended(Box::new(run)));
        }
        self.cancel_for(id, &caller.actor).await
    }

    /// Cancels a run in the name of an actor who may.
    pub(crate) async fn cancel_for(&self, id: &RunId, by: &Actor) -> Result<Run, CancelError> {
        let mut changes = self.broker.subscribe(id);
        loop {
            match self
                .ledger
                .cancel(id.clone(), Reason::Cancelled, by.clone())
                .await?
            {
                CancelOutcome::Cancelled(_approval) => {
                    self.broker.touch(id);
                    break;
                }
                CancelOutcome::NotFound => return Err(CancelError::NotFound),
                CancelOutcome::Ended(_status) => {
                    let run = self.ledger.run(id).await?.ok_or(CancelError::NotFound)?;
                    return Err(CancelError::Ended(Box::new(run)));
                }
                CancelOutcome::Started(_status) => {
                    if let Some(live) = self.live.get(id) {
                        live.kill(KillCause::Cancelled);
                        tokio::select! {
                            biased;
                            _ended = live.ended() => break,
                            trouble = self.recorder.is_unrecorded(id) => return Err(trouble.into()),
                        }
                    }
                    // Between its permission and its supervisor; that change wakes us.
                    tokio::select! {
                        biased;
                        () = changes.changed() => {}
                        trouble = self.recorder.is_unrecorded(id) => return Err(trouble.into()),
                    }
                }
            }
        }
        self.ledger.run(id).await?.ok_or(CancelError::NotFound)
    }
}
