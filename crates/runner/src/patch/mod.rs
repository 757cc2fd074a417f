//! A patch, applied to a directory: all of it or nothing.
//!
//! The leader of a run does it ([`super::execute`]), so with the rights of the commands and where they run. It first
//! looks at everything and works it out ([`plan`]); until that is done, it must never write. Then it writes every new
//! content beside its place, and only then exchanges names, each in one step of the kernel, and back again when one of
//! them fails ([`commit`]). It removes what it put aside last. A process that dies in between leaves each file with
//! its old content or its new one, and names that the next patch in the same directory removes. Entry point:
//! [`apply`].

mod commit;
mod plan;

#[cfg(test)]
mod tests;

use std::path::Path;

use rustix::io::Errno;

use countersign_protocol::patch::{Failure, HunkError, Patch, PatchPath, PathFault};
use countersign_sys::{
    beneath::{LookupScope, NotFound, Root},
    hooks,
};

use super::wire::PatchOrder;

use plan::Tree;

/// Applies a patch to the working directory.
pub(super) fn apply(order: &PatchOrder) -> Result<Patch, Failure> {
    apply_in(Path::new("."), order)
}

fn apply_in(directory: &Path, order: &PatchOrder) -> Result<Patch, Failure> {
    let nowhere = |detail: String| Failure {
        path: None,
        hunk: None,
        detail,
        not_restored: Vec::new(),
    };
    let patch = Patch::parse(&order.text).map_err(|error| nowhere(error.to_string()))?;
    let reach = if order.workspace_only {
        LookupScope::Beneath
    } else {
        LookupScope::Anywhere
    };
    let root = Root::open(directory, reach)
        .map_err(|errno| nowhere(format!("the directory cannot be opened: {}", errno_text(errno))))?;
    let mut tree = Tree::new(&root, order);
    for operation in patch.operations() {
        tree.take(operation)?;
    }
    let changes = tree.into_changes()?;
    hooks::pause("patch.checked");
    commit::commit(&changes)?;
    Ok(patch)
}

/// Why a patch is not applied.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("there is no such file")]
    Missing,
    #[error("there is something of this name already")]
    Exists,
    #[error("it is a directory")]
    Directory,
    #[error("it is neither a file nor a link")]
    Special,
    #[error("it is a symbolic link, which can be deleted and not moved")]
    Link,
    #[error("it lies outside of the workspace (tools.exec.applyPatch.workspaceOnly)")]
    Outside,
    #[error("it belongs to the server itself")]
    OffLimits,
    #[error("{0}")]
    Path(PathFault),
    #[error("a part of its path is not a directory")]
    NotADirectory,
    #[error("it is read-only")]
    ReadOnly,
    #[error("it is not UTF-8 text; such a file can be moved or deleted as a whole")]
    NotText,
    #[error("it is larger than {} bytes", countersign_protocol::patch::MAX_FILE_BYTES)]
    TooLarge,
    #[error("the patch works on too much text at once; send it in several")]
    TooMuch,
    #[error("{0}")]
    Hunk(HunkError),
    #[error("it changed while the patch was applied")]
    Changed,
    #[error("its owner cannot be kept")]
    Owner,
    #[error("{what}: {}", errno_text(*errno))]
    System { what: &'static str, errno: Errno },
}

impl Trouble {
    const fn system(what: &'static str, errno: Errno) -> Self {
        Self::System { what, errno }
    }

    fn at(&self, path: &PatchPath) -> Failure {
        let hunk = if let Self::Hunk(error) = self {
            Some(error.hunk)
        } else {
            None
        };
        Failure {
            path: Some(path.as_str().to_owned()),
            hunk,
            detail: format!("{path}: {self}"),
            not_restored: Vec::new(),
        }
    }
}

impl From<NotFound> for Trouble {
    fn from(error: NotFound) -> Self {
        match error {
            NotFound::Outside => Self::Outside,
            NotFound::NotADirectory => Self::NotADirectory,
            NotFound::Dangling => Self::Missing,
            NotFound::System(errno) => Self::system("its path cannot be followed", errno),
        }
    }
}

/// What the kernel said, without its number.
fn errno_text(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.rsplit_once(" (os error")
        .map_or_else(|| text.clone(), |(words, _number)| words.to_owned())
}
