//! Faults of a test build: calls of the system that fail because a test wants them to, while the program runs.
//!
//! A test gives a directory ([`VARIABLE`]). A symbolic link in it that is named like a point arms that point; where it
//! leads to is the name of the error (`ENOSPC`), or `short` for a write that takes less than it was given. With ` once`
//! behind it only the next passage fails, and the link is taken away. Every passage that failed leaves `POINT.met`
//! behind, so that a test sees that it tested something.
//!
//! Without the feature `test-hooks` nothing of this is in the program: [`fail_at`] and [`length_at`] are constants.

use std::io::{self, Write};

#[cfg(not(feature = "test-hooks"))]
use rustix::io::Errno;

/// The variable that names the directory of the faults.
#[cfg(feature = "test-hooks")]
pub const VARIABLE: &str = "COUNTERSIGN_TEST_FAULT";

/// What a call does to a file. It decides which errors fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Opens or makes one.
    Open,
    /// Writes to it.
    Write,
    /// Waits until it is on disk.
    Sync,
    /// Gives it another name.
    Rename,
    /// Makes it shorter.
    Truncate,
}

impl Call {
    /// What a test has such a call do, as the link says it.
    pub const fn faults(self) -> &'static [&'static str] {
        match self {
            Self::Open => &["ENOSPC", "EDQUOT", "EACCES", "EIO"],
            // No kernel interrupts a write for ever.
            Self::Write => &["ENOSPC", "EDQUOT", "EIO", "EINTR once", "short once"],
            Self::Sync => &["EIO", "ENOSPC", "EDQUOT"],
            Self::Rename => &["ENOSPC", "EDQUOT", "EACCES"],
            Self::Truncate => &["EIO", "EINTR once"],
        }
    }
}

/// A call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The name in the call and in the directory.
    pub name: &'static str,
    /// What the call does.
    pub call: Call,
}

impl Point {
    const fn open(name: &'static str) -> Self {
        let call = Call::Open;
        Self { name, call }
    }

    const fn write(name: &'static str) -> Self {
        let call = Call::Write;
        Self { name, call }
    }

    const fn sync(name: &'static str) -> Self {
        let call = Call::Sync;
        Self { name, call }
    }

    const fn rename(name: &'static str) -> Self {
        let call = Call::Rename;
        Self { name, call }
    }

    const fn truncate(name: &'static str) -> Self {
        let call = Call::Truncate;
        Self { name, call }
    }
}

/// The calls of the ledger's database, as the system sees them: of the database itself, of its write-ahead log (`wal`)
/// and of the index of that log (`shm`). A test compares these lists with the calls and with `docs/faults.md`.
pub const LEDGER: &[Point] = &[
    Point::open("ledger.open-database"),
    Point::open("ledger.open-wal"),
    Point::open("ledger.open-shm"),
    Point::write("ledger.write-database"),
    Point::write("ledger.write-wal"),
    Point::write("ledger.write-shm"),
    Point::sync("ledger.sync-database"),
    Point::sync("ledger.sync-wal"),
    Point::truncate("ledger.truncate-database"),
    Point::truncate("ledger.truncate-wal"),
    Point::truncate("ledger.truncate-shm"),
];

/// The calls that seal the end of the audit chain, in their order.
pub const AUDIT: &[Point] = &[
    Point::open("audit.create-head"),
    Point::write("audit.write-head"),
    Point::sync("audit.sync-head"),
    Point::rename("audit.rename-head"),
    Point::sync("audit.sync-directory"),
];

/// The calls of a start alone, in their order: of the lock and of the file of the ledger, and of a new audit key.
pub const START: &[Point] = &[
    Point::open("start.open-lock"),
    Point::write("start.write-lock"),
    Point::open("start.create-ledger"),
    Point::open("start.create-key"),
    Point::write("start.write-key"),
    Point::sync("start.sync-key"),
    Point::rename("start.rename-key"),
    Point::sync("start.sync-directory"),
];

/// The calls that replace a file of the server's own: the approvals document, `openclaw.json`, and what says how far a
/// change of both has come.
pub const FILES: &[Point] = &[
    Point::open("files.create"),
    Point::write("files.write"),
    Point::sync("files.sync"),
    Point::rename("files.rename"),
    Point::sync("files.sync-directory"),
];

/// The calls of the server that make or look at the file of a run.
pub const RUN_FILES: &[Point] = &[
    Point::open("run-file.create"),
    Point::open("run-file.open-spent"),
    Point::truncate("run-file.empty-spent"),
    Point::rename("run-file.rename-spent"),
    Point::open("run-file.inspect"),
    Point::open("run-file.open-to-void"),
    Point::write("run-file.void"),
];

/// The calls of a supervisor, in the order in which a run comes to them.
pub const SUPERVISOR: &[Point] = &[
    Point::write("sup.fence"),
    Point::truncate("sup.empty-run-file"),
    Point::open("sup.attach"),
    Point::open("sup.open-spool"),
    Point::write("sup.write-spool"),
    Point::truncate("sup.cut-spool"),
    Point::write("sup.exit-line"),
];

