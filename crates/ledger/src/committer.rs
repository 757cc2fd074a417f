//! What commits batches: the writing connection and everything that belongs to it.
//!
//! The writer's thread and callers with a single cheap job share it behind one lock ([`Shared`]). The thread that holds
//! the lock commits, publishes and answers before it lets go of it. So events come out in the order of their numbers,
//! no matter which thread wrote them. While a thread holds the lock, it waits for nothing but the disk.

use std::{
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use rusqlite::Connection;
use tokio::sync::watch;

use countersign_sys::process::monotonic;

use crate::events::Feed;

use super::{
    audit::{SealedHead, head},
    config::{Durability, Tuning},
    connection::{BUSY_AGAIN, BUSY_TIMEOUT, wait_for_locks},
    error::{Fault, LedgerError},
    health::Health,
    job::Ticket,
    ledger_file::LedgerFile,
    notes::{self, Notes, Started, TokenUses},
    stats::{LedgerStats, Tally},
    trim,
    tx::{Committed, Context, Tx, WriterState},
};

/// How long a note of a started run may wait for a job to ride with.
const LINGER: Duration = Duration::from_millis(20);

/// How often the audit head is sealed at most, and a full disk probed.
const SECOND: Duration = Duration::from_secs(1);

/// What must be free on the disk for something to begin. What runs already has its end recorded in it.
const RESERVE_BYTES: u64 = 4 * 1024 * 1024;

/// How many files must still fit on it: a run has a few of its own.
const RESERVE_FILES: u64 = 16;

/// How often the time is put on record while nothing else is.
const TIME_ON_RECORD: Duration = Duration::from_mins(1);

/// How long a token's last use may stay unwritten.
const TOKEN_USES: Duration = Duration::from_secs(10);

/// So many jobs in a row that came alone mean that callers may write again.
const CALM: u32 = 16;

/// Commits after which the thread folds the log into the database, some 6000 pages: before `SQLite` does it by
/// itself within a commit, which may be a caller's, and syncs there.
const COMMITS: u32 = 512;

/// The one owner of the writing connection.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) connection: Connection,
    pub(super) ledger_file: Arc<LedgerFile>,
    pub(super) context: Context,
    pub(super) state: WriterState,
    pub(super) notes: Arc<Notes>,
    pub(super) feed: Arc<Feed>,
    pub(super) stats: LedgerStats,
    pub(super) tuning: Arc<ArcSwap<Tuning>>,
    pub(super) health: watch::Sender<Health>,
    pub(super) sealed: watch::Sender<SealedHead>,
    pub(super) head: head::HeadFile,
    /// Whether there was a head at the start. One that was taken away is made anew by a reset alone.
    pub(super) is_sealable: bool,
    pub(super) timers: Timers,
}

/// What is done without being asked for, and when, by the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Timers {
    synchronous: Option<Durability>,
    linger_until: Option<Duration>,
    seal_at: Option<Duration>,
    probe_at: Option<Duration>,
    token_uses_at: Option<Duration>,
    checkpoint_at: Option<Duration>,
    time_at: Option<Duration>,
    /// Commits since the log was folded in.
    commits: u32,
    /// When the thread looks here by itself; `None` while it sleeps until it is woken.
    thread_wakes_at: Option<Duration>,
}

/// The committer, as the writer's thread and the callers share it. Empty once the thread has ended: then nothing
/// is written any more.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    committer: Arc<Mutex<Option<Committer>>>,
    /// Batches of a single job that the thread must still see before callers write again: while many jobs come
    /// at once, it is cheaper to let them share commits.
    crowd: Arc<AtomicU32>,
}

/// What became of a job that was offered to [`Shared::write_here`].
pub(super) enum Offered {
    /// It is done and answered.
    Done,
    /// As [`Self::Done`], and the thread sleeps longer than it now may.
    DoneWakeThread,
    /// It is for the thread.
    Declined(Box<dyn Ticket>),
}

impl Shared {
    pub(super) fn new(committer: Committer) -> Self {
        Self {
            committer: Arc::new(Mutex::new(Some(committer))),
            crowd: Arc::default(),
        }
    }

