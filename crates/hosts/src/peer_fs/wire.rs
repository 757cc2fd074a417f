//! What goes over the socket: a request is one frame, and so is its answer.
//!
//! Both ends are the same program, but they do not trust each other: what does not read ends the connection.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

use countersign_runner::wire::bytes;

pub(super) const MAX_REQUEST_BYTES: usize = 32 * 1024;

/// Longest path, as the kernel has it, without its NUL.
const MAX_PATH_BYTES: usize = 4095;

/// Longest answer.
pub(super) const MAX_ANSWER_BYTES: usize = 6;

/// Most of a file that comes as a copy, because reading it may take for ever.
pub(super) const MAX_COPY_BYTES: usize = 16 << 20;

/// Something to open or to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request<'a> {
    /// What a path leads to: a descriptor that cannot be read, and one of its directory if it is a regular file.
    Open(#[serde(borrow)] &'a Bytes),
    /// The first directory with an executable regular file of that name; what comes is as for `Open`.
    Search {
        name: &'a Bytes,
        directories: Vec<&'a Bytes>,
    },
    /// Whether a path leads each process to a place of its own.
    DependsOnProcess(&'a Bytes),
    /// A regular file, to be read.
    Read(&'a Bytes),
    /// A directory that is made if need be, then as for `Open`.
    MakeDirectory(&'a Bytes),
}

impl<'a> Request<'a> {
    /// The frame.
    ///
    /// # Errors
    /// What the kernel would say of such a path: not absolute or with a NUL, or too long.
    pub(super) fn encode(&self) -> Result<Vec<u8>, Errno> {
        match self {
            Self::Open(path)
            | Self::DependsOnProcess(path)
            | Self::Read(path)
            | Self::MakeDirectory(path) => {
                check_path(path)?;
            }
            Self::Search { name, directories } => {
                check_name(name)?;
                directories
                    .iter()
                    .try_for_each(|directory| check_path(directory))?;
            }
        }
        let frame = bytes::append(Vec::new(), self);
        if frame.len() <= MAX_REQUEST_BYTES {
            Ok(frame)
        } else {
            Err(Errno::TOOBIG)
        }
    }

    /// Reads a frame; `None` when it is none of ours.
    pub(super) fn decode(frame: &'a [u8]) -> Option<Self> {
        bytes::read::<Self>(frame).filter(|request| request.encode().is_ok_and(|ours| ours == frame))
    }
}

/// A path as it travels.
pub(super) fn raw<T: AsRef<OsStr> + ?Sized>(path: &T) -> &Bytes {
    Bytes::new(path.as_ref().as_bytes())
}

/// The path that travelled.
pub(super) fn path(raw: &Bytes) -> &Path {
    Path::new(OsStr::from_bytes(raw))
}

fn check_path(bytes: &[u8]) -> Result<(), Errno> {
    if !bytes.starts_with(b"/") || bytes.contains(&0) {
        Err(Errno::INVAL)
    } else if bytes.len() > MAX_PATH_BYTES {
        Err(Errno::NAMETOOLONG)
    } else {
        Ok(())
    }
}

fn check_name(bytes: &[u8]) -> Result<(), Errno> {
    if bytes.is_empty() || bytes.contains(&0) || bytes.contains(&b'/') {
        Err(Errno::INVAL)
    } else if bytes.len() > MAX_PATH_BYTES {
        Err(Errno::NAMETOOLONG)
    } else {
        Ok(())
    }
}

/// Directories in as few groups as fit into a request each, with the number of the first one of each group.
pub(super) fn groups(directories: &[PathBuf]) -> Vec<(usize, Vec<&Bytes>)> {
    /// Of a path, a name or a list, before what is in it.
    const LENGTH: usize = 3;
    const ROOM: usize = MAX_REQUEST_BYTES - MAX_PATH_BYTES - 1 - 2 * LENGTH;
    let mut groups: Vec<(usize, Vec<&Bytes>)> = Vec::new();
    let mut taken = ROOM;
    for (index, directory) in directories.iter().enumerate() {
        let directory = raw(directory);
        // One that is too long for any path holds nothing.
        if check_path(directory).is_err() {
            continue;
        }
        let bytes = LENGTH + directory.len();
        match groups.last_mut() {
            // The number says where in its group a hit is, so a group has no gaps.
            Some((first, group)) if taken + bytes <= ROOM && *first + group.len() == index => {
                group.push(directory);
                taken += bytes;
            }
            _ => {
                groups.push((index, vec![directory]));
                taken = bytes;
            }
        }
    }
    groups
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Descriptors come with it. For a search: in which of its directories.
    Found {
        index: u32,
    },
    Truth(bool),
    /// The number of an error.
    Refused(i32),
}

impl Answer {
    pub(super) fn encode(self) -> Vec<u8> {
        bytes::append(Vec::new(), &self)
    }

    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        // Numbers of errors end there.
        bytes::read(frame)
            .filter(|answer| !matches!(answer, Self::Refused(number) if !(1..=4095).contains(number)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_read_back() {
        let path = raw("/a b/\u{e4}");
        for request in [
            Request::Open(path),
            Request::Search {
                name: raw("rg"),
                directories: vec![path, raw("/")],
            },
            Request::DependsOnProcess(path),
            Request::Read(path),
            Request::MakeDirectory(path),
        ] {
            let frame = request.encode().unwrap();
            assert_eq!(Request::decode(&frame), Some(request));
            assert_eq!(Request::decode(&frame[..frame.len() - 1]), None);
            assert_eq!(Request::decode(&[&frame, &b"x"[..]].concat()), None);
        }
    }

    #[test]
    fn what_is_no_path_is_refused_on_both_sides() {
        let check = |request: &Request<'_>, expected: Errno| {
            assert_eq!(request.encode(), Err(expected), "{request:?}");
            let frame = bytes::append(Vec::new(), request);
            assert_eq!(Request::decode(&frame), None, "{request:?}");
        };
        let long = format!("/{}", "x".repeat(MAX_PATH_BYTES));
        for (path, expected) in [
            ("relative", Errno::INVAL),
            ("", Errno::INVAL),
            ("/a\0b", Errno::INVAL),
            (&long, Errno::NAMETOOLONG),
        ] {
            check(&Request::Open(raw(path)), expected);
            let directories = vec![raw("/"), raw(path)];
            let name = raw("x");
            check(&Request::Search { name, directories }, expected);
        }
        for name in ["", "a/b", "a\0b"] {
            let (name, directories) = (raw(name), vec![]);
            check(&Request::Search { name, directories }, Errno::INVAL);
        }
    }

    #[test]
    fn answers_are_read_back_and_nothing_else_is() {
        for answer in [
            Answer::Found { index: u32::MAX },
            Answer::Truth(true),
            Answer::Truth(false),
            Answer::Refused(4095),
        ] {
            let frame = answer.encode();
            assert_eq!(Answer::decode(&frame), Some(answer));
            assert!(frame.len() <= MAX_ANSWER_BYTES);
            assert_eq!(Answer::decode(&frame[..frame.len() - 1]), None);
            assert_eq!(Answer::decode(&[&frame, &b"\0"[..]].concat()), None);
        }
        for number in [i32::MIN, -1, 0, 4096, i32::MAX] {
            assert_eq!(
                Answer::decode(&Answer::Refused(number).encode()),
                None,
                "{number}"
            );
        }
        for frame in [&[][..], &[1, 2], &[3, 0]] {
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
                name: raw("x"),
                directories: group.clone(),
            };
            assert!(request.encode().is_ok());
            for (offset, directory) in group.into_iter().enumerate() {
                assert_eq!(directories[first + offset], path(directory));
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
