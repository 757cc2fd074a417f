//! A change of the ledger as a typed job, and the ticket of the caller that waits for it.

use tokio::sync::oneshot;

use super::{
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    tx::{Committed, Tx},
};

/// One change of the ledger. `apply` checks first and writes last, so that a job that fails or loses a
/// compare-and-swap has written nothing; it may be called again after a rollback.
pub(super) trait Job: Send + 'static {
    /// What `apply` found out.
    type Draft: Send;
    /// What the caller gets.
    type Answer: Send;

    /// How safe the commit must be before this is answered: as safe as can be, unless the job says that less will do.
    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Full
    }

    /// Whether it writes so much that it may hold up no caller's thread.
    fn is_long(&self) -> bool {
        false
    }

    /// Whether there must be room for more than this: it lets something begin whose end has to be recorded too, or callers
    /// can have it done without end.
    fn needs_reserve(&self) -> bool {
        false
    }

    /// Does the work inside the batch's transaction.
    fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Draft, Fault>;

    /// Makes the answer; called only after the commit.
    fn committed(self, draft: Self::Draft, proof: &Committed) -> Self::Answer;
}

/// A [`Job`] that answers with what `apply` found out.
pub(super) trait Change: Send + 'static {
    /// What the caller gets.
    type Answer: Send;

    /// As [`Job::durability`].
    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Full
    }

    /// As [`Job::is_long`].
    fn is_long(&self) -> bool {
        false
    }

    /// As [`Job::needs_reserve`].
    fn needs_reserve(&self) -> bool {
        false
    }

    /// As [`Job::apply`].
    fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Answer, Fault>;
}

impl<C: Change> Job for C {
    type Draft = C::Answer;
    type Answer = C::Answer;

    fn durability(&self, tuning: &Tuning) -> Durability {
        Change::durability(self, tuning)
    }

    fn is_long(&self) -> bool {
        Change::is_long(self)
    }

    fn needs_reserve(&self) -> bool {
        Change::needs_reserve(self)
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<C::Answer, Fault> {
        Change::apply(self, tx)
    }

    fn committed(self, answer: C::Answer, _proof: &Committed) -> C::Answer {
        answer
    }
}

/// A job together with the caller that waits for it.
pub(super) trait Ticket: Send {
    fn durability(&self, tuning: &Tuning) -> Durability;
    fn is_long(&self) -> bool;
    fn needs_reserve(&self) -> bool;
    fn apply(&mut self, tx: &mut Tx<'_>) -> Result<(), Fault>;
    /// Fails this job alone; the rest of its batch goes on.
    fn refuse(&mut self, error: LedgerError);
    fn commit(self: Box<Self>, proof: &Committed);
    fn fail(self: Box<Self>, error: LedgerError);
}

pub(super) struct QueuedJob<J: Job> {
    pub(super) job: J,
    pub(super) draft: Option<Result<J::Draft, LedgerError>>,
    pub(super) reply: oneshot::Sender<Result<J::Answer, LedgerError>>,
}

impl<J: Job> Ticket for QueuedJob<J> {
    fn durability(&self, tuning: &Tuning) -> Durability {
        self.job.durability(tuning)
    }

    fn is_long(&self) -> bool {
        self.job.is_long()
    }

    fn needs_reserve(&self) -> bool {
        self.job.needs_reserve()
    }

    fn apply(&mut self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        self.draft = Some(Ok(self.job.apply(tx)?));
        Ok(())
    }

    fn refuse(&mut self, error: LedgerError) {
        self.draft = Some(Err(error));
    }

    fn commit(self: Box<Self>, proof: &Committed) {
        let Self { job, draft, reply } = *self;
        let answer = match draft {
            Some(Ok(draft)) => Ok(job.committed(draft, proof)),
            Some(Err(error)) => Err(error),
            None => Err(LedgerError::Closed),
        };
        // A caller that went away does not undo what was committed.
        drop(reply.send(answer));
    }

    fn fail(self: Box<Self>, error: LedgerError) {
        drop(self.reply.send(Err(error)));
    }
}
