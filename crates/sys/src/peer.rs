//! Who is at the other end of a Unix socket.

use std::{io, os::fd::AsFd};

/// The uid of the process that connected or listened when the socket was made, as the kernel noted it.
///
/// # Errors
/// What the kernel answers, e.g. for something that is no Unix socket.
pub fn uid_of(socket: impl AsFd) -> io::Result<u32> {
    let credentials = rustix::net::sockopt::socket_peercred(socket)?;
    Ok(credentials.uid.as_raw())
}

/// Whether the other end runs under this uid. A failure to find out is "no".
pub fn is_of(socket: impl AsFd, uid: u32) -> bool {
    uid_of(socket).is_ok_and(|peer| peer == uid)
}
