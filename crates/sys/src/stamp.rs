//! Whether a file is still the one that was looked at.
//!
//! Nothing here allocates, so that a child between `clone` and `exec` may look as late as possible.

use std::{ffi::CStr, io::Read as _, os::fd::AsFd};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, Stat},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use super::fs::FileStamp;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// The stamp of what is open.
///
/// # Errors
/// What the kernel answers.
pub fn of_open(file: impl AsFd) -> Result<FileStamp, Errno> {
    Ok(of_stat(&rustix::fs::fstat(file)?))
}

/// The stamp of what a path leads to, links followed.
///
/// # Errors
/// What the kernel answers.
pub fn at(path: &CStr) -> Result<FileStamp, Errno> {
    Ok(of_stat(&rustix::fs::statat(CWD, path, AtFlags::empty())?))
}

/// The stamp of what was looked at already.
pub fn of_stat(stat: &Stat) -> FileStamp {
    let nanoseconds = |seconds: i64, rest: u64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    FileStamp {
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        ctime_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// Whether a path leads to the regular file of this stamp, with content of this SHA-256 where one is given.
pub fn is_unchanged(path: &CStr, stamp: &FileStamp, sha256: Option<&[u8; 32]>) -> bool {
    match sha256 {
        None => at(path).as_ref() == Ok(stamp),
        Some(sha256) => has_content(path, stamp, sha256).unwrap_or(false),
    }
}

fn has_content(path: &CStr, stamp: &FileStamp, sha256: &[u8; 32]) -> Result<bool, Errno> {
    // Never waits for the other end of a FIFO that took the file's place.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    if of_open(&file)? != *stamp {
        return Ok(false);
    }
    let mut file = std::fs::File::from(file).take(stamp.size);
    let mut digest = Sha256::new();
    let mut piece = [0; PIECE_BYTES];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => digest.update(piece.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }
    Ok(<[u8; 32]>::from(digest.finalize()) == *sha256)
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, fs, io::Write as _, os::unix::ffi::OsStrExt as _, path::Path};

    use super::*;

    fn write(path: &Path, text: &str) {
        fs::File::create(path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    fn c(path: &Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    #[test]
    fn a_file_is_unchanged_until_anything_of_it_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write(&path, "one");
        let named = c(&path);
        let stamp = at(&named).unwrap();
        assert_eq!(of_open(fs::File::open(&path).unwrap()), Ok(stamp));
        let sha256: [u8; 32] = Sha256::digest("one").into();
        assert!(is_unchanged(&named, &stamp, None));
        assert!(is_unchanged(&named, &stamp, Some(&sha256)));
        assert!(!is_unchanged(&named, &stamp, Some(&[0; 32])));
        // The very same content in another file is another file.
        let other = directory.path().join("other");
        write(&other, "one");
        assert!(!is_unchanged(&c(&other), &stamp, Some(&sha256)));
        // Through a link it is the same.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(is_unchanged(&c(&link), &stamp, Some(&sha256)));
        write(&path, "two");
        assert!(!is_unchanged(&named, &stamp, Some(&sha256)));
        fs::remove_file(&path).unwrap();
        assert!(!is_unchanged(&named, &stamp, None));
    }

    #[test]
    fn a_fifo_in_its_place_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write(&path, "one");
        let stamp = at(&c(&path)).unwrap();
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(!is_unchanged(&c(&path), &stamp, Some(&[0; 32])));
    }
}
