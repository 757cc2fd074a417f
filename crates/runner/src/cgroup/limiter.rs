//! Holding the commands of one supervisor to their limits.

use std::{
    fs::{self, OpenOptions},
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use countersign_domain::LimitReport;
use countersign_sys::process::{self, Ended, Forked, Pid, Process};

use super::{Controller, ControllerHierarchy, HELD, Home, make_directory, name, write};

/// The period by which processor time is counted, in microseconds: the kernel's own default.
const CPU_PERIOD_US: u64 = 100_000;
/// The least quota that the kernel takes, in microseconds.
const LEAST_CPU_QUOTA_US: u64 = 1_000;

/// What a run may use at most; 0 is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RunLimits {
    /// Memory of all its processes together, in bytes.
    pub memory_bytes: u64,
    /// Processor time in percent of one processor.
    pub cpu_percent: u64,
    /// Processes and threads at a time.
    pub processes: u64,
}

impl RunLimits {
    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.memory_bytes == 0 && self.cpu_percent == 0 && self.processes == 0
    }

    /// These, and where there is none of a kind, that of the others.
    #[must_use]
    pub const fn or(self, others: Self) -> Self {
        const fn either(own: u64, other: u64) -> u64 {
            if own == 0 { other } else { own }
        }
        Self {
            memory_bytes: either(self.memory_bytes, others.memory_bytes),
            cpu_percent: either(self.cpu_percent, others.cpu_percent),
            processes: either(self.processes, others.processes),
        }
    }

    /// One of them, if it is set.
    pub const fn of(self, controller: Controller) -> Option<u64> {
        let limit = match controller {
            Controller::Memory => self.memory_bytes,
            Controller::Processes => self.processes,
            Controller::Cpu => self.cpu_percent,
        };
        if limit == 0 { None } else { Some(limit) }
    }
}

/// The groups of one supervisor. Made for the first run that has limits, and kept for the next: empty then, since a
/// supervisor takes another run only when nothing of the one before is left.
#[derive(Debug)]
pub(crate) struct Limiter<'a> {
    home: Option<&'a Home>,
    groups: Option<Vec<Group>>,
}

/// One group with what it limits.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    /// A process that writes 0 to it is in the group.
    members: OwnedFd,
    version: Version,
    controllers: Vec<Controller>,
    in_force: RunLimits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    First,
    Second,
}

/// The control group of one run.
#[derive(Debug)]
pub(crate) struct Holding<'a> {
    groups: Vec<&'a Group>,
    limits: RunLimits,
    /// The counts of the groups when the run began.
    before: Counts,
    not_enforced: bool,
}

/// How often the kernel had to enforce something in the life of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    memory_kills: u64,
    refused_processes: u64,
}

impl<'a> Limiter<'a> {
    pub(crate) const fn new(home: Option<&'a Home>) -> Self {
        Self { home, groups: None }
    }

    /// Gets ready for a run with these limits. What cannot be limited here is not, and the report says so.
    pub(crate) fn prepare(&mut self, limits: RunLimits) -> Holding<'_> {
        if limits.is_empty() {
            return Holding::nothing(limits);
        }
        let is_one_gone = |groups: &Vec<Group>| groups.iter().any(|group| !group.path.exists());
        if self.groups.as_ref().is_some_and(is_one_gone) {
            self.groups = None;
        }
        let home = self.home;
        let groups = self
            .groups
            .get_or_insert_with(|| home.map(make_groups).unwrap_or_default());
        let mut enforced = Vec::new();
        let mut holding = Vec::new();
        for group in groups.iter_mut() {
            let set: Vec<_> = group.set(limits);
            if !set.is_empty() {
                enforced.extend(set);
                holding.push(&*group);
            }
        }
        let mut wanted = Controller::ALL
            .into_iter()
            .filter(|one| limits.of(*one).is_some());
        let not_enforced = wanted.any(|one| !enforced.contains(&one));
        let mut holding = Holding {
            groups: holding,
            limits,
            before: Counts::default(),
            not_enforced,
        };
        holding.before = holding.counts();
        holding
    }
}

