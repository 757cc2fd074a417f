//! Where the processes of a run stand, as far as that is proven.
//!
//! What a relative path means depends on the directory that its process stands in, or has a descriptor of. The kernel
//! looks for a directory after its name was answered for, so another one can have the name just then, and have its own
//! back a moment later. Therefore a step is noted when a process asks for it, and resolved at the next question of its
//! thread, before that moves again. It landed in a directory that is known by the name, or it stands astray. A directory in
//! which one process stood astray is not trusted for the rest of the run. What a process starts in between stands where
//! that one stands, and does so until it asks for something itself: then the two are compared. Where that one is gone, what
//! it may have left behind is not trusted. Directories on the way to a script are opened here, so their descriptors are
//! what they are called. Invariant: where something cannot be resolved, no process of the run is trusted.

use std::time::Duration;

use rustix::io::Errno;

use countersign_sys::{
    hooks, interception,
    process::{self, Pid},
};

use super::{
    Identity,
    paths::{PathAt, lexical, parts, rest_beneath},
    processes::{Caller, identity},
    scripts::Scripts,
    steps::{Landing, Step, Steps, is_gone},
};

/// How often, and how long each time, a process is waited for that is on its way or about to end.
const ATTEMPTS: usize = 50;
const MOMENT: Duration = Duration::from_millis(1);
/// Where a path may lead, under any name, to what a process has open already.
const LINKS: [&[u8]; 2] = [b"/proc", b"/dev/fd"];

impl Scripts {
    /// Looks where the last step of this thread led, and that of the one which started it. To be called before anything
    /// else that a call asks for.
    pub(super) fn resolve_steps(&mut self, caller: &Caller<'_>) {
        self.resolve_own_step(caller);
        self.resolve_inherited_step(caller);
    }

    fn resolve_own_step(&mut self, caller: &Caller<'_>) {
        let Some(step) = self.steps.open.remove(&caller.call.pid) else {
            return;
        };
        match caller.identity(interception::WORKING_DIRECTORY) {
            // Another thread of its number. Others of the process may stand where that one led.
            Ok(_) if caller.began() != Some(step.began) => {
                if step.group == caller.call.pid || is_gone(step.group) {
                    self.steps.leave(step.landing);
                } else {
                    self.steps.lose();
                }
            }
            Ok(stands) if !self.fits(stands, &step.landing) => {
                self.steps.stands_astray(stands, step.landing);
            }
            Ok(_) => {}
            // It may have started something before it was killed.
            Err(Errno::SRCH | Errno::NOENT) => self.steps.leave(step.landing),
            Err(_) => self.steps.lose(),
        }
    }

    /// A process that was just started stands where the one that started it stood, perhaps after a step of that which is not
    /// resolved yet. Then both still stand there: each moves only after a question.
    fn resolve_inherited_step(&mut self, caller: &Caller<'_>) {
        if self.steps.is_lost || self.steps.open.values().all(|step| step.landing.is_any()) {
            return;
        }
        let Ok(stands) = caller.identity(interception::WORKING_DIRECTORY) else {
            return;
        };
        let mut unfit = self
            .steps
            .open
            .values()
            .filter(|step| !self.fits(stands, &step.landing));
        if unfit.next().is_none() {
            return;
        }
        let group = caller.group();
        for _ in 0..ATTEMPTS {
            self.steps.bury();
            self.resolve_arrived_steps();
            if self.steps.astray.contains_key(&stands) || self.led_here(group, stands).is_empty() {
                return;
            }
            process::poll(&mut [], Some(MOMENT)).unwrap_or(());
        }
        for landing in self.led_here(group, stands) {
            self.steps.stands_astray(stands, landing);
        }
    }

