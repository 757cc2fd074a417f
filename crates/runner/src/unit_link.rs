//! The server's end of a runner's unit.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::fs::{FileType, Mode, OFlags};

use countersign_sys::{
    peer,
    process::{TextError, monotonic},
    socket::{self, Received},
};

use super::{
    launcher_protocol::{FILE_BROKER, LaunchedProcess, RUNNER},
    unit_wire::{DONE, Login, MAX_BYTES, OUTDATED, Request, VERSION, Welcome, text_of},
};

/// How long a unit may take to answer, on a machine with much else to do.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long a start waits for a unit to let go of a server that has just died, or to be replaced by a newer one.
const TURN: Duration = Duration::from_secs(5);

/// How soon it is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// Where a unit is, and of whom it must be.
#[derive(Debug, Clone)]
pub struct UnitPlace {
    /// Path of its socket. A link is refused.
    pub socket: PathBuf,
    /// The account of the commands.
    pub account: u32,
}

/// There is no unit to start anything with.
#[derive(Debug, thiserror::Error)]
pub enum UnitProblem {
    /// Nothing has this path.
    #[error("{0} is not there")]
    Missing(PathBuf),
    /// Something else is there, a link for example.
    #[error("{0} is no socket")]
    NoSocket(PathBuf),
    /// It belongs to another user.
    #[error("{path} belongs to user {owner}; it must be root's or of the account of the commands")]
    Owner {
        /// Path of the socket.
        path: PathBuf,
        /// Id of that user.
        owner: u32,
    },
    /// Everybody may connect to it.
    #[error("{0} is open to everybody; its mode must be 0660 or less")]
    Open(PathBuf),
    /// Another user could put another socket there.
    #[error("{0} can be replaced by others than root, the server and the account of the commands")]
    Replaceable(PathBuf),
    /// The process that listens is of another account.
    #[error("user {0} answers there; it must be the account of the commands")]
    Peer(u32),
    /// It serves another server.
    #[error("it serves another server")]
    Busy,
    /// It is of another version.
    #[error("it is version {0}, this is {VERSION}; restart the older one")]
    Version(String),
    /// It cannot be talked to.
    #[error("it does not answer")]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for UnitProblem {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

/// A unit that serves this server.
#[derive(Debug)]
pub struct RunnerUnit {
    place: UnitPlace,
    /// `None` while there is no connection. One question at a time.
    line: Mutex<Option<OwnedFd>>,
}

/// Which version may be at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// An older unit is asked to make way, once.
    Start,
    /// This server may be the older one, and must not end one unit after the other.
    Again,
}

