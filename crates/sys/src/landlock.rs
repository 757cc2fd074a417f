//! Landlock: which files a process and its descendants can execute and write, and where they can connect.
//!
//! The kernel compares what it opened, not a path, so there is no moment at which another file could take its place. What
//! is allowed is decided elsewhere.
//!
//! A [`Ruleset`] is made where files can be looked at, travels as a descriptor, and is taken on by [`restrict`] in what
//! becomes a program. Its rules belong to inodes, never to names.
#![expect(unsafe_code, reason = "Landlock has no safe wrapper in rustix")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::OnceLock,
};

use rustix::io::Errno;

use super::hooks;

/// The first version that knows which files can be executed and written; 0 is a kernel without Landlock.
pub const FILES_SINCE: u32 = 1;
/// The first version that refuses to cut a file (`truncate`), without which a place is not kept from being written.
pub const TRUNCATE_SINCE: u32 = 3;
/// The first version that knows TCP ports.
pub const PORTS_SINCE: u32 = 4;
/// The first version that keeps signals and abstract sockets inside.
pub const SCOPES_SINCE: u32 = 6;

/// The version that a test build pretends to have, by the protection that it omits for that.
fn pretended() -> Option<u32> {
    [
        (0, hooks::protection_off("landlock-0")),
        (1, hooks::protection_off("landlock-1")),
        (3, hooks::protection_off("landlock-3")),
        (4, hooks::protection_off("landlock-4")),
        (6, hooks::protection_off("landlock-6")),
    ]
    .into_iter()
    .find_map(|(version, is_wanted)| is_wanted.then_some(version))
}

/// The version of Landlock of this kernel; 0 where there is none or it is switched off.
pub fn version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        const ASK_FOR_VERSION: u32 = 1;
        let no_ruleset = std::ptr::null::<u8>();
        // SAFETY: with this flag the kernel reads nothing and answers with a number.
        let answer =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_ruleset, 0, ASK_FOR_VERSION) };
        let found = u32::try_from(answer).unwrap_or(0);
        pretended().map_or(found, |version| found.min(version))
    })
}

/// What can be kept of a program and of everything that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeps {
    /// Which files are executed.
    pub starts: bool,
    /// Where files are written.
    pub writes: bool,
    /// To which TCP ports connections are made.
    pub connects: bool,
}

impl Keeps {
    /// What a kernel with this version of Landlock keeps.
    pub const fn of_version(version: u32) -> Self {
        Self {
            starts: version >= FILES_SINCE,
            writes: version >= TRUNCATE_SINCE,
            connects: version >= PORTS_SINCE,
        }
    }

    /// Whether a ruleset can speak of all of these parts, as far as it is about these three.
    pub const fn can_keep(self, handled: Handled) -> bool {
        let Handled {
            starts,
            writes,
            connects,
            scopes: _,
        } = handled;
        (!starts || self.starts) && (!writes || self.writes) && (!connects || self.connects)
    }
}

/// What this kernel keeps.
pub fn keeps() -> Keeps {
    Keeps::of_version(version())
}

/// Bits of Landlock's `scoped`: abstract Unix sockets of others, signals to others.
const SCOPES: u64 = 1 | 2;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
/// To remove directories and files, and to make whatever there is: bits 4 to 12.
const REMOVE_AND_MAKE: u64 = 0x1ff0;
/// To give what lies in one directory a name in another. It is refused by every ruleset that says nothing of it.
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
/// What can be said of a file that is no directory.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | TRUNCATE;
const CONNECT_TCP: u64 = 1 << 1;

/// The first version that can allow [`REFER`].
const REFER_SINCE: u32 = 2;