impl Holding<'_> {
    const fn nothing(limits: RunLimits) -> Self {
        Self {
            groups: Vec::new(),
            limits,
            before: Counts {
                memory_kills: 0,
                refused_processes: 0,
            },
            not_enforced: false,
        }
    }

    /// Puts the calling process into the groups. Safe to call between `clone` and `exec`: it allocates nothing.
    ///
    /// # Errors
    /// What the kernel answers; then it must not go on, for it would go on without limits that nobody misses.
    pub(crate) fn admit_caller(&self) -> Result<(), Errno> {
        for group in &self.groups {
            rustix::io::write(group.members.as_fd(), b"0")?;
        }
        Ok(())
    }

    /// Puts another process in, which has no children yet.
    ///
    /// # Errors
    /// As [`Self::admit_caller`].
    pub(crate) fn admit(&self, pid: Pid) -> Result<(), Errno> {
        for group in &self.groups {
            rustix::io::write(group.members.as_fd(), pid.to_string().as_bytes())?;
        }
        Ok(())
    }

    /// What the limits did to the run.
    pub(crate) fn report(&self) -> LimitReport {
        let now = self.counts();
        LimitReport {
            out_of_memory: now.memory_kills > self.before.memory_kills,
            out_of_processes: now.refused_processes > self.before.refused_processes,
            not_enforced: self.not_enforced,
        }
    }

    fn counts(&self) -> Counts {
        let sum = |controller: Controller| {
            let groups = self
                .groups
                .iter()
                .filter(|_| self.limits.of(controller).is_some());
            let counting = groups.filter(|group| group.controllers.contains(&controller));
            counting.map(|group| group.count(controller)).sum()
        };
        Counts {
            memory_kills: sum(Controller::Memory),
            refused_processes: sum(Controller::Processes),
        }
    }
}

/// The groups of this process, one for each hierarchy in which there is something to limit.
fn make_groups(home: &Home) -> Vec<Group> {
    let Ok(own) = process::current() else {
        return Vec::new();
    };
    let in_unified: Vec<_> = home
        .controllers
        .iter()
        .filter_map(|(controller, hierarchy)| {
            (*hierarchy == ControllerHierarchy::Unified).then_some(*controller)
        })
        .collect();
    let unified = home
        .unified
        .as_deref()
        .filter(|_| !in_unified.is_empty())
        .map(|unified| (unified, Version::Second, in_unified));
    let first = home
        .controllers
        .iter()
        .filter_map(|(controller, hierarchy)| match hierarchy {
            ControllerHierarchy::Unified => None,
            ControllerHierarchy::Own(path) => Some((path.as_path(), Version::First, vec![*controller])),
        });
    unified
        .into_iter()
        .chain(first)
        .filter_map(|(directory, version, controllers)| {
            Group::make(directory, &own, version, controllers).ok()
        })
        .collect()
}

