//! Patches as agents write them (`docs/spec/exec-tool.md#9-apply_patch`): text to operations, and hunks to the text of
//! a file.
//!
//! Pure: it must never open a file. Others say what the files are, and change them (`crates/runner/src/patch/mod.rs`).
//! [`Patch::parse`] reads the whole envelope, or refuses it and names the line at fault. [`apply()`] makes the new
//! text of one file of the old one, or says which hunk does not fit. Both take time in proportion to their input, for
//! any input.

mod apply;
mod limits;
mod matching;
mod parse;
mod path;
mod report;

pub use apply::{HunkError, apply};
pub use limits::{MAX_FILE_BYTES, MAX_OPERATIONS};
pub use parse::{Fault, ParseError};
pub use path::{PatchPath, PathFault, TEMPORARY_PREFIX};
pub use report::{Failure, applied};

use countersign_domain::vocabulary;

/// A whole patch. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    operations: Vec<Operation>,
}

/// What happens to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Add {
        /// Where.
        path: PatchPath,
        /// With this content.
        content: String,
    },
    /// It is removed.
    Delete {
        /// Which.
        path: PatchPath,
    },
    /// Its text is changed, its place, or both.
    Update {
        /// Which.
        path: PatchPath,
        /// Where it goes; `None` where it stays.
        to: Option<PatchPath>,
        /// What changes; empty only where it goes somewhere.
        hunks: Vec<Hunk>,
    },
}

/// One place of a file that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Lines that come before it, in this order, which need not be next to it.
    pub contexts: Vec<String>,
    /// Lines that it keeps, removes and inserts, from top to bottom.
    pub lines: Vec<Line>,
    /// Whether the file ends with it.
    pub at_end: bool,
}

/// A line of a hunk, without its ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// It is there and stays.
    Keep(String),
    /// It is there and goes.
    Remove(String),
    /// It is new.
    Insert(String),
}

vocabulary! {
    /// What became of a file.
    pub enum ChangeKind("added, updated, deleted or moved") {
        /// It was made.
        Added = "added",
        /// Its text was changed.
        Updated = "updated",
        /// It was removed.
        Deleted = "deleted",
        /// It is somewhere else, and its text may have changed.
        Moved = "moved",
    }
}

#[cfg(feature = "schema")]
countersign_domain::word_schemas!(ChangeKind);

/// One file that a patch changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileChange<'a> {
    /// Where the file is now, or was.
    pub path: &'a PatchPath,
    /// What becomes of it.
    pub kind: ChangeKind,
    /// Where it was before it was moved.
    pub from: Option<&'a PatchPath>,
}

impl Patch {
    /// Reads a patch.
    ///
    /// # Errors
    /// [`ParseError`] with the line at fault.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text).map(|operations| Self { operations })
    }

    /// What it does, in its order; each operation finds what those before it made.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The files that it changes, in its order.
    pub fn changes(&self) -> impl Iterator<Item = FileChange<'_>> {
        self.operations.iter().map(Operation::change)
    }

    /// What it does in a few words.
    pub fn summary(&self) -> String {
        let count = |kind| self.changes().filter(|change| change.kind == kind).count();
        let parts: Vec<String> = ChangeKind::ALL
            .iter()
            .map(|kind| (count(*kind), kind))
            .filter(|(count, _kind)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        parts.join(", ")
    }
}

impl Operation {
    /// The file that it changes.
    pub fn change(&self) -> FileChange<'_> {
        let change = |path, kind| FileChange {
            path,
            kind,
            from: None,
        };
        match self {
            Self::Add { path, content: _ } => change(path, ChangeKind::Added),
            Self::Delete { path } => change(path, ChangeKind::Deleted),
            Self::Update { path, to: None, .. } => change(path, ChangeKind::Updated),
            Self::Update {
                path, to: Some(to), ..
            } => FileChange {
                path: to,
                kind: ChangeKind::Moved,
                from: Some(path),
            },
        }
    }
}

#[cfg(test)]
mod tests;
