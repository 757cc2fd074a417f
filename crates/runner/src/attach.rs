//! The socket at which a supervisor without a server waits for one.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{AtFlags, Mode},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};

use countersign_sys::{faults, peer};

/// Where supervisors wait, and for whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meeting<'a> {
    /// The directory of the sockets: that of the run files, or under another account one of their own.
    pub(super) directory: BorrowedFd<'a>,
    /// The server's account. Nobody else is listened to.
    pub(super) server: u32,
}

impl Meeting<'_> {
    /// Who may connect: the account itself, or the group that the directory gives to what is made in it.
    fn mode(self) -> Mode {
        if self.server == rustix::process::geteuid().as_raw() {
            Mode::RUSR | Mode::WUSR
        } else {
            Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP
        }
    }
}

/// `<runId>.s`, there only while nobody is attached. Removed when dropped.
#[derive(Debug)]
pub(super) struct Listener<'a> {
    socket: OwnedFd,
    meeting: Meeting<'a>,
    name: String,
}

impl<'a> Listener<'a> {
    /// Binds through the directory's descriptor: its path may be longer than a socket address can be.
    pub(super) fn bind(meeting: Meeting<'a>, run_id: &str) -> rustix::io::Result<Self> {
        let directory = meeting.directory;
        let name = format!("{run_id}.s");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Only the holder of the run file's lock gets here, so what is there is a dead supervisor's.
        match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))?;
        faults::fail_at("sup.attach")?;
        rustix::net::bind(&socket, &address)?;
        let listener = Self {
            socket,
            meeting,
            name,
        };
        // The mask of the commands is in force here, and may forbid our own server to connect.
        rustix::fs::chmodat(directory, &listener.name, meeting.mode(), AtFlags::empty())?;
        rustix::net::listen(&listener.socket, 4)?;
        Ok(listener)
    }

    /// The server that connected, if it is of the account that it should be of.
    pub(super) fn accept(&self) -> Option<OwnedFd> {
        let stream = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC).ok()?;
        peer::is_of(&stream, self.meeting.server).then_some(stream)
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
        rustix::fs::unlinkat(self.meeting.directory, &self.name, AtFlags::empty()).unwrap_or(());
    }
}
