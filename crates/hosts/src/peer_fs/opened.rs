//! What a path led to: one descriptor, and everything that the kernel says of it. Name, kind and times are of the same
//! file, however often the path is pointed elsewhere meanwhile.

use std::{
    os::fd::{AsRawFd as _, OwnedFd},
    path::PathBuf,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, StatxFlags},
    io::Errno,
};

use countersign_domain::FileIdentity;
use countersign_policy::command::DirectoryTrust;

/// A directory as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Its real path, without links.
    pub path: PathBuf,
    /// The number of its device.
    pub dev: u64,
    /// The number of its inode.
    pub ino: u64,
}

/// What a path led to, as the kernel describes it.
#[derive(Debug)]
pub(super) struct OpenedPath {
    /// Can be handed on; it cannot be read.
    pub(super) descriptor: OwnedFd,
    /// Its real path at the moment of the request, for any path that was asked for.
    pub(super) real: String,
    pub(super) stat: Stat,
    /// The directory in which it really lies.
    pub(super) directory: Option<(String, DirectoryTrust)>,
}

/// What the kernel says of an open file, without asking the program that serves its file system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    pub(super) is_regular: bool,
    pub(super) is_directory: bool,
    pub(super) mode: u32,
    pub(super) uid: u32,
    links: u32,
    pub(super) dev: u64,
    pub(super) ino: u64,
    size: u64,
    mtime_ns: i128,
    ctime_ns: i128,
}

/// What the kernel appends to the path of something that has lost its name.
const DELETED: &str = " (deleted)";

impl OpenedPath {
    /// Asks the kernel about what a descriptor is open at.
    ///
    /// # Errors
    /// `NOENT` for what has no path (any more), `ILSEQ` for a path that is not UTF-8.
    pub(super) fn of(descriptor: OwnedFd) -> Result<Self, Errno> {
        let stat = stat(&descriptor)?;
        let real = rustix::fs::readlinkat(CWD, in_proc(&descriptor), Vec::new())?;
        let real = real.into_string().map_err(|_not_utf8| Errno::ILSEQ)?;
        // Pipes and the like have names that are no paths. What was renamed or removed meanwhile is gone.
        if !real.starts_with('/') || stat.links == 0 || real.ends_with(DELETED) {
            return Err(Errno::NOENT);
        }
        Ok(Self {
            descriptor,
            real,
            stat,
            directory: None,
        })
    }

    /// What identifies it, if it is an executable file.
    pub(super) fn identity(&self) -> Option<FileIdentity> {
        let Stat {
            is_regular,
            is_directory: _,
            mode,
            uid: _,
            links: _,
            dev,
            ino,
            size,
            mtime_ns,
            ctime_ns,
        } = self.stat;
        (is_regular && mode & 0o111 != 0).then(|| FileIdentity {
            path: self.real.clone(),
            dev,
            ino,
            size,
            mtime_ns,
            ctime_ns,
        })
    }
}

pub(super) fn stat(descriptor: &OwnedFd) -> Result<Stat, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(descriptor, c"", flags, StatxFlags::BASIC_STATS)?;
    let kind = FileType::from_raw_mode(u32::from(stat.stx_mode));
    let nanoseconds = |time: rustix::fs::StatxTimestamp| nanoseconds(time.tv_sec, i64::from(time.tv_nsec));
    Ok(Stat {
        is_regular: kind == FileType::RegularFile,
        is_directory: kind == FileType::Directory,
        mode: u32::from(stat.stx_mode),
        uid: stat.stx_uid,
        links: stat.stx_nlink,
        dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        ino: stat.stx_ino,
        size: stat.stx_size,
        mtime_ns: nanoseconds(stat.stx_mtime),
        ctime_ns: nanoseconds(stat.stx_ctime),
    })
}

pub(super) fn nanoseconds(seconds: i64, rest: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(rest)
}

/// The kernel's own link to what a descriptor of this process is open at.
pub(super) fn in_proc(descriptor: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}