/// The calls of the process that applies a patch, in their order.
pub const PATCH: &[Point] = &[
    Point::open("patch.make-directory"),
    Point::open("patch.create"),
    Point::write("patch.write"),
    Point::sync("patch.sync"),
    Point::rename("patch.rename"),
];

/// A writer whose writes pass a point.
#[derive(Debug)]
pub struct WriteAt<W>(&'static str, W);

impl<W: Write> WriteAt<W> {
    /// Writes to `writer`, unless a test wants something else at `point`.
    pub const fn new(point: &'static str, writer: W) -> Self {
        Self(point, writer)
    }
}

impl<W: Write> Write for WriteAt<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self(point, writer) = self;
        let length = length_at(point, bytes.len())?;
        writer.write(bytes.get(..length).unwrap_or(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

#[cfg(feature = "test-hooks")]
pub(crate) use armed::{PATH_BYTES, directory, path_of_point};
#[cfg(feature = "test-hooks")]
pub use armed::{fail_at, length_at};

/// Never fails: this build has no faults.
///
/// # Errors
/// None.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn fail_at(_point: &str) -> Result<(), Errno> {
    Ok(())
}

/// How many bytes a write may take: all of them.
///
/// # Errors
/// None.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn length_at(_point: &str, length: usize) -> Result<usize, Errno> {
    Ok(length)
}

#[cfg(feature = "test-hooks")]
mod armed {
    use std::{
        ffi::{CStr, OsStr, OsString},
        os::unix::ffi::OsStrExt as _,
        sync::OnceLock,
    };

    use rustix::{
        fs::{AtFlags, CWD, Mode},
        io::Errno,
    };

    use super::VARIABLE;

    /// Longer than the path of any file of a point.
    pub(crate) const PATH_BYTES: usize = 1024;

    /// What a test wants of a call.
    enum Fault {
        Error(Errno),
        Short,
    }

    /// Fails if a test wants that. Allocates nothing but in the first call of a process.
    ///
    /// # Errors
    /// What the test wants.
    pub fn fail_at(point: &str) -> Result<(), Errno> {
        match fault(point) {
            Some(Fault::Error(errno)) => Err(errno),
            Some(Fault::Short) | None => Ok(()),
        }
    }

    /// How many bytes of so many a write may take: half of them where a test wants it to be short. Allocates nothing but
    /// in the first call of a process.
    ///
    /// # Errors
    /// What the test wants.
    pub fn length_at(point: &str, length: usize) -> Result<usize, Errno> {
        match fault(point) {
            Some(Fault::Error(errno)) => Err(errno),
            Some(Fault::Short) => Ok((length / 2).max(1).min(length)),
            None => Ok(length),
        }
    }

    /// The directory of the faults, where a test gave one.
    pub(crate) fn directory() -> Option<&'static OsStr> {
        static DIRECTORY: OnceLock<Option<OsString>> = OnceLock::new();
        #[expect(clippy::disallowed_methods, reason = "a fault is no setting of the product")]
        let directory = DIRECTORY.get_or_init(|| std::env::var_os(VARIABLE));
        directory.as_deref()
    }

    fn fault(point: &str) -> Option<Fault> {
        let directory = directory()?;
        let (mut armed, mut met, mut text) = ([0; PATH_BYTES], [0; PATH_BYTES], [0; 32]);
        let armed = path_of_point(&mut armed, directory, point, "")?;
        let met = path_of_point(&mut met, directory, point, ".met")?;
        let length = rustix::fs::readlinkat_raw(CWD, armed, text.as_mut_slice()).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        let (name, once) = text
            .strip_suffix(" once")
            .map_or((text, false), |name| (name, true));
        // Of several that come at the same time, one fails.
        if once && rustix::fs::unlinkat(CWD, armed, AtFlags::empty()).is_err() {
            return None;
        }
        rustix::fs::mkdirat(CWD, met, Mode::RWXU).unwrap_or(());
        Some(match name {
            "short" => Fault::Short,
            "EACCES" => Fault::Error(Errno::ACCESS),
            "EDQUOT" => Fault::Error(Errno::DQUOT),
            "EINTR" => Fault::Error(Errno::INTR),
            "ENOSPC" => Fault::Error(Errno::NOSPC),
            _ => Fault::Error(Errno::IO),
        })
    }

    /// `DIRECTORY/POINT` with an ending, in a buffer that begins as zeros.
    pub(crate) fn path_of_point<'a>(
        buffer: &'a mut [u8; PATH_BYTES],
        directory: &OsStr,
        point: &str,
        ending: &str,
    ) -> Option<&'a CStr> {
        let mut at = 0;
        for part in [directory.as_bytes(), b"/", point.as_bytes(), ending.as_bytes()] {
            buffer.get_mut(at..at + part.len())?.copy_from_slice(part);
            at += part.len();
        }
        CStr::from_bytes_until_nul(buffer).ok()
    }
}
