//! Which programs those of a run start, or try to. Nothing is decided by it: the kernel keeps the limits, and what a caller
//! has in its memory can change after it was read.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use countersign_sys::fs::path_of_descriptor;

use super::{paths::PathAt, processes::Caller};
use crate::wire::SeenStart;

/// Most different programs that are named.
const MAX_STARTS: usize = 64;
/// Longest path that is told, in bytes.
const MAX_PATH_BYTES: usize = 1024;
/// The bits of a mode that make a file executable, for its owner, its group or all.
const EXECUTABLE: u32 = 0o111;

/// What was seen so far, shared by the thread that answers and the supervisor.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Starts>>);

/// The starts that were seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Starts {
    /// Each program once for each ruleset.
    pub(crate) named: Vec<SeenStart>,
    /// Whether there were more.
    pub(crate) more: bool,
}

impl Seen {
    /// Notes an execution that a program of this ruleset asked for. What leads to no program was no start.
    pub(super) fn note(&self, ruleset: u8, caller: &Caller<'_>, (directory, path): (i32, u64)) {
        let Ok(place) = caller.place(directory, path) else {
            return;
        };
        let Some(start) = found(caller, &place, ruleset) else {
            return;
        };
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &SeenStart| {
            (known.ruleset, known.dev, known.ino) == (start.ruleset, start.dev, start.ino)
        };
        if starts.named.iter().any(is_same) {
            return;
        }
        if starts.named.len() == MAX_STARTS {
            starts.more = true;
        } else {
            starts.named.push(start);
        }
    }

    /// What was seen until now.
    pub(super) fn starts(&self) -> Starts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn found(caller: &Caller<'_>, place: &PathAt, ruleset: u8) -> Option<SeenStart> {
    let file = open(caller, place).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_program =
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_mode & EXECUTABLE != 0;
    if !is_program {
        return None;
    }
    let path = path_of_descriptor(file.as_fd()).ok()?;
    let mut path = path.to_string_lossy().into_owned();
    path.truncate(path.floor_char_boundary(MAX_PATH_BYTES));
    Some(SeenStart {
        ruleset,
        dev: stat.st_dev,
        ino: stat.st_ino,
        path,
    })
}

/// Opens what the caller finds there, without any right to it.
fn open(caller: &Caller<'_>, place: &PathAt) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let (begin, resolves) = if place.is_absolute() {
        (
            caller.proc("root"),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        )
    } else {
        (caller.begin_of(place.directory), ResolveFlags::NO_MAGICLINKS)
    };
    if place.path.is_empty() {
        // The descriptor is the program.
        return rustix::fs::open(begin, flags, Mode::empty());
    }
    let begin = rustix::fs::open(begin, flags | OFlags::DIRECTORY, Mode::empty())?;
    rustix::fs::openat2(begin, place.path.as_slice(), flags, Mode::empty(), resolves)
}
