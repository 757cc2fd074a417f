//! Files that only we own: written whole or not at all, private, never through a link.
//!
//! Clippy forbids `std::fs::write` elsewhere, so that every file of ours is replaced atomically and has the
//! mode it should have.

use std::{
    ffi::{CStr, CString, OsStr, OsString},
    fs::{self, File, Metadata},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
        },
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, SealFlags};

use crate::faults::{self, WriteAt};

/// Mode of the files we make.
pub const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;
const GROUP_OR_OTHER_WRITE: u32 = 0o022;

/// Replaces a file by rename: readers see the old content or the new one, and after a crash one of both is there.
///
/// # Errors
/// The error of the failed step; `InvalidInput` when the path is a link or anything else but a regular file. The
/// target is unchanged then, and our temporary file is gone.
pub fn replace_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace(path, bytes, mode, Lasting::Synced)
}

/// As [`replace_file`] for a file that means nothing after a crash of the machine: nothing is waited for until it is on
/// disk.
///
/// # Errors
/// As [`replace_file`].
pub fn replace_passing_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace(path, bytes, mode, Lasting::Passing)
}

fn replace(path: &Path, bytes: &[u8], mode: u32, lasting: Lasting) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = file_name(path)?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(
        ".{}.{}.tmp",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    ));
    Staged::create_lasting(path, &temporary, bytes, mode, lasting)?.commit()
}

/// Whether a file must be there after the machine crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    Synced,
    Passing,
}

/// New content, safely on disk beside its target, that takes the target's place with [`Staged::commit`].
/// Dropping it removes it.
#[derive(Debug)]
#[must_use]
pub struct Staged {
    directory: OwnedFd,
    temporary: Option<OsString>,
    name: OsString,
    lasting: Lasting,
}

impl Staged {
    /// Writes the temporary file `temporary` in the directory of `path`.
    ///
    /// # Errors
    /// The error of the failed step; nothing is left behind.
    pub fn create(path: &Path, temporary: &OsStr, bytes: &[u8], mode: u32) -> io::Result<Self> {
        Self::create_lasting(path, temporary, bytes, mode, Lasting::Synced)
    }

    fn create_lasting(
        path: &Path,
        temporary: &OsStr,
        bytes: &[u8],
        mode: u32,
        lasting: Lasting,
    ) -> io::Result<Self> {
        let name = file_name(path)?.to_owned();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory_of(path), flags, Mode::empty())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        faults::fail_at("files.create")?;
        let file = rustix::fs::openat(&directory, temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let staged = Self {
            directory,
            temporary: Some(temporary.to_owned()),
            name,
            lasting,
        };
        let file = File::from(file);
        WriteAt::new("files.write", &file).write_all(bytes)?;
        // Through the file, since the mode at creation is subject to the umask.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        if lasting == Lasting::Synced {
            faults::fail_at("files.sync")?;
            file.sync_all()?;
        }
        Ok(staged)
    }

    /// Renames the file over its target and syncs the directory. A target with several names loses only this one. Where
    /// the directory cannot be synced, the log says so: the target is replaced.
    ///
    /// # Errors
    /// `InvalidInput` when the target is there and not a regular file; else the error of the failed step. The target is
    /// unchanged then.
    pub fn commit(mut self) -> io::Result<()> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the target is not a regular file",
                ));
            }
            Ok(_) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(temporary) = &self.temporary {
            faults::fail_at("files.rename")?;
            rustix::fs::renameat(&self.directory, temporary, &self.directory, &self.name)?;
        }
        self.temporary = None;
        if self.lasting == Lasting::Synced {
            let synced =
                faults::fail_at("files.sync-directory").and_then(|()| rustix::fs::fsync(&self.directory));
            // The file has its new content, and everybody reads that: to say that it has not would be wrong.
            if let Err(error) = synced {
                tracing::error!(
                    file.name = %self.name.display(),
                    error = &error as &dyn std::error::Error,
                    "a file was replaced, and a loss of power may undo that"
                );
            }
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let removed = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
            if let Err(error) = removed {
                tracing::debug!(
                    file.name = %temporary.display(),
                    error = &error as &dyn std::error::Error,
                    "a temporary file was left behind"
                );
            }
        }
    }
}

/// Creates a file of mode 0600 that was not there, and syncs it.
///
/// # Errors
/// `AlreadyExists`, or the error of the failed step; a file that could not be written whole is removed.
pub fn create_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_new(path, bytes, File::sync_all)
}

/// Creates a file of mode 0600 that was not there and that means nothing after a crash, such as a lock.
///
/// # Errors
/// As [`create_private_file`].
pub fn create_passing_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_new(path, bytes, |_file| Ok(()))
}

