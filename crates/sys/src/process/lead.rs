//! A copy of a supervisor that leads the session of a run and starts its programs one after the other, as a shell does.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{io::Errno, pipe::PipeFlags, process::Signal};

use super::{Forked, LaunchError, Launched, Process, StartPlace, fork, inspect, signals};

/// What the copy says: the step before execution failed, with the error number behind it.
const NOT_BEGUN: u8 = 1;
/// The step was taken, and nothing was started because of the error behind it.
const NOT_STARTED: u8 = 2;
const BEGINS: u8 = 3;

/// How the copy begins, and what it finds.
#[derive(Debug)]
pub struct Lead<'a> {
    /// Where it stands, and what it is put into.
    pub place: StartPlace<'a>,
    /// Descriptors 0, 1 and 2, none of which is one of these numbers.
    pub standard: [BorrowedFd<'a>; 3],
    /// Whether descriptor 0 is a terminal that becomes the one of its session.
    pub takes_terminal: bool,
    /// What else stays open in it.
    pub kept: &'a [BorrowedFd<'a>],
}

impl Lead<'_> {
    /// Forks. In the copy `before_execution` is called as by [`super::Launcher::launch`], then `check`, and if both
    /// went well `work`, with whose value the copy exits. Returns in this process, once the copy begins to work or
    /// not.
    ///
    /// # Errors
    /// [`LaunchError`] when no copy got as far as past `before_execution`.
    pub fn launch(
        &self,
        before_execution: &mut dyn FnMut(&Process) -> Result<(), Errno>,
        check: impl FnOnce() -> Result<(), Errno>,
        work: impl FnOnce() -> i32,
    ) -> Result<Launched, LaunchError> {
        let system = |error: Errno| LaunchError::Process(error.into());
        let (report, reported) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .map(|(read, write)| (write, read))
            .map_err(system)?;
        let supervisor = super::own_id();
        match fork().map_err(LaunchError::Process)? {
            Forked::Child => {
                let process = match become_leader(before_execution) {
                    Ok(process) => process,
                    Err(errno) => give_up(&report, NOT_BEGUN, errno),
                };
                let ready = self.detach(supervisor, &report).and_then(|()| check());
                if let Err(errno) = ready {
                    give_up(&report, NOT_STARTED, errno);
                }
                say(&report, BEGINS, process.start_time);
                drop(report);
                super::exit_now(work())
            }
            Forked::Parent(pid) => {
                drop(report);
                let said = hear(&reported);
                if !matches!(said, Some((BEGINS, _))) {
                    drop(super::wait_for(pid));
                }
                let errno =
                    |number: u64| Errno::from_raw_os_error(i32::try_from(number).unwrap_or(libc::EIO));
                match said {
                    Some((BEGINS, start_time)) => Ok(Launched::Running(Process {
                        pid,
                        parent: supervisor,
                        session: pid,
                        start_time,
                        is_zombie: false,
                        is_exiting: false,
                    })),
                    Some((NOT_STARTED, number)) => Ok(Launched::NotExecuted(errno(number))),
                    Some((_, number)) => Err(LaunchError::BeforeExecution(errno(number))),
                    None => Err(LaunchError::Vanished),
                }
            }
        }
    }

    /// Leaves everything of the supervisor behind.
    fn detach(&self, supervisor: super::Pid, report: &OwnedFd) -> Result<(), Errno> {
        self.place.enter()?;
        // As for a program: after all changes of credentials, and a supervisor that is gone by now is another parent.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if super::parent() != supervisor {
            super::exit_now(127);
        }
        let [input, output, errors] = self.standard;
        rustix::stdio::dup2_stdin(input)?;
        rustix::stdio::dup2_stdout(output)?;
        rustix::stdio::dup2_stderr(errors)?;
        // The lock of the run file above all: it would be held for as long as this process lives.
        let kept = self.kept.iter().copied().chain([report.as_fd()]);
        signals::close_all_but(3, kept)?;
        let held_back: &[i32] = if self.takes_terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            // What is typed to interrupt a program reaches its leader too, which must see first what the program
            // makes of it. Its end would take the terminal away from everybody.
            &[libc::SIGINT, libc::SIGQUIT]
        } else {
            &[]
        };
        signals::set_mask(held_back).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
    }
}

/// Ends this process if it was interrupted from its terminal by now, as it would have been before.
pub fn heed_interruption() {
    // It fails only for a mask that is none.
    signals::set_mask(&[]).unwrap_or(());
    signals::set_mask(&[libc::SIGINT, libc::SIGQUIT]).unwrap_or(());
}

fn become_leader(before_execution: &mut dyn FnMut(&Process) -> Result<(), Errno>) -> Result<Process, Errno> {
    rustix::process::setsid()?;
    let process = inspect::current().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    before_execution(&process)?;
    Ok(process)
}

fn give_up(report: &OwnedFd, what: u8, errno: Errno) -> ! {
    say(report, what, u64::try_from(errno.raw_os_error()).unwrap_or(0));
    super::exit_now(127)
}

/// One write of a few bytes: whole or not at all.
fn say(report: &OwnedFd, what: u8, number: u64) {
    let mut message = [what; 9];
    if let Some(rest) = message.get_mut(1..) {
        rest.copy_from_slice(&number.to_le_bytes());
    }
    // The reader waits for it; if it is gone, so is this process.
    rustix::io::write(report, &message).unwrap_or(0);
}

/// `None` when the copy ended without a word.
fn hear(reported: &OwnedFd) -> Option<(u8, u64)> {
    let mut message = [0; 9];
    let read = loop {
        match rustix::io::read(reported, &mut message) {
            Err(Errno::INTR) => {}
            read => break read,
        }
    };
    let (what, number) = message.split_first()?;
    (read == Ok(message.len())).then_some((*what, u64::from_le_bytes(number.try_into().ok()?)))
}
