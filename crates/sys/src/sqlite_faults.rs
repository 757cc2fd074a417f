//! Faults in the calls that `SQLite` makes for the ledger, in a test build alone.
//!
//! `SQLite` makes its calls through a table that a program may change, so an error takes the whole way that one of the
//! kernel takes: through its loops for short and interrupted writes, to the answer that the ledger gets. Only the call
//! that waits for the disk is not in that table; there the answer itself is replaced.
//!
//! Which file a descriptor belongs to is what `/proc` says. What `SQLite` maps into memory, reads or locks passes no
//! point.

#![expect(unsafe_code, reason = "calls of C, and calls that C makes")]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    os::fd::BorrowedFd,
    sync::{Once, OnceLock},
};

use rusqlite::ffi;
use rustix::io::Errno;

use crate::{faults, fs::path_of_descriptor};

/// Has the points of [`faults::LEDGER`] passed, if a test gave a directory of faults. Call it before the first
/// connection is opened.
pub fn install() {
    static ONCE: Once = Once::new();
    if faults::directory().is_some() {
        ONCE.call_once(|| {
            replace_calls();
            replace_sync();
        });
    }
}

/// The files of a database, by the ends of their names.
#[derive(Clone, Copy)]
enum Part {
    Database,
    Wal,
    Shm,
}

impl Part {
    /// `None` for a file that is none of the ledger's, such as a temporary one.
    fn of_path(path: &[u8]) -> Option<Self> {
        let is = |ending: &[u8]| path.ends_with(ending);
        if is(b".sqlite-wal") || is(b".db-wal") {
            Some(Self::Wal)
        } else if is(b".sqlite-shm") || is(b".db-shm") {
            Some(Self::Shm)
        } else {
            (is(b".sqlite") || is(b".db")).then_some(Self::Database)
        }
    }

    fn of_descriptor(fd: c_int) -> Option<Self> {
        // SAFETY: SQLite has it open while it calls.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        Self::of_path(path_of_descriptor(fd).ok()?.as_bytes())
    }
}

/// The descriptor of an opened file, or −1 and an error, as the C library says it.
type Open = unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int;
type Write = unsafe extern "C" fn(c_int, *const c_void, usize, libc::off_t) -> isize;
type Truncate = unsafe extern "C" fn(c_int, libc::off_t) -> c_int;

/// What was in the table before.
#[derive(Debug)]
struct Calls {
    open: Open,
    write: Write,
    truncate: Truncate,
}

static CALLS: OnceLock<Calls> = OnceLock::new();

fn replace_calls() {
    // SAFETY: without a name it returns the first, which is that of this system.
    let vfs = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    // SAFETY: what it returned lives as long as the program.
    let Some(table) = (unsafe { vfs.as_ref() }) else {
        return;
    };
    let (Some(get), Some(set)) = (table.xGetSystemCall, table.xSetSystemCall) else {
        return;
    };
    // SAFETY: the names are text that lives for ever.
    let known = |name: &CStr| unsafe { get(vfs, name.as_ptr()) };
    let (Some(open), Some(write), Some(truncate)) = (known(c"open"), known(c"pwrite"), known(c"ftruncate"))
    else {
        return;
    };
    let calls = Calls {
        // SAFETY: that is the type under which SQLite calls it.
        open: unsafe { std::mem::transmute::<unsafe extern "C" fn(), Open>(open) },
        // SAFETY: as above.
        write: unsafe { std::mem::transmute::<unsafe extern "C" fn(), Write>(write) },
        // SAFETY: as above.
        truncate: unsafe { std::mem::transmute::<unsafe extern "C" fn(), Truncate>(truncate) },
    };
    CALLS.get_or_init(|| calls);
    // SAFETY: SQLite calls it under its own type again.
    let open = unsafe { std::mem::transmute::<Open, unsafe extern "C" fn()>(open_or_fail) };
    // SAFETY: as above.
    let write = unsafe { std::mem::transmute::<Write, unsafe extern "C" fn()>(write_or_fail) };
    // SAFETY: as above.
    let truncate = unsafe { std::mem::transmute::<Truncate, unsafe extern "C" fn()>(truncate_or_fail) };
    for (name, call) in [(c"open", open), (c"pwrite", write), (c"ftruncate", truncate)] {
        // SAFETY: the name is in the table, and the function lives for ever.
        unsafe { set(vfs, name.as_ptr(), Some(call)) };
    }
}

unsafe extern "C" fn open_or_fail(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: SQLite gives the name of a file.
    let part = Part::of_path(unsafe { CStr::from_ptr(path) }.to_bytes());
    let failed = match part {
        Some(Part::Database) => faults::fail_at("ledger.open-database"),
        Some(Part::Wal) => faults::fail_at("ledger.open-wal"),
        Some(Part::Shm) => faults::fail_at("ledger.open-shm"),
        None => Ok(()),
    };
    let (Ok(()), Some(calls)) = (failed, CALLS.get()) else {
        return fail(failed.err());
    };
    // SAFETY: these are the arguments of the caller.
    unsafe { (calls.open)(path, flags, mode) }
}

