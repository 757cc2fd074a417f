//! A yes and the launch that follows from it, in one transaction: one durable commit instead of two, and nobody sees a
//! run that is allowed and waits for nothing.
//!
//! It is the same two steps, in their order, with all their checks ([`Decide`], [`ApprovedLaunch`]). What the launch
//! needs was looked at before the answer is written, so a change meanwhile is seen by the launch's own checks: a
//! policy that is another by now leaves the run allowed, to be launched by itself.

use countersign_domain::ApprovalStatus;

use super::{
    decide::{Decide, DecideOutcome},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Job,
    launch::{ApprovedDraft, ApprovedLaunch, ApprovedOutcome},
    tx::{Committed, Tx},
};

/// An answer on its way into the ledger, with the launch of what it allows.
#[derive(Debug)]
pub struct DecideAndLaunch {
    /// The answer.
    pub decide: Decide,
    /// The launch of the run of the same approval, if this answer allows it.
    pub launch: ApprovedLaunch,
}

impl Ledger {
    /// Decides an approval, and launches its run where the answer allows it now. What became of the launch is `None`
    /// where the answer did not.
    ///
    /// # Errors
    /// When the ledger cannot be written, or has no room for what a launch leaves behind; then nothing was. The answer by
    /// itself may still be taken.
    #[crate::compiled_once]
    pub async fn decide_and_launch(
        &self,
        answer: DecideAndLaunch,
    ) -> Result<(DecideOutcome, Option<ApprovedOutcome>), LedgerError> {
        self.queue.submit(answer).await
    }
}

impl Job for DecideAndLaunch {
    type Draft = (DecideOutcome, Option<ApprovedDraft>);
    type Answer = (DecideOutcome, Option<ApprovedOutcome>);

    fn needs_reserve(&self) -> bool {
        self.launch.needs_reserve()
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Draft, Fault> {
        let outcome = self.decide.apply(tx)?;
        let launches = match &outcome {
            DecideOutcome::Decided { applied, approval } => {
                *applied
                    && approval.state.status() == ApprovalStatus::Allowed
                    && approval.id == self.launch.approval
                    && !approval.is_run_elsewhere()
            }
            DecideOutcome::Conflict(_)
            | DecideOutcome::Expired(_)
            | DecideOutcome::Due(_)
            | DecideOutcome::Cancelled(_)
            | DecideOutcome::NotAllowedDecision(_)
            | DecideOutcome::OwnRequest
            | DecideOutcome::NotEntitled(_)
            | DecideOutcome::NotFound => false,
        };
        let launched = launches.then(|| self.launch.apply(tx)).transpose()?;
        Ok((outcome, launched))
    }

    fn committed(self, (outcome, launched): Self::Draft, proof: &Committed) -> Self::Answer {
        let launched = launched.map(|draft| self.launch.committed(draft, proof));
        (outcome, launched)
    }
}
