//! One system call for each frame that `SQLite` appends to its write-ahead log, in place of two.
//!
//! A frame of the log is a head of 24 bytes and a page. `SQLite` writes them one after the other, each with a call of
//! its own. The interface here keeps the head until its page comes, and writes both together. It keeps nothing else:
//! anything else that `SQLite` asks of the file waits until the head is written.
//!
//! `SQLite` writes a head without a page where it corrects the checksums of frames that it wrote over. Those frames lie
//! before the end of what it appended, and their heads are written as they come. So a reader, or a start after a crash,
//! finds in the file what it would find without this interface.

#![expect(unsafe_code, reason = "calls of C, and calls that C makes")]

use std::{
    ffi::{CStr, c_int, c_void},
    ptr, slice,
    sync::OnceLock,
};

use rusqlite::ffi::{
    self, SQLITE_CANTOPEN, SQLITE_IOERR, SQLITE_IOERR_WRITE, SQLITE_OK, sqlite3_file, sqlite3_io_methods,
    sqlite3_vfs,
};

/// The bytes of the head of a frame: `WAL_FRAME_HDRSIZE` of `SQLite`.
const FRAME_HEAD: usize = 24;
/// The bytes of the head of the log, where the first frame begins: `WAL_HDRSIZE` of `SQLite`.
const LOG_HEAD: i64 = 32;

/// What was appended to a log, and the head that waits for its page.
#[derive(Debug, Default)]
struct Frames {
    /// Behind the last byte that was appended.
    end: i64,
    /// The head, and its place in the file.
    waits: Option<([u8; FRAME_HEAD], i64)>,
    /// Room for a head and its page.
    frame: Vec<u8>,
}

impl Frames {
    /// Takes bytes for a place in the file, and gives `write` what is to be written now.
    fn take(&mut self, bytes: &[u8], at: i64, mut write: impl FnMut(&[u8], i64) -> c_int) -> c_int {
        if let Some((head, head_at)) = self.waits.take() {
            if at == behind(head_at, FRAME_HEAD) {
                self.end = behind(at, bytes.len());
                self.frame.clear();
                self.frame.extend_from_slice(&head);
                self.frame.extend_from_slice(bytes);
                return write(&self.frame, head_at);
            }
            let written = write(&head, head_at);
            if written != SQLITE_OK {
                return written;
            }
        }
        if let Ok(head) = bytes.try_into()
            && at >= self.end.max(LOG_HEAD)
        {
            self.waits = Some((head, at));
            return SQLITE_OK;
        }
        if at == 0 {
            // The log begins anew, and its frames with it.
            self.end = LOG_HEAD;
        }
        write(bytes, at)
    }

    /// Gives `write` the head that waits.
    fn flush(&mut self, write: impl FnOnce(&[u8], i64) -> c_int) -> c_int {
        self.waits.take().map_or(SQLITE_OK, |(head, at)| write(&head, at))
    }
}

fn behind(at: i64, length: usize) -> i64 {
    at.saturating_add(i64::try_from(length).unwrap_or(i64::MAX))
}

/// The name of the interface, for a connection that writes; `None` if `SQLite` takes no further interface.
///
/// It stands on the interface that is the default at the first call.
#[must_use]
pub fn interface() -> Option<&'static CStr> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    REGISTERED.get_or_init(register).then_some(NAME)
}

const NAME: &CStr = c"countersign-log";

type Open = unsafe extern "C" fn(
    *mut sqlite3_vfs,
    ffi::sqlite3_filename,
    *mut sqlite3_file,
    c_int,
    *mut c_int,
) -> c_int;

/// The interface beneath.
#[derive(Debug)]
struct Beneath {
    open: Open,
    /// The bytes of its files, to a multiple of a pointer's: behind them stands where our [`Frames`] are.
    file_bytes: usize,
}

static BENEATH: OnceLock<Beneath> = OnceLock::new();

/// What does the calls of a log, and what did them before.
struct Methods {
    original: &'static sqlite3_io_methods,
    ours: sqlite3_io_methods,
}

