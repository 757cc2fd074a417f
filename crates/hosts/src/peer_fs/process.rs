//! The file broker: the process under the account of the commands that opens what it is asked for and hands the
//! descriptors over.
//!
//! It holds no secret, decides nothing and keeps nothing. Anything that runs under the same account can stop or kill
//! it. The server then has no access at all, and must not take that for an answer.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{CWD, FileType, MemfdFlags, Mode, OFlags, SealFlags, Stat},
    io::Errno,
};

use countersign_sys::{
    process,
    socket::{self, Received},
};

use super::{
    direct,
    opened::in_proc,
    wire::{Answer, MAX_COPY_BYTES, MAX_REQUEST_BYTES, Request, path},
};

/// The word that makes this program the file broker. Not for people: it refuses to work without a socket at descriptor 3.
pub(super) use countersign_runner::FILE_BROKER_MODE as MODE;

/// File systems in user space answer when they like.
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;

/// Becomes the file broker of a server if the command line says so, and then never returns. To be called in `main` before
/// any thread exists.
pub fn main_if_asked() {
    if std::env::args_os().nth(1).is_none_or(|mode| mode != MODE) {
        return;
    }
    let is_done = run().is_ok();
    process::exit_now(if is_done { 0 } else { 2 })
}

fn run() -> io::Result<()> {
    process::forbid_dumping()?;
    // Root sees everything: the process that started this broker forgot to change its account first.
    if rustix::process::geteuid().is_root() || rustix::process::getuid().is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    process::reset_dispositions()?;
    let [socket] = process::inherited_descriptors(3)?;
    rustix::thread::set_no_new_privs(true)?;
    // Pins no directory that an operator may want to unmount.
    rustix::process::chdir("/")?;
    rustix::thread::set_name(c"countersign-eye")?;
    serve(socket.as_fd())
}

/// Answers one request after the other until the server is gone.
pub(super) fn serve(socket: BorrowedFd<'_>) -> io::Result<()> {
    rustix::io::ioctl_fionbio(socket, false)?;
    let mut buffer = vec![0; MAX_REQUEST_BYTES];
    loop {
        let request = match socket::receive_frame(socket, &mut buffer)? {
            // A server sends no descriptors; what came is closed here.
            Received::Frame(length, _descriptors) => buffer.get(..length).and_then(Request::decode),
            Received::Cut => None,
            Received::Closed => return Ok(()),
            Received::Nothing => continue,
        };
        let request = request.ok_or(io::ErrorKind::InvalidData)?;
        let (answer, descriptors) = match answer(&request) {
            Ok((answer, descriptors)) => (answer, descriptors),
            Err(errno) => (Answer::Refused(errno.raw_os_error()), Vec::new()),
        };
        let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
        socket::send_frame(socket, &answer.encode(), &descriptors)?;
    }
}

type Answered = Result<(Answer, Vec<OwnedFd>), Errno>;

fn answer(request: &Request<'_>) -> Answered {
    match request {
        Request::Open(raw) => Ok((Answer::Found { index: 0 }, open_with_directory(path(raw))?)),
        Request::Search { name, directories } => {
            let files = (0..).zip(directories.iter().map(|raw| path(raw).join(path(name))));
            for (index, file) in files {
                if let Some(found) = executable(&file) {
                    return Ok((Answer::Found { index }, with_directory(found)));
                }
            }
            Err(Errno::NOENT)
        }
        Request::DependsOnProcess(raw) => {
            Ok((Answer::Truth(direct::depends_on_process(path(raw))), Vec::new()))
        }
        Request::Read(raw) => Ok((Answer::Found { index: 0 }, vec![read(path(raw))?])),
        Request::MakeDirectory(raw) => {
            direct::make_directory(path(raw))
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            Ok((Answer::Found { index: 0 }, open_with_directory(path(raw))?))
        }
    }
}

fn open_with_directory(path: &Path) -> Result<Vec<OwnedFd>, Errno> {
    let found = open(path, OFlags::PATH)?;
    Ok(if is_regular(&rustix::fs::fstat(&found)?) {
        with_directory(found)
    } else {
        vec![found]
    })
}

/// An executable regular file. It is opened without being used: of a FIFO or a device nothing is noticed.
fn executable(path: &Path) -> Option<OwnedFd> {
    let found = open(path, OFlags::PATH).ok()?;
    let stat = rustix::fs::fstat(&found).ok()?;
    (is_regular(&stat) && stat.st_mode & 0o111 != 0).then_some(found)
}

/// A file and the directory in which it really lies, whose owner and mode will be asked for next.
fn with_directory(file: OwnedFd) -> Vec<OwnedFd> {
    let directory = rustix::fs::readlinkat(CWD, in_proc(&file), Vec::new())
        .ok()
        .and_then(|real| real.into_string().ok())
        .and_then(|real| open(Path::new(&real).parent()?, OFlags::PATH | OFlags::DIRECTORY).ok());
    [Some(file), directory].into_iter().flatten().collect()
}

/// A regular file to be read. It is opened anew from a descriptor that is known to be one, so that nothing else is
/// ever opened for reading.
fn read(path: &Path) -> Result<OwnedFd, Errno> {
    let found = open(path, OFlags::PATH)?;
    if !is_regular(&rustix::fs::fstat(&found)?) {
        return Err(Errno::INVAL);
    }
    let is_in_user_space = i128::from(rustix::fs::fstatfs(&found)?.f_type) == i128::from(FUSE_SUPER_MAGIC);
    let file = open(
        &in_proc(&found),
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
    )?;
    if is_in_user_space { copy(&file) } else { Ok(file) }
}

/// The content as a memory file: reading it keeps nobody waiting.
fn copy(file: &OwnedFd) -> Result<OwnedFd, Errno> {
    let copy = rustix::fs::memfd_create(
        "countersign-eyes",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    let mut buffer = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        let read = match rustix::io::read(file, &mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        total += read;
        if total > MAX_COPY_BYTES {
            return Err(Errno::FBIG);
        }
        let mut rest = buffer.get(..read).unwrap_or_default();
        while !rest.is_empty() {
            let written = rustix::io::write(&copy, rest)?;
            rest = rest.get(written..).unwrap_or_default();
        }
    }
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&copy, seals)?;
    rustix::fs::seek(&copy, rustix::fs::SeekFrom::Start(0))?;
    Ok(copy)
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}
