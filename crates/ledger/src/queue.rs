//! The way to the writer: a bounded queue of typed jobs, and notes that ride with the next batch.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use tokio::sync::{Semaphore, oneshot};

use countersign_domain::{TokenId, UnixMillis};

use super::{
    committer::{Offered, Shared},
    error::LedgerError,
    job::{Job, QueuedJob, Ticket},
    progress::Started,
};

/// Jobs that may wait; who comes later waits for a place.
const QUEUE: usize = 1024;

/// Started runs that may wait to be noted. Beyond it the note is dropped: `finish` works from `launching` too.
const MOST_NOTES: usize = 16_384;

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
        self.notes.lock().token_uses.insert(token, at);
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

/// What is to be written with the next batch.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<NotesState>);

#[derive(Debug, Default)]
struct NotesState {
    /// Whether the writer will look here soon by itself.
    lingering: bool,
    started: Vec<Started>,
    token_uses: BTreeMap<TokenId, UnixMillis>,
}

#[derive(Debug, PartialEq, Eq)]
enum Wake {
    Nobody,
    Writer,
}

impl Notes {
    fn push_started(&self, started: Started) -> Wake {
        let mut notes = self.lock();
        if notes.started.len() >= MOST_NOTES {
            return Wake::Nobody;
        }
        notes.started.push(started);
        if mem::replace(&mut notes.lingering, true) {
            Wake::Nobody
        } else {
            Wake::Writer
        }
    }

    /// Says that the writer will look for notes soon, so that nobody wakes it for one.
    pub(super) fn linger(&self) {
        self.lock().lingering = true;
    }

    /// Takes the started runs and stops lingering.
    pub(super) fn take_started(&self) -> Vec<Started> {
        let mut notes = self.lock();
        notes.lingering = false;
        mem::take(&mut notes.started)
    }

    /// Puts notes back that could not be written.
    pub(super) fn put_back(&self, mut started: Vec<Started>) {
        let mut notes = self.lock();
        started.append(&mut notes.started);
        started.truncate(MOST_NOTES);
        notes.started = started;
    }

    /// Takes the uses of tokens.
    pub(super) fn take_token_uses(&self) -> BTreeMap<TokenId, UnixMillis> {
        mem::take(&mut self.lock().token_uses)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NotesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
