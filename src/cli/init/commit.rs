//! Puts several new files in place, all or none.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::sys::fs::create_private_file;

/// The files could not be put in place; none of them is.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .path.display())]
pub(super) struct CommitError {
    /// The file at which it failed.
    pub(super) path: PathBuf,
    /// Why.
    pub(super) source: io::Error,
}

/// Writes every text beside its place first and then moves all into place; what was moved is taken away again when
/// a later one fails. A file that appears meanwhile is not overwritten.
pub(super) fn commit(files: &[(&Path, &str)], suffix: &str) -> Result<(), CommitError> {
    commit_with(files, suffix, |from, to| {
        renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from)
    })
}

fn commit_with(
    files: &[(&Path, &str)],
    suffix: &str,
    mut place: impl FnMut(&Path, &Path) -> io::Result<()>,
) -> Result<(), CommitError> {
    let mut staged = Removed::default();
    for (path, text) in files {
        let temporary = temporary(path, suffix);
        create_private_file(&temporary, text.as_bytes()).map_err(|source| CommitError {
            path: path.to_path_buf(),
            source,
        })?;
        staged.0.push(temporary);
    }
    let mut placed = Removed::default();
    for ((path, _text), temporary) in files.iter().zip(&staged.0) {
        place(temporary, path).map_err(|source| CommitError {
            path: path.to_path_buf(),
            source,
        })?;
        placed.0.push(path.to_path_buf());
    }
    for (path, _text) in files {
        sync_directory(path).map_err(|source| CommitError {
            path: path.to_path_buf(),
            source,
        })?;
    }
    placed.0.clear();
    Ok(())
}

/// Files that are removed again when this is dropped; those that were moved away are gone already.
#[derive(Debug, Default)]
struct Removed(Vec<PathBuf>);

impl Drop for Removed {
    fn drop(&mut self) {
        for path in self.0.drain(..).rev() {
            drop(fs::remove_file(path));
        }
    }
}

fn temporary(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn all_files_are_placed_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        commit(&[(&a, "1"), (&b, "2")], "tmp").unwrap();
        assert_eq!(names_in(folder.path()), ["a", "b"]);
        assert_eq!(fs::read_to_string(&b).unwrap(), "2");
        assert_eq!(fs::metadata(&a).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_failure_at_any_file_leaves_none() {
        for failing in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
            let files: Vec<_> = paths.iter().map(|path| (path.as_path(), "text")).collect();
            let mut moves = 0;
            let outcome = commit_with(&files, "tmp", |from, to| {
                moves += 1;
                if moves > failing {
                    Err(io::Error::other("disk full"))
                } else {
                    fs::rename(from, to)
                }
            });
            assert_eq!(outcome.unwrap_err().path, paths[failing], "failing at {failing}");
            assert_eq!(names_in(folder.path()), [""; 0], "failing at {failing}");
        }
    }

    #[test]
    fn a_file_that_appeared_meanwhile_is_kept_and_the_others_are_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        create_private_file(&b, b"theirs").unwrap();
        let failure = commit(&[(&a, "1"), (&b, "2")], "tmp").unwrap_err();
        assert_eq!(failure.path, b);
        assert_eq!(names_in(folder.path()), ["b"]);
        assert_eq!(fs::read_to_string(&b).unwrap(), "theirs");
    }

    #[test]
    fn a_text_that_cannot_be_staged_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("missing/b"));
        let failure = commit(&[(&a, "1"), (&b, "2")], "tmp").unwrap_err();
        assert_eq!(failure.path, b);
        assert_eq!(names_in(folder.path()), [""; 0]);
    }
}
