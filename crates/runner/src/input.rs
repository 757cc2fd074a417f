//! The standard input of a run, when it is kept open.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::io::Errno;

/// What waits to be read by the command. The server's credit (`INPUT_BYTES`) bounds what the server adds, and the
/// supervisor bounds what it adds itself.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// `None`: closed, or never open.
    sink: Option<OwnedFd>,
    queue: Vec<u8>,
    /// Whose bytes these are, in their order.
    origins: VecDeque<(InputSource, usize)>,
    ends: bool,
    /// Whether what came last is a line that is not ended.
    is_within_line: bool,
}

/// Who wants bytes to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputSource {
    Server,
    /// Without the server's credit.
    Supervisor,
}

impl Input {
    /// An input that goes into `sink`, which must not block.
    pub(super) fn open(sink: OwnedFd) -> Self {
        Self {
            sink: Some(sink),
            ..Self::default()
        }
    }

    /// Queues bytes; how many of them are dropped at once, because nobody reads any more.
    pub(super) fn push(&mut self, bytes: &[u8]) -> usize {
        if self.sink.is_none() || self.ends {
            return bytes.len();
        }
        if let Some(last) = bytes.last() {
            self.is_within_line = !matches!(last, b'\n' | b'\r');
        }
        self.add(InputSource::Server, bytes);
        0
    }

    /// Queues bytes of our own.
    pub(super) fn push_own(&mut self, bytes: &[u8]) {
        if self.sink.is_some() && !self.ends {
            self.add(InputSource::Supervisor, bytes);
        }
    }

    fn add(&mut self, origin: InputSource, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.queue.extend_from_slice(bytes);
        match self.origins.back_mut() {
            Some((last, length)) if *last == origin => *length += bytes.len(),
            Some(_) | None => self.origins.push_back((origin, bytes.len())),
        }
    }

    /// Bytes of our own that wait.
    pub(super) fn own_bytes(&self) -> usize {
        let own = self
            .origins
            .iter()
            .filter(|(origin, _)| *origin == InputSource::Supervisor);
        own.map(|(_, length)| length).sum()
    }

    /// Closes it after what is queued.
    pub(super) fn end(&mut self) {
        self.ends = true;
        if self.queue.is_empty() {
            self.sink = None;
        }
    }

    /// Types the character that ends the input of a program that reads a terminal line by line. Within a line the first
    /// character only hands the line over, and a second one ends the input.
    pub(super) fn type_end(&mut self, character: u8) {
        if std::mem::take(&mut self.is_within_line) {
            self.push_own(&[character]);
        }
        self.push_own(&[character]);
    }

    /// The sink, while something waits for it to take more.
    pub(super) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.sink
            .as_ref()
            .filter(|_| !self.queue.is_empty())
            .map(AsFd::as_fd)
    }

    /// Writes what the sink takes; how many bytes of the server's are off the queue.
    pub(super) fn write(&mut self) -> usize {
        let mut off = 0;
        while let Some(sink) = self.sink.as_ref().filter(|_| !self.queue.is_empty()) {
            match rustix::io::write(sink, &self.queue) {
                Ok(written) => off += self.take_off(written),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.sink = None;
                    off += self.take_off(self.queue.len());
                }
            }
        }
        if self.ends && self.queue.is_empty() {
            self.sink = None;
        }
        off
    }

    /// Takes bytes from the front; how many of them are the server's.
    fn take_off(&mut self, count: usize) -> usize {
        self.queue.drain(..count);
        let (mut left, mut of_server) = (count, 0);
        while left > 0
            && let Some((origin, length)) = self.origins.front_mut()
        {
            let part = left.min(*length);
            *length -= part;
            left -= part;
            if *origin == InputSource::Server {
                of_server += part;
            }
            if *length == 0 {
                self.origins.pop_front();
            }
        }
        of_server
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::PipeFlags;

    use super::*;

    #[test]
    fn only_what_the_server_sent_is_credited_to_it() {
        let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut input = Input::open(write_end);
        assert_eq!(input.push(b"abc"), 0);
        input.push_own(b"12");
        assert_eq!(input.push(b"de"), 0);
        input.type_end(4);
        input.type_end(4);
        assert_eq!(input.own_bytes(), 5);
        assert_eq!(input.write(), 5);
        assert_eq!(input.own_bytes(), 0);
        let mut read = [0; 100];
        let length = rustix::io::read(&read_end, &mut read).unwrap();
        // The first one ends a line that is not ended otherwise.
        assert_eq!(&read[..length], b"abc12de\x04\x04\x04");
        drop(read_end);
        assert_eq!(input.push(b"nobody"), 0);
        input.push_own(b"1");
        assert_eq!(input.write(), 6);
        assert_eq!((input.push(b"x"), input.own_bytes()), (1, 0));
    }
}
