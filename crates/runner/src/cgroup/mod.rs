//! Control groups, where the machine lets us have them.
//!
//! A sweep must never kill in the group of a supervisor that lives, and no group is made in one of the second version
//! that is not ours to divide. Entry points: [`Home::make`] and [`Home::join`] for killing, [`Limiter`] for limits.
//!
//! A group of the second version per supervisor closes the one gap that reapers leave: when a supervisor and its
//! runner are both killed, what they had started belongs to nobody, but it is still in the supervisor's group. A group
//! is made once in the life of a supervisor, not per run, so it costs a run nothing. No controller is needed, only
//! `cgroup.kill` (Linux 5.14).
//!
//! What moves on faster than it can be looked for is reached by its group, too: the supervisor steps out of it, has
//! everything in there killed at once, and comes back ([`OwnGroup::kill_others`]).
//!
//! Where controllers can be had, of either version, runs are held to `[limits] run_*` by groups beside it
//! ([`Limiter`]): the command is in there, its supervisor is not, so that a command that has used up its memory takes
//! nobody along who has to tell of it.

mod controllers;
mod limiter;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use countersign_sys::process::{self, Pid, Process};

pub(super) use self::limiter::{Holding, Limiter};
pub use self::{controllers::Controller, limiter::RunLimits};

use self::controllers::ControllerHierarchy;

/// All of ours begin with this.
const PREFIX: &str = "countersign-";
/// What the name of a group with limits of the second version ends with: a group that has processes and one that has
/// limits for the groups below it cannot be the same.
const HELD: &str = ".run";
/// What the name of a group ends with in which a supervisor stands while it has its own group killed.
const ASIDE: &str = ".aside";

/// Groups in which every supervisor gets groups of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Home {
    /// Of the second version; everything in it can be killed at once.
    unified: Option<PathBuf>,
    /// Where each controller is to be had.
    controllers: Vec<(Controller, ControllerHierarchy)>,
}

/// How many words a home is on a command line.
pub(super) const HOME_WORDS: usize = 1 + Controller::ALL.len();

/// Stands for what is not to be had.
const NONE: &str = "-";
/// Stands for the home of the second version.
const UNIFIED: &str = "=";

