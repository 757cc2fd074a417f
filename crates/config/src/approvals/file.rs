//! Reading the file: what must be true of it before its content counts (`docs/spec/approvals-store.md#4-reading`).

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use countersign_sys::fs::{self as sys_fs, FileStamp};

use super::document::{MAX_BYTES, RefusalReason};

/// How often a file that changes while it is read is read again.
const ATTEMPTS: usize = 5;
const GROUP_OR_OTHER: u32 = 0o077;

/// What lies at the document's path.
#[derive(Debug)]
pub(super) enum Found {
    Missing,
    /// A file whose content may be looked at.
    File(FileContent),
    /// Something that must not be read.
    Refused {
        reason: RefusalReason,
        /// For telling one refused file from the next; none when it could not be looked at.
        stamp: Option<FileStamp>,
    },
}

#[derive(Debug)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: FileStamp,
    /// Why the content must not be used, although it could be read.
    pub(super) refused: Option<RefusalReason>,
    /// Group or others may read.
    pub(super) loose: bool,
}

/// A look at the path without reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Glance {
    Missing,
    File(FileStamp),
    Refused(RefusalReason, Option<FileStamp>),
}

impl Glance {
    /// Whether both are of one file with one content, no matter what happened to its names and mode.
    pub(super) fn is_same_content(self, other: Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => {
                one.is_same_file(&other) && one.size == other.size && one.mtime_ns == other.mtime_ns
            }
            (one, other) => one == other,
        }
    }
}

/// Looks without opening anything: a handful of `lstat` calls.
pub(super) fn glance(path: &Path, home: &Path) -> Glance {
    if let Some(reason) = refused_parent(path, home) {
        return Glance::Refused(reason, None);
    }
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Glance::Missing,
        Err(_) => return Glance::Refused(RefusalReason::Io, None),
    };
    let stamp = FileStamp::from_metadata(&metadata);
    if metadata.is_symlink() {
        Glance::Refused(RefusalReason::Symlink, Some(stamp))
    } else if !metadata.is_file() {
        Glance::Refused(RefusalReason::NotRegularFile, Some(stamp))
    } else if !sys_fs::is_ours(&metadata) {
        Glance::Refused(RefusalReason::WrongOwner, Some(stamp))
    } else {
        Glance::File(stamp)
    }
}

/// Reads the file, checking that what is read is what was looked at and that nobody wrote meanwhile.
pub(super) fn read(path: &Path, home: &Path) -> Found {
    let mut refused = Found::Refused {
        reason: RefusalReason::Io,
        stamp: None,
    };
    for _ in 0..ATTEMPTS {
        let seen = match glance(path, home) {
            Glance::Missing => return Found::Missing,
            Glance::Refused(reason, stamp) => return Found::Refused { reason, stamp },
            Glance::File(stamp) => stamp,
        };
        match read_seen(path, seen) {
            Ok(Some(content)) => return Found::File(content),
            Ok(None) => {}
            Err(error) => {
                let reason = if error.kind() == io::ErrorKind::FileTooLarge {
                    RefusalReason::TooLarge
                } else {
                    RefusalReason::Io
                };
                refused = Found::Refused {
                    reason,
                    stamp: Some(seen),
                };
                // Replaced between the look and the opening: look again before believing the error.
                if glance(path, home) == Glance::File(seen) {
                    break;
                }
            }
        }
    }
    refused
}

/// `None` when the file is not the one that was seen, or changed while it was read.
fn read_seen(path: &Path, seen: FileStamp) -> io::Result<Option<FileContent>> {
    let file = sys_fs::open_regular(path)?;
    let metadata = file.metadata()?;
    let stamp = FileStamp::from_metadata(&metadata);
    if !stamp.is_same_file(&seen) {
        return Ok(None);
    }
    let bytes = sys_fs::read_all(&file, MAX_BYTES)?;
    if FileStamp::from_metadata(&file.metadata()?) != stamp {
        return Ok(None);
    }
    Ok(Some(FileContent {
        bytes,
        stamp,
        refused: sys_fs::writable_by_others(&metadata).then_some(RefusalReason::UnsafeMode),
        loose: metadata.mode() & GROUP_OR_OTHER != 0,
    }))
}

/// A link among the directories below home could lead the document anywhere.
fn refused_parent(path: &Path, home: &Path) -> Option<RefusalReason> {
    if !home.is_absolute() {
        return None;
    }
    let parent = path.parent()?;
    // The path may call the home directory by another name, through a link to it or above it.
    let home = if parent.starts_with(home) {
        home
    } else {
        same_directory_above(parent, home)?
    };
    let mut directory = PathBuf::from(home);
    for component in parent.strip_prefix(home).ok()?.components() {
        directory.push(component);
        match fs::symlink_metadata(&directory) {
            Ok(metadata) if metadata.is_symlink() => return Some(RefusalReason::SymlinkParent),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => return Some(RefusalReason::Io),
        }
    }
    None
}

/// The highest of a path's directories that is `directory` under another name.
fn same_directory_above<'a>(path: &'a Path, directory: &Path) -> Option<&'a Path> {
    let stamp = |path: &Path| Some(FileStamp::from_metadata(&fs::metadata(path).ok()?));
    let wanted = stamp(directory)?;
    path.ancestors()
        .filter(|above| stamp(above).is_some_and(|found| found.is_same_file(&wanted)))
        .last()
}