    /// Commits a job on the calling thread, if nobody else is writing and it needs no sync: that costs less than
    /// waking another thread and being woken by it.
    pub(super) fn write_here(&self, job: Box<dyn Ticket>) -> Offered {
        if self.crowd.load(Ordering::Relaxed) > 0 {
            return Offered::Declined(job);
        }
        let mut held = match self.committer.try_lock() {
            Ok(held) => held,
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return Offered::Declined(job),
        };
        let Some(committer) = held.as_mut().filter(|committer| committer.is_cheap(&*job)) else {
            return Offered::Declined(job);
        };
        committer.write(vec![job]);
        if committer.thread_oversleeps() {
            Offered::DoneWakeThread
        } else {
            Offered::Done
        }
    }

    /// Works as the writer's thread. `None` when a caller panicked over a job: what it left half done must not be
    /// built upon.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Committer) -> T) -> Option<T> {
        let mut held = self.committer.lock().ok()?;
        held.as_mut().map(work)
    }

    /// Takes the committer away for good, in any state; waits until nobody uses it.
    pub(super) fn close(&self) -> Option<Committer> {
        self.committer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Tells how many jobs came together. Only the thread says so.
    pub(super) fn note_batch(&self, jobs: usize) {
        let crowd = self.crowd.load(Ordering::Relaxed);
        let crowd = if jobs > 1 { CALM } else { crowd.saturating_sub(1) };
        self.crowd.store(crowd, Ordering::Relaxed);
    }
}

/// Why a batch was rolled back.
enum Rollback {
    /// The storage failed; everybody gets this answer.
    Storage(LedgerError),
    /// One job wrote something and then failed; each must be tried by itself.
    OneJob(LedgerError),
}

impl Committer {
    /// Commits a batch and answers it; takes the notes along.
    pub(super) fn write(&mut self, batch: Vec<Box<dyn Ticket>>) {
        self.timers.linger_until = None;
        let notes = self.notes.take_started();
        let batch = self.keep_reserve(batch);
        let launched = !batch.is_empty();
        self.write_together(batch, notes);
        if launched {
            // What was launched now says so within milliseconds; no need to wake this thread for it.
            self.linger();
        }
    }

    /// Fails what would begin on a disk that may have no room for its end: nobody could be told of that end before there
    /// is some.
    fn keep_reserve(&mut self, batch: Vec<Box<dyn Ticket>>) -> Vec<Box<dyn Ticket>> {
        if !batch.iter().any(|job| job.needs_reserve()) {
            return batch;
        }
        let Err(error) = self.room() else {
            return batch;
        };
        self.unhealthy(&error);
        let (begin, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(|job| job.needs_reserve());
        for job in begin {
            job.fail(error.clone());
        }
        others
    }

    fn has_reserve(&self) -> bool {
        self.room().is_ok()
    }

    /// Why nothing may begin: the file is gone, or the reserve is not free. Where nobody can say how much is, writing
    /// finds out.
    fn room(&self) -> Result<(), LedgerError> {
        let Some(path) = self.connection.path().filter(|path| !path.is_empty()) else {
            return Ok(());
        };
        if !self.ledger_file.is_there() {
            return Err(LedgerError::Gone);
        }
        if self.timers.probe_at.is_some() && self.is_read_only() {
            return Err(LedgerError::ReadOnly);
        }
        let Ok(disk) = rustix::fs::statvfs(path) else {
            return Ok(());
        };
        let has_bytes = disk.f_blocks == 0 || disk.f_bavail.saturating_mul(disk.f_frsize) >= RESERVE_BYTES;
        // Some file systems do not count files.
        let has_files = disk.f_files == 0 || disk.f_favail >= RESERVE_FILES;
        if has_bytes && has_files {
            Ok(())
        } else {
            Err(LedgerError::StorageFull)
        }
    }

    /// What stands behind an error of the storage, where it is more than the database says.
    fn explained(&self, error: LedgerError) -> LedgerError {
        if matches!(error, LedgerError::Unavailable(_)) && self.is_read_only() {
            LedgerError::ReadOnly
        } else {
            error
        }
    }

    /// Whether the file system takes no changes. It is tried with one that changes nothing: after an error of its disk it
    /// may be read-only without saying so.
    fn is_read_only(&self) -> bool {
        let Some(path) = self.connection.path().filter(|path| !path.is_empty()) else {
            return false;
        };
        let changed = rustix::fs::stat(path).and_then(|file| rustix::fs::chmod(path, file.st_mode.into()));
        changed == Err(rustix::io::Errno::ROFS)
    }

    fn write_together(&mut self, mut batch: Vec<Box<dyn Ticket>>, notes: Vec<Started>) {
        match self.attempt(&mut batch, &notes) {
            Ok(()) => {
                let proof = Committed::after_commit();
                for job in batch {
                    job.commit(&proof);
                }
            }
            Err(Rollback::Storage(error)) => {
                let error = self.explained(error);
                self.unhealthy(&error);
                if error.is_io() {
                    self.bury();
                }
                self.notes.put_back(notes);
                for job in batch {
                    job.fail(error.clone());
                }
            }
            Err(Rollback::OneJob(error)) => self.write_individually(batch, notes, &error),
        }
    }

    /// Writes over what the log may have of a transaction that was rolled back. Where only the sync of its commit failed, all
    /// of it is there, and a start after a crash would take it for committed: what was answered with an error would
    /// have been done.
    fn bury(&mut self) {
        let buried = transact(
            &self.connection,
            &self.context,
            &self.state,
            &mut self.timers.synchronous,
            Durability::Normal,
            |tx| {
                // Nothing is written where the row is the same as before.
                let row = "INSERT OR REPLACE INTO meta (key, value) VALUES ('probe', randomblob(16))";
                tx.execute(row, ()).map(drop).map_err(Rollback::of_one)
            },
        );
        // The probe that follows takes the row away, or tries the same again.
        if let Err(rollback) = buried {
            let error = rollback.into_error();
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "what failed may count after a crash"
            );
        }
    }

