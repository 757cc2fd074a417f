//! Where the processes of a run stand, as far as that is proven.
//!
//! What a relative path means depends on the directory that its process stands in, or has a descriptor of. The kernel
//! looks for a directory after its name was answered for, so another one can have the name just then, and have its own
//! back a moment later. Therefore a step is noted when a process asks for it, and settled at the next question of its
//! thread: before that moves again, and before it starts another process. It landed in a directory that is known by the
//! name, or it stands astray. A directory in which one process stood astray is not trusted for the rest of the run, so no
//! process has to be followed to those that it comes from. Directories on the way to a script are opened here, so their
//! descriptors are what they are called. Invariant: where something cannot be settled, no process of the run is trusted.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use rustix::io::Errno;

use crate::sys::{
    hooks, interception,
    process::{self, Pid},
};

use super::{
    Identity,
    paths::{Place, lexical, parts, rest_beneath},
    processes::{Caller, identity},
    scripts::Scripts,
};

/// Steps that are not settled: those of processes that ended right after one are let go of where there are more.
const MAX_STEPS: usize = 4096;
/// Directories in which processes stood astray: more are only made on purpose.
const MAX_ASTRAY: usize = 1024;
/// Where a path may lead to what a process has open already, whatever that is called.
const LINKS: [&[u8]; 2] = [b"/proc", b"/dev/fd"];

/// The steps of all processes of a run.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// By the thread that made one and has asked for nothing else since.
    open: BTreeMap<Pid, Step>,
    /// Directories in which a process stood astray, by the name that led there if there was one only.
    astray: BTreeMap<Identity, Option<Vec<u8>>>,
    /// Directories that were opened by these names, and not here: nothing says which ones they were.
    taken: BTreeSet<Vec<u8>>,
    /// Whether processes may share a working directory.
    is_shared: bool,
    /// Whether something could not be followed.
    is_lost: bool,
}

#[derive(Debug)]
struct Step {
    group: Pid,
    /// When the thread began: with its number that names it.
    began: u64,
    landing: Landing,
}

/// Where a step leads.
#[derive(Debug, PartialEq, Eq)]
enum Landing {
    /// Into what has all of these names. Without any every directory will do.
    Named(Vec<Vec<u8>>),
    /// That depends on where it began, and that is astray.
    Astray,
}

impl Steps {
    fn lose(&mut self) {
        self.is_lost = true;
    }

    fn stands_astray(&mut self, stands: Identity, landing: Landing) {
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

    fn are_others_open(&self, thread: Pid, group: Pid) -> bool {
        self.open
            .iter()
            .any(|(other, step)| *other != thread && step.group == group)
    }

    fn begin(&mut self, thread: Pid, step: Step) {
        let is_plain = step.landing == Landing::Named(Vec::new());
        // Either may come first, and the second may begin where the first led.
        self.is_lost |= self.are_others_open(thread, step.group) || (self.is_shared && !is_plain);
        if self.open.len() >= MAX_STEPS {
            self.open.retain(|_, step| process::inspect(step.group).is_some());
            self.is_lost |= self.open.len() >= MAX_STEPS;
        }
        if !self.is_lost {
            self.open.insert(thread, step);
        }
    }
}

impl Scripts {
    /// Looks where the last step of this thread led. To be called before anything else that a call asks for.
    pub(super) fn settle(&mut self, caller: &Caller<'_>) {
        let Some(step) = self.steps.open.remove(&caller.call.pid) else {
            return;
        };
        match caller.identity(interception::WORKING_DIRECTORY) {
            // Another thread of its number. Others of the process may stand where that one led.
            Ok(_) if caller.began() != Some(step.began) => {
                let is_gone = step.group == caller.call.pid || process::inspect(step.group).is_none();
                self.steps.is_lost |= !is_gone;
            }
            Ok(stands) if !self.fits(stands, &step.landing) => {
                self.steps.stands_astray(stands, step.landing);
            }
            Ok(_) => {}
            Err(errno) => self.lose_unless_gone(errno),
        }
    }

