//! The files that a process and its descendants can execute, and no others: a Landlock ruleset of opened files.
//!
//! The kernel compares the file that it opened, not a path: a file that takes the place of another is not executable. It
//! is inherited, and nobody takes it off again. Files that lie in no file system, such as memory files, are outside of
//! what Landlock knows.
#![expect(unsafe_code, reason = "Landlock has no safe wrapper in rustix")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use super::landlock;

const EXECUTE: u64 = 1;
/// To link and to rename between directories: refused under any ruleset that does not allow it.
const REFER: u64 = 1 << 13;
/// Abstract Unix sockets of others, signals to others.
const SCOPES: u64 = 1 | 2;
const RULE_PATH_BENEATH: u32 = 1;

/// `struct landlock_ruleset_attr` of the kernel.
#[repr(C)]
struct Ruleset {
    files: u64,
    net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr` of the kernel.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

/// What only these files can be executed under. Signals and abstract sockets stay inside, too.
#[derive(Debug)]
pub struct Executables(OwnedFd);

impl Executables {
    /// A ruleset with nothing in it.
    ///
    /// # Errors
    /// `Unsupported` for a kernel whose Landlock does not know all of this, else what it answers.
    pub fn none() -> io::Result<Self> {
        if landlock::version() < landlock::SCOPES_SINCE {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let ruleset = Ruleset {
            files: EXECUTE | REFER,
            net: 0,
            scoped: SCOPES,
        };
        // SAFETY: the structure is the one the kernel knows by this size, and outlives the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const ruleset,
                size_of::<Ruleset>(),
                0,
            )
        };
        let number = i32::try_from(done(result)?).map_err(|_no_descriptor| io::ErrorKind::Other)?;
        // SAFETY: the kernel just made this descriptor, close-on-exec, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }))
    }

    /// Lets this very file be executed.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn allow(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.add(file, EXECUTE)
    }

    /// Lets files be linked and renamed between directories below this one. No rule says so of a single file.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn allow_moving(&self, below: BorrowedFd<'_>) -> io::Result<()> {
        self.add(below, REFER)
    }

    fn add(&self, file: BorrowedFd<'_>, allowed: u64) -> io::Result<()> {
        let rule = Beneath {
            allowed,
            parent: file.as_raw_fd(),
        };
        // SAFETY: the structure is the one the kernel knows for this kind of rule, and both outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.0.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const rule,
                0,
            )
        };
        done(result).map(|_zero| ())
    }
}

impl AsFd for Executables {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn done(result: i64) -> io::Result<i64> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
