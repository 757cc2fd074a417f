//! The way to the writer: a bounded queue of typed jobs, and notes that ride with the next batch.

use std::sync::{Arc, mpsc};

use tokio::sync::{Semaphore, oneshot};

use countersign_domain::{TokenId, UnixMillis};

use super::{
    committer::{Offered, Shared},
    error::LedgerError,
    job::{Job, QueuedJob, Ticket},
    notes::{Notes, Started, Wake},
};

/// Jobs that may wait; who comes later waits for a place.
const QUEUE: usize = 1024;

/// What the writer receives.
pub(super) enum Message {
    Job(Box<dyn Ticket>),
    /// A note came in while the writer was not looking for any.
    Nudge,
    /// A caller wrote, and there is something to do before the writer would wake.
    Wake,
    Stop,
}

#[derive(Debug)]
pub(super) struct Queue {
    sender: mpsc::Sender<Message>,
    slots: Arc<Semaphore>,
    notes: Arc<Notes>,
    committer: Shared,
}

impl Queue {
    /// A queue in front of `committer`, which looks into `notes`, and what its writer's thread needs.
    pub(super) fn new(committer: Shared, notes: Arc<Notes>) -> (Self, Intake) {
        let (sender, receiver) = mpsc::channel();
        let slots = Arc::new(Semaphore::new(QUEUE));
        let intake = Intake {
            receiver,
            slots: Arc::clone(&slots),
        };
        let queue = Self {
            sender,
            slots,
            notes,
            committer,
        };
        (queue, intake)
    }

    /// Has a job done and waits for its answer. Once taken, a job is done even if the caller goes away.
    ///
    /// A job that finds the ledger idle and needs no sync is committed here and now.
    pub(super) async fn submit<J: Job>(&self, job: J) -> Result<J::Answer, LedgerError> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(QueuedJob {
            job,
            draft: None,
            reply,
        });
        if let Some(job) = self.write_here(job) {
            let slot = self
                .slots
                .acquire()
                .await
                .map_err(|_closed| LedgerError::Closed)?;
            // Given back by the writer when it takes the job.
            slot.forget();
            self.sender
                .send(Message::Job(job))
                .map_err(|_gone| LedgerError::Closed)?;
        }
        answer.await.unwrap_or(Err(LedgerError::Closed))
    }

    /// Gives the job back when it is for the writer's thread.
    fn write_here(&self, job: Box<dyn Ticket>) -> Option<Box<dyn Ticket>> {
        // Jobs that wait come first, and share a commit with the jobs that join them.
        if self.depth() > 0 {
            return Some(job);
        }
        match self.committer.write_here(job) {
            Offered::Done => None,
            Offered::DoneWakeThread => {
                drop(self.sender.send(Message::Wake));
                None
            }
            Offered::Declined(job) => Some(job),
        }
    }

    /// Leaves a note; never waits and never forces a commit of its own.
    pub(super) fn note_started(&self, started: Started) {
        if self.notes.push_started(started) == Wake::Writer {
            // Without a writer there is nobody left to tell.
            drop(self.sender.send(Message::Nudge));
        }
    }

    /// Leaves a note that a token was used; written behind.
    pub(super) fn note_token_use(&self, token: TokenId, at: UnixMillis) {
        self.notes.push_token_use(token, at);
    }

    /// Tells the writer to finish what is queued and end.
    pub(super) fn stop(&self) {
        drop(self.sender.send(Message::Stop));
    }

    /// Waits until every transaction that may have begun before this call is over. It writes nothing, and so needs no disk
    /// that takes anything.
    pub(super) async fn pass(&self) {
        let committer = self.committer.clone();
        // Only a panic makes the task fail: then nobody writes any more.
        drop(tokio::task::spawn_blocking(move || committer.with(|_idle| ())).await);
    }

    /// Jobs that wait now.
    pub(super) fn depth(&self) -> usize {
        QUEUE.saturating_sub(self.slots.available_permits())
    }
}

pub(super) struct Intake {
    pub(super) receiver: mpsc::Receiver<Message>,
    slots: Arc<Semaphore>,
}

impl Intake {
    /// Gives back the places of jobs that were taken.
    pub(super) fn taken(&self, jobs: usize) {
        self.slots.add_permits(jobs);
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.slots.close();
    }
}