    fn fits(&self, stands: Identity, landing: &Landing) -> bool {
        match landing {
            Landing::Named(names) => names.iter().all(|name| self.is_known_as(stands, name)),
            Landing::Astray => false,
        }
    }

    /// What is gone takes no further step, and starts nothing.
    fn lose_unless_gone(&mut self, errno: Errno) {
        if !matches!(errno, Errno::SRCH | Errno::NOENT) {
            self.steps.lose();
        }
    }

    /// A process is about to make what is at an address its working directory.
    pub(super) fn enter(&mut self, caller: &Caller<'_>, address: u64) -> Result<(), Errno> {
        let place = caller.place(interception::WORKING_DIRECTORY, address);
        let landing = place.and_then(|place| self.landing(caller, &place));
        match landing {
            Ok(landing) => self.step(caller, landing),
            Err(errno) => {
                self.lose_unless_gone(errno);
                return Err(errno);
            }
        }
        Ok(())
    }

    fn landing(&mut self, caller: &Caller<'_>, place: &Place) -> Result<Landing, Errno> {
        let names = self.names_of(caller, place);
        let is_link = is_link(&names);
        if (is_link || !place.is_absolute()) && self.strays(caller, place.directory) {
            return Ok(Landing::Astray);
        }
        let mut ways = self.ways(&names);
        if !ways.is_empty() {
            if self.sees_the_same(caller)? {
                self.learn_ways(caller, &ways);
            }
            hooks::pause("sup.entering");
        }
        if is_link {
            ways.extend(self.steps.taken.iter().cloned());
        }
        Ok(Landing::Named(ways))
    }

    /// The same by a descriptor.
    pub(super) fn enter_open(&mut self, caller: &Caller<'_>) {
        let taken = self.steps.taken.iter().cloned().collect();
        self.step(caller, Landing::Named(taken));
    }

    fn step(&mut self, caller: &Caller<'_>, landing: Landing) {
        match (caller.group(), caller.began()) {
            (Some(group), Some(began)) => {
                let step = Step {
                    group,
                    began,
                    landing,
                };
                self.steps.begin(caller.call.pid, step);
            }
            _ => self.steps.lose(),
        }
    }

    /// A process is about to start another one, which stands where it stands.
    pub(super) fn fork(&mut self, caller: &Caller<'_>, shares_directory: bool) {
        self.steps.is_shared |= shares_directory;
        if !self.steps.open.is_empty() {
            let group = caller.group();
            let is_in_between = |group| self.steps.are_others_open(caller.call.pid, group);
            if group.is_none_or(is_in_between) {
                self.steps.lose();
            }
        }
    }

    /// What the process means by its working directory, where it stands astray.
    pub(super) fn meant(&self, caller: &Caller<'_>) -> Option<&[u8]> {
        let stands = caller.identity(interception::WORKING_DIRECTORY).ok()?;
        self.steps.astray.get(&stands)?.as_deref()
    }

    /// A process is about to open what is there, and not to change it: a directory may be what paths begin at later. The
    /// names of one that lies on the way to a script. `None` for a way up from where it stands astray: it says the name.
    pub(super) fn approach(&mut self, caller: &Caller<'_>, place: &Place) -> Option<Vec<Vec<u8>>> {
        let steps = &self.steps;
        let is_quiet = steps.astray.is_empty() && steps.open.is_empty() && !steps.is_lost;
        if is_quiet && !self.may_be_way(&place.path) {
            return Some(Vec::new());
        }
        let names = self.names_of(caller, place);
        let begin = if place.is_absolute() {
            is_link(&names).then_some(interception::WORKING_DIRECTORY)
        } else {
            Some(place.directory)
        };
        if begin.is_some_and(|begin| self.strays(caller, begin)) {
            self.steps.taken.extend(self.all_ways());
            let goes_up = parts(&place.path).any(|part| part == b"..");
            return (!goes_up).then(Vec::new);
        }
        Some(self.ways(&names))
    }

