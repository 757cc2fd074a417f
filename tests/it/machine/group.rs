//! Control groups of the tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::tell_kernel;
use crate::support::{eventually, needed};

/// A control group of one kind, with what the test puts into it.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    limit: &'static str,
}

/// What a group limits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Processes,
    Memory,
}

impl Group {
    /// `None` where none can be had: then the test is skipped.
    pub(super) fn make(kind: Kind) -> Option<Self> {
        let (name, of_first, of_second) = match kind {
            Kind::Processes => ("pids", "pids.max", "pids.max"),
            Kind::Memory => ("memory", "memory.limit_in_bytes", "memory.max"),
        };
        let root = Path::new("/sys/fs/cgroup");
        let places = [(root.join(name), of_first), (root.to_owned(), of_second)];
        let made = places.into_iter().find_map(|(place, limit)| {
            let path = place.join(format!("countersign-test-{}-{name}", std::process::id()));
            // Beside the groups themselves lies what is none.
            if !place.join("cgroup.procs").exists() || fs::create_dir(&path).is_err() {
                return None;
            }
            if path.join(limit).exists() {
                Some(Self { path, limit })
            } else {
                drop(fs::remove_dir(&path));
                None
            }
        });
        let why = format!("no control group of {name} can be had here");
        needed(made.is_some(), &why)?;
        made
    }

    /// Takes a process in; those that it starts from then on are in it, too.
    pub(super) fn admit(&self, process: i32) {
        tell_kernel(&self.path.join("cgroup.procs"), &process.to_string());
    }

    pub(super) fn limit(&self, to: &str) {
        tell_kernel(&self.path.join(self.limit), to);
    }

    /// Takes the group away, once what was in it has ended.
    pub(super) async fn remove(self) {
        let path = &self.path;
        let gone = || async { fs::remove_dir(path).is_ok() || !path.exists() };
        eventually("gone", gone, |gone| *gone).await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.path));
    }
}