static METHODS: OnceLock<Methods> = OnceLock::new();

impl Methods {
    fn of(original: &'static sqlite3_io_methods) -> Self {
        let ours = sqlite3_io_methods {
            xClose: Some(close),
            xRead: Some(read),
            xWrite: Some(write),
            xTruncate: Some(truncate),
            xSync: Some(sync),
            xFileSize: Some(file_size),
            ..*original
        };
        Self { original, ours }
    }
}

fn register() -> bool {
    // SAFETY: without a name it returns the default.
    let default = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    // SAFETY: what it returned lives as long as the program.
    let Some(default) = (unsafe { default.as_ref() }) else {
        return false;
    };
    let (Some(open), Ok(bytes)) = (default.xOpen, usize::try_from(default.szOsFile)) else {
        return false;
    };
    let file_bytes = bytes.next_multiple_of(size_of::<*mut Frames>());
    let Ok(all_bytes) = c_int::try_from(file_bytes + size_of::<*mut Frames>()) else {
        return false;
    };
    BENEATH.get_or_init(|| Beneath { open, file_bytes });
    let ours = Box::new(sqlite3_vfs {
        zName: NAME.as_ptr(),
        szOsFile: all_bytes,
        xOpen: Some(open_file),
        ..*default
    });
    // SAFETY: it is never freed.
    unsafe { ffi::sqlite3_vfs_register(Box::into_raw(ours), 0) == SQLITE_OK }
}

/// Where a file has the address of its [`Frames`].
///
/// # Safety
///
/// `SQLite` made room for the file by the size that [`register`] told it.
unsafe fn place(file: *mut sqlite3_file) -> Option<*mut *mut Frames> {
    let behind = BENEATH.get()?.file_bytes;
    // SAFETY: the room is that large, and begins at a multiple of a pointer's size, as `SQLite` allocates it.
    Some(unsafe { file.byte_add(behind) }.cast())
}

unsafe extern "C" fn open_file(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let Some(beneath) = BENEATH.get() else {
        return SQLITE_CANTOPEN;
    };
    // SAFETY: these are the arguments of the caller; our interface has all that the one beneath has.
    let opened = unsafe { (beneath.open)(vfs, name, file, flags, out_flags) };
    if opened != SQLITE_OK || flags & ffi::SQLITE_OPEN_WAL == 0 {
        return opened;
    }
    // SAFETY: the call above made a file there.
    let original = unsafe { (*file).pMethods };
    // SAFETY: the methods of a file are a constant.
    let Some(original) = (unsafe { original.as_ref() }) else {
        return opened;
    };
    let methods = METHODS.get_or_init(|| Methods::of(original));
    if !ptr::eq(original, methods.original) {
        return opened;
    }
    // SAFETY: SQLite made room for it by the size of our interface.
    if let Some(place) = unsafe { place(file) } {
        // SAFETY: it is room of this file that nothing else uses.
        unsafe { place.write(Box::into_raw(Box::default())) };
        // SAFETY: as above, and the methods live as long as the program.
        unsafe { (*file).pMethods = &raw const methods.ours };
    }
    opened
}

/// What a file of ours has, and the methods beneath; `None` for no file of ours.
///
/// # Safety
///
/// The file is one that [`open_file`] gave our methods, it is not closed, and its connection uses it on one thread at a
/// time, as `SQLite` asks of a connection without a mutex.
unsafe fn parts<'a>(file: *mut sqlite3_file) -> Option<(&'static sqlite3_io_methods, &'a mut Frames)> {
    // SAFETY: SQLite made room for it by the size of our interface.
    let place = unsafe { place(file) }?;
    // SAFETY: `open_file` wrote it.
    let frames = unsafe { place.read() };
    // SAFETY: it came from a box, and nobody else uses it meanwhile.
    let frames = unsafe { frames.as_mut() }?;
    Some((METHODS.get()?.original, frames))
}

