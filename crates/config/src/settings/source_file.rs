//! Reading one settings file: who owns it, who may write it, whether it changed.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use countersign_sys::fs::FileStamp;

use super::Problem;

/// Far above any settings file, far below what hurts.
pub(super) const MAX_BYTES: usize = 4 * 1024 * 1024;

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// There is no file.
    Missing,
    /// It cannot be looked at.
    Unreadable(io::ErrorKind),
    Present(FileStamp),
}

impl Stamp {
    /// The present state of a file.
    pub(crate) fn of(path: &Path) -> Self {
        match FileStamp::of(path) {
            Ok(Some(stamp)) => Self::Present(stamp),
            Ok(None) => Self::Missing,
            Err(error) => Self::Unreadable(error.kind()),
        }
    }

    /// Whether a later change must show in the stamp.
    pub(crate) fn is_stable(&self) -> bool {
        match self {
            Self::Missing | Self::Unreadable(_) => true,
            // The clock that file systems stamp with, to be compared with their stamps and with nothing else.
            Self::Present(stamp) => {
                let tick = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
                stamp.is_stable(
                    tick.tv_sec
                        .saturating_mul(1000)
                        .saturating_add(tick.tv_nsec / 1_000_000),
                )
            }
        }
    }
}

/// A settings file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceFile {
    /// Its text; `None` when there is no file.
    pub(super) text: Option<String>,
    /// Whether its group may write it.
    pub(super) group_may_write: bool,
}

/// Reads a file that neither strangers own nor others may write. A missing one is not a problem here.
pub(super) fn read(path: &Path) -> Result<SourceFile, Problem> {
    read_of(path, rustix::process::geteuid().as_raw())
}

/// The same for a file that belongs to this account or root.
pub(super) fn read_of(path: &Path, us: u32) -> Result<SourceFile, Problem> {
    // Without waiting: a pipe in the file's place must not hold the server up.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = match OpenOptions::new().read(true).custom_flags(nonblocking).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(SourceFile {
                text: None,
                group_may_write: false,
            });
        }
        Err(error) => return Err(Problem::Unreadable(error.kind())),
    };
    // The open file is checked, not the name: what was checked is what is read.
    let metadata = file
        .metadata()
        .map_err(|error| Problem::Unreadable(error.kind()))?;
    check(metadata.is_file(), metadata.uid(), metadata.mode(), us)?;
    let text = read_text(&file)?;
    Ok(SourceFile {
        text: Some(text),
        group_may_write: metadata.mode() & 0o020 != 0,
    })
}

fn check(is_file: bool, owner: u32, mode: u32, us: u32) -> Result<(), Problem> {
    if !is_file {
        return Err(Problem::NotAFile);
    }
    if owner != us && owner != 0 {
        return Err(Problem::ForeignOwner { owner });
    }
    if mode & 0o002 != 0 {
        return Err(Problem::OthersMayWrite);
    }
    Ok(())
}

fn read_text(file: &File) -> Result<String, Problem> {
    let bytes = countersign_sys::fs::read_all(file, MAX_BYTES).map_err(|error| {
        if error.kind() == io::ErrorKind::FileTooLarge {
            Problem::TooLarge { limit: MAX_BYTES }
        } else {
            Problem::Unreadable(error.kind())
        }
    })?;
    String::from_utf8(bytes).map_err(|_invalid| Problem::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_or_roots_regular_files_that_others_cannot_write_are_read() {
        assert_eq!(check(true, 1000, 0o100_664, 1000), Ok(()));
        assert_eq!(check(true, 0, 0o100_644, 1000), Ok(()));
        assert_eq!(
            check(true, 1001, 0o100_600, 1000),
            Err(Problem::ForeignOwner { owner: 1001 })
        );
        assert_eq!(check(true, 1000, 0o100_646, 1000), Err(Problem::OthersMayWrite));
        assert_eq!(check(false, 1000, 0o010_600, 1000), Err(Problem::NotAFile));
    }
}
