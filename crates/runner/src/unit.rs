//! The runner's unit: what the privileged launcher does, without root, for a server that cannot start anything
//! under another account.
//!
//! It is a process of the account of the commands. Another program started it, a service manager for example. It serves
//! one server at a time at a Unix socket. A client must be of the server's account; the kernel says whether
//! it is. The unit holds no secret and decides nothing. When the server goes, what runs goes on as it does without a
//! unit: runners live as long as their supervisors, and the next server gets a runner of its own. Entry point:
//! [`serve`].

use std::{
    ffi::OsStr,
    fs,
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    event::{PollFd, PollFlags},
    fs::{CWD, Mode},
};

use countersign_sys::{
    account, peer,
    process::{self, InheritedLimits, SpawnedProcess, TextError},
    socket::{self, Received},
};

use super::{
    command_line::{self, RunnerPlace},
    launcher_protocol::{ServerChildren, failed, has_ended},
    unit_wire::{DONE, Login, MAX_BYTES, OUTDATED, Request, VERSION, Welcome, text},
};

/// Where the socket that a service manager opened is found, if it is the only one.
const FIRST_PASSED: i32 = 3;

/// How many may wait to be looked at.
const BACKLOG: i32 = 16;

/// Whom a unit serves, and where.
#[derive(Debug, Clone)]
pub struct UnitOptions {
    /// The account of the server. Nobody else is listened to.
    pub server: u32,
    /// Where the server connects.
    pub socket: UnitSocket,
}

/// The socket of a unit.
#[derive(Debug, Clone)]
pub enum UnitSocket {
    /// The one that a service manager passed, as descriptor 3.
    Passed,
    /// One that is made there.
    At(PathBuf),
}

/// Something that happened, for the log of the program that started the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitNotice {
    /// It can be connected to.
    Ready,
    /// A server connected and is served.
    Served,
    /// The connection of the server ended. What it left running goes on.
    Left,
    /// A process of this account came, and was sent away.
    Foreign(u32),
    /// A second server came, and was sent away.
    Second,
}

