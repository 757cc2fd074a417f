//! The lock file beside the document, shared with the product (`docs/spec/approvals-store.md#10-writing`).
//!
//! The writer that creates the file holds the lock. A lock whose holder is dead is an error and never taken over: the
//! product does not either, and of two programs that both conclude "dead" one would delete the other's new lock.

use std::{
    collections::VecDeque,
    fs, io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};

use countersign_domain::UnixMillis;
use countersign_sys::{
    clock::{Clock, Ids},
    fs as sys_fs, wait,
};

/// How long a writer waits for another program: what the product's ten tries from 20 to 500 ms add up to.
const TIMEOUT: Duration = Duration::from_secs(3);
/// We look far more often than the product. With its ten looks a writer starves beside one that writes without
/// pause.
const LOOK: Duration = Duration::from_millis(2);
/// How long a writer that releases the lock stays away from it when others wait: a few of their looks.
const COURTESY: Duration = Duration::from_millis(6);
/// Every how many looks the holder is checked for being alive.
const LOOKS_PER_CHECK: u32 = 10;
/// How long a writer waits for other threads of this program.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// A lock file is a line; more is none of ours or the product's.
const MAX_LOCK_BYTES: usize = 4096;
/// Holders write their name right after creating the file; one that is still empty by then never will.
const NAMELESS_AFTER: Duration = Duration::from_secs(10);

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    #[error("another writer holds the lock of the approvals document")]
    Locked,
    #[error("the lock of the approvals document was left behind")]
    Stale { pid: Option<u32> },
    #[error("the lock of the approvals document cannot be taken")]
    Io(#[source] io::Error),
}

/// What a lock file says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Holder {
    pid: u32,
    created_at: String,
    nonce: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    starttime: Option<u64>,
}

/// The held lock; dropping it releases it.
#[derive(Debug)]
pub(super) struct FileLock {
    path: PathBuf,
    text: String,
    file: FileId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    dev: u64,
    ino: u64,
}

impl FileLock {
    /// Takes the lock of the document `path`, waiting a bounded time.
    pub(super) fn acquire(path: &Path, clock: &dyn Clock, ids: &dyn Ids) -> Result<Self, LockError> {
        let path = lock_path(path).map_err(LockError::Io)?;
        let pid = std::process::id();
        let holder = Holder {
            pid,
            created_at: iso_8601(clock.wall()),
            nonce: ids.random().to_string(),
            starttime: start_time(pid),
        };
        let mut text = serde_json::to_string(&holder).map_err(|error| LockError::Io(error.into()))?;
        text.push('\n');
        let mut waiting = None;
        let looks = u32::try_from(TIMEOUT.as_millis() / LOOK.as_millis()).unwrap_or(u32::MAX);
        for look in 0..looks {
            match create(&path, &text) {
                Ok(file) => return Ok(Self { path, text, file }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(LockError::Io(error)),
            }
            if look % LOOKS_PER_CHECK == 0
                && let Some(stale) = stale(&path, clock.wall()).map_err(LockError::Io)?
            {
                return Err(LockError::Stale { pid: stale.pid });
            }
            waiting = waiting.or_else(|| WaitingWriter::announce(&path));
            wait::pause(LOOK);
        }
        Err(LockError::Locked)
    }
}

impl Drop for FileLock {
    /// Releases only what is still ours: a person may have removed the file by hand, and another writer may have taken
    /// the lock since.
    fn drop(&mut self) {
        let ours = identify(&self.path).is_ok_and(|file| file == self.file)
            && sys_fs::read_bounded(&self.path, MAX_LOCK_BYTES)
                .is_ok_and(|text| text == self.text.as_bytes());
        if !ours {
            return;
        }
        match fs::remove_file(&self.path) {
            Ok(()) if WaitingWriter::is_announced(&self.path) => wait::pause(COURTESY),
            Ok(()) => {}
            Err(error) => tracing::warn!(
                lock.path = %self.path.display(),
                error = &error as &dyn std::error::Error,
                "the lock of the approvals document could not be released"
            ),
        }
    }
}

/// Tells the holder of the lock that another writer waits: a shared `flock` on the directory, for as long as this
/// lives.
///
/// A writer that releases the lock and wants it again at once would get it nearly always, since it need not look
/// for it. The product knows nothing of this, and nothing but fairness depends on it.
struct WaitingWriter {
    _directory: OwnedFd,
}

impl WaitingWriter {
    fn announce(lock: &Path) -> Option<Self> {
        let directory = open_directory(lock)?;
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockShared).ok()?;
        Some(Self {
            _directory: directory,
        })
    }

    fn is_announced(lock: &Path) -> bool {
        open_directory(lock).is_some_and(|directory| {
            rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive)
                == Err(rustix::io::Errno::WOULDBLOCK)
        })
    }
}

fn open_directory(lock: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(lock.parent()?, flags, Mode::empty()).ok()
}

/// What became of a request to remove a lock that was left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleLock {
    /// There is no lock.
    None,
    /// It named this dead process and is gone.
    Removed {
        /// The process that left it.
        pid: u32,
    },
    /// Its holder may still live, or the lock changed during the look; it stays.
    Held,
    /// It names no process, or one from before the machine was started: only a person can tell whose it is.
    Unknown,
}

