//! The server's end of the stream between it and one supervisor.
//!
//! Only reading is watched from the beginning. Writing is watched once something could not be sent at once, which is
//! rare: a stream that is watched for both wakes a thread for each run, only to hear that nothing was written to it yet.

use std::{io, os::fd::OwnedFd, sync::OnceLock};

use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{Interest, unix::AsyncFd};

use countersign_sys::readiness;

/// A connected stream socket. Nothing here blocks, however the socket itself is set.
#[derive(Debug)]
pub(super) struct Line {
    reading: AsyncFd<OwnedFd>,
    /// A second descriptor of the same socket, since one is watched for one thing.
    writing: OnceLock<AsyncFd<OwnedFd>>,
}

impl Line {
    /// Watches a connected socket; call it inside the async runtime.
    pub(super) fn watch(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            reading: readiness::watch(socket, Interest::READABLE)?,
            writing: OnceLock::new(),
        })
    }

    /// Waits for bytes; 0 is the end of the stream.
    ///
    /// # Cancel safety
    /// Cancelled, it has read nothing.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.reading.readable().await?;
            let received = ready.try_io(|socket| {
                let (received, _) = rustix::net::recv(socket.get_ref(), &mut *buffer, RecvFlags::DONTWAIT)?;
                Ok(received)
            });
            let Ok(received) = received else { continue };
            // The kernel tells of what comes from now on: asking again would only hear that nothing is there.
            if matches!(received, Ok(1..)) && received.as_ref().is_ok_and(|read| *read < buffer.len()) {
                ready.clear_ready();
            }
            return received;
        }
    }

    /// Sends as much as the stream takes at once; `WouldBlock` when that is nothing.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(self.reading.get_ref(), bytes, flags)?)
    }

    /// Waits until more can be sent. Call it after [`Self::try_write`] would have blocked.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub(super) async fn writable(&self) -> io::Result<()> {
        let writing = if let Some(writing) = self.writing.get() {
            writing
        } else {
            let socket = self.reading.get_ref().try_clone()?;
            let watched = readiness::watch(socket, Interest::WRITABLE)?;
            self.writing.get_or_init(|| watched)
        };
        writing.writable().await?.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use countersign_sys::socket;

    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_is_sent_when_there_is_room() {
        let (ours, theirs) = socket::stream_pair().unwrap();
        let (ours, theirs) = (Line::watch(ours).unwrap(), Line::watch(theirs).unwrap());
        let sent = vec![7_u8; 1 << 20];
        let write = async {
            let mut rest = sent.as_slice();
            let mut waited = 0;
            while !rest.is_empty() {
                match ours.try_write(rest) {
                    Ok(written) => rest = rest.split_at(written).1,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        waited += 1;
                        ours.writable().await.unwrap();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            waited
        };
        let read = async {
            let (mut received, mut buffer) = (0, vec![0; 1000]);
            while received < sent.len() {
                received += theirs.read(&mut buffer).await.unwrap();
            }
            received
        };
        let (waited, received) = tokio::join!(write, read);
        assert!(waited > 0, "more than a socket holds");
        assert_eq!(received, sent.len());
    }

    #[tokio::test]
    async fn the_end_is_heard_after_everything_that_came_before() {
        let (ours, theirs) = socket::stream_pair().unwrap();
        let line = Line::watch(ours).unwrap();
        let mut buffer = [0; 100];
        for part in [b"one".as_slice(), b"two"] {
            rustix::net::send(&theirs, part, SendFlags::NOSIGNAL).unwrap();
            assert_eq!(line.read(&mut buffer).await.unwrap(), 3);
            assert_eq!(buffer.get(..3), Some(part));
        }
        rustix::net::send(&theirs, b"end", SendFlags::NOSIGNAL).unwrap();
        drop(theirs);
        assert_eq!(line.read(&mut buffer).await.unwrap(), 3);
        assert_eq!(line.read(&mut buffer).await.unwrap(), 0);
        assert!(line.try_write(b"late").is_err());
    }
}
