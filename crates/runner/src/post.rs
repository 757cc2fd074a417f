//! The post of a supervisor: what it was born with, and what it uses for every run.

use std::os::fd::BorrowedFd;

use countersign_sys::{
    namespace::Confines,
    process::{ChildSignals, Launcher, Pid},
};

use super::{
    attach::Meeting,
    cgroup::{Home, OwnGroup},
    enclose::Workshop,
    worker_slots::{WorkerSlot, WorkerSlots},
};

/// Where a supervisor stands and what it was born with.
#[derive(Debug)]
pub(super) struct Post<'a> {
    /// The end at which all supervisors wait.
    pub(super) socket: BorrowedFd<'a>,
    /// Where it waits for a server when it has none.
    pub(super) meeting: Meeting<'a>,
    /// Directory of the spools; `None` where each comes opened.
    pub(super) output: Option<BorrowedFd<'a>>,
    /// Where confined commands run; `None` where there is no such place.
    pub(super) confines: Option<&'a Confines>,
    /// Where runs are held to their limits; `None` where that cannot be.
    pub(super) home: Option<&'a Home>,
    /// Its own group; `None` where it has none.
    pub(super) group: Option<&'a OwnGroup>,
    pub(super) boot_id: &'a str,
    pub(super) slots: &'a WorkerSlots,
    pub(super) slot: WorkerSlot,
    pub(super) runner: Pid,
}

/// What a supervisor uses for every run.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) signals: ChildSignals,
    pub(super) launcher: Launcher,
    pub(super) workshop: Workshop,
}
