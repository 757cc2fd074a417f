//! The keeper: starts the runner under another account, and another one when that died (`design/trust.md`).
//!
//! The server gives up root, and with it the right to start anything under another account. This process keeps it: a
//! single-threaded one without any secret, which was started before the server read anything from outside. The server
//! can ask it two things, without any parameter: for the runner, answered with a descriptor of its process, and for new
//! eyes, a process that opens files as the account, answered with a socket to it. It ends when the server is gone; a
//! runner that still has supervisors goes on by itself.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::sys::{
    account::Identity,
    hooks,
    process::{self, Pid, Spawn, SpawnedProcess},
    socket::{self, Received},
};

use super::pool;

/// The word that makes this program a keeper. Not for people.
pub(super) const MODE: &str = "__keeper";

/// This program, even when its file was replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The one question: is there a runner? One is started if there is none.
const RUNNER: &[u8] = b"runner";

/// The other question: a process that opens files as the account. The one before it, which may be stopped, is killed.
const EYES: &[u8] = b"eyes";

/// The word that makes this program such a process.
pub(crate) const EYES_MODE: &str = "__eyes";

/// First byte of an answer with a process, whose number and descriptor follow.
const RUNS: u8 = b'r';

/// First byte of an answer without one: an error number follows.
const FAILED: u8 = b'f';

/// How long the keeper may take, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// Descriptors that it is started with: its own end, that of the supervisors, the directory where they wait.
const DESCRIPTORS: u32 = 3;

/// The server's end.
#[derive(Debug)]
pub(super) struct Keeper {
    /// One question at a time.
    socket: Mutex<OwnedFd>,
}

/// A process that a keeper started.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) pid: Pid,
    /// What stands for it: of a runner its process, of eyes their socket.
    pub(super) descriptor: OwnedFd,
}

