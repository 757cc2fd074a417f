//! A node's files as far as they are known here: the programs that it found by name.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use countersign_domain::FileIdentity;
use countersign_policy::command::{DirectoryTrust, Inspected, PathLookup, paths};

/// Stands for a directory of the node that nobody named: its home, or where it starts commands. Nothing is found below it.
pub const UNKNOWN_DIRECTORY: &str = "/\u{fffd}unknown";

/// Looks names up in what a node said, and notes those that nobody asked the node about yet.
///
/// A path is taken for the file that it names: links of the node cannot be seen from here. Therefore what rests on the node's
/// allowlist is sent without a decision, and the node looks itself ([`super::calls::Allowed::ByAllowlist`]).
#[derive(Debug)]
pub struct NodeLookup<'a> {
    programs: &'a HashMap<String, Option<String>>,
    unasked: Mutex<BTreeSet<String>>,
}

impl<'a> NodeLookup<'a> {
    /// Over what is known of the programs of a node; `None` for one that it does not have.
    pub const fn new(programs: &'a HashMap<String, Option<String>>) -> Self {
        Self {
            programs,
            unasked: Mutex::new(BTreeSet::new()),
        }
    }

    /// The names that were looked for and that the node was not asked about.
    pub fn into_unasked(self) -> BTreeSet<String> {
        self.unasked.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PathLookup for NodeLookup<'_> {
    fn search(&self, name: &str) -> Option<String> {
        if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
            return None;
        }
        if let Some(known) = self.programs.get(name) {
            return known.clone();
        }
        self.unasked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned());
        None
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        let real = self.real(path)?;
        let identity = FileIdentity {
            path: real.clone(),
            dev: 0,
            ino: 0,
            size: 0,
            mtime_ns: 0,
            ctime_ns: 0,
        };
        Some(Inspected { real, identity })
    }

    fn real(&self, path: &str) -> Option<String> {
        let is_somewhere = path.starts_with('/') && !paths::is_within(path, UNKNOWN_DIRECTORY);
        is_somewhere.then(|| paths::normalise(path))
    }

    fn depends_on_process(&self, path: &str) -> bool {
        ["/proc", "/dev/fd"]
            .iter()
            .any(|place| paths::is_within(path, place))
    }

    fn home(&self) -> &str {
        UNKNOWN_DIRECTORY
    }

    /// Who may write to a directory of a node is the node's affair: it is its own machine that a lie would harm.
    fn directory_trust(&self, _directory: &str) -> DirectoryTrust {
        DirectoryTrust::Ours
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_node_said_and_the_rest_is_to_be_asked() {
        let programs = HashMap::from([
            ("git".to_owned(), Some("/usr/bin/git".to_owned())),
            ("nope".to_owned(), None),
        ]);
        let lookup = NodeLookup::new(&programs);
        assert_eq!(lookup.search("git").as_deref(), Some("/usr/bin/git"));
        for nothing in ["nope", "curl", "a/b", "..", ""] {
            assert_eq!(lookup.search(nothing), None, "{nothing}");
        }
        assert_eq!(lookup.into_unasked(), BTreeSet::from(["curl".to_owned()]));
    }

    #[test]
    fn nothing_is_found_in_a_directory_that_nobody_named() {
        let programs = HashMap::new();
        let lookup = NodeLookup::new(&programs);
        let below = paths::join_normalised(UNKNOWN_DIRECTORY, "./run");
        assert!(lookup.inspect(&below).is_none());
        assert!(lookup.inspect("run").is_none());
        assert_eq!(lookup.inspect("/opt//x/../run").unwrap().real, "/opt/run");
        assert!(lookup.depends_on_process("/proc/self/cwd/x"));
        assert!(!lookup.depends_on_process("/process"));
    }
}