    /// Each note and job in a transaction of its own, so that a faulty one fails alone.
    fn write_individually(&mut self, batch: Vec<Box<dyn Ticket>>, notes: Vec<Started>, error: &LedgerError) {
        if batch.len() + notes.len() <= 1 {
            tracing::error!(error = %error, "a change of the ledger failed and was rolled back");
            for job in batch {
                job.fail(error.clone());
            }
            return;
        }
        for note in notes {
            self.write_together(Vec::new(), vec![note]);
        }
        for job in batch {
            self.write_together(vec![job], Vec::new());
        }
    }

    fn attempt(&mut self, batch: &mut [Box<dyn Ticket>], notes: &[Started]) -> Result<(), Rollback> {
        let tuning = **self.tuning.load();
        let durability = batch.iter().map(|job| job.durability(&tuning)).max();
        let token_uses = self.due_token_uses();
        let began = monotonic();
        let committed = transact(
            &self.connection,
            &self.context,
            &self.state,
            &mut self.timers.synchronous,
            durability.unwrap_or(Durability::Normal),
            |tx| {
                for note in notes {
                    notes::apply_started(tx, note).map_err(Rollback::of_one)?;
                }
                for job in batch.iter_mut() {
                    apply_one(tx, job.as_mut())?;
                }
                notes::write_token_uses(tx, &token_uses).map_err(Rollback::of_one)?;
                trim::trim_events(tx, &tuning.retention).map_err(Rollback::of_one)
            },
        )?;
        let took = monotonic().saturating_sub(began);
        self.stats
            .committed(took, &committed.tallies, committed.state.pending);
        self.healthy();
        self.timers.commits += 1;
        if self.timers.commits >= COMMITS {
            self.timers.checkpoint_at.get_or_insert_with(monotonic);
        }
        if committed.state.chain.seq != self.state.chain.seq {
            self.timers.seal_at.get_or_insert_with(|| monotonic() + SECOND);
        }
        self.state = committed.state;
        for publication in committed.outbox {
            self.feed.publish(publication);
        }
        Ok(())
    }

    /// Does what is due and says when there is more to do.
    pub(super) fn timers(&mut self) -> Option<Duration> {
        let now = monotonic();
        let due = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        if due(self.timers.linger_until) {
            self.timers.linger_until = None;
            let notes = self.notes.take_started();
            if !notes.is_empty() {
                self.write_together(Vec::new(), notes);
            }
        }
        if due(self.timers.seal_at) {
            self.seal();
        }
        if due(self.timers.probe_at) {
            self.probe();
        }
        if due(self.timers.checkpoint_at) {
            self.checkpoint("PASSIVE");
        }
        if due(self.timers.time_at) {
            self.keep_time();
        }
        self.timers.time_at.get_or_insert(now + TIME_ON_RECORD);
        self.timers.thread_wakes_at = self.timers.next();
        self.timers.thread_wakes_at
    }

    /// Whether a job may be committed on its caller's thread: one that is synced would hold that up for long.
    fn is_cheap(&self, job: &dyn Ticket) -> bool {
        !job.is_long() && job.durability(&self.tuning.load()) == Durability::Normal
    }

