//! Worker slots: what each supervisor is doing, in memory that the supervisors share with the runner.
//!
//! The runner must know when too few supervisors are idle, but a message per run would wake it for every command. So each
//! supervisor marks its own slot, and wakes the runner only when it sees that few are idle. A slot never says what a
//! supervisor runs. The pool that forks supervisors is [`super::pool`].

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU8, Ordering},
};

use rustix::event::EventfdFlags;

use countersign_sys::process::SharedBytes;

use super::limits::MIN_IDLE;

const FREE: u8 = 0;
const IDLE: u8 = 1;
const BUSY: u8 = 2;

#[derive(Debug)]
pub(super) struct WorkerSlots {
    marks: SharedBytes,
    bell: OwnedFd,
}

impl WorkerSlots {
    pub(super) fn new(count: usize) -> io::Result<Self> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            marks: SharedBytes::new(count)?,
            bell,
        })
    }

    /// Readable when a supervisor saw that few are idle.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(super) fn clear_bell(&self) {
        // Nothing to read is fine: the ring of another supervisor was taken together with this one.
        rustix::io::read(&self.bell, &mut [0; 8]).unwrap_or(0);
    }

    pub(super) fn idle(&self) -> usize {
        self.marks
            .get()
            .iter()
            .filter(|mark| mark.load(Ordering::Relaxed) == IDLE)
            .count()
    }

    /// Takes a free slot for a supervisor that is about to be forked, which counts as idle from now on.
    pub(super) fn take(&self) -> Option<WorkerSlot> {
        let mark = self
            .marks
            .get()
            .iter()
            .find(|mark| mark.load(Ordering::Relaxed) == FREE)?;
        mark.store(IDLE, Ordering::Relaxed);
        Some(WorkerSlot(mark))
    }
}

/// One supervisor's mark. Only it and, after its death, the runner change it.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerSlot(&'static AtomicU8);

impl WorkerSlot {
    pub(super) fn free(self) {
        self.0.store(FREE, Ordering::Relaxed);
    }

    pub(super) fn set_idle(self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }

    /// Marks it busy, and rings when that leaves too few.
    pub(super) fn set_busy(self, slots: &WorkerSlots) {
        self.0.store(BUSY, Ordering::SeqCst);
        if slots.idle() < MIN_IDLE {
            // Full means that it rings already.
            rustix::io::write(&slots.bell, &1_u64.to_ne_bytes()).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(slots: &WorkerSlots) -> bool {
        rustix::io::read(&slots.bell, &mut [0; 8]).is_ok()
    }

    #[test]
    fn the_bell_rings_only_when_few_are_idle() {
        let slots = WorkerSlots::new(4).unwrap();
        let taken: Vec<_> = (0..4).map(|_| slots.take().unwrap()).collect();
        assert!(slots.take().is_none());
        assert_eq!(slots.idle(), 4);
        taken[0].set_busy(&slots);
        taken[1].set_busy(&slots);
        assert!(!rings(&slots));
        taken[2].set_busy(&slots);
        assert!(rings(&slots));
        taken[0].set_idle();
        taken[1].free();
        assert_eq!(slots.idle(), 2);
        assert!(slots.take().is_some());
    }
}
