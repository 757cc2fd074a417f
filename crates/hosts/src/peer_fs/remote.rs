//! The server's end of the file broker: sends one request at a time, and reads what the kernel says of each descriptor
//! that comes back.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::watch,
};

use countersign_policy::command::DirectoryTrust;
use countersign_sys::{
    process::{monotonic, poll},
    socket::{self, Received},
};

use super::{
    direct,
    error::{Blind, FileAccessError},
    opened::{OpenedPath, Stat, stat},
    wire::{Answer, MAX_ANSWER_BYTES, Request, raw},
};

/// How long an answer may take. After that the connection is dropped.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How long an answer is waited for without letting other tasks have this thread: longer than any takes that needs no
/// disk.
const AT_ONCE: Duration = Duration::from_millis(2);

/// Files as another account sees them, by way of a process of that account.
#[derive(Debug)]
pub struct Remote {
    account: u32,
    home: PathBuf,
    line: Mutex<Option<OwnedFd>>,
    is_connected: watch::Sender<bool>,
}

impl Remote {
    /// The view of an account, which sees nothing before [`Remote::connect`]. `home` is its home directory.
    pub fn new(account: u32, home: PathBuf) -> Self {
        Self {
            account,
            home,
            line: Mutex::new(None),
            is_connected: watch::Sender::new(false),
        }
    }

    /// The home directory of the account.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Looks through this socket from now on: the other end of what a process of the account has at descriptor 3. The
    /// one before it, if any, is closed.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn connect(&self, socket: OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        *self.line() = Some(socket);
        self.is_connected.send_replace(true);
        Ok(())
    }

    /// Whether there is a process that is thought to answer.
    pub fn is_connected(&self) -> bool {
        *self.is_connected.borrow()
    }

    /// Waits until there is no connection. The caller, which keeps the process, then starts another one, ends the old
    /// one, which may be stopped, and connects again.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    #[crate::compiled_once]
    pub async fn disconnected(&self) {
        let mut connection = self.is_connected.subscribe();
        // It cannot be closed: the sender is ours.
        if connection.wait_for(|is_connected| !is_connected).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks, and believes descriptors only of the expected number.
    pub(super) fn ask(&self, request: &Request<'_>) -> Result<(Answer, Vec<OwnedFd>), FileAccessError> {
        let frame = request.encode()?;
        let mut line = self.line();
        let socket = line.as_ref().ok_or(Blind)?;
        match exchange(socket, &frame) {
            Ok((Answer::Refused(number), _descriptors)) => Err(Errno::from_raw_os_error(number).into()),
            Ok(answered) => Ok(answered),
            Err(error) => {
                *line = None;
                self.is_connected.send_replace(false);
                tracing::error!(
                    account.uid = self.account,
                    error = &error as &dyn std::error::Error,
                    "the file broker of the commands' account does not answer; nothing is allowed until there is another one"
                );
                Err(Blind.into())
            }
        }
    }

    /// What a path leads to.
    pub(super) fn open_path(&self, path: &Path) -> Result<OpenedPath, FileAccessError> {
        self.ask_for_path(&Request::Open(raw(path)))
            .map(|(opened, _index)| opened)
    }

    /// Makes a directory with those above it, for the account alone.
    pub(super) fn make_directory(&self, path: &Path) -> Result<(), FileAccessError> {
        self.ask_for_path(&Request::MakeDirectory(raw(path)))
            .map(|_made| ())
    }

    pub(super) fn ask_for_path(&self, request: &Request<'_>) -> Result<(OpenedPath, usize), FileAccessError> {
        let (answer, descriptors) = self.ask(request)?;
        let Answer::Found { index } = answer else {
            return Err(Errno::IO.into());
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let mut descriptors = descriptors.into_iter();
        let found = descriptors.next().ok_or(Errno::IO)?;
        let mut opened = OpenedPath::of(found)?;
        if let Some(directory) = descriptors
            .next()
            .and_then(|directory| OpenedPath::of(directory).ok())
            && Path::new(&opened.real).parent() == Some(Path::new(&directory.real))
        {
            opened.directory = Some((directory.real.clone(), self.trust(&directory)));
        }
        Ok((opened, index))
    }

    /// A regular file, to be read with a bound.
    pub(super) fn open_regular(&self, path: &Path) -> Result<File, FileAccessError> {
        let (answer, descriptors) = self.ask(&Request::Read(raw(path)))?;
        let mut descriptors = descriptors.into_iter();
        let (Answer::Found { .. }, Some(file)) = (answer, descriptors.next()) else {
            return Err(Errno::IO.into());
        };
        if stat(&file)?.is_regular {
            Ok(file.into())
        } else {
            Err(Errno::INVAL.into())
        }
    }

    pub(super) fn depends_on_process(&self, path: &Path) -> Result<bool, FileAccessError> {
        match self.ask(&Request::DependsOnProcess(raw(path)))? {
            (Answer::Truth(truth), _) => Ok(truth),
            (Answer::Found { .. } | Answer::Refused(_), _) => Err(Errno::IO.into()),
        }
    }

    /// Who may change what a directory holds: besides root and the account the server itself, which has other ways.
    pub(super) fn trust(&self, directory: &OpenedPath) -> DirectoryTrust {
        let own = rustix::process::geteuid().as_raw();
        let Stat {
            is_directory,
            uid,
            mode,
            ..
        } = directory.stat;
        let may_be = |account| direct::may_be_trusted(uid, mode, account);
        if is_directory && (may_be(self.account) || may_be(own)) {
            DirectoryTrust::Ours
        } else {
            DirectoryTrust::Foreign
        }
    }

    fn line(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        match self.line.try_lock() {
            Ok(line) => line,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                patiently(|| self.line.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

/// Waits without keeping other tasks from running, where that is possible.
fn patiently<T>(wait: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        Ok(_) | Err(_) => wait(),
    }
}

fn exchange(socket: &OwnedFd, frame: &[u8]) -> io::Result<(Answer, Vec<OwnedFd>)> {
    socket::send_frame(socket.as_fd(), frame, &[])?;
    if !is_answered(socket, AT_ONCE)? && !patiently(|| is_answered(socket, TIMEOUT))? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut answer = [0; MAX_ANSWER_BYTES];
    match socket::receive_frame(socket.as_fd(), &mut answer)? {
        Received::Frame(length, descriptors) => {
            let answer = answer.get(..length).and_then(Answer::decode);
            Ok((answer.ok_or(io::ErrorKind::InvalidData)?, descriptors))
        }
        Received::Cut | Received::Nothing => Err(io::ErrorKind::InvalidData.into()),
        Received::Closed => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

/// Waits for an answer or the end of the connection. False when neither came.
fn is_answered(socket: &OwnedFd, timeout: Duration) -> io::Result<bool> {
    let deadline = monotonic() + timeout;
    loop {
        let left = deadline.saturating_sub(monotonic());
        let mut descriptors = [PollFd::new(socket, PollFlags::IN)];
        poll(&mut descriptors, Some(left))?;
        let [socket] = descriptors;
        if !socket.revents().is_empty() {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}