impl Home {
    /// Makes a home for one runner after the other of this process; `None` where the machine has not delegated any
    /// group to us.
    pub(super) fn make() -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = process::inspect(process::own_id())?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}.{count}", name(&process));
        let unified = make_unified(&name);
        let in_unified = unified
            .as_deref()
            .map(controllers::enabled_below)
            .unwrap_or_default();
        let found = Controller::ALL.into_iter().filter_map(|controller| {
            if in_unified.contains(&controller) {
                return Some((controller, ControllerHierarchy::Unified));
            }
            let home = controllers::own_group_of(controller)?.join(&name);
            make_directory(&home).ok()?;
            Some((controller, ControllerHierarchy::Own(home)))
        });
        let home = Self {
            controllers: found.collect(),
            unified,
        };
        (home.unified.is_some() || !home.controllers.is_empty()).then_some(home)
    }

    /// As words of a command line.
    pub(super) fn to_words(home: Option<&Self>) -> [String; HOME_WORDS] {
        let word = |path: Option<&Path>| path.and_then(Path::to_str).unwrap_or(NONE).to_owned();
        let unified = word(home.and_then(|home| home.unified.as_deref()));
        let [memory, processes, cpu] =
            Controller::ALL.map(
                |controller| match home.and_then(|home| home.hierarchy_of(controller)) {
                    None => NONE.to_owned(),
                    Some(ControllerHierarchy::Unified) => UNIFIED.to_owned(),
                    Some(ControllerHierarchy::Own(path)) => word(Some(path)),
                },
            );
        [unified, memory, processes, cpu]
    }

    /// What [`Home::to_words`] wrote; `None` where there was none.
    pub(super) fn of_words(words: &[String; HOME_WORDS]) -> Option<Self> {
        let [unified, controllers @ ..] = words;
        let home = Self {
            unified: (unified != NONE).then(|| PathBuf::from(unified)),
            controllers: Controller::ALL
                .into_iter()
                .zip(controllers)
                .filter_map(|(controller, word)| match word.as_str() {
                    NONE => None,
                    UNIFIED => Some((controller, ControllerHierarchy::Unified)),
                    path => Some((controller, ControllerHierarchy::Own(path.into()))),
                })
                .collect(),
        };
        (home.unified.is_some() || !home.controllers.is_empty()).then_some(home)
    }

    /// Whether everything of a supervisor can be killed at once, even when all its reapers are gone.
    pub(super) const fn kills(&self) -> bool {
        self.unified.is_some()
    }

    fn hierarchy_of(&self, controller: Controller) -> Option<&ControllerHierarchy> {
        let found = self.controllers.iter().find(|(known, _)| *known == controller);
        found.map(|(_, hierarchy)| hierarchy)
    }

    /// The directories in which supervisors have theirs.
    fn directories(&self) -> impl Iterator<Item = &Path> {
        let own = self
            .controllers
            .iter()
            .filter_map(|(_, hierarchy)| match hierarchy {
                ControllerHierarchy::Unified => None,
                ControllerHierarchy::Own(path) => Some(path.as_path()),
            });
        self.unified.as_deref().into_iter().chain(own)
    }

    /// Hands it to the account that runners are going to have. Root alone can do this.
    pub(super) fn give_to(&self, uid: u32, gid: u32) {
        let owner = (
            Some(rustix::fs::Uid::from_raw(uid)),
            Some(rustix::fs::Gid::from_raw(gid)),
        );
        for directory in self.directories() {
            // An account that moves a process needs the right to write to both groups and the one above them.
            for path in [directory.to_owned(), directory.join("cgroup.procs")] {
                // Refused, there are no groups: every run that wants limits says so.
                rustix::fs::chown(&path, owner.0, owner.1).unwrap_or(());
            }
        }
    }

    /// Moves this process, which starts runners under another account, below the home of the second version: only
    /// from there may that account move what it starts. Refused, those have their reapers.
    pub(super) fn enter(&self) {
        let Some(unified) = &self.unified else { return };
        let Some(own) = process::inspect(process::own_id()) else {
            return;
        };
        let group = unified.join(name(&own));
        make_directory(&group)
            .and_then(|()| step_into(&group))
            .unwrap_or(());
    }

    /// Moves this process, a supervisor, into a group of its own. What it starts is in there too.
    /// `None` where there is none to be had.
    pub(super) fn join(&self, supervisor: &Process) -> Option<OwnGroup> {
        let name = name(supervisor);
        let unified = self.unified.as_deref()?;
        let group = OwnGroup {
            everything: unified.join(&name),
            held: unified.join(format!("{name}{HELD}")),
            aside: unified.join(format!("{name}{ASIDE}")),
        };
        fs::create_dir(&group.everything).ok()?;
        step_into(&group.everything).ok()?;
        Some(group)
    }

    /// Kills what dead supervisors left, of this home and of those of servers that are gone, and takes their
    /// groups away.
    pub(super) fn sweep(&self) {
        for directory in self.directories() {
            sweep_home(directory);
            let homes = directory.parent().map(subgroups).unwrap_or_default();
            for home in homes {
                let is_of_the_dead = home_owner(&home).is_some_and(|owner| !is_alive(owner));
                if is_of_the_dead {
                    sweep_home(&home);
                    // Not empty while a supervisor of it goes on alone.
                    fs::remove_dir(&home).unwrap_or(());
                }
            }
        }
    }

    /// Takes the home away, if nobody uses it any more.
    pub(super) fn leave(&self) {
        for directory in self.directories() {
            sweep_home(directory);
            fs::remove_dir(directory).unwrap_or(());
        }
    }
}

/// The group of a supervisor, in which everything is that it starts.
#[derive(Debug)]
pub(super) struct OwnGroup {
    everything: PathBuf,
    /// Where commands with limits of the second version are instead.
    held: PathBuf,
    aside: PathBuf,
}

impl OwnGroup {
    /// Kills everything in it but this process, the supervisor: what is about to fork as well as what it forks.
    ///
    /// # Errors
    /// What the kernel answers. Then it may still be there, and so may this process be where it stood aside, from
    /// where it comes back the next time.
    pub(super) fn kill_others(&self) -> io::Result<()> {
        if self.held.exists() {
            kill_all_of(&self.held)?;
        }
        make_directory(&self.aside)?;
        step_into(&self.aside)?;
        let killed = kill_all_of(&self.everything);
        step_into(&self.everything)?;
        fs::remove_dir(&self.aside)?;
        killed
    }
}