/// Removes the lock of the document if its holder died since the machine was started. For operators only.
pub(super) fn remove_stale(document: &Path, clock: &dyn Clock) -> io::Result<StaleLock> {
    if let Err(error) = identify(&lock_path(document)?) {
        return if error.kind() == io::ErrorKind::NotFound {
            Ok(StaleLock::None)
        } else {
            Err(error)
        };
    }
    match left(document, clock)? {
        None => Ok(StaleLock::Held),
        Some(LeftLock {
            path,
            pid: Some(pid),
            is_of_this_boot: true,
        }) => {
            fs::remove_file(&path)?;
            Ok(StaleLock::Removed { pid })
        }
        Some(_) => Ok(StaleLock::Unknown),
    }
}

/// A lock that a program left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftLock {
    /// The lock file itself: the document's name with `.lock` behind it, in the same directory.
    pub path: PathBuf,
    /// The dead process, where the lock names one.
    pub pid: Option<u32>,
    /// Whether that process took it since the machine was started. Whose any other lock is only a person can tell.
    pub is_of_this_boot: bool,
}

/// The lock of the document, if its holder is gone. Looks only.
pub(super) fn left(document: &Path, clock: &dyn Clock) -> io::Result<Option<LeftLock>> {
    let path = lock_path(document)?;
    let now = clock.wall();
    let found = stale(&path, now)?;
    Ok(found.map(|Stale { pid, created_at }| LeftLock {
        path,
        pid,
        is_of_this_boot: pid.is_some() && created_at.is_some_and(|at| at >= boot_time(now)),
    }))
}

struct Stale {
    pid: Option<u32>,
    created_at: Option<UnixMillis>,
}

/// Whether the lock was left behind. A lock that changes while it is looked at was not.
fn stale(path: &Path, now: UnixMillis) -> io::Result<Option<Stale>> {
    let look = || -> io::Result<Option<(FileId, Vec<u8>)>> {
        let file = match identify(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match sys_fs::read_bounded(path, MAX_LOCK_BYTES) {
            Ok(text) => Ok(Some((file, text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    };
    let Some((file, text)) = look()? else {
        return Ok(None);
    };
    let verdict = match serde_json::from_slice::<Holder>(&text) {
        Ok(holder) if is_alive(&holder) => None,
        Ok(holder) => Some(Stale {
            pid: Some(holder.pid),
            created_at: holder
                .created_at
                .parse::<jiff::Timestamp>()
                .ok()
                .map(|at| UnixMillis::new(at.as_millisecond())),
        }),
        Err(_) => is_old(path, now)?.then_some(Stale {
            pid: None,
            created_at: None,
        }),
    };
    // A holder that released and ended between our two questions looks just like a dead one.
    let unchanged = verdict.is_some() && look()?.is_some_and(|again| again == (file, text));
    Ok(verdict.filter(|_| unchanged))
}

fn is_old(path: &Path, now: UnixMillis) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => {
            let written = UnixMillis::new(metadata.mtime().saturating_mul(1000));
            Ok(now.since(written) > NAMELESS_AFTER)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_alive(holder: &Holder) -> bool {
    let Some(pid) = i32::try_from(holder.pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return false;
    };
    // A process of another account counts as alive: it is there, and not ours to ask.
    if rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
        return false;
    }
    match (holder.starttime, start_time(holder.pid)) {
        (Some(written), Some(actual)) => written == actual,
        _ => true,
    }
}

/// Field 22 of `/proc/<pid>/stat`, in clock ticks since the machine was started. None where there is no `/proc`.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may hold blanks and parentheses itself.
    let (_name, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// When the machine was started; the beginning of time where that is unknown.
fn boot_time(now: UnixMillis) -> UnixMillis {
    let uptime = fs::read_to_string("/proc/uptime")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().next()?.parse::<f64>().ok())
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let millis = uptime.and_then(|uptime| i64::try_from(uptime.as_millis()).ok());
    UnixMillis::new(millis.map_or(0, |uptime| now.get().saturating_sub(uptime)))
}

fn lock_path(document: &Path) -> io::Result<PathBuf> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name");
    let mut name = document.file_name().ok_or_else(no_name)?.to_owned();
    name.push(".lock");
    let directory = document.parent().ok_or_else(no_name)?;
    Ok(fs::canonicalize(directory)?.join(name))
}

fn create(path: &Path, text: &str) -> io::Result<FileId> {
    sys_fs::create_passing_file(path, text.as_bytes())?;
    identify(path)
}

fn identify(path: &Path) -> io::Result<FileId> {
    let metadata = fs::symlink_metadata(path)?;
    Ok(FileId {
        dev: metadata.dev(),
        ino: metadata.ino(),
    })
}

fn iso_8601(at: UnixMillis) -> String {
    let timestamp = jiff::Timestamp::from_millisecond(at.get()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

/// One writer of this program after the other, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: Mutex<Queue>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    /// The first has its turn.
    waiting: VecDeque<u64>,
}

/// A writer's turn; dropping it calls the next.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    ticket: u64,
}

impl Turns {
    /// Waits until everybody who came before is done; at most ten seconds.
    pub(super) fn wait(&self) -> Result<Turn<'_>, LockError> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = queue.next;
        queue.next += 1;
        queue.waiting.push_back(ticket);
        // From here on the ticket leaves the queue however this ends.
        let turn = Turn { turns: self, ticket };
        let (queue, waited) = self
            .moved
            .wait_timeout_while(queue, TURN_TIMEOUT, |queue| {
                queue.waiting.front() != Some(&ticket)
            })
            .unwrap_or_else(PoisonError::into_inner);
        drop(queue);
        if waited.timed_out() {
            Err(LockError::Locked)
        } else {
            Ok(turn)
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.turns.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.retain(|ticket| *ticket != self.ticket);
        drop(queue);
        self.turns.moved.notify_all();
    }
}
