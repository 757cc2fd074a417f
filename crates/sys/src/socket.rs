//! Unix sockets that carry descriptors, as the server and the runner use them.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    cmsg_space,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
        sockopt,
    },
};

/// The most descriptors that one frame may carry: what the kernel takes (`SCM_MAX_FD`).
pub(crate) const MAX_DESCRIPTORS: usize = 253;

/// A connected pair that keeps frames whole, close-on-exec. The first end does not block.
///
/// # Errors
/// What the kernel answers.
pub fn frame_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pair(SocketType::SEQPACKET)?;
    set_nonblocking(&ours)?;
    Ok((ours, theirs))
}

/// A connected pair of byte streams, close-on-exec.
///
/// # Errors
/// What the kernel answers.
pub fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::STREAM)
}

fn pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

fn set_nonblocking(socket: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(socket, true)?)
}

/// Sends one frame with descriptors: all of it or nothing.
///
/// # Errors
/// `WouldBlock` when the queue is full; otherwise what the kernel answers.
pub fn send_frame(socket: BorrowedFd<'_>, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(frame)], &mut control, flags)?;
    if sent == frame.len() {
        Ok(())
    } else {
        Err(io::Error::from(io::ErrorKind::WriteZero))
    }
}

/// What [`receive_frame`] got.
#[derive(Debug)]
pub enum Received {
    /// A whole frame of this many bytes, with its descriptors (close-on-exec).
    Frame(usize, Vec<OwnedFd>),
    /// A frame that was cut or lost descriptors on its way; what came of them is closed again.
    Cut,
    /// The other end is closed.
    Closed,
    /// Nothing came in the time that the socket waits.
    Nothing,
}

/// Waits for one frame, as long as [`set_receive_timeout`] says.
///
/// # Errors
/// What the kernel answers.
pub fn receive_frame(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = match rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(into)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    ) {
        Ok(received) => received,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(Received::Nothing),
        Err(rustix::io::Errno::CONNRESET | rustix::io::Errno::PIPE) => return Ok(Received::Closed),
        Err(error) => return Err(error.into()),
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Ok(Received::Cut);
    }
    // No sender makes an empty frame, so this is the end of the connection.
    if received.bytes == 0 && descriptors.is_empty() {
        return Ok(Received::Closed);
    }
    Ok(Received::Frame(received.bytes, descriptors))
}

/// A socket of this name that keeps frames whole. It neither listens yet nor blocks.
///
/// # Errors
/// What the kernel answers, e.g. when something has that name.
pub fn bind_frames(path: &Path) -> io::Result<OwnedFd> {
    let socket = frame_socket()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Connects to a socket that keeps frames whole. The end does not block, and is told of each frame who sent it.
///
/// # Errors
/// What the kernel answers.
pub fn connect_frames(path: &Path) -> io::Result<OwnedFd> {
    let socket = frame_socket()?;
    // Before there is anybody to send.
    sockopt::set_socket_passcred(&socket, true)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn frame_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Whether this is a Unix socket that keeps frames whole and listens.
pub fn listens_for_frames(socket: impl AsFd) -> bool {
    let socket = socket.as_fd();
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET)
        && sockopt::socket_acceptconn(socket) == Ok(true)
}

/// Whether this is a TCP socket that listens.
pub fn listens_for_connections(socket: impl AsFd) -> bool {
    let socket = socket.as_fd();
    let domain = sockopt::socket_domain(socket);
    matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6))
        && sockopt::socket_type(socket) == Ok(SocketType::STREAM)
        && sockopt::socket_acceptconn(socket) == Ok(true)
}

/// The peer that came to a socket that listens and does not block; `None` when no peer did, or when it left again. The
/// end that is returned blocks.
///
/// # Errors
/// What the kernel answers.
pub fn accept(listener: impl AsFd) -> io::Result<Option<OwnedFd>> {
    use rustix::io::Errno;
    match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits for one frame without descriptors at an end of [`connect_frames`]. Returns its length and the account of the
/// process that sent it, as the kernel knows it. From then on frames no longer say so.
///
/// # Errors
/// What the kernel answers; `InvalidData` for a frame that is cut, brings descriptors or does not say who sent it, and
/// `TimedOut` and `BrokenPipe` for none.
pub fn receive_first_frame(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(usize, u32)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmCredentials(1), ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(into)];
    let received = match rustix::net::recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
        Ok(received) => received,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Err(error) => return Err(error.into()),
    };
    if received.bytes == 0 {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    let mut sender = None;
    let mut is_whole = !received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials.uid.as_raw()),
            RecvAncillaryMessage::ScmRights(rights) => {
                drop(rights);
                is_whole = false;
            }
            _ => is_whole = false,
        }
    }
    sockopt::set_socket_passcred(socket, false)?;
    match sender.filter(|_| is_whole) {
        Some(sender) => Ok((received.bytes, sender)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Whether the other end is gone, as far as that is known without waiting.
pub fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags};
    let mut descriptors = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    let polled = super::process::poll(&mut descriptors, Some(std::time::Duration::ZERO));
    let [socket] = descriptors;
    polled.is_err() || socket.revents().intersects(PollFlags::RDHUP | PollFlags::HUP)
}

/// How long [`receive_frame`] waits; `None` is for ever.
///
/// # Errors
/// What the kernel answers.
pub fn set_receive_timeout(socket: BorrowedFd<'_>, timeout: Option<std::time::Duration>) -> io::Result<()> {
    Ok(sockopt::set_socket_timeout(
        socket,
        sockopt::Timeout::Recv,
        timeout,
    )?)
}