    fn thread_oversleeps(&self) -> bool {
        let Timers { thread_wakes_at, .. } = self.timers;
        self.timers
            .next()
            .is_some_and(|next| thread_wakes_at.is_none_or(|wakes_at| next < wakes_at))
    }

    /// Says that notes are looked for soon.
    pub(super) fn linger(&mut self) {
        self.notes.linger();
        self.timers
            .linger_until
            .get_or_insert_with(|| monotonic() + LINGER);
    }

    fn due_token_uses(&mut self) -> TokenUses {
        let now = monotonic();
        if self.timers.token_uses_at.is_some_and(|at| now < at) {
            return TokenUses::new();
        }
        self.timers.token_uses_at = Some(now + TOKEN_USES);
        self.notes.take_token_uses()
    }

    /// Seals the end of the chain. First everything up to it is made safe against power loss: a head that
    /// knows records the database lost would look like tampering.
    fn seal(&mut self) {
        self.timers.seal_at = None;
        if !self.is_sealable {
            return;
        }
        let sealed = transact(
            &self.connection,
            &self.context,
            &self.state,
            &mut self.timers.synchronous,
            Durability::Full,
            |tx| tx.keep_high_water().map_err(Rollback::of_one),
        )
        .map_err(|rollback| head::SealError::Ledger(rollback.into_error()))
        .and_then(|committed| {
            self.state = committed.state;
            self.head
                .seal(&self.state.chain, self.state.high_water, &self.context.keys)?;
            self.sealed
                .send_replace(self.state.chain.sealed_at(self.state.high_water));
            Ok(())
        });
        if let Err(error) = sealed {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the audit head could not be sealed"
            );
            self.timers.seal_at = Some(monotonic() + SECOND);
        } else {
            self.checkpoint("PASSIVE");
        }
    }

    /// Puts the time on record: a server that starts after the clock was set back goes on from there.
    fn keep_time(&mut self) {
        self.timers.time_at = Some(monotonic() + TIME_ON_RECORD);
        if self.timers.probe_at.is_some() {
            return;
        }
        let kept = transact(
            &self.connection,
            &self.context,
            &self.state,
            &mut self.timers.synchronous,
            Durability::Normal,
            |tx| tx.keep_high_water().map_err(Rollback::of_one),
        );
        match kept {
            Ok(committed) => self.state = committed.state,
            Err(rollback) => {
                let error = self.explained(rollback.into_error());
                self.unhealthy(&error);
            }
        }
    }

    fn probe(&mut self) {
        self.timers.probe_at = Some(monotonic() + SECOND);
        self.checkpoint("PASSIVE");
        if !self.has_reserve() {
            // Trying would take from what is left for the ends of what runs.
            return;
        }
        let write = |sql: &str, writer: &mut Self| {
            transact(
                &writer.connection,
                &writer.context,
                &writer.state,
                &mut writer.timers.synchronous,
                Durability::Full,
                |tx| tx.execute(sql, ()).map(drop).map_err(Rollback::of_one),
            )
            .map(drop)
        };
        let written = write(
            "INSERT OR REPLACE INTO meta (key, value) VALUES ('probe', zeroblob(65536))",
            self,
        )
        .and_then(|()| write("DELETE FROM meta WHERE key = 'probe'", self));
        match written {
            Ok(()) => {
                self.healthy();
                if self.timers.probe_at.is_none() {
                    tracing::info!("the ledger can be written again");
                }
            }
            Err(rollback) => {
                let error = self.explained(rollback.into_error());
                self.unhealthy(&error);
            }
        }
    }

    fn healthy(&mut self) {
        if self.timers.probe_at.is_some() && self.has_reserve() {
            self.timers.probe_at = None;
            wait_for_locks(&self.connection, BUSY_TIMEOUT);
            self.health.send_replace(Health::Ready);
        }
    }

    fn unhealthy(&mut self, error: &LedgerError) {
        let health = match error {
            LedgerError::StorageFull => Health::StorageFull,
            LedgerError::Gone => Health::Gone,
            LedgerError::ReadOnly => Health::ReadOnly,
            LedgerError::Unavailable(_)
            | LedgerError::Inconsistent(_)
            | LedgerError::Refused(_)
            | LedgerError::Closed
            | LedgerError::Stopped(_) => Health::Unavailable,
        };
        if self.health.send_replace(health) != health {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "the ledger cannot be written"
            );
        }
        self.timers.probe_at.get_or_insert_with(|| monotonic() + SECOND);
        // Who comes next must not wait behind everything that waits for the same lock in vain.
        wait_for_locks(&self.connection, BUSY_AGAIN);
    }

    /// Writes what was left for later, seals the chain and folds the log into the database.
    pub(super) fn finish(mut self) {
        self.timers.token_uses_at = None;
        let notes = self.notes.take_started();
        self.write_together(Vec::new(), notes);
        self.seal();
        self.checkpoint("TRUNCATE");
    }

    fn checkpoint(&mut self, mode: &str) {
        self.timers.commits = 0;
        self.timers.checkpoint_at = None;
        // Only saves work later; a reader in the way is no fault.
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        drop(self.connection.query_row(&sql, (), |_row| Ok(())));
    }
}

