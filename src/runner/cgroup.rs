//! A control group per supervisor, where the machine lets us have them.
//!
//! It closes the one gap that reapers leave: when a supervisor and its runner are both killed, what they had
//! started belongs to nobody, but it is still in the supervisor's group. A group is made once in the life of a
//! supervisor, not per run, so it costs a run nothing. No controller is needed, only `cgroup.kill` (Linux 5.14).

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::sys::process::{self, Pid, Process};

/// All of ours begin with this.
const PREFIX: &str = "countersign-";

/// A group in which every supervisor gets one of its own.
#[derive(Debug, Clone)]
pub(super) struct Home(PathBuf);

impl Home {
    /// Makes a home for one runner after the other of this process; `None` where the machine has no second version of control groups, or has
    /// not delegated ours to us.
    pub(super) fn make() -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let own = own_group()?;
        let process = process::inspect(process::own_id())?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let home = own.join(format!("{PREFIX}{}.{count}", name(&process)));
        match fs::create_dir(&home) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
            Ok(()) | Err(_) => {}
        }
        if home.join("cgroup.kill").exists() {
            return Some(Self(home));
        }
        fs::remove_dir(&home).ok()?;
        None
    }

    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Moves this process, a supervisor, into a group of its own. What it starts is in there too.
    pub(super) fn join(&self, supervisor: &Process) -> io::Result<()> {
        let group = self.0.join(name(supervisor));
        fs::create_dir(&group)?;
        write(&group.join("cgroup.procs"), b"0")
    }

    /// Kills what dead supervisors left, of this home and of those of servers that are gone, and takes their
    /// groups away.
    pub(super) fn sweep(&self) {
        sweep_home(&self.0);
        let homes = self.0.parent().map(subgroups).unwrap_or_default();
        for home in homes {
            let is_of_the_dead = home_owner(&home).is_some_and(|owner| !is_alive(owner));
            if is_of_the_dead {
                sweep_home(&home);
                // Not empty while a supervisor of it goes on alone.
                fs::remove_dir(&home).unwrap_or(());
            }
        }
    }

    /// Takes the home away, if nobody uses it any more.
    pub(super) fn leave(&self) {
        sweep_home(&self.0);
        fs::remove_dir(&self.0).unwrap_or(());
    }
}

fn sweep_home(home: &Path) {
    for group in subgroups(home) {
        let owner = group.file_name().and_then(|name| parse_name(name.to_str()?));
        if owner.is_some_and(|owner| !is_alive(owner)) {
            // An older kernel has no such file: then the group goes when its last process does.
            write(&group.join("cgroup.kill"), b"1").unwrap_or(());
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
    process::inspect(pid).is_some_and(|process| process.start_time == start_time && !process.is_zombie)
}

fn name(process: &Process) -> String {
    format!("{}-{}", process.pid, process.start_time)
}

fn parse_name(name: &str) -> Option<(Pid, u64)> {
    let (pid, start_time) = name.split_once('-')?;
    Some((pid.parse().ok()?, start_time.parse().ok()?))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(bytes)
}

/// The group of this process, if it is ours to divide: the root of what we can see, or marked as delegated by
/// systemd. Elsewhere groups belong to a manager that does not expect ours.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let within = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(mount_point)?;
    let group = Path::new(mount).join(within.trim_start_matches('/'));
    (within == "/" || is_delegated(&group)).then_some(group)
}

/// The mount point of a line of `mountinfo` that is about control groups of the second version.
fn mount_point(line: &str) -> Option<&str> {
    let (mount, kind) = line.split_once(" - ")?;
    if kind.split(' ').next()? == "cgroup2" {
        mount.split(' ').nth(4)
    } else {
        None
    }
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
        };
        assert_eq!(parse_name(&name(&process)), Some((47, 99)));
        assert_eq!(home_owner(Path::new("/x/countersign-47-99.0")), Some((47, 99)));
        assert_eq!(home_owner(Path::new("/x/user.slice")), None);
    }

    #[test]
    fn the_mount_point_is_that_of_the_second_version() {
        let line = "36 25 0:31 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";
        assert_eq!(mount_point(line), Some("/sys/fs/cgroup/unified"));
        let first = "37 25 0:32 / /sys/fs/cgroup/cpu rw,relatime shared:10 - cgroup cgroup rw,cpu";
        assert_eq!(mount_point(first), None);
    }
}
