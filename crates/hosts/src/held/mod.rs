//! Held texts on this machine: whether it can keep one, and what one sees (`docs/held-texts.md`).
//!
//! A held text runs in the walls of the built-in sandbox, but at the paths, in the environment and under the account that
//! every run of this machine has. It sees the system's directories, the agent's workspace and a `/tmp` of its own. No file
//! can be executed, or mapped as a program, but those of the set and the libraries of the system; which those are the
//! policy decides ([`countersign_policy::held`]).

mod elf;
mod layout;
mod libraries;
mod survey;

use std::path::{Path, PathBuf};

use countersign_sys::landlock;

use crate::sandbox::{
    Unusable,
    builtin::{self, Sources},
};

pub use elf::{Kind, kind_of};
pub(crate) use layout::{Held, describe, environment};
pub(crate) use survey::survey;

/// Trees of the machine that are no workspace of anybody.
const NO_WORKSPACE: [&str; 11] = [
    "/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/run", "/sbin", "/usr", "/var/lib",
];

/// Whether this machine can keep a held text. The first call tries it, and blocks for as long.
///
/// # Errors
/// [`Unusable`] says what is missing.
pub fn probe() -> Result<(), Unusable> {
    let version = landlock::version();
    if version < landlock::SCOPES_SINCE {
        return Err(Unusable(format!(
            "this kernel has version {version} of Landlock, and a held text needs version {}",
            landlock::SCOPES_SINCE
        )));
    }
    builtin::probe()?;
    libraries::of_this_machine().map(|_found| ())
}

/// Whether a directory can be the workspace of a held text. `own` is the server's own directory, `home` that of the account.
///
/// # Errors
/// [`Unusable`] says what stands against it.
pub(crate) fn check_workspace(own: &Path, home: &Path, workspace: &Path) -> Result<(), Unusable> {
    let home = home.canonicalize().unwrap_or_else(|_unseen| home.to_owned());
    if home.starts_with(workspace) {
        return Err(Unusable(format!(
            "the workspace {}: the home directory lies in it",
            workspace.display()
        )));
    }
    check_place(own, workspace)
}

/// The same but for the home directory.
///
/// # Errors
/// As [`check_workspace`].
pub(crate) fn check_place(own: &Path, workspace: &Path) -> Result<(), Unusable> {
    if NO_WORKSPACE.iter().any(|tree| workspace.starts_with(tree)) {
        return Err(Unusable(format!(
            "the workspace {}: it is a directory of the system",
            workspace.display()
        )));
    }
    Sources::of(own).check(workspace)
}

/// Something in a workspace that a held text cannot move: a mount lies over it. No link is on the way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub(crate) path: PathBuf,
    /// Device and inode.
    pub(crate) inode: (u64, u64),
    /// Whether it decides what starts and cannot be changed either. Otherwise it is a directory with such a thing below.
    pub(crate) decides: bool,
}