impl Timers {
    /// When the next of them is due.
    fn next(&self) -> Option<Duration> {
        let Self {
            linger_until,
            seal_at,
            probe_at,
            checkpoint_at,
            time_at,
            ..
        } = self;
        [*linger_until, *seal_at, *probe_at, *checkpoint_at, *time_at]
            .into_iter()
            .flatten()
            .min()
    }
}

impl Rollback {
    fn of_one(fault: Fault) -> Self {
        let error = LedgerError::from(fault);
        if error.is_storage() {
            Self::Storage(error)
        } else {
            Self::OneJob(error)
        }
    }

    fn into_error(self) -> LedgerError {
        match self {
            Self::Storage(error) | Self::OneJob(error) => error,
        }
    }
}

/// A job that fails before it wrote anything fails alone; after a write the whole batch goes back.
fn apply_one(tx: &mut Tx<'_>, job: &mut dyn Ticket) -> Result<(), Rollback> {
    let before = tx.connection.total_changes();
    let Err(fault) = job.apply(tx) else { return Ok(()) };
    match Rollback::of_one(fault) {
        Rollback::OneJob(error @ LedgerError::Stopped(_)) if tx.connection.total_changes() == before => {
            job.refuse(error);
            Ok(())
        }
        Rollback::OneJob(error) if tx.connection.total_changes() == before => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "a change of the ledger failed"
            );
            job.refuse(error);
            Ok(())
        }
        rollback @ (Rollback::Storage(_) | Rollback::OneJob(_)) => Err(rollback),
    }
}

struct Done {
    state: WriterState,
    outbox: Vec<Arc<crate::events::Publication>>,
    tallies: Vec<Tally>,
}

/// Runs `work` in a transaction and commits it with the wanted durability, or rolls everything back.
fn transact(
    connection: &Connection,
    context: &Context,
    state: &WriterState,
    synchronous: &mut Option<Durability>,
    durability: Durability,
    work: impl FnOnce(&mut Tx<'_>) -> Result<(), Rollback>,
) -> Result<Done, Rollback> {
    let sql = |error| Rollback::of_one(Fault::Sql(error));
    if *synchronous != Some(durability) {
        let level = match durability {
            Durability::Normal => "NORMAL",
            Durability::Full => "FULL",
        };
        connection
            .pragma_update(None, "synchronous", level)
            .map_err(sql)?;
        *synchronous = Some(durability);
    }
    let run = |statement: &str| connection.prepare_cached(statement)?.execute(()).map(drop);
    run("BEGIN IMMEDIATE").map_err(Rollback::of_begin)?;
    let mut tx = Tx::begin(connection, context, state.clone());
    let worked = work(&mut tx);
    let Tx {
        state,
        outbox,
        tallies,
        undo,
        ..
    } = tx;
    let committed = worked.and_then(|()| run("COMMIT").map_err(Rollback::of_begin));
    match committed {
        Ok(()) => Ok(Done {
            state,
            outbox,
            tallies,
        }),
        Err(rollback) => {
            context.waiting.undo(undo);
            // Some failures have rolled back already.
            if !connection.is_autocommit()
                && let Err(error) = run("ROLLBACK")
            {
                tracing::error!(error = %error, "the ledger could not roll back");
            }
            Err(rollback)
        }
    }
}

impl Rollback {
    /// A failure of BEGIN or COMMIT concerns every job, no matter what its code is.
    fn of_begin(error: rusqlite::Error) -> Self {
        Self::Storage(LedgerError::unavailable(error))
    }
}
