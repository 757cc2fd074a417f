//! The steps of the processes of a run that are not resolved yet, and where those that could not be resolved led.
//!
//! What they prove is said in [`super::standing`].

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs,
};

use countersign_sys::process::{self, Pid};

use super::{Identity, lineage::Lineage, processes::identity};

/// Steps that are not resolved: more are only made on purpose.
const MAX_STEPS: usize = 4096;
/// Where there are more of them, those of processes that are gone are looked for.
const MANY_STEPS: usize = 16;
/// Places that processes which are gone were on their way to: more are only made on purpose.
const MAX_LEFT: usize = 64;
/// Directories in which processes stood astray: more are only made on purpose.
const MAX_ASTRAY: usize = 1024;

/// The steps of all processes of a run.
#[derive(Debug)]
pub(super) struct Steps {
    /// By the thread that made one and has asked for nothing else since.
    pub(super) open: BTreeMap<Pid, Step>,
    /// Where those of processes led that were gone before they could be resolved. What these left behind may stand there.
    pub(super) left: Vec<Landing>,
    /// Directories in which a process stood astray, by the name that led there if there was one only.
    pub(super) astray: BTreeMap<Identity, Option<Vec<u8>>>,
    /// Directories that were opened by these names, and not here: nothing says which ones they were.
    pub(super) taken: BTreeSet<Vec<u8>>,
    /// Whether processes may share a working directory.
    pub(super) is_shared: bool,
    /// Whether something could not be followed.
    pub(super) is_lost: bool,
    pub(super) lineage: Lineage,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) group: Pid,
    /// When the thread began: with its number that names it.
    pub(super) began: u64,
    /// Where it stood before.
    pub(super) from: Option<Identity>,
    pub(super) landing: Landing,
}

/// Where a step leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Landing {
    /// Into what has all of these names. Without any every directory will do.
    Named(Vec<Vec<u8>>),
    /// That depends on where it began, and that is astray.
    Astray,
}

impl Landing {
    /// Whether every directory will do.
    pub(super) fn is_any(&self) -> bool {
        *self == Self::Named(Vec::new())
    }
}

impl Steps {
    pub(super) fn new() -> Self {
        Self {
            open: BTreeMap::new(),
            left: Vec::new(),
            astray: BTreeMap::new(),
            taken: BTreeSet::new(),
            is_shared: false,
            is_lost: false,
            lineage: Lineage::new(),
        }
    }

    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    pub(super) fn stands_astray(&mut self, stands: Identity, landing: Landing) {
        let name = match landing {
            Landing::Named(names) => names.into_iter().next(),
            Landing::Astray => None,
        };
        match self.astray.entry(stands) {
            Entry::Vacant(entry) => {
                entry.insert(name);
            }
            Entry::Occupied(mut entry) if *entry.get() != name => {
                entry.insert(None);
            }
            Entry::Occupied(_) => {}
        }
        self.is_lost |= self.astray.len() > MAX_ASTRAY;
    }

    pub(super) fn are_others_open(&self, thread: Pid, group: Pid) -> bool {
        self.open
            .iter()
            .any(|(other, step)| *other != thread && step.group == group)
    }

    pub(super) fn begin(&mut self, thread: Pid, step: Step) {
        // Either may come first, and the second may begin where the first led.
        self.is_lost |=
            self.are_others_open(thread, step.group) || (self.is_shared && !step.landing.is_any());
        if self.open.len() >= MANY_STEPS {
            self.bury();
            self.is_lost |= self.open.len() >= MAX_STEPS;
        }
        if !self.is_lost {
            self.open.insert(thread, step);
        }
    }

    /// Takes the steps of processes that are gone from those that may be resolved.
    pub(super) fn bury(&mut self) {
        let steps = std::mem::take(&mut self.open);
        for (thread, step) in steps {
            let is_another =
                || step.group == thread && began(thread).is_some_and(|began| began != step.began);
            if is_gone(step.group) || is_another() {
                self.leave(step.landing);
            } else {
                self.open.insert(thread, step);
            }
        }
        // All that they started is gone as well.
        if !self.left.is_empty() && !self.lineage.has_orphans() {
            self.left.clear();
        }
    }

    pub(super) fn leave(&mut self, landing: Landing) {
        if !landing.is_any() && !self.left.contains(&landing) {
            self.left.push(landing);
            self.is_lost |= self.left.len() > MAX_LEFT;
        }
    }
}

impl Step {
    /// Where its thread stands now, unless it is about to end.
    pub(super) fn place_of(&self, thread: Pid) -> Option<Identity> {
        let place = identity(format!("/proc/{thread}/cwd")).ok()?;
        (began(thread) == Some(self.began)).then_some(place)
    }
}

fn began(thread: Pid) -> Option<u64> {
    process::inspect(thread).map(|found| found.start_time)
}

/// Whether a process ended, and what it started has another parent already.
pub(super) fn is_gone(group: Pid) -> bool {
    let threads = || fs::read_dir(format!("/proc/{group}/task")).map_or(0, Iterator::count);
    process::inspect(group).is_none_or(|found| found.is_zombie && threads() <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(landing: Landing) -> Step {
        Step {
            group: 7,
            began: 1,
            from: None,
            landing,
        }
    }

    #[test]
    fn steps_that_overlap_are_not_followed() {
        let plain = || step(Landing::Named(Vec::new()));
        let mut steps = Steps::new();
        steps.begin(7, plain());
        steps.begin(7, plain());
        assert!(!steps.is_lost, "one after the other");
        steps.begin(8, plain());
        assert!(steps.is_lost, "of two threads");
    }

    #[test]
    fn a_directory_that_processes_share_is_left_only_by_a_plain_name() {
        let mut steps = Steps::new();
        steps.is_shared = true;
        steps.begin(7, step(Landing::Named(Vec::new())));
        assert!(!steps.is_lost);
        steps.begin(7, step(Landing::Named(vec![b"/w".to_vec()])));
        assert!(steps.is_lost);
    }

    #[test]
    fn steps_of_processes_that_ended_make_room() {
        let mut steps = Steps::new();
        let own = process::own_id();
        for thread in 1..=i32::try_from(MAX_STEPS).unwrap() {
            let group = if thread == 1 { own } else { i32::MAX - thread };
            let landing = Landing::Named(Vec::new());
            steps.begin(
                thread,
                Step {
                    group,
                    began: 1,
                    from: None,
                    landing,
                },
            );
        }
        steps.begin(i32::MAX, step(Landing::Astray));
        assert_eq!((steps.open.len(), steps.is_lost), (2, false));
    }
}
