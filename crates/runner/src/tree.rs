//! Killing everything that a run started, however it hides.
//!
//! A process may leave its group, its session and its parent, and may ignore every signal but `SIGKILL`. What it
//! cannot leave is its reaper: orphans of a run become children of its supervisor, so a supervisor that keeps
//! killing its descendants until it has none has reached all of them. When a supervisor itself is killed, its
//! children go to the runner, which does the same ([`kill_descendants_except`]). Should both be killed, what
//! stayed in the run's session can still be found by anybody who reads the fence ([`kill_session`]).
//!
//! A process that begins another one and ends, over and over, may be gone each time it is struck. So a look follows
//! upon the other without a pause until one finds nobody new, and where there are control groups, the group is killed.

use std::{collections::BTreeSet, time::Duration};

use rustix::process::Signal;

use countersign_sys::process::{self, Pid, Process};

use super::cgroup::Home;

/// How far a kill reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillLevel {
    /// Every descendant, as long as the supervisor or the runner lives; the session after that.
    Subreaper,
    /// Every descendant even when supervisor and runner are both killed: each supervisor has a control group.
    ControlGroup,
}

/// Passes over the process list after which a session counts as unkillable. Each pass kills what the one before
/// could not see yet.
const MAX_PASSES: usize = 64;

/// How long looks may follow upon each other before the caller does something else for a moment.
const LOOKING_TIME: Duration = Duration::from_millis(10);

/// What [`kill_descendants_except`] came upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Struck {
    /// The last look found nobody but who had been struck before.
    All,
    /// Each look found a new process.
    NotAll,
}

/// Sends a signal to every descendant of this process that one look finds, but those in a group that has had it: a program
/// that is told to end twice may think that it is not to take its leave.
pub(super) fn signal_descendants_outside(group: Pid, signal: Signal) {
    for pid in descendants(&[], |_found| ()) {
        if process::group_of(pid) != Some(group) {
            process::signal_process(pid, signal);
        }
    }
}

/// Kills every descendant of this process but those in `spared` and their descendants, looking again until nobody
/// new is found or some time has passed.
pub(super) fn kill_descendants_except(spared: &[Pid]) -> Struck {
    let until = process::monotonic() + LOOKING_TIME;
    let mut struck = BTreeSet::new();
    loop {
        let found = descendants(spared, |pid| process::signal_process(pid, Signal::KILL));
        if found.is_subset(&struck) {
            return Struck::All;
        }
        if process::monotonic() >= until {
            return Struck::NotAll;
        }
        struck.extend(found);
    }
}

/// The descendants of this process that one look finds, but those in `spared` and their descendants; each is handed to
/// `strike` before its children are looked for.
fn descendants(spared: &[Pid], strike: impl Fn(Pid)) -> BTreeSet<Pid> {
    let own = rustix::process::getpid().as_raw_pid();
    let mut queue = process::children(own).unwrap_or_default();
    let mut found = BTreeSet::new();
    while let Some(pid) = queue.pop() {
        if pid != own && !spared.contains(&pid) && found.insert(pid) {
            strike(pid);
            queue.extend(process::children(pid).unwrap_or_default());
        }
    }
    found
}

/// Kills what is left of a run whose supervisor is gone: by the session of its first process, and by the groups of all
/// supervisors that are gone. To be called only for a process of this boot.
pub(super) fn sweep(leader: Pid, start_time: u64, home: Option<&Home>) {
    if let Some(home) = home {
        home.sweep();
    }
    kill_session(leader, start_time);
}

/// Kills the processes that are left in the session of a run whose supervisor is gone, and their descendants.
///
/// The session's number cannot belong to another session as long as one of its members lives, so nothing else is
/// hit.
fn kill_session(leader: Pid, start_time: u64) {
    for _pass in 0..MAX_PASSES {
        let members = members(leader, start_time);
        if members.is_empty() {
            return;
        }
        for pid in members {
            process::signal_process(pid, Signal::KILL);
        }
    }
}

fn members(leader: Pid, start_time: u64) -> BTreeSet<Pid> {
    let processes: Vec<Process> = process::list()
        .unwrap_or_default()
        .into_iter()
        .filter_map(process::inspect)
        .collect();
    let is_another_leader = |process: &Process| process.pid == leader && process.start_time != start_time;
    if processes.iter().any(is_another_leader) {
        return BTreeSet::new();
    }
    let mut members: BTreeSet<Pid> = processes
        .iter()
        .filter(|process| process.session == leader && process.start_time >= start_time)
        .map(|process| process.pid)
        .collect();
    loop {
        let before = members.len();
        let children = processes
            .iter()
            .filter(|process| members.contains(&process.parent))
            .map(|process| process.pid);
        let children: Vec<_> = children.collect();
        members.extend(children);
        if members.len() == before {
            break;
        }
    }
    let zombies = processes.iter().filter(|process| process.is_zombie);
    for zombie in zombies {
        members.remove(&zombie.pid);
    }
    members
}
