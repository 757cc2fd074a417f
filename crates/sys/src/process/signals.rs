//! Signals, and the end of child processes.
#![expect(
    unsafe_code,
    reason = "signal dispositions, masks and signalfd have no safe wrapper in rustix"
)]

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use rustix::{
    io::Errno,
    process::{Signal, WaitOptions},
};

use super::Pid;

/// `_NSIG` of the kernel on every platform but MIPS.
const LAST_SIGNAL: i32 = 64;

/// Gives every signal its default action but `SIGPIPE`, which stays ignored as the Rust runtime has it, and
/// blocks none but `SIGCHLD`, which [`ChildSignals`] reads.
///
/// # Errors
/// What the kernel answers.
pub fn reset_dispositions() -> io::Result<()> {
    for signal in 1..=LAST_SIGNAL {
        if signal != libc::SIGPIPE {
            set_default(signal);
        }
    }
    set_mask(&[libc::SIGCHLD])
}

/// The default action for one signal; `SIGKILL` and `SIGSTOP` have no other. Safe to call between `clone` and `exec`.
///
/// The kernel is asked directly: the C library refuses to touch the two signals that it uses itself, yet its
/// `posix_spawn` leaves them ignored, which commands would inherit.
pub(super) fn set_default(signal: i32) {
    // All zero is SIG_DFL without flags and mask. No platform's structure is larger.
    let action = [0_u64; 8];
    let no_old_action = ptr::null_mut::<u64>();
    // SAFETY: the kernel only reads `action`; a signal that may not be changed is refused.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            action.as_ptr(),
            no_old_action,
            size_of::<u64>(),
        );
    }
}

/// Blocks exactly these signals. Safe to call between `clone` and `exec`.
pub(super) fn set_mask(signals: &[i32]) -> io::Result<()> {
    let mask = set_of(signals);
    // SAFETY: `mask` is a valid signal set, and no old set is asked for.
    let result = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Leaves the polite ways of ending this process waiting from now on. It can be killed all the same.
///
/// # Errors
/// What the kernel answers.
pub fn put_off_termination() -> io::Result<()> {
    set_mask(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
}

pub(super) fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: a signal set is plain integers; sigemptyset then gives it its value.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is valid for writing.
    unsafe { libc::sigemptyset(&raw mut set) };
    for signal in signals {
        // SAFETY: `set` was initialised; a number that is no signal is refused.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    set
}

pub(super) fn every_signal() -> libc::sigset_t {
    let mut set = set_of(&[]);
    // SAFETY: `set` is valid for writing.
    unsafe { libc::sigfillset(&raw mut set) };
    set
}

pub(super) fn close_on_exec_from(first: u32) {
    // SAFETY: it only sets a flag on open descriptors. A kernel before 5.11 refuses; all of ours have the flag anyway.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Closes every descriptor from `first` on but these.
pub(super) fn close_all_but<'a>(first: u32, kept: impl Iterator<Item = BorrowedFd<'a>>) -> Result<(), Errno> {
    let mut kept: Vec<u32> = kept
        .filter_map(|descriptor| u32::try_from(descriptor.as_raw_fd()).ok())
        .collect();
    kept.sort_unstable();
    let mut from = first;
    for number in kept {
        if number > from {
            close_range(from, number - 1)?;
        }
        from = from.max(number + 1);
    }
    close_range(from, u32::MAX)
}

fn close_range(first: u32, last: u32) -> Result<(), Errno> {
    // SAFETY: called in a fresh copy of a process that uses none of these descriptors any more.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS))
    }
}

/// Becomes readable when a child of this process ended. `SIGCHLD` must be blocked ([`reset_dispositions`]).
#[derive(Debug)]
pub struct ChildSignals(OwnedFd);

impl ChildSignals {
    /// Opens it, not blocking and close-on-exec. It belongs to the process that opened it, not to forked ones.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn open() -> io::Result<Self> {
        let mask = set_of(&[libc::SIGCHLD]);
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: `mask` is a valid signal set and -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const mask, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Takes what is there, so that it is not readable until the next child ends.
    pub fn clear(&self) {
        let mut buffer = [0; 512];
        while rustix::io::read(&self.0, &mut buffer).is_ok_and(|read| read == buffer.len()) {}
    }
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// The answer of [`reap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// This child ended like this.
    Child(Pid, Ended),
    /// There are children, and all of them run.
    NoneEnded,
    /// There are no children at all: for a subreaper, no descendant is left.
    NoChildren,
}

/// Takes one ended child off the kernel's list, without waiting.
///
/// # Errors
/// What the kernel answers.
pub fn reap() -> io::Result<Reaped> {
    match rustix::process::wait(WaitOptions::NOHANG) {
        Ok(Some((pid, status))) => Ok(Reaped::Child(pid.as_raw_pid(), ended(status))),
        Ok(None) => Ok(Reaped::NoneEnded),
        Err(Errno::CHILD) => Ok(Reaped::NoChildren),
        Err(error) => Err(error.into()),
    }
}

/// Waits for any child and takes it off the kernel's list; `None` when there is none.
///
/// # Errors
/// What the kernel answers.
pub fn wait_any() -> io::Result<Option<(Pid, Ended)>> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => return Ok(Some((pid.as_raw_pid(), ended(status)))),
            Ok(None) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for one child and takes it off the kernel's list.
///
/// # Errors
/// When it is no child of this process.
pub fn wait_for(pid: Pid) -> io::Result<Ended> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(ended(status)),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn ended(status: rustix::process::WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, signal) => Ended::Signal(signal.unwrap_or(libc::SIGKILL)),
    }
}

/// Sends a signal to one process. One that is gone or not ours to signal is no error.
pub fn signal_process(pid: Pid, signal: Signal) {
    // Never 0 or negative: those would be whole groups.
    if let Some(pid) = rustix::process::Pid::from_raw(pid).filter(|_| pid > 0) {
        rustix::process::kill_process(pid, signal).unwrap_or(());
    }
}

/// The group that a process is in; `None` when it is gone.
pub fn group_of(pid: Pid) -> Option<Pid> {
    let pid = rustix::process::Pid::from_raw(pid).filter(|_| pid > 0)?;
    let group = rustix::process::getpgid(Some(pid)).ok()?;
    Some(group.as_raw_pid())
}

/// Sends a signal to a process group. One that is gone is no error.
pub fn signal_group(group: Pid, signal: Signal) {
    // Never 0 or 1: those would be our own group, or everybody.
    if let Some(group) = rustix::process::Pid::from_raw(group).filter(|_| group > 1) {
        rustix::process::kill_process_group(group, signal).unwrap_or(());
    }
}
