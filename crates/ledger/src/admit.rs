//! Admitting runs that nobody has to be asked about: those that may start at once, and those denied.

use countersign_domain::{DecidedBy, EntryId, Reason, RunDecision, RunStatus, RunVerdict};
use countersign_sys::hooks;

use super::{
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    grants,
    handle::Ledger,
    idempotency::{self, Admission, IdempotencyKey},
    job::{Change, Job},
    launch::{LaunchOutcome, LaunchTerms, Ready, Start},
    new_run::{Entrance, NewRun},
    run_end,
    tx::{Committed, Tx},
};

/// A run that the policy lets start: admitted and launched in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectLaunch {
    /// The run to record as `launching`.
    pub run: NewRun,
    /// The key it came with.
    pub key: Option<IdempotencyKey>,
    /// On which terms it may start.
    pub terms: LaunchTerms,
}

impl Ledger {
    /// Admits a run that the policy lets start, and launches it.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn admit_and_launch(
        &self,
        launch: DirectLaunch,
    ) -> Result<Admission<LaunchOutcome>, LedgerError> {
        self.queue.submit(launch).await
    }

    /// Admits a run that the policy denies.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn admit_denied(&self, denial: Denial) -> Result<Admission<()>, LedgerError> {
        self.queue.submit(denial).await
    }
}

/// What a direct launch wrote.
#[derive(Debug)]
pub(super) enum DirectDraft {
    Ready(Ready),
    Stale,
    UsedUp(EntryId),
    AskerGone,
}

impl Job for DirectLaunch {
    type Draft = Admission<DirectDraft>;
    type Answer = Admission<LaunchOutcome>;

    fn durability(&self, tuning: &Tuning) -> Durability {
        if self.key.is_some() {
            Durability::Full
        } else {
            self.terms.durability(tuning)
        }
    }

    fn needs_reserve(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Admission<DirectDraft>, Fault> {
        let Self { run, key, terms } = self;
        let key = key.as_ref();
        idempotency::admit(tx, key, |tx| {
            if !tx.is_current(&terms.stamp) {
                return Ok(DirectDraft::Stale);
            }
            if let Some(entry) = grants::used_up(tx, &terms.grants)? {
                return Ok(DirectDraft::UsedUp(entry));
            }
            let not_after = tx.now() + terms.start_by;
            let outlives_caller = run.background || key.is_some();
            let start = Start {
                asker: &run.requested_by,
                not_after,
                binding_digest: outlives_caller.then(|| terms.binding.digest()),
                isolation: run.isolation,
                node: terms.node.clone(),
            };
            let ready = match Ready::draw(tx, start)? {
                Ok(ready) => ready.starting(run.start),
                Err(gone) => {
                    let denial = Denial {
                        run: run.clone(),
                        key: key.cloned(),
                        reason: Reason::ApprovalCancelled,
                        detail: Some(gone.to_string()),
                        hint: None,
                    };
                    denial.record(tx)?;
                    return Ok(DirectDraft::AskerGone);
                }
            };
            let entrance = Entrance {
                status: RunStatus::Launching,
                verdict: RunVerdict::Run,
                decision: RunDecision {
                    verdict: RunVerdict::Run,
                    by: DecidedBy::Policy,
                },
                reason: None,
                detail: None,
                approval: None,
                keyed: key.is_some(),
                launch: Some(&ready),
            };
            run.insert(tx, &entrance)?;
            if hooks::promise_dropped("record-first") {
                tx.execute("DELETE FROM runs WHERE run_id = ?1", (run.id.as_str(),))?;
            }
            idempotency::keep_run(tx, key, &run.id)?;
            grants::count(tx, &terms.grants, &run.id)?;
            Ok(DirectDraft::Ready(ready))
        })
    }

    fn committed(self, draft: Admission<DirectDraft>, proof: &Committed) -> Admission<LaunchOutcome> {
        let Self { run, key: _, terms } = self;
        draft.map(|draft| match draft {
            DirectDraft::Ready(ready) => {
                LaunchOutcome::Launched(ready.into_permit(run.id, terms.binding, run.env, proof))
            }
            DirectDraft::Stale => LaunchOutcome::Stale,
            DirectDraft::UsedUp(entry) => LaunchOutcome::UsedUp(entry),
            DirectDraft::AskerGone => LaunchOutcome::AskerGone(run.id),
        })
    }
}

/// A run that the policy denies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The run to record as `denied`.
    pub run: NewRun,
    /// The key it came with.
    pub key: Option<IdempotencyKey>,
    /// Why it is denied; the run's record and `exec.denied` name it.
    pub reason: Reason,
    /// The reason in words; `None` where it says enough.
    pub detail: Option<String>,
    /// What would change it; kept with the key.
    pub hint: Option<String>,
}

impl Change for Denial {
    type Answer = Admission<()>;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        if self.key.is_some() {
            Durability::Full
        } else {
            Durability::Normal
        }
    }

    fn needs_reserve(&self) -> bool {
        // Nothing begins, but a caller who is refused can come again as often as they like.
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Admission<()>, Fault> {
        idempotency::admit(tx, self.key.as_ref(), |tx| self.record(tx))
    }
}

impl Denial {
    /// Writes the denied run, and tells of it.
    fn record(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let Self {
            run,
            key,
            reason,
            detail,
            hint,
        } = self;
        let key = key.as_ref();
        let entrance = Entrance {
            status: RunStatus::Denied,
            verdict: RunVerdict::Deny,
            decision: RunDecision {
                verdict: RunVerdict::Deny,
                by: DecidedBy::Policy,
            },
            reason: Some(*reason),
            detail: detail.as_deref(),
            approval: None,
            keyed: key.is_some(),
            launch: None,
        };
        run.insert(tx, &entrance)?;
        idempotency::keep_refused(tx, key, &run.id, hint.as_deref())?;
        let by = countersign_domain::Actor::system();
        run_end::tell_denied(tx, run.subject(), *reason, detail.clone(), &by)
    }
}