fn create_new(path: &Path, bytes: &[u8], finish: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    faults::fail_at("files.create")?;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    let written = WriteAt::new("files.write", &file)
        .write_all(bytes)
        .and_then(|()| finish(&file));
    // The error that matters is the one of writing.
    if written.is_err()
        && let Err(error) = fs::remove_file(path)
    {
        tracing::debug!(
            file.path = %path.display(),
            error = &error as &dyn std::error::Error,
            "a file that could not be written whole was left behind"
        );
    }
    written
}

/// A directory that should be ours alone is not.
#[derive(Debug, thiserror::Error)]
pub enum PrivateDirError {
    /// It belongs to another account.
    #[error("{path} belongs to user {owner}")]
    ForeignOwner {
        /// The directory.
        path: PathBuf,
        /// Id of the user that owns it.
        owner: u32,
    },
    /// Group or others may write.
    #[error("{path} may be written by group or others (mode {mode:o})")]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its permission bits, without the kind.
        mode: u32,
    },
    /// Something else has that name.
    #[error("{path} is not a directory")]
    NotDirectory {
        /// The path that a directory should have.
        path: PathBuf,
    },
    /// It could not be created or looked at.
    #[error("{path} cannot be prepared")]
    Io {
        /// The directory that was to be prepared.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Makes sure that a directory exists and nobody but us and root can change what is in it. It and missing parents
/// are created with mode 0700; one that is there keeps its mode.
///
/// # Errors
/// [`PrivateDirError`] when it is not a directory, not ours, or open to others' writing.
pub fn ensure_private_dir(path: &Path) -> Result<(), PrivateDirError> {
    let path_buf = || path.to_owned();
    let io_error = |source| PrivateDirError::Io {
        path: path.to_owned(),
        source,
    };
    match fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIR)
        .create(path)
    {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(PrivateDirError::NotDirectory { path: path_buf() });
        }
        Err(error) => return Err(io_error(error)),
    }
    let metadata = fs::metadata(path).map_err(io_error)?;
    if !is_ours(&metadata) {
        return Err(PrivateDirError::ForeignOwner {
            path: path_buf(),
            owner: metadata.uid(),
        });
    }
    if writable_by_others(&metadata) {
        return Err(PrivateDirError::Writable {
            path: path_buf(),
            mode: metadata.mode() & 0o7777,
        });
    }
    Ok(())
}

/// Whether a file belongs to this process's account or to root.
pub fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == 0 || metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Whether group or others may write.
pub fn writable_by_others(metadata: &Metadata) -> bool {
    metadata.mode() & GROUP_OR_OTHER_WRITE != 0
}

/// Opens a regular file for reading, never through a link and never waiting for the other end of a FIFO.
///
/// # Errors
/// `InvalidInput` for anything but a regular file, else what opening says.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path is not a regular file",
        ))
    }
}

/// A memory file that nobody can change any more.
///
/// # Errors
/// What the kernel answers.
pub fn sealed(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    seal(&file)?;
    Ok(file)
}

/// Nobody can change this memory file from now on.
///
/// # Errors
/// What the kernel answers.
pub fn seal(file: impl AsFd) -> Result<(), rustix::io::Errno> {
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(file, seals)
}

/// The same open file for reading, with a position of its own.
///
/// # Errors
/// What the kernel answers.
pub fn own_position(file: BorrowedFd<'_>) -> Result<OwnedFd, rustix::io::Errno> {
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Where what a descriptor stands for is at this moment.
///
/// # Errors
/// What the kernel answers.
pub fn path_of_descriptor(file: BorrowedFd<'_>) -> Result<CString, rustix::io::Errno> {
    use std::os::fd::AsRawFd as _;
    rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())
}

/// Where an open file is at this moment.
///
/// # Errors
/// What the kernel answers.
pub fn path_of(file: &File) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Reads a whole regular file of at most `max` bytes, not following a link.
///
/// # Errors
/// `FileTooLarge` when there is more, else what [`open_regular`] or reading says.
pub fn read_bounded(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    read_all(&open_regular(path)?, max)
}

/// Reads an open file from where it stands to its end, at most `max` bytes.
///
/// # Errors
/// `FileTooLarge` when there is more, else what reading says.
pub fn read_all(file: &File, max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// What changes whenever a file does: comparing two of them is far cheaper than reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct FileStamp {
    /// Device of its file system.
    pub dev: u64,
    /// Inode of the file.
    pub ino: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Last change of content, owner or mode, in nanoseconds since 1970.
    pub ctime_ns: i128,
}

