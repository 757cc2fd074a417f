//! Processes that a helper makes for the process that made the helper.
#![expect(unsafe_code, reason = "clone has no safe wrapper in rustix")]

use std::io;

use super::{Forked, thread_count};

/// The calls that make processes and namespaces, by their numbers.
pub(crate) const CLONE: i64 = libc::SYS_clone;
pub(crate) const CLONE3: i64 = libc::SYS_clone3;
/// The calls that make another program of a process.
pub(crate) const EXECVE: i64 = libc::SYS_execve;
pub(crate) const EXECVEAT: i64 = libc::SYS_execveat;

/// The proof that this process has one thread, so that copies of it are whole. Copies of it have one thread, too.
#[derive(Debug, Clone, Copy)]
pub struct Alone(());

impl Alone {
    /// Looks.
    ///
    /// # Errors
    /// When there are more threads.
    pub fn prove() -> io::Result<Self> {
        if thread_count() == 1 {
            Ok(Self(()))
        } else {
            Err(io::Error::from(io::ErrorKind::Unsupported))
        }
    }

    /// Copies this process, and makes the copy a child of this process's parent. After a change of namespaces it is
    /// the first of a new space of process numbers, if that has none yet. The id is the one that this process would use.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn fork_sibling(self) -> io::Result<Forked> {
        // CLONE_PARENT also takes over the signal at the end, which is that of every child.
        let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
        // SAFETY: a copy of everything, on the same stack, of a process with one thread: as by fork. What the C library
        // remembers of the process by its number is not used by what follows.
        let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
        match i32::try_from(pid) {
            Ok(0) => Ok(Forked::Child),
            Ok(pid) if pid > 0 => Ok(Forked::Parent(pid)),
            Ok(_) | Err(_) => Err(io::Error::last_os_error()),
        }
    }
}
