//! Which processes of a run come from which, as far as the system still shows it.
//!
//! A process that ends leaves its children to another parent: to one outside of the run, or to the first process of their
//! space of process numbers. So a process whose ancestors are all there, up to one that was started from outside, comes
//! from each of them, unless the run itself makes parents ([`Lineage::tangle`]).

use std::fs;

use countersign_sys::process::{self, Pid};

use super::processes::field_of;

/// Ancestors of one process in a run: more are only made on purpose.
const MAX_DEPTH: usize = 256;
/// Processes between this one and those that it started.
const MAX_BETWEEN: usize = 4;

/// The first processes of a run's programs, and what is known of their kin.
#[derive(Debug)]
pub(super) struct Lineage {
    /// Each with when it began.
    firsts: Vec<(Pid, u64)>,
    /// Filters of this process. Those of the run have more.
    own_filters: u64,
    is_tangled: bool,
}

/// A process and its parent.
struct Kin {
    group: Pid,
    parent: Pid,
    filters: u64,
    /// Whether it is the first of a space of process numbers, and so the parent of what others leave behind.
    adopts: bool,
}

impl Lineage {
    pub(super) fn new() -> Self {
        let own = Kin::of(process::own_id());
        Self {
            firsts: Vec::new(),
            own_filters: own.map_or(0, |own| own.filters),
            is_tangled: false,
        }
    }

    /// From now on a parent may be one that the run chose.
    pub(super) const fn tangle(&mut self) {
        self.is_tangled = true;
    }

    /// Notes the first process of a program, by the first thread of it that calls.
    pub(super) fn begin(&mut self, thread: Pid) -> Pid {
        let is_started_here = |found: &process::Process| found.parent == process::own_id();
        let first = match process::inspect(thread) {
            Some(found) if is_started_here(&found) => found.pid,
            _ => self.topmost(thread).unwrap_or(thread),
        };
        if let Some(found) = process::inspect(first) {
            self.firsts.push((first, found.start_time));
        }
        first
    }

    /// Whether a process that it comes from may be gone.
    pub(super) fn is_orphan(&self, thread: Pid) -> bool {
        // An ancestor that ends just now is looked for once more.
        let topmost = || self.topmost(thread);
        self.is_tangled || topmost().or_else(topmost).is_none_or(|top| !self.is_first(top))
    }

    /// Whether anything may be left of what processes started that are gone.
    pub(super) fn has_orphans(&self) -> bool {
        // What one of them leaves behind while they are counted is found the second time.
        self.is_tangled || (0..2).any(|_| self.finds_orphan(process::own_id(), MAX_BETWEEN))
    }

    fn finds_orphan(&self, parent: Pid, depth: usize) -> bool {
        let Ok(children) = process::children(parent) else {
            return true;
        };
        children.into_iter().any(|child| match Kin::of(child) {
            Some(kin) if self.is_of_run(&kin) => !self.is_first(child),
            Some(_) => depth == 0 || self.finds_orphan(child, depth - 1),
            None => false,
        })
    }

    /// The one that was started from outside of the run, or was left to it.
    fn topmost(&self, thread: Pid) -> Option<Pid> {
        let mut kin = Kin::of(thread)?;
        for _ in 0..MAX_DEPTH {
            if kin.parent == 0 {
                return Some(kin.group);
            }
            let parent = Kin::of(kin.parent)?;
            if !self.is_of_run(&parent) {
                return Some(kin.group);
            }
            kin = parent;
        }
        None
    }

    const fn is_of_run(&self, kin: &Kin) -> bool {
        kin.filters > self.own_filters && !kin.adopts
    }

    fn is_first(&self, process: Pid) -> bool {
        let began = || process::inspect(process).map(|found| found.start_time);
        let mut firsts = self.firsts.iter();
        firsts.any(|(first, first_began)| *first == process && began() == Some(*first_began))
    }
}

impl Kin {
    fn of(process: Pid) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name| field_of(status, name);
        let number = |name| field(name)?.parse().ok();
        Some(Self {
            group: number("Tgid:")?,
            parent: number("PPid:")?,
            filters: field("Seccomp_filters:")?.parse().ok()?,
            adopts: field("NSpid:")?.split_ascii_whitespace().next_back() == Some("1"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_of_a_process_is_read() {
        let text =
            "Name:\ta b\nTgid:\t7\nPid:\t9\nPPid:\t3\nNSpid:\t9\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n";
        let kin = Kin::parse(text).unwrap();
        assert_eq!((kin.group, kin.parent, kin.filters, kin.adopts), (7, 3, 2, true));
        assert!(!Kin::parse(&text.replace("\t1\n", "\t11\n")).unwrap().adopts);
        assert!(Kin::parse(&text.replace("PPid", "Pid")).is_none());
    }

    #[test]
    fn a_process_outside_of_the_run_is_nobodys_child_in_it() {
        let lineage = Lineage::new();
        assert!(lineage.is_orphan(process::own_id()));
        assert!(!lineage.has_orphans());
    }

    #[test]
    fn where_the_run_makes_parents_no_parent_says_anything() {
        let mut lineage = Lineage::new();
        lineage.tangle();
        assert!(lineage.has_orphans() && lineage.is_orphan(process::own_id()));
    }
}
