//! Unix sockets that carry descriptors, as the server and the runner use them.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    cmsg_space,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    },
};

/// The most descriptors that one frame may carry: what the kernel takes (`SCM_MAX_FD`).
pub const MAX_DESCRIPTORS: usize = 253;

/// A connected pair that keeps frames whole, close-on-exec. The first end does not block.
///
/// # Errors
/// What the kernel answers.
pub fn frame_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pair(SocketType::SEQPACKET)?;
    set_nonblocking(&ours)?;
    Ok((ours, theirs))
}

/// A connected pair of byte streams, close-on-exec. The first end does not block.
///
/// # Errors
/// What the kernel answers.
pub fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pair(SocketType::STREAM)?;
    set_nonblocking(&ours)?;
    Ok((ours, theirs))
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

/// How long [`receive_frame`] waits; `None` is for ever.
///
/// # Errors
/// What the kernel answers.
pub fn set_receive_timeout(socket: BorrowedFd<'_>, timeout: Option<std::time::Duration>) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_timeout(
        socket,
        rustix::net::sockopt::Timeout::Recv,
        timeout,
    )?)
}