impl Keeper {
    /// Starts a keeper of runners under an account, with these words on their command line and these two descriptors.
    pub(super) fn start(
        program: &Path,
        account: &Identity,
        runner: &[String],
        environment: &[(OsString, OsString)],
        descriptors: [BorrowedFd<'_>; 2],
    ) -> io::Result<Self> {
        let (ours, theirs) = socket::frame_pair()?;
        // Whoever asks waits for the answer.
        rustix::io::ioctl_fionbio(&ours, false)?;
        socket::set_receive_timeout(ours.as_fd(), Some(PATIENCE))?;
        let account = account.to_string();
        let arguments: Vec<&OsStr> = ["countersign-keeper", MODE, &account]
            .into_iter()
            .chain(runner.iter().map(String::as_str))
            .map(OsStr::new)
            .collect();
        let environment: Vec<_> = environment
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .collect();
        let [supervisors_end, attach] = descriptors;
        process::spawn(&Spawn {
            program,
            arguments: &arguments,
            environment: &environment,
            output: None,
            descriptors: &[theirs.as_fd(), supervisors_end, attach],
        })?;
        Ok(Self {
            socket: Mutex::new(ours),
        })
    }

    /// The runner; another one if it died. Blocks until there is one.
    pub(super) fn runner(&self) -> io::Result<Kept> {
        self.ask(RUNNER)
    }

    /// New eyes: the end of a socket at whose other end files are opened as the account. Blocks until they are there.
    pub(super) fn eyes(&self) -> io::Result<OwnedFd> {
        self.ask(EYES).map(|kept| kept.descriptor)
    }

    fn ask(&self, question: &[u8]) -> io::Result<Kept> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket::send_frame(socket.as_fd(), question, &[])?;
        let mut answer = [0; 16];
        match socket::receive_frame(socket.as_fd(), &mut answer)? {
            Received::Frame(length, descriptors) => {
                kept(answer.get(..length).unwrap_or_default(), descriptors)
            }
            Received::Closed => Err(io::ErrorKind::BrokenPipe.into()),
            Received::Nothing => Err(io::ErrorKind::TimedOut.into()),
            Received::Cut => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn kept(answer: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<Kept> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let (kind, number) = answer.split_first().ok_or_else(invalid)?;
    let number = i32::from_le_bytes(number.try_into().map_err(|_cut| invalid())?);
    match (*kind, <[OwnedFd; 1]>::try_from(descriptors)) {
        (RUNS, Ok([descriptor])) => Ok(Kept {
            pid: number,
            descriptor,
        }),
        (FAILED, _) => Err(io::Error::from_raw_os_error(number)),
        _ => Err(invalid()),
    }
}

/// The life of a keeper. The words are the account and what makes this program a runner.
pub(super) fn run(words: &[String]) -> io::Result<()> {
    let (account, runner) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    process::forbid_dumping()?;
    process::reset_dispositions()?;
    let [socket, supervisors_end, attach] = process::inherited_descriptors(3)?;
    // Whatever root's shell had open is not for the runner.
    process::close_on_exec_from(3 + DESCRIPTORS);
    rustix::process::chdir("/")?;
    rustix::thread::set_name(c"countersign-keep")?;
    let mut words: Vec<&OsStr> = runner.iter().map(OsStr::new).collect();
    words.extend([pool::ACCOUNT, account].map(OsStr::new));
    let mut charge = Charge {
        words: &words,
        descriptors: [supervisors_end.as_fd(), attach.as_fd()],
        test_switches: hooks::handed_on(),
        runner: None,
        account,
        eyes: None,
    };
    let mut question = [0; 16];
    loop {
        match socket::receive_frame(socket.as_fd(), &mut question)? {
            Received::Closed => return Ok(()),
            Received::Frame(length, _) if question.get(..length) == Some(RUNNER) => {
                answer(
                    socket.as_fd(),
                    charge.runner().map(|runner| (runner.pid(), runner.pidfd())),
                )?;
            }
            Received::Frame(length, _) if question.get(..length) == Some(EYES) => match charge.eyes() {
                Ok((pid, eyes)) => answer(socket.as_fd(), Ok((pid, eyes.as_fd())))?,
                Err(error) => answer(socket.as_fd(), Err(error))?,
            },
            // Nothing else is ever answered.
            Received::Frame(..) | Received::Cut | Received::Nothing => {}
        }
    }
}

/// What a keeper keeps.
struct Charge<'a> {
    words: &'a [&'a OsStr],
    descriptors: [BorrowedFd<'a>; 2],
    /// For the first runner only: what a kill point of a test build ended once must come back to life.
    test_switches: Vec<(OsString, OsString)>,
    runner: Option<SpawnedProcess>,
    account: &'a str,
    eyes: Option<SpawnedProcess>,
}

impl Charge<'_> {
    fn eyes(&mut self) -> io::Result<(Pid, OwnedFd)> {
        if let Some(before) = self.eyes.take() {
            // Not waited for alone: whatever runs under its account may have stopped it.
            process::signal_process(before.pid(), rustix::process::Signal::KILL);
            before.wait()?;
        }
        let (ours, theirs) = socket::frame_pair()?;
        let eyes = process::spawn(&Spawn {
            program: Path::new(THIS_PROGRAM),
            arguments: &["countersign-eyes", EYES_MODE, pool::ACCOUNT, self.account].map(OsStr::new),
            environment: &[],
            output: None,
            descriptors: &[theirs.as_fd()],
        })?;
        Ok((self.eyes.insert(eyes).pid(), ours))
    }

    fn runner(&mut self) -> io::Result<&SpawnedProcess> {
        let runner = match self.runner.take() {
            Some(runner) if !has_ended(&runner)? => runner,
            Some(ended) => {
                ended.wait()?;
                self.start()?
            }
            None => self.start()?,
        };
        Ok(self.runner.insert(runner))
    }

    fn start(&mut self) -> io::Result<SpawnedProcess> {
        let switches = std::mem::take(&mut self.test_switches);
        let left_away = hooks::left_away();
        let environment: Vec<_> = switches
            .iter()
            .chain(&left_away)
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .collect();
        process::spawn(&Spawn {
            program: Path::new(THIS_PROGRAM),
            arguments: self.words,
            environment: &environment,
            output: None,
            descriptors: &self.descriptors,
        })
    }
}

fn has_ended(process: &SpawnedProcess) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags};
    let end = process.pidfd();
    let mut descriptors = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
    process::poll(&mut descriptors, Some(Duration::ZERO))?;
    let [end] = descriptors;
    Ok(!end.revents().is_empty())
}

fn answer(socket: BorrowedFd<'_>, started: io::Result<(Pid, BorrowedFd<'_>)>) -> io::Result<()> {
    let frame = |kind: u8, number: i32| [&[kind], number.to_le_bytes().as_slice()].concat();
    match started {
        Ok((pid, descriptor)) => socket::send_frame(socket, &frame(RUNS, pid), &[descriptor]),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(0);
            socket::send_frame(socket, &frame(FAILED, number), &[])
        }
    }
}