/// What runs can be held to on this machine by a server that is started as this process was. Leaves nothing behind.
pub fn enforceable() -> Vec<Controller> {
    let Some(home) = Home::make() else {
        return Vec::new();
    };
    home.leave();
    home.controllers
        .into_iter()
        .map(|(controller, _)| controller)
        .collect()
}

/// A home of the second version, if there is one to be had.
fn make_unified(name: &str) -> Option<PathBuf> {
    let home = own_group()?.join(name);
    make_directory(&home).ok()?;
    if home.join("cgroup.kill").exists() {
        return Some(home);
    }
    fs::remove_dir(&home).ok()?;
    None
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn sweep_home(home: &Path) {
    for group in subgroups(home) {
        let owner = group.file_name().and_then(|name| {
            let name = name.to_str()?;
            let owner = name.strip_suffix(HELD).or_else(|| name.strip_suffix(ASIDE));
            parse_name(owner.unwrap_or(name))
        });
        if owner.is_some_and(|owner| !is_alive(owner)) {
            // An older kernel has no such file: then the group goes when its last process does.
            kill_all_of(&group).unwrap_or(());
            fs::remove_dir(&group).unwrap_or(());
        }
    }
}

fn subgroups(group: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(group) else {
        return Vec::new();
    };
    let entries = entries.filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn home_owner(home: &Path) -> Option<(Pid, u64)> {
    let (owner, _count) = home
        .file_name()?
        .to_str()?
        .strip_prefix(PREFIX)?
        .split_once('.')?;
    parse_name(owner)
}

fn is_alive((pid, start_time): (Pid, u64)) -> bool {
    // One that is exiting has given up what it held, which is how others learn of its end.
    process::inspect(pid)
        .is_some_and(|process| process.start_time == start_time && !process.is_zombie && !process.is_exiting)
}

fn name(process: &Process) -> String {
    format!("{}-{}", process.pid, process.start_time)
}

fn parse_name(name: &str) -> Option<(Pid, u64)> {
    let (pid, start_time) = name.split_once('-')?;
    Some((pid.parse().ok()?, start_time.parse().ok()?))
}

/// Moves this process, which has one thread.
fn step_into(group: &Path) -> io::Result<()> {
    write(&group.join("cgroup.procs"), b"0")
}

/// Kills all that are in a group, and what they fork meanwhile.
fn kill_all_of(group: &Path) -> io::Result<()> {
    write(&group.join("cgroup.kill"), b"1")
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(bytes)
}

/// The group of this process, if it is ours to divide: the root of what we can see, or marked as delegated by
/// systemd, or below one that is (`DelegateSubgroup=`). Elsewhere groups belong to a manager that does not expect ours.
fn own_group() -> Option<PathBuf> {
    let (mount, within) = controllers::own_place(None)?;
    let group = mount.join(within.trim_start_matches('/'));
    if within == "/" || is_delegated(&group) {
        return Some(group);
    }
    let above = group.parent().filter(|above| **above != mount)?;
    is_delegated(above).then(|| above.to_owned())
}

fn is_delegated(group: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].iter().any(|mark| {
        let mut value = [0; 8];
        rustix::fs::getxattr(group, *mark, value.as_mut_slice()).is_ok_and(|length| length == 1)
            && value.starts_with(b"1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let process = Process {
            pid: 47,
            parent: 1,
            session: 47,
            start_time: 99,
            is_zombie: false,
            is_exiting: false,
        };
        assert_eq!(parse_name(&name(&process)), Some((47, 99)));
        assert_eq!(home_owner(Path::new("/x/countersign-47-99.0")), Some((47, 99)));
        assert_eq!(home_owner(Path::new("/x/user.slice")), None);
    }

    #[test]
    fn a_home_is_read_back_from_a_command_line() {
        let homes = [
            None,
            Some(Home {
                unified: Some("/sys/fs/cgroup/x".into()),
                controllers: Vec::new(),
            }),
            Some(Home {
                unified: Some("/sys/fs/cgroup/x".into()),
                controllers: Controller::ALL
                    .map(|one| (one, ControllerHierarchy::Unified))
                    .into(),
            }),
            Some(Home {
                unified: None,
                controllers: vec![(
                    Controller::Processes,
                    ControllerHierarchy::Own("/sys/fs/cgroup/pids/x".into()),
                )],
            }),
        ];
        for home in homes {
            assert_eq!(Home::of_words(&Home::to_words(home.as_ref())), home);
        }
    }
}
