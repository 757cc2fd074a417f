//! Opening the ledger: files, schema, and what the writer must remember from before.

use std::{
    fs::{File, OpenOptions, Permissions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use arc_swap::ArcSwap;
use rusqlite::{Connection, types::FromSql};
use tokio::sync::watch;

use countersign_domain::UnixMillis;
use countersign_sys::{
    clock::{Clock, Ids},
    faults::{self, WriteAt},
    process,
};

use crate::events::Feed;

use super::{
    audit::{self, chain::ChainHead, glance::has_history, head::HeadFile},
    committer::{Committer, Shared, Timers},
    config::{LedgerConfig, PolicyWatch},
    connection::connect,
    error::{Fault, LedgerError, OpenError},
    forgotten,
    handle::{Ledger, LedgerThread},
    health::Health,
    keys::Keys,
    ledger_file::{Files, LedgerFile},
    log_damage,
    notes::Notes,
    queue::Queue,
    readers::Readers,
    schema, shrink,
    sql::fetch,
    stats::LedgerStats,
    stop_switch::StopSwitch,
    tx::{Context, WriterState},
    waiting::Waiting,
    writer::Writer,
};

/// Numbers left out after a reboot: a power loss may have undone events that subscribers saw already, and their
/// numbers must not come again.
const SKIPPED_AFTER_BOOT: i64 = 100_000;

impl Ledger {
    /// Opens the ledger, makes it when there is none, and starts its writer.
    ///
    /// # Errors
    /// [`OpenError`] names the file and what is wrong with it.
    pub fn open(
        config: LedgerConfig,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        policy: Arc<dyn PolicyWatch>,
    ) -> Result<(Self, LedgerThread), OpenError> {
        let LedgerConfig {
            path,
            audit_key,
            audit_head,
            boot_id,
            readers,
            tuning,
        } = config;
        #[cfg(feature = "test-hooks")]
        countersign_sys::sqlite_faults::install();
        let lock = lock(&path)?;
        make_private(&path)?;
        let (keys, new_key) = Keys::load_or_make(&audit_key, &*ids)?;
        let mut connection = log_damage::open_sound(&path, || {
            connect(&path).map_err(|error| database(&path, LedgerError::unavailable(error)))
        })?;
        // What a crash undoes of a new schema is made again; `Before::read` syncs it.
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(|error| database(&path, LedgerError::unavailable(error)))?;
        schema::migrate(&mut connection).map_err(|source| OpenError::Schema {
            path: path.clone(),
            source,
        })?;
        shrink::rewrite_if_worth_it(&connection, &path);
        let head = HeadFile::at(audit_head.clone());
        let before = Before::read(&connection, &boot_id).map_err(|fault| database(&path, fault.into()))?;
        let Before { epoch, mut state } = before;
        // What was over stays over, although the clock was set back meanwhile.
        clock.not_before(state.high_water);
        let stop = StopSwitch::of_record(&connection).map_err(|fault| database(&path, fault.into()))?;
        let stop = Arc::new(stop);
        let waiting = Waiting::of_record(&connection).map_err(|fault| database(&path, fault.into()))?;
        let waiting = Arc::new(waiting);
        let unread = |source| OpenError::File {
            path: audit_head.clone(),
            source,
        };
        let has_history =
            has_history(&connection).map_err(|fault| database(&path, LedgerError::from(fault)))?;
        if let Some(new_key) = new_key {
            if !has_history {
                // The head first: a key without a head, or history without one, then means that it was removed.
                head.seal(&state.chain, clock.now(), &keys)
                    .map_err(|error| unread(io::Error::other(error)))?;
            }
            new_key.keep(&audit_key)?;
        }
        let keys = Arc::new(keys);
        // A head that is gone is never made anew here: the chain would look whole again.
        let is_sealable = head.exists();
        let record =
            audit::glance(&path, &audit_key, &audit_head).map_err(|error| unread(io::Error::other(error)))?;
        state.chain = head.resume(state.chain, &keys).map_err(unread)?;
        if let Some(problem) = &record {
            tracing::error!(
                kind = %problem.kind,
                seq = problem.seq,
                "the audit record is broken; countersign audit verify says more"
            );
        }
        let feed = Feed::starting_after(state.event_head);
        let notes = Arc::new(Notes::default());
        let tuning = Arc::new(ArcSwap::from_pointee(tuning));
        let (health, healths) = watch::channel(Health::Ready);
        let (sealed, seals) = watch::channel(state.chain.sealed_at(state.high_water));
        let stats = LedgerStats::default();
        stats
            .pending
            .set(i64::try_from(state.pending).unwrap_or(i64::MAX));
        let ledger_file = Arc::new(LedgerFile::of(&path));
        let committer = Committer {
            connection,
            ledger_file: Arc::clone(&ledger_file),
            context: Context {
                clock: Arc::clone(&clock),
                ids,
                policy,
                keys: Arc::clone(&keys),
                epoch,
                boot_id,
                stop: Arc::clone(&stop),
                waiting: Arc::clone(&waiting),
            },
            state,
            notes: Arc::clone(&notes),
            feed: Arc::clone(&feed),
            stats: stats.clone(),
            tuning: Arc::clone(&tuning),
            health,
            sealed,
            head,
            is_sealable,
            timers: Timers::default(),
        };
        let shared = Shared::new(committer);
        let (queue, intake) = Queue::new(shared.clone(), notes);
        let writer = Writer { intake, shared };
        let files = Arc::new(Files {
            path: path.clone(),
            ledger_file,
            audit_key,
            audit_head,
        });
        let ledger = Self {
            queue: Arc::new(queue),
            readers: Readers::new(&path, readers),
            keys,
            feed,
            stats,
            clock,
            tuning,
            health: healths,
            sealed: seals,
            files,
            record: record.map(|problem| problem.kind),
            forgot: Arc::default(),
            stop,
            waiting,
        };
        let thread = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || {
                writer.run();
                drop(lock);
            })
            .map_err(|source| OpenError::File { path, source })?;
        let thread = LedgerThread {
            queue: Arc::clone(&ledger.queue),
            thread,
        };
        Ok((ledger, thread))
    }
}

/// What earlier openings left.
struct Before {
    epoch: i64,
    state: WriterState,
}

impl Before {
    fn read(connection: &Connection, boot_id: &str) -> Result<Self, Fault> {
        let epoch: i64 = meta::<i64>(connection, "epoch")?.unwrap_or(0) + 1;
        let booted_before: Option<String> = meta(connection, "boot_id")?;
        let one = |sql: &str| {
            fetch(connection, sql, (), |row| Ok(row.get::<_, Option<i64>>(0)?))
                .map(|row| row.flatten().unwrap_or(0))
        };
        let mut event_head = one("SELECT max(seq) FROM events")?;
        if event_head > 0 && booted_before.as_deref() != Some(boot_id) {
            event_head += SKIPPED_AFTER_BOOT;
        }
        let last_event = one("SELECT ts FROM events ORDER BY seq DESC LIMIT 1")?;
        let stored_high_water = meta::<i64>(connection, "now_high_water")?.unwrap_or(0);
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let state = WriterState {
            event_head,
            chain: ChainHead::stored(connection)?,
            high_water: UnixMillis::new(last_event.max(stored_high_water)),
            pending: count(one("SELECT count(*) FROM approvals WHERE status = 'pending'")?),
            events_kept: count(one("SELECT count(*) FROM events")?),
        };
        // That it was opened is synced, and takes everything before it along.
        connection.pragma_update(None, "synchronous", "FULL")?;
        let put = "INSERT OR REPLACE INTO meta (key, value) VALUES ('epoch', ?1), ('boot_id', ?2)";
        connection.execute(put, (epoch, boot_id))?;
        forgotten::begin(connection)?;
        Ok(Self { epoch, state })
    }
}

fn meta<T: FromSql>(connection: &Connection, key: &str) -> Result<Option<T>, Fault> {
    fetch(
        connection,
        "SELECT value FROM meta WHERE key = ?1",
        (key,),
        |row| Ok(row.get(0)?),
    )
}

/// How long a lock is waited for whose server is gone: a process that it was just starting has it until its program begins.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

/// Numbering and the audit chain are kept in memory: two writers would break both. The file holds the number of the process
/// that has it.
pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push(".lock");
    let lock_path = PathBuf::from(lock_path);
    let failed = |source| OpenError::File {
        path: lock_path.clone(),
        source,
    };
    faults::fail_at("start.open-lock").map_err(|errno| failed(errno.into()))?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) if is_left_behind(&file) && comes_free(&file) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path: lock_path }),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let holder = format!("{}\n", process::own_id());
    file.set_len(0)
        .and_then(|()| WriteAt::new("start.write-lock", &file).write_all(holder.as_bytes()))
        .map_err(failed)?;
    Ok(file)
}

