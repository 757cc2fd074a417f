//! The standard input of a run, when it is kept open.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// What waits to be read by the command. Bounded by the server's credit (`INPUT_BYTES`).
#[derive(Debug, Default)]
pub(super) struct Input {
    /// `None`: closed, or never open.
    pipe: Option<OwnedFd>,
    queue: Vec<u8>,
    ends: bool,
}

impl Input {
    /// An input that goes into `pipe`, which must not block.
    pub(super) const fn open(pipe: OwnedFd) -> Self {
        Self {
            pipe: Some(pipe),
            queue: Vec::new(),
            ends: false,
        }
    }

    /// Queues bytes; how many of them are dropped at once, because nobody reads any more.
    pub(super) fn push(&mut self, bytes: &[u8]) -> usize {
        if self.pipe.is_none() || self.ends {
            return bytes.len();
        }
        self.queue.extend_from_slice(bytes);
        0
    }

    /// Closes it after what is queued.
    pub(super) fn end(&mut self) {
        self.ends = true;
        if self.queue.is_empty() {
            self.pipe = None;
        }
    }

    /// The pipe, while something waits for it to take more.
    pub(super) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.pipe
            .as_ref()
            .filter(|_| !self.queue.is_empty())
            .map(AsFd::as_fd)
    }

    /// Writes what the pipe takes; how many bytes are off the queue.
    pub(super) fn write(&mut self) -> usize {
        let before = self.queue.len();
        while let Some(pipe) = self.pipe.as_ref().filter(|_| !self.queue.is_empty()) {
            match rustix::io::write(pipe, &self.queue) {
                Ok(written) => drop(self.queue.drain(..written)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.pipe = None;
                    self.queue.clear();
                }
            }
        }
        if self.ends && self.queue.is_empty() {
            self.pipe = None;
        }
        before - self.queue.len()
    }
}
