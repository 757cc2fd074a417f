//! What can be said of the process behind a call, and of files as it finds them.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags},
    io::Errno,
};

use countersign_sys::{
    interception::{self, Call, Flags, Listener, PATH_BYTES},
    process::{self, Pid},
};

use super::{Identity, paths::PathAt};

/// The process behind a call, as far as it can be looked at.
pub(super) struct Caller<'a> {
    pub(super) call: &'a Call,
    /// The first process of its program.
    pub(super) first: Pid,
}

impl Caller<'_> {
    pub(super) fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.call.pid)
    }

    pub(super) fn place(&self, directory: i32, address: u64) -> Result<PathAt, Errno> {
        let mut buffer = [0; PATH_BYTES];
        let length = interception::read_text(self.call.pid, address, &mut buffer)?;
        let path = buffer.get(..length).unwrap_or_default().to_vec();
        Ok(PathAt::new(directory, path))
    }

    /// Where this process finds what the caller means by a path.
    pub(super) fn seen(&self, place: &PathAt) -> Vec<u8> {
        let begin = if place.is_absolute() {
            self.proc("root")
        } else {
            self.begin_of(place.directory)
        };
        [begin.as_bytes(), b"/", &place.path].concat()
    }

    /// Whether anything is there.
    pub(super) fn finds(&self, place: &PathAt) -> bool {
        look_at(&self.seen(place), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether a path leads to the directory in which this name lies.
    pub(super) fn leads_to(&self, place: &PathAt, name: &[u8]) -> bool {
        let named = PathAt::new(interception::WORKING_DIRECTORY, name.to_vec());
        let at = |place: &PathAt| identity(self.seen(&place.parent())).ok();
        at(place).is_some_and(|found| at(&named) == Some(found))
    }

    /// The directory that a relative path begins at.
    pub(super) fn identity(&self, directory: i32) -> Result<Identity, Errno> {
        identity(self.begin_of(directory))
    }

    /// Whether a descriptor, or the working directory, is a directory.
    pub(super) fn is_directory(&self, number: i32) -> bool {
        identity(format!("{}/.", self.begin_of(number))).is_ok()
    }

    /// Opens a directory as the caller would, where it is certain that this leads there and that nothing more is
    /// permitted by it.
    pub(super) fn open_directory(&self, place: &PathAt, flags: OFlags) -> Option<OwnedFd> {
        const KNOWN: OFlags = OFlags::DIRECTORY
            .union(OFlags::CLOEXEC)
            .union(OFlags::NOFOLLOW)
            .union(OFlags::NONBLOCK)
            .union(OFlags::LARGEFILE);
        if !KNOWN.contains(flags) || !self.has_these_rights() {
            return None;
        }
        let (begin, resolves) = if place.is_absolute() {
            (
                self.proc("root"),
                ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
            )
        } else {
            // A link, or `..`, may lead past the root of the caller.
            let resolves = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            (self.begin_of(place.directory), resolves)
        };
        let begin = rustix::fs::open(
            begin,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat2(begin.ok()?, place.path.as_slice(), flags, Mode::empty(), resolves).ok()
    }

    /// Whether what this process may open the caller may open as well.
    fn has_these_rights(&self) -> bool {
        /// To look past the mode of files: `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`.
        const LOOKS_PAST: u64 = 0b110;
        let status = |process: &str| std::fs::read_to_string(format!("/proc/{process}/status")).ok();
        let (Some(own), Some(theirs)) = (status("thread-self"), status(&self.call.pid.to_string())) else {
            return false;
        };
        let are_equal = |field: &str| {
            let own = field_of(&own, field);
            own.is_some() && own == field_of(&theirs, field)
        };
        let capabilities = |status: &str| u64::from_str_radix(field_of(status, "CapEff:")?, 16).ok();
        let may_look_past = |status: &str| capabilities(status).is_none_or(|all| all & LOOKS_PAST != 0);
        let are_of_one_space = || matches!((identity("/proc/self/ns/user"), identity(self.proc("ns/user"))), (Ok(a), Ok(b)) if a == b);
        ["Uid:", "Gid:", "Groups:"].into_iter().all(are_equal)
            && (!may_look_past(&own) || (are_equal("CapEff:") && are_of_one_space()))
    }

    pub(super) fn begin_of(&self, directory: i32) -> String {
        if directory == interception::WORKING_DIRECTORY {
            self.proc("cwd")
        } else {
            self.proc(&format!("fd/{directory}"))
        }
    }

    pub(super) fn flags(&self, flags: Flags) -> Result<u64, Errno> {
        match flags {
            Flags::Are(flags) => Ok(flags),
            Flags::At(address) => {
                let mut bytes = [0; 8];
                match interception::read_memory(self.call.pid, address, &mut bytes)? {
                    8 => Ok(u64::from_le_bytes(bytes)),
                    _ => Err(Errno::FAULT),
                }
            }
        }
    }

    /// The directory that a relative path begins at: what it is, and how it is called now.
    pub(super) fn directory(&self, number: i32) -> Option<(Identity, Vec<u8>)> {
        let link = self.begin_of(number);
        let name = rustix::fs::readlink(&link, Vec::new()).ok()?.into_bytes();
        Some((identity(link).ok()?, name))
    }

    /// The process of a thread.
    pub(super) fn group(&self) -> Option<Pid> {
        let status = std::fs::read_to_string(self.proc("status")).ok()?;
        field_of(&status, "Tgid:")?.parse().ok()
    }

    /// When it began: with its number that names a thread.
    pub(super) fn began(&self) -> Option<u64> {
        process::inspect(self.call.pid).map(|thread| thread.start_time)
    }

    /// What tells its view of the file system from that of others.
    pub(super) fn view(&self) -> Result<(Identity, Identity), Errno> {
        Ok((identity(self.proc("root"))?, identity(self.proc("ns/mnt"))?))
    }

    /// Writes into its memory, if it still waits.
    pub(super) fn write(&self, listener: &Listener, address: u64, text: &[u8]) -> Result<(), Errno> {
        let memory = rustix::fs::open(self.proc("mem"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        // Of this process and no later one of its number: it waited when its memory was open already.
        if !listener.still_waits(self.call) {
            return Err(Errno::SRCH);
        }
        match rustix::io::pwrite(&memory, text, address)? {
            written if written == text.len() => Ok(()),
            _ => Err(Errno::FAULT),
        }
    }
}

/// What `/proc/PID/status` says behind the name of a field.
pub(super) fn field_of<'a>(status: &'a str, field: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .map(str::trim)
}

/// What is at a path. No file system is asked that would have to ask another program.
pub(super) fn identity(path: impl rustix::path::Arg) -> Result<Identity, Errno> {
    let found = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
    Ok(identity_of(&found))
}

pub(super) fn identity_of(found: &Statx) -> Identity {
    (
        rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        found.stx_ino,
    )
}

/// The same with everything that a caller may want to know.
pub(super) fn look_at(path: &[u8], flags: AtFlags) -> Result<Statx, Errno> {
    let flags = flags | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

pub(super) fn kind_of(found: &Statx) -> FileType {
    FileType::from_raw_mode(found.stx_mode.into())
}