/// Whether the server that took a lock is gone. A file of an earlier version does not say whose it is.
fn is_left_behind(file: &File) -> bool {
    let mut text = [0; 16];
    let read = file.read_at(&mut text, 0).unwrap_or(0);
    let holder = text.get(..read).and_then(|text| std::str::from_utf8(text).ok());
    let holder = holder.and_then(|text| text.trim().parse().ok());
    holder.is_some_and(|pid| process::inspect(pid).is_none_or(|holder| holder.is_zombie))
}

/// Waits for a lock; whether it came. A thread that waits in vain ends with the process, which has nothing else to do then.
fn comes_free(file: &File) -> bool {
    let Ok(waiting) = file.try_clone() else {
        return false;
    };
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("lock".to_owned());
    let thread = thread.spawn(move || sender.send(waiting.lock().is_ok()));
    thread.is_ok() && receiver.recv_timeout(LEFT_BEHIND).unwrap_or(false)
}

/// Makes the file with mode 0600 before `SQLite` would make it wider; its companions take the same mode.
fn make_private(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::File {
        path: path.to_owned(),
        source,
    };
    faults::fail_at("start.create-ledger").map_err(|errno| failed(errno.into()))?;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.set_permissions(Permissions::from_mode(0o600))
        .map_err(failed)
}

fn database(path: &Path, source: LedgerError) -> OpenError {
    OpenError::Database {
        path: path.to_owned(),
        source,
    }
}
