//! The privileged launcher: starts the runner under another account, and another one when that died
//! (`docs/decisions/0005-separate-user.md`).
//!
//! The server gives up root, and with it the right to start anything under another account. The launcher keeps root: a
//! single-threaded process without any secret, started before the server reads anything from outside. It must never take
//! a parameter from the server: it answers the two questions of the launcher protocol ([`super::launcher_protocol`]) and
//! nothing else. It ends when the server is gone; a runner that still has supervisors goes on without it.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use countersign_sys::{
    account::Identity,
    process::{self, Spawn},
    socket::{self, Received},
};

use super::launcher_protocol::{FILE_BROKER, LaunchedProcess, RUNNER, ServerChildren};

/// The word that makes this program the privileged launcher. Not for people.
pub(super) const MODE: &str = "__keeper";

/// How long the launcher may take, on a machine with much else to do.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Descriptors that it is started with: its own end, that of the supervisors, the directory where they wait.
const DESCRIPTORS: u32 = 3;

#[derive(Debug)]
pub(super) struct PrivilegedLauncher {
    /// One question at a time.
    socket: Mutex<OwnedFd>,
}

impl PrivilegedLauncher {
    /// Starts a launcher of runners under an account, with these words on their command line and these two descriptors.
    pub(super) fn start(
        program: &Path,
        account: &Identity,
        runner: &[String],
        environment: &[(OsString, OsString)],
        descriptors: [BorrowedFd<'_>; 2],
    ) -> io::Result<Self> {
        let (ours, theirs) = socket::frame_pair()?;
        // The asker waits for the answer.
        rustix::io::ioctl_fionbio(&ours, false)?;
        socket::set_receive_timeout(ours.as_fd(), Some(TIMEOUT))?;
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
    pub(super) fn runner(&self) -> io::Result<LaunchedProcess> {
        self.ask(RUNNER)
    }

    /// A new file broker: the end of a socket at whose other end files are opened as the account. Blocks until it is
    /// there.
    pub(super) fn file_broker(&self) -> io::Result<OwnedFd> {
        self.ask(FILE_BROKER).map(|kept| kept.descriptor)
    }

    fn ask(&self, question: &[u8]) -> io::Result<LaunchedProcess> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket::send_frame(socket.as_fd(), question, &[])?;
        let mut answer = [0; 16];
        match socket::receive_frame(socket.as_fd(), &mut answer)? {
            Received::Frame(length, descriptors) => {
                LaunchedProcess::decode(answer.get(..length).unwrap_or_default(), descriptors)
            }
            Received::Closed => Err(io::ErrorKind::BrokenPipe.into()),
            Received::Nothing => Err(io::ErrorKind::TimedOut.into()),
            Received::Cut => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The life of a launcher. The words are the account and what makes this program a runner.
pub(super) fn run(words: &[String]) -> io::Result<()> {
    let (account, runner) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    process::forbid_dumping()?;
    process::reset_dispositions()?;
    let [socket, supervisors_end, attach] = process::inherited_descriptors(3)?;
    // The runner gets nothing that root's shell had open.
    process::close_on_exec_from(3 + DESCRIPTORS);
    rustix::process::chdir("/")?;
    rustix::thread::set_name(c"countersign-keep")?;
    if let Some(home) = super::command_line::home_of(runner) {
        home.enter();
    }
    let mut children = ServerChildren::new(runner, Some(account), [supervisors_end, attach]);
    let mut question = [0; 16];
    loop {
        match socket::receive_frame(socket.as_fd(), &mut question)? {
            Received::Closed => return Ok(()),
            Received::Frame(length, _) => {
                children.answer(question.get(..length).unwrap_or_default(), socket.as_fd())?;
            }
            // Nothing else is ever answered.
            Received::Cut | Received::Nothing => {}
        }
    }
}