/// `struct landlock_ruleset_attr` of the kernel.
#[repr(C)]
struct Attributes {
    files: u64,
    net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr` of the kernel, which is packed.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

/// `struct landlock_net_port_attr` of the kernel.
#[repr(C)]
struct Port {
    allowed: u64,
    port: u64,
}

const BENEATH: libc::c_uint = 1;
const PORT: libc::c_uint = 2;

/// What a program may do, while it is put together. Of each part that [`Handled`] names, only what is allowed is possible;
/// of the others, everything.
#[derive(Debug)]
pub struct Ruleset {
    descriptor: OwnedFd,
    writes: u64,
}

/// The parts that a ruleset speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part of its own")]
pub struct Handled {
    /// Which files are executed.
    pub starts: bool,
    /// Where files are written, made, removed and renamed.
    pub writes: bool,
    /// To which TCP ports connections are made.
    pub connects: bool,
    /// Signals to others and their abstract sockets: they stay inside.
    pub scopes: bool,
}

/// Whether an opened place is a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceKind {
    /// With everything below.
    Directory,
    /// It alone.
    File,
}

impl Ruleset {
    /// One that allows nothing of these parts. Until [`Self::allow_moving`] says otherwise, one that speaks of files refuses to
    /// move a file to another directory.
    ///
    /// # Errors
    /// `Unsupported` where the kernel cannot keep one of the parts; otherwise what it answers.
    pub fn new(handled: Handled) -> io::Result<Self> {
        let version = version();
        let keeps = Keeps::of_version(version);
        let Handled {
            starts,
            writes,
            connects,
            scopes,
        } = handled;
        if !keeps.can_keep(handled) || (scopes && version < SCOPES_SINCE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let refer = if version >= REFER_SINCE { REFER } else { 0 };
        let write_bits = WRITE_FILE | REMOVE_AND_MAKE | REFER | TRUNCATE;
        let files = if starts { EXECUTE } else { 0 } | if writes { write_bits } else { 0 };
        // Said so that it can be allowed.
        let files = if files == 0 { 0 } else { files | refer };
        let net = if connects { CONNECT_TCP } else { 0 };
        let descriptor = create(&Attributes {
            files,
            net,
            scoped: if scopes { SCOPES } else { 0 },
        })?;
        Ok(Self {
            descriptor,
            writes: if writes { write_bits } else { 0 },
        })
    }

    /// Allows files below a directory to be linked and renamed to other directories there. Without effect where no kernel of
    /// this version can allow it.
    ///
    /// # Errors
    /// As [`Self::allow_execute`].
    pub fn allow_moving(&self, below: BorrowedFd<'_>) -> io::Result<()> {
        if version() < REFER_SINCE {
            return Ok(());
        }
        self.allow_beneath(below, REFER)
    }

    /// Allows a file, or every file below a directory, to be executed. Of a descriptor that can only be handed on, too.
    ///
    /// # Errors
    /// What the kernel answers; `InvalidInput` where the ruleset does not speak of this.
    pub fn allow_execute(&self, place: BorrowedFd<'_>) -> io::Result<()> {
        self.allow_beneath(place, EXECUTE)
    }

    /// Allows a file, or everything below a directory, to be written, made, removed and renamed.
    ///
    /// # Errors
    /// As [`Self::allow_execute`].
    pub fn allow_write(&self, place: BorrowedFd<'_>, kind: PlaceKind) -> io::Result<()> {
        let bits = match kind {
            PlaceKind::Directory => self.writes,
            PlaceKind::File => self.writes & OF_FILES,
        };
        self.allow_beneath(place, bits)
    }

    /// Allows connections to this TCP port.
    ///
    /// # Errors
    /// As [`Self::allow_execute`].
    pub fn allow_port(&self, port: u16) -> io::Result<()> {
        let rule = Port {
            allowed: CONNECT_TCP,
            port: port.into(),
        };
        // SAFETY: the structure is the one the kernel knows for this kind of rule, and outlives the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.descriptor.as_raw_fd(),
                PORT,
                &raw const rule,
                0,
            )
        };
        done(result)
    }

    /// What a program is given.
    pub fn finish(self) -> OwnedFd {
        self.descriptor
    }

    fn allow_beneath(&self, place: BorrowedFd<'_>, allowed: u64) -> io::Result<()> {
        let rule = Beneath {
            allowed,
            parent: place.as_raw_fd(),
        };
        // SAFETY: the structure is the one the kernel knows for this kind of rule, and outlives the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.descriptor.as_raw_fd(),
                BENEATH,
                &raw const rule,
                0,
            )
        };
        done(result)
    }
}

impl AsFd for Ruleset {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// What keeps signals and abstract sockets inside; `None` where the kernel cannot.
///
/// # Errors
/// What the kernel answers.
pub fn scopes() -> io::Result<Option<OwnedFd>> {
    if version() < SCOPES_SINCE {
        return Ok(None);
    }
    create(&Attributes {
        files: 0,
        net: 0,
        scoped: SCOPES,
    })
    .map(Some)
}

fn create(attributes: &Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the structure is the one the kernel knows by this size, or a longer one whose end is zero, and outlives the
    // call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>(),
            0,
        )
    };
    done(result)?;
    let number = i32::try_from(result).map_err(|_no_descriptor| io::ErrorKind::Other)?;
    // SAFETY: the kernel just made this descriptor, close-on-exec, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// This thread, and what it becomes and starts, is held to a ruleset for good. It must have given up gaining privileges
/// before, or be privileged. Allocates nothing.
///
/// # Errors
/// What the kernel answers; then the thread must not execute anything.
pub fn restrict(ruleset: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; the call changes the rights of this process only.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    done(result).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PERM))
}

fn done(result: i64) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_keeps_what_it_knows() {
        let kept = |version| {
            let Keeps {
                starts,
                writes,
                connects,
            } = Keeps::of_version(version);
            [starts, writes, connects]
        };
        for (version, expected) in [
            (0, [false, false, false]),
            (1, [true, false, false]),
            (2, [true, false, false]),
            (3, [true, true, false]),
            (4, [true, true, true]),
            (6, [true, true, true]),
            (99, [true, true, true]),
        ] {
            assert_eq!(kept(version), expected, "{version}");
            // All of it or nothing.
            let keeps = Keeps::of_version(version);
            let all = Handled {
                starts: true,
                writes: true,
                connects: true,
                scopes: false,
            };
            assert_eq!(keeps.can_keep(all), expected == [true; 3], "{version}");
            assert!(keeps.can_keep(Handled::default()));
        }
    }
}