    /// Resolves the steps of threads that stand somewhere else by now.
    fn resolve_arrived_steps(&mut self) {
        let open = self.steps.open.iter();
        let arrived: Vec<(Pid, Identity)> = open
            .filter(|(_, step)| !step.landing.is_any() && step.from.is_some())
            .filter_map(|(thread, step)| Some((*thread, step.place_of(*thread)?)))
            .filter(|(thread, place)| {
                self.steps
                    .open
                    .get(thread)
                    .is_some_and(|step| step.from != Some(*place))
            })
            .collect();
        for (thread, place) in arrived {
            if let Some(step) = self.steps.open.remove(&thread)
                && !self.fits(place, &step.landing)
            {
                self.steps.stands_astray(place, step.landing);
            }
        }
    }

    /// The steps of other processes that do not lead where one stands, and may have led there all the same.
    fn led_here(&self, group: Option<Pid>, stands: Identity) -> Vec<Landing> {
        let others = self
            .steps
            .open
            .iter()
            .filter(|(_, step)| Some(step.group) != group);
        let unfit = others.filter(|(_, step)| !self.fits(stands, &step.landing));
        let may_have_led =
            |(thread, step): &(&Pid, &Step)| step.place_of(**thread).is_none_or(|place| place == stands);
        unfit
            .filter(may_have_led)
            .map(|(_, step)| step.landing.clone())
            .collect()
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

    fn landing(&mut self, caller: &Caller<'_>, place: &PathAt) -> Result<Landing, Errno> {
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
                    from: caller.identity(interception::WORKING_DIRECTORY).ok(),
                    landing,
                };
                self.steps.begin(caller.call.pid, step);
            }
            _ => self.steps.lose(),
        }
    }

    /// A process is about to start another one that shares its working directory.
    pub(super) fn share(&mut self, caller: &Caller<'_>) {
        self.steps.is_shared = true;
        let is_on_its_way = |group| self.steps.are_others_open(caller.call.pid, group);
        if caller.group().is_none_or(is_on_its_way) {
            self.steps.lose();
        }
    }

    /// What the process means by its working directory, where it stands astray.
    pub(super) fn meant(&self, caller: &Caller<'_>) -> Option<&[u8]> {
        let stands = caller.identity(interception::WORKING_DIRECTORY).ok()?;
        self.steps.astray.get(&stands)?.as_deref()
    }

    /// A process is about to open what is there, and not to change it: a directory may be what paths begin at later. The
    /// names of one that lies on the way to a script. `None` for a way up from where it stands astray: it says the name.
    pub(super) fn approach(&mut self, caller: &Caller<'_>, place: &PathAt) -> Option<Vec<Vec<u8>>> {
        let steps = &self.steps;
        let is_quiet =
            steps.astray.is_empty() && steps.open.is_empty() && steps.left.is_empty() && !steps.is_lost;
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
            let named = PathAt::new(interception::WORKING_DIRECTORY, way.clone());
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
            left,
            astray,
            taken,
            is_shared: _,
            is_lost,
            lineage: _,
        } = &self.steps;
        let is_own = directory == interception::WORKING_DIRECTORY;
        let is_quiet = if is_own {
            open.is_empty() && left.is_empty()
        } else {
            taken.is_empty()
        };
        if *is_lost || (astray.is_empty() && is_quiet) {
            return *is_lost;
        }
        let Ok(found) = caller.identity(directory) else {
            return true;
        };
        let is_elsewhere = || {
            if is_own {
                self.is_led_elsewhere(caller, found) || self.is_left_elsewhere(caller, found)
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

    /// Whether a process that is gone may have started it after a step that does not lead here.
    fn is_left_elsewhere(&self, caller: &Caller<'_>, stands: Identity) -> bool {
        let mut left = self.steps.left.iter();
        left.any(|landing| !self.fits(stands, landing)) && self.steps.lineage.is_orphan(caller.call.pid)
    }
}

fn is_link(names: &[Vec<u8>]) -> bool {
    names
        .iter()
        .any(|name| LINKS.iter().any(|links| rest_beneath(name, links).is_some()))
}
