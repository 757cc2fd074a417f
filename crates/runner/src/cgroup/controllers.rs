//! What can be limited, and where: controllers of control groups, of the first version a hierarchy each, of the second
//! all in one.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Something that a run can be held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// How much memory, in bytes.
    Memory,
    /// How many processes and threads.
    Processes,
    /// How much processor time.
    Cpu,
}

/// The hierarchy that a controller is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ControllerHierarchy {
    /// In the home of the second version.
    Unified,
    /// In a hierarchy of its own, where the home has this directory.
    Own(PathBuf),
}

impl Controller {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Processes, Self::Cpu];

    /// Its name in control groups: `memory`, `pids` or `cpu`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::Cpu => "cpu",
        }
    }

    /// The key of the limit.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Memory => "run_memory_bytes",
            Self::Processes => "run_pids",
            Self::Cpu => "run_cpu_percent",
        }
    }
}

/// The group of this process in the hierarchy of the first version that has a controller. Whether it is ours to divide
/// shows when that is tried: there is no other mark.
pub(super) fn own_group_of(controller: Controller) -> Option<PathBuf> {
    let (mount, within) = own_place(Some(controller))?;
    Some(mount.join(within.trim_start_matches('/')))
}

/// Where a hierarchy is mounted, and where in it this process is; without a controller, that of the second version.
pub(super) fn own_place(controller: Option<Controller>) -> Option<(PathBuf, String)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let within = groups.lines().find_map(|line| group_of(line, controller))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (root, mount) = mounts.lines().find_map(|line| mount_of(line, controller))?;
    // A container may see a part of the hierarchy only.
    let within = match within.strip_prefix(root) {
        Some("") => "/",
        Some(rest) if rest.starts_with('/') => rest,
        Some(_) | None if root == "/" => within,
        Some(_) | None => return None,
    };
    Some((PathBuf::from(mount), within.to_owned()))
}

/// The group of a line of `/proc/self/cgroup`, if it is about that hierarchy.
fn group_of(line: &str, controller: Option<Controller>) -> Option<&str> {
    let (_number, rest) = line.split_once(':')?;
    let (names, group) = rest.split_once(':')?;
    let is_it = match controller {
        None => names.is_empty(),
        Some(controller) => names.split(',').any(|name| name == controller.name()),
    };
    is_it.then_some(group)
}

/// Root and mount point of a line of `mountinfo`, if it is about that hierarchy.
fn mount_of(line: &str, controller: Option<Controller>) -> Option<(&str, &str)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let is_it = match controller {
        None => kind.next() == Some("cgroup2"),
        Some(controller) => {
            kind.next() == Some("cgroup")
                && kind
                    .nth(1)
                    .is_some_and(|options| options.split(',').any(|option| option == controller.name()))
        }
    };
    let mut fields = mount.split(' ').skip(3);
    let place = (fields.next()?, fields.next()?);
    is_it.then_some(place)
}

/// The controllers that groups below a home of the second version get, once it passed them on.
pub(super) fn enabled_below(home: &Path) -> Vec<Controller> {
    let Some(above) = home.parent() else {
        return Vec::new();
    };
    // Refused where the group above has processes of its own: then there are none here.
    let pass_on = |group: &Path, controller: Controller| {
        let word = format!("+{}", controller.name());
        super::write(&group.join("cgroup.subtree_control"), word.as_bytes())
    };
    Controller::ALL
        .into_iter()
        .filter(|controller| {
            has(&above.join("cgroup.controllers"), *controller)
                && (has(&above.join("cgroup.subtree_control"), *controller)
                    || pass_on(above, *controller).is_ok())
                && pass_on(home, *controller).is_ok()
        })
        .collect()
}

fn has(list: &Path, controller: Controller) -> bool {
    let names = fs::read_to_string(list).unwrap_or_default();
    names.split_whitespace().any(|name| name == controller.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hierarchy_is_found_by_its_mount() {
        let unified = "36 25 0:31 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";
        let cpu = "37 25 0:32 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";
        let of = mount_of;
        assert_eq!(of(unified, None), Some(("/", "/sys/fs/cgroup/unified")));
        assert_eq!(of(unified, Some(Controller::Cpu)), None);
        assert_eq!(of(cpu, None), None);
        assert_eq!(
            of(cpu, Some(Controller::Cpu)),
            Some(("/", "/sys/fs/cgroup/cpu,cpuacct"))
        );
        assert_eq!(of(cpu, Some(Controller::Memory)), None);
    }

    #[test]
    fn each_group_is_found_by_its_line() {
        assert_eq!(group_of("0::/user.slice", None), Some("/user.slice"));
        assert_eq!(group_of("4:memory:/a/b", Some(Controller::Memory)), Some("/a/b"));
        assert_eq!(group_of("2:cpu,cpuacct:/", Some(Controller::Cpu)), Some("/"));
        assert_eq!(group_of("3:cpuset:/", Some(Controller::Cpu)), None);
        assert_eq!(group_of("4:memory:/", None), None);
    }
}