    /// A directory was opened by these names, and not here.
    pub(super) fn take(&mut self, ways: Vec<Vec<u8>>) {
        self.steps.taken.extend(ways);
    }

    /// What has these names right now is that directory from now on, wherever it is: what is in it is answered with
    /// the content.
    pub(super) fn learn_ways(&mut self, caller: &Caller<'_>, ways: &[Vec<u8>]) {
        for way in ways {
            let named = Place::new(interception::WORKING_DIRECTORY, way.clone());
            if let Ok(identity) = identity(caller.seen(&named)) {
                self.learn(identity, way);
            }
        }
    }

    /// The names that are those of a directory in which a script lies, however deep.
    fn ways(&self, names: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut ways: Vec<Vec<u8>> = Vec::new();
        for name in names {
            for name in [name.clone(), lexical(name)] {
                if self.is_on_the_way(&name) && !ways.contains(&name) {
                    ways.push(name);
                }
            }
        }
        ways
    }

    /// Whether a directory that a relative path begins at may be another one than its process means.
    pub(super) fn strays(&self, caller: &Caller<'_>, directory: i32) -> bool {
        let Steps {
            open,
            astray,
            taken,
            is_shared: _,
            is_lost,
        } = &self.steps;
        let is_own = directory == interception::WORKING_DIRECTORY;
        if *is_lost || (astray.is_empty() && (if is_own { open.is_empty() } else { taken.is_empty() })) {
            return *is_lost;
        }
        let Ok(found) = caller.identity(directory) else {
            return true;
        };
        let is_elsewhere = || {
            if is_own {
                self.is_led_elsewhere(caller, found)
            } else {
                taken.iter().any(|name| !self.is_known_as(found, name))
            }
        };
        astray.contains_key(&found) || is_elsewhere()
    }

    /// Whether another thread of the process made a step that does not lead here.
    fn is_led_elsewhere(&self, caller: &Caller<'_>, stands: Identity) -> bool {
        let mut others = self.steps.open.values();
        match caller.group() {
            Some(group) => others.any(|step| step.group == group && !self.fits(stands, &step.landing)),
            None => true,
        }
    }
}

fn is_link(names: &[Vec<u8>]) -> bool {
    names
        .iter()
        .any(|name| LINKS.iter().any(|links| rest_beneath(name, links).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(landing: Landing) -> Step {
        Step {
            group: 7,
            began: 1,
            landing,
        }
    }

    #[test]
    fn steps_that_overlap_are_not_followed() {
        let plain = || step(Landing::Named(Vec::new()));
        let mut steps = Steps::default();
        steps.begin(7, plain());
        steps.begin(7, plain());
        assert!(!steps.is_lost, "one after the other");
        steps.begin(8, plain());
        assert!(steps.is_lost, "of two threads");
    }

    #[test]
    fn a_directory_that_processes_share_is_left_only_by_a_plain_name() {
        let mut steps = Steps {
            is_shared: true,
            ..Steps::default()
        };
        steps.begin(7, step(Landing::Named(Vec::new())));
        assert!(!steps.is_lost);
        steps.begin(7, step(Landing::Named(vec![b"/w".to_vec()])));
        assert!(steps.is_lost);
    }

    #[test]
    fn steps_of_processes_that_ended_make_room() {
        let mut steps = Steps::default();
        let own = process::own_id();
        for thread in 1..=i32::try_from(MAX_STEPS).unwrap() {
            let group = if thread == 1 { own } else { i32::MAX - thread };
            let landing = Landing::Named(Vec::new());
            steps.begin(
                thread,
                Step {
                    group,
                    began: 1,
                    landing,
                },
            );
        }
        steps.begin(i32::MAX, step(Landing::Astray));
        assert_eq!((steps.open.len(), steps.is_lost), (2, false));
    }
}