/// Writes with the method beneath.
fn write_with(methods: &sqlite3_io_methods, file: *mut sqlite3_file) -> impl Fn(&[u8], i64) -> c_int + use<> {
    let method = methods.xWrite;
    move |bytes, at| {
        let (Some(method), Ok(length)) = (method, c_int::try_from(bytes.len())) else {
            return SQLITE_IOERR_WRITE;
        };
        // SAFETY: the file is open, and the bytes are there.
        unsafe { method(file, bytes.as_ptr().cast(), length, at) }
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, bytes: *const c_void, length: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls it for a file with our methods.
    let (Some((methods, frames)), Ok(length)) = (unsafe { parts(file) }, usize::try_from(length)) else {
        return SQLITE_IOERR_WRITE;
    };
    // SAFETY: SQLite has so many bytes there.
    let bytes = unsafe { slice::from_raw_parts(bytes.cast(), length) };
    frames.take(bytes, at, write_with(methods, file))
}

/// A method of the file beneath, once no head waits any more; else the error of its write.
///
/// # Safety
///
/// As for [`parts`].
unsafe fn after_the_head<M>(
    file: *mut sqlite3_file,
    method: impl FnOnce(&sqlite3_io_methods) -> Option<M>,
) -> Result<M, c_int> {
    // SAFETY: the caller's.
    let (methods, frames) = unsafe { parts(file) }.ok_or(SQLITE_IOERR)?;
    match frames.flush(write_with(methods, file)) {
        SQLITE_OK => method(methods).ok_or(SQLITE_IOERR),
        failed => Err(failed),
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, bytes: *mut c_void, length: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls it for a file with our methods.
    let beneath = unsafe { after_the_head(file, |methods| methods.xRead) };
    // SAFETY: the arguments are the caller's.
    beneath.map_or_else(|failed| failed, |read| unsafe { read(file, bytes, length, at) })
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: i64) -> c_int {
    // SAFETY: as above.
    let beneath = unsafe { after_the_head(file, |methods| methods.xTruncate) };
    // SAFETY: as above.
    beneath.map_or_else(|failed| failed, |truncate| unsafe { truncate(file, length) })
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as above.
    let beneath = unsafe { after_the_head(file, |methods| methods.xSync) };
    // SAFETY: as above.
    beneath.map_or_else(|failed| failed, |sync| unsafe { sync(file, flags) })
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: as above.
    let beneath = unsafe { after_the_head(file, |methods| methods.xFileSize) };
    // SAFETY: as above.
    beneath.map_or_else(|failed| failed, |file_size| unsafe { file_size(file, size) })
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as above.
    let flushed = unsafe { after_the_head(file, |_| Some(())) };
    // SAFETY: as above.
    if let Some(place) = unsafe { place(file) } {
        // SAFETY: `open_file` wrote it.
        let frames = unsafe { place.read() };
        // SAFETY: it came from a box. Nobody uses the file after this, so it is freed once.
        drop(unsafe { Box::from_raw(frames) });
    }
    let close = METHODS.get().and_then(|methods| methods.original.xClose);
    // SAFETY: the file is open.
    let closed = close.map_or(SQLITE_IOERR, |close| unsafe { close(file) });
    flushed.map_or_else(|failed| failed, |()| closed)
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, fs, path::Path};

    use rusqlite::{Connection, OpenFlags};

    use super::*;

    const HEAD: [u8; FRAME_HEAD] = [1; FRAME_HEAD];
    const PAGE: [u8; 64] = [2; 64];

    /// A log that takes everything, and the calls that wrote it.
    #[derive(Debug, Default)]
    struct Log {
        frames: Frames,
        calls: Vec<(usize, i64)>,
    }

    impl Log {
        fn take(&mut self, bytes: &[u8], at: i64) -> &[(usize, i64)] {
            self.calls.clear();
            let written = self.frames.take(bytes, at, |bytes, at| {
                self.calls.push((bytes.len(), at));
                SQLITE_OK
            });
            assert_eq!(written, SQLITE_OK);
            &self.calls
        }
    }

    #[test]
    fn the_head_of_a_frame_is_written_with_its_page() {
        let mut log = Log::default();
        assert_eq!(log.take(&[0; 32], 0), [(32, 0)]);
        assert_eq!(log.take(&HEAD, 32), []);
        assert_eq!(log.take(&PAGE, 56), [(88, 32)]);
        assert_eq!(log.take(&HEAD, 120), []);
        assert_eq!(log.take(&PAGE, 144), [(88, 120)]);
        // A log that begins anew writes over the frames that it had.
        assert_eq!(log.take(&[0; 32], 0), [(32, 0)]);
        assert_eq!(log.take(&HEAD, 32), []);
        assert_eq!(log.take(&PAGE, 56), [(88, 32)]);
    }

    #[test]
    fn what_is_corrected_in_earlier_frames_is_written_as_it_comes() {
        let mut log = Log::default();
        for at in [32, 120] {
            log.take(&HEAD, at);
            log.take(&PAGE, behind(at, FRAME_HEAD));
        }
        assert_eq!(log.take(&PAGE, 56), [(64, 56)]);
        assert_eq!(log.take(&HEAD, 32), [(24, 32)]);
        assert_eq!(log.take(&HEAD, 120), [(24, 120)]);
        // The next one is appended again.
        assert_eq!(log.take(&HEAD, 208), []);
    }

    #[test]
    fn a_head_does_not_wait_for_anything_but_its_page() {
        let mut log = Log::default();
        log.take(&HEAD, 32);
        assert_eq!(log.take(&PAGE, 500), [(24, 32), (64, 500)]);
        log.take(&HEAD, 1_000);
        assert_eq!(
            log.frames
                .flush(|bytes, at| c_int::from((bytes.len(), at) != (24, 1_000))),
            SQLITE_OK
        );
        assert_eq!(log.frames.flush(|_, _| SQLITE_IOERR_WRITE), SQLITE_OK);
    }

    #[test]
    fn a_write_that_fails_is_told_and_not_kept() {
        let mut frames = Frames::default();
        assert_eq!(frames.take(&HEAD, 32, |_, _| SQLITE_IOERR_WRITE), SQLITE_OK);
        assert_eq!(
            frames.take(&PAGE, 56, |_, _| SQLITE_IOERR_WRITE),
            SQLITE_IOERR_WRITE
        );
        assert_eq!(frames.flush(|_, _| SQLITE_IOERR_WRITE), SQLITE_OK);
    }

    /// What the methods of the interface do with a log in which a head waits, each in a file of its own.
    #[test]
    fn whatever_else_is_asked_of_a_log_finds_the_head() {
        type Ask = fn(&sqlite3_io_methods, *mut sqlite3_file) -> c_int;
        let asked: [(&str, Ask); 5] = [
            ("read", |methods, file| {
                let mut found = [0_u8; FRAME_HEAD];
                // SAFETY: the file is open, and there is room for so many bytes.
                let read = unsafe { methods.xRead.unwrap()(file, found.as_mut_ptr().cast(), 24, LOG_HEAD) };
                assert_eq!(found, HEAD);
                read
            }),
            ("truncate", |methods, file| {
                // SAFETY: the file is open.
                unsafe { methods.xTruncate.unwrap()(file, 56) }
            }),
            ("sync", |methods, file| {
                // SAFETY: as above.
                unsafe { methods.xSync.unwrap()(file, ffi::SQLITE_SYNC_NORMAL) }
            }),
            ("size", |methods, file| {
                let mut size = 0;
                // SAFETY: as above.
                let told = unsafe { methods.xFileSize.unwrap()(file, &raw mut size) };
                assert_eq!(size, 56);
                told
            }),
            ("close", |_, _| SQLITE_OK),
        ];
        let directory = tempfile::tempdir().unwrap();
        // SAFETY: the name is one that was registered.
        let vfs = unsafe { ffi::sqlite3_vfs_find(interface().unwrap().as_ptr()) };
        // SAFETY: it lives as long as the program.
        let interface = unsafe { &*vfs };
        for (name, ask) in asked {
            let path = directory.path().join(name);
            let text = CString::new(path.to_str().unwrap()).unwrap();
            let words = usize::try_from(interface.szOsFile).unwrap().div_ceil(8);
            let mut room = vec![0_u64; words];
            let file: *mut sqlite3_file = room.as_mut_ptr().cast();
            let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_WAL;
            // SAFETY: the name is text, and the room is as large as the interface says.
            let opened =
                unsafe { interface.xOpen.unwrap()(vfs, text.as_ptr(), file, flags, ptr::null_mut()) };
            assert_eq!(opened, SQLITE_OK, "{name}");
            // SAFETY: the call above wrote it.
            let methods = unsafe { (*file).pMethods };
            // SAFETY: the methods live as long as the program.
            let methods = unsafe { &*methods };
            // SAFETY: the file is open, and the bytes are there.
            let kept = unsafe { methods.xWrite.unwrap()(file, HEAD.as_ptr().cast(), 24, LOG_HEAD) };
            assert_eq!((kept, fs::read(&path).unwrap()), (SQLITE_OK, vec![]), "{name}");
            assert_eq!(ask(methods, file), SQLITE_OK, "{name}");
            let is_there = || fs::read(&path).unwrap().ends_with(&HEAD);
            assert_eq!(is_there(), name != "close", "{name}");
            // SAFETY: the file is open, and not used again.
            assert_eq!(unsafe { methods.xClose.unwrap()(file) }, SQLITE_OK, "{name}");
            assert!(is_there(), "{name}");
        }
    }

    fn connect(path: &Path) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(path, flags, interface().unwrap()).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
        connection
    }

    /// What a connection of `SQLite`'s own finds in a copy of the files, as after a crash of the machine's programs.
    fn found_in_a_copy(path: &Path) -> (i64, i64) {
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join("copy.db");
        fs::copy(path, &copy).unwrap();
        let log = |path: &Path| path.with_extension("db-wal");
        fs::copy(log(path), log(&copy)).unwrap();
        let copied = Connection::open(&copy).unwrap();
        let sound: String = copied
            .query_row("PRAGMA integrity_check", (), |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
        sums(&copied)
    }

    fn sums(connection: &Connection) -> (i64, i64) {
        let query = "SELECT count(*), coalesce(sum(length(text)), 0) FROM texts";
        connection
            .query_row(query, (), |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
    }

    /// Transactions of all sizes, with pages that are written before their end and again after it, some taken back.
    #[test]
    fn others_and_a_crash_find_each_transaction() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let mut connection = connect(&path);
        connection
            .execute_batch(
                "CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT);
                 CREATE INDEX by_text ON texts (text);",
            )
            .unwrap();
        // Pages leave the memory while a transaction goes on.
        connection.pragma_update(None, "cache_size", 8).unwrap();
        connection.pragma_update(None, "cache_spill", 4).unwrap();
        connection.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        let reader = Connection::open(&path).unwrap();
        for round in 0_u32..60 {
            let before = sums(&reader);
            let transaction = connection.transaction().unwrap();
            let rows = [1, 3, 40, 400][round as usize % 4];
            for row in 0..rows {
                let text = format!("{:x}", row * 7_919 + round).repeat(20);
                transaction
                    .execute("INSERT INTO texts (text) VALUES (?1)", [text])
                    .unwrap();
            }
            transaction
                .execute(
                    "UPDATE texts SET text = text || 'x' WHERE id % 5 = ?1",
                    [round % 5],
                )
                .unwrap();
            let expected = sums(&transaction);
            assert_eq!(sums(&reader), before);
            if round % 7 == 3 {
                transaction.rollback().unwrap();
                assert_eq!(sums(&reader), before);
            } else {
                transaction.commit().unwrap();
                assert_eq!(sums(&reader), expected);
                assert_eq!(found_in_a_copy(&path), expected);
            }
            if round % 11 == 5 {
                connection
                    .execute_batch("PRAGMA wal_checkpoint(RESTART)")
                    .unwrap();
            }
            if round % 17 == 9 {
                connection = connect(&path);
            }
        }
    }
}
