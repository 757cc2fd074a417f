//! What goes over the socket: a request is one frame, and so is its answer.
//!
//! Both ends are the same program, but they do not trust each other: what does not read ends the connection.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

pub(super) const MAX_REQUEST_BYTES: usize = 32 * 1024;

/// Longest path, as the kernel has it, without its NUL.
const MAX_PATH_BYTES: usize = 4095;

/// Bytes of every answer.
pub(super) const ANSWER_BYTES: usize = 5;

/// Most of a file that comes as a copy, because reading it may take for ever.
pub(super) const MAX_COPY_BYTES: usize = 16 << 20;

/// Something to open or to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// What a path leads to: a descriptor that cannot be read, and one of its directory if it is a regular file.
    Open(&'a Path),
    /// The first directory with an executable regular file of that name; what comes is as for `Open`.
    Search {
        name: &'a OsStr,
        directories: Vec<&'a Path>,
    },
    /// Whether a path leads each process to a place of its own.
    DependsOnProcess(&'a Path),
    /// A regular file, to be read.
    Read(&'a Path),
    /// A directory that is made if need be, then as for `Open`.
    MakeDirectory(&'a Path),
}

const OPEN: u8 = 1;
const SEARCH: u8 = 2;
const DEPENDS_ON_PROCESS: u8 = 3;
const READ: u8 = 4;
const MAKE_DIRECTORY: u8 = 5;

impl<'a> Request<'a> {
    /// The frame.
    ///
    /// # Errors
    /// What the kernel would say of such a path: not absolute or with a NUL, or too long.
    pub(super) fn encode(&self) -> Result<Vec<u8>, Errno> {
        let (word, path) = match self {
            Self::Open(path) => (OPEN, *path),
            Self::DependsOnProcess(path) => (DEPENDS_ON_PROCESS, *path),
            Self::Read(path) => (READ, *path),
            Self::MakeDirectory(path) => (MAKE_DIRECTORY, *path),
            Self::Search { name, directories } => {
                let mut frame = vec![SEARCH];
                frame.extend(checked_name(name)?);
                for directory in directories {
                    frame.push(0);
                    frame.extend(checked_path(directory)?);
                }
                return if frame.len() <= MAX_REQUEST_BYTES {
                    Ok(frame)
                } else {
                    Err(Errno::TOOBIG)
                };
            }
        };
        Ok([&[word], checked_path(path)?].concat())
    }

    /// Reads a frame; `None` when it is none of ours.
    pub(super) fn decode(frame: &'a [u8]) -> Option<Self> {
        let (word, rest) = frame.split_first()?;
        if *word == SEARCH {
            let mut texts = rest.split(|byte| *byte == 0);
            let name = checked_name(OsStr::from_bytes(texts.next()?)).ok()?;
            let directories = texts.map(|text| {
                let path = Path::new(OsStr::from_bytes(text));
                checked_path(path).ok().map(|_bytes| path)
            });
            return Some(Self::Search {
                name: OsStr::from_bytes(name),
                directories: directories.collect::<Option<_>>()?,
            });
        }
        let path = Path::new(OsStr::from_bytes(rest));
        checked_path(path).ok()?;
        match *word {
            OPEN => Some(Self::Open(path)),
            DEPENDS_ON_PROCESS => Some(Self::DependsOnProcess(path)),
            READ => Some(Self::Read(path)),
            MAKE_DIRECTORY => Some(Self::MakeDirectory(path)),
            _ => None,
        }
    }
}

fn checked_path(path: &Path) -> Result<&[u8], Errno> {
    let bytes = path.as_os_str().as_bytes();
    if !path.is_absolute() || bytes.contains(&0) {
        Err(Errno::INVAL)
    } else if bytes.len() > MAX_PATH_BYTES {
        Err(Errno::NAMETOOLONG)
    } else {
        Ok(bytes)
    }
}

fn checked_name(name: &OsStr) -> Result<&[u8], Errno> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.contains(&0) || bytes.contains(&b'/') {
        Err(Errno::INVAL)
    } else if bytes.len() > MAX_PATH_BYTES {
        Err(Errno::NAMETOOLONG)
    } else {
        Ok(bytes)
    }
}

/// Directories in as few groups as fit into a request each, with the number of the first one of each group.
pub(super) fn groups(directories: &[PathBuf]) -> Vec<(usize, Vec<&Path>)> {
    const ROOM: usize = MAX_REQUEST_BYTES - MAX_PATH_BYTES - 2;
    let mut groups: Vec<(usize, Vec<&Path>)> = Vec::new();
    let mut taken = ROOM;
    for (index, directory) in directories.iter().enumerate() {
        // One that is too long for any path holds nothing.
        let Ok(bytes) = checked_path(directory) else {
            continue;
        };
        match groups.last_mut() {
            // The number says where in its group a hit is, so a group has no gaps.
            Some((first, group)) if taken + bytes.len() < ROOM && *first + group.len() == index => {
                group.push(directory);
                taken += bytes.len() + 1;
            }
            _ => {
                groups.push((index, vec![directory]));
                taken = bytes.len() + 1;
            }
        }
    }
    groups
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Descriptors come with it. For a search: in which of its directories.
    Found {
        index: u32,
    },
    Truth(bool),
    Refused(Errno),
}

const FOUND: u8 = 1;
const TRUTH: u8 = 2;
const REFUSED: u8 = 3;

impl Answer {
    pub(super) fn encode(self) -> [u8; ANSWER_BYTES] {
        let (word, number) = match self {
            Self::Found { index } => (FOUND, index),
            Self::Truth(truth) => (TRUTH, u32::from(truth)),
            Self::Refused(errno) => (REFUSED, errno.raw_os_error().unsigned_abs()),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [word, a, b, c, d]
    }

    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        let [word, a, b, c, d] = *frame.first_chunk::<ANSWER_BYTES>()?;
        if frame.len() != ANSWER_BYTES {
            return None;
        }
        let number = u32::from_le_bytes([a, b, c, d]);
        match (word, number) {
            (FOUND, index) => Some(Self::Found { index }),
            (TRUTH, 0) => Some(Self::Truth(false)),
            (TRUTH, 1) => Some(Self::Truth(true)),
            // Numbers of errors end there.
            (REFUSED, 1..=4095) => {
                let number = i32::try_from(number).ok()?;
                Some(Self::Refused(Errno::from_raw_os_error(number)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_read_back() {
        let path = Path::new("/a b/\u{e4}");
        for request in [
            Request::Open(path),
            Request::Search {
                name: OsStr::new("rg"),
                directories: vec![path, Path::new("/")],
            },
            Request::DependsOnProcess(path),
            Request::Read(path),
            Request::MakeDirectory(path),
        ] {
            let frame = request.encode().unwrap();
            assert_eq!(Request::decode(&frame), Some(request));
        }
    }

    #[test]
    fn what_is_no_path_is_refused_on_both_sides() {
        let long = format!("/{}", "x".repeat(MAX_PATH_BYTES));
        for (path, expected) in [
            ("relative", Errno::INVAL),
            ("", Errno::INVAL),
            ("/a\0b", Errno::INVAL),
            (&long, Errno::NAMETOOLONG),
        ] {
            assert_eq!(Request::Open(Path::new(path)).encode(), Err(expected), "{path}");
            let frame = [&[OPEN], path.as_bytes()].concat();
            assert_eq!(Request::decode(&frame), None, "{path}");
        }
        for name in ["", "a/b", "a\0b"] {
            let request = Request::Search {
                name: OsStr::new(name),
                directories: vec![],
            };
            assert_eq!(request.encode(), Err(Errno::INVAL), "{name}");
        }
        assert_eq!(Request::decode(&[SEARCH, b'x', 0, b'y']), None);
    }

    #[test]
    fn answers_are_read_back_and_nothing_else_is() {
        for answer in [
            Answer::Found { index: 70_000 },
            Answer::Truth(true),
            Answer::Truth(false),
            Answer::Refused(Errno::ACCESS),
        ] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        for frame in [
            &[][..],
            &[FOUND, 0, 0, 0],
            &[FOUND, 0, 0, 0, 0, 0],
            &[TRUTH, 2, 0, 0, 0],
            &[REFUSED, 0, 0, 0, 0],
            &[REFUSED, 0, 16, 0, 0],
            &[9, 0, 0, 0, 0],
        ] {
            assert_eq!(Answer::decode(frame), None, "{frame:?}");
        }
    }

    #[test]
    fn a_long_run_path_takes_several_requests() {
        let mut directories: Vec<PathBuf> = (0..40)
            .map(|number| PathBuf::from(format!("/{number}/{}", "x".repeat(2000))))
            .collect();
        directories.insert(7, PathBuf::from(format!("/{}", "x".repeat(MAX_PATH_BYTES))));
        let groups = groups(&directories);
        assert!(groups.len() > 2, "{}", groups.len());
        let mut seen = Vec::new();
        for (first, group) in groups {
            let request = Request::Search {
                name: OsStr::new("x"),
                directories: group.clone(),
            };
            assert!(request.encode().is_ok());
            for (offset, directory) in group.into_iter().enumerate() {
                assert_eq!(directories[first + offset], directory);
                seen.push(first + offset);
            }
        }
        let all: Vec<usize> = (0..directories.len()).filter(|index| *index != 7).collect();
        assert_eq!(seen, all);
    }

    proptest! {
        #[test]
        fn no_frame_is_misread(frame in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(request) = Request::decode(&frame) {
                prop_assert_eq!(request.encode().unwrap(), frame);
            }
        }
    }
}
