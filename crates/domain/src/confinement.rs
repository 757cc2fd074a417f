//! What the kernel keeps of a command: which programs its programs may start, where they write, where they connect.
//!
//! [`Confine`] is what an allowlist entry says. [`Confinement`] is what became of it for one command: part of the
//! binding, so that an approval covers it, and of the record (`docs/spec/approvals-store.md#3-fields`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::FileIdentity;

/// What an allowlist entry lets its program do (`confine`). What it does not say has a default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Confine {
    /// Which programs its program may start; `None` for the default.
    pub starts: Option<Starts>,
    /// Where it may write; `None` for anywhere.
    pub writes: Option<Vec<WritePlace>>,
    /// To which TCP ports it may connect; `None` for any.
    pub connects: Option<Vec<u16>>,
}

/// Which programs a program may start (`starts`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Starts {
    /// Any.
    Any,
    /// Those of its helper profile (`judged` is true) and these.
    These {
        /// Whether the helper profile of the program counts too.
        judged: bool,
        /// Each a name that is looked up on the PATH, an absolute path, or `DIRECTORY/**` for everything below one.
        programs: Vec<String>,
    },
}

/// A place where a program may write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritePlace {
    /// The working directory of the call and everything below.
    Workspace,
    /// `/tmp` and `/var/tmp`.
    Tmp,
    /// A file, or a directory and everything below. Absolute, with `~/` put in.
    Path(String),
}

/// What the kernel keeps of one command, for each program that its plan starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// In the order in which the plan starts them, builtins not counted; one without limits is among them.
    pub programs: Vec<ProgramLimits>,
    /// Why the kernel does not keep it, where it would otherwise: the rules about the text count alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_kept: Option<NotKept>,
}

/// What the kernel lets one program of a plan do, with everything that it starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramLimits {
    /// Its name, for people.
    pub program: String,
    /// The files that can be executed; `None` for any. Those that the program itself needs are not among them: its own
    /// file, its loader, and the interpreter that its first line names.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub starts: Option<Vec<Startable>>,
    /// Where it can write; `None` for anywhere. Devices such as `/dev/null` are always writable.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub writes: Option<BTreeSet<WritePlace>>,
    /// TCP ports that it can connect to; `None` for any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub connects: Option<BTreeSet<u16>>,
}

/// A file that can be executed, or a directory below which all can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Startable {
    /// This very file; one that takes its place at its path is not executable.
    File(FileIdentity),
    /// Everything below the directory with this real path.
    Below(String),
}

/// Why the kernel does not keep what a program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotKept {
    /// A program of the command is set-uid, set-gid or has capabilities, and the isolation level lets it use them.
    GainsPrivileges,
    /// The kernel, or the place where it runs, cannot.
    Unsupported,
}

impl Confinement {
    /// Whether nothing is limited and nothing would be.
    pub fn is_open(&self) -> bool {
        self.not_kept.is_none() && self.programs.iter().all(ProgramLimits::is_open)
    }
}

impl Confinement {
    /// What two policies both let the programs of one plan do.
    #[must_use]
    pub fn strictest(self, other: &Self) -> Self {
        if self.programs.len() != other.programs.len() {
            // One of them limits nothing, and has no programs; two plans of one command are the same.
            let (programs, not_kept) = if self.programs.is_empty() {
                (other.programs.clone(), self.not_kept.or(other.not_kept))
            } else {
                (self.programs, self.not_kept.or(other.not_kept))
            };
            return Self { programs, not_kept };
        }
        Self {
            programs: self
                .programs
                .into_iter()
                .zip(&other.programs)
                .map(|(one, two)| one.strictest(two))
                .collect(),
            not_kept: self.not_kept.or(other.not_kept),
        }
    }
}

impl ProgramLimits {
    fn strictest(self, other: &Self) -> Self {
        Self {
            program: self.program,
            starts: both(self.starts, other.starts.as_ref(), |mut mine, theirs| {
                mine.retain(|one| theirs.contains(one));
                mine
            }),
            writes: both(self.writes, other.writes.as_ref(), |mut mine, theirs| {
                mine.retain(|one| theirs.contains(one));
                mine
            }),
            connects: both(self.connects, other.connects.as_ref(), |mut mine, theirs| {
                mine.retain(|one| theirs.contains(one));
                mine
            }),
        }
    }

    /// Whether nothing is limited.
    pub const fn is_open(&self) -> bool {
        self.starts.is_none() && self.writes.is_none() && self.connects.is_none()
    }
}

/// What is in both limits; `None` is no limit.
fn both<T: Clone>(mine: Option<T>, theirs: Option<&T>, common: impl FnOnce(T, &T) -> T) -> Option<T> {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => Some(common(mine, theirs)),
        (Some(mine), None) => Some(mine),
        (None, theirs) => theirs.cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(starts: Option<&[&str]>, connects: Option<&[u16]>) -> Confinement {
        let below = |path: &&str| Startable::Below((*path).to_owned());
        Confinement {
            programs: vec![ProgramLimits {
                program: "x".to_owned(),
                starts: starts.map(|starts| starts.iter().map(below).collect()),
                writes: None,
                connects: connects.map(|ports| ports.iter().copied().collect()),
            }],
            not_kept: None,
        }
    }

    #[test]
    fn of_two_policies_what_both_let_be_done() {
        let one = limits(Some(&["/a", "/b"]), None);
        let two = limits(Some(&["/b", "/c"]), Some(&[22]));
        let both = limits(Some(&["/b"]), Some(&[22]));
        assert_eq!(one.clone().strictest(&two), both);
        assert_eq!(two.strictest(&one), both);
        assert_eq!(one.clone().strictest(&Confinement::default()), one);
        assert_eq!(Confinement::default().strictest(&one), one);
    }
}
