//! The launcher protocol: two questions without parameters, for the runner and for a file broker, and their answers.
//!
//! The privileged launcher ([`super::launcher`]) and the runner's unit ([`super::unit`]) both answer them with
//! [`ServerChildren`], which holds what was started for one server. It takes no word from a question: what it starts, and
//! under which account, is fixed before the first question comes. What a unit is told before that is in
//! [`super::unit_wire`].

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};

use countersign_sys::{
    hooks,
    process::{self, Pid, Spawn, SpawnedProcess},
    socket,
};

use super::{command_line, wire::bytes};

/// This program, even when its file was replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The one question: is there a runner? One is started if there is none.
pub(super) const RUNNER: &[u8] = b"runner";

/// The other question: a file broker, a process that opens files as the account. The one before it, which may be
/// stopped, is killed.
pub(super) const FILE_BROKER: &[u8] = b"eyes";

/// The word that makes this program such a process.
pub const FILE_BROKER_MODE: &str = "__eyes";

/// An answer: what there is, or an error number.
pub(super) type Answer<T> = Result<T, i32>;

/// A process that was started for a server.
#[derive(Debug)]
pub(super) struct LaunchedProcess {
    pub(super) pid: Pid,
    /// What stands for it: of a runner its process, of a file broker its socket.
    pub(super) descriptor: OwnedFd,
}

impl LaunchedProcess {
    /// What an answer says.
    pub(super) fn decode(answer: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        match (
            bytes::read::<Answer<Pid>>(answer),
            <[OwnedFd; 1]>::try_from(descriptors),
        ) {
            (Some(Ok(pid)), Ok([descriptor])) => Ok(Self { pid, descriptor }),
            (Some(Err(number)), _) => Err(io::Error::from_raw_os_error(number)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The answer that something failed.
pub(super) fn failed(error: &io::Error) -> Vec<u8> {
    let number = error.raw_os_error();
    let number = number.unwrap_or(rustix::io::Errno::IO.raw_os_error());
    bytes::append(Vec::new(), &Answer::<()>::Err(number))
}

/// The processes that were started for one server, and what another one of each is made from.
#[derive(Debug)]
pub(super) struct ServerChildren {
    runner_words: Vec<OsString>,
    file_broker_words: Vec<OsString>,
    /// The end of the supervisors, and the directory where they wait for a server.
    descriptors: [OwnedFd; 2],
    /// For the first runner only: what a kill point of a test build ended once must come back to life.
    test_switches: Vec<(OsString, OsString)>,
    runner: Option<SpawnedProcess>,
    file_broker: Option<SpawnedProcess>,
}

impl ServerChildren {
    /// Starts nothing yet. The words are those of the runner's command line; what is started becomes the account,
    /// if one is given, before anything else.
    pub(super) fn new(runner: &[String], account: Option<&str>, descriptors: [OwnedFd; 2]) -> Self {
        let account: Vec<&str> = account
            .into_iter()
            .flat_map(|account| [command_line::ACCOUNT, account])
            .collect();
        let words = |words: &[&str]| words.iter().chain(&account).map(OsString::from).collect();
        let runner: Vec<&str> = runner.iter().map(String::as_str).collect();
        Self {
            runner_words: words(&runner),
            file_broker_words: words(&["countersign-eyes", FILE_BROKER_MODE]),
            descriptors,
            test_switches: hooks::handed_on(),
            runner: None,
            file_broker: None,
        }
    }

    /// Answers one of the two questions; anything else is not answered.
    ///
    /// # Errors
    /// When the answer could not be sent.
    pub(super) fn answer(&mut self, question: &[u8], socket: BorrowedFd<'_>) -> io::Result<()> {
        let runs = |pid: Pid, descriptor: BorrowedFd<'_>| {
            socket::send_frame(
                socket,
                &bytes::append(Vec::new(), &Answer::Ok(pid)),
                &[descriptor],
            )
        };
        let fails = |error: io::Error| socket::send_frame(socket, &failed(&error), &[]);
        if question == RUNNER {
            match self.runner() {
                Ok(runner) => runs(runner.pid(), runner.pidfd()),
                Err(error) => fails(error),
            }
        } else if question == FILE_BROKER {
            match self.file_broker() {
                Ok((pid, socket)) => runs(pid, socket.as_fd()),
                Err(error) => fails(error),
            }
        } else {
            Ok(())
        }
    }

    /// Lets go of it when its server is gone. Returns what is still to be reaped: the runner goes on as long as it has
    /// supervisors.
    pub(super) fn release(self) -> impl Iterator<Item = SpawnedProcess> {
        let Self {
            runner, file_broker, ..
        } = self;
        if let Some(file_broker) = &file_broker {
            // Anything that runs under its account may have stopped it, and then it would never see that its server is
            // gone.
            process::signal_process(file_broker.pid(), rustix::process::Signal::KILL);
        }
        runner.into_iter().chain(file_broker)
    }

    fn file_broker(&mut self) -> io::Result<(Pid, OwnedFd)> {
        if let Some(before) = self.file_broker.take() {
            // Not waited for alone: anything that runs under its account may have stopped it.
            process::signal_process(before.pid(), rustix::process::Signal::KILL);
            before.wait()?;
        }
        let (ours, theirs) = socket::frame_pair()?;
        let words: Vec<&OsStr> = self.file_broker_words.iter().map(OsString::as_os_str).collect();
        let file_broker = process::spawn(&Spawn {
            program: Path::new(THIS_PROGRAM),
            arguments: &words,
            environment: &[],
            output: None,
            descriptors: &[theirs.as_fd()],
        })?;
        Ok((self.file_broker.insert(file_broker).pid(), ours))
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
        let words: Vec<&OsStr> = self.runner_words.iter().map(OsString::as_os_str).collect();
        let [supervisors_end, attach] = &self.descriptors;
        process::spawn(&Spawn {
            program: Path::new(THIS_PROGRAM),
            arguments: &words,
            environment: &environment,
            output: None,
            descriptors: &[supervisors_end.as_fd(), attach.as_fd()],
        })
    }
}

/// Whether a child ended; it is not reaped.
pub(super) fn has_ended(process: &SpawnedProcess) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags};
    let end = process.pidfd();
    let mut descriptors = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
    process::poll(&mut descriptors, Some(Duration::ZERO))?;
    let [end] = descriptors;
    Ok(!end.revents().is_empty())
}
