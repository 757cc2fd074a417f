//! The writer's thread: takes what is queued, commits it together, and does what time demands.

use std::{sync::mpsc::RecvTimeoutError, time::Duration};

use countersign_sys::process::monotonic;

use super::{
    committer::{Committer, Shared},
    job::Ticket,
    queue::{Intake, Message},
};

/// Jobs that share one commit.
const BATCH: usize = 256;

/// What the thread works with.
pub(super) struct Writer {
    pub(super) intake: Intake,
    pub(super) shared: Shared,
}

enum Received {
    Message(Message),
    Timer,
    Gone,
}

impl Writer {
    /// Works until it is told to stop or nobody can send any more.
    pub(super) fn run(self) {
        let Self { intake, shared } = &self;
        while let Some(wake_at) = shared.with(Committer::timers) {
            let is_done = match self.receive(wake_at) {
                Received::Message(Message::Job(first)) => shared.with(|committer| {
                    // Taken under the lock: until then the places of these jobs tell others that they wait.
                    let (batch, stop) = gather(intake, first);
                    shared.note_batch(batch.len());
                    committer.write(batch);
                    stop
                }),
                Received::Message(Message::Nudge) => shared.with(|committer| {
                    committer.linger();
                    false
                }),
                Received::Message(Message::Wake) | Received::Timer => Some(false),
                Received::Message(Message::Stop) | Received::Gone => Some(true),
            };
            if is_done != Some(false) {
                break;
            }
        }
        self.finish();
    }

    fn receive(&self, wake_at: Option<Duration>) -> Received {
        let receiver = &self.intake.receiver;
        match wake_at {
            None => receiver.recv().map_or(Received::Gone, Received::Message),
            Some(due) => match receiver.recv_timeout(due.saturating_sub(monotonic())) {
                Ok(message) => Received::Message(message),
                Err(RecvTimeoutError::Timeout) => Received::Timer,
                Err(RecvTimeoutError::Disconnected) => Received::Gone,
            },
        }
    }

    /// Does what is still queued and closes the ledger. After a panic over a job nothing more is written.
    fn finish(&self) {
        let Self { intake, shared } = self;
        let drained = shared.with(|committer| {
            while let Ok(message) = intake.receiver.try_recv() {
                if let Message::Job(first) = message {
                    let (batch, _stop) = gather(intake, first);
                    committer.write(batch);
                }
            }
        });
        if let Some(committer) = shared.close()
            && drained.is_some()
        {
            committer.finish();
        }
    }
}

impl Drop for Writer {
    /// A panic of this thread ends it without [`Writer::finish`]: the ledger is closed then too, and says so.
    fn drop(&mut self) {
        drop(self.shared.close());
    }
}

fn gather(intake: &Intake, first: Box<dyn Ticket>) -> (Vec<Box<dyn Ticket>>, bool) {
    let mut batch = vec![first];
    let mut stop = false;
    while batch.len() < BATCH && !stop {
        match intake.receiver.try_recv() {
            Ok(Message::Job(job)) => batch.push(job),
            // The notes are taken with this batch anyway, and the time is looked at after it.
            Ok(Message::Nudge | Message::Wake) => {}
            Ok(Message::Stop) => stop = true,
            Err(_empty_or_gone) => break,
        }
    }
    intake.taken(batch.len());
    (batch, stop)
}
