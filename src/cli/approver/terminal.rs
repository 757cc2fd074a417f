//! The terminal of the person: key by key, without echo, and put back as it was.

use std::{
    fs::OpenOptions,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
};

use rustix::{
    fs::OFlags,
    termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios},
};
use tokio::io::{Interest, unix::AsyncFd};

use countersign_sys::readiness;

use super::state::Screen;

/// Most bytes that one reading takes.
const PIECE: usize = 1024;

/// The controlling terminal, read key by key until it is dropped.
#[derive(Debug)]
pub(in crate::cli) struct Terminal {
    tty: AsyncFd<OwnedFd>,
    before: Termios,
    /// Bytes of a character that is not whole yet.
    partial: Vec<u8>,
}

impl Terminal {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// When there is none, or it cannot be set.
    pub(in crate::cli) fn open() -> io::Result<Self> {
        // Opened anew: not to block is a state of the opening, and the standard streams share theirs with the shell.
        let nonblocking = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = i32::try_from(nonblocking.bits()).map_err(|_too_large| io::ErrorKind::InvalidInput)?;
        let tty = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open("/dev/tty")?;
        let before = rustix::termios::tcgetattr(&tty)?;
        let mut keys = before.clone();
        keys.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        // A stopped approver would leave the shell with a terminal that shows nothing.
        keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        rustix::termios::tcsetattr(&tty, OptionalActions::Flush, &keys)?;
        Ok(Self {
            tty: readiness::watch(OwnedFd::from(tty), Interest::READABLE)?,
            before,
            partial: Vec::new(),
        })
    }

    /// The keys that come next, in the piece in which they came; `None` when the terminal is gone.
    ///
    /// # Cancel safety
    /// Cancel safe: what was read is given at once.
    pub(in crate::cli) async fn keys(&mut self) -> io::Result<Option<String>> {
        loop {
            let mut ready = self.tty.readable().await?;
            let mut piece = [0; PIECE];
            let read = ready.try_io(|tty| Ok(rustix::io::read(tty.get_ref().as_fd(), &mut piece)?));
            let read = match read {
                Ok(Ok(0)) => return Ok(None),
                Ok(Ok(read)) => read,
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A terminal whose other end was closed.
                Ok(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                    return Ok(None);
                }
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => continue,
            };
            self.partial
                .extend_from_slice(piece.get(..read).unwrap_or_default());
            let keys = take_whole(&mut self.partial);
            if !keys.is_empty() {
                return Ok(Some(keys));
            }
        }
    }

    /// Forgets what was typed and not read: it was meant for what is not shown any more.
    pub(super) fn forget_typed(&self) {
        // A terminal that is gone says so when it is read.
        let _gone = rustix::termios::tcflush(self.tty.get_ref(), QueueSelector::IFlush);
    }

    /// How much it shows, as it is now.
    pub(in crate::cli) fn screen(&self) -> Screen {
        let size = rustix::termios::tcgetwinsize(self.tty.get_ref());
        let (rows, columns) = size.map_or((0, 0), |size| {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        });
        // Not every terminal says how large it is.
        Screen {
            rows: if rows == 0 { 24 } else { rows },
            columns: if columns == 0 { 80 } else { columns },
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _gone = rustix::termios::tcsetattr(self.tty.get_ref(), OptionalActions::Flush, &self.before);
    }
}

/// Takes the whole characters at the beginning; a broken one becomes U+FFFD.
fn take_whole(bytes: &mut Vec<u8>) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    };
    let rest = bytes.split_off(whole);
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_in_two_pieces_waits_for_its_end() {
        let mut bytes = "a\u{fc}".as_bytes()[..2].to_vec();
        assert_eq!(take_whole(&mut bytes), "a");
        bytes.push(0xbc);
        assert_eq!(take_whole(&mut bytes), "ü");
        bytes.extend([b'x', 0xff, b'y']);
        assert_eq!(take_whole(&mut bytes), "x\u{fffd}y");
    }
}
