//! What a supervisor has to tell the server, in bounded memory and without ever waiting for it.
//!
//! The beginning of a run's output goes to the server whole. After that only its newest part does, now and then:
//! the rest is in the spool, and a server that reads slowly, or not at all, must not slow the command down.

use std::{collections::VecDeque, os::fd::BorrowedFd, time::Duration};

use rustix::{io::Errno, net::SendFlags};

use countersign_domain::OutputStream;

use super::{
    limits::{LIVE_BYTES, TAIL_BYTES, TAIL_INTERVAL},
    wire::{self, FromSupervisor},
};

#[derive(Debug)]
pub(super) struct Outbox {
    queue: Vec<u8>,
    sent: usize,
    /// Bytes of output that are still sent without holes.
    live_room: usize,
    tail: VecDeque<(OutputStream, Vec<u8>)>,
    tail_bytes: usize,
    skipped: u64,
    next_tail: Duration,
}

/// What became of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// The rest must wait until the stream takes more.
    Part,
    /// Nobody is there any more.
    Nobody,
}

impl Outbox {
    pub(super) const fn new() -> Self {
        Self {
            queue: Vec::new(),
            sent: 0,
            live_room: LIVE_BYTES,
            tail: VecDeque::new(),
            tail_bytes: 0,
            skipped: 0,
            next_tail: Duration::ZERO,
        }
    }

    /// For a server that has just attached and reads from the spool what there is so far: `seen` bytes.
    pub(super) fn after_the_spool(seen: u64) -> Self {
        let mut outbox = Self::new();
        outbox.live_room = LIVE_BYTES.saturating_sub(usize::try_from(seen).unwrap_or(usize::MAX));
        outbox
    }

    pub(super) fn say(&mut self, message: &FromSupervisor) {
        message.encode(&mut self.queue);
    }

    pub(super) fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let (live, rest) = bytes.split_at(self.live_room.min(bytes.len()));
        if !live.is_empty() {
            wire::encode_output(&mut self.queue, stream, live);
            self.live_room -= live.len();
        }
        if !rest.is_empty() {
            self.live_room = 0;
            self.push_tail(stream, rest);
        }
    }

    fn push_tail(&mut self, stream: OutputStream, bytes: &[u8]) {
        let (dropped, newest) = bytes.split_at(bytes.len().saturating_sub(TAIL_BYTES));
        self.tail.push_back((stream, newest.to_vec()));
        self.tail_bytes += newest.len();
        let mut excess = self.tail_bytes.saturating_sub(TAIL_BYTES);
        self.tail_bytes -= excess;
        self.skipped += size(excess + dropped.len());
        while excess > 0
            && let Some((_, oldest)) = self.tail.front_mut()
        {
            let cut = excess.min(oldest.len());
            oldest.drain(..cut);
            excess -= cut;
            if oldest.is_empty() {
                self.tail.pop_front();
            }
        }
    }

    /// When the newest output should be sent, if there is any that was not.
    pub(super) fn tail_due(&self) -> Option<Duration> {
        (!self.tail.is_empty() && self.is_empty()).then_some(self.next_tail)
    }

    /// Queues the newest output, and says how much is left out before it.
    pub(super) fn queue_tail(&mut self, now: Duration) {
        self.next_tail = now + TAIL_INTERVAL;
        if self.skipped > 0 {
            self.say(&FromSupervisor::Skipped(self.skipped));
            self.skipped = 0;
        }
        for (stream, bytes) in std::mem::take(&mut self.tail) {
            wire::encode_output(&mut self.queue, stream, &bytes);
        }
        self.tail_bytes = 0;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.sent == self.queue.len()
    }

    /// Sends as much as the stream takes at once.
    pub(super) fn send(&mut self, stream: BorrowedFd<'_>) -> Sent {
        while let Some(rest) = self.queue.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match rustix::net::send(stream, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Sent::Part,
                Err(_) => return Sent::Nobody,
            }
        }
        self.queue.clear();
        self.sent = 0;
        Sent::All
    }
}

fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: OutputStream = OutputStream::Stdout;

    /// What the server gets: the bytes that it sees, with a hole as `None` per byte.
    fn received(outbox: &Outbox) -> Vec<Option<u8>> {
        let mut inbox = wire::Inbox::default();
        inbox.push(&outbox.queue);
        let mut all = Vec::new();
        while let Some(message) = inbox.next_from_supervisor().unwrap() {
            if let FromSupervisor::Output(_, bytes) = message {
                all.extend(bytes.into_iter().map(Some));
            } else if let FromSupervisor::Skipped(count) = message {
                all.extend(vec![None; usize::try_from(count).unwrap()]);
            } else {
                panic!("{message:?}");
            }
        }
        all
    }

    #[test]
    fn the_beginning_is_whole_the_middle_is_counted_and_the_end_is_there() {
        let all: Vec<u8> = (0..3_000_000_u32)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        for size in [1000, 65_536, 300_000] {
            let mut outbox = Outbox::new();
            for piece in all.chunks(size) {
                outbox.output(OUT, piece);
            }
            outbox.queue_tail(Duration::ZERO);
            let received = received(&outbox);
            assert_eq!(received.len(), all.len());
            for (at, (got, expect)) in received.iter().zip(&all).enumerate() {
                let must_be_there = at < LIVE_BYTES || at >= all.len() - TAIL_BYTES;
                assert_eq!(*got, must_be_there.then_some(*expect), "at {at}");
            }
        }
    }

    #[test]
    fn memory_is_bounded_however_much_comes() {
        let mut outbox = Outbox::new();
        let piece = vec![b'x'; 65_536];
        for _ in 0..1000 {
            outbox.output(OUT, &piece);
        }
        assert!(outbox.queue.len() < LIVE_BYTES + 1024);
        assert_eq!(outbox.tail_bytes, TAIL_BYTES);
    }
}
