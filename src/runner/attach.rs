//! The socket at which a supervisor without a server waits for one.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{AtFlags, Mode},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};

use crate::sys::peer;

/// `runs/<runId>.s`, there only while nobody is attached. Removed when dropped.
#[derive(Debug)]
pub(super) struct Listener<'a> {
    socket: OwnedFd,
    directory: BorrowedFd<'a>,
    name: String,
}

impl<'a> Listener<'a> {
    /// Binds through the directory's descriptor: its path may be longer than a socket address can be.
    pub(super) fn bind(directory: BorrowedFd<'a>, run_id: &str) -> rustix::io::Result<Self> {
        let name = format!("{run_id}.s");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Only the holder of the run file's lock gets here, so what is there is a dead supervisor's.
        match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))?;
        rustix::net::bind(&socket, &address)?;
        let listener = Self {
            socket,
            directory,
            name,
        };
        // The mask of the commands is in force here, and may forbid our own server to connect.
        rustix::fs::chmodat(
            directory,
            &listener.name,
            Mode::RUSR | Mode::WUSR,
            AtFlags::empty(),
        )?;
        rustix::net::listen(&listener.socket, 4)?;
        Ok(listener)
    }

    /// The server that connected, if it runs as the same user.
    pub(super) fn accept(&self) -> Option<OwnedFd> {
        let stream = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC).ok()?;
        peer::is_same_user(&stream).then_some(stream)
    }
}

impl AsFd for Listener<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        // One that stays is unlinked by the next supervisor, or goes with the run file.
        rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty()).unwrap_or(());
    }
}
