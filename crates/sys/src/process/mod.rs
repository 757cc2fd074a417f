//! Processes: starting, watching, signalling, ending. The only place that starts one.
//!
//! The server starts processes with [`spawn()`] (`posix_spawn`, never a fork of its large memory). The warm runner,
//! which is small and single-threaded, forks its supervisors ([`fork()`]); a supervisor starts a command with a
//! [`Launcher`], or forks once more ([`Lead`]) for a run of several programs. [`fork()`] must never copy a process
//! with more than one thread, and refuses it. `tests/it/architecture.rs` checks that nothing else starts a process and
//! that only the runner forks.

mod dumping;
mod fork;
mod inspect;
mod keyring;
mod launch;
mod lead;
mod limits;
mod siblings;
mod signals;
mod spawn;
mod time;

pub use dumping::{allow_dumping, forbid_dumping};
pub use fork::{Forked, SharedBytes, exit_now, fork, thread_count};
pub use inspect::{Process, boot_id, children, current, inspect, list};
pub use keyring::leave_session_keyring;
pub use launch::{
    Asks, Candidate, DirectStart, JudgedFile, JudgedFiles, Launch, LaunchError, Launched, Launcher,
    StartPlace, Strings, execute, execute_one_of,
};
pub use lead::{Lead, heed_interruption};
pub use limits::InheritedLimits;
pub use siblings::Alone;
pub(super) use siblings::{CLONE, CLONE3, EXECVE, EXECVEAT};
pub use signals::{
    ChildSignals, Ended, Reaped, group_of, put_off_termination, reap, reset_dispositions, signal_group,
    signal_process, wait_any, wait_for,
};
pub use spawn::{Spawn, SpawnedProcess, TextError, run_for_text, spawn};
pub use time::{monotonic, poll};

use std::io;

/// Process id, as the kernel numbers it.
pub type Pid = i32;

/// Makes orphaned descendants children of this process. Forked children do not inherit it.
///
/// # Errors
/// What the kernel answers.
pub fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(
        rustix::process::getpid(),
    ))?)
}

/// The id of this process.
pub fn own_id() -> Pid {
    rustix::process::getpid().as_raw_pid()
}

/// The id of the parent process; 0 when it lies outside this PID namespace.
pub fn parent() -> Pid {
    rustix::process::getppid().map_or(0, rustix::process::Pid::as_raw_pid)
}

/// Marks every open descriptor from `first` on close-on-exec.
pub fn close_on_exec_from(first: u32) {
    signals::close_on_exec_from(first);
}

/// Closes every descriptor from `first` on but these. For a process that uses none of them any more.
///
/// # Errors
/// What the kernel answers.
pub fn close_all_but<'a>(
    first: u32,
    kept: impl Iterator<Item = std::os::fd::BorrowedFd<'a>>,
) -> Result<(), rustix::io::Errno> {
    signals::close_all_but(first, kept)
}

/// Takes over descriptors at agreed numbers. The process that started this program left them open.
///
/// # Errors
/// When one of them is not open.
pub fn inherited_descriptors<const N: usize>(first: i32) -> io::Result<[std::os::fd::OwnedFd; N]> {
    spawn::inherited_descriptors(first)
}