impl RunnerUnit {
    /// Connects to a unit. Waits a moment for one that still has another server. To be called before there are threads.
    ///
    /// # Errors
    /// [`UnitProblem`].
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing tells when a unit lets go of a server that died, and there is no runtime yet"
    )]
    pub fn connect(place: UnitPlace) -> Result<Self, UnitProblem> {
        let deadline = monotonic() + TURN;
        let mut stage = Stage::Start;
        loop {
            let problem = match connect(&place, stage) {
                Ok(line) => {
                    return Ok(Self {
                        place,
                        line: Mutex::new(Some(line)),
                    });
                }
                Err(problem) => problem,
            };
            let may_pass = matches!(problem, UnitProblem::Busy | UnitProblem::Version(_));
            if !may_pass || monotonic() >= deadline {
                return Err(problem);
            }
            if matches!(problem, UnitProblem::Version(_)) {
                stage = Stage::Again;
            }
            thread::sleep(RETRY);
        }
    }

    /// Asks the unit for runners with this end for their supervisors and this directory where they wait. Must come before
    /// the first question for a runner.
    pub(super) fn begin(&self, max_running: usize, descriptors: [BorrowedFd<'_>; 2]) -> io::Result<()> {
        let request = Request::Serve { max_running }.encode();
        self.ask(&request, &descriptors, TIMEOUT, |answer, _descriptors| {
            (answer == DONE)
                .then_some(())
                .ok_or_else(|| io::ErrorKind::InvalidData.into())
        })
    }

    /// Connects again, which [`RunnerUnit::begin`] must follow.
    pub(super) fn connect_again(&self) -> io::Result<()> {
        let mut line = self.line();
        *line = None;
        *line = Some(connect(&self.place, Stage::Again).map_err(io::Error::other)?);
        Ok(())
    }

    /// Whether there is a connection at all.
    pub(super) fn is_connected(&self) -> bool {
        self.line()
            .as_ref()
            .is_some_and(|line| !socket::is_hung_up(line.as_fd()))
    }

    /// Lets go of it; the unit then has no server.
    pub(super) fn disconnect(&self) {
        *self.line() = None;
    }

    /// Another descriptor of the connection, which hangs up when the unit is gone.
    pub(super) fn line_end(&self) -> io::Result<OwnedFd> {
        let line = self.line();
        line.as_ref().ok_or(io::ErrorKind::NotConnected)?.try_clone()
    }

    /// The runner; another one if it died. Blocks until there is one.
    pub(super) fn runner(&self) -> io::Result<LaunchedProcess> {
        self.ask(RUNNER, &[], TIMEOUT, LaunchedProcess::decode)
    }

    /// A new file broker. Blocks until it is there.
    pub(super) fn file_broker(&self) -> io::Result<OwnedFd> {
        self.ask(FILE_BROKER, &[], TIMEOUT, LaunchedProcess::decode)
            .map(|kept| kept.descriptor)
    }

    /// Runs a shell as the account.
    pub(super) fn login(
        &self,
        words: &[&OsStr],
        environment: &[(&OsStr, &OsStr)],
        timeout: Duration,
    ) -> Result<String, TextError> {
        let owned = |text: &&OsStr| OsString::from(text);
        let request = Request::Login(Login {
            timeout,
            words: words.iter().map(owned).collect(),
            environment: environment
                .iter()
                .map(|(name, value)| (owned(name), owned(value)))
                .collect(),
        });
        let asked = self.ask(
            &request.encode(),
            &[],
            timeout + TIMEOUT,
            |answer, _descriptors| text_of(answer),
        );
        asked.map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                TextError::TimedOut
            } else {
                TextError::Io(error)
            }
        })
    }

    /// Asks something. A connection on which anything goes wrong is given up: a late answer would be taken for that to
    /// the next question.
    fn ask<T>(
        &self,
        question: &[u8],
        descriptors: &[BorrowedFd<'_>],
        timeout: Duration,
        read: impl FnOnce(&[u8], Vec<OwnedFd>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut line = self.line();
        let socket = line.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        match exchange(socket.as_fd(), question, descriptors, timeout) {
            Ok((answer, descriptors)) => read(&answer, descriptors),
            Err(error) => {
                // The task that watches the connection is to notice at once.
                rustix::net::shutdown(socket, rustix::net::Shutdown::Both).unwrap_or(());
                *line = None;
                Err(error)
            }
        }
    }

    fn line(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exchange(
    socket: BorrowedFd<'_>,
    question: &[u8],
    descriptors: &[BorrowedFd<'_>],
    timeout: Duration,
) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    socket::send_frame(socket, question, descriptors)?;
    socket::set_receive_timeout(socket, Some(timeout))?;
    let mut answer = vec![0; MAX_BYTES];
    match socket::receive_frame(socket, &mut answer)? {
        Received::Frame(length, descriptors) => {
            answer.truncate(length);
            Ok((answer, descriptors))
        }
        Received::Closed => Err(io::ErrorKind::BrokenPipe.into()),
        Received::Nothing => Err(io::ErrorKind::TimedOut.into()),
        Received::Cut => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Connects to the socket that was looked at, and to nobody but the account.
fn connect(place: &UnitPlace, stage: Stage) -> Result<OwnedFd, UnitProblem> {
    let UnitPlace { socket, account } = place;
    let held = open_socket(socket, *account)?;
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let line = socket::connect_frames(Path::new(&path))?;
    // Root listens for a unit that a service manager starts.
    let listener = peer::uid_of(&line)?;
    if listener != 0 && listener != *account {
        return Err(UnitProblem::Peer(listener));
    }
    rustix::io::ioctl_fionbio(&line, false)?;
    socket::set_receive_timeout(line.as_fd(), Some(TIMEOUT))?;
    let mut frame = [0; 64];
    let (length, sender) = socket::receive_first_frame(line.as_fd(), &mut frame)?;
    if sender != *account {
        return Err(UnitProblem::Peer(sender));
    }
    match frame.get(..length).and_then(Welcome::decode) {
        Some(Welcome::Version(version)) if version == VERSION => Ok(line),
        Some(Welcome::Version(version)) => {
            if stage == Stage::Start {
                socket::send_frame(line.as_fd(), OUTDATED, &[])?;
            }
            Err(UnitProblem::Version(version))
        }
        Some(Welcome::Busy) => Err(UnitProblem::Busy),
        None => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
    }
}

/// Holds the socket, which nobody else than root and the account can have put there.
fn open_socket(path: &Path, account: u32) -> Result<OwnedFd, UnitProblem> {
    let own = rustix::process::geteuid().as_raw();
    let is_trusted = |uid: u32| uid == 0 || uid == own || uid == account;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(held) => held,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
            return Err(UnitProblem::Missing(path.to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::fstat(&held)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(UnitProblem::NoSocket(path.to_owned()));
    }
    if stat.st_uid != 0 && stat.st_uid != account {
        return Err(UnitProblem::Owner {
            path: path.to_owned(),
            owner: stat.st_uid,
        });
    }
    if stat.st_mode & 0o002 != 0 {
        return Err(UnitProblem::Open(path.to_owned()));
    }
    let parent = path.parent().unwrap_or_else(|| Path::new("/"));
    for above in fs::canonicalize(parent)?.ancestors() {
        let metadata = fs::metadata(above)?;
        let is_closed = metadata.mode() & 0o022 == 0 || metadata.mode() & 0o1000 != 0;
        if !is_trusted(metadata.uid()) || !is_closed {
            return Err(UnitProblem::Replaceable(above.to_owned()));
        }
    }
    Ok(held)
}