impl Group {
    fn make(
        directory: &Path,
        supervisor: &Process,
        version: Version,
        controllers: Vec<Controller>,
    ) -> io::Result<Self> {
        let path = match version {
            Version::First => directory.join(name(supervisor)),
            Version::Second => directory.join(format!("{}{HELD}", name(supervisor))),
        };
        make_directory(&path)?;
        let members = OpenOptions::new().write(true).open(path.join("cgroup.procs"))?;
        let group = Self {
            path,
            members: members.into(),
            version,
            controllers,
            in_force: RunLimits::default(),
        };
        if group.takes_processes() {
            Ok(group)
        } else {
            fs::remove_dir(&group.path)?;
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// Whether a process of ours may be moved into it, found out with one that does nothing else.
    fn takes_processes(&self) -> bool {
        match process::fork() {
            Ok(Forked::Child) => {
                let is_in = rustix::io::write(self.members.as_fd(), b"0").is_ok();
                process::exit_now(i32::from(!is_in))
            }
            Ok(Forked::Parent(pid)) => matches!(process::wait_for(pid), Ok(Ended::Code(0))),
            Err(_) => false,
        }
    }

    /// Sets what is not set yet. Returns what of the limits holds in here.
    fn set(&mut self, limits: RunLimits) -> Vec<Controller> {
        let mut enforced = Vec::new();
        for controller in self.controllers.clone() {
            let limit = limits.of(controller);
            let is_set = limit == self.in_force.of(controller) || self.write_limit(controller, limit).is_ok();
            if is_set {
                let value = limit.unwrap_or(0);
                match controller {
                    Controller::Memory => self.in_force.memory_bytes = value,
                    Controller::Processes => self.in_force.processes = value,
                    Controller::Cpu => self.in_force.cpu_percent = value,
                }
                enforced.extend(limit.map(|_| controller));
            }
        }
        enforced
    }

    fn write_limit(&self, controller: Controller, limit: Option<u64>) -> io::Result<()> {
        for (file, value, is_needed) in values(self.version, controller, limit) {
            let path = self.path.join(file);
            if is_needed || path.exists() {
                write(&path, value.as_bytes())?;
            }
        }
        Ok(())
    }

    fn count(&self, controller: Controller) -> u64 {
        let (file, word) = match (controller, self.version) {
            (Controller::Memory, Version::First) => ("memory.oom_control", "oom_kill"),
            (Controller::Memory, Version::Second) => ("memory.events", "oom_kill"),
            (Controller::Processes, _) => ("pids.events", "max"),
            (Controller::Cpu, _) => return 0,
        };
        count_of(
            &fs::read_to_string(self.path.join(file)).unwrap_or_default(),
            word,
        )
    }
}

/// The files of a limit with what is written to them, in this order, and whether they have to be there.
fn values(version: Version, controller: Controller, limit: Option<u64>) -> Vec<(&'static str, String, bool)> {
    let or_max = |limit: Option<u64>| limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string());
    let or_minus = |limit: Option<u64>| limit.map_or_else(|| "-1".to_owned(), |limit| limit.to_string());
    let quota = limit.map(|percent| (percent * (CPU_PERIOD_US / 100)).max(LEAST_CPU_QUOTA_US));
    match (version, controller) {
        // What went to disk instead would be no limit; there is no such file where swap is not counted. Memory and
        // swap together can never be less than memory alone, so that comes off first and goes on last.
        (Version::First, Controller::Memory) => vec![
            ("memory.memsw.limit_in_bytes", "-1".to_owned(), false),
            ("memory.limit_in_bytes", or_minus(limit), true),
            ("memory.memsw.limit_in_bytes", or_minus(limit), false),
        ],
        (Version::Second, Controller::Memory) => vec![
            (
                "memory.swap.max",
                limit.map_or("max", |_limit| "0").to_owned(),
                false,
            ),
            ("memory.max", or_max(limit), true),
        ],
        (_, Controller::Processes) => vec![("pids.max", or_max(limit), true)],
        (Version::First, Controller::Cpu) => vec![
            ("cpu.cfs_period_us", CPU_PERIOD_US.to_string(), true),
            ("cpu.cfs_quota_us", or_minus(quota), true),
        ],
        (Version::Second, Controller::Cpu) => {
            vec![("cpu.max", format!("{} {CPU_PERIOD_US}", or_max(quota)), true)]
        }
    }
}

/// The number behind a word, one pair a line; 0 without it.
fn count_of(text: &str, word: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == word)
        .and_then(|(_, number)| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_written_as_each_version_wants_it() {
        let check = |version, controller, limit, expected: &[(&str, &str)]| {
            let written = values(version, controller, limit);
            let written: Vec<_> = written
                .iter()
                .map(|(file, value, _)| (*file, value.as_str()))
                .collect();
            assert_eq!(written, expected);
        };
        let (first, second) = (Version::First, Version::Second);
        check(
            first,
            Controller::Memory,
            Some(4096),
            &[
                ("memory.memsw.limit_in_bytes", "-1"),
                ("memory.limit_in_bytes", "4096"),
                ("memory.memsw.limit_in_bytes", "4096"),
            ],
        );
        check(
            second,
            Controller::Memory,
            Some(4096),
            &[("memory.swap.max", "0"), ("memory.max", "4096")],
        );
        check(
            second,
            Controller::Memory,
            None,
            &[("memory.swap.max", "max"), ("memory.max", "max")],
        );
        check(first, Controller::Processes, Some(7), &[("pids.max", "7")]);
        check(second, Controller::Processes, None, &[("pids.max", "max")]);
        check(
            first,
            Controller::Cpu,
            Some(50),
            &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "50000")],
        );
        check(
            first,
            Controller::Cpu,
            None,
            &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "-1")],
        );
        check(
            second,
            Controller::Cpu,
            Some(250),
            &[("cpu.max", "250000 100000")],
        );
    }

    #[test]
    fn counts_are_read_by_their_word() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(count_of(text, "oom_kill"), 3);
        assert_eq!(count_of("max 12\n", "max"), 12);
        assert_eq!(count_of("", "max"), 0);
    }
}