impl FileStamp {
    /// The stamp of what a path leads to, links followed; `None` when nothing is there.
    ///
    /// # Errors
    /// What looking says, except for not finding it.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(Self::from_metadata(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The stamp of a file that was already looked at.
    pub fn from_metadata(metadata: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            mtime_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether a file with this stamp, read at `now_ms`, cannot have changed since without getting another stamp.
    ///
    /// A file system stamps in steps. Two writes within one step that leave the length alone look like one, so a
    /// stamp that is still fresh proves nothing.
    pub fn is_stable(&self, now_ms: i64) -> bool {
        const STEP_NS: i128 = 100_000_000;
        const WHOLE_SECONDS_STEP_NS: i128 = 2_000_000_000;
        let latest = self.mtime_ns.max(self.ctime_ns);
        let step = if latest % 1_000_000_000 == 0 {
            WHOLE_SECONDS_STEP_NS
        } else {
            STEP_NS
        };
        latest + step < i128::from(now_ms) * 1_000_000
    }

    /// Whether both stamps are of the same file, no matter what its content is.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.dev == other.dev && self.ino == other.ino
    }
}

fn file_name(path: &Path) -> io::Result<&OsStr> {
    path.file_name()
        .filter(|name| !name.as_bytes().is_empty())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn replacing_changes_content_and_mode_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        replace_file(&path, b"one", PRIVATE_FILE).unwrap();
        fs::hard_link(&path, directory.path().join("b")).unwrap();
        replace_file(&path, b"two", 0o640).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read(directory.path().join("b")).unwrap(), b"one");
        assert_eq!(mode(&path), 0o640);
        assert_eq!(names(directory.path()), ["a", "b"]);
    }

    #[test]
    fn replacing_refuses_links_and_directories() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let link = directory.path().join("link");
        replace_file(&target, b"kept", PRIVATE_FILE).unwrap();
        symlink(&target, &link).unwrap();
        fs::create_dir(directory.path().join("dir")).unwrap();
        for path in [link, directory.path().join("dir")] {
            let error = replace_file(&path, b"new", PRIVATE_FILE).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
        assert_eq!(fs::read(&target).unwrap(), b"kept");
        assert_eq!(names(directory.path()), ["dir", "link", "target"]);
    }

    #[test]
    fn dropping_staged_content_removes_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let staged = Staged::create(&path, OsStr::new(".t.tmp"), b"x", PRIVATE_FILE).unwrap();
        assert_eq!(names(directory.path()), [".t.tmp"]);
        drop(staged);
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn creating_never_replaces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        create_private_file(&path, b"one").unwrap();
        let error = create_private_file(&path, b"two").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn private_directories_are_made_private_and_open_ones_refused() {
        let directory = tempfile::tempdir().unwrap();
        let nested = directory.path().join("a/b");
        ensure_private_dir(&nested).unwrap();
        assert_eq!((mode(&nested), mode(&directory.path().join("a"))), (0o700, 0o700));
        fs::set_permissions(&nested, fs::Permissions::from_mode(0o755)).unwrap();
        ensure_private_dir(&nested).unwrap();
        fs::set_permissions(&nested, fs::Permissions::from_mode(0o720)).unwrap();
        assert!(matches!(
            ensure_private_dir(&nested),
            Err(PrivateDirError::Writable { mode: 0o720, .. })
        ));
        let file = directory.path().join("file");
        replace_file(&file, b"", PRIVATE_FILE).unwrap();
        assert!(matches!(
            ensure_private_dir(&file),
            Err(PrivateDirError::NotDirectory { .. })
        ));
    }

    #[test]
    fn reading_is_bounded_and_follows_no_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        replace_file(&path, b"12345", PRIVATE_FILE).unwrap();
        assert_eq!(read_bounded(&path, 5).unwrap(), b"12345");
        assert_eq!(
            read_bounded(&path, 4).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        let link = directory.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(read_bounded(&link, 5).is_err());
        assert!(read_bounded(directory.path(), 5).is_err());
    }

    #[test]
    fn a_stamp_changes_with_the_file_and_is_stable_only_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        assert_eq!(FileStamp::of(&path).unwrap(), None);
        replace_file(&path, b"1", PRIVATE_FILE).unwrap();
        let first = FileStamp::of(&path).unwrap().unwrap();
        replace_file(&path, b"2", PRIVATE_FILE).unwrap();
        let second = FileStamp::of(&path).unwrap().unwrap();
        assert_ne!(first, second);
        let written_ms = i64::try_from(second.ctime_ns / 1_000_000).unwrap();
        assert!(!second.is_stable(written_ms));
        assert!(second.is_stable(written_ms + 2_001));
    }
}
