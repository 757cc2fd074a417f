//! Forking the warm runner, and the memory that it shares with what it forks.
#![expect(
    unsafe_code,
    reason = "fork, shared memory and _exit have no safe wrapper in rustix"
)]

use std::{io, ptr, slice, sync::atomic::AtomicU8};

use super::Pid;

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The copy.
    Child,
    /// The process that forked; the new one has this id.
    Parent(Pid),
}

/// Copies this process.
///
/// # Errors
/// When there are threads, whose locks the copy could never get, or what the kernel answers.
pub fn fork() -> io::Result<Forked> {
    if thread_count() != 1 {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    // SAFETY: there is one thread, this one, so the copy is whole: every lock is held by it or free.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        pid if pid > 0 => Ok(Forked::Parent(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The threads of this process.
pub fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(usize::MAX, Iterator::count)
}

/// Ends this process at once: no destructors, no buffers flushed. The end of everything that was forked.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes any code and does not return.
    unsafe { libc::_exit(code) }
}

/// Bytes that this process and everything it forks see alike, all zero at first. Never unmapped.
#[derive(Debug, Clone, Copy)]
pub struct SharedBytes(&'static [AtomicU8]);

impl SharedBytes {
    /// Maps `length` bytes.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn new(length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let address = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is `length` zeroed bytes, is never unmapped, and is only used as atomics, which may be
        // shared with other processes.
        Ok(Self(unsafe {
            slice::from_raw_parts(address.cast::<AtomicU8>(), length)
        }))
    }

    /// The bytes.
    pub const fn get(self) -> &'static [AtomicU8] {
        self.0
    }
}