/// Why a unit cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// It was started by root.
    #[error("this is root; a runner has the account of the commands")]
    Root,
    /// It was started by the server's account.
    #[error("this is the account of the server; commands need another one")]
    Same,
    /// What was passed is no listening socket of the right kind.
    #[error("descriptor 3 is no listening Unix socket of sequential packets (ListenSequentialPacket=)")]
    NoListener,
    /// Something else has that name.
    #[error("{0} is there and is no socket of this account")]
    Misplaced(PathBuf),
    /// Another unit listens there.
    #[error("another runner listens at {0}")]
    InUse(PathBuf),
    /// The socket cannot be made.
    #[error("{path} cannot be listened at")]
    Bind {
        /// Where the socket was to be.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system refused something else.
    #[error("the runner cannot go on")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for UnitError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

/// Serves until it is killed, or until a server of another version asks for another unit. This process must have one
/// thread.
///
/// # Errors
/// [`UnitError`].
pub fn serve(options: &UnitOptions, tell: &mut dyn FnMut(UnitNotice)) -> Result<(), UnitError> {
    // First of all: what commands inherit.
    let limits = InheritedLimits::of_this_process();
    process::forbid_dumping()?;
    let own = rustix::process::geteuid().as_raw();
    if own == 0 || rustix::process::getuid().is_root() {
        return Err(UnitError::Root);
    }
    if own == options.server {
        return Err(UnitError::Same);
    }
    account::drop_capabilities()?;
    // Runners get nothing that the program that started this unit had open.
    process::close_on_exec_from(FIRST_PASSED.unsigned_abs());
    process::reset_dispositions()?;
    process::leave_session_keyring()?;
    let listener = match &options.socket {
        UnitSocket::Passed => take_over()?,
        UnitSocket::At(path) => listen(path, own)?,
    };
    // Pins no directory that an operator may want to unmount.
    rustix::process::chdir("/")?;
    rustix::thread::set_name(c"countersign-unit")?;
    tell(UnitNotice::Ready);
    let mut unit = Unit {
        listener,
        server: options.server,
        limits,
        connection: None,
        former: Vec::new(),
        tell,
    };
    unit.run()
}

fn take_over() -> Result<OwnedFd, UnitError> {
    let [listener] = process::inherited_descriptors(FIRST_PASSED).map_err(|_closed| UnitError::NoListener)?;
    if !socket::listens_for_frames(&listener) {
        return Err(UnitError::NoListener);
    }
    // The service manager opened it to block.
    rustix::io::ioctl_fionbio(&listener, true)?;
    Ok(listener)
}

/// Makes the socket. Who may connect is the account itself and the group that the directory gives to what is made in it.
fn listen(path: &Path, own: u32) -> Result<OwnedFd, UnitError> {
    let bind = |source: io::Error| UnitError::Bind {
        path: path.to_owned(),
        source,
    };
    remove_left_socket(path, own)?;
    let listener = socket::bind_frames(path).map_err(bind)?;
    // Nobody can connect before it listens, so nobody did with another mode.
    rustix::fs::chmodat(
        CWD,
        path,
        Mode::from_raw_mode(0o660),
        rustix::fs::AtFlags::empty(),
    )
    .map_err(|error| bind(error.into()))?;
    rustix::net::listen(&listener, BACKLOG).map_err(|error| bind(error.into()))?;
    Ok(listener)
}

/// Takes away what an earlier unit left there.
fn remove_left_socket(path: &Path, own: u32) -> Result<(), UnitError> {
    let bind = |source: io::Error| UnitError::Bind {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(bind(error)),
        Ok(metadata) if !metadata.file_type().is_socket() || metadata.uid() != own => {
            Err(UnitError::Misplaced(path.to_owned()))
        }
        Ok(_left) => match socket::connect_frames(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(bind),
            Ok(_) | Err(_) => Err(UnitError::InUse(path.to_owned())),
        },
    }
}

struct Unit<'a> {
    listener: OwnedFd,
    server: u32,
    limits: InheritedLimits,
    connection: Option<Connection>,
    /// What was started for servers that are gone, until it ended.
    former: Vec<SpawnedProcess>,
    tell: &'a mut dyn FnMut(UnitNotice),
}

/// The server that is served.
struct Connection {
    socket: OwnedFd,
    children: Option<ServerChildren>,
}

/// Whether a connection goes on.
enum Next {
    GoOn,
    HangUp,
    /// The whole unit is to end.
    End,
}

impl Unit<'_> {
    fn run(&mut self) -> Result<(), UnitError> {
        let mut frame = vec![0; MAX_BYTES];
        loop {
            let (is_asked, has_visitor) = self.wait()?;
            self.reap()?;
            // First: a server that comes may come because the one before is gone.
            if is_asked && let Some(connection) = &mut self.connection {
                match connection.serve(&mut frame, self.limits, self.server) {
                    Next::GoOn => {}
                    Next::HangUp => self.hang_up(),
                    Next::End => {
                        self.hang_up();
                        return Ok(());
                    }
                }
                continue;
            }
            if has_visitor && let Some(visitor) = socket::accept(&self.listener)? {
                self.receive(visitor);
            }
        }
    }

    /// Waits until the server asks or leaves, a process comes, or something ended.
    fn wait(&self) -> io::Result<(bool, bool)> {
        let mut descriptors = vec![PollFd::new(&self.listener, PollFlags::IN)];
        descriptors.extend(
            self.former
                .iter()
                .map(|process| PollFd::from_borrowed_fd(process.pidfd(), PollFlags::IN)),
        );
        if let Some(connection) = &self.connection {
            descriptors.push(PollFd::new(&connection.socket, PollFlags::IN));
        }
        process::poll(&mut descriptors, None)?;
        let is_ready = |at: Option<&PollFd<'_>>| at.is_some_and(|at| !at.revents().is_empty());
        let is_asked = self.connection.is_some() && is_ready(descriptors.last());
        Ok((is_asked, is_ready(descriptors.first())))
    }

    fn reap(&mut self) -> io::Result<()> {
        for process in std::mem::take(&mut self.former) {
            if has_ended(&process)? {
                process.wait()?;
            } else {
                self.former.push(process);
            }
        }
        Ok(())
    }

    fn receive(&mut self, visitor: OwnedFd) {
        match peer::uid_of(&visitor) {
            Ok(uid) if uid == self.server => {}
            Ok(uid) => return (self.tell)(UnitNotice::Foreign(uid)),
            Err(_unknown) => return,
        }
        if self.connection.is_some() {
            // One that does not wait for the answer learns from the end of the connection that there is none.
            socket::send_frame(visitor.as_fd(), &Welcome::Busy.encode(), &[]).unwrap_or(());
            return (self.tell)(UnitNotice::Second);
        }
        let welcome = Welcome::Version(VERSION.to_owned()).encode();
        if socket::send_frame(visitor.as_fd(), &welcome, &[]).is_ok() {
            self.connection = Some(Connection {
                socket: visitor,
                children: None,
            });
            (self.tell)(UnitNotice::Served);
        }
    }

    fn hang_up(&mut self) {
        let children = self.connection.take().and_then(|connection| connection.children);
        self.former
            .extend(children.into_iter().flat_map(ServerChildren::release));
        (self.tell)(UnitNotice::Left);
    }
}