unsafe extern "C" fn write_or_fail(fd: c_int, bytes: *const c_void, length: usize, at: libc::off_t) -> isize {
    let length = match Part::of_descriptor(fd) {
        Some(Part::Database) => faults::length_at("ledger.write-database", length),
        Some(Part::Wal) => faults::length_at("ledger.write-wal", length),
        Some(Part::Shm) => faults::length_at("ledger.write-shm", length),
        None => Ok(length),
    };
    let (Ok(length), Some(calls)) = (length, CALLS.get()) else {
        fail(length.err());
        return -1;
    };
    // SAFETY: these are the arguments of the caller, and the length is at most theirs.
    unsafe { (calls.write)(fd, bytes, length, at) }
}

unsafe extern "C" fn truncate_or_fail(fd: c_int, length: libc::off_t) -> c_int {
    let failed = match Part::of_descriptor(fd) {
        Some(Part::Database) => faults::fail_at("ledger.truncate-database"),
        Some(Part::Wal) => faults::fail_at("ledger.truncate-wal"),
        Some(Part::Shm) => faults::fail_at("ledger.truncate-shm"),
        None => Ok(()),
    };
    let (Ok(()), Some(calls)) = (failed, CALLS.get()) else {
        return fail(failed.err());
    };
    // SAFETY: these are the arguments of the caller.
    unsafe { (calls.truncate)(fd, length) }
}

/// Fails as a call of the C library does.
fn fail(errno: Option<Errno>) -> c_int {
    let errno = errno.unwrap_or(Errno::IO).raw_os_error();
    // SAFETY: it is this thread's own.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = errno };
    -1
}

type OpenFile = unsafe extern "C" fn(
    *mut ffi::sqlite3_vfs,
    ffi::sqlite3_filename,
    *mut ffi::sqlite3_file,
    c_int,
    *mut c_int,
) -> c_int;

static OPEN_FILE: OnceLock<OpenFile> = OnceLock::new();

/// What does the calls of a kind of file, and what did them before.
struct Methods {
    original: &'static ffi::sqlite3_io_methods,
    ours: ffi::sqlite3_io_methods,
}

impl Methods {
    const fn of(original: &'static ffi::sqlite3_io_methods, sync: SyncFile) -> Self {
        let ours = ffi::sqlite3_io_methods {
            xSync: Some(sync),
            ..*original
        };
        Self { original, ours }
    }
}

type SyncFile = unsafe extern "C" fn(*mut ffi::sqlite3_file, c_int) -> c_int;

// A log has other methods than a database, as nobody locks it.
static DATABASE: OnceLock<Methods> = OnceLock::new();
static WAL: OnceLock<Methods> = OnceLock::new();

/// Puts a copy of the system's own interface before it that opens files of ours.
fn replace_sync() {
    // SAFETY: as above.
    let vfs = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    // SAFETY: as above.
    let Some(vfs) = (unsafe { vfs.as_ref() }) else {
        return;
    };
    let Some(open) = vfs.xOpen else { return };
    OPEN_FILE.get_or_init(|| open);
    let ours = Box::new(ffi::sqlite3_vfs {
        zName: c"countersign-faults".as_ptr(),
        xOpen: Some(open_with_methods),
        ..*vfs
    });
    // SAFETY: it is never freed.
    unsafe { ffi::sqlite3_vfs_register(Box::into_raw(ours), 1) };
}

unsafe extern "C" fn open_with_methods(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let Some(open) = OPEN_FILE.get() else {
        return ffi::SQLITE_CANTOPEN;
    };
    // SAFETY: these are the arguments of the caller; the copy has all that the original has.
    let opened = unsafe { open(vfs, name, file, flags, out_flags) };
    // SAFETY: SQLite gives room for a file, and the call above made one in it or left its methods empty.
    let original = unsafe { (*file).pMethods };
    // SAFETY: the tables of methods are constants.
    let Some(original) = (unsafe { original.as_ref() }) else {
        return opened;
    };
    let methods = match flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL) {
        ffi::SQLITE_OPEN_MAIN_DB => DATABASE.get_or_init(|| Methods::of(original, sync_database)),
        ffi::SQLITE_OPEN_WAL => WAL.get_or_init(|| Methods::of(original, sync_wal)),
        _ => return opened,
    };
    // A database that is only looked at has no locks either, and no syncs.
    if !std::ptr::eq(original, methods.original) {
        return opened;
    }
    // SAFETY: as above, and what it points to lives for ever.
    unsafe { (*file).pMethods = &raw const methods.ours };
    opened
}

unsafe extern "C" fn sync_database(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let failed = faults::fail_at("ledger.sync-database");
    sync(failed, DATABASE.get(), file, flags)
}

unsafe extern "C" fn sync_wal(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let failed = faults::fail_at("ledger.sync-wal");
    sync(failed, WAL.get(), file, flags)
}

/// What `SQLite` answers when the disk does not say that it has everything is the same for every error.
fn sync(
    failed: Result<(), Errno>,
    methods: Option<&Methods>,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
) -> c_int {
    match (failed, methods.and_then(|methods| methods.original.xSync)) {
        // SAFETY: these are the arguments of the caller.
        (Ok(()), Some(original)) => unsafe { original(file, flags) },
        _ => ffi::SQLITE_IOERR_FSYNC,
    }
}