impl Connection {
    fn serve(&mut self, frame: &mut [u8], limits: InheritedLimits, server: u32) -> Next {
        let received = socket::receive_frame(self.socket.as_fd(), frame);
        let Ok(Received::Frame(length, descriptors)) = received else {
            return Next::HangUp;
        };
        let question = frame.get(..length).unwrap_or_default();
        if question == OUTDATED {
            return Next::End;
        }
        let answered = match (Request::decode(question), &mut self.children) {
            (Some(Request::Serve { max_running }), None) => match <[OwnedFd; 2]>::try_from(descriptors) {
                Ok(descriptors) => {
                    let place = RunnerPlace::SeparateUser { server };
                    let words = command_line::arguments(limits, max_running, place, None);
                    self.children = Some(ServerChildren::new(&words, None, descriptors));
                    socket::send_frame(self.socket.as_fd(), DONE, &[])
                }
                Err(_others) => return Next::HangUp,
            },
            (Some(Request::Login(login)), _) => {
                let answer = match run_shell(&login) {
                    Ok(written) => text(&written),
                    Err(error) => failed(&error),
                };
                socket::send_frame(self.socket.as_fd(), &answer, &[])
            }
            (None, Some(children)) => children.answer(question, self.socket.as_fd()),
            // Another thread of the server may ask before the one that connected was able to say what to serve.
            (None, None) => {
                let error = rustix::io::Errno::NOTCONN.into();
                socket::send_frame(self.socket.as_fd(), &failed(&error), &[])
            }
            (Some(Request::Serve { .. }), Some(_)) => return Next::HangUp,
        };
        if answered.is_ok() {
            Next::GoOn
        } else {
            Next::HangUp
        }
    }
}

fn run_shell(login: &Login) -> io::Result<String> {
    let Login {
        timeout,
        words,
        environment,
    } = login;
    let path = words.first().ok_or(ErrorKind::InvalidInput)?;
    let words: Vec<&OsStr> = words.iter().map(AsRef::as_ref).collect();
    let environment: Vec<(&OsStr, &OsStr)> = environment
        .iter()
        .map(|(name, value)| (name.as_ref(), value.as_ref()))
        .collect();
    process::run_for_text(Path::new(path), &words, &environment, *timeout).map_err(|error| match error {
        TextError::Io(error) => error,
        TextError::TimedOut => rustix::io::Errno::TIMEDOUT.into(),
        TextError::TooMuch => rustix::io::Errno::FBIG.into(),
        TextError::Failed(_) => rustix::io::Errno::NOEXEC.into(),
        TextError::NotText => rustix::io::Errno::ILSEQ.into(),
    })
}
